//! A site on one server: controller, agent and command line as units, and a stack with a file, a link and work that takes
//! seconds.

use std::ops::Deref;

use muster_testbed::{SystemdServer, eventually};
use muster_tests::site::{PACKAGES, Packages};
use serde_json::Value;

/// A link of its own, so that the server's network is not the agent's only.
const TEMPLATE: &str = "
heat_template_version: 2018-08-31
parameters: {work: {type: number, default: 0}}
resources:
  net:
    type: Muster::NetworkConfig
    properties:
      node: pack
      network_config:
      - {type: interface, name: data0, use_dhcp: false, addresses: [{ip_netmask: 192.0.2.7/24}]}
  motd:
    type: Muster::File
    properties: {node: pack, path: /srv/motd, content: \"hello\\n\"}
  work:
    type: Muster::Dummy
    properties: {node: pack, seconds: {get_param: work}}
";

pub const ADDRESS: &str = "ip address show dev data0 | grep -q 192.0.2.7/24";
pub const FILE: &str = "[ \"$(cat /srv/motd)\" = hello ]";
/// More than systemd lets a unit be restarted in ten seconds, if nobody says otherwise.
const KILLS: u32 = 6;

/// The type of a resource `one`, and the outputs of its stack.
#[derive(Clone, Copy)]
pub struct Kind {
    pub head: &'static str,
    pub outputs: &'static str,
}

/// A server with all of Muster from Debian packages, whose agent is the node `pack`.
pub struct Installed(SystemdServer);

impl Installed {
    pub fn start(name: &str) -> Self {
        Self::on(SystemdServer::start(name))
    }

    pub fn on(server: SystemdServer) -> Self {
        Packages::make("deb", "0.1.0").install(&server, &PACKAGES);
        join(&server);
        Self(server)
    }

    pub fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.sh(command)).unwrap()
    }

    /// Makes or changes a stack of one resource, `one`, with these properties; does not wait.
    pub fn begin(&self, stack: &str, kind: Kind, properties: &str) {
        let Kind { head, outputs } = kind;
        self.sh(&format!(
            "cat >/root/{stack}.yaml <<'TEMPLATE'
heat_template_version: 2018-08-31
resources: {{one: {{{head}, properties: {{node: pack, {properties}}}}}}}
outputs: {{{outputs}}}
TEMPLATE
            verb=create; ! muster stack show {stack} >/dev/null 2>&1 || verb=update
            muster stack $verb {stack} -t /root/{stack}.yaml"
        ));
    }

    /// Waits until nothing of it is in progress: how it ended.
    pub fn end(&self, stack: &str) -> Value {
        let is_over = format!("! muster stack show {stack} -o json | grep -q IN_PROGRESS");
        self.until(&format!("{stack} is over"), &is_over);
        self.json(&format!("muster stack show {stack} -o json"))
    }

    /// [`Installed::begin`] to its end; must work.
    #[track_caller]
    pub fn works(&self, stack: &str, kind: Kind, properties: &str) {
        self.begin(stack, kind, properties);
        let ended = self.end(stack);
        assert_eq!(ended["status"], "COMPLETE", "{properties}: {ended}");
    }

    /// [`Installed::begin`] to its end; must not work. Why not.
    #[track_caller]
    pub fn refuses(&self, stack: &str, kind: Kind, properties: &str) -> String {
        self.begin(stack, kind, properties);
        let ended = self.end(stack);
        assert_eq!(ended["status"], "FAILED", "{properties}: {ended}");
        let shown = self.json(&format!("muster resource show {stack} one -o json"));
        shown["status_reason"].as_str().unwrap().to_owned()
    }

    pub fn delete(&self, stacks: &[&str]) {
        stacks.iter().for_each(|stack| drop(self.sh(&format!("muster stack delete {stack} --wait"))));
    }
}

impl Deref for Installed {
    type Target = SystemdServer;
    fn deref(&self) -> &SystemdServer {
        &self.0
    }
}

/// Programs and units, when the packages are removed; nothing is left failed.
pub fn gone(server: &SystemdServer) {
    for command in ["pgrep -x muster-agent", "pgrep -x muster-controll", "command -v muster"] {
        server.fails(command);
    }
    for unit in ["muster-agent", "muster-controller", "muster-network"] {
        server.fails(&format!("systemctl cat {unit}.service"));
    }
    server.sh("[ -z \"$(systemctl --failed --no-legend)\" ]");
}

/// The daemons are the operator's to enable.
pub fn not_yet_enabled(server: &SystemdServer) {
    for unit in ["muster-agent", "muster-controller"] {
        server.fails(&format!("systemctl is-enabled {unit}.service"));
        server.fails(&format!("systemctl is-active {unit}.service"));
    }
}

/// Starts the controller, joins the agent to it, enables both, and makes the stack.
pub fn join(server: &SystemdServer) {
    server.sh("systemctl enable --now muster-controller; systemctl is-active muster-controller");
    server.sh("ip link add data0 type veth peer name data1; ip link set data1 up");
    let token = server.sh("muster node token --name pack");
    // As an operator does it, with Ctrl-C once it says that it has joined.
    server.sh(&format!("systemd-run --quiet --unit=by-hand muster-agent join {} --name pack", token.trim()));
    online(server);
    server.sh("systemctl kill --signal=INT by-hand.service; while systemctl is-active by-hand.service; do sleep 0.05; done");
    server.sh("systemctl enable --now muster-agent; systemctl is-active muster-agent");
    server.exec(&["sh", "-c", &format!("cat >/run/web.yaml <<'END'\n{TEMPLATE}END\n")]).expect(0);
    server.sh("muster stack create web -t /run/web.yaml --wait");
    converged(server);
    server.sh("muster doctor | grep 'muster-controller.service is active and enabled'");
    own_user(server);
    let units = "muster-agent muster-controller";
    assert_eq!(
        server
            .sh(&format!("systemctl show -P Type -P WatchdogUSec {units}"))
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["notify", "30s", "notify", "30s"]
    );
}

/// The controller has a user of its own; what root does by hand with its data is that user's as well.
fn own_user(server: &SystemdServer) {
    let of_others = "[ -z \"$(find /var/lib/muster ! -user muster -o ! -group muster)\" ]";
    server.sh(&format!("[ \"$(ps -o user= -C muster-controll)\" = muster ]; {of_others}"));
    server.sh(&format!(
        "systemctl stop muster-controller; muster doctor | grep 'muster-controller.service is not active'; \
         muster-controller rekey; {of_others}; systemctl start muster-controller"
    ));
    converged(server);
}

/// Seconds of a short watchdog: a daemon says twice in them that it lives, and a busy machine may hold it up for some.
const WATCHDOG: u32 = 6;

/// With a short watchdog: a daemon that lives says so in time, one that hangs is ended and started again.
pub fn watched(server: &SystemdServer) {
    for unit in ["muster-agent", "muster-controller"] {
        server.sh(&format!(
            "mkdir -p /run/systemd/system/{unit}.service.d
             printf '[Service]\\nWatchdogSec={WATCHDOG}\\n' >/run/systemd/system/{unit}.service.d/short.conf
             systemctl daemon-reload; systemctl restart {unit}"
        ));
        converged(server);
        let longer = format!(
            "since=$(systemctl show -P ActiveEnterTimestampMonotonic {unit}); now=$(cut -d . -f 1 /proc/uptime)
             [ $((now - since / 1000000)) -gt {WATCHDOG} ]"
        );
        server.until(&format!("{unit} has lived for longer than its watchdog"), &longer);
        assert_eq!(
            server.sh(&format!("systemctl show -P NRestarts {unit}")).trim(),
            "0",
            "{unit} says that it lives"
        );
        server.sh(&format!("systemctl kill --signal=STOP {unit}"));
        let back = format!("[ \"$(systemctl show -P NRestarts {unit})\" = 1 ] && systemctl is-active {unit}");
        server.until(&format!("{unit} was ended and is back"), &back);
        server.sh(&format!(
            "rm -r /run/systemd/system/{unit}.service.d; systemctl daemon-reload; systemctl restart {unit}"
        ));
    }
    converged(server);
}

/// However often.
pub fn killed_agent_is_back(server: &SystemdServer) {
    for kill in 1..=KILLS {
        server.sh("systemctl kill --signal=KILL muster-agent");
        let back = format!(
            "[ \"$(systemctl show -P NRestarts muster-agent)\" = {kill} ] && systemctl is-active muster-agent"
        );
        server.until(&format!("the agent is back after kill {kill}"), &back);
    }
    converged(server);
}

/// Does it while the agent has a job that takes seconds, which then is done all the same.
pub fn in_the_middle_of_a_job(server: &SystemdServer, deed: impl FnOnce()) {
    server.sh("muster stack update web --existing -P work=6");
    server.until("the job runs", "muster resource show web work -o json | grep -q '\"phase\": *\"running\"'");
    deed();
    eventually("the update is COMPLETE", || (stack(server)?["status"] == "COMPLETE").then_some(()));
}

/// None while the controller starts.
fn stack(server: &SystemdServer) -> Option<Value> {
    let ran = server.try_sh("muster stack show web -o json");
    (ran.status == 0).then(|| serde_json::from_str(&ran.stdout).unwrap())
}

fn online(server: &SystemdServer) {
    server.until(
        "the node is online",
        "muster node list -o json | tr -d ' \\n' | grep -q '\"state\":\"online\"'",
    );
}

/// Everything runs, and all that the stack wants is there.
pub fn converged(server: &SystemdServer) {
    online(server);
    let stack = stack(server).unwrap();
    assert_eq!(stack["status"], "COMPLETE", "{stack}");
    server.sh(&format!("{ADDRESS}; {FILE}; systemctl is-active muster-agent muster-controller"));
    server.sh("muster stack check web --wait");
}
