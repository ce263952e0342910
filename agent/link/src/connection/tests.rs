//! A whole connection over TLS on loopback, with time that passes when the test says so.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::BytesMut;
use muster_shared::NodeId;
use muster_shared::model::ContentDigest;
use muster_shared::seal::{ControllerEnd, Opened, Seal, SealSecret};
use muster_shared::segment::{Content, Segment, Window};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rumqttc::v5::mqttbytes::Error;
use rumqttc::v5::mqttbytes::v5::{ConnAck, PingResp, PubAck, Publish, SubAck};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::advance;

use super::*;
use crate::tls::Root;

const SECOND: Duration = Duration::from_secs(1);

/// An event that the controller saw.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    KeepAlive(u16),
    Said(Vec<Up>),
    Ping,
}

/// The behaviour of the controller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// The controller is well.
    Nothing,
    /// The controller answers nothing but the greetings.
    Dies,
    /// The controller answers the greeting of the node with what is no answer to it.
    Babbles,
    /// The controller sends each packet twice.
    Repeats,
    /// The controller keeps every second packet back.
    Loses,
    /// The controller is behind a broker, which alters packets after the greeting.
    Alters,
}

struct Controller {
    address: Address,
    ca_der: CertificateDer<'static>,
    config: Arc<ServerConfig>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Controller {
    /// For one connection.
    fn start(does: Does) -> Self {
        Self::certified(does, 1975..4096)
    }

    /// With a certificate that is valid from one year to another.
    fn certified(does: Does, years: std::ops::Range<i32>) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(years.start, 1, 1);
        params.not_after = date_time_ymd(years.end, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        let ca_der = certificate.der().clone();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![ca_der.clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let for_thread = Arc::clone(&config);
        let (tell, seen) = mpsc::unbounded_channel();
        // The thread ends with the connection.
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let connection = ServerConnection::new(for_thread).unwrap();
            serve(StreamOwned::new(connection, stream), does, &tell);
        });
        Self { address, ca_der, config, seen }
    }

    /// A controller of the same site that stands by, and names this one as the active one. It goes on to the end of the
    /// process.
    fn standby(&self, names: Option<String>) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let config = Arc::clone(&self.config);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                send_elsewhere(StreamOwned::new(connection, stream.unwrap()), names.as_deref());
            }
        });
        address
    }

    /// A node of this controller.
    fn peer(&self) -> Peer {
        let tls = tls::client(Root::Certificate(self.ca_der.to_vec()), None).unwrap();
        Peer {
            id: node().to_string(),
            down: "down".into(),
            up: "up".into(),
            tls: Arc::new(tls),
            addresses: vec![self.address.clone()],
            broker: None,
        }
    }

    async fn next(&mut self) -> Seen {
        self.seen.recv().await.expect("the connection stands")
    }
}

fn serve(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    does: Does,
    tell: &mpsc::UnboundedSender<Seen>,
) {
    let (mut received, mut piece) = (BytesMut::new(), [0; 4096]);
    let (mut end, mut window) = (ControllerEnd::new(seal(2, 1)), Window::default());
    let is_well = does != Does::Dies;
    loop {
        let (seen, answers) = match Packet::read(&mut received, None) {
            Ok(Packet::Connect(connect, ..)) => {
                let code = ConnectReturnCode::Success;
                let answer = ConnAck { session_present: false, code, properties: None };
                (Some(Seen::KeepAlive(connect.keep_alive)), vec![Packet::ConnAck(answer)])
            }
            Ok(Packet::Subscribe(subscribe)) => {
                let return_codes = vec![SubscribeReasonCode::Success(QoS::AtLeastOnce)];
                let answer = SubAck { pkid: subscribe.pkid, return_codes, properties: None };
                (None, vec![Packet::SubAck(answer)])
            }
            Ok(Packet::Publish(publish)) => {
                let acknowledge = Packet::PubAck(PubAck::new(publish.pkid, None));
                let (connection, packet) = match Segment::decode(&publish.payload) {
                    _ if does != Does::Alters => (None, &publish.payload[..]),
                    Ok(Segment { connection, content: Content::Data { packet, .. } }) => {
                        (Some(connection), packet)
                    }
                    // An acknowledgement.
                    Ok(_) | Err(_) => continue,
                };
                let mut publishes = |packets: Vec<Vec<u8>>| match connection {
                    None => publishes(packets),
                    Some(id) => {
                        publishes(packets.iter().map(|packet| window.data(id, packet).encode()).collect())
                    }
                };
                match end.open(packet, || Some([9; 32])).unwrap() {
                    Opened::Greeting { answer } => {
                        let answers =
                            if does == Does::Babbles { vec![vec![2, 2]; 100] } else { vec![answer] };
                        (None, [vec![acknowledge], publishes(answers)].concat())
                    }
                    Opened::Packet { body, .. } => {
                        let messages: Vec<Up> = wire::read_body(&body).unwrap();
                        let mut answers = vec![acknowledge];
                        answers.extend(publishes(says(&mut end, does, &messages)));
                        (Some(Seen::Said(messages)), if is_well { answers } else { Vec::new() })
                    }
                }
            }
            Ok(Packet::PingReq(_)) => {
                (Some(Seen::Ping), is_well.then_some(Packet::PingResp(PingResp)).into_iter().collect())
            }
            Ok(packet) => panic!("{packet:?}"),
            Err(Error::InsufficientBytes(_)) => match stream.read(&mut piece) {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    received.extend_from_slice(&piece[..count]);
                    continue;
                }
            },
            Err(error) => panic!("{error}"),
        };
        let mut bytes = BytesMut::new();
        for answer in answers {
            answer.write(&mut bytes, None).unwrap();
        }
        // The client may have gone.
        let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
        // The listener knows from this that the answer is on its way.
        if let Some(seen) = seen {
            let _ = tell.send(seen);
        }
    }
}

/// Refuses a client, as `controller/src/link/reason.rs` does.
fn send_elsewhere(mut stream: StreamOwned<ServerConnection, TcpStream>, to: Option<&str>) {
    let (mut received, mut piece) = (BytesMut::new(), [0; 4096]);
    while let Err(Error::InsufficientBytes(_)) = Packet::read(&mut received, None) {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => received.extend_from_slice(&piece[..count]),
        }
    }
    let to = to.unwrap_or_default().as_bytes();
    let property = if to.is_empty() { Vec::new() } else { [&[0x1C, 0, to.len() as u8], to].concat() };
    let length = property.len() as u8;
    let refusal = [&[0x20, length + 3, 0, 0x9C, length], &property[..]].concat();
    let _ = stream.write_all(&refusal).and_then(|()| stream.flush());
}

fn publishes(payloads: Vec<Vec<u8>>) -> Vec<Packet> {
    let publish = |payload| Packet::Publish(Publish::new("down", QoS::AtMostOnce, payload, None));
    payloads.into_iter().map(publish).collect()
}

/// Sends the controller's answer to a fetch: two chunks, in a packet each.
fn says(end: &mut ControllerEnd, does: Does, messages: &[Up]) -> Vec<Vec<u8>> {
    let [Up::Fetch { digest, offset }] = messages else { return Vec::new() };
    let chunk = |bytes| Down::Chunk { digest: *digest, offset: *offset, bytes };
    let packets = [chunk(vec![1]), chunk(vec![2])].map(|chunk| {
        let body = wire::pack(&[chunk]).unwrap().remove(0);
        end.seal(body).unwrap()
    });
    match does {
        Does::Repeats => packets.into_iter().flat_map(|packet| [packet.clone(), packet]).collect(),
        Does::Loses => packets[1..].to_vec(),
        Does::Alters => {
            let [mut altered, _] = packets;
            *altered.last_mut().unwrap() ^= 1;
            vec![altered]
        }
        Does::Nothing | Does::Dies | Does::Babbles => packets.to_vec(),
    }
}

/// The seal between the node 1 and the controller 2, as the first of them has it.
fn seal(ours: u8, theirs: u8) -> Seal {
    let public = SealSecret::from_bytes([theirs; 32]).public();
    Seal::new(&SealSecret::from_bytes([ours; 32]), &public, &"lab".parse().unwrap(), &node())
}

fn node() -> NodeId {
    "web-1".parse().unwrap()
}

struct Session {
    controller: Controller,
    connection: Connection,
    /// While something blocks, time does not pass by itself.
    _clock: Sender<()>,
}

impl Session {
    /// A connection that was just greeted.
    async fn greeted(does: Does) -> Self {
        let (_clock, stopped): (_, Receiver<()>) = channel();
        spawn_blocking(move || stopped.recv());
        let mut controller = Controller::start(does);
        let mut connection = Connection::open(controller.peer(), Arc::new(seal(1, 2).into()));
        assert!(matches!(connection.events.recv().await, Some(LinkEvent::Connected { .. })));
        assert_eq!(controller.next().await, Seen::KeepAlive(61));
        Self { controller, connection, _clock }
    }

    /// Second by second, so that each waiting task wakes in its turn.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            advance(SECOND).await;
            for _ in 0..10 {
                yield_now().await;
            }
        }
    }
}

fn heartbeat(number: u128) -> Up {
    Up::Heartbeat { drift: Some(number) }
}

#[tokio::test(start_paused = true)]
async fn where_heartbeats_go_out_nothing_else_does() {
    let mut session = Session::greeted(Does::Nothing).await;
    for number in 1..=20 {
        session.pass(SECOND * 60).await;
        assert!(session.connection.send(heartbeat(number)));
        assert_eq!(session.controller.next().await, Seen::Said(vec![heartbeat(number)]));
    }
    assert!(session.connection.events.try_recv().is_err(), "it stands");
}

/// A fleet's heartbeats can be ten minutes apart; its controller hears of everybody all the same.
#[tokio::test(start_paused = true)]
async fn who_has_nothing_to_say_says_that() {
    let mut session = Session::greeted(Does::Nothing).await;
    for _ in 0..20 {
        session.pass(KEEP_ALIVE).await;
        assert_eq!(session.controller.next().await, Seen::Said(vec![Up::Heartbeat { drift: None }]));
    }
    assert!(session.connection.events.try_recv().is_err(), "it stands");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_answers_nothing_is_gone_after_two_minutes() {
    for heartbeats in [true, false] {
        let mut session = Session::greeted(Does::Dies).await;
        session.pass(SECOND * 60).await;
        if heartbeats {
            assert!(session.connection.send(heartbeat(1)));
        }
        session.pass(SECOND * 59).await;
        assert!(session.connection.events.try_recv().is_err(), "it may still answer");
        session.pass(SECOND).await;
        let event = session.connection.events.recv().await;
        assert!(matches!(event, Some(LinkEvent::Disconnected(LinkError::Silent { .. }))), "{event:?}");
    }
}

#[tokio::test]
async fn a_wrong_clock_is_named_with_both_times() {
    for (years, says) in [
        (2999..3000, "the controller's certificate begins 2999-01-01 00:00 UTC"),
        (1999..2000, "the controller's certificate ended 2000-01-01 00:00 UTC"),
    ] {
        let controller = Controller::certified(Does::Nothing, years);
        let error = greet(&controller.peer()).await.err().unwrap();
        let said = error.to_string();
        assert!(said.contains("this server's clock says 20") && said.contains(says), "{said}");
        assert!(!error.is_expired() && !error.is_not_let_in(), "another certificate of ours does not help");
    }
}

fn fetch() -> Up {
    Up::Fetch { digest: ContentDigest([7; 32]), offset: 0 }
}

/// The next event of the connection, in short: a chunk, or how many packets were refused.
async fn told(session: &mut Session) -> Result<u8, u64> {
    match session.connection.events.recv().await {
        Some(LinkEvent::Received(messages)) => match &messages[..] {
            [Down::Chunk { bytes, .. }] => Ok(bytes[0]),
            other => panic!("{other:?}"),
        },
        Some(LinkEvent::Refused { error: PacketError::Repeated, count }) => Err(count),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_packet_that_comes_twice_is_taken_once() {
    let mut session = Session::greeted(Does::Repeats).await;
    // The third is refused as well, in silence.
    for wanted in [&[Ok(1), Err(1), Ok(2), Err(2)][..], &[Ok(1), Ok(2), Err(4)]] {
        assert!(session.connection.send(fetch()));
        for wanted in wanted {
            assert_eq!(told(&mut session).await, *wanted);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_packet_that_is_lost_ends_the_connection() {
    let mut session = Session::greeted(Does::Loses).await;
    assert!(session.connection.send(fetch()));
    let event = session.connection.events.recv().await;
    assert!(
        matches!(event, Some(LinkEvent::Disconnected(LinkError::Seal(PacketError::Lost(1))))),
        "{event:?}"
    );
}

/// Nothing need follow it for that.
#[tokio::test]
async fn a_packet_that_a_broker_alters_ends_the_connection() {
    let controller = Controller::start(Does::Alters);
    let broker = ThroughBroker { credentials: None, notices: Some("notices".to_owned()) };
    let peer = Peer { broker: Some(broker), ..controller.peer() };
    let mut connection = Connection::open(peer, Arc::new(seal(1, 2).into()));
    assert!(matches!(connection.events.recv().await, Some(LinkEvent::Connected { .. })));
    assert!(connection.send(fetch()));
    let event = connection.events.recv().await;
    assert!(matches!(event, Some(LinkEvent::Disconnected(LinkError::Seal(PacketError::Seal)))), "{event:?}");
}

#[tokio::test]
async fn what_is_no_answer_to_the_greeting_is_not_waited_for_in_vain() {
    let controller = Controller::start(Does::Babbles);
    let mut connection = Connection::open(controller.peer(), Arc::new(seal(1, 2).into()));
    let event = connection.events.recv().await;
    assert!(
        matches!(event, Some(LinkEvent::Disconnected(LinkError::Seal(PacketError::Malformed)))),
        "{event:?}"
    );
}

/// This node was away when the site's controllers changed.
#[tokio::test]
async fn a_standby_tells_where_the_active_controller_is() {
    let mut active = Controller::start(Does::Nothing);
    let standby = active.standby(Some(active.address.to_string()));
    let peer = Peer { addresses: vec![standby], ..active.peer() };
    let mut connection = Connection::open(peer, Arc::new(seal(1, 2).into()));
    let event = connection.events.recv().await;
    assert!(matches!(event, Some(LinkEvent::Connected { .. })), "{event:?}");
    assert_eq!(active.next().await, Seen::KeepAlive(61));
}

#[tokio::test]
async fn a_standby_that_names_nothing_new_is_the_reason() {
    let site = Controller::start(Does::Nothing);
    // Nothing listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let first = site.standby(None);
    for (names, known, wanted) in [
        (None, None, "stands by"),
        (Some("no address at all".to_owned()), None, "stands by"),
        (Some(first.to_string()), Some(first.clone()), "stands by"),
        (Some(gone.clone()), None, &gone[..]),
        (Some(first.to_string()), None, &first.to_string()[..]),
    ] {
        let standby = site.standby(names.clone());
        let addresses = [Some(standby), known].into_iter().flatten().collect();
        let peer = Peer { addresses, ..site.peer() };
        let mut connection = Connection::open(peer, Arc::new(seal(1, 2).into()));
        let Some(LinkEvent::Disconnected(error)) = connection.events.recv().await else {
            panic!("{names:?}")
        };
        assert!(error.to_string().contains(wanted), "{names:?}: {error}");
    }
}
