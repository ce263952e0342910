//! Servers with systemd: in namespaces ([`SystemdServer`]) or as virtual machines ([`Vm`]), by the scripts in
//! this crate's folder. What packages, units, reboots and power cuts are tested with.
//!
//! A server is gone with its value. Root file systems and images are made once, in `target/testbed`, by whichever
//! test comes first. Absent: what is in a server besides Debian; tests install it.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::namespace::Namespace;
use crate::process::{Ran, Running, eventually};

/// A server's start, or a command in it, has ended by then: the scripts give up before, and say why.
const SERVER_PATIENCE: Duration = Duration::from_secs(580);

/// The abilities that both kinds have.
pub struct Server {
    script: PathBuf,
    name: String,
    dir: TempDir,
}

/// systemd as process 1 of namespaces over a Debian root; ready in less than a second. No reboot, this machine's kernel.
pub struct SystemdServer(Server);

/// A virtual machine without KVM: its own kernel, NICs with a device, reboots and power cuts; slow.
pub struct Vm(Server);

impl Server {
    fn up(script: &str, name: &str, arguments: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        let server = Self { script, name: name.to_owned(), dir: TempDir::new().unwrap() };
        server.verb("up", arguments).expect(0);
        server
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.script);
        command.args([verb, &self.name]);
        command.env("MUSTER_BED", self.dir.path()).env("MUSTER_BED_CACHE", cache());
        // Also a test that is killed leaves nothing behind.
        command.env("MUSTER_BED_OWNER", std::process::id().to_string());
        command
    }

    fn verb(&self, verb: &str, arguments: &[&str]) -> Ran {
        let mut command = self.command(verb);
        command.args(arguments);
        Running::start(command).finish_within(SERVER_PATIENCE)
    }

    /// Runs a command in it to its end. Its environment is the server's own.
    pub fn exec(&self, command: &[&str]) -> Ran {
        self.verb("exec", command)
    }

    /// Runs a shell script in it.
    pub fn try_sh(&self, script: &str) -> Ran {
        self.exec(&["sh", "-c", script])
    }

    /// Runs a shell script in it, each command of which must work (`! command` never fails, see [`Server::fails`]); its stdout.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        self.try_sh(&format!("set -e\n{script}")).expect(0).stdout
    }

    /// Runs a shell command in it that must not work.
    #[track_caller]
    pub fn fails(&self, command: &str) {
        let ran = self.try_sh(command);
        assert_ne!(ran.status, 0, "{command}: {}", ran.stdout);
    }

    /// Puts a file of this machine at `path` in it, with its mode.
    pub fn copy(&self, file: &Path, path: &str) {
        self.verb("copy", &[file.to_str().unwrap(), path]).expect(0);
    }

    /// Waits until the script says yes (exit code 0).
    pub fn until(&self, what: &str, script: &str) {
        eventually(what, || (self.try_sh(script).status == 0).then_some(()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let journal = self.exec(&["journalctl", "--no-pager", "-n", "60", "-u", "muster-*"]);
            eprintln!("--- the end of {}'s journal:\n{}", self.name, journal.stdout);
        }
        // What goes wrong is on stderr, and the test's own result counts.
        let _ = self.command("down").status();
    }
}

impl SystemdServer {
    /// Started, with nothing but `lo`.
    pub fn start(name: &str) -> Self {
        Self(Server::up("systemd-server", name, &[]))
    }

    /// The server's network, for programs of this machine that are to be on its loopback.
    pub fn network(&self) -> Namespace {
        let pid = self.verb("pid", &[]).expect(0).stdout;
        Namespace::of_process(pid.trim().parse().expect("the script prints a number"))
    }

    /// The server's `/run`, as this machine sees it.
    pub fn run(&self) -> PathBuf {
        let pid = self.verb("pid", &[]).expect(0).stdout;
        Path::new("/proc").join(pid.trim()).join("root/run")
    }

    /// A cable `up0`, as `10.77.0.NUMBER`, to a hub; see [`Namespace::hub`].
    pub fn connect(&self, hub: &Namespace, number: u8) {
        let port = format!("to{number}");
        self.cable(hub, &port);
        hub.ip(&format!("link set {port} master hub"));
        self.sh(&format!("ip address add 10.77.0.{number}/24 dev up0"));
    }

    /// A cable `up0` to the other one, where its end is `port`; both ends are up.
    pub fn cable(&self, other: &Namespace, port: &str) {
        let pid = self.verb("pid", &[]).expect(0).stdout;
        other.ip(&format!("link add {port} type veth peer name up0 netns {}", pid.trim()));
        other.ip(&format!("link set {port} up"));
        // As with every cable: the userspace datapath passes on checksums that were left for hardware to fill in.
        other.run(&format!("ethtool -K {port} tx off"));
        self.sh("ethtool -K up0 tx off >/dev/null; ip link set up0 up");
    }
}

impl Deref for SystemdServer {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Vm {
    /// This machine's loopback, as a virtual machine reaches it over `eth0`.
    pub const HOST: &str = "10.0.2.2";

    /// Started, with this many NICs; `eth1` and on are up to the test. None, and a word on stderr, where there is no qemu.
    pub fn start(name: &str, nics: u8) -> Option<Self> {
        let path = std::env::var("PATH").unwrap_or_default();
        let has_qemu = path.split(':').any(|folder| Path::new(folder).join("qemu-system-x86_64").exists());
        if !has_qemu || cfg!(not(target_arch = "x86_64")) {
            eprintln!("NOT TESTED: no qemu-system-x86_64 on an x86-64 here; '.ci/packages test' installs it");
            return None;
        }
        Some(Self(Server::up("vm-server", name, &[&nics.to_string()])))
    }

    /// An orderly reboot; it is up again.
    pub fn reboot(&self) {
        self.verb("reboot", &[]).expect(0);
    }

    /// A power cut: what was not synced is gone; it is up again.
    pub fn power_cut(&self) {
        self.verb("power-cut", &[]).expect(0);
    }
}

impl Deref for Vm {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

/// Beside what cargo builds, for all tests.
fn cache() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.ancestors().find(|folder| folder.join("deps").is_dir()).unwrap();
    profile.parent().unwrap().join("testbed")
}
