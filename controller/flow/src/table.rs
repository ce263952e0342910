//! The entries of one device: what each is to be, what it was before that is decided, and who owns it.
//!
//! ```text
//!   write n: puts and removals ──▶ waiting ──▶ in a batch ──┬─ settle(n): ADDED, or gone
//!                                                            └─ fail(n): FAILED, or again what it was
//! ```
//!
//! Every write has a number (its serial). All writes up to `settled` have come to their end, so that a hundred thousand
//! entries become ADDED with one number. An entry changed by a write that is not decided keeps what it was, as far back
//! as is not decided. The sums are those of the table as it is to be: they equal the agent's when all is settled.
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

/// Strays taken off at a time; those beyond are found with the next comparison. An agent may invent as many as it likes,
/// of 256 devices.
pub(crate) const STRAYS_MAX: usize = 50_000;

/// The entries of one device.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: IndexMap<FlowId, Kept, BuildHasherDefault<IdHash>>,
    /// Those that are not the operators'. Flat: an owner has few on one device.
    owned: BTreeSet<(Owner, FlowId)>,
    sums: Buckets,
    serial: u64,
    settled: u64,
    waiting: Vec<FlowId>,
    /// Ids that are on the device and in no table: found by comparing, and found again if they are forgotten here.
    strays: Vec<FlowId>,
    /// The reason why entries are FAILED or wrong.
    reasons: BTreeMap<FlowId, Arc<str>>,
    marked: [usize; FlowMark::COUNT],
    /// Groups and meters, which come before the rules that use them.
    specials: usize,
    unsaved: Vec<FlowId>,
    /// What is kept of entries besides what each is to be and was before that.
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

    /// Another reason for one that is FAILED; it is written down with it.
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

    /// All owners, and how many entries each has.
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

    /// Something is to be sent.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty() || !self.strays.is_empty()
    }

    pub fn waiting(&self) -> &[FlowId] {
        &self.waiting
    }

    /// The device has it within our space, and nobody asked for it.
    pub fn stray(&mut self, id: FlowId) {
        if self.strays.len() < STRAYS_MAX {
            self.strays.push(id);
        }
    }

    /// To be taken off the device, though nothing here is of that id; at most so many.
    pub fn take_strays(&mut self, most: usize) -> Vec<FlowId> {
        self.strays.sort_unstable();
        self.strays.dedup();
        let rest = self.strays.split_off(most.min(self.strays.len()));
        let mut strays = std::mem::replace(&mut self.strays, rest);
        strays.retain(|id| self.entries.get(id).is_none_or(|kept| kept.seen().is_none() && !kept.removing));
        strays
    }

    pub fn owned(&self, owner: Owner) -> impl Iterator<Item = FlowId> + '_ {
        self.owned.range((owner, FlowId(0))..=(owner, FlowId(u64::MAX))).map(|(_, id)| *id)
    }

    /// The newest write of another that took something over from this owner and is not decided. `sent` is in flight.
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

    /// The number of a write that begins.
    pub fn begin(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The device is to hold this; `hidden`: something hidden went into it.
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
        // A write that is not decided may yet fail, and then this one must not fail with it.
        let is_so = kept.digest == digest && kept.owner == owner && !kept.removing;
        if is_so && kept.mark == FlowMark::None && kept.serial <= settled {
            // Who says it in clear makes it known.
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

    /// The device is not to hold this any more.
    pub fn remove(&mut self, id: FlowId, serial: u64) -> Written {
        let settled = self.settled;
        let Some(kept) = self.entries.get_mut(&id) else { return Written::Nothing };
        // As above: what an undecided write takes away may be back.
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

    /// Another owner's from now on; nothing of it changes on the device.
    pub fn give(&mut self, id: FlowId, owner: Owner) {
        let Some(kept) = self.entries.get_mut(&id) else { return };
        let old = std::mem::replace(&mut kept.owner, owner);
        self.owned_by(id, old, owner);
        self.save(id);
    }

    /// What this owner has, or had before a write that is not decided, was made of something hidden. `sent` is in flight.
    pub fn hide(&mut self, owner: Owner, sent: &[FlowId]) {
        let mut ids: Vec<FlowId> = self.owned(owner).collect();
        ids.extend(sent.iter().chain(&self.waiting));
        for id in ids {
            if self.entries.get_mut(&id).is_some_and(|kept| kept.hide(owner)) {
                self.save(id);
            }
        }
    }

    /// Nothing hidden is in what this owner has.
    pub fn reveal(&mut self, owner: Owner) {
        for id in self.owned(owner).collect::<Vec<_>>() {
            if self.entries.get_mut(&id).is_some_and(|kept| std::mem::take(&mut kept.hidden)) {
                self.save(id);
            }
        }
    }

    /// The device does not have it as it is to be: it is sent again. Why it could not be put right before says more.
    pub fn again(&mut self, id: FlowId, reason: &Arc<str>) {
        let was_wrong = self.entries.get(&id).is_some_and(|kept| kept.mark == FlowMark::Wrong);
        let known = self.reasons.get(&id).filter(|_| was_wrong);
        let reason = known.unwrap_or(reason).clone();
        self.see(id, FlowMark::Again, Some(reason));
        self.queue(id);
    }

    /// What the device says of an entry that is settled.
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

    /// The device is to hold it, or to remember that it ended.
    pub fn wants(&self, id: FlowId) -> bool {
        self.entries.get(&id).is_some_and(|kept| kept.seen().is_some())
    }

    /// The newest write takes it off the device.
    pub fn is_removing(&self, id: FlowId) -> bool {
        self.entries.get(&id).is_some_and(|kept| kept.removing)
    }

    /// What is to go into the next batch, of writes up to `upto`. They are not waiting any more. With `apart`, repairs
    /// go only when no write does, and so many at a time.
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
            // One that was taken back and is wanted again stands here twice.
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

    /// Those that are sent again because the device lost or changed them.
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

    /// Drops all repairs: the device stays as it is. False if no entry of the table was to be put right.
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

    /// What was in a batch that was not applied waits again.
    pub fn wait_again(&mut self, ids: &[FlowId]) {
        for id in ids {
            let Some(kept) = self.entries.get(id) else { continue };
            if kept.mark != FlowMark::Failed && (kept.serial > self.settled || kept.mark == FlowMark::Again) {
                self.queue_only(*id);
            }
        }
    }

    /// All writes up to `serial` are on the device. `ids` are those of the batch that are not simply ADDED by that:
    /// removals, changes, repairs.
    pub fn settle(&mut self, serial: u64, ids: &[FlowId]) {
        self.settled = self.settled.max(serial);
        for id in ids {
            let Some(kept) = self.entries.get_mut(id) else { continue };
            if kept.serial > serial {
                continue; // a newer write has yet to be decided
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

    /// Nothing of this write happened: anything is as it was before; what was new is FAILED for this reason, or gone if
    /// there is none.
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
            // One whose removal has come to its end since is as good as never there.
            let settled = self.settled;
            let mark = match kept.past.take().filter(|past| !past.removing || past.serial > settled) {
                // Nothing is left of what was to go.
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

    /// The first write from `upto` on that can be sent without a newer one: of an entry that a newer write has changed,
    /// only what that made of it can be sent.
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

    /// The undecided writes up to `upto` that changed these entries.
    pub fn undecided<'t>(&'t self, ids: &'t [FlowId], upto: u64) -> impl Iterator<Item = u64> + 't {
        let kept = ids.iter().filter_map(|id| self.entries.get(id));
        let kept = kept.filter(|kept| kept.mark != FlowMark::Failed);
        let writes = kept.flat_map(|kept| kept.open_writes(self.settled)).map(|write| write.serial);
        writes.filter(move |serial| *serial <= upto)
    }

    /// Those of these that this write changed, in the order of their ids.
    pub fn of_write(&self, serial: u64, ids: &[FlowId]) -> Vec<FlowId> {
        let is_of = |kept: &Kept| kept.serial == serial || kept.changed_since(serial - 1, serial);
        let mut found: Vec<FlowId> =
            ids.iter().copied().filter(|id| self.get(*id).is_some_and(is_of)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// What is to be written down, at most so many: records, and those that are gone.
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

    /// From the store.
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

    /// Before any entry is loaded.
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
