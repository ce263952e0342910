//! Writes the ledger to disk: the purpose of each write, and the writes that the disk refused.
//!
//! ```text
//!   edit ─▶ write ─▶ Effect::Write ─Written─▶ what the write was for goes on
//!                         └─────────refused─▶ stale ─heartbeat, room again─▶ write
//! ```
//!
//! Absent: the write itself (`agent/src/driver/records.rs`), and what a full disk leads to (`disk_full.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::ResourceId;
use muster_shared::model::{Report, ReportKey};

use crate::effects::Effects;
use crate::face::{Effect, WriteId};
use crate::ledger::{Entry, Ledger};

/// The purpose of a write: the step that follows once the write is on disk.
#[derive(Clone, Debug)]
pub(crate) enum After {
    /// A job was accepted.
    Accepted(ReportKey),
    /// The state before Muster is recorded for this job; how the entry was until then.
    Captured { key: ReportKey, was: Box<Entry> },
    /// A job ended; `held` is the previous entry, if the resource gave up its holding.
    Ended { report: Report, held: Option<Box<Entry>> },
    /// The undo record of a job is written; `was` is the previous entry.
    Guarded { key: ReportKey, was: Box<Entry> },
    /// A report was acknowledged, or another change that may be written later.
    Nothing,
}

/// A write on its way to disk.
#[derive(Debug)]
struct Writing {
    resource: ResourceId,
    /// The entry has an undo record.
    has_undo: bool,
    after: After,
}

/// Writes on their way to disk, and records that are not there as they are in memory.
#[derive(Debug, Default)]
pub(crate) struct Records {
    writes: BTreeMap<WriteId, Writing>,
    last_write: u64,
    /// Resources whose record on disk may contain an undo record.
    undo_on_disk: BTreeSet<ResourceId>,
    /// The disk refused to record a change as kept; this write records it once more.
    kept_with: Option<(WriteId, Report)>,
    /// Entries that the disk refused, to be written again, with the latest write at the time of the refusal.
    stale: BTreeMap<ResourceId, WriteId>,
}

impl Records {
    /// Starts with the resources whose undo records are on disk.
    pub(crate) fn new(undo_on_disk: BTreeSet<ResourceId>) -> Self {
        Self { undo_on_disk, ..Self::default() }
    }
}

impl Ledger {
    /// Writes the entry as it is now.
    pub(crate) fn write(&mut self, resource: ResourceId, after: After, effects: &mut Effects) {
        let Some(entry) = self.get(resource).cloned() else {
            // Only an empty entry is dropped; there is nothing to make durable.
            return self.forget(resource, effects);
        };
        let write = self.next_write();
        let has_undo = entry.undo.is_some();
        if has_undo {
            self.records.undo_on_disk.insert(resource);
        }
        self.records.writes.insert(write, Writing { resource, has_undo, after });
        effects.push(Effect::Write { write, entry: Box::new(entry) });
        while let Some(oldest) = self.excess_tombstone() {
            self.edit(oldest, |entry| *entry = Entry::new(oldest));
            self.forget(oldest, effects);
        }
    }

    /// Writes the present entry, for changes that may be written later.
    pub(crate) fn write_through(&mut self, resource: ResourceId, effects: &mut Effects) {
        self.write(resource, After::Nothing, effects);
    }

    /// Writes again what the disk refused.
    pub(crate) fn write_refused(&mut self, effects: &mut Effects) {
        for resource in self.records.stale.keys().copied().collect::<Vec<_>>() {
            self.write_through(resource, effects);
        }
    }

    fn forget(&mut self, resource: ResourceId, effects: &mut Effects) {
        self.records.stale.remove(&resource);
        self.records.undo_on_disk.remove(&resource);
        effects.push(Effect::Remove(resource));
    }

    /// The id of a new write, also for writes that are not entries.
    pub(crate) fn next_write(&mut self) -> WriteId {
        self.records.last_write += 1;
        WriteId(self.records.last_write)
    }

    /// The disk took this write, or refused it. Returns the write's purpose, and the report of a change that
    /// the write also records as kept.
    pub(crate) fn written(&mut self, write: WriteId, is_refused: bool) -> Option<(After, Option<Report>)> {
        let records = &mut self.records;
        let Writing { resource, has_undo, after } = records.writes.remove(&write)?;
        let mut later = records.writes.values().filter(|writing| writing.resource == resource);
        if !is_refused && !has_undo && later.all(|writing| !writing.has_undo) {
            records.undo_on_disk.remove(&resource);
        }
        if let After::Nothing = after {
            if is_refused {
                records.stale.insert(resource, WriteId(records.last_write));
            } else {
                // A write that was on its way before the refusal does not contain the refused change.
                records.stale.retain(|other, refused| *other != resource || write <= *refused);
            }
        }
        let kept = records.kept_with.take_if(|(with, _)| *with == write);
        Some((after, kept.map(|(_, report)| report)))
    }

    /// Whether all entries are on disk as they are here.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.records.writes.is_empty() && self.records.stale.is_empty()
    }

    /// Whether the disk refused a record that is not there yet.
    pub(crate) fn has_refused(&self) -> bool {
        !self.records.stale.is_empty()
    }

    /// Whether an undo of another resource may be on disk, and would run after a crash.
    pub(crate) fn has_undo_on_disk_but(&self, resource: ResourceId) -> bool {
        self.records.undo_on_disk.iter().any(|&other| other != resource)
    }

    /// Whether this outcome is not on disk yet.
    pub(crate) fn is_ending(&self, key: &ReportKey) -> bool {
        self.records.kept_with.as_ref().is_some_and(|(_, report)| report.key == *key)
            || self.ending().any(|ending| ending == key)
    }

    /// Whether an outcome of this generation is being written, and will be reported after.
    pub(crate) fn is_about_to_tell(&self, key: ReportKey) -> bool {
        let last = self.get(key.resource).and_then(|entry| entry.last.as_ref());
        last.is_some_and(|last| last.key.generation == key.generation && self.is_ending(&last.key))
    }

    /// Outcomes on their way to disk.
    pub(crate) fn ending(&self) -> impl Iterator<Item = &ReportKey> {
        self.records.writes.values().filter_map(|writing| match &writing.after {
            After::Ended { report, .. } => Some(&report.key),
            After::Accepted(_) | After::Captured { .. } | After::Guarded { .. } | After::Nothing => None,
        })
    }

    /// Whether this job is not on disk yet.
    pub(crate) fn is_accepting(&self, key: ReportKey) -> bool {
        self.records.writes.values().any(|writing| writing.accepts(key))
    }

    /// Records the job with its present entry; earlier writes of the job that are still on their way do
    /// not count.
    pub(crate) fn accept_again(&mut self, key: ReportKey, effects: &mut Effects) {
        for writing in self.records.writes.values_mut().filter(|writing| writing.accepts(key)) {
            writing.after = After::Nothing;
        }
        self.write(key.resource, After::Accepted(key), effects);
    }

    /// Whether a later write also contains this refused outcome, and so decides.
    pub(crate) fn is_written_again(&mut self, report: &Report) -> bool {
        let records = &mut self.records;
        let later = records.writes.iter().find(|(_, writing)| writing.resource == report.key.resource);
        let Some((&write, _)) = later else { return false };
        records.kept_with = Some((write, report.clone()));
        true
    }

    /// Whether the disk refused to record that claims taken over by this resource were returned or are gone.
    /// If the resource ended before that record is on disk, a crash would bring the other resource back.
    pub(crate) fn is_held_up(&mut self, resource: ResourceId, effects: &mut Effects) -> bool {
        let Some(entry) = self.get(resource) else { return false };
        let stale: Vec<_> = entry.named().filter(|other| self.records.stale.contains_key(other)).collect();
        stale.iter().for_each(|&other| self.write_through(other, effects));
        !stale.is_empty()
    }
}

impl Writing {
    fn accepts(&self, key: ReportKey) -> bool {
        matches!(self.after, After::Accepted(accepted) if accepted == key)
    }
}
