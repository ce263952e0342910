//! Mosquitto between a site's controller and its agents, set up as `examples/mosquitto` has it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use muster_agent_link::Identity;
use muster_broker::{BrokerError, Client, Options, PACKET_MAX, Received, client_config};
use muster_shared::join::{self, Address, Credentials};
use muster_testbed::{Daemon, Namespace, PATIENCE, command, eventually};
use rumqttc::v5::mqttbytes::QoS;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/mosquitto");
/// Where the example has its files.
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
    addresses: [Address; 2],
}

/// Where a broker is, before it runs: the controller makes the CA that it needs.
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
            None => ("127.0.0.1", free_port(), free_port()),
        };
        let dir = dir.join("mosquitto");
        fs::create_dir_all(&dir).unwrap();
        let mut make = Command::new("sh");
        make.arg(format!("{EXAMPLE}/certificates.sh")).arg(&dir).args([host, "localhost"]);
        assert!(make.status().unwrap().success(), "cannot make the broker's certificates");
        fs::write(dir.join("password"), format!("{PASSWORD}\n")).unwrap();
        Self { dir, host: host.to_owned(), port, join_port }
    }

    /// The controller's settings.
    pub fn settings(&self) -> String {
        let Self { host, port, join_port, .. } = self;
        let dir = self.dir.display();
        format!(
            "[link]\nurl = \"mqtts://{host}:{port}\"\njoin_url = \"mqtts://{host}:{join_port}\"\n\
             ca_file = \"{dir}/broker-ca.crt\"\njoin_user = \"{USER}\"\njoin_password_file = \"{dir}/password\"\n"
        )
    }

    /// With nodes and joiners at one port.
    pub fn one_port(mut self) -> Self {
        self.join_port = self.port;
        self
    }

    /// Where nodes connect.
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
        let acl = example("acl").replace("SITE", site.trim());
        fs::write(dir.join("acl"), acl).unwrap();
        let mut passwords = Command::new("mosquitto_passwd");
        passwords.args(["-b", "-c"]).arg(dir.join("passwords")).args([USER, PASSWORD]);
        assert!(passwords.status().unwrap().success(), "cannot make the broker's passwords");
        let config = example("muster.conf")
            .replace(PLACE, dir.to_str().unwrap())
            .replace("listener 8883", &format!("listener {port} {host}"))
            .replace("listener 8884", &format!("listener {join_port} {host}"));
        // Before the first listener. It would give up root, and with it the directory of the test.
        fs::write(dir.join("muster.conf"), format!("user root\n{config}")).unwrap();
        let mut command = command(namespace, "/usr/sbin/mosquitto");
        command.arg("-c").arg(dir.join("muster.conf"));
        let daemon = Daemon::start("mosquitto", command, dir.parent().unwrap());
        let addresses = [*port, *join_port].map(|port| format!("{host}:{port}").parse().unwrap());
        let mosquitto = Mosquitto { daemon, dir: dir.clone(), addresses };
        eventually("mosquitto runs", || mosquitto.daemon.log().contains(" running").then_some(()));
        mosquitto
    }
}

impl Mosquitto {
    /// Changes its configuration, and starts it again.
    pub fn change(&mut self, from: &str, to: &str) {
        self.edit("muster.conf", from, to);
    }

    /// Changes its permissions, and starts it again.
    pub fn permit(&mut self, from: &str, to: &str) {
        self.edit("acl", from, to);
    }

    /// Whether it takes a message on this topic from a node that shows the certificate of an agent.
    pub fn takes_from(&self, state: &Path, topic: &str) -> bool {
        let record = fs::read(state.join("identity")).unwrap();
        // Behind the record's head: `agent/src/record.rs`.
        let identity: Identity = postcard::from_bytes(&record[8 + 16..]).unwrap();
        let own = Some((&identity.certificate_der[..], &identity.key_der[..]));
        self.takes(&self.addresses[0], "somebody", own, None, topic)
    }

    /// Whether it takes a message on this topic from a joiner.
    pub fn takes_from_joiner(&self, client_id: &str, topic: &str) -> bool {
        let credentials = Credentials { user: USER.into(), password: PASSWORD.into() };
        self.takes(&self.addresses[1], client_id, None, Some(credentials), topic)
    }

    fn takes(
        &self,
        address: &Address,
        client_id: &str,
        own: Option<(&[u8], &[u8])>,
        credentials: Option<Credentials>,
        topic: &str,
    ) -> bool {
        let ca = CertificateDer::from_pem_file(self.dir.join("broker-ca.crt")).unwrap();
        let options = Options {
            client_id: client_id.to_owned(),
            credentials,
            tls: Arc::new(client_config(join::fingerprint(&ca), own).unwrap()),
            keep_alive: PATIENCE,
            will: None,
            subscribe: vec![format!("test/{client_id}")],
            packet_max: PACKET_MAX,
            inflight: 1,
            requests: 1,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let Client { sender, mut receiver } = muster_broker::connect(address, options).await.unwrap();
            sender.publish(topic, QoS::AtLeastOnce, false, "x").await.unwrap();
            loop {
                match receiver.next().await {
                    Ok(Received::Taken) => return true,
                    Ok(Received::Message(_) | Received::Other) => {}
                    Err(BrokerError::NotTaken { .. }) => return false,
                    Err(error) => panic!("{error}"),
                }
            }
        })
    }

    fn edit(&mut self, file: &str, from: &str, to: &str) {
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "no '{from}' in {file}");
        fs::write(path, text.replace(from, to)).unwrap();
        self.daemon.restart();
    }
}

fn example(name: &str) -> String {
    fs::read_to_string(format!("{EXAMPLE}/{name}")).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
