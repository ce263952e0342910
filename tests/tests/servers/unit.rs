//! `Muster::Unit` on a real systemd: applied, repeated, changed, failed, compared, restored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_host::files::Files;
use muster_host::resource::Fault as _;
use muster_host::systemd::Systemd;
use muster_host::unit::{UnitBefore, UnitFault, Units};
use muster_shared::ResourceId;
use muster_shared::model::{OnDelete, Unit, UnitActive};
use muster_testbed::SystemdServer;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const FOLDER: &str = "/etc/systemd/system";
const OWNER: ResourceId = ResourceId(uuid::Uuid::from_u128(7));
const GOOD: &str = "[Service]\nExecStart=sleep 1000\n[Install]\nWantedBy=multi-user.target\n";
/// Another's unit, as a package brings it.
const THEIRS: &str = "[Service]\\nExecStart=sleep 1000\\n[Install]\\nWantedBy=multi-user.target\\n";

/// A server, and what the host does to its units, from outside.
struct UnitServer {
    server: SystemdServer,
    units: Units,
    runtime: Runtime,
    _aside: TempDir,
}

impl UnitServer {
    fn start() -> Self {
        let server = SystemdServer::start("units");
        let run = server.run();
        let root = run.parent().unwrap().to_owned();
        let pid = root.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let aside = TempDir::new().unwrap();
        let journal = ["nsenter", "-t", pid.as_str(), "-a", "journalctl"].map(str::to_owned);
        let units = Units::new(Systemd::new(run), Files::new(aside.path().to_owned()));
        let units = units.at(root.join(FOLDER.trim_start_matches('/')), journal.to_vec());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { server, units, runtime, _aside: aside }
    }

    fn capture(&self, unit: &Unit) -> UnitBefore {
        self.runtime.block_on(self.units.capture(unit, None)).unwrap()
    }

    fn apply(&self, unit: &Unit, before: UnitBefore) -> Result<(UnitBefore, bool), UnitFault> {
        self.runtime.block_on(self.units.apply(OWNER, unit, before))
    }

    fn restore(&self, unit: &Unit, before: &UnitBefore) {
        self.runtime.block_on(self.units.restore(OWNER, unit, before)).unwrap();
    }

    fn check(&self, unit: &Unit) -> Vec<String> {
        self.runtime.block_on(self.units.check(unit)).unwrap()
    }

    fn show(&self, unit: &str, property: &str) -> String {
        self.server.sh(&format!("systemctl show -P {property} {unit}")).trim().to_owned()
    }

    /// The contents of the folder of units, and the enabled ones.
    fn listing(&self) -> String {
        let found = self.server.sh(&format!("find {FOLDER} -printf '%p %y %m %U %l\\n' | sort"));
        found + &self.server.sh("systemctl --failed --plain --no-legend")
    }
}

fn unit(name: &str) -> Unit {
    Unit {
        name: name.into(),
        content: None,
        drop_ins: BTreeMap::new(),
        enabled: None,
        active: Some(UnitActive::Started),
        masked: None,
        restart_on: String::new(),
        reload_on: String::new(),
        settle: 1,
        on_delete: OnDelete::Restore,
    }
}

#[test]
fn a_unit_of_our_own_comes_runs_changes_and_goes() {
    let host = UnitServer::start();
    let empty = host.listing();
    let ours = Unit { content: Some(GOOD.into()), enabled: Some(true), ..unit("ours.service") };
    let before = host.capture(&ours);
    let (before, touched) = host.apply(&ours, before).unwrap();
    assert!(touched);
    assert_eq!(host.show("ours", "ActiveState"), "active");
    assert_eq!(host.show("ours", "UnitFileState"), "enabled");
    assert_eq!(host.check(&ours), Vec::<String>::new());

    let invocation = host.show("ours", "InvocationID");
    let (before, touched) = host.apply(&ours, before).unwrap();
    assert!(!touched, "all is so already");
    assert_eq!(host.show("ours", "InvocationID"), invocation, "and nothing was restarted");

    // Another drop-in, another thing to be restarted on: each a restart of its own. To be reloaded on: a reload.
    let nice = ("nice.conf".to_owned(), "[Service]\nNice=5\n".to_owned());
    let changed = Unit { drop_ins: [nice].into(), ..ours.clone() };
    let before = host.runtime.block_on(host.units.capture(&changed, Some(before))).unwrap();
    let (before, _) = host.apply(&changed, before).unwrap();
    assert_eq!(host.show("ours", "Nice"), "5");
    let second = host.show("ours", "InvocationID");
    assert_ne!(second, invocation);
    let on = Unit { restart_on: "1".into(), ..changed.clone() };
    let (before, touched) = host.apply(&on, before).unwrap();
    assert!(touched);
    assert_ne!(host.show("ours", "InvocationID"), second);

    // What is not wanted any more goes.
    let (before, _) = host.apply(&ours, before).unwrap();
    host.server.fails(&format!("ls {FOLDER}/ours.service.d"));

    host.restore(&ours, &before);
    assert_eq!(host.listing(), empty);
    assert_eq!(host.show("ours", "LoadState"), "not-found");
    host.server.fails("pgrep -x sleep");
    host.restore(&ours, &before);
    assert_eq!(host.listing(), empty, "and again");
}

#[test]
fn a_foreign_unit_is_restored_as_it_was_before_muster() {
    let host = UnitServer::start();
    host.server.sh(&format!(
        "printf '{THEIRS}' >/lib/systemd/system/theirs.service
        mkdir {FOLDER}/theirs.service.d; printf '[Service]\\nNice=2\\n' >{FOLDER}/theirs.service.d/nice.conf
        systemctl daemon-reload; systemctl enable --now theirs"
    ));
    let was = host.listing();
    let nice = ("nice.conf".to_owned(), "[Service]\nNice=5\n".to_owned());
    let wanted = Unit { drop_ins: [nice].into(), ..unit("theirs.service") };
    let before = host.capture(&wanted);
    let (before, _) = host.apply(&wanted, before).unwrap();
    assert_eq!(host.show("theirs", "Nice"), "5");

    let stopped = Unit { active: Some(UnitActive::Stopped), enabled: Some(false), ..wanted.clone() };
    let (before, _) = host.apply(&stopped, before).unwrap();
    assert_eq!((host.show("theirs", "ActiveState"), host.show("theirs", "UnitFileState")).0, "inactive");
    assert_eq!(host.show("theirs", "UnitFileState"), "disabled");
    let masked = Unit { masked: Some(true), ..stopped.clone() };
    let (before, _) = host.apply(&masked, before).unwrap();
    assert_eq!(host.show("theirs", "UnitFileState"), "masked");
    assert_eq!(host.check(&masked), Vec::<String>::new());
    host.server.sh("systemctl unmask theirs; systemctl enable --now theirs");
    assert_eq!(host.check(&masked), ["it is enabled", "it is not masked", "it runs"]);

    let (before, _) = host.apply(&masked, before).unwrap();
    host.restore(&masked, &before);
    assert_eq!(host.listing(), was);
    assert_eq!(host.show("theirs", "Nice"), "2");
    assert_eq!(host.show("theirs", "ActiveState"), "active");
}

#[test]
fn a_failing_unit_is_reported_with_its_log_and_the_old_one_runs() {
    let host = UnitServer::start();
    let empty = host.listing();
    let looping =
        "[Service]\nExecStart=sh -c 'echo no port is free; exit 4'\nRestart=always\nRestartSec=10ms\n";
    // Time enough to fail.
    let bad = Unit { content: Some(looping.into()), settle: 10, ..unit("ours.service") };
    let before = host.capture(&bad);
    let said = host.apply(&bad, before.clone()).map(drop).unwrap_err().to_string();
    assert!(said.contains("ours.service does not stay active"), "{said}");
    assert!(said.contains("its log ends: ") && said.contains("no port is free"), "{said}");
    assert!(said.ends_with("(what was there before this job is back)"), "{said}");
    assert_eq!(host.listing(), empty);

    // Over one that runs.
    let good = Unit { content: Some(GOOD.into()), ..unit("ours.service") };
    let (before, _) = host.apply(&good, before).unwrap();
    let said = host.apply(&bad, before.clone()).map(drop).unwrap_err().to_string();
    assert!(said.contains("no port is free"), "{said}");
    assert_eq!(host.show("ours", "ActiveState"), "active");
    assert_eq!(host.check(&good), Vec::<String>::new());

    let refused = "[Service]\nType=nothing\n";
    let unloadable = Unit { content: Some(refused.into()), ..unit("ours.service") };
    let fault = host.apply(&unloadable, before.clone()).map(drop).unwrap_err();
    assert!(fault.to_string().contains("systemd does not take ours.service (bad-setting)"), "{fault}");
    assert!(fault.is_permanent());
    assert_eq!(host.check(&good), Vec::<String>::new());

    let nowhere = Unit { enabled: Some(true), ..unit("none.service") };
    let fault = host.apply(&nowhere, host.capture(&nowhere)).map(drop).unwrap_err();
    assert!(fault.to_string().starts_with("there is no unit none.service: give its content"), "{fault}");
    let content = Some("[Service]\nExecStart=sleep 1000\n".into());
    let uninstallable = Unit { content, enabled: Some(true), ..unit("other.service") };
    let fault = host.apply(&uninstallable, host.capture(&uninstallable)).map(drop).unwrap_err();
    assert!(fault.to_string().contains("needs an [Install] section"), "{fault}");
    host.server.fails(&format!("ls {FOLDER}/other.service"));

    // A disk that is full: the folder is one that nothing more fits in.
    host.server.sh(&format!("mount -t tmpfs -o size=4k full {FOLDER}"));
    host.server.try_sh(&format!("head -c 8192 /dev/zero >{FOLDER}/filler"));
    let large = Unit { content: Some(format!("{GOOD}#{}\n", "x".repeat(9000))), ..unit("large.service") };
    let fault = host.apply(&large, host.capture(&large)).map(drop).unwrap_err().to_string();
    assert!(fault.contains("No space left on device"), "{fault}");
    assert_eq!(host.server.sh(&format!("ls -A {FOLDER}")), "filler\n");
    host.server.sh(&format!("umount {FOLDER}"));
    host.restore(&good, &before);
    assert_eq!(host.listing(), empty);
}

#[test]
fn what_a_crash_left_half_done_is_done() {
    let host = UnitServer::start();
    let empty = host.listing();
    let ours = Unit { content: Some(GOOD.into()), enabled: Some(true), ..unit("ours.service") };
    let before = host.capture(&ours);
    let path: PathBuf = format!("{FOLDER}/ours.service").into();
    // After each of the steps: the file, the reload, the links, the start.
    let steps = [
        format!("printf '{THEIRS}' >{}", path.display()),
        "systemctl daemon-reload".into(),
        "systemctl enable ours".into(),
        "systemctl start ours".into(),
    ];
    for done in 0..=steps.len() {
        host.server.sh(&steps[..done].join("\n"));
        let (kept, _) = host.apply(&ours, before.clone()).unwrap();
        assert_eq!(host.check(&ours), Vec::<String>::new(), "after {done} steps");
        host.restore(&ours, &kept);
        assert_eq!(host.listing(), empty, "after {done} steps");
    }
}
