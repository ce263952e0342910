//! When records that hold a period were written. The database holds the beginning of each period instead, so a load counts
//! the time since.

use std::collections::BTreeMap;

use muster_shared::MonoTime;

use crate::Snapshot;
use crate::record::{Change, RolloutChange};

/// When the newest record of each stack and rollout was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// By id.
    stacks: BTreeMap<u64, MonoTime>,
    /// By row.
    rollouts: BTreeMap<u64, MonoTime>,
}

impl Written {
    /// Takes a change that is committed now.
    pub fn note(&mut self, change: &Change, now: MonoTime) {
        if let Change::Stack(stack) = change {
            self.stacks.insert(stack.id, now);
        }
        if let Change::StackRemoved { id, .. } = change {
            self.stacks.remove(id);
        }
        if let Change::Rollout(RolloutChange::Kept { row, .. }) = change {
            self.rollouts.insert(*row, now);
        }
        if let Change::Rollout(RolloutChange::Over(row)) = change {
            self.rollouts.remove(row);
        }
    }

    /// Adds the time since to the periods of a snapshot that is loaded now.
    pub fn age(&self, snapshot: &mut Snapshot, now: MonoTime) {
        let since = |written: Option<&MonoTime>| written.map_or_else(Default::default, |at| now.since(*at));
        for (stack, _) in &mut snapshot.stacks {
            stack.ran = stack.ran.map(|ran| ran + since(self.stacks.get(&stack.id)));
        }
        for (row, (record, _)) in &mut snapshot.rollouts.rollouts {
            record.rested = record.rested.map(|rested| rested + since(self.rollouts.get(row)));
        }
    }
}
