//! A server of a test: a network namespace, with an Open vSwitch of its own where wanted. It is gone when dropped.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use muster_host::net::{Client, HostConfig, Network};
use nix::sched::{CloneFlags, setns, unshare};
use tempfile::TempDir;

pub struct Bed {
    namespace: String,
    directory: TempDir,
    /// Ended in this order.
    daemons: Vec<Child>,
    switch_stopped: bool,
    /// Who leases for this server's links.
    pub dhcp_client: Option<Client>,
    /// No DHCP server is reached from it.
    pub dhcp_is_silent: bool,
    /// From these folders of this server nothing can be run.
    pub noexec: &'static [&'static str],
}

impl Bed {
    /// A namespace with nothing but `lo`.
    pub fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        assert!(root, "these tests make network namespaces: run them as root");
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("muster-host-{}-{number}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &namespace]));
        let bed = Self {
            namespace,
            directory: TempDir::new().unwrap(),
            daemons: Vec::new(),
            switch_stopped: false,
            dhcp_client: Some(Client::Dhclient),
            dhcp_is_silent: false,
            noexec: &[],
        };
        bed.ip("link set lo up");
        bed
    }

    /// With an Open vSwitch that is running.
    pub fn with_ovs() -> Self {
        let mut bed = Self::new();
        let database = bed.directory.path().join("conf.db");
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run(Command::new("ovsdb-tool").arg("create").arg(&database).arg(schema));
        let remote = format!("--remote=punix:{}", bed.database().display());
        bed.start(&["ovsdb-server", database.to_str().unwrap(), &remote]);
        bed.ovs("--retry --no-wait init");
        bed.start_switch();
        bed
    }

    /// Starts the switch and waits until it works.
    pub fn start_switch(&mut self) {
        let database = format!("unix:{}", self.database().display());
        self.start(&["ovs-vswitchd", &database, "--disable-system"]);
        let switch = self.daemons.pop().unwrap();
        self.daemons.insert(0, switch);
        self.ovs("set Open_vSwitch . external_ids:system-id=test");
        self.switch_stopped = false;
    }

    /// Makes this server a DHCP server for the network of its `link`, which is up and has 192.0.2.1 and fd00:1::1.
    #[allow(dead_code, reason = "the tests of flow tables share this bed")]
    pub fn serve_dhcp(&mut self, link: &str, v6: bool) {
        let folder = self.directory.path().display();
        let v6 = if v6 { "--enable-ra --dhcp-range=fd00:1::50,fd00:1::99,64,1h" } else { "" };
        let words = format!(
            "dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --port=0 --user=root \
             --interface={link} --bind-interfaces --dhcp-range=192.0.2.50,192.0.2.99,1h {v6} \
             --dhcp-option=3,192.0.2.1 --dhcp-option=6,192.0.2.53 \
             --dhcp-option=15,lease.example --dhcp-option=121,203.0.113.0/24,192.0.2.2,0.0.0.0/0,192.0.2.1 \
             --dhcp-leasefile={folder}/leases --pid-file={folder}/dnsmasq.pid --log-facility={folder}/dnsmasq.log"
        );
        self.start(&words.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
    }

    /// Commands of processes in the namespace.
    #[allow(dead_code, reason = "the tests of flow tables share this bed")]
    pub fn processes(&self) -> Vec<(i32, String)> {
        let pids = run(Command::new("ip").args(["netns", "pids", &self.namespace]));
        let pids = pids.split_whitespace().map(|pid| pid.parse().unwrap());
        let command = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pids.map(|pid| (pid, command(pid).replace('\0', " ")))
            .filter(|(_, command)| !command.is_empty())
            .collect()
    }

    /// Ends the switch, not its database.
    pub fn stop_switch(&mut self) {
        let mut switch = self.daemons.remove(0);
        switch.kill().unwrap();
        switch.wait().unwrap();
        self.switch_stopped = true;
    }

    /// The kernel forgets all, Open vSwitch's database nothing; `links` plugs the cables in again.
    pub fn reboot(&mut self, links: impl FnOnce(&Self)) {
        let has_switch = self.daemons.len() == 2;
        if has_switch {
            self.stop_switch();
        }
        run(Command::new("ip").args(["netns", "del", &self.namespace]));
        run(Command::new("ip").args(["netns", "add", &self.namespace]));
        self.ip("link set lo up");
        links(self);
        if has_switch {
            self.start_switch();
        }
    }

    /// Ends the database; the switch must be stopped.
    pub fn stop_database(&mut self) {
        let mut database = self.daemons.remove(0);
        database.kill().unwrap();
        database.wait().unwrap();
    }

    fn start(&mut self, arguments: &[&str]) {
        let log = File::create(self.directory.path().join(format!("{}.log", arguments[0]))).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).args(arguments).stdin(Stdio::null());
        for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
            command.env(name, self.directory.path());
        }
        self.daemons.push(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// A cable between two servers.
    pub fn link(&self, name: &str, other: &Bed, other_name: &str) {
        let (here, there) = (&self.namespace, &other.namespace);
        let words = format!("link add {name} netns {here} type veth peer name {other_name} netns {there}");
        run(Command::new("ip").args(words.split(' ')));
        for (bed, name) in [(self, name), (other, other_name)] {
            // The userspace datapath passes on checksums that a veth left for hardware to fill in.
            bed.exec(&format!("ethtool -K {name} tx off"));
        }
    }

    /// `ip` in the namespace; it must work.
    pub fn ip(&self, words: &str) -> String {
        run(Command::new("ip").args(["-n", &self.namespace]).args(words.split(' ')))
    }

    /// `ovs-vsctl` for this server's switch; it must work.
    pub fn ovs(&self, words: &str) -> String {
        let database = format!("--db=unix:{}", self.database().display());
        run(Command::new("ovs-vsctl").args([database.as_str(), "--timeout=30"]).args(words.split(' ')))
    }

    /// A command in the namespace; it must work.
    pub fn exec(&self, words: &str) -> String {
        run(Command::new("ip").args(["netns", "exec", &self.namespace]).args(words.split(' ')))
    }

    /// Packets come back from `address`. The first ones may be lost to address resolution.
    pub fn pings(&self, address: &str) {
        self.exec(&format!("ping -n -c 1 -w 20 {address}"));
    }

    /// This server's own, which is not there at first.
    pub fn resolv_conf(&self) -> PathBuf {
        self.directory.path().join("resolv.conf")
    }

    /// Makes the link a NIC as far as numbering goes: those here have no devices.
    #[allow(dead_code, reason = "the tests of flow tables share this bed")]
    pub fn is_nic(&self, name: &str) {
        let nic = self.directory.path().join("sys").join(name);
        std::fs::create_dir_all(nic.join("device")).unwrap();
        std::fs::write(nic.join("operstate"), "up\n").unwrap();
        std::fs::write(nic.join("address"), "").unwrap();
    }

    /// This server's own names of routing tables.
    #[allow(dead_code, reason = "the tests of flow tables share this bed")]
    pub fn rt_tables(&self) -> PathBuf {
        self.directory.path().join("rt_tables")
    }

    /// Where this server's switch has its sockets.
    #[allow(dead_code, reason = "the tests of flow tables share this bed")]
    pub fn rundir(&self) -> &std::path::Path {
        self.directory.path()
    }

    fn database(&self) -> PathBuf {
        self.directory.path().join("db.sock")
    }

    /// Runs `work` on a thread of its own inside the namespace, with a runtime like the agent's.
    pub fn inside<T: Send>(&self, work: impl AsyncFnOnce(Network) -> T + Send) -> T {
        self.inside_with(Some("netdev"), work)
    }

    /// [`Bed::inside`] with a datapath of one's own.
    pub fn inside_with<T: Send>(
        &self,
        datapath_type: Option<&str>,
        work: impl AsyncFnOnce(Network) -> T + Send,
    ) -> T {
        let config = HostConfig {
            ovs_db: Some(self.database()),
            datapath_type: datapath_type.map(str::to_owned),
            // A switch that is stopped is waited for in vain; one that works takes milliseconds.
            ovs_timeout: Some(Duration::from_secs(if self.switch_stopped { 1 } else { 30 })),
            resolv_conf: Some(self.resolv_conf()),
            resolved_conf: Some(self.directory.path().join("resolved.conf.d/90-muster.conf")),
            sys_class_net: Some(self.directory.path().join("sys")),
            rt_tables: Some(self.directory.path().join("rt_tables")),
            systemctl: Some(self.directory.path().join("systemctl")),
            neighbours: None,
            dhcp_client: self.dhcp_client,
            dhcp_notes: Some(self.directory.path().join("dhcp")),
            dhcp_scripts: Some(self.directory.path().join("scripts")),
            // Nobody answers where nobody is to.
            lease_within: Some(Duration::from_secs(if self.dhcp_is_silent { 3 } else { 45 })),
        };
        let in_namespace = move || {
            let file = File::open(format!("/run/netns/{}", self.namespace)).unwrap();
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            for folder in self.noexec {
                // Like Debian's /run, for this thread and what it starts.
                let folder = self.directory.path().join(folder);
                std::fs::create_dir_all(&folder).unwrap();
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                run(Command::new("mount").args(["--make-rslave", "/"]));
                run(Command::new("mount")
                    .args(["-t", "tmpfs", "-o", "noexec,nosuid,nodev", "tmpfs"])
                    .arg(folder));
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work(Network::new(config)))
        };
        let done = std::thread::scope(|scope| scope.spawn(in_namespace).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // DHCP clients outlive whoever has started them; this thread is outside of the namespace.
        let left = Command::new("ip").args(["netns", "pids", &self.namespace]).output();
        let left =
            left.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for pid in left.split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", pid]).status();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
