//! A document that was given on the server: guarded as any, unknown to the controller, refused where it owns
//! the link.

use std::time::Duration;

use muster_shared::model::{Action, Down, NetworkConfig, Outcome, Spec, Up};
use muster_shared::{Attempt, Epoch, Generation, ResourceId};

use super::confirm::{WINDOW, answer, network, reason};
use super::node::{CHALLENGE, Node, done, id, key};
use crate::{AtBoot, Before, Found, Input, at_boot};

const LOCAL: u128 = u128::MAX;

/// The document of resource `n` of the controller, given here.
fn given(n: u128) -> NetworkConfig {
    match network(n, 1, Action::Create).spec {
        Spec::Network(config) => config,
        other => panic!("{other:?}"),
    }
}

fn give(bed: &mut Node, n: u128) {
    bed.input(Input::Local { config: given(n), timeout: Duration::from_secs(60), after: 0 });
}

fn local_key(number: u64) -> muster_shared::model::ReportKey {
    let generation = Generation { epoch: Epoch(0), number };
    muster_shared::model::ReportKey { resource: ResourceId::LOCAL, generation, attempt: Attempt(0) }
}

/// A node that has changed the network and waits for the confirmation.
fn confirming() -> Node {
    let mut bed = Node::online();
    give(&mut bed, 5);
    bed.captured(LOCAL, Ok("before Muster"));
    bed.touched(LOCAL, Ok(()));
    bed
}

fn kept() -> Node {
    let mut bed = confirming();
    bed.reconnect();
    answer(&mut bed, local_key(1), CHALLENGE);
    assert_eq!(std::mem::take(&mut bed.locals), [done()]);
    bed.sent.clear();
    bed
}

#[test]
fn it_is_kept_once_the_controller_was_reached_anew() {
    let mut bed = confirming();
    bed.reconnect();
    assert!(bed.sent.contains(&Up::Challenge { key: local_key(1), bytes: CHALLENGE.to_vec() }));
    assert!(bed.locals.is_empty());
    bed.disk_is_quick = false;
    answer(&mut bed, local_key(1), CHALLENGE);
    assert!(bed.locals.is_empty(), "only what is on disk is said");
    bed.write_one();
    assert_eq!(bed.locals, [done()]);
    let entry = &bed.disk[&ResourceId::LOCAL];
    assert!(entry.undo.is_none() && entry.current.is_none() && entry.applied.is_some());
}

#[test]
fn without_an_answer_it_is_put_back_and_who_gave_it_hears_why() {
    let mut bed = confirming();
    bed.input(Input::Disconnected { reason: "closed by this side".into() });
    bed.input(Input::Disconnected { reason: "no answer from 192.0.2.1".into() });
    bed.after(WINDOW);
    bed.restored(Ok(()));
    bed.reconnect();
    let why = reason(bed.locals.remove(0));
    assert!(why.contains("no answer from 192.0.2.1") && why.contains("has been restored"), "{why}");
    assert!(bed.disk[&ResourceId::LOCAL].applied.is_none());
}

#[test]
fn the_controller_hears_nothing_of_it() {
    let mut bed = kept();
    let empty = Node::online().agent.jobs.ledger.digest();
    assert_eq!(bed.agent.jobs.ledger.digest(), empty);
    bed.input(Input::Disconnected { reason: "gone".into() });
    bed.after(Duration::from_secs(300));
    bed.input(Input::Connected);
    bed.down(super::node::welcome(1, true));
    bed.after(Duration::from_secs(40));
    let of_it = bed.sent.iter().filter(|up| match up {
        Up::Report(_) | Up::Progress(_) | Up::Drift(_) | Up::Challenge { .. } => true,
        Up::Ledger { entries, .. } => !entries.is_empty(),
        _ => false,
    });
    assert_eq!(of_it.collect::<Vec<_>>(), Vec::<&Up>::new());
}

#[test]
fn its_drift_is_logged_on_the_server() {
    let mut bed = kept();
    bed.after(Duration::from_secs(1));
    let found = Found::Differs { missing: false, reason: "eth5 has another MTU".into() };
    bed.looked(Ok(found));
    assert!(
        bed.warnings.iter().any(|warning| warning.contains("eth5 has another MTU")),
        "{:?}",
        bed.warnings
    );
    assert!(!bed.sent.iter().any(|up| matches!(up, Up::Drift(_))));
}

#[test]
fn a_local_change_of_a_link_that_a_resource_owns_is_refused() {
    let mut bed = Node::online();
    // Not started, but wanted.
    bed.job(&network(5, 1, Action::Create));
    for _ in 0..2 {
        give(&mut bed, 5);
        let why = reason(bed.locals.remove(0));
        assert!(why.contains("link eth5") && why.contains(&id(5).to_string()), "{why}");
        if !bed.captures.is_empty() {
            bed.captured(5, Ok("before Muster"));
            bed.ran(5, Ok(()));
        }
    }
    assert!(!bed.disk.contains_key(&ResourceId::LOCAL));
    give(&mut bed, 6);
    assert!(bed.locals.is_empty() && bed.captures.len() == 1, "another link is nobody's");
}

#[test]
fn the_controller_takes_it_over() {
    let mut bed = kept();
    bed.job(&network(5, 1, Action::Create));
    let known = bed.captures[0].1.clone();
    assert_eq!(known, [Before::new(b"before Muster".to_vec())], "what was there before comes with it");
    bed.captured(5, Ok("before Muster"));
    bed.ran(5, Ok(()));
    let entries: Vec<_> = bed.disk.values().cloned().collect();
    assert!(matches!(&at_boot(&entries)[..], [AtBoot::Apply { resource, .. }] if *resource == id(5)));
    give(&mut bed, 5);
    assert!(reason(bed.locals.remove(0)).contains(&id(5).to_string()));
}

#[test]
fn one_at_a_time() {
    let mut bed = confirming();
    give(&mut bed, 6);
    assert!(reason(bed.locals.remove(0)).contains("another document"));
    bed.reconnect();
    answer(&mut bed, local_key(1), CHALLENGE);
    assert_eq!(bed.locals, [done()]);
}

#[test]
fn what_a_restart_finds_half_done_is_put_back() {
    let bed = confirming();
    let entries: Vec<_> = bed.disk.values().cloned().collect();
    assert!(matches!(&at_boot(&entries)[..], [AtBoot::Restore { .. }]));
    let mut bed = bed.crash();
    assert_eq!(bed.restores.len(), 1);
    bed.restored(Ok(()));
    assert!(reason(bed.locals.remove(0)).contains("restored"));
    assert!(bed.agent.jobs.ledger.get(ResourceId::LOCAL).is_none_or(|entry| entry.applied.is_none()));
}

#[test]
fn what_a_restart_finds_not_begun_is_dropped() {
    let mut bed = Node::online();
    give(&mut bed, 5);
    let mut bed = bed.crash();
    assert!(bed.captures.is_empty() && bed.runs.is_empty());
    assert!(reason(bed.locals.remove(0)).contains("before the change began"));
    give(&mut bed, 5);
    assert_eq!(bed.captures.len(), 1);
}

#[test]
fn at_boot_the_last_one_that_was_kept_is_in_force() {
    let entries: Vec<_> = kept().disk.into_values().collect();
    assert!(matches!(&at_boot(&entries)[..], [AtBoot::Apply { resource, .. }] if resource.is_local()));
}

#[test]
fn numbers_only_rise() {
    let mut bed = kept();
    bed.input(Input::Local { config: given(6), timeout: Duration::from_secs(60), after: 9 });
    assert_eq!(bed.captures[0].0, local_key(10));
}

#[test]
fn a_controller_that_speaks_of_it_is_not_heard() {
    let mut bed = kept();
    let entry = bed.disk[&ResourceId::LOCAL].clone();
    bed.job(&network(LOCAL, 1, Action::Delete));
    bed.down(Down::Withdraw { resource: ResourceId::LOCAL, generation: key(1, 9, 0).generation });
    assert!(bed.runs.is_empty());
    assert_eq!(bed.disk[&ResourceId::LOCAL], entry);
    assert!(!bed.locals.iter().any(|outcome| matches!(outcome, Outcome::Done(_))));
}
