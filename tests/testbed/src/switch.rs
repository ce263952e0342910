//! An Open vSwitch of a namespace's own, with the userspace datapath.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::namespace::Namespace;
use crate::process::{self, Daemon, run};

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
            let mut command = process::command(Some(namespace), name);
            environment(dir.path(), command.args(arguments));
            Daemon::start(name, command, dir.path())
        };
        let database = daemon("ovsdb-server", &[&file, &format!("--remote=punix:{socket}")]);
        let vsctl = |arguments: &[&str]| {
            let db = format!("--db=unix:{socket}");
            run(Command::new("ovs-vsctl").args([&db, "--retry", "--timeout=30"]).args(arguments))
        };
        vsctl(&["--no-wait", "init"]);
        let switch = daemon("ovs-vswitchd", &[&format!("unix:{socket}"), "--disable-system", "--pidfile"]);
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

    /// The folder of its sockets.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// For an agent that is to use it.
    pub fn environment(&self, command: &mut Command) {
        environment(self.dir.path(), command);
        command.env("MUSTER_HOST__OVS_DATAPATH_TYPE", "netdev");
    }

    /// The socket of its database.
    pub fn database(&self) -> PathBuf {
        self.dir.path().join("db.sock")
    }
}

fn environment(dir: &Path, command: &mut Command) {
    for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(name, dir);
    }
}
