//! Open writes of a table: which entries each touched, and what their entries are once a write ends.

use std::sync::Arc;

use muster_shared::model::flow::FlowId;

use super::Table;
use crate::entry::{Kept, unlink};
use crate::owner::Owner;
use crate::record::FlowMark;

impl Table {
    /// The device has all writes up to `serial`. `ids` are the entries of the batch that are more
    /// than ADDED: removals, changes, repairs.
    pub fn settle(&mut self, serial: u64, ids: &[FlowId]) {
        self.settled = self.settled.max(serial);
        for id in ids {
            let Some(kept) = self.entries.get_mut(id) else { continue };
            if kept.serial > serial {
                continue; // a newer write is still open
            }
            self.versions -= kept.versions();
            kept.past = None;
            if kept.removing {
                self.drop_entry(*id);
            } else if kept.mark == FlowMark::Again {
                self.mark(*id, FlowMark::None, None);
                self.save(*id);
            }
        }
    }

    /// The write has failed. Changed entries are as before. New ones are FAILED for this reason, or
    /// gone if there is none.
    pub fn fail(&mut self, serial: u64, ids: &[FlowId], reason: Option<&Arc<str>>) {
        for id in ids {
            let Some(kept) = self.entries.get_mut(id) else { continue };
            self.versions -= kept.versions();
            if kept.serial != serial {
                let is_changed = unlink(&mut kept.past, serial);
                self.versions += kept.versions();
                if is_changed {
                    self.save(*id);
                }
                continue;
            }
            let (old_seen, old_digest, old_owner) = (kept.seen(), kept.digest, kept.owner);
            // A version whose removal has ended since counts as absent.
            let settled = self.settled;
            let mark = match kept.past.take().filter(|past| !past.removing || past.serial > settled) {
                // Nothing is left of a removed entry.
                None if reason.is_none() || kept.removing => {
                    self.drop_entry(*id);
                    self.unsaved.push(*id);
                    continue;
                }
                None => FlowMark::Failed,
                Some(past) => {
                    (kept.packed, kept.digest, kept.serial) = (past.packed, past.digest, past.serial);
                    (kept.owner, kept.removing, kept.past) = (past.owner, past.removing, past.before);
                    kept.hidden = past.hidden;
                    self.versions += kept.versions();
                    past.mark
                }
            };
            let (owner, is_open) = (kept.owner, kept.serial > self.settled || mark == FlowMark::Again);
            self.mark(*id, mark, reason.filter(|_| mark == FlowMark::Failed).cloned());
            self.owned_by(*id, old_owner, owner);
            let kept = &self.entries[id];
            let (new_seen, new_digest) = (kept.seen(), kept.digest);
            for (seen, digest) in [(old_seen, old_digest), (new_seen, new_digest)] {
                if let Some(seen) = seen {
                    self.sums.toggle(*id, digest, seen);
                }
            }
            if is_open && mark != FlowMark::Failed {
                self.queue_only(*id);
            }
            self.save(*id);
        }
    }

    /// The first serial from `upto` on that can be sent without a newer write. Of an entry that a
    /// newer write changed, only the newest version can be sent.
    pub fn closed(&self, mut upto: u64) -> u64 {
        loop {
            let waiting = self.waiting.iter().filter_map(|id| self.entries.get(id));
            let changed = waiting.filter(|kept| kept.serial > upto && kept.changed_since(self.settled, upto));
            match changed.map(|kept| kept.serial).max() {
                Some(newer) => upto = newer,
                None => return upto,
            }
        }
    }

    /// The newest write up to `upto` that touched this entry.
    pub fn write_of(&self, id: FlowId, upto: u64) -> Option<u64> {
        let kept = self.entries.get(&id)?;
        if kept.serial <= upto {
            return Some(kept.serial);
        }
        let mut past = kept.past.as_deref();
        while let Some(it) = past {
            if it.serial <= upto {
                return Some(it.serial);
            }
            past = it.before.as_deref();
        }
        None
    }

    /// Open writes up to `upto` that changed these entries.
    pub fn undecided<'t>(&'t self, ids: &'t [FlowId], upto: u64) -> impl Iterator<Item = u64> + 't {
        let kept = ids.iter().filter_map(|id| self.entries.get(id));
        let kept = kept.filter(|kept| kept.mark != FlowMark::Failed);
        let writes = kept.flat_map(|kept| kept.open_writes(self.settled)).map(|write| write.serial);
        writes.filter(move |serial| *serial <= upto)
    }

    /// The entries among these that this write changed, by id.
    pub fn of_write(&self, serial: u64, ids: &[FlowId]) -> Vec<FlowId> {
        let is_of = |kept: &Kept| kept.serial == serial || kept.changed_since(serial - 1, serial);
        let mut found: Vec<FlowId> =
            ids.iter().copied().filter(|id| self.get(*id).is_some_and(is_of)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The newest open write of another owner that took over an entry from this one. `sent` is in flight.
    pub fn taken_from(&self, owner: Owner, sent: &[FlowId]) -> Option<u64> {
        let kept = sent.iter().chain(&self.waiting).filter_map(|id| self.entries.get(id));
        kept.filter(|kept| kept.is_taken_from(owner, self.settled)).map(|kept| kept.serial).max()
    }
}
