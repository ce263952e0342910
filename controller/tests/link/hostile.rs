//! Clients that break the rules, and what becomes of them and of their neighbours.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use muster_controller::link::Limits;
use muster_shared::model::{ContentDigest, Down};
use muster_shared::topic;
use muster_shared::wire::MESSAGE_MAX;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnectProperties, ConnectReturnCode, LastWill, Login, Packet, PingReq, Publish, PublishProperties,
    SubscribeProperties, Unsubscribe,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::raw::{Raw, connect, localhost, publish, subscribe, tcp};
use crate::world::{Node, PATIENCE, Seen, World, down, up};

/// Random enough, and the same in every run.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// A node that must not notice anything.
struct Neighbour {
    node: Node,
    raw: Raw,
    connection: u64,
    said: u64,
}

impl Neighbour {
    async fn new(world: &mut World) -> Self {
        let node = world.node("neighbour");
        let raw = Raw::node(world, &node, QoS::AtMostOnce).await;
        let connection = world.driver.connected(&node.id).await;
        Self { node, raw, connection, said: 0 }
    }

    /// A message each way. What others did meanwhile comes back.
    async fn works(&mut self, world: &mut World) -> Vec<Seen> {
        let mut others = Vec::new();
        self.said += 1;
        let messages = vec![up(self.said)];
        self.raw.publish(&topic::up(world.site(), &self.node.id), self.node.pack(&messages)).await;
        loop {
            let seen = world.driver.next().await;
            match seen {
                Seen::Received(node, connection, said) if node == self.node.id => {
                    assert_eq!((connection, said), (self.connection, messages));
                    break;
                }
                Seen::Connected(ref node, _) | Seen::Disconnected(ref node, _) if *node != self.node.id => {
                    others.push(seen);
                }
                other => panic!("{other:?}"),
            }
        }
        world.handle.send(&self.node.id, self.connection, &[down(self.said)]);
        let Some(Packet::Publish(publish)) = self.raw.next().await else { panic!("a publish") };
        assert_eq!(self.node.open(&publish.payload), [down(self.said)]);
        others
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_packet_ends_the_connection_with_its_reason() {
    let mut world = World::start().await;
    let mut neighbour = Neighbour::new(&mut world).await;
    let (node, site) = (world.node("web-1"), world.site().clone());
    let (own_up, own_down) = (topic::up(&site, &node.id), topic::down(&site, &node.id));
    let written = |packet: &Packet| {
        let mut bytes = BytesMut::new();
        packet.write(&mut bytes, None).unwrap();
        bytes.to_vec()
    };
    let retained = Publish { retain: true, ..Publish::new(own_up.clone(), QoS::AtMostOnce, vec![1], None) };
    let alias = PublishProperties { topic_alias: Some(1), ..PublishProperties::default() };
    let aliased = Publish::new(own_up.clone(), QoS::AtMostOnce, vec![1], Some(alias));
    let Packet::Subscribe(mut identified) = subscribe(&own_down, QoS::AtMostOnce) else { panic!() };
    identified.properties = Some(SubscribeProperties { id: Some(1), user_properties: Vec::new() });
    let Packet::Subscribe(mut many) = subscribe(&own_down, QoS::AtMostOnce) else { panic!() };
    many.filters = vec![many.filters[0].clone(); 9];
    let unsubscribe = Unsubscribe { pkid: 1, filters: vec![own_down.clone()], properties: None };
    let neighbours = topic::down(&site, &neighbour.node.id);
    // Taken once, from the neighbour.
    let packet = neighbour.node.pack(&[up(9)]);
    neighbour.raw.publish(&topic::up(&site, &neighbour.node.id), packet.clone()).await;
    let said = Seen::Received(neighbour.node.id.clone(), neighbour.connection, vec![up(9)]);
    assert_eq!(world.driver.next().await, said);
    for (what, bytes, reason) in [
        ("foreign subscription", written(&subscribe(&neighbours, QoS::AtMostOnce)), 0x87),
        ("own up", written(&subscribe(&own_up, QoS::AtMostOnce)), 0x87),
        ("all", written(&subscribe("#", QoS::AtMostOnce)), 0xA2),
        ("plus", written(&subscribe(&format!("muster/v1/{site}/+/down"), QoS::AtMostOnce)), 0xA2),
        ("shared", written(&subscribe(&format!("$share/x/{own_down}"), QoS::AtMostOnce)), 0x9E),
        ("identified", written(&Packet::Subscribe(identified)), 0xA1),
        ("many", written(&Packet::Subscribe(many)), 0x97),
        (
            "foreign publish",
            written(&publish(&topic::up(&site, &neighbour.node.id), QoS::AtMostOnce, vec![1])),
            0x87,
        ),
        ("own down", written(&publish(&own_down, QoS::AtLeastOnce, vec![1])), 0x87),
        ("no topic", written(&publish("", QoS::AtMostOnce, vec![1])), 0x87),
        ("unsealed", written(&publish(&own_up, QoS::AtMostOnce, vec![1; 100])), 0x99),
        ("empty", written(&publish(&own_up, QoS::AtLeastOnce, Vec::new())), 0x99),
        ("the neighbour's", written(&publish(&own_up, QoS::AtMostOnce, packet)), 0x99),
        ("QoS 2", written(&publish(&own_up, QoS::ExactlyOnce, vec![1])), 0x9B),
        ("retained", written(&Packet::Publish(retained)), 0x9A),
        ("alias", written(&Packet::Publish(aliased)), 0x94),
        ("CONNECT", written(&connect("web-1", 60, None)), 0x82),
        ("UNSUBSCRIBE", written(&Packet::Unsubscribe(unsubscribe)), 0x82),
        ("PUBREL", vec![0x62, 2, 0, 1], 0x82),
        ("AUTH", vec![0xF0, 2, 0, 0], 0x82),
        ("PINGRESP", vec![0xD0, 0], 0x82),
        ("PUBACK of nothing", vec![0x40, 2, 0, 1], 0x82),
        ("PUBACK of 0", vec![0x40, 2, 0, 0], 0x82),
        ("PUBACK of 65535", vec![0x40, 2, 0xff, 0xff], 0x82),
        ("type 0", vec![0, 0], 0x81),
        ("short PUBACK", vec![0x40, 1, 0], 0x81),
        ("short SUBSCRIBE", vec![0x82, 2, 0, 1], 0x81),
        ("endless length", vec![0x30, 0xff, 0xff, 0xff, 0xff], 0x81),
        ("huge PUBLISH, announced", vec![0x30, 0xff, 0xff, 0xff, 0x7f], 0x95),
        ("large SUBSCRIBE, announced", vec![0x82, 0x80, 0x80, 0x02], 0x95),
        ("large PUBLISH", written(&publish(&own_up, QoS::AtMostOnce, vec![0; MESSAGE_MAX + 2048])), 0x95),
    ] {
        let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
        assert_eq!(raw.connect("web-1").await, ConnectReturnCode::Success);
        let connection = world.driver.connected(&node.id).await;
        raw.bytes(&bytes).await;
        assert_eq!(raw.disconnected().await, Some(reason), "{what}");
        assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection), "{what}");
        neighbour.works(&mut world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connect_that_asks_for_more_is_refused() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let will = || Some(LastWill::new("a", vec![1], QoS::AtMostOnce, false, None));
    let login = || Some(Login { username: "u".into(), password: "p".into() });
    let plain = || match connect("web-1", 60, None) {
        Packet::Connect(connect, ..) => connect,
        _ => unreachable!(),
    };
    let with = |change: &dyn Fn(&mut ConnectProperties)| {
        let mut properties = ConnectProperties::new();
        change(&mut properties);
        connect("web-1", 60, Some(properties))
    };
    for (what, packet, code) in [
        ("will", Packet::Connect(plain(), will(), None), ConnectReturnCode::ImplementationSpecificError),
        ("login", Packet::Connect(plain(), None, login()), ConnectReturnCode::NotAuthorized),
        (
            "authentication",
            with(&|p| p.authentication_method = Some("x".into())),
            ConnectReturnCode::BadAuthenticationMethod,
        ),
        ("no receive maximum", with(&|p| p.receive_maximum = Some(0)), ConnectReturnCode::ProtocolError),
        ("small packets", with(&|p| p.max_packet_size = Some(10_000)), ConnectReturnCode::PacketTooLarge),
        ("no CONNECT", Packet::PingReq(PingReq), ConnectReturnCode::ProtocolError),
    ] {
        let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
        raw.send(&packet).await;
        let Some(Packet::ConnAck(ack)) = raw.next().await else { panic!("{what}") };
        assert_eq!(ack.code, code, "{what}");
        assert_eq!(raw.next().await, None, "{what}");
    }
    // MQTT 3.1.1
    let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
    raw.bytes(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05web-1").await;
    let Some(Packet::ConnAck(ack)) = raw.next().await else { panic!() };
    assert_eq!(ack.code, ConnectReturnCode::UnsupportedProtocolVersion);
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_hurt_nobody() {
    let mut world = World::start().await;
    let mut neighbour = Neighbour::new(&mut world).await;
    let node = world.node("web-1");
    let tls = world.tls(node.identity());
    let mut random = Seeded(20_261_121);
    for round in 0..60 {
        let count = 1 + random.next() as usize % 4000;
        let mut bytes = random.bytes(count);
        // Instead of TLS.
        let mut socket = tcp(world.address(), localhost(3)).await;
        let _ = socket.write_all(&bytes).await;
        let _ = socket.shutdown().await;
        let _ = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut Vec::new())).await.expect("an end");
        // Instead of CONNECT, and after it; every other time it begins like a packet.
        for connected in [false, true] {
            if round % 2 == 0 {
                bytes[0] = [0x10, 0x30, 0x32, 0x40, 0x82, 0xC0, 0xE0][random.next() as usize % 7];
                if let Some(length) = bytes.get_mut(1) {
                    *length &= 0x7f;
                }
            }
            let mut raw = Raw::new(&world, tls.clone(), localhost(1)).await;
            if connected {
                raw.connect("web-1").await;
            }
            raw.bytes(&bytes).await;
            let _ = raw.stream.shutdown().await;
            let _ = tokio::time::timeout(PATIENCE, raw.stream.read_to_end(&mut Vec::new()))
                .await
                .expect("an end");
        }
        neighbour.works(&mut world).await;
    }
}

fn chunk() -> Down {
    Down::Chunk { digest: ContentDigest([0; 32]), offset: 0, bytes: vec![0; 128 * 1024] }
}

/// Fills what can be sent to a client that does not read.
async fn flood(world: &World, node: &Node, connection: u64) {
    let chunk = chunk();
    // More than the kernel's buffers take (4 MiB at most for the sender, 6 for the receiver).
    for _ in 0..160 {
        world.handle.send(&node.id, connection, std::slice::from_ref(&chunk));
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_closed_when_its_time_is_up() {
    let limits = Limits { drain: Duration::from_secs(2), queue_bytes: 64 * 1024 * 1024, ..Limits::default() };
    let mut world = World::with(limits).await;
    let mut neighbour = Neighbour::new(&mut world).await;
    let node = world.node("web-1");
    let slow = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    flood(&world, &node, connection).await;
    // On a busy machine filling the queue takes longer than the client is given.
    let seen = neighbour.works(&mut world).await.pop();
    let seen = match seen {
        Some(seen) => seen,
        None => world.driver.next().await,
    };
    assert_eq!(seen, Seen::Disconnected(node.id.clone(), connection));
    neighbour.works(&mut world).await;
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_keeps_reading_is_not_slow() {
    // A busy machine may hold this client up for a second.
    let drain = Duration::from_secs(4);
    let mut world = World::with(Limits { drain, ..Limits::default() }).await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    let chunk = chunk();
    let mut sent = 0;
    let start = Instant::now();
    while start.elapsed() < drain + Duration::from_secs(2) {
        while sent < 40 {
            world.handle.send(&node.id, connection, std::slice::from_ref(&chunk));
            sent += 1;
        }
        assert!(matches!(raw.next().await, Some(Packet::Publish(_))));
        sent -= 1;
    }
    for _ in 0..sent {
        assert!(matches!(raw.next().await, Some(Packet::Publish(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_too_much_to_read_is_closed() {
    let limits = Limits { queue_bytes: 1024 * 1024, ..Limits::default() };
    let mut world = World::with(limits).await;
    let mut neighbour = Neighbour::new(&mut world).await;
    let node = world.node("web-1");
    let slow = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    flood(&world, &node, connection).await;
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
    neighbour.works(&mut world).await;
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_acknowledges_is_closed_though_it_pings() {
    let limits = Limits { drain: Duration::from_secs(2), ..Limits::default() };
    let mut world = World::with(limits).await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtLeastOnce).await;
    let connection = world.driver.connected(&node.id).await;
    for number in 0..100 {
        world.handle.send(&node.id, connection, &[down(number)]);
    }
    let mut publishes = 0;
    let reason = loop {
        raw.send(&Packet::PingReq(PingReq)).await;
        match raw.next().await {
            Some(Packet::Publish(_)) => publishes += 1,
            Some(Packet::PingResp(_)) => {}
            Some(Packet::Disconnect(disconnect)) => break disconnect.reason_code as u8,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((reason, publishes), (0x97, 32));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_driver_is_busy_clients_wait_and_nothing_is_lost() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    world.driver.running.send_replace(false);
    let topic = topic::up(world.site(), &node.id);
    let mut all = BytesMut::new();
    for number in 0..500 {
        publish(&topic, QoS::AtMostOnce, node.pack(&[up(number)])).write(&mut all, None).unwrap();
    }
    raw.bytes(&all).await;
    // Busy or not, it is served what is for it to read.
    world.handle.send(&node.id, connection, &[down(1)]);
    let Some(Packet::Publish(publish)) = raw.next().await else { panic!() };
    assert_eq!(node.open(&publish.payload), [down(1)]);
    world.driver.running.send_replace(true);
    for number in 0..500 {
        assert_eq!(world.driver.next().await, Seen::Received(node.id.clone(), connection, vec![up(number)]));
    }
}
