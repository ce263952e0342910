//! Batches that may cut the node off.

use std::time::Duration;

use muster_shared::Attempt;
use muster_shared::model::flow::{EntryState, FlowDown, FlowRefusal};
use muster_shared::model::{Action, Down, ReportKey, Up};

use super::confirm::network;
use super::flow_node::{FlowNode, Record, br0, flow, ops, packed, root, table};
use super::node::{CHALLENGE, generation};
use crate::{Compared, DivergentForms, FlowEffect, FlowInput, Input, NotApplied, resource_id};

fn management(rules: &[(u64, u8)]) -> FlowNode {
    let mut bed = FlowNode::new();
    bed.batch(1, ops(rules, &[]));
    bed.settle();
    bed.is_management = true;
    bed.done.clear();
    bed
}

fn key(number: u64) -> ReportKey {
    ReportKey { resource: resource_id(&br0()), generation: generation(number), attempt: Attempt(0) }
}

fn answer(bed: &mut FlowNode, number: u64, bytes: &[u8]) {
    bed.bed.down(Down::Answer { key: key(number), bytes: bytes.to_vec() });
    bed.drain();
}

fn reconnect(bed: &mut FlowNode) {
    bed.bed.reconnect();
    bed.drain();
}

fn asked(bed: &FlowNode) -> bool {
    bed.bed.sent.iter().any(|up| matches!(up, Up::Challenge { key: asked, .. } if *asked == key(2)))
}

#[test]
fn it_is_kept_once_the_controller_answers_over_a_new_connection() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[1]));
    assert_eq!(bed.switch, table(&[(2, 1)]));
    assert!(bed.bed.agent.is_guarding() && !asked(&bed));
    answer(&mut bed, 2, CHALLENGE);
    assert!(bed.bed.agent.is_guarding(), "nothing was asked over a new connection yet");
    reconnect(&mut bed);
    assert!(asked(&bed));
    answer(&mut bed, 2, b"other");
    answer(&mut bed, 3, CHALLENGE);
    assert!(bed.bed.agent.is_guarding());
    answer(&mut bed, 2, CHALLENGE);
    assert!(!bed.bed.agent.is_guarding());
    assert_eq!((bed.state().decided, bed.state().refused), (generation(2), None));
}

/// A change of the switch by others; returns the former value.
type Change = fn(&mut FlowNode) -> Option<u64>;

#[test]
fn what_somebody_changed_meanwhile_is_not_confirmed() {
    let changes: [(Change, &str); 4] = [
        (|bed| bed.switch.remove(&flow(2)), "was changed by somebody else"),
        (|bed| bed.switch.insert(flow(2), packed(9).digest()), "was changed by somebody else"),
        (|bed| bed.switch.remove(&flow(3)), "was changed by somebody else"),
        (|bed| bed.switch.insert(flow(1), packed(1).digest()), "somebody else put a rule"),
    ];
    for (change, why) in changes {
        let mut bed = management(&[(1, 1), (3, 1)]);
        bed.guarded(2, ops(&[(2, 1)], &[1]));
        let _ = change(&mut bed);
        reconnect(&mut bed);
        answer(&mut bed, 2, CHALLENGE);
        assert!(!bed.bed.agent.is_guarding());
        reconnect(&mut bed);
        let refused = bed.state().refused.unwrap();
        assert!(refused.permanent && refused.reason.contains(why), "{}", refused.reason);
        bed.settle();
        assert_eq!(bed.switch, table(&[(1, 1), (3, 1)]));
    }
}

#[test]
fn what_ended_by_itself_before_it_was_confirmed_stays_ended() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[]));
    bed.switch.remove(&flow(2));
    bed.input(FlowInput::Ended { ids: vec![flow(2)] });
    reconnect(&mut bed);
    answer(&mut bed, 2, CHALLENGE);
    bed.settle();
    assert_eq!((bed.state().decided, bed.state().refused), (generation(2), None));
    assert_eq!(bed.switch, table(&[(1, 1)]));
}

#[test]
fn the_deadline_is_kept_while_it_is_compared() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[1]));
    reconnect(&mut bed);
    bed.done.clear();
    bed.is_slow = true;
    answer(&mut bed, 2, CHALLENGE);
    assert!(bed.bed.agent.is_guarding() && bed.held.len() == 1);
    bed.after(Duration::from_secs(20));
    assert_eq!(bed.done, ["cancel"]);
    bed.release();
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1)]));
}

#[test]
fn it_is_undone_if_nobody_answers_in_time() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(1, 2), (2, 1)], &[]));
    bed.bed.input(Input::Disconnected { reason: "timed out".into() });
    bed.after(Duration::from_secs(19));
    assert_eq!(bed.switch, table(&[(1, 2), (2, 1)]));
    bed.after(Duration::from_secs(1));
    assert_eq!(bed.switch, table(&[(1, 1)]));
    assert!(!bed.bed.agent.is_guarding());
    reconnect(&mut bed);
    let refused = bed.state().refused.unwrap();
    assert!(refused.permanent, "nobody wants a server cut off again by itself");
    assert!(refused.reason.contains("was not reached again within 20 s"), "{}", refused.reason);
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1)]));
}

#[test]
fn after_a_crash_it_is_undone_in_every_state() {
    for states in 0..3 {
        let mut bed = management(&[(1, 1)]);
        bed.is_slow = states == 0;
        bed.guarded(2, ops(&[(2, 1)], &[1]));
        if states == 2 {
            reconnect(&mut bed);
        }
        let mut bed = bed.crash();
        bed.settle();
        assert_eq!(bed.switch, table(&[(1, 1)]), "state {states}");
        let refused = bed.state().refused.unwrap();
        assert!(refused.permanent && refused.reason.contains("a crash"), "{}", refused.reason);
    }
}

#[test]
fn after_a_crash_without_a_switch_it_never_comes() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[1]));
    bed.is_back = false;
    bed.switch.clear();
    let mut bed = bed.crash();
    bed.settle();
    assert!(bed.state().refused.is_some());
    bed.back();
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1)]));
}

#[test]
fn a_host_that_hangs_is_cancelled_and_the_batch_undone() {
    let mut bed = management(&[(1, 1)]);
    bed.is_slow = true;
    bed.guarded(2, ops(&[(2, 1)], &[1]));
    bed.after(Duration::from_secs(20));
    assert_eq!(bed.done, ["cancel"]);
    bed.release();
    reconnect(&mut bed);
    assert_eq!(bed.switch, table(&[(1, 1)]));
    assert!(bed.state().refused.unwrap().reason.starts_with("it was not applied within 20 s"));
}

#[test]
fn an_answer_in_flight_at_the_deadline_is_not_the_undos_answer() {
    let refused = FlowRefusal { id: None, reason: "table full".into(), permanent: false };
    let answers: [(&str, Result<DivergentForms, NotApplied>); 3] = [
        ("applied", Ok(DivergentForms::new())),
        ("refused", Err(NotApplied::Refused(refused))),
        ("gone", Err(NotApplied::Gone { reason: "the switch went away".into() })),
    ];
    for (what, result) in answers {
        for stops in [false, true] {
            let mut bed = management(&[(1, 1)]);
            bed.is_slow = true;
            bed.guarded(2, ops(&[(2, 1)], &[]));
            let [FlowEffect::Apply { number, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
            bed.switch.extend(table(&[(2, 1)]));
            match stops {
                true => bed.bed.input(Input::Stop),
                false => bed.after(Duration::from_secs(20)),
            }
            bed.drain();
            let [FlowEffect::Apply { number: undoing, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
            assert!(undoing > number, "{what}");
            bed.input(FlowInput::Applied { number, result: result.clone() });
            assert!(bed.bed.agent.is_guarding(), "{what}: it is not undone yet");
            assert_eq!(bed.held.len(), 1, "{what}: nothing else begins meanwhile");
            bed.release();
            assert!(!bed.bed.agent.is_guarding(), "{what}");
            assert_eq!(bed.switch, table(&[(1, 1)]), "{what}");
        }
    }
}

/// Whatever a table is forgotten with stays on its switch: nothing that was given up because it may cut the
/// node off does.
#[test]
fn a_table_is_forgotten_after_its_abandoned_rules_are_gone() {
    let mut bed = management(&[(1, 1)]);
    bed.is_slow = true;
    bed.guarded(2, ops(&[(2, 1)], &[]));
    let [FlowEffect::Apply { number, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
    (bed.held, bed.is_slow) = (Vec::new(), false);
    bed.down(FlowDown::Forget { device: br0(), generation: generation(5) });
    // The batch is on the switch, which does not answer then.
    bed.switch.extend(table(&[(2, 1)]));
    bed.is_back = false;
    let gone = NotApplied::Gone { reason: "it does not answer".into() };
    bed.input(FlowInput::Applied { number, result: Err(gone) });
    assert!(!bed.bed.agent.is_guarding());
    bed.after(Duration::from_secs(60));
    let is_forgotten = |bed: &FlowNode| matches!(bed.log.last(), Some(Record::Forgotten(_)));
    assert!(!is_forgotten(&bed));
    assert_eq!(bed.state().entries, 1, "it is told of as it is");
    bed.back();
    assert_eq!(bed.switch, table(&[(1, 1)]));
    assert!(is_forgotten(&bed));
}

#[test]
fn a_comparison_in_flight_at_the_deadline_answers_nothing() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[]));
    reconnect(&mut bed);
    bed.is_slow = true;
    answer(&mut bed, 2, CHALLENGE);
    let [FlowEffect::Compare { number, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
    bed.after(Duration::from_secs(20));
    // The batch is undone, and compared once more: the earlier comparison does not answer that.
    let [FlowEffect::Apply { number: undoing, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
    bed.held.clear();
    bed.switch = table(&[(1, 1)]);
    bed.input(FlowInput::Applied { number: undoing, result: Ok(DivergentForms::new()) });
    bed.after(Duration::from_secs(11));
    assert!(matches!(bed.held[..], [FlowEffect::Compare { .. }]), "{:?}", bed.held);
    let missing = vec![flow(1)];
    bed.input(FlowInput::Compared { number, result: Ok(Compared { missing, ..Compared::default() }) });
    assert!(matches!(bed.held[..], [FlowEffect::Compare { .. }]), "nothing is repaired: {:?}", bed.held);
}

#[test]
fn a_switch_that_goes_meanwhile_comes_back_without_it() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[1]));
    bed.go();
    assert!(!bed.bed.agent.is_guarding());
    bed.back();
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1)]));
}

#[test]
fn an_entry_that_times_out_before_its_undo_is_restored() {
    // The timeout ended the new version of the entry, not the one before.
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(1, 2)], &[]));
    bed.switch.remove(&flow(1));
    bed.input(FlowInput::Ended { ids: vec![flow(1)] });
    bed.go();
    bed.back();
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1)]));
    assert_eq!(bed.state().root, root(&[(1, 1)], EntryState::Present));
}

#[test]
fn an_entry_that_times_out_after_a_failed_apply_is_restored() {
    // The timeout ended the new version of the entry, not the one before.
    let mut bed = management(&[(1, 1)]);
    bed.is_slow = true;
    bed.guarded(2, ops(&[(1, 2)], &[]));
    let [FlowEffect::Apply { number, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
    (bed.held, bed.is_slow) = (Vec::new(), false);
    // The batch is on the switch, which does not answer then.
    bed.switch.extend(table(&[(1, 2)]));
    bed.is_back = false;
    let gone = NotApplied::Gone { reason: "it does not answer".into() };
    bed.input(FlowInput::Applied { number, result: Err(gone) });
    bed.switch.remove(&flow(1));
    bed.input(FlowInput::Ended { ids: vec![flow(1)] });
    bed.back();
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1)]));
    assert_eq!(bed.state().root, root(&[(1, 1)], EntryState::Present));
    // From then on an end is one of what is there.
    bed.switch.remove(&flow(1));
    bed.input(FlowInput::Ended { ids: vec![flow(1)] });
    bed.settle();
    assert_eq!(bed.switch, table(&[]), "it is not put again");
}

#[test]
fn a_stop_undoes_it() {
    for in_force in [true, false] {
        let mut bed = management(&[(1, 1)]);
        bed.is_slow = !in_force;
        bed.guarded(2, ops(&[(2, 1)], &[1]));
        bed.is_slow = false;
        bed.bed.input(Input::Stop);
        bed.drain();
        assert!(!bed.bed.agent.is_guarding(), "in force: {in_force}");
        assert_eq!(bed.switch, table(&[(1, 1)]), "in force: {in_force}");
        let bed = bed.crash();
        assert!(bed.state().refused.unwrap().reason.contains("the agent was stopped"));
    }
}

#[test]
fn a_bridge_off_the_management_path_needs_no_confirmation() {
    let mut bed = management(&[(1, 1)]);
    bed.is_management = false;
    bed.guarded(2, ops(&[(2, 1)], &[]));
    assert_eq!((bed.state().decided, bed.bed.agent.is_guarding()), (generation(2), false));
}

#[test]
fn network_and_flow_rules_are_never_guarded_at_the_same_time() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[]));
    reconnect(&mut bed);
    bed.bed.guards_are_quick = false;
    let begun = |bed: &FlowNode| bed.bed.guards.len() + bed.bed.captures.len();
    bed.bed.job(&network(1, 1, Action::Create));
    assert_eq!(begun(&bed), 0, "nothing of the network begins");
    answer(&mut bed, 2, CHALLENGE);
    assert_eq!(begun(&bed), 1, "its turn has come");
    bed.guarded(3, ops(&[(3, 1)], &[]));
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]), "now the rules wait");
    bed.batch(4, ops(&[(4, 1)], &[]));
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1), (4, 1)]), "not those that need no guard");
}

#[test]
fn a_switch_that_restarts_unseen_meanwhile_has_it_undone() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[]));
    assert!(bed.bed.agent.is_guarding());
    bed.switch.clear();
    bed.input(FlowInput::Back);
    reconnect(&mut bed);
    answer(&mut bed, 2, CHALLENGE);
    bed.settle();
    let refused = bed.state().refused.unwrap();
    assert!(refused.reason.contains("restarted before the change was confirmed"), "{}", refused.reason);
    assert_eq!((bed.state().decided, &bed.switch), (generation(2), &table(&[(1, 1)])));
}

#[test]
fn a_switch_that_restarts_while_it_is_applied_has_it_undone() {
    let mut bed = management(&[(1, 1)]);
    bed.is_slow = true;
    bed.guarded(2, ops(&[(2, 1)], &[]));
    bed.switch.clear();
    bed.input(FlowInput::Back);
    bed.release();
    reconnect(&mut bed);
    bed.settle();
    let refused = bed.state().refused.unwrap();
    assert!(refused.reason.contains("restarted while it was applied"), "{}", refused.reason);
    assert_eq!(bed.switch, table(&[(1, 1)]));
}

#[test]
fn it_is_tried_on_a_switch_that_has_the_whole_table() {
    let mut bed = management(&[(1, 1)]);
    bed.go();
    bed.is_back = true;
    bed.is_slow = true;
    bed.input(FlowInput::Back);
    bed.guarded(2, ops(&[(2, 1)], &[]));
    assert!(matches!(bed.held[..], [FlowEffect::Compare { .. }]), "{:?}", bed.held);
    bed.release();
    assert_eq!(bed.done, ["compare", "repair", "filled", "apply"]);
    assert!(bed.bed.agent.is_guarding());
}

#[test]
fn what_waited_when_the_agent_was_stopped_may_be_tried_again() {
    let mut bed = management(&[(1, 1)]);
    bed.is_slow = true;
    bed.input(FlowInput::Hint);
    bed.after(Duration::from_secs(11));
    bed.guarded(2, ops(&[(2, 1)], &[]));
    assert!(matches!(bed.held[..], [FlowEffect::Compare { .. }]), "it waits: {:?}", bed.held);
    bed.bed.input(Input::Stop);
    bed.drain();
    assert!(!bed.bed.agent.is_guarding());
    let mut bed = bed.crash();
    bed.settle();
    let refused = bed.state().refused.unwrap();
    assert!(!refused.permanent && refused.reason.contains("was stopped"), "{refused:?}");
    assert_eq!((bed.state().decided, &bed.switch), (generation(2), &table(&[(1, 1)])));
}

#[test]
fn what_may_be_undone_takes_over_nothing_of_others() {
    let takes_over = |bed: &FlowNode| match bed.held[..] {
        [FlowEffect::Apply { take_over, .. }] => take_over,
        _ => panic!("{:?}", bed.held),
    };
    let mut bed = management(&[(1, 1)]);
    bed.is_slow = true;
    bed.guarded(2, ops(&[(2, 1)], &[]));
    assert!(!takes_over(&bed));

    let mut bed = management(&[(1, 1)]);
    (bed.is_slow, bed.is_management) = (true, false);
    bed.guarded(2, ops(&[(2, 1)], &[]));
    assert!(takes_over(&bed));
}

#[test]
fn a_crashed_guarded_change_blocks_others_until_it_is_undone() {
    let mut bed = management(&[(1, 1)]);
    bed.guarded(2, ops(&[(2, 1)], &[]));
    bed.is_back = false;
    let mut bed = bed.crash();
    assert!(!bed.bed.agent.is_guarding(), "there is no switch to undo it on");
    bed.is_back = true;
    bed.input(FlowInput::Back);
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1)]));

    bed.is_management = true;
    bed.guarded(3, ops(&[(2, 1)], &[]));
    let (log, switch) = (bed.log.clone(), bed.switch.clone());
    let bed = FlowNode::started(log, switch);
    assert!(bed.bed.agent.is_guarding(), "it is being undone");
    assert!(matches!(bed.held[..], [FlowEffect::Apply { .. }]), "{:?}", bed.held);
}
