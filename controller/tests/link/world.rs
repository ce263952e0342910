//! A link with a driver that does what the test says, and nodes with certificates.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_controller::lease::Tenure;
use muster_controller::link::intake::fair::Bounds;
use muster_controller::link::intake::{self, Intake};
use muster_controller::link::{
    Admitted, Common, DirectConfig, DirectLink, JoinAsk, JoinGrant, Limits, LinkEvent, LinkHandle, NotJoined,
    RefusedPackets,
};
use muster_controller::pki::Pki;
use muster_shared::model::{Down, Progress, ReportKey, Up};
use muster_shared::seal::{Body, Seal, SealSecret, Session};
use muster_shared::{Attempt, Epoch, Generation, NodeId, ResourceId, SiteId, wire};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

/// A test that waits longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

type JoinRule = Box<dyn Fn(&JoinAsk) -> Result<JoinGrant, String> + Send>;

pub struct World {
    pub pki: Arc<Pki>,
    pub link: DirectLink,
    pub handle: LinkHandle,
    pub driver: Driver,
    pub refused: RefusedPackets,
    pub tenure: Tenure,
    dir: TempDir,
}

/// The behaviour of the driver, and what it saw.
pub struct Driver {
    pub admitted: Admitted,
    pub joins: Arc<Mutex<JoinRule>>,
    pub running: watch::Sender<bool>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

#[derive(Debug, PartialEq)]
pub enum Seen {
    Connected(NodeId, u64),
    Received(NodeId, u64, Vec<Up>),
    Disconnected(NodeId, u64),
    Joined(JoinAsk),
}

pub struct Node {
    pub id: NodeId,
    pub secret: [u8; 32],
    pub certificate: Vec<u8>,
    pub key: KeyPair,
    pub seal: Seal,
    /// The session of its newest connection.
    pub session: Mutex<Option<Session>>,
}

impl World {
    pub async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub async fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pki = Arc::new(Pki::open(dir.path()).unwrap());
        let (feed, inbox) = intake::channel(Bounds::default());
        let tenure = Tenure::for_good();
        let common = Common::new(tenure.clone());
        common.open();
        let (admitted, refused) = (common.admitted.clone(), common.refused.clone());
        let listen = "127.0.0.1:0".parse().unwrap();
        let config = DirectConfig { listen, names: Vec::new(), limits, common };
        let link = DirectLink::start(config, Arc::clone(&pki), feed).await.unwrap();
        let handle = link.handle();
        Self { pki, link, handle, driver: Driver::start(inbox, admitted), refused, tenure, dir }
    }

    pub fn site(&self) -> &SiteId {
        self.pki.site()
    }

    pub fn address(&self) -> SocketAddr {
        self.link.local_addr()
    }

    pub fn path(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// A node that has joined already.
    pub fn node(&self, name: &str) -> Node {
        let id: NodeId = name.parse().unwrap();
        let secret = random();
        let seal_secret = SealSecret::from_bytes(secret);
        self.driver.admitted.set(id.clone(), Some(seal_secret.public()));
        let seal = Seal::new(&seal_secret, &self.pki.seal_public(), self.site(), &id);
        let (key, csr) = request();
        let proven = self.pki.prove(&csr).unwrap();
        let certificate = self.pki.issue(&id, &proven, &seal_secret.public()).unwrap().der;
        Node { id, secret, certificate, key, seal, session: Mutex::default() }
    }

    /// TLS as a client of this site, with or without a certificate.
    pub fn tls(&self, identity: Option<(&[u8], &KeyPair)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.pki.ca_der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => config
                .with_client_auth_cert(
                    vec![CertificateDer::from(certificate.to_vec())],
                    PrivateKeyDer::Pkcs8(key.serialize_der().into()),
                )
                .unwrap(),
        })
    }
}

impl Node {
    pub fn identity(&self) -> Option<(&[u8], &KeyPair)> {
        Some((&self.certificate, &self.key))
    }

    /// The next packet of its session; packets are sent in this order.
    pub fn pack(&self, messages: &[Up]) -> Vec<u8> {
        self.pack_body(wire::pack(messages).unwrap().remove(0))
    }

    /// The next packet, which says nothing. After it the controller may send something.
    pub fn pack_nothing(&self) -> Vec<u8> {
        let mut none = Body::with_room_for(1);
        none.extend(&[0]);
        self.pack_body(none)
    }

    fn pack_body(&self, body: Body) -> Vec<u8> {
        self.session.lock().unwrap().as_mut().expect("a session").seal(body)
    }

    pub fn open(&self, packet: &[u8]) -> Vec<Down> {
        let body = self.session.lock().unwrap().as_mut().expect("a session").open(packet).unwrap();
        wire::read_body(&body).unwrap()
    }
}

pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    default_provider().secure_random.fill(&mut bytes).unwrap();
    bytes
}

/// A key and a signing request that asks for what it will not get.
pub fn request() -> (KeyPair, Vec<u8>) {
    let key = KeyPair::generate().unwrap();
    let csr = CertificateParams::new(vec!["some-other-name".to_owned()]).unwrap().serialize_request(&key);
    (key, csr.unwrap().der().to_vec())
}

/// A message that can be told from others by its number.
pub fn up(number: u64) -> Up {
    Up::Progress(Progress { key: key(number), settling: false })
}

pub fn down(number: u64) -> Down {
    Down::Acknowledge(key(number))
}

fn key(number: u64) -> ReportKey {
    ReportKey {
        resource: ResourceId(uuid::Uuid::from_bytes([7; 16])),
        generation: Generation { epoch: Epoch(1), number },
        attempt: Attempt(0),
    }
}

impl Driver {
    fn start(mut inbox: Intake, admitted: Admitted) -> Self {
        let (running, mut run) = watch::channel(true);
        let (see, seen) = mpsc::unbounded_channel();
        let refuse: JoinRule = Box::new(|_| Err("no such token".into()));
        let joins = Arc::new(Mutex::new(refuse));
        let (known, rule) = (admitted.clone(), Arc::clone(&joins));
        tokio::spawn(async move {
            while run.wait_for(|running| *running).await.is_ok() {
                let Some(event) = inbox.next().await else { break };
                let seen = match event {
                    LinkEvent::Connected { node, connection } => Seen::Connected(node, connection),
                    LinkEvent::Received { node, connection, messages } => {
                        Seen::Received(node, connection, messages)
                    }
                    LinkEvent::Disconnected { node, connection } => Seen::Disconnected(node, connection),
                    LinkEvent::Join { ask, reply } => {
                        let answer = (rule.lock().unwrap())(&ask);
                        if answer.is_ok() {
                            known.set(ask.name.clone(), Some(ask.seal_public));
                        }
                        let _ = reply.send(answer.map_err(|reason| NotJoined { reason, after: None }));
                        Seen::Joined(ask)
                    }
                };
                if see.send(seen).is_err() {
                    break;
                }
            }
        });
        Self { admitted, joins, running, seen }
    }

    /// The next event.
    pub async fn next(&mut self) -> Seen {
        tokio::time::timeout(PATIENCE, self.seen.recv()).await.expect("an event").expect("a driver")
    }

    /// The next event, which must be this node's coming.
    pub async fn connected(&mut self, id: &NodeId) -> u64 {
        match self.next().await {
            Seen::Connected(node, connection) if node == *id => connection,
            other => panic!("{other:?}"),
        }
    }

    /// Only connections of this node came and went so far. One that ends before the driver looks is not told of.
    pub fn saw_only(&mut self, id: &NodeId) {
        while let Ok(seen) = self.seen.try_recv() {
            let is_its =
                matches!(&seen, Seen::Connected(node, _) | Seen::Disconnected(node, _) if node == id);
            assert!(is_its, "{seen:?}");
        }
    }

    /// No event has come so far.
    pub fn saw_nothing(&mut self) {
        assert_eq!(self.seen.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }
}
