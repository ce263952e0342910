//! The conversation with systemd: what is asked for happens, and its end and its errors are told.

use std::fs;
use std::time::Duration;

use muster_host::systemd::{Active, Bus, Command, FileVerb, Property, Systemd, SystemdError, Verb};
use muster_testbed::{PATIENCE, SystemdServer};
use tempfile::TempDir;

fn talk<T>(systemd: &Systemd, conversation: impl AsyncFnOnce(Bus) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { conversation(systemd.connect().await.unwrap()).await })
}

fn script(text: &str) -> Vec<(&'static str, Property)> {
    let arguments = ["sh", "-c", text].map(str::to_owned).to_vec();
    let command = Command { path: "/bin/sh".into(), arguments, may_fail: false };
    vec![
        ("Type", Property::Text("exec".into())),
        ("Description", Property::Text("a test".into())),
        ("Environment", Property::Texts(vec!["WORD=two words".into()])),
        ("StandardOutputFile", Property::Text("/root/out".into())),
        ("RemainAfterExit", Property::Flag(true)),
        ("RuntimeMaxUSec", Property::Number(60_000_000)),
        ("UMask", Property::Small(0o077)),
        ("Nice", Property::Signed(3)),
        ("ExecStart", Property::Commands(vec![command])),
    ]
}

fn unit(server: &SystemdServer, name: &str, text: &str) {
    server.sh(&format!("printf '{text}' >/etc/systemd/system/{name}"));
}

async fn until(bus: &Bus, unit: &str, active: Active) -> muster_host::systemd::UnitState {
    let mut watch = bus.watch(unit).await.unwrap();
    loop {
        let state = bus.state(unit).await.unwrap();
        if state.active == active {
            return state;
        }
        tokio::time::timeout(PATIENCE, watch.changed()).await.unwrap().unwrap();
    }
}

#[test]
fn a_unit_made_over_the_bus_runs_and_its_end_is_known() {
    let server = SystemdServer::start("dbus");
    let systemd = Systemd::new(server.run());
    talk(&systemd, async |bus| {
        let properties = script("echo \"$WORD $(umask) $(nice)\"; exit 3");
        assert!(bus.start_transient("made.service", &properties, PATIENCE).await.unwrap().is_done());
        let failed = until(&bus, "made.service", Active::Failed).await;
        assert_eq!((failed.exit_code, failed.exit_status, failed.result.as_str()), (1, 3, "exit-code"));
        assert_eq!(server.sh("cat /root/out"), "two words 0077 3\n");

        let again = bus.start_transient("made.service", &properties, PATIENCE).await.unwrap_err();
        assert!(again.is_unit_exists(), "{again}");
        bus.reset_failed("made.service").await.unwrap();
        assert!(!bus.state("made.service").await.unwrap().is_there(), "nothing of it is left");

        let properties = script("sleep 1000 & exec sleep 1000");
        assert!(bus.start_transient("made.service", &properties, PATIENCE).await.unwrap().is_done());
        let running = bus.state("made.service").await.unwrap();
        assert_eq!((running.active, running.sub.as_str()), (Active::Active, "running"));
        assert_eq!(running.control_group, "/system.slice/made.service");
        bus.kill("made.service", 9).await.unwrap();
        let killed = until(&bus, "made.service", Active::Failed).await;
        assert_eq!((killed.exit_code, killed.exit_status, killed.result.as_str()), (2, 9, "signal"));
        server.fails("pgrep -x sleep");

        let unknown = [("NoSuchProperty", Property::Flag(true))];
        let refused = bus.start_transient("other.service", &unknown, PATIENCE).await.unwrap_err();
        assert!(refused.to_string().contains("NoSuchProperty"), "{refused}");
    });
}

#[test]
fn units_are_started_and_enabled_and_what_fails_is_said() {
    let server = SystemdServer::start("dbus");
    unit(
        &server,
        "good.service",
        "[Service]\\nExecStart=sleep 1000\\n[Install]\\nWantedBy=multi-user.target\\n",
    );
    unit(&server, "bad.service", "[Service]\\nType=oneshot\\nExecStart=false\\n");
    unit(&server, "slow.service", "[Service]\\nType=oneshot\\nExecStart=sleep 1000\\n");
    unit(&server, "wrong.service", "[Service]\\nType=nothing\\n");
    talk(&Systemd::new(server.run()), async |bus| {
        bus.reload().await.unwrap();
        assert!(bus.tell(Verb::Start, "good.service", PATIENCE).await.unwrap().is_done());
        let first = bus.state("good.service").await.unwrap();
        assert_eq!((first.active, first.file_state.as_str()), (Active::Active, "disabled"));
        assert!(bus.tell(Verb::Restart, "good.service", PATIENCE).await.unwrap().is_done());
        let second = bus.state("good.service").await.unwrap();
        assert_ne!((&first.invocation, first.main_pid), (&second.invocation, second.main_pid));
        assert!(bus.tell(Verb::Stop, "good.service", PATIENCE).await.unwrap().is_done());
        assert_eq!(bus.state("good.service").await.unwrap().active, Active::Inactive);

        assert_eq!(bus.tell(Verb::Start, "bad.service", PATIENCE).await.unwrap().0, "failed");
        let slow = bus.tell(Verb::Start, "slow.service", Duration::from_millis(1)).await.unwrap_err();
        assert!(matches!(slow, SystemdError::TooLong { .. }), "{slow}");
        let none = bus.tell(Verb::Start, "none.service", PATIENCE).await.unwrap_err();
        assert!(none.is_no_such_unit(), "{none}");
        assert!(!bus.state("none.service").await.unwrap().is_there());
        let wrong = bus.state("wrong.service").await.unwrap();
        assert_eq!(wrong.load, "bad-setting", "{wrong:?}");

        let is = async || bus.file_state("good.service").await.unwrap();
        for (verb, then) in
            [(FileVerb::Enable, "enabled"), (FileVerb::Enable, "enabled"), (FileVerb::Disable, "disabled")]
        {
            bus.change_files(verb, &["good.service"]).await.unwrap();
            assert_eq!(is().await.as_deref(), Some(then), "{verb}");
        }
        bus.change_files(FileVerb::Mask, &["none.service"]).await.unwrap();
        bus.reload().await.unwrap();
        assert_eq!(bus.state("none.service").await.unwrap().load, "masked");
        bus.change_files(FileVerb::Unmask, &["none.service"]).await.unwrap();
        assert_eq!(bus.file_state("none.service").await.unwrap(), None);
        let refused = bus.change_files(FileVerb::Mask, &["good.service"]).await.unwrap_err();
        assert!(refused.to_string().contains("good.service"), "a file of its own is in the way: {refused}");
    });
}

#[test]
fn without_systemd_or_its_bus_that_is_said() {
    let run = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = || runtime.block_on(Systemd::new(run.path().to_owned()).connect()).unwrap_err();
    assert!(matches!(said(), SystemdError::Absent), "{}", said());
    fs::create_dir_all(run.path().join("systemd/system")).unwrap();
    assert!(said().to_string().contains("install dbus"), "{}", said());
    fs::create_dir(run.path().join("dbus")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(run.path().join("dbus/system_bus_socket")).unwrap());
    assert!(said().to_string().contains("refused"), "nobody listens: {}", said());
}
