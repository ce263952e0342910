//! Answers that were true of the switch, the table or the disk a moment ago.

use std::time::Duration;

use muster_shared::model::Up;
use muster_shared::model::flow::{EntryState, FlowAsk, FlowDown, FlowUp, SwitchState};

use super::flow_node::{FlowNode, br0, flow, ops, root, table};
use super::node::generation;
use crate::{Compared, FlowEffect, FlowInput, Repaired};

fn filled(rules: &[(u64, u8)]) -> FlowNode {
    let mut bed = FlowNode::new();
    bed.batch(1, ops(rules, &[]));
    bed.settle();
    bed.done.clear();
    bed.bed.sent.clear();
    bed
}

/// Rules that the controller was told of since.
fn said(bed: &FlowNode) -> Vec<String> {
    let told = bed.bed.sent.iter().filter_map(|up| match up {
        Up::Flow(FlowUp::States { states, complete }) if *complete || !states.is_empty() => {
            Some(format!("{} states, complete {complete}", states.len()))
        }
        Up::Flow(FlowUp::Buckets { sums, .. }) if sums.iter().any(|sum| *sum != 0) => Some("sums".into()),
        Up::Flow(FlowUp::Entries { entries, .. }) if !entries.is_empty() => Some("entries".into()),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_table_that_is_being_forgotten_is_told_of_once_it_is() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.is_slow = true;
    bed.input(FlowInput::Hint);
    bed.after(Duration::from_secs(11));
    assert!(matches!(bed.held[..], [FlowEffect::Compare { .. }]), "{:?}", bed.held);
    bed.bed.sent.clear();
    bed.down(FlowDown::Forget { device: br0(), generation: generation(5) });
    let asks = [FlowAsk::Buckets, FlowAsk::Entries((0..1024).collect()), FlowAsk::Look];
    for (number, ask) in (1..).zip(asks) {
        bed.down(FlowDown::Ask { device: br0(), number, ask });
    }
    bed.after(Duration::from_secs(60));
    assert_eq!(said(&bed), Vec::<String>::new(), "the rules would be taken for what is there after");
    bed.release();
    assert_eq!(said(&bed), ["0 states, complete true"]);
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]), "they are left alone");
}

#[test]
fn a_table_that_is_forgotten_at_once_is_told_of_only_after() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.down(FlowDown::Forget { device: br0(), generation: generation(5) });
    assert_eq!(said(&bed), ["0 states, complete true"]);
}

#[test]
fn a_table_that_could_not_be_forgotten_is_told_of_as_before() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.disk_is_full = true;
    bed.down(FlowDown::Forget { device: br0(), generation: generation(5) });
    assert_eq!(said(&bed), ["1 states, complete true"]);
    assert_eq!(bed.state().entries, 2);
}

#[test]
fn a_repair_of_the_switch_before_does_not_fill_the_new_one() {
    let mut bed = filled(&[(1, 1), (2, 1)]);
    bed.is_slow = true;
    bed.switch.clear();
    bed.input(FlowInput::Hint);
    bed.after(Duration::from_secs(11));
    let [FlowEffect::Compare { number, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
    bed.held.clear();
    let missing = vec![flow(1), flow(2)];
    bed.input(FlowInput::Compared { number, result: Ok(Compared { missing, ..Compared::default() }) });
    let [FlowEffect::Repair { number, .. }] = bed.held[..] else { panic!("{:?}", bed.held) };
    bed.held.clear();
    bed.input(FlowInput::Back);
    bed.input(FlowInput::Repaired { number, result: Ok(Repaired::default()) });
    assert!(bed.done.is_empty(), "it has no rules yet: {:?}", bed.done);
    bed.release();
    bed.settle();
    assert_eq!(bed.done, ["compare", "repair", "filled", "compare"]);
    assert_eq!((bed.state().switch, bed.switch), (SwitchState::Watched, table(&[(1, 1), (2, 1)])));
}

#[test]
fn what_ended_and_was_put_again_is_not_recorded_as_ended_late() {
    let mut bed = filled(&[(1, 1), (2, 1), (3, 1)]);
    bed.disk_is_full = true;
    bed.timeouts = vec![flow(1), flow(3)];
    bed.timeouts.iter().for_each(|id| {
        bed.switch.remove(id);
    });
    bed.input(FlowInput::Hint);
    bed.after(Duration::from_secs(11));
    (bed.disk_is_full, bed.timeouts) = (false, Vec::new());
    bed.batch(2, ops(&[(1, 1)], &[3]));
    let all = root(&[(1, 1), (2, 1)], EntryState::Present);
    assert_eq!(bed.state().root, all);
    bed.settle();
    bed.after(Duration::from_secs(60));
    let mut bed = bed.crash();
    bed.settle();
    assert_eq!(bed.state().root, all, "it is a live rule");
    assert_eq!(bed.switch, table(&[(1, 1), (2, 1)]));
}

#[test]
fn nothing_is_compared_while_the_entries_move_in_the_log() {
    let mut bed = filled(&[(1, 1)]);
    (bed.is_dead, bed.is_moving) = (true, true);
    bed.batch(2, ops(&[(2, 1)], &[]));
    bed.settle();
    assert!(matches!(bed.held[..], [FlowEffect::Compact { .. }]), "{:?}", bed.held);
    bed.done.clear();
    bed.input(FlowInput::Hint);
    bed.after(Duration::from_secs(11));
    assert!(bed.done.is_empty(), "{:?}", bed.done);
    bed.is_dead = false;
    bed.release();
    bed.settle();
    assert_eq!(bed.done, ["compact", "compare"]);
}
