//! A broker that cannot be trusted: it loses, repeats, delays, swaps and alters messages, says again what was said long
//! ago, hands one node's messages to another, speaks in the place of both ends, and answers its clients wrongly. It keeps
//! all that it saw.
//!
//! The broker speaks as much MQTT 5 as its clients do, and lets everybody in.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use muster_shared::segment::{ConnectionId, Content, ResetReason, Segment};
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, ConnectReturnCode, Disconnect, DisconnectReasonCode, LastWill, Packet, PingResp, PubAck,
    PubAckReason, Publish, SubAck, SubscribeReasonCode,
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
/// Times that it does each of the deeds that end a connection: both ends wait longer after each, up to half a minute.
const EACH_MAX: u64 = 3;

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
    /// A byte of a message was changed.
    pub altered: u64,
    /// Messages in the place of one of the ends: that the connection is over, that packets were taken, a packet, and that
    /// the controller has started again.
    pub forged_resets: u64,
    pub forged_acks: u64,
    pub forged_packets: u64,
    pub forged_notices: u64,
    /// Answers of MQTT: a message is not taken, one is that was never sent, a subscription is refused, a session is there
    /// that cannot be, and the connection ends as soon as it has started.
    pub refused_publishes: u64,
    pub unknown_publishes: u64,
    pub refused_subscriptions: u64,
    pub false_sessions: u64,
    pub disconnects: u64,
}

impl Misdeeds {
    /// Whether each was done at least once.
    pub fn are_all(&self) -> bool {
        self.each().iter().all(|count| *count > 0)
    }

    /// How many were done.
    pub fn total(&self) -> u64 {
        self.each().iter().sum()
    }

    /// How often each was done.
    fn each(&self) -> [u64; 15] {
        let Self {
            passed: _,
            lost,
            repeated,
            delayed,
            said_again,
            misdelivered,
            altered,
            forged_resets,
            forged_acks,
            forged_packets,
            forged_notices,
            refused_publishes,
            unknown_publishes,
            refused_subscriptions,
            false_sessions,
            disconnects,
        } = *self;
        [
            lost,
            repeated,
            delayed,
            said_again,
            misdelivered,
            altered,
            forged_resets,
            forged_acks,
            forged_packets,
            forged_notices,
            refused_publishes,
            unknown_publishes,
            refused_subscriptions,
            false_sessions,
            disconnects,
        ]
    }
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
            21..23 if self.done.altered < EACH_MAX && !payload.is_empty() => {
                self.done.altered += 1;
                let (place, bits) = (self.below(payload.len() as u64) as usize, self.below(255) as u8 + 1);
                let mut altered = payload.to_vec();
                altered[place] ^= bits;
                self.deliver(&topic, &altered.into());
            }
            23..29 => {
                self.forge(&topic, &payload);
                self.done.passed += 1;
                self.deliver(&topic, &payload);
            }
            _ => {
                self.done.passed += 1;
                self.deliver(&topic, &payload);
            }
        }
        // A packet that was held back comes behind another one.
        if self.delayed.len() > 2 {
            let late = self.delayed.remove(0);
            self.deliver(&late.0, &late.1);
        }
    }

    /// Says something about the connection of a message before that message, which names the connection in clear.
    fn forge(&mut self, topic: &str, payload: &[u8]) {
        let Ok(Segment { connection, content }) = Segment::decode(payload) else { return };
        let (base, to_node) = match (topic.strip_suffix("/down"), topic.strip_suffix("/up")) {
            (Some(base), _) => (base, true),
            (None, Some(base)) => (base, false),
            (None, None) => return,
        };
        let number = if let Content::Data { number, .. } = content { number } else { 0 };
        let packet: [u8; 64] = std::array::from_fn(|_| self.below(256) as u8);
        let (count, topic, connection, content) = match self.below(4) {
            0 => {
                let reason = RESETS[self.below(RESETS.len() as u64) as usize];
                (&mut self.done.forged_resets, topic.to_owned(), connection, Content::Reset(reason))
            }
            1 => {
                // The number is that of this very packet, which its receiver has not seen yet, or beyond all packets.
                let taken = [number + 1, u64::MAX][self.below(2) as usize];
                let back = format!("{base}/{}", if to_node { "up" } else { "down" });
                (&mut self.done.forged_acks, back, connection, Content::Ack { taken })
            }
            2 => {
                let content = Content::Data { number, taken: 0, packet: &packet };
                (&mut self.done.forged_packets, topic.to_owned(), connection, content)
            }
            _ => {
                let Some((site, _)) = base.rsplit_once('/') else { return };
                let topic = format!("{site}/controller");
                (&mut self.done.forged_notices, topic, ConnectionId([0; 16]), Content::Begin)
            }
        };
        if *count < EACH_MAX {
            *count += 1;
            self.deliver(&topic, &Segment { connection, content }.encode().into());
        }
    }

    /// Whether a deed of which `count` are done is done now, at one of so many opportunities.
    fn is_time(&mut self, count: fn(&mut Misdeeds) -> &mut u64, of: u64) -> bool {
        if self.is_calm || *count(&mut self.done) >= EACH_MAX || self.below(of) > 0 {
            return false;
        }
        *count(&mut self.done) += 1;
        true
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

impl State {
    /// The answers to a client that connects.
    fn connected(&mut self, is_spared: bool) -> Vec<Packet> {
        let session_present = !is_spared && self.is_time(|done| &mut done.false_sessions, 2);
        let code = ConnectReturnCode::Success;
        let mut answers = vec![Packet::ConnAck(ConnAck { session_present, code, properties: None })];
        if !is_spared && self.is_time(|done| &mut done.disconnects, 2) {
            answers.push(Packet::Disconnect(Disconnect::new(DisconnectReasonCode::ServerMoved)));
        }
        answers
    }

    /// The answer to a subscription, which is one in any case.
    fn subscription(&mut self, is_spared: bool) -> SubscribeReasonCode {
        match !is_spared && self.is_time(|done| &mut done.refused_subscriptions, 2) {
            true => SubscribeReasonCode::NotAuthorized,
            false => SubscribeReasonCode::Success(QoS::AtLeastOnce),
        }
    }

    /// The answer to a message of a client.
    fn taken(&mut self, pkid: u16, is_spared: bool) -> PubAck {
        if !is_spared && self.is_time(|done| &mut done.unknown_publishes, 50) {
            return PubAck::new(u16::MAX, None);
        }
        let mut answer = PubAck::new(pkid, None);
        if !is_spared && self.is_time(|done| &mut done.refused_publishes, 50) {
            answer.reason = PubAckReason::QuotaExceeded;
        }
        answer
    }
}

const RESETS: [ResetReason; 8] = [
    ResetReason::Unknown,
    ResetReason::Lost,
    ResetReason::NotAuthorized,
    ResetReason::TakenOver,
    ResetReason::Busy,
    ResetReason::Closed,
    ResetReason::Protocol,
    ResetReason::AdministrativeAction,
];

/// Serves a client, until its connection ends.
async fn serve(shared: &Shared, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (send, mut queue) = mpsc::channel(QUEUE);
    let (mut received, mut output, mut next_id) = (BytesMut::new(), BytesMut::new(), 0u16);
    let mut number = 0;
    let mut will: Option<LastWill> = None;
    // 'muster-agent join' ends with an error where its broker ends the connection, and an operator runs it again.
    let mut is_spared = true;
    'connection: loop {
        loop {
            let answers = match Packet::read(&mut received, None) {
                Ok(Packet::Connect(connect, last_will, _)) => {
                    number = shared.entered(&connect.client_id, &send);
                    is_spared = last_will.is_none() && !connect.client_id.starts_with("controller@");
                    will = last_will;
                    shared.lock().connected(is_spared)
                }
                Ok(Packet::Subscribe(subscribe)) => {
                    let filters: Vec<_> =
                        subscribe.filters.iter().map(|filter| filter.path.clone()).collect();
                    let code = shared.lock().subscription(is_spared);
                    let return_codes = vec![code; filters.len()];
                    shared.subscribed(number, filters);
                    vec![Packet::SubAck(SubAck { pkid: subscribe.pkid, return_codes, properties: None })]
                }
                Ok(Packet::Publish(publish)) => {
                    let topic = String::from_utf8_lossy(&publish.topic).into_owned();
                    let mut state = shared.lock();
                    state.published(topic, publish.payload);
                    vec![Packet::PubAck(state.taken(publish.pkid, is_spared))]
                }
                Ok(Packet::PingReq(_)) => vec![Packet::PingResp(PingResp)],
                Ok(Packet::PubAck(_)) => Vec::new(),
                Err(Error::InsufficientBytes(_)) => break,
                Ok(_) | Err(_) => break 'connection,
            };
            for answer in answers {
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
