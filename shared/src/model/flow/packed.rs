//! Entries as bytes: the form in which thousands are stored, and from which digests are computed. Decides which
//! entries have one id, because they take one place on a device.
//!
//! Absent: who is refused when two owners want one place (`controller/flow/src/owner.rs`).

use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use super::{
    Action, BANDS_MAX, Band, CRITERIA_MAX, Criterion, DeviceName, Entry, FlowId, GROUP_BUCKETS_MAX, Group,
    ID_PREFIX, INSTRUCTIONS_MAX, Instruction, Meter, Output, Port, Rule,
};

/// Bytes of a packed entry: a group with all its buckets needs the most.
pub const ENTRY_MAX: usize = 16 * 1024;

/// An entry in its canonical bytes: postcard of [`Entry`]. A clone is the same bytes: tables, records and
/// versions of an entry share them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packed(Arc<[u8]>);

/// Bytes that are no entry, or not in canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a flow rule, group or meter in canonical form")]
pub struct NotAnEntry;

/// Room for an entry as most are: without it the bytes move five times while they grow.
const USUAL: usize = 256;

fn in_room(value: &impl Serialize) -> postcard::Result<Vec<u8>> {
    postcard::to_extend(value, Vec::with_capacity(USUAL))
}

impl Packed {
    /// Packs an entry.
    ///
    /// # Errors
    /// The entry is not canonical, or exceeds a bound.
    pub fn new(entry: &Entry) -> Result<Self, NotAnEntry> {
        if !entry.is_canonical() {
            return Err(NotAnEntry);
        }
        let bytes = in_room(entry).map_err(|_| NotAnEntry)?;
        if bytes.len() > ENTRY_MAX { Err(NotAnEntry) } else { Ok(Self(bytes.into())) }
    }

    /// Reads stored or sent bytes.
    ///
    /// # Errors
    /// [`NotAnEntry`]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotAnEntry> {
        Self::read(bytes)?;
        Ok(Self(bytes.into()))
    }

    /// The entry in such bytes.
    ///
    /// # Errors
    /// [`NotAnEntry`]
    pub fn read(bytes: &[u8]) -> Result<Entry, NotAnEntry> {
        if bytes.len() > ENTRY_MAX {
            return Err(NotAnEntry);
        }
        let (entry, rest) = postcard::take_from_bytes::<Entry>(bytes).map_err(|_| NotAnEntry)?;
        // Bytes that would be packed differently, such as a number with leading zeros, are not
        // canonical either.
        let same = rest.is_empty() && entry.is_canonical();
        if same && in_room(&entry).is_ok_and(|again| again == bytes) { Ok(entry) } else { Err(NotAnEntry) }
    }

    /// The bytes in their stored form.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn unpack(&self) -> Entry {
        postcard::from_bytes(&self.0).expect("packed by new(), or checked by from_bytes()")
    }

    /// The digest of the content: equal for equal entries.
    pub fn digest(&self) -> u64 {
        first(blake3::hash(&self.0))
    }
}

impl Entry {
    /// The same for everything that takes the same place on the device: a rule of this table, priority and
    /// selector, a group or a meter of this number.
    pub fn id(&self, device: &DeviceName) -> FlowId {
        let place = match self {
            Entry::Rule(rule) => in_room(&(0u8, rule.table, rule.priority, &rule.selector)),
            Entry::Group(group) => in_room(&(1u8, group.number)),
            Entry::Meter(meter) => in_room(&(2u8, meter.number)),
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(device.node.as_str().as_bytes());
        hasher.update(b"/");
        hasher.update(device.bridge.as_str().as_bytes());
        hasher.update(b"\0");
        hasher.update(&place.unwrap_or_default());
        FlowId(u64::from(ID_PREFIX) << 48 | first(hasher.finalize()) >> 16)
    }

    /// Whether both take the same place: only then may they have the same id.
    pub fn has_place_of(&self, other: &Entry) -> bool {
        match (self, other) {
            (Entry::Rule(a), Entry::Rule(b)) => {
                (a.table, a.priority, &a.selector) == (b.table, b.priority, &b.selector)
            }
            (Entry::Group(a), Entry::Group(b)) => a.number == b.number,
            (Entry::Meter(a), Entry::Meter(b)) => a.number == b.number,
            (Entry::Rule(_) | Entry::Group(_) | Entry::Meter(_), _) => false,
        }
    }

    /// Whether the entry has its one canonical form and keeps every bound.
    pub fn is_canonical(&self) -> bool {
        match self {
            Entry::Rule(rule) => rule.is_canonical(),
            Entry::Group(group) => group.is_canonical(),
            Entry::Meter(meter) => meter.is_canonical(),
        }
    }
}

impl Rule {
    fn is_canonical(&self) -> bool {
        let in_order = self.selector.windows(2).all(|pair| pair[0].order() < pair[1].order());
        self.table != u8::MAX
            && self.selector.len() <= CRITERIA_MAX
            && in_order
            && self.selector.iter().all(Criterion::is_canonical)
            && self.treatment.len() <= INSTRUCTIONS_MAX
            && self.treatment.iter().all(Instruction::is_canonical)
    }
}

impl Group {
    fn is_canonical(&self) -> bool {
        self.number <= 0xffff_ff00
            && self.buckets.len() <= GROUP_BUCKETS_MAX
            && self.buckets.iter().all(|bucket| {
                bucket.watch_port.as_ref().is_none_or(Port::is_canonical) && are_canonical(&bucket.treatment)
            })
    }
}

impl Meter {
    fn is_canonical(&self) -> bool {
        (1..=0xffff_0000).contains(&self.number)
            && (1..=BANDS_MAX).contains(&self.bands.len())
            && self.bands.iter().all(|band: &Band| band.rate > 0)
    }
}

impl Criterion {
    /// The position of the criterion in a selector.
    pub fn order(&self) -> u8 {
        match self {
            Criterion::InPort(_) => 0,
            Criterion::Field { field, .. } => 1 + *field as u8,
        }
    }

    fn is_canonical(&self) -> bool {
        match self {
            Criterion::InPort(port) => port.is_canonical(),
            Criterion::Field { field, value, mask } => is_value(field.bits(), *value, *mask),
        }
    }
}

impl Port {
    fn is_canonical(&self) -> bool {
        match self {
            // May be longer than the kernel's: the switch has ports of its own, such as tunnels.
            Port::Named(name) => Port::is_name(name),
            Port::Local => true,
        }
    }
}

fn are_canonical(actions: &[Action]) -> bool {
    actions.len() <= INSTRUCTIONS_MAX && actions.iter().all(Action::is_canonical)
}

impl Instruction {
    fn is_canonical(&self) -> bool {
        match self {
            Instruction::Do(action) => action.is_canonical(),
            Instruction::WriteMetadata { value, mask } => is_value(64, (*value).into(), mask.map(u128::from)),
            Instruction::WriteActions(actions) => are_canonical(actions),
            Instruction::Meter(_) | Instruction::GotoTable(_) | Instruction::ClearActions => true,
        }
    }
}

impl Action {
    fn is_canonical(&self) -> bool {
        match self {
            Action::Output(Output::Port(port)) => port.is_canonical(),
            Action::Set { field, value, mask } => is_value(field.bits(), *value, *mask),
            Action::Ct(ct) => ct
                .mark
                .is_none_or(|(value, mask)| ct.commit && is_value(32, value.into(), mask.map(u128::from))),
            Action::Output(_)
            | Action::Group(_)
            | Action::SetQueue(_)
            | Action::Resubmit(_)
            | Action::PushVlan(_)
            | Action::PopVlan
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::DecTtl
            | Action::DecMplsTtl => true,
        }
    }
}

/// A mask leaves something out and something in, and the value has nothing outside it.
fn is_value(bits: u32, value: u128, mask: Option<u128>) -> bool {
    let all = u128::MAX >> (128 - bits);
    match mask {
        None => value & !all == 0,
        Some(mask) => mask & !all == 0 && mask != 0 && mask != all && value & !mask == 0,
    }
}

fn first(hash: blake3::Hash) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

impl Serialize for Packed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Packed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = <Vec<u8>>::deserialize(deserializer)?;
        Self::from_bytes(&bytes).map_err(serde::de::Error::custom)
    }
}
