//! Network namespaces, cables between them, lost packets, and a host name of a server's own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};
use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::process::run;

/// A network namespace; gone with the value.
pub struct Namespace {
    name: String,
    /// Processes of somebody else are in it, and stay.
    is_others: bool,
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

    /// The namespace that a process is in; it stays when the value goes.
    pub fn of_process(pid: u32) -> Self {
        let name = format!("muster-of-{pid}");
        run(Command::new("ip").args(["netns", "attach", &name, &pid.to_string()]));
        Self { name, is_others: true }
    }

    /// A run that was killed leaves its namespaces behind, and its number goes to another process some day.
    fn named(name: String) -> Self {
        assert!(geteuid().is_root(), "these tests make network namespaces: run them as root");
        if Path::new("/run/netns").join(&name).exists() {
            run(Command::new("ip").args(["netns", "del", &name]));
        }
        let namespace = Self { name, is_others: false };
        namespace.add();
        namespace
    }

    fn add(&self) {
        run(Command::new("ip").args(["netns", "add", &self.name]));
        self.ip("link set lo up");
    }

    /// As after a reboot: the kernel has nothing but `lo`, and cables are to be plugged in again.
    pub fn reset(&self) {
        run(Command::new("ip").args(["netns", "del", &self.name]));
        self.add();
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
        self.plug(name, other, other_name);
        self.ip(&format!("link set {name} up"));
        other.ip(&format!("link set {other_name} up"));
    }

    /// A cable; both ends are down.
    pub fn plug(&self, name: &str, other: &Self, other_name: &str) {
        let (here, there) = (&self.name, &other.name);
        let words = format!("link add {name} netns {here} type veth peer name {other_name} netns {there}");
        run(Command::new("ip").args(words.split(' ')));
        for (namespace, name) in [(self, name), (other, other_name)] {
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

    /// Packets come back from `address`. The first ones may be lost to address resolution.
    pub fn pings(&self, address: &str) {
        self.run(&format!("ping -n -c 1 -w 20 {address}"));
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

    /// Does `work` on a thread of its own in it.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let in_namespace = move || {
            setns(File::open(self.path()).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(in_namespace).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Processes in it.
    pub fn pids(&self) -> Vec<i32> {
        let pids = run(Command::new("ip").args(["netns", "pids", &self.name]));
        pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }
}

/// A host name of a server's own: a UTS namespace that outlives the agent in it.
pub struct OwnName {
    /// The folder of the file that holds it.
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

    /// Sets the host name as somebody else would.
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
        // DHCP clients outlive the agent that started them. Nothing can be done about a failure, and the test's own
        // result counts.
        let left =
            Command::new("ip").args(["netns", "pids", &self.name]).output().ok().filter(|_| !self.is_others);
        let left = left.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        for pid in left.unwrap_or_default().split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", pid]).status();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
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
