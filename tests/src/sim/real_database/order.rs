//! The changes of one commit in another order, in which those that depend on each other stay as they were.
//!
//! A change depends on an earlier one if both write the same record, or if one removes what the other writes:
//!
//! - `StackRemoved` and a `Stack` of that number or name: the removal comes first, for names are unique. It takes all
//!   rows of its stack along, so no change of a row or of edges passes it, nor another stack's removal, for the last
//!   twenty are remembered in their order.
//! - `RevisionsTrimmed` and a `Revision` of that stack.
//! - `Resource`, `Progress` and `ResourceRemoved` of one row; `Edges` and `ResourceRemoved` of one row.
//! - `Flow` changes of one device: `Settled` and `DeviceRemoved` take entries along. Of one operation, and of what is
//!   forgotten of one bridge, in the same way.
//! - `Rollout` changes of one row.
//! - A record and its removal: nodes, tokens, contents, intents, bridges.
//!
//! Everything else is independent: a row and its stack, a row and its edges, rows among each other, events, counters.

use std::collections::BTreeMap;

use muster_engine::record::{Change, RolloutChange};
use muster_flow::record::FlowChange;
use muster_intent::record::IntentChange;
use muster_shared::model::ContentDigest;
use muster_shared::model::flow::{Bridge, DeviceName};
use muster_shared::{NodeId, StackName};

use super::super::dice::Dice;

/// The place at which two changes meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Stack(u64),
    Name(StackName),
    Revisions(u64),
    /// The rows and edges.
    Rows,
    Row(u64),
    Edges(u64),
    Node(NodeId),
    Token([u8; 8]),
    User(String),
    Content(ContentDigest),
    Event(u64, u64),
    FlowDevice(u32),
    FlowOperation(u64),
    Forgotten(NodeId, Bridge),
    Application(u64),
    Intent(u64),
    Bridge(DeviceName),
    Rollout(u64),
    Counters,
    Restored,
    Audit,
}

/// The places to which the change writes; and whether it passes no removal of a stack.
fn places(change: &Change) -> (Vec<Place>, bool) {
    use Place::*;
    match change {
        Change::Stack(stack) => (vec![Stack(stack.id), Name(stack.name.clone())], false),
        Change::StackRemoved { id, name, .. } => {
            (vec![Stack(*id), Name(name.clone()), Revisions(*id), Rows], false)
        }
        Change::Revision(revision) => (vec![Revisions(revision.stack)], false),
        Change::RevisionsTrimmed { stack, .. } => (vec![Revisions(*stack)], false),
        Change::Resource(row) => (vec![Row(row.id)], true),
        Change::Progress(progress) => (vec![Row(progress.id)], true),
        Change::ResourceRemoved(id) => (vec![Row(*id), Edges(*id)], true),
        Change::Edges { needed_by, .. } => (vec![Edges(*needed_by)], true),
        Change::Node(node) => (vec![Node(node.name.clone())], false),
        Change::NodeRemoved(name) => (vec![Node(name.clone())], false),
        Change::Token(token) => (vec![Token(token.token.id)], false),
        Change::TokenRemoved(id) => (vec![Token(*id)], false),
        Change::User(user) => (vec![User(user.name.clone())], false),
        Change::UserRemoved(name) => (vec![User(name.clone())], false),
        Change::Content { digest, .. } => (vec![Content(*digest)], false),
        Change::ContentRemoved(digest) => (vec![Content(*digest)], false),
        Change::Event(event) => (vec![Event(event.stack, event.number)], false),
        Change::Flow(change) => (vec![of_flow(change)], false),
        Change::Intent(change) => (vec![of_intent(change)], false),
        Change::Rollout(change) => (vec![of_rollout(change)], false),
        Change::Counters(_) => (vec![Counters], false),
        Change::Restored(_) => (vec![Restored], false),
        Change::Audit(_) => (vec![Audit], false),
    }
}

fn of_rollout(change: &RolloutChange) -> Place {
    match change {
        RolloutChange::Kept { row, .. } | RolloutChange::Over(row) | RolloutChange::Proven(row, _) => {
            Place::Rollout(*row)
        }
    }
}

fn of_flow(change: &FlowChange) -> Place {
    match change {
        FlowChange::Device(record) => Place::FlowDevice(record.device),
        FlowChange::DeviceRemoved(device)
        | FlowChange::Entries { device, .. }
        | FlowChange::Settled { device, .. }
        | FlowChange::PartRemoved { device, .. } => Place::FlowDevice(*device),
        FlowChange::Part(part) => Place::FlowDevice(part.device),
        FlowChange::Operation(record) => Place::FlowOperation(record.id),
        FlowChange::Stages { operation, .. } | FlowChange::OperationRemoved(operation) => {
            Place::FlowOperation(*operation)
        }
        FlowChange::Forgotten(it) => Place::Forgotten(it.node.clone(), it.bridge.clone()),
        FlowChange::ForgottenHeard { node, bridge } => Place::Forgotten(node.clone(), bridge.clone()),
        FlowChange::Application { number, .. } => Place::Application(*number),
    }
}

fn of_intent(change: &IntentChange) -> Place {
    match change {
        IntentChange::Intent(record, _) => Place::Intent(record.no.0),
        IntentChange::Removed(no) => Place::Intent(no.0),
        IntentChange::Device { device, .. } | IntentChange::DeviceRemoved(device) => {
            Place::Bridge(device.clone())
        }
    }
}

/// The changes, each once, in any order that keeps what depends on each other.
pub fn shuffled(changes: &[Change], dice: &mut Dice) -> Vec<Change> {
    let mut follow: Vec<Vec<usize>> = vec![Vec::new(); changes.len()];
    let mut waits_for = vec![0; changes.len()];
    let mut last: BTreeMap<Place, usize> = BTreeMap::new();
    // Changes of rows and edges since the last removal of a stack.
    let mut rows: Vec<usize> = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        let (places, is_of_row) = places(change);
        let mut earlier: Vec<usize> =
            places.iter().filter_map(|place| last.insert(place.clone(), at)).collect();
        if is_of_row {
            earlier.extend(last.get(&Place::Rows));
            rows.push(at);
        } else if places.contains(&Place::Rows) {
            earlier.append(&mut rows);
        }
        for earlier in earlier {
            follow[earlier].push(at);
            waits_for[at] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..changes.len()).filter(|at| waits_for[*at] == 0).collect();
    let mut order = Vec::with_capacity(changes.len());
    while !ready.is_empty() {
        let at = ready.swap_remove(dice.index(ready.len()));
        order.push(changes[at].clone());
        for next in std::mem::take(&mut follow[at]) {
            waits_for[next] -= 1;
            if waits_for[next] == 0 {
                ready.push(next);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use muster_engine::record::EventRecord;

    use super::*;

    fn event(number: u64) -> Change {
        let (action, status, reason) = ("CREATE", "COMPLETE", "".into());
        Change::Event(EventRecord { stack: 1, number, resource: None, action, status, reason, actor: None })
    }

    fn removed(id: u64) -> Change {
        let name = "s".parse().expect("a name");
        Change::StackRemoved { id, name, traversal: 1 }
    }

    #[test]
    fn what_depends_keeps_its_order_and_the_rest_moves() {
        let edges = |to| Change::Edges { needed_by: 1, requires: vec![to] };
        let changes = [edges(1), removed(1), edges(2), Change::ResourceRemoved(1), event(1), event(2)];
        let at = |order: &[Change], what: &Change| {
            order.iter().position(|it| format!("{it:?}") == format!("{what:?}")).expect("it is there")
        };
        let mut firsts = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let order = shuffled(&changes, &mut Dice::new(seed, "test"));
            assert_eq!(order.len(), changes.len());
            let places: Vec<usize> = changes.iter().map(|change| at(&order, change)).collect();
            assert!(places[..4].is_sorted(), "{places:?}");
            firsts.insert(places[4] < places[5]);
        }
        assert_eq!(firsts.len(), 2, "events stay in one order");
    }
}
