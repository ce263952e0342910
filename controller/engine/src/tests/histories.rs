//! Nodes that obeyed an epoch that this store does not know (a restored store, a second
//! controller), and nodes for which two agents speak.

use std::time::Duration;

use muster_shared::model::DriftState;
use muster_shared::{Epoch, EpochId};

use super::bed::{Bed, node, template, under};
use super::drift::says;
use super::flow_tables::{device, rule};
use super::restored::{held, rules};
use super::trees::source;
use crate::node::clones::GONE_AFTER;
use crate::{CORRECTIONS_MAX, Hook};

fn comes(bed: &mut Bed, instance: u128) {
    bed.disconnect(&node(0));
    bed.connect_as(&node(0), Epoch(0).into(), Some(instance));
}

fn state(bed: &Bed) -> (String, Vec<String>) {
    let view = bed.engine.view().node_views().remove(0);
    (view.state, view.conflict)
}

fn other(bed: &Bed, ahead: u32) -> EpochId {
    EpochId { number: Epoch(bed.engine.traversals.jobs.graph.ctx.epoch().0 + ahead), bits: Some(99) }
}

#[test]
fn an_epoch_that_another_history_had_is_not_used() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.restart();
    let before = bed.engine.traversals.jobs.graph.ctx.epoch();
    bed.create(template("a: x=1")).unwrap();
    let other = other(&bed, 0);
    bed.connect_as(&node(0), other, Some(1));
    assert_eq!(bed.engine.traversals.jobs.graph.ctx.epoch(), Epoch(before.0 + 1));
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
    assert_eq!(
        job.generation.epoch,
        bed.engine.traversals.jobs.graph.ctx.epoch(),
        "also of what was queued before"
    );
    assert!(bed.warnings[0].contains("the store is older"), "{:?}", bed.warnings);
}

/// The store was set back and started twice since. Its epoch is above the one that the node obeyed,
/// and none of its starts had that epoch's bits.
#[test]
fn a_lost_epoch_is_known_below_this_one() {
    for is_recorded in [false, true] {
        let mut bed = Bed::new(2);
        bed.restart();
        let this = bed.engine.traversals.jobs.graph.ctx.epoch();
        let lost = EpochId { number: Epoch(this.0 - 1), bits: Some(99) };
        if is_recorded {
            bed.engine.traversals.jobs.graph.ctx.history.add_start(lost.number, 5);
            bed.engine.traversals.jobs.graph.ctx.history.add_start(this, 1);
        }
        // The first node shows that the store is older; the second one adds nothing.
        bed.connect_as(&node(0), lost, Some(1));
        bed.connect_as(&node(1), lost, Some(2));
        let found = bed.warnings.iter().filter(|warning| warning.contains("the store is older")).count();
        assert_eq!(
            (found, bed.engine.traversals.jobs.graph.ctx.epoch()),
            (usize::from(is_recorded), this),
            "{:?}",
            bed.warnings
        );
    }
}

#[test]
fn a_snapshot_of_the_same_start_is_found_out() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\nb: x=1")).unwrap();
    bed.idle();
    let snapshot = bed.tables.clone();
    bed.update(template("a: x=2\nb: x=1")).unwrap();
    bed.idle();
    // No controller started in between, and the snapshot has no mark.
    bed.tables = snapshot;
    bed.ran.clear();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert!(bed.engine.view().site_view().restored);
    let list = bed.engine.view().held_views(None);
    assert_eq!((list.len(), list[0].state.as_str()), (1, "newer"), "{list:?}");
    assert!(bed.ran.is_empty(), "{:?}", bed.ran);
    assert!(bed.warnings.iter().any(|warning| warning.contains("never gave")), "{:?}", bed.warnings);
    bed.ask(crate::Request::Restored { verdict: crate::Verdict::Remove, ids: None, node: None }).unwrap();
    bed.idle();
    assert_eq!(bed.ran.len(), 1);
    assert!(!bed.engine.view().site_view().restored, "its tables are compared as well");
}

/// The row waits for its removal, and its server goes back in time meanwhile.
#[test]
fn what_was_taken_away_and_is_back_is_taken_away_again() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\nb: x=1")).unwrap();
    bed.idle();
    let before = bed.hosts[&node(0)].things.clone();
    bed.update(under(template("a: x=1"), "b: {hooks: post-delete}")).unwrap();
    bed.idle();
    assert_eq!(bed.reality().len(), 1);
    bed.hosts.get_mut(&node(0)).unwrap().things = before;
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    bed.clear("b", Hook::PostDelete).unwrap();
    bed.idle();
    assert_eq!((bed.reality().len(), bed.status().as_str()), (1, "UPDATE_COMPLETE"), "{:?}", bed.reality());
    assert!(held(&bed).is_empty(), "{:?}", held(&bed));
}

#[test]
fn a_node_that_obeyed_another_controller_is_not_commanded() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    for _ in 0..2 {
        bed.disconnect(&node(0));
        let other = other(&bed, 1);
        bed.connect_as(&node(0), other, Some(1));
        assert!(bed.hosts[&node(0)].connection.is_none(), "it is sent away");
    }
    assert_eq!(bed.warnings.len(), 1, "said once: {:?}", bed.warnings);
    assert!(bed.warnings[0].contains("Two controllers of this site run"), "{:?}", bed.warnings);
    assert!(bed.tables.reasons.iter().any(|reason| reason.contains("Two controllers")));
    bed.update(template("a: x=2")).unwrap();
    assert!(bed.hosts[&node(0)].queue.is_empty());
    // One of the two agents was stopped, and the other one, which is to stay, was restarted.
    let last = other(&bed, 1);
    bed.restart();
    bed.connect_as(&node(0), last, Some(1));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn neither_of_two_agents_with_one_identity_gets_anything() {
    let mut bed = Bed::new(1);
    for instance in [1, 2, 1] {
        comes(&mut bed, instance);
    }
    assert!(bed.hosts[&node(0)].connection.is_none(), "it is sent away");
    let addresses = ["10.0.0.2", "10.0.0.1"].map(str::to_owned).to_vec();
    assert_eq!(state(&bed), ("conflict".to_owned(), addresses));
    assert!(bed.warnings[0].contains("at 10.0.0.2 and 10.0.0.1"), "{:?}", bed.warnings);
    bed.create(template("a: x=1")).unwrap();
    for instance in [2, 1, 2, 2] {
        comes(&mut bed, instance);
        assert!(bed.hosts[&node(0)].queue.is_empty());
    }
    assert_eq!(bed.warnings.len(), 1, "said once");
    // The first agent is gone.
    bed.pass(GONE_AFTER / 2);
    comes(&mut bed, 2);
    bed.pass(GONE_AFTER / 2);
    comes(&mut bed, 2);
    bed.idle();
    assert_eq!((state(&bed).0.as_str(), bed.status().as_str()), ("online", "CREATE_COMPLETE"));
}

#[test]
fn an_agent_that_starts_again_and_again_is_no_clone() {
    let mut bed = Bed::new(1);
    for instance in 1..20 {
        comes(&mut bed, instance);
        comes(&mut bed, instance);
        assert_eq!(state(&bed).0, "online");
    }
}

#[test]
fn a_node_that_joins_again_has_one_agent() {
    let mut bed = Bed::new(1);
    for instance in [1, 2, 1] {
        comes(&mut bed, instance);
    }
    bed.rejoin(&node(0));
    bed.connect_as(&node(0), Epoch(0).into(), Some(3));
    assert_eq!(state(&bed).0, "online");
}

#[test]
fn what_a_ledger_loses_again_and_again_is_left() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    bed.ran.clear();
    let lose = |bed: &mut Bed| {
        bed.disconnect(&node(0));
        bed.hosts.get_mut(&node(0)).unwrap().things.clear();
        bed.connect(&node(0));
        bed.idle();
    };
    for _ in 0..20 {
        lose(&mut bed);
        bed.pass(Duration::from_secs(20));
    }
    assert_eq!(bed.ran.len(), CORRECTIONS_MAX as usize);
    assert_eq!((bed.status().as_str(), bed.resource("a").observed.as_str()), ("CREATE_COMPLETE", "missing"));
    assert!(bed.resource("a").status_reason.contains("has lost it again and again"));
    assert_eq!(bed.resource("a").breaker, "open");
    bed.restart();
    lose(&mut bed);
    assert_eq!(bed.ran.len(), CORRECTIONS_MAX as usize, "also after a restart");
    bed.update(template("a: x=2")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("a").observed.as_str()), ("UPDATE_COMPLETE", "in_sync"));
    lose(&mut bed);
    assert_eq!(bed.ran.len(), CORRECTIONS_MAX as usize + 2, "an operator saw to it");
}

/// A replaced server has no part in the fight on the server before it.
#[test]
fn a_fight_keeps_nothing_from_a_ledger_that_was_lost() {
    let policy = "resources:\n  a: {type: Muster::Dummy, drift_policy: correct, properties: {node: node-0, values: {x: 1}}}\n";
    for restarts in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(source(policy, &[])).unwrap();
        bed.idle();
        for _ in 0..=CORRECTIONS_MAX {
            says(&mut bed, "a", DriftState::Drifted, "x is 7");
            bed.pass(Duration::from_secs(10));
            bed.idle();
        }
        assert_eq!(bed.resource("a").breaker, "open");
        if restarts {
            bed.restart();
        }
        bed.disconnect(&node(0));
        bed.hosts.get_mut(&node(0)).unwrap().things.clear();
        bed.ran.clear();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!((bed.ran.len(), bed.resource("a").observed.as_str()), (1, "in_sync"), "{restarts}");
        says(&mut bed, "a", DriftState::Drifted, "x is 7");
        bed.idle();
        assert_eq!(bed.ran.len(), 1, "it is given up still");
    }
}

/// A snapshot without a mark. Since then one rule of node-0 was changed, and one was added.
fn of_older_rules() -> Bed {
    let mut bed = Bed::new(2);
    bed.apply_rules(&device(0), &[rule(1, 0)]);
    bed.idle();
    let snapshot = bed.tables.clone();
    bed.apply_rules(&device(0), &[rule(1, 5), rule(2, 0)]);
    bed.idle();
    bed.tables = snapshot;
    bed.restart();
    bed
}

/// node-1 shows that the store is older. Then node-0 connects with all its things.
fn first_comes_after_it_is_known(bed: &mut Bed) {
    let ahead = other(bed, 2);
    bed.connect_as(&node(1), ahead, Some(7));
    assert!(bed.engine.view().site_view().restored);
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(rules(bed), [(1, 5), (2, 0)], "nobody has decided");
    let list = held(bed);
    assert_eq!((list.len(), list[0].rules), (1, Some(2)), "{list:?}");
}

#[test]
fn what_a_welcomed_node_has_yet_to_say_is_held_as_well() {
    let mut bed = of_older_rules();
    bed.greet_without_tables(&node(0));
    first_comes_after_it_is_known(&mut bed);
}

#[test]
fn a_correction_from_before_a_restore_is_known_is_not_sent() {
    let mut bed = of_older_rules();
    bed.hosts.get_mut(&node(0)).unwrap().flows.held = true;
    bed.connect(&node(0));
    bed.idle();
    let flows = &mut bed.hosts.get_mut(&node(0)).unwrap().flows;
    assert_eq!(flows.waiting.len(), 1, "nobody knows yet");
    // The batch never arrived.
    (flows.held, flows.waiting) = (false, Vec::new());
    bed.disconnect(&node(0));
    first_comes_after_it_is_known(&mut bed);
}
