//! A controller that gives out certificates and welcomes nodes; it has no work for them.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use muster_shared::NodeId;
use muster_shared::join::{
    JoinAnswer, JoinRequest, JoinToken, NewNode, TokenId, TokenSecret, fingerprint, open_renewal,
};
use muster_shared::seal::{ControllerEnd, Opened, Seal, SealPublic, SealSecret};
use rcgen::{BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair};
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, ConnectReturnCode, Packet, PingResp, PubAck, Publish, SubAck, SubscribeReasonCode,
};
use rumqttc::v5::mqttbytes::{Error, QoS};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

const PACKET_MAX: Option<u32> = Some(1024 * 1024);

/// An event that it saw, with the certificate that was given or shown.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    Joined(Vec<u8>),
    Renewed(Vec<u8>),
    Node(Vec<u8>),
}

pub struct Controller {
    port: u16,
    site: Arc<Site>,
    seen: Receiver<Seen>,
}

struct Site {
    ca: Issuer<'static, KeyPair>,
    ca_der: CertificateDer<'static>,
    tls: Arc<ServerConfig>,
    seal: [u8; 32],
    nodes: Mutex<BTreeMap<String, SealPublic>>,
    grants: Mutex<usize>,
    /// Until when the nth certificate is said to be valid.
    not_after: fn(usize) -> u64,
    seen: Sender<Seen>,
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Controller {
    pub fn start(not_after: fn(usize) -> u64) -> Self {
        let (tell, seen) = channel();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_der = params.self_signed(&key).unwrap().der().clone();
        let ca = Issuer::new(params, key);
        let tls = tls(&ca, &ca_der);
        let (nodes, grants) = (Mutex::default(), Mutex::default());
        let site = Arc::new(Site { ca, ca_der, tls, seal: [7; 32], nodes, grants, not_after, seen: tell });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&site);
        // Ends with the test's process: one process, one test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = Arc::clone(&serving);
                std::thread::spawn(move || site.serve(stream));
            }
        });
        Self { port, site, seen }
    }

    pub fn token(&self) -> String {
        self.token_at("127.0.0.1")
    }

    pub fn token_at(&self, host: &str) -> String {
        JoinToken {
            site: "lab".parse().unwrap(),
            addresses: vec![format!("{host}:{}", self.port).parse().unwrap()],
            ca_fingerprint: fingerprint(&self.site.ca_der),
            id: TokenId([1; 8]),
            secret: TokenSecret([2; 16]),
            expires: now() + 3600,
            broker: None,
        }
        .to_string()
    }

    pub fn next(&self) -> Seen {
        self.seen.recv().unwrap()
    }
}

fn tls(ca: &Issuer<'static, KeyPair>, ca_der: &CertificateDer<'static>) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca_der.clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone(), ca_der.clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        );
    Arc::new(config.unwrap())
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

impl Site {
    /// Until the other side has gone.
    fn serve(&self, stream: TcpStream) {
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&self.tls)).unwrap(), stream);
        let mut received = BytesMut::new();
        let mut answer_to = String::new();
        let mut end = None;
        while let Ok(packet) = receive(&mut stream, &mut received) {
            let answers = match packet {
                Packet::Connect(..) => {
                    let code = ConnectReturnCode::Success;
                    vec![Packet::ConnAck(ConnAck { session_present: false, code, properties: None })]
                }
                Packet::Subscribe(subscribe) => {
                    answer_to.clone_from(&subscribe.filters[0].path);
                    if let Some(shown) = stream.conn.peer_certificates() {
                        let _ = self.seen.send(Seen::Node(shown[0].to_vec()));
                    }
                    let return_codes = vec![SubscribeReasonCode::Success(QoS::AtLeastOnce)];
                    vec![Packet::SubAck(SubAck { pkid: subscribe.pkid, return_codes, properties: None })]
                }
                Packet::Publish(publish) => {
                    let mut answers = vec![Packet::PubAck(PubAck::new(publish.pkid, None))];
                    if answer_to.contains("/join/") {
                        let answer = self.answer(&publish.payload).encode();
                        answers.push(Packet::Publish(Publish::new(
                            &answer_to,
                            QoS::AtMostOnce,
                            answer,
                            None,
                        )));
                    } else {
                        let end = end.get_or_insert_with(|| ControllerEnd::new(self.seal_of(&answer_to)));
                        // Later messages of the node are ignored.
                        if let Ok(Opened::Greeting { answer }) = end.open(&publish.payload, || Some([9; 32]))
                        {
                            let answer = Publish::new(&answer_to, QoS::AtMostOnce, answer, None);
                            answers.push(Packet::Publish(answer));
                        }
                    }
                    answers
                }
                Packet::PingReq(_) => vec![Packet::PingResp(PingResp)],
                _ => Vec::new(),
            };
            let mut bytes = BytesMut::new();
            for answer in answers {
                answer.write(&mut bytes, PACKET_MAX).unwrap();
            }
            if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }

    fn seal(&self, node: &NodeId) -> Seal {
        let public = self.nodes.lock().unwrap()[node.as_str()];
        Seal::new(&SealSecret::from_bytes(self.seal), &public, &"lab".parse().unwrap(), node)
    }

    /// The seal of the node with this topic.
    fn seal_of(&self, down: &str) -> Seal {
        let name = down.strip_prefix("muster/v1/lab/").and_then(|rest| rest.strip_suffix("/down"));
        self.seal(&name.unwrap().parse().unwrap())
    }

    fn answer(&self, request: &[u8]) -> JoinAnswer {
        match JoinRequest::decode(request).unwrap() {
            JoinRequest::Join(NewNode { name, csr_der, seal_public, .. })
            | JoinRequest::Move(NewNode { name, csr_der, seal_public, .. }) => {
                self.nodes.lock().unwrap().insert(name.to_string(), seal_public);
                self.grant(name, &csr_der, Seen::Joined)
            }
            JoinRequest::Renew { node, packet } => {
                let csr_der = open_renewal(&self.seal(&node), &packet).unwrap();
                self.grant(node, &csr_der, Seen::Renewed)
            }
        }
    }

    fn grant(&self, node: NodeId, csr_der: &[u8], seen: fn(Vec<u8>) -> Seen) -> JoinAnswer {
        let key = CertificateSigningRequestParams::from_der(&csr_der.into()).unwrap().public_key;
        let params = CertificateParams::new(vec![node.to_string()]).unwrap();
        let certificate_der = params.signed_by(&key, &self.ca).unwrap().der().to_vec();
        let mut grants = self.grants.lock().unwrap();
        let not_after = (self.not_after)(*grants);
        *grants += 1;
        let _ = self.seen.send(seen(certificate_der.clone()));
        JoinAnswer::Granted {
            certificate_der,
            ca_der: self.ca_der.to_vec(),
            controller_seal: SealSecret::from_bytes(self.seal).public(),
            site: "lab".parse().unwrap(),
            node,
            not_after,
        }
    }
}

fn receive(stream: &mut Stream, received: &mut BytesMut) -> io::Result<Packet> {
    loop {
        match Packet::read(received, PACKET_MAX) {
            Ok(packet) => return Ok(packet),
            Err(Error::InsufficientBytes(_)) => {}
            Err(error) => return Err(io::Error::other(format!("{error:?}"))),
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => received.extend_from_slice(&piece[..length]),
        }
    }
}
