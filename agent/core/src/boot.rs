//! Decides how the host restores its network when the server starts, before the agent runs: apply every last
//! good state, then undo changes that were not confirmed.
//!
//! Absent: carrying that out, with further tries (`agent/src/net/boot.rs`). Absent too: the jobs. The agent
//! takes them up when it starts (`jobs/begin.rs`), and restores unconfirmed changes once more.

use muster_shared::ResourceId;
use muster_shared::model::{ReportKey, Spec};

use crate::ledger::{Before, Entry, Ledger};

/// A step of the restore at boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtBoot {
    /// The last good state of a resource.
    Apply {
        resource: ResourceId,
        spec: Box<Spec>,
        /// The state before Muster.
        before: Option<Before>,
    },
    /// Restore the state before a change that was not confirmed.
    Restore {
        key: ReportKey,
        /// The host's record of that state.
        undo: Before,
    },
}

/// The steps at boot, in order.
pub fn at_boot(entries: &[Entry]) -> Vec<AtBoot> {
    let ledger = Ledger::new(entries.to_vec());
    // A resource that was taken over belongs to its taker: the taker's state or undo record covers it.
    let mut applied: Vec<_> = ledger
        .iter()
        .filter(|entry| entry.undo.is_none() && !ledger.is_taken(entry.resource))
        .filter_map(|entry| Some((entry, entry.applied.as_ref()?)))
        .filter(|(_, applied)| applied.spec.confirm_within().is_some())
        .collect();
    applied.sort_by_key(|(entry, applied)| (applied.generation, entry.resource));
    let mut undone: Vec<_> = ledger.iter().filter_map(|entry| entry.undo.as_ref()).collect();
    // The newest change is undone first.
    undone.sort_by_key(|undo| std::cmp::Reverse(undo.key.generation));
    let apply = applied.into_iter().map(|(entry, applied)| AtBoot::Apply {
        resource: entry.resource,
        spec: Box::new(applied.spec.clone()),
        before: entry.before().cloned(),
    });
    let restore = undone.into_iter().map(|undo| AtBoot::Restore { key: undo.key, undo: undo.state.clone() });
    apply.chain(restore).collect()
}
