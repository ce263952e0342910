use super::*;
use std::sync::Arc;

use crate::affected_intents::{Concerned, Hope, Tracker};
use crate::compile::CompileError;
use crate::topology::{Change, PortNo};

fn points(topology: &Topology, of: &[&str]) -> Vec<PortNo> {
    of.iter().map(|text| topology.port(&at(text)).expect("a port")).collect()
}

/// Intent 1 is installed on `a b c`. Intent 2 cannot be healed. Intents 3 to 7 hope for anything,
/// for a device, for a port, for the link from `c` to `d`, and for any change of the network.
fn tracked() -> (Topology, Tracker<u32>) {
    let topology = network("a-b b-c c-d");
    let links = vec![link(&topology, "a", "b"), link(&topology, "b", "c")];
    let mut tracker = Tracker::default();
    let next = topology.next_link();
    tracker.stands(1, links.into(), points(&topology, &["a:h1", "c:h1"]).into(), Hope::None);
    tracker.failed(2, Hope::None, next);
    tracker.failed(3, Hope::Anything, next);
    tracker.failed(4, Hope::Device(at("d:h1").device), next);
    tracker.failed(5, Hope::Point(at("c:h2")), next);
    tracker.failed(6, Hope::Links([link(&topology, "c", "d")].into()), next);
    tracker.failed(7, Hope::Network, next);
    (topology, tracker)
}

#[test]
fn a_loss_affects_intents_on_it_and_a_gain_those_that_lack_it() {
    let (mut topology, tracker) = tracked();
    topology.hear(&at("d:e"), &at("e:d")).expect("a link");
    let hop = |from: &str, to: &str| link(&topology, from, to);
    let port = |text: &str| topology.port(&at(text)).expect("a port");
    for (changes, surely, perhaps) in [
        (vec![], vec![], vec![]),
        (vec![Change::LinkDown(hop("a", "b"))], vec![1], vec![]),
        (vec![Change::LinkDown(hop("b", "a"))], vec![], vec![]),
        (vec![Change::LinkDown(hop("c", "d"))], vec![], vec![]),
        (vec![Change::LinkUp(hop("c", "d"))], vec![3, 7], vec![6]),
        (vec![Change::LinkUp(hop("a", "b"))], vec![3, 7], vec![]),
        (vec![Change::LinkUp(hop("d", "e"))], vec![3, 6, 7], vec![]),
        (vec![Change::LinkDown(hop("b", "c")), Change::LinkUp(hop("c", "d"))], vec![1, 3, 7], vec![6]),
        (vec![Change::LinkChanged(hop("a", "b"))], vec![1, 3, 7], vec![]),
        (vec![Change::LinkChanged(hop("c", "d"))], vec![3, 7], vec![6]),
        (vec![Change::PortDown(port("c:h1"))], vec![1], vec![]),
        (vec![Change::PortDown(port("c:h2"))], vec![], vec![]),
        (vec![Change::PortUp(port("a:h1"))], vec![3, 7], vec![]),
        (vec![Change::PortUp(port("c:h2"))], vec![3, 5, 7], vec![]),
        (vec![Change::PortFree(port("c:h2"))], vec![3, 5, 7], vec![]),
        (vec![Change::PortUp(port("d:h1"))], vec![3, 4, 7], vec![]),
    ] {
        let shown = format!("{changes:?}");
        let found = tracker.concerned(&topology, &changes.into_iter().collect());
        let wanted =
            Concerned { surely: surely.into_iter().collect(), perhaps: perhaps.into_iter().collect() };
        assert_eq!(found, wanted, "{shown}");
    }
    for (given_back, wanted) in [("a b", vec![]), ("c d", vec![6])] {
        let (from, to) = given_back.split_once(' ').expect("two");
        let found = tracker.concerned_by_room(&[hop(from, to)].into());
        assert_eq!(found, Concerned { surely: [3].into(), perhaps: wanted.into_iter().collect() });
    }
}

#[test]
fn nothing_is_left_of_what_was_forgotten() {
    let (_, mut tracker) = tracked();
    let next = link(&network("a-b"), "a", "b");
    tracker.failed(1, Hope::None, next);
    for key in 1..=7 {
        tracker.forget(key);
        tracker.forget(key);
    }
    assert!(tracker.is_empty());
}

#[test]
fn what_was_wrong_says_what_may_heal_it() {
    let (a, b) = (at("a:h1"), at("b:h1"));
    let (from, to) = (a.device.clone(), b.device.clone());
    let no_path =
        |closed| CompileError::NoPath { from: from.clone(), to: to.clone(), with: String::new(), closed };
    assert_eq!(no_path(None).hope(), Hope::Anything);
    let links: Arc<[LinkNo]> = [link(&network("a-b"), "a", "b")].into();
    assert_eq!(no_path(Some(links.clone())).hope(), Hope::Links(links));
    assert_eq!(CompileError::Down(a.clone()).hope(), Hope::Point(a.clone()));
    assert_eq!(CompileError::NoDevice(a.device.clone()).hope(), Hope::Device(a.device));
    assert_eq!(CompileError::Bad(crate::intent::BadIntent::InPort).hope(), Hope::None);
}

#[test]
fn what_comes_back_before_anybody_looked_is_no_change() {
    let mut topology = network("a-b b-c");
    topology.set_port(&at("a:b"), false).expect("a port");
    let (there, back) = (link(&topology, "a", "b"), link(&topology, "b", "a"));
    let port = topology.port(&at("a:b")).expect("a port");
    let down = [Change::LinkDown(there), Change::LinkDown(back), Change::PortDown(port)];
    assert_eq!(topology.take_changes(), down.into());
    topology.set_port(&at("a:b"), true).expect("a port");
    topology.set_port(&at("a:b"), false).expect("a port");
    assert_eq!(topology.take_changes(), BTreeSet::new());
    // The cable is dead, though both ports are up.
    topology.set_port(&at("a:b"), true).expect("a port");
    topology.take_changes();
    topology.hear(&at("a:b"), &at("b:a")).expect("a link");
    assert_eq!(topology.take_changes(), BTreeSet::new());
    topology.miss(there);
    assert_eq!(topology.take_changes(), [Change::LinkDown(there)].into());
    topology.hear(&at("a:b"), &at("b:a")).expect("a link");
    assert_eq!(topology.take_changes(), [Change::LinkUp(there)].into());
}

#[test]
fn a_port_has_one_cable() {
    let mut topology = network("a-b b-c");
    let wrong = topology.hear(&at("a:b"), &at("c:x")).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "a/br0 port b has a link with b/br0 port a already, and a port has one cable"
    );
    assert!(topology.declare(&at("a:x"), &at("a:y"), LinkTraits::default()).is_err());
    // The cable is moved to another port.
    for (from, to) in [("a", "b"), ("b", "a")] {
        topology.retract(link(&topology, from, to));
    }
    assert!(topology.hear(&at("a:b"), &at("c:x")).is_ok());
}
