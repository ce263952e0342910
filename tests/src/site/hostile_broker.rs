//! A broker that cannot be trusted: it loses, repeats, delays and swaps messages, says again what was said long ago,
//! and hands one node's messages to another. It keeps all that it saw.
//!
//! The broker speaks as much MQTT 5 as its clients do, and lets everybody in.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, ConnectReturnCode, LastWill, Packet, PingResp, PubAck, Publish, SubAck, SubscribeReasonCode,
};
use rumqttc::v5::mqttbytes::{Error, QoS};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// Messages that wait for one client; more are lost.
const QUEUE: usize = 256;
/// Messages that it remembers to say again.
const MEMORY: usize = 300;

/// A broker that runs as long as the value lives.
pub struct HostileBroker {
    shared: Arc<Shared>,
    _runtime: Runtime,
}

/// The counts of the broker's misdeeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Misdeeds {
    pub passed: u64,
    pub lost: u64,
    pub repeated: u64,
    pub delayed: u64,
    pub said_again: u64,
    pub misdelivered: u64,
}

struct Shared(Mutex<State>);

struct State {
    clients: Vec<Client>,
    last: u64,
    memory: VecDeque<(String, Bytes)>,
    delayed: Vec<(String, Bytes)>,
    seen: Vec<u8>,
    is_calm: bool,
    random: u64,
    done: Misdeeds,
}

struct Client {
    number: u64,
    id: String,
    filters: Vec<String>,
    send: mpsc::Sender<(String, Bytes)>,
}

impl HostileBroker {
    /// On loopback at this port, with certificates as [`Plan`](super::mosquitto::Plan) makes them.
    pub fn start(port: u16, certificates: &Path, seed: u64) -> Self {
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificates.join("broker.crt"))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let key = PrivateKeyDer::from_pem_file(certificates.join("broker.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let shared = Arc::new(Shared(Mutex::new(State {
            clients: Vec::new(),
            last: 0,
            memory: VecDeque::new(),
            delayed: Vec::new(),
            seen: Vec::new(),
            is_calm: true,
            random: seed,
            done: Misdeeds::default(),
        })));
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let serving = Arc::clone(&shared);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&serving));
                tokio::spawn(async move {
                    let _ = socket.set_nodelay(true);
                    if let Ok(stream) = acceptor.accept(socket).await {
                        serve(&shared, stream).await;
                    }
                });
            }
        });
        Self { shared, _runtime: runtime }
    }

    /// From now on it does what it likes, or passes everything on.
    pub fn set_calm(&self, is_calm: bool) {
        let mut state = self.shared.lock();
        state.is_calm = is_calm;
        if is_calm {
            for (topic, payload) in std::mem::take(&mut state.delayed) {
                state.deliver(&topic, &payload);
            }
        }
    }

    /// Returns the misdeeds so far.
    pub fn done(&self) -> Misdeeds {
        self.shared.lock().done
    }

    /// Whether these bytes were in anything that passed.
    pub fn saw(&self, bytes: &[u8]) -> bool {
        self.shared.lock().seen.windows(bytes.len()).any(|window| window == bytes)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// SplitMix64, below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn published(&mut self, topic: String, payload: Bytes) {
        self.seen.extend_from_slice(topic.as_bytes());
        self.seen.extend_from_slice(&payload);
        self.memory.push_back((topic.clone(), payload.clone()));
        if self.memory.len() > MEMORY {
            self.memory.pop_front();
        }
        let deed = if self.is_calm { 99 } else { self.below(100) };
        match deed {
            0..3 => self.done.lost += 1,
            3..8 => {
                self.done.repeated += 1;
                self.deliver(&topic, &payload);
                self.deliver(&topic, &payload);
            }
            8..11 => {
                self.done.delayed += 1;
                self.delayed.push((topic, payload));
            }
            11..16 => {
                self.done.said_again += 1;
                let old = self.below(self.memory.len() as u64) as usize;
                let (old_topic, old) = self.memory[old].clone();
                self.deliver(&old_topic, &old);
                self.deliver(&topic, &payload);
            }
            16..21 => {
                self.done.misdelivered += 1;
                let other = self.below(self.memory.len() as u64) as usize;
                let (other, _) = self.memory[other].clone();
                self.deliver(&other, &payload);
                self.deliver(&topic, &payload);
            }
            _ => {
                self.done.passed += 1;
                self.deliver(&topic, &payload);
            }
        }
        // What was held back comes behind something else.
        if self.delayed.len() > 2 {
            let late = self.delayed.remove(0);
            self.deliver(&late.0, &late.1);
        }
    }

    fn deliver(&self, topic: &str, payload: &Bytes) {
        for client in
            self.clients.iter().filter(|client| client.filters.iter().any(|filter| fits(filter, topic)))
        {
            // Without room it is lost.
            let _ = client.send.try_send((topic.to_owned(), payload.clone()));
        }
    }
}

fn fits(filter: &str, topic: &str) -> bool {
    let (filter, topic): (Vec<_>, Vec<_>) = (filter.split('/').collect(), topic.split('/').collect());
    filter.len() == topic.len() && filter.iter().zip(&topic).all(|(part, name)| *part == "+" || part == name)
}

/// Serves a client, until its connection ends.
async fn serve(shared: &Shared, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (send, mut queue) = mpsc::channel(QUEUE);
    let (mut received, mut output, mut next_id) = (BytesMut::new(), BytesMut::new(), 0u16);
    let mut number = 0;
    let mut will: Option<LastWill> = None;
    'connection: loop {
        loop {
            let answer = match Packet::read(&mut received, None) {
                Ok(Packet::Connect(connect, last_will, _)) => {
                    number = shared.entered(&connect.client_id, &send);
                    will = last_will;
                    let code = ConnectReturnCode::Success;
                    Some(Packet::ConnAck(ConnAck { session_present: false, code, properties: None }))
                }
                Ok(Packet::Subscribe(subscribe)) => {
                    let filters: Vec<_> =
                        subscribe.filters.iter().map(|filter| filter.path.clone()).collect();
                    let granted = SubscribeReasonCode::Success(QoS::AtLeastOnce);
                    let return_codes = vec![granted; filters.len()];
                    shared.subscribed(number, filters);
                    Some(Packet::SubAck(SubAck { pkid: subscribe.pkid, return_codes, properties: None }))
                }
                Ok(Packet::Publish(publish)) => {
                    let topic = String::from_utf8_lossy(&publish.topic).into_owned();
                    shared.lock().published(topic, publish.payload);
                    Some(Packet::PubAck(PubAck::new(publish.pkid, None)))
                }
                Ok(Packet::PingReq(_)) => Some(Packet::PingResp(PingResp)),
                Ok(Packet::PubAck(_)) => None,
                Err(Error::InsufficientBytes(_)) => break,
                Ok(_) | Err(_) => break 'connection,
            };
            if let Some(answer) = answer {
                answer.write(&mut output, None).unwrap();
            }
        }
        if writer.write_all(&output).await.is_err() || writer.flush().await.is_err() {
            break;
        }
        output.clear();
        tokio::select! {
            read = reader.read_buf(&mut received) => if !matches!(read, Ok(1..)) {
                break;
            },
            message = queue.recv() => {
                let Some((topic, payload)) = message else { break };
                next_id = next_id % 60_000 + 1;
                let mut publish = Publish::new(topic, QoS::AtLeastOnce, payload, None);
                publish.pkid = next_id;
                Packet::Publish(publish).write(&mut output, None).unwrap();
            }
        }
    }
    let mut state = shared.lock();
    state.clients.retain(|client| client.number != number);
    if let Some(will) = will {
        state.published(String::from_utf8_lossy(&will.topic).into_owned(), will.message);
    }
}

impl Shared {
    /// A client with the same id has to go.
    fn entered(&self, id: &str, send: &mpsc::Sender<(String, Bytes)>) -> u64 {
        let mut state = self.lock();
        state.clients.retain(|client| client.id != id);
        state.last += 1;
        let number = state.last;
        state.clients.push(Client { number, id: id.to_owned(), filters: Vec::new(), send: send.clone() });
        number
    }

    fn subscribed(&self, number: u64, filters: Vec<String>) {
        let mut state = self.lock();
        if let Some(client) = state.clients.iter_mut().find(|client| client.number == number) {
            client.filters.extend(filters);
        }
    }
}
