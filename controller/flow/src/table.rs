//! The entries of one device: what each must be, what it was before open writes, and who owns it.
//!
//! ```text
//!   write n: puts and removals ──▶ waiting ──▶ in a batch ──┬─ settle(n): ADDED, or gone
//!                                                            └─ fail(n): FAILED, or again what it was
//! ```
//!
//! Every write has a number, its serial. A write is open until it has ended. All writes up to
//! `settled` have ended, so a hundred thousand entries become ADDED with one number. An entry with
//! open writes keeps its former versions as far back as writes are open. The sums are those of the
//! wanted table. They equal the agent's once all writes have ended.
//!
//! Absent: batches and nodes, operations, conflicts between owners.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry as Place;
use muster_shared::model::flow::{Buckets, EntryState, FlowId, Packed};

use crate::entry::{
    FlowStanding, IdHash, Kept, Owner, Past, Written, push_past, queue, record, save, unlink,
};
use crate::record::{FlowEntryRecord, FlowMark, FlowPast};

/// Bound on strays removed at a time. The next comparison finds the others. A lying agent may
/// invent as many as it likes, for 256 devices.
pub(crate) const STRAYS_MAX: usize = 50_000;

/// The entries of one device.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: IndexMap<FlowId, Kept, BuildHasherDefault<IdHash>>,
    /// Entries not owned by operators. A flat set, because an owner has few on one device.
    owned: BTreeSet<(Owner, FlowId)>,
    sums: Buckets,
    serial: u64,
    settled: u64,
    waiting: Vec<FlowId>,
    /// Ids on the device that no table has. A comparison finds them, and finds them again if they
    /// are forgotten here.
    strays: Vec<FlowId>,
    /// Reasons why entries are FAILED or wrong.
    reasons: BTreeMap<FlowId, Arc<str>>,
    marked: [usize; FlowMark::COUNT],
    /// Number of groups and meters, which are sent before the rules that use them.
    specials: usize,
    unsaved: Vec<FlowId>,
    /// Number of former versions beyond the newest and the one before it.
    versions: usize,
}

impl Table {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, id: FlowId) -> Option<&Kept> {
        self.entries.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &Kept)> {
        self.entries.iter().map(|(id, kept)| (*id, kept))
    }

    pub fn reason(&self, id: FlowId) -> Option<&str> {
        self.reasons.get(&id).map(|reason| &**reason)
    }

    /// Replaces the reason of a FAILED entry. It is saved with the entry.
    pub fn explain(&mut self, id: FlowId, reason: &Arc<str>) {
        if self.entries.get(&id).is_some_and(|kept| kept.mark == FlowMark::Failed) {
            self.reasons.insert(id, reason.clone());
        }
    }

    pub fn sums(&self) -> &Buckets {
        &self.sums
    }

    pub fn marked(&self, mark: FlowMark) -> usize {
        self.marked[mark as usize]
    }

    pub fn has_specials(&self) -> bool {
        self.specials > 0
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    pub fn settled(&self) -> u64 {
        self.settled
    }

    pub fn versions(&self) -> usize {
        self.versions
    }

    /// Owners with the number of their entries.
    pub fn owners(&self) -> impl Iterator<Item = (Owner, usize)> {
        let operators =
            Some((Owner::OPERATOR, self.len() - self.owned.len())).filter(|(_, count)| *count > 0);
        let mut counts: Vec<(Owner, usize)> = operators.into_iter().collect();
        for (owner, _) in &self.owned {
            match counts.last_mut().filter(|(last, _)| last == owner) {
                Some((_, count)) => *count += 1,
                None => counts.push((*owner, 1)),
            }
        }
        counts.into_iter()
    }

    /// Whether there is something to send.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty() || !self.strays.is_empty()
    }

    pub fn waiting(&self) -> &[FlowId] {
        &self.waiting
    }

    /// The device has this id of ours, and no table does.
    pub fn stray(&mut self, id: FlowId) {
        if self.strays.len() < STRAYS_MAX {
            self.strays.push(id);
        }
    }

    pub fn has_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// Takes at most so many of the strays to remove from the device.
    pub fn take_strays(&mut self, most: usize) -> Vec<FlowId> {
        let entries = &self.entries;
        self.strays.retain(|id| entries.get(id).is_none_or(|kept| kept.seen().is_none() && !kept.removing));
        self.strays.sort_unstable();
        self.strays.dedup();
        let rest = self.strays.split_off(most.min(self.strays.len()));
        std::mem::replace(&mut self.strays, rest)
    }

    pub fn owned(&self, owner: Owner) -> impl Iterator<Item = FlowId> + '_ {
        self.owned.range((owner, FlowId(0))..=(owner, FlowId(u64::MAX))).map(|(_, id)| *id)
    }

    /// The newest open write of another owner that took over an entry from this one. `sent` is in flight.
    pub fn taken_from(&self, owner: Owner, sent: &[FlowId]) -> Option<u64> {
        let kept = sent.iter().chain(&self.waiting).filter_map(|id| self.entries.get(id));
        kept.filter(|kept| kept.is_taken_from(owner, self.settled)).map(|kept| kept.serial).max()
    }

    pub fn standing(&self, kept: &Kept) -> FlowStanding {
        match kept.mark {
            _ if kept.removing => FlowStanding::PendingRemove,
            FlowMark::Failed => FlowStanding::Failed,
            _ if kept.serial > self.settled => FlowStanding::PendingAdd,
            FlowMark::None => FlowStanding::Added,
            FlowMark::Expired | FlowMark::Gone => FlowStanding::Expired,
            FlowMark::Wrong | FlowMark::Again => FlowStanding::PendingAdd,
        }
    }

    /// The serial of a new write.
    pub fn begin(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The device must hold this entry. `hidden`: hidden values went into it.
    pub fn put(
        &mut self,
        id: FlowId,
        packed: Packed,
        digest: u64,
        (owner, hidden): (Owner, bool),
        serial: u64,
    ) -> Written {
        let settled = self.settled;
        let kept = match self.entries.entry(id) {
            Place::Vacant(place) => {
                let kept = Kept {
                    packed,
                    digest,
                    serial,
                    past: None,
                    owner,
                    removing: false,
                    mark: FlowMark::None,
                    hidden,
                    queued: true,
                    unsaved: true,
                };
                self.specials += usize::from(kept.is_special());
                place.insert(kept);
                self.sums.toggle(id, digest, EntryState::Present);
                self.marked[FlowMark::None as usize] += 1;
                self.waiting.push(id);
                self.unsaved.push(id);
                if !owner.is_operator() {
                    self.owned.insert((owner, id));
                }
                return Written::Changed;
            }
            Place::Occupied(place) => place.into_mut(),
        };
        // An open write may still fail. This one must not fail with it.
        let is_so = kept.digest == digest && kept.owner == owner && !kept.removing;
        if is_so && kept.mark == FlowMark::None && kept.serial <= settled {
            // An owner that does not hide the entry makes it known.
            if std::mem::replace(&mut kept.hidden, hidden) != hidden {
                save(kept, id, &mut self.unsaved);
            }
            return Written::Same(kept.serial);
        }
        if let Some(seen) = kept.seen() {
            self.sums.toggle(id, kept.digest, seen);
        }
        self.versions -= kept.versions();
        push_past(kept, settled);
        self.versions += kept.versions();
        kept.hidden = hidden;
        let was_marked = kept.mark != FlowMark::None;
        let old_owner = std::mem::replace(&mut kept.owner, owner);
        (kept.packed, kept.digest, kept.serial, kept.removing) = (packed, digest, serial, false);
        self.sums.toggle(id, digest, EntryState::Present);
        queue(kept, id, &mut self.waiting);
        save(kept, id, &mut self.unsaved);
        if was_marked {
            self.mark(id, FlowMark::None, None);
        }
        self.owned_by(id, old_owner, owner);
        Written::Changed
    }

    /// The device must not hold this entry.
    pub fn remove(&mut self, id: FlowId, serial: u64) -> Written {
        let settled = self.settled;
        let Some(kept) = self.entries.get_mut(&id) else { return Written::Nothing };
        // As above: an entry that an open write removes may come back.
        if kept.removing && kept.serial <= settled {
            return Written::Same(kept.serial);
        }
        if kept.mark == FlowMark::Failed {
            self.drop_entry(id);
            self.unsaved.push(id);
            return Written::Nothing;
        }
        if let Some(seen) = kept.seen() {
            self.sums.toggle(id, kept.digest, seen);
        }
        self.versions -= kept.versions();
        push_past(kept, settled);
        self.versions += kept.versions();
        (kept.removing, kept.serial) = (true, serial);
        queue(kept, id, &mut self.waiting);
        save(kept, id, &mut self.unsaved);
        if kept.mark != FlowMark::None {
            self.mark(id, FlowMark::None, None);
        }
        Written::Changed
    }

    /// Gives the entry to another owner. The device is not changed.
    pub fn give(&mut self, id: FlowId, owner: Owner) {
        let Some(kept) = self.entries.get_mut(&id) else { return };
        let old = std::mem::replace(&mut kept.owner, owner);
        self.owned_by(id, old, owner);
        self.save(id);
    }

    /// Marks entries of this owner as hidden, including versions before open writes. `sent` is in flight.
    pub fn hide(&mut self, owner: Owner, sent: &[FlowId]) {
        let mut ids: Vec<FlowId> = self.owned(owner).collect();
        ids.extend(sent.iter().chain(&self.waiting));
        for id in ids {
            if self.entries.get_mut(&id).is_some_and(|kept| kept.hide(owner)) {
                self.save(id);
            }
        }
    }

    /// Unmarks entries of this owner as hidden.
    pub fn reveal(&mut self, owner: Owner) {
        for id in self.owned(owner).collect::<Vec<_>>() {
            if self.entries.get_mut(&id).is_some_and(|kept| std::mem::take(&mut kept.hidden)) {
                self.save(id);
            }
        }
    }

    /// Sends an entry again that the device lost or changed. If a repair failed before, its reason stays.
    pub fn again(&mut self, id: FlowId, reason: &Arc<str>) {
        let was_wrong = self.entries.get(&id).is_some_and(|kept| kept.mark == FlowMark::Wrong);
        let known = self.reasons.get(&id).filter(|_| was_wrong);
        let reason = known.unwrap_or(reason).clone();
        self.see(id, FlowMark::Again, Some(reason));
        self.queue(id);
    }

    /// Records how the device holds an entry without open writes.
    pub fn see(&mut self, id: FlowId, mark: FlowMark, reason: Option<Arc<str>>) {
        let Some(kept) = self.entries.get(&id) else { return };
        let (old, digest) = (kept.seen(), kept.digest);
        self.mark(id, mark, reason);
        let new = self.entries[&id].seen();
        if old != new {
            for seen in [old, new].into_iter().flatten() {
                self.sums.toggle(id, digest, seen);
            }
        }
        self.save(id);
    }

    /// Whether the device must hold the entry, or remember that it expired.
    pub fn wants(&self, id: FlowId) -> bool {
        self.entries.get(&id).is_some_and(|kept| kept.seen().is_some())
    }

    /// Whether the newest write removes the entry.
    pub fn is_removing(&self, id: FlowId) -> bool {
        self.entries.get(&id).is_some_and(|kept| kept.removing)
    }

    /// Takes the entries for the next batch, from writes up to `upto`. With `apart`, repairs are
    /// taken only if no write is, and at most so many.
    pub fn take_waiting(&mut self, upto: u64, apart: Option<usize>) -> Vec<FlowId> {
        let mut all = std::mem::take(&mut self.waiting);
        let settled = self.settled;
        let is_open = |kept: &Kept| kept.serial > settled && kept.mark != FlowMark::Failed;
        let mut room = usize::MAX;
        if let Some(most) = apart {
            let goes = |id: &FlowId| self.get(*id).is_some_and(|kept| kept.serial <= upto && is_open(kept));
            room = if all.iter().any(goes) { 0 } else { most };
            if self.specials > 0 {
                all.sort_by_key(|id| self.get(*id).map(Kept::rank));
            }
        }
        let mut taken = Vec::with_capacity(all.len());
        for id in all {
            // An entry that was withdrawn and is wanted again is here twice.
            let Some(kept) = self.entries.get_mut(&id).filter(|kept| kept.queued) else { continue };
            let is_repair = kept.mark == FlowMark::Again;
            if kept.serial > upto || (is_repair && room == 0) {
                self.waiting.push(id);
                continue;
            }
            kept.queued = false;
            room -= usize::from(is_repair);
            if is_repair || is_open(kept) {
                taken.push(id);
            }
        }
        taken
    }

    /// Number of entries sent again because the device lost or changed them.
    pub fn repairs_among(&self, ids: &[FlowId]) -> usize {
        if self.marked(FlowMark::Again) == 0 {
            return 0;
        }
        self.repairs(ids).count()
    }

    pub fn repairs<'t>(&'t self, ids: &'t [FlowId]) -> impl Iterator<Item = FlowId> + 't {
        let is_repair = |id: &FlowId| self.get(*id).is_some_and(|kept| kept.mark == FlowMark::Again);
        ids.iter().copied().filter(is_repair)
    }

    /// Drops all repairs: the device stays as it is. Returns false if no entry of the table needed one.
    pub fn leave_repairs(&mut self) -> bool {
        self.strays.clear();
        let is_repair = |(_, kept): &(FlowId, &Kept)| kept.mark == FlowMark::Again;
        let repairs: Vec<FlowId> = match self.marked(FlowMark::Again) {
            0 => Vec::new(),
            _ => self.iter().filter(is_repair).map(|(id, _)| id).collect(),
        };
        for id in &repairs {
            self.see(*id, FlowMark::None, None);
        }
        !repairs.is_empty()
    }

    /// Queues the entries of a batch again that was not applied.
    pub fn wait_again(&mut self, ids: &[FlowId]) {
        for id in ids {
            let Some(kept) = self.entries.get(id) else { continue };
            if kept.mark != FlowMark::Failed && (kept.serial > self.settled || kept.mark == FlowMark::Again) {
                self.queue_only(*id);
            }
        }
    }

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

    /// The next records to save, at most `most`, and the ids of removed entries.
    pub fn next_unsaved(&mut self, most: usize) -> (Vec<FlowEntryRecord>, Vec<FlowId>) {
        let (mut records, mut gone) = (Vec::new(), Vec::new());
        for _ in 0..most {
            let Some(id) = self.unsaved.pop() else { break };
            match self.entries.get_mut(&id) {
                None => gone.push(id),
                Some(kept) if kept.unsaved => {
                    kept.unsaved = false;
                    records.push(record(id, kept, self.reasons.get(&id)));
                }
                Some(_) => {} // removed and put again since
            }
        }
        (records, gone)
    }

    pub fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// Loads an entry from the store.
    pub fn load(&mut self, record: FlowEntryRecord) {
        let mut past = None;
        for older in record.past.into_iter().rev() {
            let FlowPast { packed, serial, owner, removing, mark, hidden } = older;
            let digest = packed.digest();
            past =
                Some(Box::new(Past { packed, digest, serial, before: past, owner, removing, mark, hidden }));
        }
        let FlowEntryRecord { id, packed, serial, owner, removing, mark, hidden, reason, .. } = record;
        let digest = packed.digest();
        let kept = Kept {
            packed,
            digest,
            serial,
            past,
            owner,
            removing,
            mark,
            hidden,
            queued: false,
            unsaved: false,
        };
        if let Some(seen) = kept.seen() {
            self.sums.toggle(id, digest, seen);
        }
        self.marked[mark as usize] += 1;
        self.specials += usize::from(kept.is_special());
        self.versions += kept.versions();
        if !owner.is_operator() {
            self.owned.insert((owner, id));
        }
        self.reasons.extend(reason.map(|reason| (id, reason)));
        self.entries.insert(id, kept);
        self.wait_again(&[id]);
    }

    /// Sets the serials, before any entry is loaded.
    pub fn load_numbers(&mut self, serial: u64, settled: u64) {
        (self.serial, self.settled) = (serial, settled);
    }

    /// The caller must persist the removal.
    fn drop_entry(&mut self, id: FlowId) {
        let Some(kept) = self.entries.swap_remove(&id) else { return };
        self.versions -= kept.versions();
        if let Some(seen) = kept.seen() {
            self.sums.toggle(id, kept.digest, seen);
        }
        self.marked[kept.mark as usize] -= 1;
        self.specials -= usize::from(kept.is_special());
        if kept.mark != FlowMark::None {
            self.reasons.remove(&id);
        }
        self.owned_by(id, kept.owner, Owner::OPERATOR);
    }

    fn mark(&mut self, id: FlowId, mark: FlowMark, reason: Option<Arc<str>>) {
        let Some(kept) = self.entries.get_mut(&id) else { return };
        let old = std::mem::replace(&mut kept.mark, mark);
        self.marked[old as usize] -= 1;
        self.marked[mark as usize] += 1;
        match reason {
            Some(reason) => drop(self.reasons.insert(id, reason)),
            None if old != FlowMark::None => drop(self.reasons.remove(&id)),
            None => {}
        }
    }

    fn owned_by(&mut self, id: FlowId, old: Owner, new: Owner) {
        if old == new {
            return;
        }
        self.owned.remove(&(old, id));
        if !new.is_operator() {
            self.owned.insert((new, id));
        }
    }

    fn queue(&mut self, id: FlowId) {
        self.queue_only(id);
        self.save(id);
    }

    fn queue_only(&mut self, id: FlowId) {
        if let Some(kept) = self.entries.get_mut(&id) {
            queue(kept, id, &mut self.waiting);
        }
    }

    fn save(&mut self, id: FlowId) {
        if let Some(kept) = self.entries.get_mut(&id) {
            save(kept, id, &mut self.unsaved);
        }
    }
}

#[cfg(test)]
mod tests;
