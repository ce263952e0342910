//! The life of a batch, and a device that others change.

use std::time::Duration;

use muster_shared::model::flow::{
    EntryState, FlowAsk, FlowBatch, FlowDown, FlowUp, Packet, SwitchState, TraceQuestion,
};
use muster_shared::model::{Content, ContentDigest, Up};
use muster_shared::wire::CONTROLLER_READS_ENTRY;

use super::flow_node::{FlowNode, Record, br0, flow, ops, packed, root, table};
use super::node::{HEARTBEAT, generation};
use crate::{ContentState, FlowInput, Input, resource_id};

fn filled(rules: &[(u64, u8)]) -> FlowNode {
    let mut bed = FlowNode::new();
    bed.batch(1, ops(rules, &[]));
    bed.settle();
    assert_eq!(bed.switch, table(rules));
    (bed.bed.sent, bed.done) = (Vec::new(), Vec::new());
    bed
}

#[test]
fn a_batch_is_logged_applied_decided_and_told() {
    let mut bed = FlowNode::new();
    bed.batch(1, ops(&[(1, 1), (2, 1)], &[]));
    let state = bed.state();
    assert_eq!((state.decided, &state.refused, state.entries), (generation(1), &None, 2));
    assert_eq!(state.root, root(&[(1, 1), (2, 1)], EntryState::Present));
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]));
    assert!(matches!(bed.log[..], [Record::Batch { .. }, Record::Decided { refused: None, .. }]));
    bed.batch(2, ops(&[(1, 2)], &[2]));
    assert_eq!(bed.switch, table(&[(1, 2)]));
    assert_eq!(bed.state().root, root(&[(1, 2)], EntryState::Present));
}

#[test]
fn a_bad_rule_leaves_nothing_of_its_batch_and_is_named() {
    let mut bed = filled(&[(1, 1)]);
    bed.bad = Some(flow(3));
    bed.batch(2, ops(&[(2, 1), (3, 1)], &[1]));
    let state = bed.state();
    let refused = state.refused.unwrap();
    assert_eq!((state.decided, refused.id, refused.permanent), (generation(2), Some(flow(3)), true));
    assert_eq!((bed.switch.clone(), state.entries), (table(&[(1, 1)]), 1));
}

#[test]
fn a_node_without_the_bridge_refuses_at_once_and_writes_nothing() {
    let mut bed = FlowNode::new();
    bed.is_back = false;
    bed.batch(1, ops(&[(1, 1)], &[]));
    let refused = bed.state().refused.unwrap();
    assert_eq!((refused.reason.as_str(), refused.permanent), ("no bridge br0 on this node", false));
    assert!(bed.log.is_empty());
    assert_eq!(bed.state().switch, SwitchState::Absent);
}

#[test]
fn a_batch_waits_for_a_switch_that_restarts_and_not_for_ever() {
    let mut bed = filled(&[(1, 1)]);
    bed.go();
    bed.batch(2, ops(&[(2, 1)], &[]));
    assert_eq!(bed.log.len(), 2, "nothing is appended yet");
    bed.back();
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]));
    assert_eq!(bed.done.iter().filter(|it| **it == "filled").count(), 1);
    bed.go();
    bed.batch(3, ops(&[(3, 1)], &[]));
    bed.after(Duration::from_secs(21));
    assert_eq!(bed.state().refused.unwrap().reason, "no bridge br0 on this node");
}

#[test]
fn a_switch_that_dies_during_a_batch_gets_it_on_its_return() {
    let mut bed = filled(&[(1, 1)]);
    bed.is_slow = true;
    bed.batch(2, ops(&[(2, 1)], &[]));
    bed.is_back = false;
    bed.switch.clear();
    bed.release();
    bed.input(FlowInput::Gone { reason: "restarting".into() });
    bed.back();
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]));
    assert_eq!((bed.state().decided, bed.state().refused), (generation(2), None));
}

#[test]
fn what_a_batch_needs_is_filled_first() {
    let mut bed = filled(&[(1, 1)]);
    bed.go();
    bed.batch(2, ops(&[(3, 1)], &[]));
    // As a rule whose group is not there yet.
    bed.bad = Some(flow(3));
    bed.back();
    bed.settle();
    assert_eq!(bed.state().refused.unwrap().id, Some(flow(3)), "filled, and refused again: that is final");
    assert_eq!(bed.done, ["compare", "repair", "filled", "apply", "compare"]);
}

#[test]
fn generations_old_repeated_and_newer() {
    let mut bed = filled(&[(1, 1)]);
    bed.is_slow = true;
    bed.batch(3, ops(&[(3, 1)], &[]));
    bed.batch(2, ops(&[(2, 1)], &[]));
    bed.batch(4, ops(&[(4, 1)], &[]));
    bed.batch(5, ops(&[(5, 1)], &[]));
    bed.release();
    assert_eq!(
        bed.switch,
        table(&[(1, 1), (3, 1), (5, 1)]),
        "2 is older, 5 took the place of 4, which had not begun"
    );
    let said = bed.states_said();
    bed.batch(4, ops(&[(4, 1)], &[]));
    assert_eq!(bed.states_said(), said, "an older one is not answered");
    bed.batch(5, ops(&[(5, 1)], &[]));
    assert_eq!(bed.states_said(), said + 1, "the same one is told how it ended");
}

#[test]
fn a_newer_batch_replaces_a_large_one_that_is_being_fetched() {
    let mut bed = filled(&[(1, 1)]);
    let digest = ContentDigest([7; 32]);
    let stored = |number, digest| {
        FlowDown::Batch(FlowBatch {
            device: br0(),
            generation: generation(number),
            confirm_timeout: None,
            ops: Content::Stored { digest, size: 70_000 },
        })
    };
    bed.down(stored(2, digest));
    assert_eq!(bed.bed.contents.len(), 1, "it is looked for");
    bed.batch(3, ops(&[(3, 1)], &[]));
    assert_eq!(bed.state().decided, generation(3));
    bed.down(stored(4, digest));
    bed.bed.input(Input::Content { digest, state: Err(super::node::failed("disk full")) });
    bed.drain();
    assert_eq!(bed.state().refused.unwrap().reason, "disk full");
    bed.down(stored(5, ContentDigest([8; 32])));
    bed.bed.input(Input::Content { digest, state: Ok(ContentState::Verified) });
    assert_eq!(bed.state().decided, generation(4), "another content decides nothing");
}

#[test]
fn a_disk_that_refuses_the_batch_leaves_all_as_it_was() {
    let mut bed = filled(&[(1, 1)]);
    bed.disk_is_full = true;
    bed.batch(2, ops(&[(2, 1)], &[]));
    assert_eq!(bed.state().refused.unwrap().reason, "disk full");
    assert_eq!((bed.switch.clone(), bed.done.is_empty()), (table(&[(1, 1)]), true));
    bed.disk_is_full = false;
    bed.batch(3, ops(&[(3, 1)], &[]));
    assert_eq!(bed.state().refused, None);
}

#[test]
fn a_disk_that_refuses_the_end_has_the_batch_undone() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.is_slow = true;
    bed.batch(2, ops(&[(1, 2), (3, 1)], &[2]));
    bed.disk_is_full = true;
    bed.release();
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]));
    let refused = bed.state().refused.unwrap();
    assert!(refused.reason.contains("disk full; what was there before has been restored"), "{refused:?}");
    assert!(!refused.permanent, "the disk may have room later");
    bed.disk_is_full = false;
    bed.after(HEARTBEAT);
    let mut bed = bed.crash();
    bed.settle();
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]), "the log has heard of it meanwhile");
}

#[test]
fn after_a_crash_an_undecided_batch_is_applied_again() {
    let mut bed = filled(&[(1, 1)]);
    bed.is_slow = true;
    bed.batch(2, ops(&[(2, 1)], &[1]));
    let bed = bed.crash();
    assert_eq!(bed.switch, table(&[(2, 1)]));
    assert_eq!((bed.state().decided, bed.state().entries), (generation(2), 1));
}

#[test]
fn lost_altered_and_invented_rules_are_put_right() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.switch.remove(&flow(1));
    bed.switch.insert(flow(2), 99);
    bed.switch.insert(flow(9), 1);
    bed.input(FlowInput::Hint);
    bed.after(Duration::from_millis(20));
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]));
    assert_eq!(bed.done, ["compare", "repair", "compare"], "what was repaired is compared once more");
    assert_eq!(bed.states_said(), 0, "the table was never another one");
}

#[test]
fn without_a_hint_it_is_found_by_the_scan() {
    let mut bed = filled(&[(1, 1)]);
    bed.switch.clear();
    bed.after(Duration::from_secs(330));
    assert_eq!(bed.switch, table(&[(1, 1)]));
}

#[test]
fn a_restarted_switch_is_filled_before_packets_pass() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.switch.clear();
    bed.is_slow = true;
    bed.back();
    bed.after(Duration::from_secs(1));
    assert_eq!(bed.state().switch, SwitchState::Filling);
    assert!(bed.done.is_empty());
    bed.release();
    bed.settle();
    assert_eq!(bed.done, ["compare", "repair", "filled", "compare"]);
    assert_eq!((bed.switch.clone(), bed.state().switch), (table(&[(1, 1), (2, 1)]), SwitchState::Watched));
}

#[test]
fn what_was_found_on_the_switch_before_does_not_count() {
    let mut bed = filled(&[(1, 1)]);
    bed.is_slow = true;
    bed.input(FlowInput::Hint);
    bed.after(Duration::from_secs(10));
    bed.back();
    bed.release();
    assert_eq!(bed.done, ["compare", "compare", "filled"]);
}

#[test]
fn an_unrepairable_rule_is_wrong_and_retried_ever_less_often() {
    // Once a repair works, the rule is right again.
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.bad = Some(flow(2));
    bed.switch.clear();
    bed.input(FlowInput::Hint);
    bed.settle();
    let state = bed.state();
    assert_eq!((state.wrong, state.reason.contains("no port veth9")), (1, true));
    // An older controller reads the rule's number in the reason alone.
    for (reads, entry) in [(CONTROLLER_READS_ENTRY, Some(flow(2))), (CONTROLLER_READS_ENTRY - 1, None)] {
        bed.reconnect_to(reads);
        let state = bed.state();
        assert_eq!(state.entry, entry);
        assert_eq!(state.named_reason(), format!("{}: no port veth9 on br0", flow(2)));
    }
    let tries = bed.done.iter().filter(|it| **it == "repair").count();
    assert!((4..=8).contains(&tries), "{tries} in 40 s");
    bed.bad = None;
    bed.settle();
    bed.settle();
    let state = bed.state();
    assert_eq!((state.wrong, state.reason.as_str()), (0, ""));
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]));
}

#[test]
fn an_ended_entry_stays_gone_after_a_crash_or_switch_restart() {
    let mut bed = filled(&[(1, 1), (2, 1), (3, 1)]);
    bed.switch.remove(&flow(1));
    bed.switch.remove(&flow(2));
    bed.timeouts = vec![flow(2)];
    bed.input(FlowInput::Ended { ids: vec![flow(1), flow(3)] });
    bed.settle();
    assert_eq!(bed.switch, table(&[(3, 1)]), "3 is there, whatever was said");
    let expired = root(&[(1, 1), (2, 1)], EntryState::Expired);
    assert_ne!(bed.state().root, root(&[(3, 1)], EntryState::Present));
    assert_ne!(expired, 0);
    let said = bed.state().root;
    let mut bed = bed.crash();
    bed.go();
    bed.back();
    bed.settle();
    assert_eq!((bed.switch.clone(), bed.state().root), (table(&[(3, 1)]), said));
    bed.batch(2, ops(&[(1, 1)], &[2]));
    assert_eq!(bed.switch, table(&[(1, 1), (3, 1)]));
    assert_eq!(bed.state().root, root(&[(1, 1), (3, 1)], EntryState::Present));
}

#[test]
fn a_form_that_only_the_switch_has_is_taken_as_it_is() {
    let mut bed = FlowNode::new();
    bed.odd.insert(packed(1).digest(), 42);
    bed.batch(1, ops(&[(1, 1)], &[]));
    bed.settle();
    bed.done.clear();
    bed.input(FlowInput::Hint);
    bed.settle();
    assert_eq!(bed.done, ["compare"]);
    bed.switch.insert(flow(1), 43);
    bed.input(FlowInput::Hint);
    bed.settle();
    assert_eq!(bed.done, ["compare", "compare", "repair", "compare"], "another form is an alteration");
}

#[test]
fn flow_states_go_out_on_greeting_and_heartbeat_at_a_low_rate() {
    let mut bed = filled(&[(1, 1)]);
    bed.reconnect();
    assert!(bed.bed.sent.iter().any(|up| matches!(up, Up::Flow(FlowUp::States { complete: true, .. }))));
    bed.bed.sent.clear();
    bed.after(HEARTBEAT);
    assert_eq!(bed.states_said(), 1);
    bed.bed.sent.clear();
    for foreign in 1..100 {
        bed.foreign = foreign;
        bed.input(FlowInput::Hint);
        bed.after(Duration::from_millis(25));
    }
    bed.after(Duration::from_secs(1));
    assert!((5..=12).contains(&bed.states_said()), "{} in 2.5 s", bed.states_said());
    assert_eq!(bed.state().foreign, 99);
}

#[test]
fn questions_are_answered() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    let ask = |bed: &mut FlowNode, ask| {
        bed.bed.sent.clear();
        bed.down(FlowDown::Ask { device: br0(), number: 7, ask });
        bed.bed.sent.clone()
    };
    let sent = ask(&mut bed, FlowAsk::Buckets);
    let [Up::Flow(FlowUp::Buckets { number: 7, sums, .. })] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(sums.iter().filter(|sum| **sum != 0).count(), 2);
    let sent = ask(&mut bed, FlowAsk::Entries(vec![0, 2]));
    let [Up::Flow(FlowUp::Entries { entries, last: true, .. })] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*entries, [(flow(2), packed(1).digest(), EntryState::Present)]);
    let sent = ask(&mut bed, FlowAsk::Stats);
    assert!(matches!(sent[..], [Up::Flow(FlowUp::Stats { number: 7, last: true, .. })]), "{sent:?}");
    let sent = ask(&mut bed, FlowAsk::Foreign);
    assert!(matches!(sent[..], [Up::Flow(FlowUp::Foreign { number: 7, last: true, .. })]), "{sent:?}");
    bed.input(FlowInput::Foreigners { number: 7, rules: Vec::new(), last: true });
    assert_eq!(bed.bed.sent.len(), 1, "nobody asked for a second answer");
    let question = TraceQuestion { in_port: "p1".into(), packet: Packet::default() };
    let sent = ask(&mut bed, FlowAsk::Trace(Box::new(question)));
    assert!(matches!(sent[..], [Up::Flow(FlowUp::Traced { number: 7, result: Ok(_), .. })]), "{sent:?}");
    ask(&mut bed, FlowAsk::Look);
    assert_eq!((bed.done.clone(), bed.states_said()), (vec!["compare"], 1), "also if nothing has changed");
}

#[test]
fn a_table_is_forgotten_and_what_is_on_the_switch_left_alone() {
    let mut bed = filled(&[(1, 1)]);
    bed.down(FlowDown::Forget { device: br0(), generation: generation(5) });
    let states = bed.bed.sent.iter().rev().find_map(|up| match up {
        Up::Flow(FlowUp::States { states, complete: true }) => Some(states.len()),
        _ => None,
    });
    assert_eq!(states, Some(0));
    bed.batch(4, ops(&[(4, 1)], &[]));
    assert_eq!(bed.switch, table(&[(1, 1)]), "a batch that is older is not done");
    let mut bed = bed.crash();
    bed.batch(4, ops(&[(4, 1)], &[]));
    assert_eq!(bed.switch, table(&[(1, 1)]));
    bed.batch(6, ops(&[(6, 1)], &[]));
    bed.settle();
    assert_eq!(bed.switch, table(&[(6, 1)]), "a new table: what is ours and not in it goes");
}

#[test]
fn a_log_that_is_mostly_dead_is_written_anew() {
    let mut bed = filled(&[(1, 1)]);
    bed.is_dead = true;
    bed.batch(2, ops(&[(2, 1)], &[]));
    assert!(bed.done.contains(&"compact"), "{:?}", bed.done);
    bed.batch(3, ops(&[], &[1]));
    let mut bed = bed.crash();
    bed.settle();
    assert_eq!(bed.switch, table(&[(2, 1)]));
    assert_eq!(bed.bed.agent.flow_table(&br0()).unwrap()[0].at, 10_000);
}

#[test]
fn a_device_stands_for_itself_the_same_each_time() {
    assert_eq!(resource_id(&br0()), resource_id(&"br0".parse().unwrap()));
    assert_ne!(resource_id(&br0()), resource_id(&"br1".parse().unwrap()));
}
