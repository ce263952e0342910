//! Packets of many messages, from a node that has joined.

use muster_shared::Epoch;
use muster_shared::model::{ContentDigest, Hello, Up};
use muster_testbed::eventually;
use muster_tests::site::Site;

use crate::figures::{Measured, slowest_update};
use crate::hostile::Hostile;

/// In one packet.
const MANY: usize = 400;

fn hello() -> Up {
    Up::Hello(Hello {
        boot_id: 1,
        instance: None,
        address: None,
        agent_version: "evil".into(),
        reads: 0,
        epoch: Epoch(0).into(),
        ledger: 1,
    })
}

fn attacked_by(attack: &'static str, messages: Vec<Up>) -> (Site, Hostile) {
    let site = Site::start();
    let web = site.join("web-1");
    let measured = Measured::begin(attack, &site, &web);
    let hostile = Hostile::start(&site, messages);
    eventually("it attacks", || (hostile.sent() > 2).then_some(()));
    let honest = slowest_update(&site, &web, "attacked");
    measured.end(&site, honest, hostile.sent());
    assert_eq!(site.node_state("web-1").as_deref(), Some("online"));
    (site, hostile)
}

#[test]
fn greetings() {
    let (_site, hostile) = attacked_by("greetings", vec![hello(); MANY]);
    eventually("its connections are ended", || (hostile.ended() > 0).then_some(()));
}

#[test]
fn more_greetings() {
    let (_site, hostile) = attacked_by("more greetings", vec![hello(); 6500]);
    eventually("its connections are ended", || (hostile.ended() > 0).then_some(()));
}

#[test]
fn fetches_of_what_nobody_has() {
    let digest = ContentDigest::of(b"nothing");
    attacked_by("fetches", vec![Up::Fetch { digest, offset: 0 }; MANY]);
}

#[test]
fn heartbeats() {
    attacked_by("heartbeats", vec![Up::Heartbeat { drift: None }; MANY]);
}
