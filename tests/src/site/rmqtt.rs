//! A cluster of three nodes of rmqtt between a site's controller and its agents, set up as `docs/brokers.md` says, with
//! `examples/rmqtt`. Its program is built from `tests/rmqttd`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_shared::join;
use muster_testbed::{Daemon, Namespace, command, eventually, port};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{Port, Probe, binary, broker_page, certificates};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/rmqtt");
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rmqttd/Cargo.toml");
/// The directory of the example's files.
const PLACE: &str = "/etc/rmqtt";
const NODES: usize = 3;
/// A node ends itself where it finds no leader for half a minute, or loses the one it was joining. It is started again,
/// as `docs/brokers.md` has systemd do it; it ends with its supervisor.
const SUPERVISED: &str = r#"while :; do setpriv --pdeathsig KILL -- "$@"; sleep 1; done"#;
/// The users, which no server is called.
const CONTROLLER_PASSWORD: &str = "a password for the controller";
const AGENT_USER: &str = "agent@muster";
const AGENT_PASSWORD: &str = "a password for agents";

/// A cluster that runs for as long as the value lives.
pub struct Rmqtt {
    /// The running nodes, in the order of their numbers.
    pub nodes: Vec<Daemon>,
    /// The address of each node of the cluster for Muster's nodes.
    addresses: Vec<(String, u16)>,
    /// The first node's port for joiners.
    join_port: u16,
    dir: PathBuf,
}

/// The places of the cluster's nodes before they run: the controller makes the CA that they need.
pub struct Plan {
    dir: PathBuf,
    host: String,
    ports: Vec<Ports>,
}

/// The ports of one node of the cluster.
struct Ports {
    nodes: u16,
    join: u16,
    cluster: u16,
    raft: u16,
}

impl Rmqtt {
    /// Starts a node on loopback again, and waits until it is one of the cluster.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
        self.until_listens(node, None);
    }

    /// Returns a client with the agents' user at the first node's port for nodes, or for joiners.
    pub fn probe(&self, port: Port) -> Probe {
        let ca = CertificateDer::from_pem_file(self.dir.join("broker-ca.crt")).unwrap();
        let (host, nodes) = &self.addresses[0];
        let port = match port {
            Port::Nodes => *nodes,
            Port::Joiners => self.join_port,
        };
        Probe::new(&format!("{host}:{port}"), join::fingerprint(&ca)).user(AGENT_USER, AGENT_PASSWORD)
    }

    /// A node listens once it has joined the cluster.
    fn until_listens(&self, node: usize, namespace: Option<&Namespace>) {
        let (host, port) = &self.addresses[node];
        eventually("a node of the cluster listens", || {
            let mut connect = command(namespace, "bash");
            connect.arg("-c").arg(format!("exec 3<>/dev/tcp/{host}/{port}"));
            connect.output().ok()?.status.success().then_some(())
        });
    }
}

impl Plan {
    /// On loopback, or on the hub of a namespace; files go into `dir`.
    pub fn new(dir: &Path, namespace: Option<&Namespace>) -> Self {
        let host = if namespace.is_some() { Namespace::HUB } else { "127.0.0.1" };
        let dir = dir.join("rmqtt");
        certificates(&dir, &[host, "localhost"]);
        let ports = || Ports { nodes: port(), join: port(), cluster: port(), raft: port() };
        Self { dir, host: host.to_owned(), ports: (0..NODES).map(|_| ports()).collect() }
    }

    /// The controller's settings, for a site that has this name; `first` is the node that clients try first.
    pub fn settings(&self, site: &str, first: usize) -> String {
        let Self { dir, host, ports } = self;
        let password = |name: &str, password: &str| {
            let file = dir.join(name);
            fs::write(&file, format!("{password}\n")).unwrap();
            file.display().to_string()
        };
        let mut places = vec![
            ("/etc/muster/broker-ca.crt".to_owned(), dir.join("broker-ca.crt").display().to_string()),
            ("9b3231f2ac".to_owned(), site.to_owned()),
            (
                "/etc/muster/controller-password".to_owned(),
                password("controller-password", CONTROLLER_PASSWORD),
            ),
            ("/etc/muster/agent-password".to_owned(), password("agent-password", AGENT_PASSWORD)),
        ];
        for (number, it) in (1..=NODES).zip(ports.iter().cycle().skip(first)) {
            let name = format!("mq-{number}.example.org");
            places.push((format!("{name}:8883"), format!("{host}:{}", it.nodes)));
            places.push((format!("{name}:8884"), format!("{host}:{}", it.join)));
        }
        let places: Vec<_> = places.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
        broker_page::block("toml rmqtt", &places)
    }

    /// Returns the address to which nodes connect first.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.ports[0].nodes)
    }

    /// Starts it for the site that has these keys.
    pub fn start(&self, pki: &Path, namespace: Option<&Namespace>) -> Rmqtt {
        let Self { dir, host, ports } = self;
        let site = fs::read_to_string(pki.join("site")).unwrap();
        fs::copy(pki.join("ca.crt"), dir.join("site-ca.crt")).unwrap();
        let mut cluster = example("plugins/rmqtt-cluster-raft.toml");
        for (index, Ports { cluster: grpc, raft, .. }) in ports.iter().enumerate() {
            let name = format!("mq-{}.example.org", index + 1);
            cluster = cluster.replace(&format!("{name}:5363"), &format!("{host}:{grpc}"));
            cluster = cluster.replace(&format!("{name}:6003"), &format!("{host}:{raft}"));
        }
        let acl = example("plugins/rmqtt-acl.toml")
            .replace("CONTROLLER-PASSWORD", CONTROLLER_PASSWORD)
            .replace("AGENT-PASSWORD", AGENT_PASSWORD)
            .replace("SITE", site.trim());
        let plugins = dir.join("plugins");
        fs::create_dir_all(&plugins).unwrap();
        fs::write(plugins.join("rmqtt-cluster-raft.toml"), cluster).unwrap();
        fs::write(plugins.join("rmqtt-acl.toml"), acl).unwrap();
        let program = program();
        let start = |(index, ports): (usize, &Ports)| {
            let config = example("rmqtt.toml")
                .replace(PLACE, dir.to_str().unwrap())
                .replace("0.0.0.0:5363", &format!("{host}:{}", ports.cluster))
                .replace("0.0.0.0:8883", &format!("{host}:{}", ports.nodes))
                .replace("0.0.0.0:8884", &format!("{host}:{}", ports.join));
            let name = format!("rmqtt-{}", index + 1);
            fs::write(dir.join(format!("{name}.toml")), config).unwrap();
            let mut command = command(namespace, "bash");
            command.args(["-c", SUPERVISED, &name]).arg(&program);
            command.arg("--config").arg(dir.join(&name)).args(["--id", &(index + 1).to_string()]);
            Daemon::start(&name, command, dir.parent().unwrap())
        };
        let nodes = ports.iter().enumerate().map(start).collect();
        let addresses = ports.iter().map(|it| (host.clone(), it.nodes)).collect();
        let rmqtt = Rmqtt { nodes, addresses, join_port: ports[0].join, dir: dir.clone() };
        (0..NODES).for_each(|node| rmqtt.until_listens(node, namespace));
        rmqtt
    }
}

fn example(name: &str) -> String {
    fs::read_to_string(format!("{EXAMPLE}/{name}")).unwrap()
}

/// The broker's program. `make test` has built it; it is built now if it is not there.
fn program() -> PathBuf {
    let target = binary("muster-controller").ancestors().nth(2).unwrap().join("rmqttd");
    let path = target.join("debug/rmqttd");
    if !path.exists() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "--locked", "--manifest-path"])
            .arg(PROGRAM)
            .env("CARGO_TARGET_DIR", &target);
        assert!(cargo.status().unwrap().success(), "cannot build {PROGRAM}");
    }
    path
}
