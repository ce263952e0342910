//! An entry of a table: what it is to be, how it stands, and what it was before a write that may not be decided yet.

use std::hash::Hasher;
use std::sync::Arc;

use muster_intent::manager::IntentNo;
use muster_shared::model::flow::{EntryState, FlowId, Packed};

use crate::record::{FlowEntryRecord, FlowMark, FlowPast};

/// Whose an entry is: the row of a resource, an intent, or 0 for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

impl Owner {
    /// `muster flow apply`, what was imported, and what a resource left to operators.
    pub const OPERATOR: Owner = Owner(0);

    /// Numbers of intents begin above those of rows.
    const INTENTS: u64 = 1 << 62;

    /// An intent.
    pub fn intent(no: IntentNo) -> Owner {
        Owner(Self::INTENTS | no.0)
    }

    /// Which intent, if it is one.
    pub fn as_intent(self) -> Option<IntentNo> {
        let is_one = self.0 & Self::INTENTS != 0 && !self.is_operator();
        is_one.then_some(IntentNo(self.0 & !Self::INTENTS))
    }

    /// No resource.
    pub fn is_operator(self) -> bool {
        self == Self::OPERATOR
    }
}

/// An id is a hash already.
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
        // The table looks at the upper bits, and those of an id are its prefix.
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ id;
    }
}

/// How an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowStanding {
    /// On its way to the device, or to be put right there.
    PendingAdd,
    /// The device has it.
    Added,
    /// On its way off the device.
    PendingRemove,
    /// The device would not have it.
    Failed,
    /// It ended by its own timeout, and stays gone.
    Expired,
}

impl FlowStanding {
    /// All, as operators see them.
    pub const ALL: [Self; 5] =
        [Self::PendingAdd, Self::Added, Self::PendingRemove, Self::Failed, Self::Expired];

    /// As operators see it.
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

/// An entry, as its newest write wants it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub packed: Packed,
    pub digest: u64,
    pub serial: u64,
    pub(crate) past: Option<Box<Past>>,
    pub owner: Owner,
    pub removing: bool,
    pub mark: FlowMark,
    /// Something hidden went into it. So it stays, whoever owns it, until it is put by one that hides nothing.
    pub hidden: bool,
    pub(crate) queued: bool,
    pub(crate) unsaved: bool,
}

/// What an entry was before a write that may not be decided yet.
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

/// What a write that is not decided wants of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenWrite<'k> {
    pub serial: u64,
    pub owner: Owner,
    pub removing: bool,
    pub packed: &'k Packed,
    past: Option<&'k Past>,
}

impl<'k> OpenWrite<'k> {
    /// What of its owner may be there until it is decided.
    pub fn before(&self) -> impl Iterator<Item = &'k Packed> {
        let owner = self.owner;
        let past = std::iter::successors(self.past, |it| it.before.as_deref());
        past.filter(move |it| it.owner == owner).map(|it| &it.packed)
    }
}

/// What a write did to one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is on its way.
    Changed,
    /// It is so already, by this earlier write.
    Same(u64),
    /// Gone at once, or never there.
    Nothing,
}

impl Kept {
    /// A write after `settled` and up to `upto` has changed it, besides the newest.
    pub(crate) fn changed_since(&self, settled: u64, upto: u64) -> bool {
        self.open_writes(settled).skip(1).any(|write| write.serial <= upto)
    }

    /// The writes that are not decided, newest first.
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

    /// A write of another that is not decided took it over: it is this owner's again if that fails.
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

    /// What it is, and was before a write that is not decided, as far as something hidden went into that.
    pub fn hidden(&self) -> impl Iterator<Item = &Packed> {
        let past = std::iter::successors(self.past.as_deref(), |it| it.before.as_deref());
        let all = std::iter::once((self.hidden, &self.packed)).chain(past.map(|it| (it.hidden, &it.packed)));
        all.filter(|(hidden, _)| *hidden).map(|(_, packed)| packed)
    }

    /// What this owner made of it hides something; false if that was known.
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

    /// A write that is not decided has changed it, most likely.
    pub fn has_past(&self) -> bool {
        self.past.is_some()
    }

    /// Versions besides the newest and the one before.
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

    /// Being ADDED is all that happens to it when its batch is settled.
    pub fn is_simple(&self) -> bool {
        self.past.is_none() && !self.removing && self.mark == FlowMark::None
    }

    /// What a batch carries first: a meter, then a group.
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

/// Before it is changed: what it was, and as far back as that is not decided.
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

/// Takes the version of a write out of a chain.
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
