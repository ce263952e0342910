//! The agent's own package, over a fleet: `Muster::Package` with a rollout changes the agents of three servers by apt. Each
//! ends in the middle of its own job, and its successor reports. An agent that does not come up stops the rollout at
//! its canary, where the earlier one is brought back. And by dnf, on one server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::{Namespace, Running, SystemdServer, eventually};
use muster_tests::site::Packages;
use serde_json::Value;
use tempfile::TempDir;

use crate::one_server::Installed;
use crate::package::PACKAGE;
use crate::package_dnf;

/// As the programs under test say it.
const BUILT: &str = env!("CARGO_PKG_VERSION");
/// Seconds in which an agent must be connected: enough for one on a machine that is five times slower.
const WITHIN: u32 = 30;

const TEMPLATE: &str = "
heat_template_version: 2018-08-31
parameters: {version: {type: string}}
resources:
  agent:
    type: Muster::Package
    for_each: {nodes: 'role=web'}
    rollout: {batch: 1, canary: 1, max_failures: 0}
    properties: {name: muster-agent, version: {get_param: version}, on_delete: keep}
";

/// On a server: its repository has the packages below `/srv/repo`.
const INDEX: &str = "
cd /srv/repo
for file in *.deb; do
  dpkg-deb -f $file
  printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' $file $(stat -c %s $file) $(sha256sum $file | cut -d ' ' -f 1)
done >Packages
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
apt-get update -qq";

/// Packages of one program: as built, one that says a newer version of itself, and those that do not start.
struct Agents {
    dir: TempDir,
    built: Packages,
}

impl Agents {
    fn make() -> Self {
        Self { dir: TempDir::new().unwrap(), built: Packages::make("deb", BUILT) }
    }

    /// The version with another last digit.
    fn version(digit: u8) -> String {
        let (head, _) = BUILT.rsplit_once('.').unwrap();
        format!("{head}.{digit}")
    }

    /// The package as built with another version, after `script` changed what is in it.
    fn variant(&self, digit: u8, script: &str) -> PathBuf {
        let file = self.dir.path().join(format!("muster-agent_{}.deb", Self::version(digit)));
        let mut command = Command::new("sh");
        command.args([
            "-euc",
            &format!(
            "dpkg-deb -R \"$1\" tree; {script}; sed -i \"s/^Version: .*/Version: $3-1/\" tree/DEBIAN/control
             dpkg-deb --root-owner-group -Zgzip -z1 --build tree \"$2\" >/dev/null; rm -r tree"
        ),
            "sh",
        ]);
        command.arg(self.built.file("muster-agent")).arg(&file).arg(Self::version(digit));
        command.current_dir(self.dir.path());
        Running::start(command).finish().expect(0);
        file
    }

    /// The same program, with a version of the same length in its place.
    fn working(&self, digit: u8) -> PathBuf {
        let other = Self::version(digit);
        let (from, to) = (BUILT.replace('.', "\\."), &other);
        self.variant(digit, &format!("LC_ALL=C sed -i 's/{from}/{to}/g' tree/usr/sbin/muster-agent"))
    }

    fn broken(&self, digit: u8) -> PathBuf {
        self.variant(
            digit,
            "printf '#!/bin/sh\\necho no such instruction >&2\\nexit 1\\n' >tree/usr/sbin/muster-agent",
        )
    }
}

struct Fleet {
    controller: SystemdServer,
    servers: Vec<SystemdServer>,
    _hub: Namespace,
}

impl Fleet {
    fn start(agents: &Agents) -> Self {
        let hub = Namespace::hub();
        let controller = SystemdServer::start("controller");
        controller.connect(&hub, 2);
        agents.built.install(&controller, &["muster-controller", "muster"]);
        controller
            .sh("sed -i 's/^#addresses = .*/addresses = [\"10.77.0.2:8883\"]/' /etc/muster/controller.toml
            systemctl enable --now muster-controller");
        let servers = ["web-1", "web-2", "web-3"].into_iter().zip(3..).map(|(name, number)| {
            let server = SystemdServer::start(name);
            server.connect(&hub, number);
            agents.built.install(&server, &["muster-agent"]);
            let token = controller.sh(&format!("muster node token --name {name} --label role=web"));
            server.sh(&format!(
                "mkdir -p /etc/systemd/system/muster-agent.service.d
                 printf '[Service]\\nEnvironment=MUSTER_AGENT__CONFIRM_TIMEOUT={WITHIN}\\n' >/etc/systemd/system/muster-agent.service.d/bed.conf
                 systemctl daemon-reload
                 systemd-run --quiet --unit=by-hand muster-agent join {} --name {name}",
                token.trim()
            ));
            controller.sh(&format!("muster node wait --count {} --timeout 300", number - 2));
            server.sh("systemctl stop by-hand; systemctl enable --now muster-agent");
            server
        });
        Self { servers: servers.collect(), controller, _hub: hub }
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.controller.sh(command)).unwrap()
    }

    /// Every server's repository has this package as well.
    fn offer(&self, package: &Path) {
        let name = package.file_name().unwrap().to_str().unwrap();
        for server in &self.servers {
            server.copy(package, &format!("/srv/repo/{name}"));
            server.sh(INDEX);
        }
    }

    /// Wants this version on all; why that failed, if it did.
    fn want(&self, digit: u8) -> Result<(), String> {
        let verb =
            if self.controller.try_sh("muster stack show agents").status == 0 { "update" } else { "create" };
        let version = Agents::version(digit);
        let ran = self.controller.try_sh(&format!(
            "cat >/root/agents.yaml <<'END'\n{TEMPLATE}END\nmuster stack {verb} agents -t /root/agents.yaml -P version={version}-1 --wait"
        ));
        if ran.status == 0 { Ok(()) } else { Err(format!("{}{}", ran.stdout, ran.stderr)) }
    }

    /// The version that the controller hears from each agent.
    fn versions(&self) -> Vec<String> {
        let nodes = self.json("muster node list -o json");
        let nodes = nodes.as_array().unwrap().iter();
        let shown = |node: &Value| {
            let of = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", of("name"), of("state"), of("agent_version"))
        };
        nodes.map(shown).collect()
    }

    #[track_caller]
    fn all_are(&self, digit: u8) {
        let version = Agents::version(digit);
        let wanted: Vec<_> = (1..=3).map(|number| format!("web-{number} online {version}")).collect();
        eventually(&format!("all are {version}"), || (self.versions() == wanted).then_some(()));
        for server in &self.servers {
            assert_eq!(installed(server), format!("{version}-1 installed"));
        }
    }

    /// The process of each agent, and when it began: after one that was started anew, another.
    fn processes(&self) -> Vec<String> {
        let of = |server: &SystemdServer| {
            server.sh("systemctl show -P MainPID -P ActiveEnterTimestampMonotonic muster-agent")
        };
        self.servers.iter().map(of).collect()
    }

    fn rollout(&self) -> Value {
        self.json("muster stack show agents -o json")["rollouts"][0].clone()
    }
}

fn installed(server: &SystemdServer) -> String {
    server.sh("dpkg-query -W -f '${Version} ${db:Status-Status}' muster-agent")
}

fn since(server: &SystemdServer) -> u64 {
    server.sh("systemctl show -P ActiveEnterTimestampMonotonic muster-agent").trim().parse().unwrap()
}

#[test]
fn agents_are_upgraded_one_after_the_other_and_a_bad_one_stops() {
    let agents = Agents::make();
    let fleet = Fleet::start(&agents);
    let built: u8 = BUILT.rsplit_once('.').unwrap().1.parse().unwrap();
    let first = agents.dir.path().join(format!("muster-agent_{BUILT}.deb"));
    fs::copy(agents.built.file("muster-agent"), &first).unwrap();
    fleet.offer(&first);
    let before = fleet.processes();
    fleet.want(built).unwrap();
    assert_eq!(fleet.processes(), before, "what is there already restarts nobody");
    fleet.all_are(built);

    // Upwards: each agent ends while its own job runs, and the next server begins when the successor has reported.
    fleet.offer(&agents.working(7));
    fleet.want(7).unwrap();
    fleet.all_are(7);
    let began: Vec<u64> = fleet.servers.iter().map(since).collect();
    assert!(began.is_sorted(), "in the order of their names: {began:?}");
    for server in &fleet.servers {
        assert_eq!(server.sh("systemctl show -P NRestarts muster-agent").trim(), "0");
        assert_eq!(server.sh("grep -c ' upgrade muster-agent' /var/log/dpkg.log || :").trim(), "1");
    }

    // One that does not start: the canary has its earlier one again, and the others never lost theirs.
    fleet.offer(&agents.broken(8));
    let (before, wanted) = (fleet.processes(), Agents::version(7));
    let said = fleet.want(8).unwrap_err();
    let why = format!("did not reach the controller within {WITHIN} s (its log ends: ");
    assert!(said.contains(&why) && said.contains("no such instruction"), "{said}");
    assert!(said.contains(&format!("; {wanted}-1 is back")), "{said}");
    fleet.all_are(7);
    assert_eq!(fleet.processes()[1..], before[1..], "nobody else was touched");
    let rollout = fleet.rollout();
    assert_eq!(
        (&rollout["state"], &rollout["failed"], &rollout["waiting"]),
        (&"aborted".into(), &1.into(), &2.into()),
        "{rollout}"
    );

    fleet.controller.sh("muster stack rollback agents --wait");
    fleet.all_are(7);
    assert_eq!(fleet.processes()[1..], before[1..], "they never had another");

    // Nor where the earlier package cannot be had any more: the canary has its earlier program, and says so.
    for server in &fleet.servers {
        server.sh(&format!("rm /srv/repo/muster-agent_{wanted}.deb"));
    }
    fleet.offer(&agents.broken(9));
    let said = fleet.want(9).unwrap_err();
    assert!(said.contains(&format!("; the program of {wanted}-1 is back, without its package")), "{said}");
    assert_eq!(installed(&fleet.servers[0]), format!("{}-1 installed", Agents::version(9)));
    eventually("the canary is online", || {
        (fleet.versions()[0] == format!("web-1 online {wanted}")).then_some(())
    });
    assert_eq!(fleet.processes()[1..], before[1..], "nobody else was touched");
    let said = fleet.want(9).unwrap_err();
    assert!(said.contains("is installed, and the agent that runs here is of an earlier version"), "{said}");

    // Downwards, past all of that.
    fleet.want(built).unwrap();
    fleet.all_are(built);
}

/// On the server, with the repository of [`package_dnf`]: what the agent's packages need is there, the first of them is the
/// one that runs, and one that does not start is to be had.
const RPMS: &str = r#"
provides=$(rpm -qpR /srv/repo/muster-agent-*.rpm | sort -u | grep -v -e ^rpmlib -e ^config -e ^/ | sed 's/^/Provides: /')
printf '%s\n' "$provides" >/root/provides
spec() {
  printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: a test\nLicense: none\nAutoReqProv: no\n' "$1" "$2"; cat; }
build() { rpmbuild --quiet -bb --define '_rpmdir /srv/repo' --define '_build_name_fmt %%{NAME}-%%{VERSION}.rpm' \
  --define '_topdir /root/build' "$1" >/root/build.log 2>&1 || { cat /root/build.log >&2; exit 1; }; }
{ cat /root/provides; printf '%%description\na test\n%%files\n'; } | spec libraries 1 >/root/libraries.spec
build /root/libraries.spec
rpm -i --nodeps /srv/repo/libraries-1.rpm
rpm -i --nodeps --replacefiles /srv/repo/muster-agent-0.1.0-1.rpm
spec muster-agent 0.3.0 >/root/agent.spec <<'SPEC'
%description
a test
%install
mkdir -p %{buildroot}/usr/sbin %{buildroot}/usr/lib/systemd/system
printf '#!/bin/sh\necho no such instruction >&2\nexit 1\n' >%{buildroot}/usr/sbin/muster-agent
chmod 755 %{buildroot}/usr/sbin/muster-agent
cp /usr/lib/systemd/system/muster-agent.service %{buildroot}/usr/lib/systemd/system/
%files
/usr/sbin/muster-agent
/usr/lib/systemd/system/muster-agent.service
SPEC
build /root/agent.spec
createrepo_c -q /srv/repo
mkdir -p /etc/systemd/system/muster-agent.service.d
printf '[Service]\nEnvironment=MUSTER_AGENT__CONFIRM_TIMEOUT=30\n' >/etc/systemd/system/muster-agent.service.d/bed.conf
systemctl daemon-reload
systemctl restart muster-agent
"#;

#[test]
fn an_agent_is_upgraded_by_dnf_or_the_earlier_one_is_back() {
    let made = ["0.1.0", "0.2.0"].map(|version| Packages::make("rpm", version));
    let server = Installed::start("rpms");
    server.sh(package_dnf::REPOSITORY);
    for (packages, version) in made.iter().zip(["0.1.0", "0.2.0"]) {
        server.copy(&packages.file("muster-agent"), &format!("/srv/repo/muster-agent-{version}-1.rpm"));
    }
    server.sh(RPMS);
    let version = || server.sh("rpm -q --qf '%{VERSION}' muster-agent");
    let process = || server.sh("systemctl show -P MainPID muster-agent");
    let online = "muster node list -o json | tr -d ' \\n' | grep -q '\"state\":\"online\"'";
    assert_eq!(version(), "0.1.0");

    let before = process();
    server.works("agent", PACKAGE, "name: muster-agent, version: '0.2.0', on_delete: keep");
    assert_eq!(version(), "0.2.0");
    assert_ne!(process(), before);
    server.until("it is online", online);

    let said = server.refuses("agent", PACKAGE, "name: muster-agent, version: '0.3.0', on_delete: keep");
    assert!(said.contains("did not reach the controller within 30 s"), "{said}");
    assert!(said.contains("no such instruction") && said.contains("0:0.2.0-1 is back"), "{said}");
    assert_eq!(version(), "0.2.0");
    server.until("it is online", online);
    server.works("agent", PACKAGE, "name: muster-agent, version: '0.1.0', on_delete: keep");
    assert_eq!(version(), "0.1.0");
    server.sh("muster stack check agent --wait; rpm -V --nodeps muster-agent");
}
