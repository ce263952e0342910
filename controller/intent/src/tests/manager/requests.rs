//! Requests: submit, withdraw and purge, also over a restart.

use std::time::Duration;

use crate::manager::IntentRefused;
use crate::phase::{Request, State};
use crate::tests::site::{arrives, ring, simple};
use crate::tests::*;

#[test]
fn submitted_it_is_installed_and_withdrawn_nothing_is_left() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    assert_eq!(site.states_of("one"), [State::Installing, State::Installed]);
    assert_eq!(site.plane.0.len(), 2);
    arrives(&site, "a:h1", "b:h1");
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert_eq!(site.states_of("one")[2..], [State::Withdrawing, State::Withdrawn]);
    assert!(site.plane.0.is_empty());
    site.manager.purge("one").expect("taken");
    site.settle();
    assert_eq!((site.manager.len(), site.saved.len()), (0, 0));
    assert!(site.manager.ledger().is_empty());
}

#[test]
fn the_last_of_many_requests_for_a_key_counts() {
    let mut site = ring();
    for round in 0..50 {
        site.submit("one", simple()).expect("taken");
        if round % 3 == 0 {
            site.take();
        }
        site.manager.withdraw("one").expect("taken");
        if round % 2 == 0 {
            site.step(0);
        }
    }
    site.settle();
    assert_eq!((site.manager.len(), site.state("one")), (1, Some(State::Withdrawn)));
    assert!(site.plane.0.is_empty());
    site.submit("one", simple()).expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Installed));
}

#[test]
fn five_hundred_come_and_go() {
    let mut site = ring();
    for number in 0..500_u128 {
        let mut intent = simple();
        intent.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: number, mask: None });
        site.submit(&number.to_string(), intent).expect("taken");
    }
    site.settle();
    assert_eq!(site.manager.count(State::Installed), 500);
    assert_eq!(site.plane.0.len(), 1000);
    for number in 0..500 {
        site.manager.withdraw(&number.to_string()).expect("taken");
    }
    site.settle();
    assert_eq!(site.manager.count(State::Withdrawn), 500);
    assert!(site.plane.0.is_empty());
}

#[test]
fn what_cannot_be_compiled_is_failed_with_why_and_never_waits() {
    let mut site = ring();
    let obstacles = [at("b:h1").device, at("d:h1").device].into();
    site.submit("one", from_to("a:h1", "c:h1", Constraints { obstacles, ..Constraints::default() }))
        .expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Failed));
    assert!(
        site.reason("one").contains("no path from a/br0 to c/br0 with the obstacles"),
        "{}",
        site.reason("one")
    );
    assert_eq!(site.manager.pending().count(), 0);
    site.submit("two", from_to("a:h1", "x:h1", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(
        (site.state("two"), site.reason("two")),
        (Some(State::Failed), "there is no device x/br0".into())
    );
    // The installed rules are removed if the newer request cannot be installed.
    site.submit("three", simple()).expect("taken");
    site.settle();
    site.submit("three", from_to("a:h1", "b:a", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(site.state("three"), Some(State::Failed));
    assert!(site.plane.0.is_empty());
    // A failed intent can be purged, an installed one cannot.
    site.manager.purge("one").expect("taken");
    site.submit("four", simple()).expect("taken");
    site.settle();
    assert!(matches!(site.manager.purge("four"), Err(IntentRefused::NotWithdrawn { .. })));
    assert_eq!(site.manager.purge("none"), Err(IntentRefused::Unknown("none".into())));
}

#[test]
fn a_withdrawal_is_not_undone_by_the_network() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    site.manager.withdraw("one").expect("taken");
    site.cable("a", "b", false);
    site.take();
    site.cable("a", "b", true);
    site.wait(Duration::from_secs(3));
    assert_eq!(site.state("one"), Some(State::Withdrawn));
    site.cable("a", "d", false);
    site.cable("a", "d", true);
    site.wait(Duration::from_secs(100));
    assert_eq!(site.state("one"), Some(State::Withdrawn));
    assert!(site.plane.0.is_empty());
}

/// The first path of such an intent is gone, or goes, so it promises nothing while the next one comes.
#[test]
fn one_that_was_withdrawn_meanwhile_is_installed_anew() {
    let mut site = ring();
    let to = |to: &str| from_to("a:h1", to, Constraints { vlan: true, ..Constraints::default() });
    site.submit("one", to("b:h1")).expect("taken");
    site.settle();
    site.submit("one", to("c:h1")).expect("taken");
    site.take();
    assert_eq!(site.state("one"), Some(State::Reallocating));
    site.manager.withdraw("one").expect("taken");
    site.take();
    site.submit("one", to("d:h1")).expect("taken");
    site.take();
    assert_eq!(site.state("one"), Some(State::Installing));
    site.settle();
    assert_eq!(site.states_of("one").last(), Some(&State::Installed));
    arrives(&site, "a:h1", "d:h1");
    // Neither the path before nor the one between has kept anything.
    site.manager.withdraw("one").expect("taken");
    site.settle();
    site.manager.purge("one").expect("taken");
    site.settle();
    assert_eq!((site.manager.len(), site.plane.0.len()), (0, 0));
    assert!(site.manager.ledger().is_empty());
}

#[test]
fn over_a_restart_all_stands_as_it_stood() {
    let mut site = ring();
    site.submit("stays", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.submit("goes", from_to("b:h1", "d:h1", Constraints::default())).expect("taken");
    let nowhere =
        Constraints { obstacles: [at("b:h1").device, at("d:h1").device].into(), ..Constraints::default() };
    site.submit("failed", from_to("c:h2", "a:h2", nowhere)).expect("taken");
    site.settle();
    site.manager.withdraw("goes").expect("taken");
    site.take();
    let mut comes = from_to("a:h2", "b:h2", Constraints::default());
    comes.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: 7, mask: None });
    site.submit("comes", comes).expect("taken");
    site.take();
    let path = site.path("stays");
    let before = site.states.len();
    site.restart();
    site.settle();
    assert_eq!(site.path("stays"), path);
    for (key, state) in [
        ("stays", State::Installed),
        ("goes", State::Withdrawn),
        ("comes", State::Installed),
        ("failed", State::Failed),
    ] {
        assert_eq!(site.state(key), Some(state), "{key}");
    }
    assert!(!site.states[before..].iter().any(|(key, _)| key == "stays"), "{:?}", &site.states[before..]);
    arrives(&site, "a:h1", "c:h1");
    site.cable("a", "b", false);
    site.settle();
    assert_eq!(site.path("stays"), "a d c");
}

#[test]
fn what_is_wrong_in_any_network_is_refused_and_changes_nothing() {
    let mut site = ring();
    assert_eq!(site.submit("", simple()), Err(IntentRefused::Key));
    assert_eq!(site.submit("a\nb", simple()), Err(IntentRefused::Key));
    assert_eq!(site.submit(&"k".repeat(256), simple()), Err(IntentRefused::Key));
    let same = from_to("a:h1", "a:h1", Constraints::default());
    assert!(matches!(site.submit("one", same), Err(IntentRefused::Bad(_))));
    assert_eq!(site.manager.withdraw("one"), Err(IntentRefused::Unknown("one".into())));
    assert_eq!(site.manager.len(), 0);
}

#[test]
fn records_say_what_was_asked_for() {
    let mut site = ring();
    let no = site.submit("one", simple()).expect("taken");
    site.settle();
    let record = site.manager.record(no).expect("it is there");
    assert_eq!((record.request, record.state), (Request::Install, State::Installed));
    let text = serde_json::to_string(&*record.intent).expect("text");
    assert_eq!(serde_json::from_str::<Intent>(&text).expect("an intent"), simple());
}
