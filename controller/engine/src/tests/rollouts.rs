//! Rollouts of changes in batches: stopped by failures, steered by operators, and taken up after restarts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bed::{Bed, node, options, stack};
use super::trees::source;
use crate::{Refusal, Request, RolloutAction, RolloutView, Source};

mod times;

fn web(bed: &mut Bed, index: usize) {
    let labels = BTreeMap::from([("role".to_owned(), Some("web".to_owned()))]);
    bed.ask(Request::LabelNode { node: node(index), labels }).unwrap();
}

fn of(value: &str, fails: bool, rollout: &str) -> Source {
    let root = format!(
        "resources:\n  a: {{type: Muster::Dummy, for_each: {{nodes: role=web}}, rollout: {rollout}, properties: {{values: {{v: {value}}}, fail: {fails}}}}}\n"
    );
    source(&root, &[])
}

/// A fleet of this many nodes that has the first revision.
fn fleet(nodes: usize, rollout: &str) -> Bed {
    let mut bed = Bed::new(nodes);
    (0..nodes).for_each(|index| web(&mut bed, index));
    bed.create(of("1", false, rollout)).unwrap();
    for _ in 0..nodes * 2 {
        bed.idle();
        bed.pass(Duration::from_secs(60));
    }
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    bed.ran.clear();
    bed
}

fn shown(bed: &Bed) -> RolloutView {
    bed.view().unwrap().rollouts.remove(0)
}

fn ran(bed: &mut Bed) -> Vec<String> {
    bed.idle();
    std::mem::take(&mut bed.ran)
}

fn steer(bed: &mut Bed, action: RolloutAction) -> Result<(), String> {
    let request = Request::Rollout { name: stack(), action, resource: None };
    bed.ask(request).map(drop).map_err(|refusal| refusal.to_string())
}

fn at_second(bed: &Bed) -> Vec<String> {
    let values =
        bed.reality().into_iter().filter(|(_, values)| values.get("v").map(String::as_str) == Some("2"));
    values.map(|(name, _)| name).collect()
}

#[test]
fn a_change_goes_through_in_batches_canary_first() {
    let mut bed = fleet(6, "{batch: 2, pause: 10, canary: 1}");
    bed.update(of("2", false, "{batch: 2, pause: 10, canary: 1}")).unwrap();
    assert_eq!(bed.resource("a[node-1]").phase, "rollout");
    assert_eq!((shown(&bed).stage.as_str(), shown(&bed).in_flight, shown(&bed).waiting), ("canary", 1, 5));
    assert_eq!(ran(&mut bed), ["Update a[node-0]"]);
    assert_eq!((shown(&bed).done, shown(&bed).next_in), (1, Some(10)));
    bed.pass(Duration::from_secs(9));
    assert_eq!(ran(&mut bed), Vec::<String>::new());
    bed.pass(Duration::from_secs(1));
    assert_eq!(ran(&mut bed), ["Update a[node-1]", "Update a[node-2]"]);
    // A pause goes on over a restart. Members that are done do not begin again.
    bed.pass(Duration::from_secs(5));
    bed.restart();
    (0..6).for_each(|index| bed.connect(&node(index)));
    bed.pass(Duration::from_secs(4));
    assert_eq!(ran(&mut bed), Vec::<String>::new());
    bed.pass(Duration::from_secs(1));
    assert_eq!(ran(&mut bed), ["Update a[node-3]", "Update a[node-4]"]);
    assert_eq!(bed.status(), "UPDATE_IN_PROGRESS");
    bed.pass(Duration::from_secs(10));
    assert_eq!(ran(&mut bed), ["Update a[node-5]"]);
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert!(bed.view().unwrap().rollouts.is_empty());
    // A node that joins later gets a proven revision at once.
    bed.join(&node(6));
    bed.connect(&node(6));
    web(&mut bed, 6);
    assert_eq!(
        (ran(&mut bed), bed.status().as_str()),
        (vec!["Create a[node-6]".to_owned()], "UPDATE_COMPLETE")
    );
    // A rollback to a COMPLETE revision has no canary and no pauses, but batches.
    bed.rollback(Some(1)).unwrap();
    assert_eq!((shown(&bed).stage.as_str(), shown(&bed).in_flight), ("batch", 2));
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (7, "ROLLBACK_COMPLETE"));
}

#[test]
fn a_canary_that_fails_stops_it_and_nobody_else_is_touched() {
    let policy = "{batch: 3, pause: 5, canary: 1, max_failures: 2}";
    for restarts in [false, true] {
        let mut bed = fleet(6, policy);
        bed.update(of("2", true, policy)).unwrap();
        bed.idle();
        if restarts {
            bed.restart();
            (0..6).for_each(|index| bed.connect(&node(index)));
            bed.idle();
        }
        bed.pass(Duration::from_secs(600));
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_FAILED", "{restarts}");
        let reason = bed.view().unwrap().status_reason;
        assert!(
            reason.contains("its rollout was aborted: its canary a[node-0] failed; 5 were not started")
                || restarts,
            "{reason}"
        );
        assert!(bed.ran.iter().all(|ran| ran.ends_with("a[node-0]")), "{:?}", bed.ran);
        assert_eq!((shown(&bed).state.as_str(), shown(&bed).failed), ("aborted", 1), "{restarts}");
        assert_eq!(bed.resource("a[node-3]").phase, "");
        let error = steer(&mut bed, RolloutAction::Resume).unwrap_err();
        assert!(error.contains("was aborted") || error.contains("no rollout"), "{error}");
        // A corrected revision goes through.
        bed.ran.clear();
        bed.update(of("3", false, policy)).unwrap();
        for _ in 0..4 {
            bed.idle();
            bed.pass(Duration::from_secs(5));
        }
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 6), "{restarts}");
    }
}

#[test]
fn a_canary_that_drifts_or_is_away_has_not_proven_itself() {
    let policy = "{batch: 3, pause: 10, canary: 1}";
    let mut bed = fleet(4, policy);
    bed.update(of("2", false, policy)).unwrap();
    bed.idle();
    bed.pass(Duration::from_secs(9));
    bed.disconnect(&node(0));
    bed.pass(Duration::from_secs(60));
    bed.connect(&node(0));
    bed.pass(Duration::from_secs(9));
    assert_eq!(ran(&mut bed), ["Update a[node-0]"]);
    super::drift::says(&mut bed, "a[node-0]", muster_shared::model::DriftState::Drifted, "v is 7");
    assert_eq!(shown(&bed).state, "aborted");
    bed.pass(Duration::from_secs(60));
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (0, "UPDATE_FAILED"));
    assert!(bed.view().unwrap().status_reason.contains("its canary a[node-0] was disturbed"));
}

/// After a stall, another message makes the rollout look while the report on its canary is unread.
#[test]
fn what_has_arrived_counts_before_the_end_of_a_pause() {
    let policy = "{batch: 3, pause: 10, canary: 1}";
    for drifts in [true, false] {
        let mut bed = fleet(4, policy);
        bed.update(of("2", false, policy)).unwrap();
        assert_eq!(ran(&mut bed), ["Update a[node-0]"]);
        bed.now = bed.now + Duration::from_secs(60);
        bed.disconnect(&node(1));
        bed.connect(&node(1));
        assert_eq!(shown(&bed).in_flight, 0, "a batch begins when all was read");
        if drifts {
            super::drift::says(&mut bed, "a[node-0]", muster_shared::model::DriftState::Drifted, "v is 7");
        }
        bed.pass(Duration::ZERO);
        let (state, begun) = if drifts { ("aborted", 0) } else { ("going", 3) };
        assert_eq!((shown(&bed).state.as_str(), shown(&bed).in_flight), (state, begun));
    }
}

#[test]
fn more_failures_than_are_borne_stop_it() {
    let mut bed = fleet(8, "{batch: 2, max_failures: 1}");
    bed.update(of("2", true, "{batch: 2, max_failures: 1}")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), at_second(&bed).len()), ("UPDATE_FAILED", 0));
    let touched: std::collections::BTreeSet<&String> = bed.ran.iter().collect();
    assert!(touched.len() <= 3, "{touched:?}");
    // With --rollback, members that got the revision get the one before.
    let mut bed = fleet(8, "{batch: 2}");
    let options = crate::Options { rollback: true, ..options() };
    bed.ask(Request::Update { name: stack(), source: of("2", true, "{batch: 2}"), options }).unwrap();
    bed.idle();
    bed.read();
    bed.idle();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    for bad in ["{max_failures: 9}", "{max_failures: 101%}"] {
        let parsed = std::panic::catch_unwind(|| of("2", false, bad));
        if let Ok(parsed) = parsed {
            let Err(Refusal::Invalid(why)) = bed.update(parsed) else { panic!("{bad} is taken") };
            assert!(
                why.contains("max_failures of its rollout is 9, but 'role=web' selects 8 nodes"),
                "{why}"
            );
        }
    }
}

#[test]
fn operators_have_a_say() {
    let policy = "{batch: 2, pause: 1000}";
    for restarts in [false, true] {
        let mut bed = fleet(6, "{batch: 6}");
        let again = |bed: &mut Bed| {
            if restarts {
                bed.restart();
                (0..6).for_each(|index| bed.connect(&node(index)));
            }
        };
        assert!(steer(&mut bed, RolloutAction::Pause).unwrap_err().contains("no rollout of stack"));
        bed.update(of("2", false, policy)).unwrap();
        steer(&mut bed, RolloutAction::Pause).unwrap();
        again(&mut bed);
        assert_eq!(ran(&mut bed).len(), 2, "what has begun ends");
        bed.pass(Duration::from_secs(1001));
        assert_eq!(
            (ran(&mut bed).len(), shown(&bed).state.as_str(), bed.status().as_str()),
            (0, "paused", "UPDATE_IN_PROGRESS")
        );
        assert!(steer(&mut bed, RolloutAction::Pause).unwrap_err().contains("is paused"));
        assert!(steer(&mut bed, RolloutAction::Promote).unwrap_err().contains("is paused"));
        // A paused rollout refuses another revision, but not a rollback.
        let Err(Refusal::Conflict(why)) = bed.update(of("3", false, policy)) else { panic!("taken") };
        assert!(why.contains("is paused at revision 2: resume or abort it first"), "{why}");
        steer(&mut bed, RolloutAction::Resume).unwrap();
        bed.pass(Duration::from_secs(1001));
        assert_eq!(ran(&mut bed).len(), 2);
        again(&mut bed);
        steer(&mut bed, RolloutAction::Promote).unwrap();
        assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (2, "UPDATE_COMPLETE"));
        bed.update(of("3", false, policy)).unwrap();
        bed.idle();
        steer(&mut bed, RolloutAction::Abort).unwrap();
        again(&mut bed);
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_FAILED", 2), "{restarts}");
        assert!(bed.view().unwrap().status_reason.contains("an operator wants it so"));
        bed.rollback(None).unwrap();
        bed.read();
        bed.idle();
        assert_eq!((bed.status().as_str(), at_second(&bed).len()), ("ROLLBACK_COMPLETE", 6));
    }
}

#[test]
fn one_that_has_had_its_time_stops_and_can_be_resumed() {
    let mut bed = fleet(4, "{batch: 4}");
    let options = crate::Options { timeout: Duration::from_secs(50), ..options() };
    let source = of("2", false, "{batch: 2, pause: 60}");
    bed.ask(Request::Update { name: stack(), source, options }).unwrap();
    bed.idle();
    bed.pass(Duration::from_secs(50));
    assert_eq!((bed.status().as_str(), shown(&bed).state.as_str()), ("UPDATE_FAILED", "timed_out"));
    assert!(bed.view().unwrap().status_reason.contains("rollouts stopped: a (2 yet to begin)"));
    bed.pass(Duration::from_secs(50));
    assert_eq!(ran(&mut bed).len(), 2);
    steer(&mut bed, RolloutAction::Resume).unwrap();
    bed.pass(Duration::from_secs(10));
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (2, "UPDATE_COMPLETE"));
}

#[test]
fn who_is_away_is_passed_over_and_begins_when_back() {
    let mut bed = fleet(4, "{batch: 4}");
    bed.disconnect(&node(0));
    bed.update(of("2", false, "{batch: 1}")).unwrap();
    assert_eq!(ran(&mut bed), ["Update a[node-1]", "Update a[node-2]", "Update a[node-3]"]);
    assert_eq!((shown(&bed).waiting, shown(&bed).away, bed.status().as_str()), (1, 1, "UPDATE_IN_PROGRESS"));
    let before = bed.view().unwrap();
    assert_eq!((before.progress.total - before.progress.done, before.nodes_joined), (2, 0), "member and set");
    // A node that joins in the meantime gets its turn like all others.
    bed.join(&node(4));
    bed.connect(&node(4));
    bed.pass(Duration::from_secs(1));
    web(&mut bed, 4);
    bed.pass(Duration::from_secs(1));
    let grown = bed.view().unwrap();
    assert_eq!((grown.nodes_joined, grown.nodes_left), (1, 0));
    assert!(grown.progress.done >= before.progress.done, "{:?} {:?}", before.progress, grown.progress);
    assert_eq!(grown.progress.total, before.progress.total + 1, "what had ended is not forgotten");
    assert_eq!(ran(&mut bed), ["Create a[node-4]"]);
    bed.connect(&node(0));
    assert_eq!(
        (ran(&mut bed), bed.status().as_str()),
        (vec!["Update a[node-0]".to_owned()], "UPDATE_COMPLETE")
    );
}

/// `v` of each member comes from another resource. The text of the set stays the same.
fn of_another(value: u8, rollout: &str) -> Source {
    let root = format!(
        "resources:\n  c: {{type: Muster::Dummy, properties: {{node: node-0, values: {{v: {value}}}}}}}\n  a: {{type: Muster::Dummy, for_each: {{nodes: role=web}}, rollout: {rollout}, properties: {{values: {{v: {{get_attr: [c, v]}}}}}}}}\n"
    );
    source(&root, &[])
}

#[test]
fn what_another_resource_changed_has_a_canary() {
    let policy = "{batch: 4, pause: 10, canary: 1}";
    let mut bed = Bed::new(4);
    (0..4).for_each(|index| web(&mut bed, index));
    bed.create(of_another(1, policy)).unwrap();
    for _ in 0..3 {
        bed.idle();
        bed.pass(Duration::from_secs(60));
    }
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    bed.ran.clear();
    bed.update(of_another(2, policy)).unwrap();
    assert_eq!(ran(&mut bed), ["Update c", "Update a[node-0]"]);
    bed.pass(Duration::from_secs(10));
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (3, "UPDATE_COMPLETE"));
}

#[test]
fn a_set_that_was_empty_has_proven_nothing() {
    let mut bed = Bed::new(3);
    bed.create(of("1", false, "{batch: 3, pause: 10, canary: 1}")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    (0..3).for_each(|index| web(&mut bed, index));
    bed.pass(Duration::from_secs(1));
    assert_eq!(ran(&mut bed).len(), 1);
    bed.pass(Duration::from_secs(5));
    assert_eq!(ran(&mut bed).len(), 0);
    bed.pass(Duration::from_secs(10));
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (2, "UPDATE_COMPLETE"));
}

#[test]
fn a_rollout_paused_in_its_last_batch_can_be_resumed_or_aborted() {
    for action in [RolloutAction::Resume, RolloutAction::Abort] {
        let mut bed = fleet(2, "{batch: 2}");
        bed.update(of("2", true, "{batch: 2, max_failures: 2}")).unwrap();
        steer(&mut bed, RolloutAction::Pause).unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), shown(&bed).state.as_str()), ("UPDATE_FAILED", "paused"));
        let counts = [("going", 0), ("paused", 1), ("timed_out", 0), ("aborted", 0)];
        assert_eq!(bed.engine.view().rollout_counts(), counts);
        steer(&mut bed, action).unwrap();
        assert_eq!(bed.status(), "UPDATE_FAILED");
        steer(&mut bed, RolloutAction::Pause).ok();
        bed.update(of("3", false, "{batch: 2}")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "{action:?}");
    }
}

#[test]
fn a_restart_is_no_failure_of_those_who_are_yet_to_connect() {
    let mut bed = fleet(4, "{batch: 4}");
    bed.update(of("2", false, "{batch: 1, pause: 5, away: fail}")).unwrap();
    bed.idle();
    bed.restart();
    bed.pass(Duration::from_secs(20));
    assert_eq!((shown(&bed).state.as_str(), shown(&bed).failed), ("going", 0));
    (0..4).for_each(|index| bed.connect(&node(index)));
    for _ in 0..5 {
        bed.idle();
        bed.pass(Duration::from_secs(5));
    }
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    // A node that is still away after that time counts as failed.
    bed.update(of("3", false, "{batch: 1, away: fail}")).unwrap();
    bed.restart();
    bed.pass(Duration::from_secs(60));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((shown(&bed).state.as_str(), shown(&bed).failed), ("aborted", 3));
}

#[test]
fn a_connection_that_is_renewed_is_no_failure() {
    let mut bed = fleet(3, "{batch: 3}");
    bed.update(of("2", false, "{batch: 1, away: fail}")).unwrap();
    bed.disconnect(&node(1));
    bed.disconnect(&node(2));
    bed.run_at(&node(0), 0);
    bed.connect(&node(1));
    bed.pass(Duration::from_secs(29));
    assert_eq!(ran(&mut bed), ["Update a[node-0]", "Update a[node-1]"]);
    assert_eq!((shown(&bed).state.as_str(), shown(&bed).failed, shown(&bed).away), ("going", 0, 1));
    bed.pass(Duration::from_secs(1));
    assert_eq!((shown(&bed).state.as_str(), shown(&bed).failed), ("aborted", 1));
    assert_eq!(bed.status(), "UPDATE_FAILED");
}

#[test]
fn who_failed_and_leaves_is_not_forgotten() {
    let mut bed = fleet(5, "{batch: 5}");
    bed.update(of("2", true, "{batch: 1, max_failures: 1}")).unwrap();
    while shown(&bed).failed == 0 {
        bed.run_at(&node(0), 0);
        bed.pass(Duration::from_secs(1));
    }
    bed.ask(Request::LabelNode { node: node(0), labels: BTreeMap::from([("role".to_owned(), None)]) })
        .unwrap();
    bed.pass(Duration::from_secs(1));
    bed.idle();
    bed.pass(Duration::from_secs(1));
    bed.idle();
    let touched: std::collections::BTreeSet<&String> =
        bed.ran.iter().filter(|ran| ran.starts_with("Update")).collect();
    assert_eq!((touched.len(), bed.status().as_str()), (2, "UPDATE_FAILED"), "{touched:?}");
}

/// `a` for each node, and `b` with a rollout, which needs `a`.
fn paired(value: u8, rollout: &str) -> Source {
    let root = format!(
        "resources:\n  a: {{type: Muster::Dummy, for_each: {{nodes: role=web}}, properties: {{values: {{v: {value}}}}}}}\n  b: {{type: Muster::Dummy, for_each: {{nodes: role=web}}, depends_on: a, rollout: {rollout}, properties: {{values: {{v: {value}}}}}}}\n"
    );
    source(&root, &[])
}

fn again(bed: &mut Bed, nodes: usize, restarts: bool) {
    if restarts {
        bed.restart();
        (0..nodes).for_each(|index| bed.connect(&node(index)));
    }
}

#[test]
fn a_set_that_has_not_begun_also_stops_at_the_timeout() {
    for restarts in [false, true] {
        let mut bed = Bed::new(3);
        (0..3).for_each(|index| web(&mut bed, index));
        let options = crate::Options { timeout: Duration::from_secs(50), ..options() };
        let source = paired(1, "{batch: 1}");
        bed.ask(Request::Create { name: stack(), source, options }).unwrap();
        bed.pass(Duration::from_secs(50));
        let reason = bed.view().unwrap().status_reason;
        assert!(reason.contains("rollouts stopped: b (3 yet to begin)"), "{reason}");
        again(&mut bed, 3, restarts);
        // Jobs under way end; no member of the rollout begins.
        assert_eq!(ran(&mut bed), ["Create a[node-0]", "Create a[node-1]", "Create a[node-2]"]);
        assert_eq!((shown(&bed).state.as_str(), shown(&bed).waiting), ("timed_out", 3), "{restarts}");
        steer(&mut bed, RolloutAction::Resume).unwrap();
        assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (3, "CREATE_COMPLETE"), "{restarts}");
    }
}

#[test]
fn a_rollback_is_careful_with_what_never_was_right() {
    let policy = "{batch: 2, pause: 10, canary: 1}";
    for restarts in [false, true] {
        let mut bed = fleet(4, policy);
        bed.update(of("2", false, policy)).unwrap();
        steer(&mut bed, RolloutAction::Abort).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_FAILED");
        bed.update(of("3", false, policy)).unwrap();
        steer(&mut bed, RolloutAction::Abort).unwrap();
        bed.idle();
        bed.ran.clear();
        bed.rollback(Some(2)).unwrap();
        again(&mut bed, 4, restarts);
        assert_eq!((shown(&bed).stage.as_str(), shown(&bed).max_failures), ("canary", 0), "{restarts}");
        assert_eq!(ran(&mut bed).len(), 1);
        // The rollback to the COMPLETE revision has no canary, and one broken server does not stop it.
        bed.rollback(Some(1)).unwrap();
        again(&mut bed, 4, restarts);
        assert_eq!((shown(&bed).stage.as_str(), shown(&bed).in_flight), ("batch", 1), "{restarts}");
    }
    let mut bed = fleet(4, policy);
    bed.update(of("2", false, "{batch: 4}")).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.rollback(Some(1)).unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(ran(&mut bed), ["Update a[node-1]", "Update a[node-2]", "Update a[node-3]"]);
    assert_eq!((bed.status().as_str(), shown(&bed).state.as_str()), ("ROLLBACK_FAILED", "going"));
}

#[test]
fn the_policy_away_fail_fails_the_stack_after_all_others() {
    for restarts in [false, true] {
        let mut bed = fleet(4, "{batch: 4}");
        bed.disconnect(&node(3));
        bed.pass(Duration::from_secs(30));
        bed.update(of("2", false, "{batch: 1, max_failures: 1, away: fail}")).unwrap();
        assert_eq!(ran(&mut bed).len(), 3);
        assert_eq!((bed.status().as_str(), shown(&bed).failed), ("UPDATE_FAILED", 1));
        let reason = bed.view().unwrap().status_reason;
        assert_eq!(reason, "a[node-3]: its node was away when its turn came");
        if restarts {
            bed.restart();
            (0..3).for_each(|index| bed.connect(&node(index)));
        }
        bed.connect(&node(3));
        assert_eq!(
            (ran(&mut bed), bed.status().as_str()),
            (vec!["Update a[node-3]".to_owned()], "UPDATE_COMPLETE"),
            "{restarts}"
        );
    }
}

#[test]
fn who_is_back_after_it_was_aborted_is_not_waited_for() {
    let of = |value: &str| {
        let rollout = "{batch: 1, canary: 1, away: fail}";
        let root = format!(
            "resources:\n  a: {{type: Muster::Dummy, for_each: {{nodes: role=web}}, rollout: {rollout}, properties: {{values: {{v: {value}}}}}}}\n  b: {{type: Muster::Dummy, properties: {{node: node-2, values: {{v: {value}}}}}}}\n"
        );
        source(&root, &[])
    };
    let mut bed = Bed::new(3);
    (0..2).for_each(|index| web(&mut bed, index));
    bed.create(of("1")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    bed.disconnect(&node(1));
    bed.pass(Duration::from_secs(60));
    bed.update(of("2")).unwrap();
    bed.run_at(&node(0), 0);
    assert_eq!((shown(&bed).state.as_str(), bed.status().as_str()), ("aborted", "UPDATE_IN_PROGRESS"));
    // Another resource is still under way.
    bed.connect(&node(1));
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), at_second(&bed)),
        ("UPDATE_FAILED", vec!["a[node-0]".into(), "b".into()])
    );
}

#[test]
fn a_member_that_joins_later_is_no_part_of_an_aborted_rollout() {
    let of = |value: &str| {
        let root = format!(
            "resources:\n  a: {{type: Muster::Dummy, for_each: {{nodes: role=web}}, rollout: {{batch: 2}}, properties: {{values: {{v: {value}}}}}}}\n  b: {{type: Muster::Dummy, properties: {{node: node-2, values: {{v: {value}}}}}}}\n"
        );
        source(&root, &[])
    };
    for restarts in [false, true] {
        let mut bed = Bed::new(4);
        (0..2).for_each(|index| web(&mut bed, index));
        bed.create(of("1")).unwrap();
        bed.idle();
        bed.update(of("2")).unwrap();
        steer(&mut bed, RolloutAction::Abort).unwrap();
        assert!((0..2).all(|index| bed.run_at(&node(index), 0)));
        again(&mut bed, 4, restarts);
        bed.pass(Duration::from_secs(2));
        web(&mut bed, 3);
        bed.idle();
        assert_eq!((bed.status().as_str(), at_second(&bed).len()), ("UPDATE_COMPLETE", 4), "{restarts}");
    }
}

/// Unsent jobs of the operation before belonged to a batch of that operation.
#[test]
fn an_update_begins_with_a_canary_despite_jobs_for_away_nodes() {
    let mut bed = fleet(3, "{batch: 3}");
    (1..3).for_each(|index| bed.disconnect(&node(index)));
    bed.update(of("2", false, "{batch: 3, away: wait}")).unwrap();
    assert_eq!(bed.resource("a[node-2]").phase, "node_away");
    bed.update(of("2", false, "{batch: 3, canary: 1, away: wait}")).unwrap();
    (1..3).for_each(|index| bed.connect(&node(index)));
    assert_eq!(bed.hosts[&node(0)].queue.len(), 1, "it goes on");
    assert!((1..3).all(|index| bed.hosts[&node(index)].queue.is_empty()));
    bed.idle();
    assert_eq!((at_second(&bed).len(), bed.status().as_str()), (3, "UPDATE_COMPLETE"));
}

/// No member has shown that the revision does no harm.
#[test]
fn what_was_stopped_stays_so_when_its_members_have_left() {
    let of = |value: &str| {
        let root = format!(
            "resources:\n  a: {{type: Muster::Dummy, for_each: {{nodes: role=web}}, rollout: {{batch: 1, canary: 1}}, properties: {{values: {{v: {value}}}}}}}\n  b: {{type: Muster::Dummy, properties: {{node: node-2, values: {{v: {value}}}}}}}\n"
        );
        source(&root, &[])
    };
    for (action, restarts) in [
        (RolloutAction::Pause, false),
        (RolloutAction::Pause, true),
        (RolloutAction::Abort, false),
        (RolloutAction::Abort, true),
    ] {
        let mut bed = Bed::new(3);
        web(&mut bed, 0);
        bed.create(of("1")).unwrap();
        bed.idle();
        bed.update(of("2")).unwrap();
        steer(&mut bed, action).unwrap();
        let labels = BTreeMap::from([("role".to_owned(), None)]);
        bed.ask(Request::LabelNode { node: node(0), labels }).unwrap();
        bed.pass(Duration::from_secs(5));
        if restarts {
            again(&mut bed, 3, true);
        }
        web(&mut bed, 1);
        bed.pass(Duration::from_secs(60));
        assert!(bed.hosts[&node(1)].queue.is_empty(), "{action:?} {restarts}");
        if action == RolloutAction::Pause {
            steer(&mut bed, RolloutAction::Resume).unwrap();
            bed.idle();
            assert_eq!(
                (at_second(&bed), bed.status().as_str()),
                (vec!["a[node-1]".into(), "b".into()], "UPDATE_COMPLETE")
            );
        }
    }
}

#[test]
fn a_cancelled_stack_has_no_rollout() {
    let mut bed = fleet(4, "{batch: 4}");
    bed.update(of("2", false, "{batch: 1}")).unwrap();
    assert_eq!(shown(&bed).waiting, 3);
    bed.ask(Request::Cancel { name: stack() }).unwrap();
    bed.idle();
    assert_eq!(bed.view().unwrap().rollouts, []);
}

#[test]
fn a_node_that_dies_under_way_holds_nobody_up_for_ever() {
    for restarts in [false, true] {
        let mut bed = fleet(3, "{batch: 3}");
        bed.update(of("2", false, "{batch: 1, max_failures: 1}")).unwrap();
        bed.begin(&node(0));
        bed.disconnect(&node(0));
        if restarts {
            bed.restart();
            (1..3).for_each(|index| bed.connect(&node(index)));
        }
        assert_eq!((shown(&bed).in_flight, shown(&bed).in_flight_away), (1, 1));
        bed.pass(Duration::from_secs(299));
        assert_eq!(ran(&mut bed), Vec::<String>::new());
        bed.pass(Duration::from_secs(1));
        assert_eq!(ran(&mut bed), ["Update a[node-1]", "Update a[node-2]"], "{restarts}");
        bed.connect(&node(0));
        bed.end(&node(0));
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "{restarts}");
    }
}

#[test]
fn those_who_leave_are_no_way_round_the_bound() {
    let leave = |bed: &mut Bed, at: usize| {
        let labels = BTreeMap::from([("role".to_owned(), None)]);
        bed.ask(Request::LabelNode { node: node(at), labels }).unwrap();
        bed.pass(Duration::from_secs(1));
    };
    // A job that had started and was interrupted may have done harm.
    for restarts in [false, true] {
        let mut bed = fleet(4, "{batch: 4}");
        bed.update(of("2", true, "{batch: 1}")).unwrap();
        bed.begin(&node(0));
        leave(&mut bed, 0);
        again(&mut bed, 4, restarts);
        bed.pass(Duration::from_secs(1));
        let updates = |bed: &mut Bed| ran(bed).iter().filter(|ran| ran.starts_with("Update")).count();
        assert_eq!((updates(&mut bed), bed.status().as_str()), (0, "UPDATE_FAILED"), "{restarts}");
        assert_eq!(shown(&bed).reason, "1 left while under way, and nobody has ended well yet");
    }
    // A job that had not started has done no harm.
    let mut bed = fleet(4, "{batch: 4}");
    bed.update(of("2", false, "{batch: 1}")).unwrap();
    leave(&mut bed, 0);
    assert_eq!(
        ran(&mut bed),
        ["Update a[node-1]", "Update a[node-2]", "Update a[node-3]", "Delete a[node-0]"]
    );
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn a_rollout_that_waits_for_a_node_names_it() {
    let mut bed = fleet(3, "{batch: 4}");
    bed.disconnect(&node(1));
    let options = crate::Options { timeout: Duration::from_secs(60), ..options() };
    bed.ask(Request::Update { name: stack(), source: of("2", false, "{batch: 1}"), options }).unwrap();
    bed.idle();
    let row = bed.resource("a[node-1]");
    assert_eq!((row.phase.as_str(), row.node.as_str()), ("rollout", "node-1"));
    bed.pass(Duration::from_secs(60));
    assert_eq!(
        bed.view().unwrap().status_reason,
        "timed out after 60 s; missing nodes: node-1 (away; a waits for it)"
    );
}
