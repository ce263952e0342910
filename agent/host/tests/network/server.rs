//! A server whose network the host changes: a namespace, with an Open vSwitch and a DHCP client of its own where wanted.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_host::net::{Client, HostConfig, Network};
use muster_testbed::{Daemon, Namespace, Switch};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

pub struct NetworkServer {
    switch: Option<Switch>,
    switch_stopped: bool,
    dhcp_server: Option<Daemon>,
    namespace: Namespace,
    directory: TempDir,
    /// The client that leases for this server's links.
    pub dhcp_client: Option<Client>,
    /// No DHCP server is reached from it.
    pub dhcp_is_silent: bool,
    /// From these folders of this server nothing can be run.
    pub noexec: &'static [&'static str],
}

impl NetworkServer {
    /// Nothing but `lo`.
    pub fn new() -> Self {
        Self {
            switch: None,
            switch_stopped: false,
            dhcp_server: None,
            namespace: Namespace::new(),
            directory: TempDir::new().unwrap(),
            dhcp_client: Some(Client::Dhclient),
            dhcp_is_silent: false,
            noexec: &[],
        }
    }

    /// With an Open vSwitch that is running.
    pub fn with_ovs() -> Self {
        let server = Self::new();
        Self { switch: Some(Switch::start(&server.namespace)), ..server }
    }

    fn switch(&mut self) -> &mut Switch {
        self.switch.as_mut().expect("a server with a switch")
    }

    /// Starts the switch and waits until it works.
    pub fn start_switch(&mut self) {
        self.switch().restart();
        self.ovs("set Open_vSwitch . external_ids:system-id=test");
        self.switch_stopped = false;
    }

    /// Ends the switch, not its database.
    pub fn stop_switch(&mut self) {
        self.switch().kill();
        self.switch_stopped = true;
    }

    /// Ends the database.
    pub fn stop_database(&mut self) {
        self.switch().kill_database();
    }

    /// Makes this server a DHCP server for the network of its `link`, which is up and has 192.0.2.1 and fd00:1::1.
    pub fn serve_dhcp(&mut self, link: &str, v6: bool) {
        let folder = self.directory.path();
        let v6 = if v6 { "--enable-ra --dhcp-range=fd00:1::50,fd00:1::99,64,1h" } else { "" };
        let words = format!(
            "--keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --port=0 --user=root \
             --interface={link} --bind-interfaces --dhcp-range=192.0.2.50,192.0.2.99,1h {v6} \
             --dhcp-option=3,192.0.2.1 --dhcp-option=6,192.0.2.53 \
             --dhcp-option=15,lease.example --dhcp-option=121,203.0.113.0/24,192.0.2.2,0.0.0.0/0,192.0.2.1 \
             --dhcp-leasefile={0}/leases --pid-file={0}/dnsmasq.pid --log-facility={0}/dnsmasq.log",
            folder.display()
        );
        let mut dnsmasq = muster_testbed::command(Some(&self.namespace), "dnsmasq");
        dnsmasq.args(words.split_whitespace());
        self.dhcp_server = Some(Daemon::start("dnsmasq.output", dnsmasq, folder));
    }

    /// Commands of processes in the namespace.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let command = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let processes = self.pids().into_iter().map(|pid| (pid, command(pid).replace('\0', " ")));
        processes.filter(|(_, command)| !command.is_empty()).collect()
    }

    /// The kernel forgets all, Open vSwitch's database nothing; `links` plugs the cables in again.
    pub fn reboot(&mut self, links: impl FnOnce(&Self)) {
        let has_switch = self.switch.is_some();
        if has_switch {
            self.stop_switch();
        }
        self.namespace.reset();
        links(self);
        if has_switch {
            self.start_switch();
        }
    }

    /// `ovs-vsctl` for this server's switch; it must work.
    pub fn ovs(&self, words: &str) -> String {
        self.switch.as_ref().expect("a server with a switch").vsctl(words)
    }

    /// The folder of the sockets of this server's switch.
    #[allow(dead_code, reason = "the tests of flow tables alone use it")]
    pub fn rundir(&self) -> &Path {
        self.switch.as_ref().expect("a server with a switch").dir()
    }

    /// This server's own, which is not there at first.
    pub fn resolv_conf(&self) -> PathBuf {
        self.directory.path().join("resolv.conf")
    }

    /// Makes the link a NIC as far as numbering goes: those here have no devices.
    pub fn is_nic(&self, name: &str) {
        let nic = self.directory.path().join("sys").join(name);
        std::fs::create_dir_all(nic.join("device")).unwrap();
        std::fs::write(nic.join("operstate"), "up\n").unwrap();
        std::fs::write(nic.join("address"), "").unwrap();
    }

    /// This server's own names of routing tables.
    pub fn rt_tables(&self) -> PathBuf {
        self.directory.path().join("rt_tables")
    }

    /// Runs `work` on a thread of its own inside the namespace, with a runtime like the agent's.
    pub fn inside<T: Send>(&self, work: impl AsyncFnOnce(Network) -> T + Send) -> T {
        self.inside_with(Some("netdev"), work)
    }

    /// [`NetworkServer::inside`] with a datapath of one's own.
    pub fn inside_with<T: Send>(
        &self,
        datapath_type: Option<&str>,
        work: impl AsyncFnOnce(Network) -> T + Send,
    ) -> T {
        let own = |name: &str| Some(self.directory.path().join(name));
        let config = HostConfig {
            ovs_db: self.switch.as_ref().map(Switch::database).or_else(|| own("db.sock")),
            datapath_type: datapath_type.map(str::to_owned),
            // A switch that is stopped is waited for in vain; one that works takes milliseconds.
            ovs_timeout: Some(Duration::from_secs(if self.switch_stopped { 1 } else { 30 })),
            resolv_conf: Some(self.resolv_conf()),
            resolved_conf: own("resolved.conf.d/90-muster.conf"),
            sys_class_net: own("sys"),
            rt_tables: Some(self.rt_tables()),
            systemctl: own("systemctl"),
            neighbours: None,
            dhcp_client: self.dhcp_client,
            dhcp_notes: own("dhcp"),
            dhcp_scripts: own("scripts"),
            // A silent server never answers, so the wait is short.
            lease_within: Some(Duration::from_secs(if self.dhcp_is_silent { 3 } else { 45 })),
        };
        self.namespace.inside(move || {
            for folder in self.noexec {
                // Like Debian's /run, for this thread and what it starts.
                let folder = self.directory.path().join(folder);
                std::fs::create_dir_all(&folder).unwrap();
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                mount(&["--make-rslave", "/"]);
                let folder = folder.to_str().unwrap();
                mount(&["-t", "tmpfs", "-o", "noexec,nosuid,nodev", "tmpfs", folder]);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work(Network::new(config)))
        })
    }
}

impl Deref for NetworkServer {
    type Target = Namespace;
    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

fn mount(arguments: &[&str]) {
    assert!(Command::new("mount").args(arguments).status().unwrap().success());
}
