//! An entry of a table: its wanted form, its standing, and its former versions while writes are open.

use std::hash::Hasher;
use std::sync::Arc;

use muster_shared::model::flow::{EntryState, FlowId, Packed};

use crate::owner::Owner;
use crate::record::{FlowEntryRecord, FlowMark, FlowPast};

/// A hasher that uses the id itself, which is a hash already.
#[derive(Default)]
pub(crate) struct IdHash(u64);

impl Hasher for IdHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("an id is hashed as one number")
    }

    fn write_u64(&mut self, id: u64) {
        // The map uses the upper bits of the hash, and those of an id are its prefix.
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ id;
    }
}

/// The standing of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowStanding {
    /// The entry is being put on the device, or corrected there.
    PendingAdd,
    /// The device has the entry.
    Added,
    /// The entry is being removed from the device.
    PendingRemove,
    /// The device refused the entry.
    Failed,
    /// The entry expired by its own timeout. It is not put again.
    Expired,
}

impl FlowStanding {
    /// The standings in the order that operators see.
    pub const ALL: [Self; 5] =
        [Self::PendingAdd, Self::Added, Self::PendingRemove, Self::Failed, Self::Expired];

    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            FlowStanding::PendingAdd => "PENDING_ADD",
            FlowStanding::Added => "ADDED",
            FlowStanding::PendingRemove => "PENDING_REMOVE",
            FlowStanding::Failed => "FAILED",
            FlowStanding::Expired => "EXPIRED",
        }
    }
}

/// An entry as its newest write wants it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub packed: Packed,
    pub digest: u64,
    pub serial: u64,
    pub(crate) past: Option<Box<Past>>,
    pub owner: Owner,
    pub removing: bool,
    pub mark: FlowMark,
    /// Hidden values went into the entry. The mark stays, whoever owns the entry, until an owner
    /// that hides nothing puts it.
    pub hidden: bool,
    pub(crate) queued: bool,
    pub(crate) unsaved: bool,
}

/// A former version of an entry, kept while writes are open.
#[derive(Debug)]
pub(crate) struct Past {
    pub packed: Packed,
    pub digest: u64,
    pub serial: u64,
    pub before: Option<Box<Past>>,
    pub owner: Owner,
    pub removing: bool,
    pub mark: FlowMark,
    pub hidden: bool,
}

/// An open write of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenWrite<'k> {
    pub serial: u64,
    pub owner: Owner,
    pub removing: bool,
    pub packed: &'k Packed,
    past: Option<&'k Past>,
}

impl<'k> OpenWrite<'k> {
    /// Versions of this owner that the device may have until the write ends.
    pub fn before(&self) -> impl Iterator<Item = &'k Packed> {
        let owner = self.owner;
        let past = std::iter::successors(self.past, |it| it.before.as_deref());
        past.filter(move |it| it.owner == owner).map(|it| &it.packed)
    }
}

/// The effect of a write on one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The entry is queued.
    Changed,
    /// An earlier write already made it so.
    Same(u64),
    /// The entry is gone at once, or never existed.
    Nothing,
}

impl Kept {
    /// Whether a write after `settled` and up to `upto` has changed the entry, besides the newest write.
    pub(crate) fn changed_since(&self, settled: u64, upto: u64) -> bool {
        self.open_writes(settled).skip(1).any(|write| write.serial <= upto)
    }

    /// Open writes, the newest first.
    pub fn open_writes(&self, settled: u64) -> impl Iterator<Item = OpenWrite<'_>> {
        let newest = OpenWrite {
            serial: self.serial,
            owner: self.owner,
            removing: self.removing,
            packed: &self.packed,
            past: self.past.as_deref(),
        };
        let past = std::iter::successors(self.past.as_deref(), |it| it.before.as_deref());
        let past = past.map(|it| OpenWrite {
            serial: it.serial,
            owner: it.owner,
            removing: it.removing,
            packed: &it.packed,
            past: it.before.as_deref(),
        });
        std::iter::once(newest).chain(past).take_while(move |write| write.serial > settled)
    }

    /// Whether an open write of another owner took the entry over. If that fails, the entry is this
    /// owner's again.
    pub(crate) fn is_taken_from(&self, owner: Owner, settled: u64) -> bool {
        let (mut newer, mut past) = (self.serial, self.past.as_deref());
        while let Some(it) = past.filter(|_| self.owner != owner && newer > settled) {
            if it.owner == owner && (!it.removing || it.serial > settled) {
                return true;
            }
            (newer, past) = (it.serial, it.before.as_deref());
        }
        false
    }

    /// Versions of the entry that hidden values went into.
    pub fn hidden(&self) -> impl Iterator<Item = &Packed> {
        let past = std::iter::successors(self.past.as_deref(), |it| it.before.as_deref());
        let all = std::iter::once((self.hidden, &self.packed)).chain(past.map(|it| (it.hidden, &it.packed)));
        all.filter(|(hidden, _)| *hidden).map(|(_, packed)| packed)
    }

    /// Marks this owner's versions as hidden. Returns false if they were.
    pub(crate) fn hide(&mut self, owner: Owner) -> bool {
        let mut changed = self.owner == owner && !std::mem::replace(&mut self.hidden, true);
        let mut past = self.past.as_deref_mut();
        while let Some(it) = past {
            if it.owner == owner {
                changed |= !std::mem::replace(&mut it.hidden, true);
            }
            past = it.before.as_deref_mut();
        }
        changed
    }

    /// Whether there is a former version, most likely because of an open write.
    pub fn has_past(&self) -> bool {
        self.past.is_some()
    }

    /// Number of versions besides the newest and the one before it.
    pub fn versions(&self) -> usize {
        let mut count = 0;
        let mut past = self.past.as_deref().and_then(|past| past.before.as_deref());
        while let Some(it) = past {
            count += 1;
            past = it.before.as_deref();
        }
        count
    }

    pub fn seen(&self) -> Option<EntryState> {
        match self.mark {
            _ if self.removing => None,
            FlowMark::None | FlowMark::Again => Some(EntryState::Present),
            FlowMark::Expired => Some(EntryState::Expired),
            FlowMark::Wrong => Some(EntryState::Wrong),
            FlowMark::Failed | FlowMark::Gone => None,
        }
    }

    pub fn is_special(&self) -> bool {
        self.packed.bytes().first().is_some_and(|kind| *kind != 0)
    }

    /// Whether the entry only becomes ADDED when its batch is settled.
    pub fn is_simple(&self) -> bool {
        self.past.is_none() && !self.removing && self.mark == FlowMark::None
    }

    /// The order within a batch: a meter is put before a group, a group before rules.
    pub fn rank(&self) -> u8 {
        match (self.packed.bytes().first(), self.removing) {
            (Some(2), false) => 0,
            (Some(1), false) => 1,
            (_, false) => 2,
            (Some(2), true) => 5,
            (Some(1), true) => 4,
            (_, true) => 3,
        }
    }
}

pub(crate) fn queue(kept: &mut Kept, id: FlowId, waiting: &mut Vec<FlowId>) {
    if !std::mem::replace(&mut kept.queued, true) {
        waiting.push(id);
    }
}

pub(crate) fn save(kept: &mut Kept, id: FlowId, unsaved: &mut Vec<FlowId>) {
    if !std::mem::replace(&mut kept.unsaved, true) {
        unsaved.push(id);
    }
}

/// Keeps the present version before a change, and older ones as far back as writes are open.
pub(crate) fn push_past(kept: &mut Kept, settled: u64) {
    let before = kept.past.take().filter(|_| kept.serial > settled);
    if kept.mark == FlowMark::Failed {
        return;
    }
    kept.past = Some(Box::new(Past {
        packed: kept.packed.clone(),
        digest: kept.digest,
        serial: kept.serial,
        before,
        owner: kept.owner,
        removing: kept.removing,
        mark: kept.mark,
        hidden: kept.hidden,
    }));
}

/// Removes the version of a write from a chain.
pub(crate) fn unlink(past: &mut Option<Box<Past>>, serial: u64) -> bool {
    let mut link = past;
    while link.as_ref().is_some_and(|it| it.serial != serial) {
        let Some(it) = link else { return false };
        link = &mut it.before;
    }
    match link.take() {
        Some(mut it) => {
            *link = it.before.take();
            true
        }
        None => false,
    }
}

pub(crate) fn record(id: FlowId, kept: &Kept, reason: Option<&Arc<str>>) -> FlowEntryRecord {
    let mut past = Vec::new();
    let mut link = kept.past.as_deref();
    while let Some(it) = link {
        past.push(FlowPast {
            packed: it.packed.clone(),
            serial: it.serial,
            owner: it.owner,
            removing: it.removing,
            mark: it.mark,
            hidden: it.hidden,
        });
        link = it.before.as_deref();
    }
    FlowEntryRecord {
        id,
        packed: kept.packed.clone(),
        serial: kept.serial,
        owner: kept.owner,
        removing: kept.removing,
        mark: kept.mark,
        hidden: kept.hidden,
        reason: reason.cloned(),
        past,
    }
}
