//! Devices that refuse writes.

use std::time::Duration;

use crate::manager::Op;
use crate::phase::State;
use crate::tests::site::{Site, arrives, ring, simple};
use crate::tests::*;

#[test]
fn a_refused_intent_is_corrupt_and_retried_ever_less_often() {
    let mut site = ring();
    site.refusing.insert(at("b:h1").device);
    site.submit("one", simple()).expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Corrupt));
    assert_eq!(site.reason("one"), "b/br0: no room");
    assert!(site.plane.0.is_empty(), "nothing is left of what was half there");
    let corrupt =
        |site: &Site| site.states_of("one").iter().filter(|state| **state == State::Corrupt).count();
    site.wait(Duration::from_secs(10));
    assert_eq!(corrupt(&site), 4, "at once, and after 1, 2 and 4 seconds");
    site.wait(Duration::from_secs(3600));
    assert!(corrupt(&site) < 25, "{}", corrupt(&site));
    site.refusing.clear();
    site.wait(Duration::from_secs(301));
    assert_eq!((site.state("one"), site.reason("one")), (Some(State::Installed), String::new()));
    assert_eq!(site.plane.0.len(), 2);
}

#[test]
fn a_move_that_fails_goes_back_to_where_it_stood() {
    let mut site = ring();
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b c");
    site.refusing.insert(at("d:h1").device);
    let away = Constraints { obstacles: [at("b:h1").device].into(), ..Constraints::default() };
    site.submit("one", from_to("a:h1", "c:h1", away)).expect("taken");
    site.take();
    while site.step(0) {
        arrives(&site, "a:h1", "c:h1");
    }
    // The installed rules are not those of the last request.
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Corrupt), "a b c".into()));
    assert_eq!(site.reason("one"), "it could not be moved: d/br0: no room");
    assert_eq!(site.plane.0.len(), 3);
    site.refusing.clear();
    site.wait(Duration::from_secs(2));
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d c".into()));
    // A better path cannot be installed.
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b c");
    site.refusing.insert(at("d:h1").device);
    let traits = LinkTraits { cost: 9, ..LinkTraits::default() };
    site.manager.declare(&at("a:b"), &at("b:a"), traits).expect("a link");
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a b c".into()));
    assert_eq!(site.reason("one"), "it could not be moved: d/br0: no room");
    arrives(&site, "a:h1", "c:h1");
}

#[test]
fn a_refused_rule_leaves_its_table_however_often_paths_change() {
    let mut site = Site::new("a-b b-c a-d=2 d-c=2 a-e=3 e-c=3");
    let [a, b, c] = ["a", "b", "c"].map(|name| at(&format!("{name}:h1")).device);
    site.refusing.insert(b);
    site.silent = [a, c].into();
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.take();
    assert!(site.step(0));
    assert_eq!(site.failed.len(), 1);
    site.silent.clear();
    // The path changes twice, each time before a write of the new path is done.
    for next in ["b", "d"] {
        site.cable("a", next, false);
        site.take();
    }
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a e c".to_owned()));
    assert!(site.failed.is_empty(), "{:?}", site.failed);
}

#[test]
fn a_refused_rule_that_shadows_a_new_one_goes_in_the_same_write() {
    let mut site = Site::new("a-b");
    let [a, b] = ["a", "b"].map(|name| at(&format!("{name}:h1")).device);
    site.silent = [b].into();
    site.refusing.insert(a.clone());
    site.submit("one", simple()).expect("taken");
    site.take();
    while site.failed.is_empty() {
        assert!(site.step(0));
    }
    site.submit("one", Intent { priority: 2000, ..simple() }).expect("taken");
    site.take();
    site.silent.clear();
    let mut writes: Vec<Vec<Op>> = Vec::new();
    while writes.is_empty() {
        assert!(site.step(0));
        writes.extend(site.waiting.iter().filter(|(_, _, at, _)| *at == a).map(|(_, _, _, ops)| ops.clone()));
    }
    let puts = |ops: &Vec<Op>| ops.iter().filter(|op| matches!(op, Op::Put(_))).count();
    assert_eq!(writes.iter().map(|ops| (ops.len(), puts(ops))).collect::<Vec<_>>(), [(2, 1)]);
}

#[test]
fn the_table_decides_what_a_refused_write_leaves() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    site.silent = [at("a:h1").device].into();
    // The intent is withdrawn, submitted and withdrawn again. `a` has done none of the writes.
    site.manager.withdraw("one").expect("taken");
    site.settle();
    site.submit("one", simple()).expect("taken");
    site.settle();
    site.manager.withdraw("one").expect("taken");
    site.settle();
    let (token, ..) = site.waiting.pop_front().expect("the first removal");
    site.written(token, Err("it is busy".into()));
    site.take();
    assert_eq!(site.waiting.len(), 2);
    // The last of these writes removes the rule, so it must be put again.
    site.submit("one", simple()).expect("taken");
    site.silent.clear();
    site.wait(Duration::from_secs(10));
    assert_eq!(site.state("one"), Some(State::Installed));
    arrives(&site, "a:h1", "b:h1");
}
