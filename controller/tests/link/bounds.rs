//! Bounds on numbers and on time.

use std::net::IpAddr;
use std::time::Duration;

use muster_controller::link::Limits;
use muster_shared::topic;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode, Packet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::raw::{Raw, localhost, tcp};
use crate::world::{Node, PATIENCE, Seen, World, down};

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_nodes_at_once() {
    const NODES: u64 = 1000;
    let mut world = World::start().await;
    let nodes: Vec<_> = (0..NODES).map(|i| world.node(&format!("n{i}.example.org"))).collect();
    let mut tasks = JoinSet::new();
    for (i, node) in nodes.into_iter().enumerate() {
        let (tls, to) = (world.tls(node.identity()), world.address());
        let (down_topic, up_topic) = (topic::down(world.site(), &node.id), topic::up(world.site(), &node.id));
        tasks.spawn(async move {
            // Three addresses, so that each has a place for all.
            let mut raw = Raw::to(to, tls, localhost(1 + i as u8 % 3)).await;
            assert_eq!(raw.connect(node.id.as_str()).await, ConnectReturnCode::Success);
            raw.subscribe(&down_topic, QoS::AtLeastOnce).await;
            assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
            raw.begin(&up_topic, &node).await;
            let Some(Packet::Publish(publish)) = raw.next().await else { panic!("a publish") };
            (raw, node.open(&publish.payload))
        });
    }
    for _ in 0..NODES {
        let Seen::Connected(node, connection) = world.driver.next().await else { panic!() };
        world.handle.send(&node, connection, &[down(connection)]);
    }
    let mut connected = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (raw, messages) = ended.unwrap();
        assert_eq!(messages.len(), 1);
        connected.push(raw);
    }
    assert_eq!(connected.len(), NODES as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_more_than_there_may_be_is_refused() {
    let mut world = World::with(Limits { connections: 2, ..Limits::default() }).await;
    let nodes = ["web-1", "web-2", "web-3"].map(|name| world.node(name));
    let _first = Raw::node(&world, &nodes[0], QoS::AtMostOnce).await;
    let second = Raw::node(&world, &nodes[1], QoS::AtMostOnce).await;
    let mut third = Raw::new(&world, world.tls(nodes[2].identity()), localhost(1)).await;
    assert_eq!(third.connect("web-3").await, ConnectReturnCode::ServerBusy);
    // One that is in already may connect again, and who leaves makes room.
    let _again = Raw::node(&world, &nodes[0], QoS::AtMostOnce).await;
    drop(second);
    loop {
        if let Seen::Disconnected(node, _) = world.driver.next().await
            && node == nodes[1].id
        {
            break;
        }
    }
    let _third = Raw::node(&world, &nodes[2], QoS::AtMostOnce).await;
}

/// Places for four of an address, and six in all but for those who were here before.
fn few_places() -> Limits {
    let hour = Duration::from_secs(3600);
    let limits = Limits { handshakes: 8, handshakes_kept: 2, handshakes_per_address: 4, ..Limits::default() };
    Limits { handshake: hour, ..limits }
}

async fn ends(socket: &mut TcpStream) {
    let end = timeout(PATIENCE, socket.read(&mut [0])).await.expect("it is closed");
    assert!(matches!(end, Ok(0) | Err(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_say_nothing_make_room_for_others_of_their_address() {
    let world = World::with(few_places()).await;
    let node = world.node("web-1");
    // As many as an address may have; a local user of the node's own server does that.
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(tcp(world.address(), localhost(1)).await);
    }
    // By lot where all are young: so it tries more than once.
    let mut tries = 0;
    while join(&world, &node, localhost(1)).await.is_none() {
        tries += 1;
        assert!(tries < 64, "never let in");
    }
    ends(&mut silent[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_here_before_is_let_in_past_a_crowd() {
    let world = World::with(few_places()).await;
    let node = world.node("web-1");
    drop(Raw::node(&world, &node, QoS::AtMostOnce).await);
    let mut crowd = Vec::new();
    for host in 10..40 {
        crowd.push(tcp(world.address(), localhost(host)).await);
    }
    // Two places are kept for its address: no lot is drawn.
    for _ in 0..16 {
        assert!(join(&world, &node, localhost(1)).await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_greeting_of_tls_has_a_bound() {
    let world = World::with(few_places()).await;
    let mut socket = tcp(world.address(), localhost(1)).await;
    // A ClientHello of 60 KiB, in records of 16 KiB; some of it never comes.
    for record in 0..2 {
        let mut bytes = vec![0; 5 + 16_384];
        bytes[..5].copy_from_slice(&[22, 3, 1, 0x40, 0]);
        if record == 0 {
            bytes[5..9].copy_from_slice(&[1, 0, 0xf0, 0]);
        }
        // It may be over already.
        let _ = socket.write_all(&bytes).await;
    }
    ends(&mut socket).await;
}

/// A node that comes from this address, unless it is not let in.
async fn join(world: &World, node: &Node, from: IpAddr) -> Option<Raw> {
    let mut raw = Raw::try_to(world.address(), world.tls(node.identity()), from).await?;
    assert_eq!(raw.connect(node.id.as_str()).await, ConnectReturnCode::Success);
    Some(raw)
}

#[tokio::test(flavor = "multi_thread")]
async fn handshake_and_connect_must_come_in_time() {
    // Not too short for a handshake beside other tests.
    let short = Duration::from_secs(5);
    let world = World::with(Limits { handshake: short, connect: short, ..Limits::default() }).await;
    let mut silent = tcp(world.address(), localhost(1)).await;
    let end = timeout(PATIENCE, silent.read(&mut [0])).await.expect("closed in time");
    assert!(matches!(end, Ok(0) | Err(_)));
    let node = world.node("web-1");
    let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
    assert_eq!(raw.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_is_closed_after_one_and_a_half_keep_alives() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
    assert_eq!(raw.connect_with("web-1", 1, None).await, ConnectReturnCode::Success);
    let connection = world.driver.connected(&node.id).await;
    assert_eq!(raw.disconnected().await, Some(0x8D));
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id, connection));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_keep_alive_is_given_one() {
    let world = World::with(Limits { keep_alive: Duration::from_secs(1), ..Limits::default() }).await;
    let node = world.node("web-1");
    for wanted in [0, 60] {
        let mut raw = Raw::new(&world, world.tls(node.identity()), localhost(1)).await;
        raw.send(&crate::raw::connect("web-1", wanted, None)).await;
        let Some(Packet::ConnAck(ack)) = raw.next().await else { panic!() };
        assert_eq!(ack.properties.unwrap().server_keep_alive, Some(1));
        assert_eq!(raw.disconnected().await, Some(0x8D));
    }
}
