use super::*;
use crate::compile::{CompileError, Compiler};
use crate::ledger::{Holder, Ledger};
use crate::path::Trees;
use crate::topology::Change;
use crate::track::{Hope, Tracker};

/// One that stands on `a b c`, one that cannot be, one that could be with what others give back.
fn tracked() -> (Topology, Tracker<u32>) {
    let topology = network("a-b b-c c-d");
    let (ledger, mut trees) = (Ledger::default(), Trees::default());
    let mut compiler = Compiler { topology: &topology, ledger: &ledger, trees: &mut trees };
    let holder = Holder::Intent("key".into());
    let intent = from_to("a:h1", "c:h1", Constraints::default());
    let made = compiler.compile(&intent, "key", &holder, 1).expect("a path");
    let mut tracker = Tracker::default();
    tracker.stands(1, &made);
    tracker.failed(2, Hope::None);
    tracker.failed(3, Hope::Reservations);
    tracker.failed(4, Hope::Network);
    (topology, tracker)
}

#[test]
fn what_goes_concerns_who_stands_on_it_and_what_comes_who_hopes() {
    let (topology, tracker) = tracked();
    let hop = |from: &str, to: &str| link(&topology, from, to);
    let port = |text: &str| topology.port(&at(text)).expect("a port");
    for (changes, wanted) in [
        (vec![], vec![]),
        (vec![Change::LinkDown(hop("a", "b"))], vec![1]),
        (vec![Change::LinkDown(hop("b", "a"))], vec![]),
        (vec![Change::LinkDown(hop("c", "d"))], vec![]),
        (vec![Change::LinkUp(hop("c", "d"))], vec![3, 4]),
        (vec![Change::LinkDown(hop("b", "c")), Change::LinkUp(hop("c", "d"))], vec![1, 3, 4]),
        (vec![Change::LinkChanged(hop("a", "b"))], vec![1, 3, 4]),
        (vec![Change::PortDown(port("c:h1"))], vec![1]),
        (vec![Change::PortDown(port("c:h2"))], vec![]),
        (vec![Change::PortUp(port("d:h1"))], vec![3, 4]),
    ] {
        let shown = format!("{changes:?}");
        let found = tracker.concerned(&changes.into_iter().collect());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), wanted, "{shown}");
    }
    assert_eq!(tracker.hoping_for_reservations().collect::<Vec<_>>(), [3]);
}

#[test]
fn nothing_is_left_of_what_was_forgotten() {
    let (_, mut tracker) = tracked();
    tracker.failed(1, Hope::None);
    for key in 1..=4 {
        tracker.forget(key);
        tracker.forget(key);
    }
    assert!(tracker.is_empty());
}

#[test]
fn what_was_wrong_says_what_may_heal_it() {
    let (a, b) = (at("a:h1"), at("b:h1"));
    let (from, to) = (a.device.clone(), b.device.clone());
    let no_path = CompileError::NoPath { from, to, with: String::new() };
    assert_eq!(no_path.hope(), Hope::Reservations);
    assert_eq!(CompileError::Down(a).hope(), Hope::Network);
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
    // A cable that carries nothing though both ports are up.
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
    // Pulled out there and put in elsewhere.
    for (from, to) in [("a", "b"), ("b", "a")] {
        topology.retract(link(&topology, from, to));
    }
    assert!(topology.hear(&at("a:b"), &at("c:x")).is_ok());
}
