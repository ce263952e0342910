//! Mosquitto between a site's controller and its agents, set up as `docs/brokers.md` says, with `examples/mosquitto`.

use std::fs;
use std::path::{Path, PathBuf};

use muster_shared::join;
use muster_testbed::{Daemon, Namespace, command, eventually, port};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{Probe, broker_page};

/// The directory of the example's files.
const PLACE: &str = "/etc/mosquitto/muster";
/// The user for joining: no server has such a name.
const USER: &str = "join@muster";
const PASSWORD: &str = "a password for joining";

/// A broker that runs for as long as the value lives.
pub struct Mosquitto {
    /// The running broker.
    pub daemon: Daemon,
    dir: PathBuf,
    /// For nodes, and for joiners.
    addresses: [String; 2],
}

/// A listener of the broker.
#[derive(Clone, Copy, Debug)]
pub enum Port {
    Nodes,
    Joiners,
}

/// The place of a broker before it runs: the controller makes the CA that it needs.
pub struct Plan {
    dir: PathBuf,
    host: String,
    port: u16,
    join_port: u16,
}

impl Plan {
    /// On loopback, or on the hub of a namespace; files go into `dir`.
    pub fn new(dir: &Path, namespace: Option<&Namespace>) -> Self {
        let (host, port, join_port) = match namespace {
            Some(_) => (Namespace::HUB, 8883, 8884),
            None => ("127.0.0.1", port(), port()),
        };
        let dir = dir.join("mosquitto");
        certificates(&dir, &[host, "localhost"]);
        fs::write(dir.join("password"), format!("{PASSWORD}\n")).unwrap();
        Self { dir, host: host.to_owned(), port, join_port }
    }

    /// The controller's settings.
    pub fn settings(&self) -> String {
        let Self { host, port, join_port, .. } = self;
        let file = |name: &str| self.dir.join(name).display().to_string();
        broker_page::block(
            "toml mosquitto",
            &[
                ("mq.example.org:8883", &format!("{host}:{port}")),
                ("mq.example.org:8884", &format!("{host}:{join_port}")),
                ("/etc/muster/broker-ca.crt", &file("broker-ca.crt")),
                ("/etc/muster/join-password", &file("password")),
            ],
        )
    }

    /// With nodes and joiners at one port.
    pub fn one_port(mut self) -> Self {
        self.join_port = self.port;
        self
    }

    /// Returns the address for nodes.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The port for nodes.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts it for the site that has these keys.
    pub fn start(&self, pki: &Path, namespace: Option<&Namespace>) -> Mosquitto {
        let Self { dir, host, port, join_port, .. } = self;
        let site = fs::read_to_string(pki.join("site")).unwrap();
        fs::copy(pki.join("ca.crt"), dir.join("site-ca.crt")).unwrap();
        let place = dir.to_str().unwrap();
        let conf_d = format!("{place}/conf.d/");
        fs::create_dir_all(&conf_d).unwrap();
        let places = [(PLACE, place), ("/etc/mosquitto/conf.d/", &conf_d), ("9b3231f2ac", site.trim())];
        broker_page::run("sh permissions", &places, &format!("{PASSWORD}\n{PASSWORD}\n"));
        let config = fs::read_to_string(format!("{conf_d}muster.conf"))
            .unwrap()
            .replace(PLACE, place)
            .replace("listener 8883", &format!("listener {port} {host}"))
            .replace("listener 8884", &format!("listener {join_port} {host}"));
        // Before the first listener. It would give up root, and with it the directory of the test.
        fs::write(dir.join("muster.conf"), format!("user root\n{config}")).unwrap();
        let mut command = command(namespace, "/usr/sbin/mosquitto");
        command.arg("-c").arg(dir.join("muster.conf"));
        let daemon = Daemon::start("mosquitto", command, dir.parent().unwrap());
        let addresses = [*port, *join_port].map(|port| format!("{host}:{port}"));
        let mosquitto = Mosquitto { daemon, dir: dir.clone(), addresses };
        eventually("mosquitto runs", || mosquitto.daemon.log().contains(" running").then_some(()));
        mosquitto
    }
}

impl Mosquitto {
    /// The address for nodes.
    pub fn address(&self) -> &str {
        &self.addresses[0]
    }

    /// Changes its configuration, and starts it again.
    pub fn change(&mut self, from: &str, to: &str) {
        self.edit("muster.conf", from, to);
    }

    /// Changes its permissions, and starts it again.
    pub fn permit(&mut self, from: &str, to: &str) {
        self.edit("acl", from, to);
    }

    /// Returns a client at the port for nodes, or for joiners.
    pub fn probe(&self, port: Port) -> Probe {
        let ca = CertificateDer::from_pem_file(self.dir.join("broker-ca.crt")).unwrap();
        let ca = join::fingerprint(&ca);
        match port {
            Port::Nodes => Probe::new(&self.addresses[0], ca),
            Port::Joiners => Probe::new(&self.addresses[1], ca).user(USER, PASSWORD),
        }
    }

    fn edit(&mut self, file: &str, from: &str, to: &str) {
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "no '{from}' in {file}");
        fs::write(path, text.replace(from, to)).unwrap();
        self.daemon.restart();
    }
}

/// A CA, and a certificate of it for a broker of these names.
pub fn certificates(dir: &Path, hosts: &[&str]) {
    let places = [(PLACE, dir.to_str().unwrap()), ("mq.example.org", &hosts.join(" "))];
    broker_page::run("sh certificates", &places, "");
}
