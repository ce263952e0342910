//! The entries of one device: what each must be, what it was before open writes, and who owns it.
//!
//! ```text
//!   write n: puts and removals ──▶ waiting ──▶ in a batch ──┬─ settle(n): ADDED, or gone
//!                                                           └─ fail(n): FAILED, or again what it was
//! ```
//!
//! Every write has a number, its serial. A write is open until it has ended. All writes up to
//! `settled` have ended, so a hundred thousand entries become ADDED with one number. An entry with
//! open writes keeps its former versions as far back as writes are open. The sums are those of the
//! wanted table. They equal the agent's once all writes have ended.
//!
//! This file puts and removes entries and queues them. `open_writes` ends writes, `repair` takes what a
//! comparison found on the device, `records` saves and loads.
//!
//! Absent: batches (`batch.rs`), operations (`operation.rs`), and who is refused when two owners want one rule
//! (`owner.rs`).

mod open_writes;
mod records;
mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry as Place;
use muster_shared::model::flow::{Buckets, EntryState, FlowId, Packed};

pub(crate) use self::repair::STRAYS_MAX;
use crate::entry::{FlowStanding, IdHash, Kept, Written, push_past, queue, save};
use crate::owner::Owner;
use crate::record::FlowMark;

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
    /// Entries that were FAILED at a start, or whose writes were open: an earlier batch, whose end is
    /// no longer known, may have put them on the device. Empty once the device has what it must have.
    perhaps_present: BTreeSet<FlowId>,
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

    pub fn owned(&self, owner: Owner) -> impl Iterator<Item = FlowId> + '_ {
        self.owned.range((owner, FlowId(0))..=(owner, FlowId(u64::MAX))).map(|(_, id)| *id)
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
                if !owner.is_unnamed_operator() {
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
        if kept.mark == FlowMark::Failed && !self.perhaps_present.contains(&id) {
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

    /// Queues the entries of a batch again that was not applied.
    pub fn wait_again(&mut self, ids: &[FlowId]) {
        for id in ids {
            let Some(kept) = self.entries.get(id) else { continue };
            if kept.mark != FlowMark::Failed && (kept.serial > self.settled || kept.mark == FlowMark::Again) {
                self.queue_only(*id);
            }
        }
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
        if !new.is_unnamed_operator() {
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
