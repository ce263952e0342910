//! Clients without a certificate.

use std::sync::Mutex;
use std::time::Duration;

use muster_controller::link::{JoinAsk, JoinGrant, Limits};
use muster_shared::join::{self, JoinAnswer, JoinRequest, NewNode, TokenId, TokenSecret};
use muster_shared::seal::{Seal, SealPublic, SealSecret};
use muster_shared::{NodeId, topic};
use rcgen::KeyPair;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode, Packet};

use crate::raw::{Raw, localhost};
use crate::world::{Node, Seen, World, random, request};

const NONCE: &str = "0123456789abcdef";

/// Connected without a certificate, waiting for the answer. One that left just now may still be in the way.
async fn joiner(world: &World, from: u8) -> Raw {
    let mut raw = greeted(world, from, NONCE, ConnectReturnCode::Success).await;
    raw.subscribe(&topic::join_answer(world.site(), NONCE), QoS::AtLeastOnce).await;
    assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
    raw
}

/// A client without a certificate that got this answer to its CONNECT.
async fn greeted(world: &World, from: u8, id: &str, code: ConnectReturnCode) -> Raw {
    for _ in 0..1000 {
        let mut raw = Raw::new(world, world.tls(None), localhost(from)).await;
        let answer = raw.connect(id).await;
        if answer == ConnectReturnCode::ConnectionRateExceeded {
            continue;
        }
        assert_eq!(answer, code, "{id}");
        return raw;
    }
    panic!("the place of an address is not given back");
}

async fn ask(world: &World, raw: &mut Raw, payload: Vec<u8>) -> JoinAnswer {
    raw.publish(&topic::join_request(world.site(), NONCE), payload).await;
    match raw.next().await {
        Some(Packet::Publish(publish)) => {
            assert_eq!(publish.topic, topic::join_answer(world.site(), NONCE));
            JoinAnswer::decode(&publish.payload).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn ask_for(name: &str) -> (JoinAsk, SealSecret) {
    let seal = SealSecret::from_bytes([5; 32]);
    let ask = JoinAsk {
        token_id: TokenId([1; 8]),
        secret: TokenSecret([2; 16]),
        name: name.parse().unwrap(),
        seal_public: seal.public(),
        agent_version: "0.1.0".into(),
        moves: false,
    };
    (ask, seal)
}

fn join(ask: &JoinAsk, csr_der: Vec<u8>) -> Vec<u8> {
    JoinRequest::Join(NewNode {
        token_id: ask.token_id,
        secret: ask.secret.clone(),
        name: ask.name.clone(),
        csr_der,
        seal_public: ask.seal_public,
        agent_version: ask.agent_version.clone(),
    })
    .encode()
}

fn reason(answer: JoinAnswer) -> String {
    match answer {
        JoinAnswer::Refused { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Connects with what was granted.
async fn works(world: &mut World, id: NodeId, answer: JoinAnswer, key: KeyPair, seal: SealSecret) {
    let JoinAnswer::Granted { certificate_der, ca_der, controller_seal, site, node, not_after } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(join::fingerprint(&ca_der), world.pki.fingerprint());
    assert_eq!((&site, &node), (world.site(), &id));
    let (_, parsed) = x509_parser::parse_x509_certificate(&certificate_der).unwrap();
    assert_eq!(parsed.validity().not_after.timestamp(), not_after as i64);
    let seal = Seal::new(&seal, &controller_seal, &site, &id);
    let session = Mutex::default();
    let node = Node { id, secret: [0; 32], certificate: certificate_der, key, seal, session };
    let mut raw = Raw::node(world, &node, QoS::AtLeastOnce).await;
    let connection = world.driver.connected(&node.id).await;
    let packet = node.pack(&[crate::world::up(1)]);
    raw.publish(&topic::up(world.site(), &node.id), packet).await;
    assert_eq!(
        world.driver.next().await,
        Seen::Received(node.id.clone(), connection, vec![crate::world::up(1)])
    );
    drop(raw);
    assert_eq!(world.driver.next().await, Seen::Disconnected(node.id, connection));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_makes_a_node() {
    let mut world = World::start().await;
    *world.driver.joins.lock().unwrap() = Box::new(|_| Ok(JoinGrant));
    let (asked, seal) = ask_for("web-1");
    let (key, csr) = request();
    let mut raw = joiner(&world, 1).await;
    let answer = ask(&world, &mut raw, join(&asked, csr)).await;
    assert_eq!(world.driver.next().await, Seen::Joined(asked.clone()));
    works(&mut world, asked.name, answer, key, seal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_drivers_refusal_reaches_the_joiner() {
    let mut world = World::start().await;
    let (asked, _) = ask_for("web-1");
    let mut raw = joiner(&world, 1).await;
    let answer = ask(&world, &mut raw, join(&asked, request().1)).await;
    assert_eq!(reason(answer), "no such token");
    assert_eq!(world.driver.next().await, Seen::Joined(asked));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealing_key_of_which_nothing_secret_comes_is_refused() {
    let mut world = World::start().await;
    *world.driver.joins.lock().unwrap() = Box::new(|_| Ok(JoinGrant));
    let (mut asked, _) = ask_for("web-1");
    asked.seal_public = SealPublic([0; 32]);
    let mut raw = joiner(&world, 1).await;
    let answer = ask(&world, &mut raw, join(&asked, request().1)).await;
    assert!(reason(answer).starts_with("the sealing key is weak"));
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_no_good_never_reaches_the_driver() {
    let mut world = World::start().await;
    let (asked, _) = ask_for("web-1");
    let mut forged = request().1;
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let rare = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let rare = rcgen::CertificateParams::default().serialize_request(&rare).unwrap().der().to_vec();
    for (payload, why) in [
        (join(&asked, forged), "malformed or not signed"),
        (join(&asked, b"nonsense".to_vec()), "malformed or not signed"),
        (join(&asked, rare), "unknown kind"),
        (join(&asked, vec![0; 4000]), "out of bounds"),
        (vec![9, 9, 9], "version 9"),
        (Vec::new(), "malformed"),
    ] {
        let mut raw = joiner(&world, 1).await;
        let reason = reason(ask(&world, &mut raw, payload).await);
        assert!(reason.contains(why), "{reason}");
        raw.publish(&topic::join_request(world.site(), NONCE), Vec::new()).await;
        assert_eq!(raw.disconnected().await, Some(0x97), "a second request");
    }
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_renews_with_proof_of_its_key_alone() {
    let mut world = World::start().await;
    let (node, other) = (world.node("web-1"), world.node("web-2"));
    let renew = |by: &Node, of: &Node, csr: &[u8]| {
        join::renewal(&by.seal, of.id.clone(), random(), csr).unwrap().encode()
    };
    let (key, csr) = request();
    for (payload, good) in [
        (renew(&node, &node, &csr), true),
        (renew(&other, &node, &csr), false),
        (renew(&node, &other, &csr), false),
        (renew(&node, &node, b"nonsense"), false),
    ] {
        let mut raw = joiner(&world, 1).await;
        let answer = ask(&world, &mut raw, payload).await;
        assert_eq!(matches!(answer, JoinAnswer::Granted { .. }), good);
        drop(raw);
        if good {
            let (key, seal) = (key_of(&key), SealSecret::from_bytes(node.secret));
            works(&mut world, node.id.clone(), answer, key, seal).await;
        }
    }
    world.driver.admitted.set(node.id.clone(), None);
    let mut raw = joiner(&world, 1).await;
    let revoked = reason(ask(&world, &mut raw, renew(&node, &node, &csr)).await);
    drop(raw);
    let mut raw = joiner(&world, 1).await;
    let wrong = reason(ask(&world, &mut raw, renew(&other, &node, &csr)).await);
    assert_eq!(revoked, wrong, "an outsider learns nothing");
}

fn key_of(key: &KeyPair) -> KeyPair {
    KeyPair::from_pem(&key.serialize_pem()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_only_the_own_join_topics() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let site = world.site().clone();
    for topic in [
        topic::down(&site, &node.id),
        topic::join_answer(&site, "another0"),
        topic::join_request(&site, NONCE),
    ] {
        let mut raw = greeted(&world, 1, NONCE, ConnectReturnCode::Success).await;
        raw.subscribe(&topic, QoS::AtMostOnce).await;
        assert_eq!(raw.disconnected().await, Some(0x87), "{topic}");
    }
    for topic in
        [topic::up(&site, &node.id), topic::join_request(&site, "another0"), topic::join_answer(&site, NONCE)]
    {
        let mut raw = joiner(&world, 1).await;
        raw.publish(&topic, node.seal.greet(random()).unwrap().packet().to_vec()).await;
        assert_eq!(raw.disconnected().await, Some(0x87), "{topic}");
    }
    for id in ["web-1", "short", "UPPERCASE1", "a/b/c/d/e/f", &"x".repeat(33)] {
        let mut raw = greeted(&world, 1, id, ConnectReturnCode::ClientIdentifierNotValid).await;
        assert_eq!(raw.disconnected().await, None);
    }
    world.driver.saw_nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_without_a_certificate_per_address() {
    let world = World::start().await;
    let first = joiner(&world, 1).await;
    let mut second = Raw::new(&world, world.tls(None), localhost(1)).await;
    // Refused at once: it need not even say CONNECT.
    match second.next().await {
        Some(Packet::ConnAck(ack)) => assert_eq!(ack.code, ConnectReturnCode::ConnectionRateExceeded),
        other => panic!("{other:?}"),
    }
    drop(second);
    // Another address, and a node of the same address, have nothing to do with it.
    drop(joiner(&world, 2).await);
    let node = world.node("web-1");
    drop(Raw::node(&world, &node, QoS::AtMostOnce).await);
    drop(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_without_a_certificate_is_short() {
    // Not too short for a handshake and a subscription beside other tests.
    let limits = Limits { join: Duration::from_secs(5), ..Limits::default() };
    let world = World::with(limits).await;
    let mut raw = joiner(&world, 1).await;
    assert_eq!(raw.disconnected().await, Some(0xA0));
    drop(raw);
    // The address has its place back.
    drop(joiner(&world, 1).await);
    // It does not help to say nothing.
    let mut silent = Raw::new(&world, world.tls(None), localhost(2)).await;
    assert_eq!(silent.next().await, None);
}
