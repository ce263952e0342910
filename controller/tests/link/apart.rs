//! Work that goes on however long the driver's turn takes, and the bounds on the cost of contents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_controller::link::Grant;
use muster_shared::model::{ContentDigest, Down, Up, Welcome};
use muster_shared::{Attempt, Epoch, Generation, NodeId, ResourceId, topic, wire};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode, Packet, PingReq};

use crate::raw::{Raw, localhost};
use crate::world::{Node, World};

fn challenge(byte: u8) -> Up {
    Up::Challenge { key: key(), bytes: vec![byte; 1000] }
}

fn key() -> muster_shared::model::ReportKey {
    let generation = Generation { epoch: Epoch(1), number: 1 };
    muster_shared::model::ReportKey { resource: ResourceId(uuid()), generation, attempt: Attempt(1) }
}

fn uuid() -> uuid::Uuid {
    uuid::Uuid::from_u128(7)
}

impl Raw {
    /// Waits until everything sent before was taken.
    async fn is_heard(&mut self) {
        self.send(&Packet::PingReq(PingReq)).await;
        assert!(matches!(self.next().await, Some(Packet::PingResp(_))));
    }

    async fn messages(&mut self, node: &Node) -> Vec<Down> {
        match self.next().await {
            Some(Packet::Publish(publish)) => node.open(&publish.payload),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn challenges_are_answered_while_the_driver_stands_still() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    world.driver.running.send_replace(false);
    let up = topic::up(world.site(), &node.id);
    // Whether the agent obeys this controller is not known yet.
    raw.publish(&up, node.pack(&[challenge(1)])).await;
    raw.is_heard().await;
    let welcome =
        Welcome { epoch: Epoch(1).into(), want_ledger: false, heartbeat: Duration::from_secs(10), reads: 0 };
    world.handle.send(&node.id, connection, &[Down::Welcome(welcome.clone())]);
    assert_eq!(raw.messages(&node).await, [Down::Welcome(welcome)]);
    raw.publish(&up, node.pack(&[challenge(2)])).await;
    assert_eq!(raw.messages(&node).await, [Down::Answer { key: key(), bytes: vec![2; 1000] }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_come_in_while_the_driver_stands_still() {
    let world = World::start().await;
    world.driver.running.send_replace(false);
    let (known, revoked) = (world.node("web-1"), world.node("web-2"));
    Raw::node(&world, &known, QoS::AtMostOnce).await;
    world.driver.admitted.set(revoked.id.clone(), None);
    let mut raw = Raw::new(&world, world.tls(revoked.identity()), localhost(1)).await;
    assert_eq!(raw.connect(revoked.id.as_str()).await, ConnectReturnCode::NotAuthorized);
}

/// The number of reads of each content.
type Reads = Arc<Mutex<BTreeMap<ContentDigest, u32>>>;

fn serve(world: &World) -> Reads {
    let reads = Reads::default();
    let counted = Arc::clone(&reads);
    world.handle.serve_contents(
        &(Arc::new(move |digest: ContentDigest, offset: u64| {
            *counted.lock().unwrap().entry(digest).or_default() += 1;
            let first = u8::try_from(offset / wire::CHUNK_MAX as u64).unwrap();
            Ok(if first < 4 { vec![first; wire::CHUNK_MAX] } else { Vec::new() })
        }) as _),
    );
    reads
}

fn grant(node: &NodeId, connection: u64, digest: u8, number: u64) -> Grant {
    let (digest, offset) = (ContentDigest([digest; 32]), number * wire::CHUNK_MAX as u64);
    Grant { node: node.clone(), connection, digest, offset }
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_are_served_while_the_driver_stands_still() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let reads = serve(&world);
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    world.driver.running.send_replace(false);
    // A connection that is over gets nothing, nor is anything read for it.
    world.handle.send_chunk(grant(&node.id, connection + 1, 1, 0));
    for number in 0..5 {
        world.handle.send_chunk(grant(&node.id, connection, 2, number));
        let chunk = raw.messages(&node).await;
        let [Down::Chunk { digest, offset, bytes }] = &chunk[..] else { panic!("{chunk:?}") };
        assert_eq!((digest.0[0], *offset), (2, number * wire::CHUNK_MAX as u64));
        let length = if number < 4 { wire::CHUNK_MAX } else { 0 };
        assert_eq!((bytes.len(), bytes.iter().all(|byte| u64::from(*byte) == number)), (length, true));
    }
    let one = Reads::default();
    one.lock().unwrap().insert(ContentDigest([2; 32]), 5);
    assert_eq!(*reads.lock().unwrap(), *one.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_reads_nothing_takes_the_room_of_two_chunks() {
    let mut world = World::start().await;
    let (deaf, node) = (world.node("deaf"), world.node("web-1"));
    let reads = serve(&world);
    // It is connected, and never subscribes: nothing can be written to it.
    let mut silent = Raw::new(&world, world.tls(deaf.identity()), localhost(1)).await;
    assert_eq!(silent.connect(deaf.id.as_str()).await, ConnectReturnCode::Success);
    let to_deaf = world.driver.connected(&deaf.id).await;
    let mut raw = Raw::node(&world, &node, QoS::AtMostOnce).await;
    let connection = world.driver.connected(&node.id).await;
    for round in 0..200 {
        world.handle.send_chunk(grant(&deaf.id, to_deaf, 1, 0));
        world.handle.send_chunk(grant(&node.id, connection, 2, round % 4));
        // The other is served all along.
        assert!(matches!(raw.messages(&node).await[..], [Down::Chunk { .. }]), "round {round}");
    }
    let reads = reads.lock().unwrap();
    assert_eq!(reads.get(&ContentDigest([2; 32])), Some(&200));
    assert_eq!(reads.get(&ContentDigest([1; 32])), Some(&2), "what waits to be read by it is in memory");
}
