//! Network namespaces, cables between them, lost packets, a switch and a host name of a server's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::process::{self, Daemon};

/// A network namespace; gone with the value.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// The controller's address.
    pub const HUB: &str = "10.77.0.1";

    /// With nothing but `lo`.
    pub fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Self::named(format!("muster-{}-{number}", std::process::id()))
    }

    /// A run that was killed leaves its namespaces behind, and its number goes to another process some day.
    fn named(name: String) -> Self {
        if Path::new("/run/netns").join(&name).exists() {
            run(Command::new("ip").args(["netns", "del", &name]));
        }
        run(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Self { name };
        namespace.ip("link set lo up");
        namespace
    }

    /// The controller's: a bridge that servers are connected to.
    pub fn hub() -> Self {
        let hub = Self::new();
        hub.ip("link add hub type bridge");
        hub.ip("link set hub up");
        hub.ip(&format!("address add {}/24 dev hub", Self::HUB));
        hub
    }

    /// A server with a management link `up0` to this hub, as `10.77.0.NUMBER`.
    pub fn server(&self, number: u8) -> Self {
        let server = Self::new();
        let port = format!("to{number}");
        self.link(&port, &server, "up0");
        self.ip(&format!("link set {port} master hub"));
        server.ip(&format!("address add 10.77.0.{number}/24 dev up0"));
        server
    }

    /// A cable; both ends are up.
    pub fn link(&self, name: &str, other: &Self, other_name: &str) {
        let (here, there) = (&self.name, &other.name);
        let words = format!("link add {name} netns {here} type veth peer name {other_name} netns {there}");
        run(Command::new("ip").args(words.split(' ')));
        for (namespace, name) in [(self, name), (other, other_name)] {
            namespace.ip(&format!("link set {name} up"));
            // The userspace datapath passes on checksums that a veth left for hardware to fill in.
            namespace.run(&format!("ethtool -K {name} tx off"));
        }
    }

    /// Loses this share of what `link` sends and receives; 0 ends it, 100 cuts it.
    pub fn lose(&self, link: &str, percent: u8) {
        let table = "table netdev loss";
        let some = if percent < 100 { format!("numgen random mod 100 < {percent} ") } else { String::new() };
        let rule = format!("{some}counter drop;");
        let chain = |hook: &str| {
            format!("chain {hook} {{ type filter hook {hook} device \"{link}\" priority 0; {rule} }}\n")
        };
        let mut script = format!("{table}\ndelete {table}\n");
        if percent > 0 {
            script += &format!("{table} {{\n{}{}}}\n", chain("ingress"), chain("egress"));
        }
        let mut nft = self.command("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut nft.stdin.take().unwrap(), script.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "nft refuses:\n{script}");
    }

    /// Connections that are there go on, and no new one is made from here, or that ends.
    pub fn refuse_connections(&self, refuse: bool) {
        if refuse {
            self.run("nft add table inet refuse");
            self.run("nft add chain inet refuse out { type filter hook output priority 0 ; }");
            self.run("nft add rule inet refuse out tcp flags & (syn|ack) == syn drop");
        } else {
            self.run("nft delete table inet refuse");
        }
    }

    /// Packets that [`Namespace::lose`] has dropped so far.
    pub fn lost(&self) -> u64 {
        let rules = self.run("nft list table netdev loss");
        let mut words = rules.split_whitespace();
        let mut lost = 0;
        while words.any(|word| word == "packets") {
            lost += words.next().unwrap().parse::<u64>().unwrap();
        }
        lost
    }

    /// `ip` in it; must work.
    pub fn ip(&self, words: &str) -> String {
        run(Command::new("ip").args(["-n", &self.name]).args(words.split(' ')))
    }

    /// A command in it; must work.
    pub fn run(&self, words: &str) -> String {
        let mut words = words.split(' ');
        run(self.command(words.next().unwrap()).args(words))
    }

    /// A command in it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}

/// A host name of a server's own: a UTS namespace that outlives the agent in it.
pub struct OwnName {
    /// Of the file that holds it.
    dir: TempDir,
}

impl OwnName {
    /// With this name.
    pub fn new(name: &str) -> Self {
        let own = Self { dir: TempDir::new().unwrap() };
        std::fs::write(own.path(), "").unwrap();
        run(Command::new("unshare").arg(format!("--uts={}", own.path().display())).args(["hostname", name]));
        own
    }

    /// As the kernel has it.
    pub fn get(&self) -> String {
        run(Command::new("nsenter").arg(self.flag()).args(["uname", "-n"])).trim_end().to_owned()
    }

    /// Somebody else changes it.
    pub fn set(&self, name: &str) {
        run(Command::new("nsenter").arg(self.flag()).args(["hostname", name]));
    }

    /// For `nsenter`.
    pub fn flag(&self) -> String {
        format!("--uts={}", self.path().display())
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("uts")
    }
}

impl Drop for OwnName {
    fn drop(&mut self) {
        // Nothing can be done about a failure, and the test's own result counts.
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nothing can be done about a failure, and the test's own result counts.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// An Open vSwitch of a namespace's own, with the userspace datapath.
pub struct Switch {
    /// Ended in this order.
    daemons: [Daemon; 2],
    dir: TempDir,
}

impl Switch {
    /// Starts it and waits until it works.
    pub fn start(namespace: &Namespace) -> Self {
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (file, socket) = (at("conf.db"), at("db.sock"));
        run(Command::new("ovsdb-tool").args(["create", &file, "/usr/share/openvswitch/vswitch.ovsschema"]));
        let daemon = |name: &str, arguments: &[&str]| {
            let mut command = process::command(Some(namespace), Path::new(name));
            environment(dir.path(), command.args(arguments));
            Daemon::start(name, command, dir.path())
        };
        let database = daemon("ovsdb-server", &[&file, &format!("--remote=punix:{socket}")]);
        let vsctl = |arguments: &[&str]| {
            let db = format!("--db=unix:{socket}");
            run(Command::new("ovs-vsctl").args([&db, "--retry", "--timeout=30"]).args(arguments))
        };
        vsctl(&["--no-wait", "init"]);
        let switch = daemon("ovs-vswitchd", &[&format!("unix:{socket}"), "--disable-system"]);
        vsctl(&["set", "Open_vSwitch", ".", "external_ids:system-id=test"]);
        Self { daemons: [switch, database], dir }
    }

    /// `ovs-vsctl`; must work.
    pub fn vsctl(&self, words: &str) -> String {
        let db = format!("--db=unix:{}", self.database().display());
        run(Command::new("ovs-vsctl").args([db.as_str(), "--timeout=30"]).args(words.split(' ')))
    }

    /// `ovs-ofctl` with OpenFlow 1.4; must work.
    pub fn ofctl(&self, words: &[&str]) -> String {
        let mut command = Command::new("ovs-ofctl");
        environment(self.dir.path(), &mut command);
        run(command.args(["-O", "OpenFlow14", "--names", "--no-stats", "--timeout=30"]).args(words))
    }

    /// A bridge with these ports, which lead nowhere.
    pub fn bridge(&self, name: &str, ports: &[&str]) {
        let mut words = format!("add-br {name} -- set bridge {name} datapath_type=netdev");
        for port in ports {
            words += &format!(" -- add-port {name} {port} -- set interface {port} type=internal");
        }
        self.vsctl(&words);
    }

    /// SIGKILL of ovsdb-server, and its wait; the switch goes on.
    pub fn kill_database(&mut self) {
        self.daemons[1].kill();
    }

    /// Starts ovsdb-server again and waits until it works.
    pub fn restart_database(&mut self) {
        self.daemons[1].restart();
        self.vsctl("--retry show");
    }

    /// SIGKILL of ovs-vswitchd, and its wait; what it forwarded by is gone.
    pub fn kill(&mut self) {
        self.daemons[0].kill();
    }

    /// Starts ovs-vswitchd again.
    pub fn restart(&mut self) {
        self.daemons[0].restart();
    }

    /// For an agent that is to use it.
    pub fn environment(&self, command: &mut Command) {
        environment(self.dir.path(), command);
        command.env("MUSTER_HOST__OVS_DATAPATH_TYPE", "netdev");
    }

    fn database(&self) -> PathBuf {
        self.dir.path().join("db.sock")
    }
}

fn environment(dir: &Path, command: &mut Command) {
    for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(name, dir);
    }
}

/// Runs a command that must work; its stdout.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(test)]
mod tests {
    use super::Namespace;

    #[test]
    fn one_that_a_killed_run_left_behind_gives_way() {
        let name = format!("muster-stale-{}", std::process::id());
        let stale = Namespace::named(name.clone());
        stale.ip("link add left type bridge");
        std::mem::forget(stale);
        let namespace = Namespace::named(name);
        assert!(!namespace.ip("-brief link show").contains("left"));
    }
}
