//! Nodes that behave, with rumqttc's client.

use std::sync::Arc;
use std::time::Duration;

use muster_controller::pki::Pki;
use muster_shared::model::{
    Action, Content, ContentDigest, Down, File, Job, OnDelete, Outcome, Report, Spec, Up,
};
use muster_shared::seal::{PacketError, SealPublic};
use muster_shared::{Attempt, Epoch, Generation, MonoTime, ResourceId, topic};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectProperties, ConnectReturnCode, Packet};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, MqttOptions};
use rumqttc::{TlsConfiguration, Transport};
use rustls::ClientConfig;
use tokio::sync::mpsc;

use crate::raw::{Raw, connect, localhost, publish};
use crate::world::{Node, PATIENCE, Seen, World, down, random, request, up};

/// rumqttc's client, polled.
struct Client {
    client: AsyncClient,
    events: mpsc::UnboundedReceiver<Result<Packet, ConnectionError>>,
}

impl Client {
    fn new(world: &World, id: &str, tls: Arc<ClientConfig>) -> Self {
        let mut options = MqttOptions::new(id, "127.0.0.1", world.address().port());
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(tls)));
        options.set_keep_alive(Duration::from_secs(30));
        options.set_max_packet_size(Some(1024 * 1024));
        let (client, mut polled) = AsyncClient::new(options, 64);
        let (tell, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let event = match polled.poll().await {
                    Ok(Event::Incoming(packet)) => Ok(packet),
                    Ok(Event::Outgoing(_)) => continue,
                    Err(error) => Err(error),
                };
                let last = event.is_err();
                if tell.send(event).is_err() || last {
                    break;
                }
            }
        });
        Self { client, events }
    }

    async fn next(&mut self) -> Result<Packet, ConnectionError> {
        tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("an event").expect("a client")
    }

    async fn subscribed(world: &World, node: &Node) -> Self {
        let mut client = Self::new(world, node.id.as_str(), world.tls(node.identity()));
        assert!(matches!(client.next().await, Ok(Packet::ConnAck(_))));
        client.client.subscribe(topic::down(world.site(), &node.id), QoS::AtLeastOnce).await.unwrap();
        assert!(matches!(client.next().await, Ok(Packet::SubAck(_))));
        let up = topic::up(world.site(), &node.id);
        let greeting = node.seal.greet(random()).unwrap();
        client.client.publish(&up, QoS::AtLeastOnce, false, greeting.packet().to_vec()).await.unwrap();
        let session = greeting.accept(&node.seal, &client.payload().await).unwrap();
        *node.session.lock().unwrap() = Some(session);
        client.client.publish(&up, QoS::AtLeastOnce, false, node.pack_nothing()).await.unwrap();
        client
    }

    /// The next publish, acknowledgements and pings aside.
    async fn payload(&mut self) -> Vec<u8> {
        loop {
            match self.next().await.expect("a connection") {
                Packet::Publish(publish) => return publish.payload.to_vec(),
                Packet::PubAck(_) | Packet::PingResp(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The packets that the other end of the node's connection, or a broker in between, would see.
#[tokio::test(flavor = "multi_thread")]
async fn no_payload_shows_what_it_carries() {
    const SECRET: &[u8] = b"hunter22-in-a-job";
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut client = Client::subscribed(&world, &node).await;
    let connection = world.driver.connected(&node.id).await;
    let is_in = |payload: &[u8]| payload.windows(SECRET.len()).any(|window| window == SECRET);
    let job = Job {
        resource: ResourceId(uuid::Uuid::from_bytes([7; 16])),
        generation: Generation { epoch: Epoch(1), number: 1 },
        attempt: Attempt(0),
        action: Action::Create,
        timeout: Duration::from_secs(1),
        spec: Spec::File(File {
            path: "/x".into(),
            content: Content::Inline(SECRET.to_vec()),
            mode: 0o600,
            owner: None,
            group: None,
            on_delete: OnDelete::Restore,
        }),
    };
    let chunk = Down::Chunk { digest: ContentDigest([0; 32]), offset: 0, bytes: SECRET.to_vec() };
    for message in [Down::Job(job.clone()), chunk] {
        world.handle.send(&node.id, connection, std::slice::from_ref(&message));
        let payload = client.payload().await;
        assert!(!is_in(&payload));
        assert_eq!(node.open(&payload), [message]);
    }
    let reason = String::from_utf8(SECRET.to_vec()).unwrap();
    let outcome = Outcome::Failed { reason, permanent: true };
    let report = Up::Report(Report { key: job.key(), outcome });
    let payload = node.pack(std::slice::from_ref(&report));
    assert!(!is_in(&payload));
    client.client.publish(topic::up(world.site(), &node.id), QoS::AtLeastOnce, false, payload).await.unwrap();
    assert_eq!(world.driver.next().await, Seen::Received(node.id.clone(), connection, vec![report]));
    // Nor can another node of the site read it, should it get hold of it.
    let other = world.node("web-2");
    let _raw = Raw::node(&world, &other, QoS::AtMostOnce).await;
    world.handle.send(&node.id, connection, &[Down::Job(job)]);
    let payload = client.payload().await;
    let mut session = other.session.lock().unwrap().take().unwrap();
    // Its number is that of a later packet, so it is not refused for that alone.
    assert_eq!(session.open(&payload), Err(PacketError::Seal));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_both_ways() {
    let mut world = World::start().await;
    let node = world.node("web-1.example.org");
    let mut client = Client::subscribed(&world, &node).await;
    let connection = world.driver.connected(&node.id).await;
    let up_topic = topic::up(world.site(), &node.id);
    for number in 0..200 {
        let qos = if number % 2 == 0 { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        client
            .client
            .publish(&up_topic, qos, false, node.pack(&[up(number), Up::Heartbeat { drift: None }]))
            .await
            .unwrap();
        world.handle.send(&node.id, connection, &[down(number), down(number)]);
    }
    for number in 0..200 {
        let messages = vec![up(number), Up::Heartbeat { drift: None }];
        assert_eq!(world.driver.next().await, Seen::Received(node.id.clone(), connection, messages));
        assert_eq!(node.open(&client.payload().await), [down(number), down(number)]);
    }
    client.client.disconnect().await.unwrap();
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_arrives_and_nothing_overtakes_it() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    let topic = topic::up(world.site(), &node.id);
    let heartbeat = |number| Up::Heartbeat { drift: Some(number) };
    raw.publish(&topic, node.pack(&[heartbeat(0)])).await;
    assert_eq!(world.driver.next().await, Seen::Received(node.id.clone(), connection, vec![heartbeat(0)]));
    for number in 1..50 {
        raw.publish(&topic, node.pack(&[heartbeat(number)])).await;
        raw.publish(&topic, node.pack(&[up(1)])).await;
        // In one event or two.
        let mut heard = Vec::new();
        while heard.len() < 2 {
            let Seen::Received(_, _, messages) = world.driver.next().await else { panic!() };
            heard.extend(messages);
        }
        assert_eq!(heard, [heartbeat(number), up(1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_announced() {
    let world = World::start().await;
    let node = world.node("web-1");
    let mut client = Client::new(&world, "web-1", world.tls(node.identity()));
    let Ok(Packet::ConnAck(ack)) = client.next().await else { panic!() };
    let properties = ack.properties.unwrap();
    assert!(!ack.session_present);
    assert_eq!(properties.max_qos, Some(1));
    assert_eq!(properties.retain_available, Some(0));
    assert_eq!(properties.wildcard_subscription_available, Some(0));
    assert_eq!(properties.shared_subscription_available, Some(0));
    assert_eq!(properties.subscription_identifiers_available, Some(0));
    assert_eq!(properties.session_expiry_interval, Some(0));
    assert!(properties.receive_max > Some(0));
    assert!(properties.max_packet_size > Some(256 * 1024));
    assert_eq!(properties.server_keep_alive, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_id_is_the_certificates_node() {
    let mut world = World::start().await;
    let (node, other) = (world.node("web-1"), world.node("web-2"));
    let mut client = Client::new(&world, other.id.as_str(), world.tls(node.identity()));
    match client.next().await {
        Err(ConnectionError::ConnectionRefused(ConnectReturnCode::ClientIdentifierNotValid)) => {}
        other => panic!("{other:?}"),
    }
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_ca_is_refused() {
    let mut world = World::start().await;
    world.node("web-1");
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Pki::open(elsewhere.path()).unwrap();
    let (key, csr) = request();
    let forged =
        other.issue(&"web-1".parse().unwrap(), &other.prove(&csr).unwrap(), &SealPublic([1; 32])).unwrap();
    let mut client = Client::new(&world, "web-1", world.tls(Some((&forged.der, &key))));
    assert!(matches!(
        client.next().await,
        Err(ConnectionError::Tls(_) | ConnectionError::Io(_) | ConnectionError::MqttState(_))
    ));
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_certificate_is_no_clients() {
    let mut world = World::start().await;
    let server = world.pki.server(&[]).unwrap();
    let rustls_pki_types::PrivateKeyDer::Pkcs8(pkcs8) = server.key else { panic!() };
    let key = rcgen::KeyPair::try_from(pkcs8.secret_pkcs8_der()).unwrap();
    let mut client = Client::new(&world, "localhost", world.tls(Some((&server.chain[0], &key))));
    until_closed(&mut client).await;
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_node_is_refused_and_a_revoked_one_disconnected() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut client = Client::subscribed(&world, &node).await;
    let connection = world.driver.connected(&node.id).await;
    world.driver.admitted.set(node.id.clone(), None);
    world.handle.close(&node.id);
    until_closed(&mut client).await;
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
    let mut again = Client::new(&world, "web-1", world.tls(node.identity()));
    match again.next().await {
        Err(ConnectionError::ConnectionRefused(ConnectReturnCode::NotAuthorized)) => {}
        other => panic!("{other:?}"),
    }
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_without_the_lease_sends_and_admits_nothing() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut client = Client::subscribed(&world, &node).await;
    let connection = world.driver.connected(&node.id).await;
    world.tenure.resign();
    world.handle.send(&node.id, connection, &[down(1)]);
    loop {
        match client.next().await {
            Ok(Packet::PubAck(_) | Packet::Disconnect(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(_) => break,
        }
    }
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
    for (id, tls) in [("web-1", world.tls(node.identity())), ("12345678", world.tls(None))] {
        let mut again = Client::new(&world, id, tls);
        match again.next().await {
            Err(ConnectionError::ConnectionRefused(ConnectReturnCode::ServerUnavailable)) => {}
            other => panic!("{other:?}"),
        }
    }
    world.driver.saw_nothing();
}

/// Reads until the connection ends: packets under way may arrive before.
async fn until_closed(client: &mut Client) {
    while client.next().await.is_ok() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn who_had_the_name_before_is_refused_and_disturbs_nobody() {
    let mut world = World::start().await;
    let old = world.node("web-1");
    let new = world.node("web-1");
    let mut client = Client::subscribed(&world, &new).await;
    let connection = world.driver.connected(&new.id).await;
    let mut before = Client::new(&world, "web-1", world.tls(old.identity()));
    match before.next().await {
        Err(ConnectionError::ConnectionRefused(ConnectReturnCode::NotAuthorized)) => {}
        other => panic!("{other:?}"),
    }
    world.driver.saw_nothing();
    world.handle.close(&new.id);
    until_closed(&mut client).await;
    assert_eq!(world.driver.next().await, Seen::Disconnected(new.id.clone(), connection));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_of_a_node_takes_over() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut old = Raw::node(&world, &node, QoS::AtLeastOnce).await;
    let first = world.driver.connected(&node.id).await;
    let mut new = Raw::node(&world, &node, QoS::AtLeastOnce).await;
    assert_eq!(old.disconnected().await, Some(0x8E));
    let mut seen = [world.driver.next().await, world.driver.next().await];
    seen.sort_by_key(|seen| matches!(seen, Seen::Connected(..)));
    assert_eq!(seen[0], Seen::Disconnected(node.id.clone(), first));
    let Seen::Connected(_, second) = seen[1] else { panic!("{seen:?}") };
    assert!(second > first);
    world.handle.send(&node.id, first, &[down(1)]);
    world.handle.send(&node.id, second, &[down(2)]);
    let Some(Packet::Publish(publish)) = new.next().await else { panic!() };
    assert_eq!(node.open(&publish.payload), [down(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_before_the_subscription_waits_for_it() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
    assert_eq!(raw.connect("web-1").await, ConnectReturnCode::Success);
    let connection = world.driver.connected(&node.id).await;
    world.handle.send(&node.id, connection, &[down(1)]);
    raw.send(&Packet::PingReq(rumqttc::v5::mqttbytes::v5::PingReq)).await;
    assert!(matches!(raw.next().await, Some(Packet::PingResp(_))));
    raw.subscribe(&topic::down(world.site(), &node.id), QoS::ExactlyOnce).await;
    assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
    raw.begin(&topic::up(world.site(), &node.id), &node).await;
    let Some(Packet::Publish(publish)) = raw.next().await else { panic!() };
    assert_eq!((publish.qos, node.open(&publish.payload)), (QoS::AtLeastOnce, vec![down(1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn publishes_in_flight_stay_within_the_clients_receive_maximum() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
    let mut properties = ConnectProperties::new();
    properties.receive_maximum = Some(2);
    assert_eq!(raw.connect_with("web-1", 60, Some(properties)).await, ConnectReturnCode::Success);
    let connection = world.driver.connected(&node.id).await;
    raw.subscribe(&topic::down(world.site(), &node.id), QoS::AtLeastOnce).await;
    assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
    raw.begin(&topic::up(world.site(), &node.id), &node).await;
    for number in 0..10 {
        world.handle.send(&node.id, connection, &[down(number)]);
    }
    let mut unacknowledged = Vec::new();
    for number in 0..10 {
        if unacknowledged.len() == 2 {
            // The answer comes next: no third publish was on its way.
            raw.send(&Packet::PingReq(rumqttc::v5::mqttbytes::v5::PingReq)).await;
            assert!(matches!(raw.next().await, Some(Packet::PingResp(_))));
            let ack = rumqttc::v5::mqttbytes::v5::PubAck::new(unacknowledged.remove(0), None);
            raw.send(&Packet::PubAck(ack)).await;
        }
        let Some(Packet::Publish(publish)) = raw.next().await else { panic!() };
        assert_eq!(node.open(&publish.payload), [down(number)]);
        assert!(!unacknowledged.contains(&publish.pkid));
        unacknowledged.push(publish.pkid);
    }
}

/// An answer leaves together with the acknowledgement of its packet, which does not wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn packets_are_acknowledged_in_order_with_or_without_answer() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    let topic = topic::up(world.site(), &node.id);
    for round in 0..3 {
        for id in 1..=5 {
            let payload = node.pack(&[up(id.into())]);
            let Packet::Publish(mut packet) = publish(&topic, QoS::AtLeastOnce, payload) else { panic!() };
            packet.pkid = id;
            raw.send(&Packet::Publish(packet)).await;
            let taken = Seen::Received(node.id.clone(), connection, vec![up(id.into())]);
            assert_eq!(world.driver.next().await, taken);
        }
        if round > 0 {
            world.handle.send(&node.id, connection, &[down(round)]);
        }
        let (mut acknowledged, mut answers) = (Vec::new(), u64::from(round == 0));
        while acknowledged.len() < 5 || answers == 0 {
            match raw.next().await {
                Some(Packet::PubAck(ack)) => acknowledged.push(ack.pkid),
                Some(Packet::Publish(answer)) => {
                    assert_eq!(node.open(&answer.payload), [down(round)]);
                    answers += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(acknowledged, [1, 2, 3, 4, 5]);
    }
}

/// An acknowledgement that waits for other output leaves before the reason of the end.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_driver_has_is_acknowledged_before_an_end() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let topic = topic::up(world.site(), &node.id);
    let ends: [(&str, Packet); 2] = [
        ("a second CONNECT", connect(node.id.as_str(), 60, None)),
        ("another node's topic", publish("muster/v1/x/db-1/up", QoS::AtMostOnce, Vec::new())),
    ];
    for (what, end) in ends {
        let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
        let connection = world.driver.connected(&node.id).await;
        raw.send(&publish(&topic, QoS::AtLeastOnce, node.pack(&[up(1)]))).await;
        let taken = Seen::Received(node.id.clone(), connection, vec![up(1)]);
        assert_eq!(world.driver.next().await, taken, "{what}");
        raw.send(&end).await;
        assert!(matches!(raw.next().await, Some(Packet::PubAck(ack)) if ack.pkid == 1), "{what}");
        assert!(matches!(raw.next().await, Some(Packet::Disconnect(_))), "{what}");
        assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection), "{what}");
    }
}

/// A node that comes again needs no agreement of keys, unless the controller has nothing of its last session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_follows_the_one_before() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let up = topic::up(world.site(), &node.id);
    let first = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let mut connection = world.driver.connected(&node.id).await;
    drop(first);
    for (uses_old, kind) in [(false, 5), (false, 5), (true, 2)] {
        assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
        let again = node.session.lock().unwrap().as_mut().unwrap().take_again(MonoTime::default());
        if uses_old {
            // A connection in between, which begins a session without it.
            let between = Raw::node(&world, &node, QoS::AtMostOnce).await;
            connection = world.driver.connected(&node.id).await;
            drop(between);
            assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
        }
        let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
        assert_eq!(raw.connect(node.id.as_str()).await, ConnectReturnCode::Success);
        connection = world.driver.connected(&node.id).await;
        raw.subscribe(&topic::down(world.site(), &node.id), QoS::AtMostOnce).await;
        assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
        let greeting = node.seal.greet_again(random(), again).unwrap();
        raw.publish(&up, greeting.packet().to_vec()).await;
        let Some(Packet::Publish(answer)) = raw.next().await else { panic!("an answer") };
        assert_eq!(answer.payload[1], kind);
        let session = greeting.accept(&node.seal, &answer.payload).unwrap();
        *node.session.lock().unwrap() = Some(session);
        raw.publish(&up, node.pack_nothing()).await;
        world.handle.send(&node.id, connection, &[down(1)]);
        let Some(Packet::Publish(publish)) = raw.next().await else { panic!("a session") };
        assert_eq!(node.open(&publish.payload), [down(1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_resumed_and_still_knows_the_node() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let tls = world.tls(node.identity());
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::new(&world, Arc::clone(&tls), localhost(1)).await;
        assert_eq!(raw.connect("web-1").await, ConnectReturnCode::Success);
        kinds.push(raw.stream.get_ref().1.handshake_kind());
        let connection = world.driver.connected(&node.id).await;
        raw.send(&Packet::Disconnect(rumqttc::v5::mqttbytes::v5::Disconnect::new(
            rumqttc::v5::mqttbytes::v5::DisconnectReasonCode::NormalDisconnection,
        )))
        .await;
        assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
    }
    assert_eq!(kinds, [Some(rustls::HandshakeKind::Full), Some(rustls::HandshakeKind::Resumed)]);
    world.driver.admitted.set(node.id.clone(), None);
    let mut raw = Raw::new(&world, tls, localhost(1)).await;
    assert_eq!(raw.connect("web-1").await, ConnectReturnCode::NotAuthorized);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_link_says_so_and_listens_no_more() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    let stopping = tokio::spawn({
        let handle = world.handle.clone();
        async move { handle.shutdown().await }
    });
    assert_eq!(raw.disconnected().await, Some(0x8B));
    drop(raw);
    stopping.await.unwrap();
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
    let socket = tokio::net::TcpStream::connect(world.address()).await;
    assert_eq!(socket.map_err(|error| error.kind()).err(), Some(std::io::ErrorKind::ConnectionRefused));
    // Once more is no harm.
    world.handle.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packet_that_is_sent_again_is_refused_and_counted() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    let topic = topic::up(world.site(), &node.id);
    let (first, second) = (node.pack(&[up(1)]), node.pack(&[up(2)]));
    let mut altered = second.clone();
    *altered.last_mut().unwrap() ^= 1;
    for packet in [&first, &first, &altered, &second, &first] {
        raw.publish(&topic, packet.clone()).await;
    }
    raw.publish(&topic, node.pack(&[up(3)])).await;
    for number in 1..=3 {
        assert_eq!(world.driver.next().await, Seen::Received(node.id.clone(), connection, vec![up(number)]));
    }
    let counts = world.refused.counts();
    assert_eq!((counts["repeated"], counts["seal"], counts.values().sum()), (2, 1, 3));
    // Both ways it goes on.
    world.handle.send(&node.id, connection, &[down(1)]);
    let Some(Packet::Publish(publish)) = raw.next().await else { panic!() };
    assert_eq!(node.open(&publish.payload), [down(1)]);
    // Nothing is in between, so whoever goes on like that is no agent.
    for _ in 0..64 {
        raw.publish(&topic, first.clone()).await;
    }
    assert_eq!(raw.disconnected().await, Some(0x99));
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_gap_is_over() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    drop(node.pack(&[up(1)]));
    raw.publish(&topic::up(world.site(), &node.id), node.pack(&[up(2)])).await;
    assert_eq!(raw.disconnected().await, Some(0x99));
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id.clone(), connection));
    assert_eq!(world.refused.counts()["lost"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_begins_with_a_greeting_and_has_one() {
    let mut world = World::start().await;
    let (node, other) = (world.node("web-1"), world.node("web-2"));
    let (up_topic, down_topic) = (topic::up(world.site(), &node.id), topic::down(world.site(), &node.id));
    let _raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let sealed = node.pack(&[up(1)]);
    let theirs = other.seal.greet(random()).unwrap();
    // Another node's greeting; a packet of an earlier connection; one of version 1.
    for packet in [theirs.packet().to_vec(), sealed, [&[1][..], &[7; 60]].concat()] {
        let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
        assert_eq!(raw.connect("web-1").await, ConnectReturnCode::Success);
        raw.subscribe(&down_topic, QoS::AtMostOnce).await;
        assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
        raw.publish(&up_topic, packet).await;
        assert_eq!(raw.disconnected().await, Some(0x99));
    }
    let counts = world.refused.counts();
    assert_eq!((counts["seal"], counts["not-greeted"], counts["version"]), (1, 1, 1));
    // A second one is refused as what was sent before, and the session goes on.
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let again = node.seal.greet(random()).unwrap();
    raw.publish(&up_topic, again.packet().to_vec()).await;
    raw.publish(&up_topic, node.pack(&[up(5)])).await;
    let received = loop {
        if let Seen::Received(_, _, messages) = world.driver.next().await {
            break messages;
        }
    };
    assert_eq!((received, world.refused.counts()["repeated"]), (vec![up(5)], 1));
}

/// A message that is sent before the node has a session waits, and nothing of it leaves unsealed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_before_the_session_waits_for_it() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
    assert_eq!(raw.connect("web-1").await, ConnectReturnCode::Success);
    let connection = world.driver.connected(&node.id).await;
    raw.subscribe(&topic::down(world.site(), &node.id), QoS::AtMostOnce).await;
    assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
    world.handle.send(&node.id, connection, &[down(1)]);
    raw.send(&Packet::PingReq(rumqttc::v5::mqttbytes::v5::PingReq)).await;
    assert!(matches!(raw.next().await, Some(Packet::PingResp(_))), "nothing comes before that");
    // The next packet is the answer, and the one after it what waited.
    raw.begin(&topic::up(world.site(), &node.id), &node).await;
    let Some(Packet::Publish(publish)) = raw.next().await else { panic!() };
    assert_eq!(node.open(&publish.payload), [down(1)]);
}
