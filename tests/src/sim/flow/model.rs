//! The reference model of flow tables, from what operators asked for: operations as data, in the order in which their
//! stages began on a device, and how each is known to have ended. The last operation on an entry that ended well
//! decides what the entry must be in the end.

use std::collections::{BTreeMap, BTreeSet};

use muster_flow::OperationStatus;
use muster_flow::record::{FlowOperationRecord, FlowSnapshot};
use muster_shared::model::flow::{DeviceName, FlowId, Packed};

/// The entries that a stage makes of a device, or nothing in their place.
pub type Change = BTreeMap<FlowId, Option<Packed>>;
/// The stages of an operation, each with its devices.
pub type Stages = Vec<BTreeMap<DeviceName, Change>>;

/// A write and its operation, what it makes of an entry, and whether it went well, where that is known.
type Write = ((u64, u64), Option<Packed>, Option<bool>);

/// The write, what it made, and whether that is known to be on the device.
type LastWrite = (u64, Packed, bool);

/// Entries that stay as they are, each until this write of it, which was not decided then, or a later one is on the device.
pub type Left = BTreeMap<FlowId, u64>;

/// The number for an entry that no write waited for.
pub const FOR_GOOD: u64 = u64::MAX;

/// The requests of operators about flow tables.
#[derive(Clone, Default)]
pub struct Model {
    /// The request of this moment.
    expected: Option<Stages>,
    asked: BTreeMap<u64, Stages>,
    /// Operation, stage and device, with the write that decides.
    parts: BTreeMap<(u64, usize, DeviceName), u64>,
    ended: BTreeMap<u64, FlowOperationRecord>,
    /// Entries that operators do not want any more and that were not there, with the newest write by then.
    dropped: BTreeMap<(DeviceName, FlowId), Vec<u64>>,
    /// Entries that a resource left to operators, with the write that made each, and whether that is on the device.
    given: BTreeMap<(DeviceName, FlowId), Vec<LastWrite>>,
    /// Entries that operators were taking away and somebody else wants meanwhile, with the newest write that was seen
    /// of each.
    taking: BTreeMap<(DeviceName, FlowId), u64>,
    /// Entries of `taking` whose write is on the device: they are no operator's any more, also if removing one failed.
    taken: BTreeMap<(DeviceName, FlowId), Vec<u64>>,
    /// Entries that operators have said are to stay on a device as they are, whatever the table says.
    pub left: BTreeMap<DeviceName, Left>,
    /// Tables that operators let the controller forget: their rules stay there until something is written to them again.
    pub forgotten: BTreeSet<DeviceName>,
}

/// The knowledge about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The entry must be this, or not be there.
    Is(Option<Packed>),
    OneOf(Vec<Option<Packed>>),
}

impl Model {
    /// Notes a request before it is made.
    pub fn expect(&mut self, stages: Stages) {
        self.expected = Some(stages);
    }

    /// The request was refused, or has started, or nobody knows.
    pub fn expected(&mut self) {
        self.expected = None;
    }

    /// An operation changed; what is wrong with that comes back.
    pub fn operation_went(&mut self, record: &FlowOperationRecord) -> Option<String> {
        let id = record.id;
        if !self.asked.contains_key(&id) {
            let Some(stages) = self.expected.take() else {
                return Some(format!("operation {id} on flow tables began unasked: {record:?}"));
            };
            self.asked.insert(id, stages);
        }
        if record.status != OperationStatus::InProgress {
            let old = self.ended.insert(id, record.clone());
            if old.is_some_and(|old| old.status != record.status) {
                return Some(format!("operation {id} on flow tables has ended twice: {record:?}"));
            }
            if record.status == OperationStatus::Failed && record.errors.is_empty() {
                return Some(format!("operation {id} on flow tables FAILED without a reason"));
            }
        }
        None
    }

    /// Everything of a commit is durable; what is wrong with that comes back.
    pub fn committed(&mut self, flows: &FlowSnapshot) -> Option<String> {
        for (&(id, number), part) in &flows.parts {
            let Some((record, _)) = flows.operations.get(&id) else {
                return Some(format!("a part of operation {id}, which there is not"));
            };
            let stage = usize::try_from(record.stage).unwrap_or(usize::MAX);
            let Some(device) = flows.devices.get(&number) else {
                return Some(format!("a part of operation {id} on device {number}, which there is not"));
            };
            let name = DeviceName { node: device.node.clone(), bridge: device.bridge.clone() };
            let open = |other: usize| {
                let before = self.parts.keys().find(|(of, stage, _)| *of == id && *stage == other)?;
                let number = flows
                    .devices
                    .values()
                    .find(|it| it.node == before.2.node && it.bridge == before.2.bridge)?;
                let part = flows.parts.get(&(id, number.device))?;
                (self.parts.get(before) == Some(&part.serial)).then(|| before.2.clone())
            };
            let is_new = !self.parts.contains_key(&(id, stage, name.clone()));
            if let Some(other) = (0..stage).find_map(open).filter(|other| is_new && *other != name) {
                return Some(format!("stage {stage} of operation {id} begins while {other} is not done"));
            }
            self.parts.insert((id, stage, name), part.serial);
        }
        self.takes(flows);
        None
    }

    /// Notes that somebody else wants an entry that operators are taking away, by this write, which may yet fail.
    pub fn is_taking(&mut self, device: DeviceName, id: FlowId, serial: u64) {
        self.taking.insert((device, id), serial);
    }

    /// Moves the entries whose write has ended from `taking` to `taken`. An entry that is gone has no owner.
    fn takes(&mut self, flows: &FlowSnapshot) {
        let taking = std::mem::take(&mut self.taking);
        for ((name, id), seen) in taking {
            let device = flows.devices.values().find(|it| it.node == name.node && it.bridge == name.bridge);
            let Some(device) = device else { continue };
            let serial = match flows.entries.get(&(device.device, id)) {
                None => seen,
                Some(entry) if entry.owner.is_unnamed_operator() => continue,
                Some(entry) if entry.serial > device.settled => {
                    self.taking.insert((name, id), entry.serial);
                    continue;
                }
                Some(entry) => entry.serial,
            };
            self.taken.entry((name, id)).or_default().push(serial);
        }
    }

    /// A resource left an entry to operators; `known`: it is on the device.
    pub fn is_given(&mut self, device: DeviceName, id: FlowId, serial: u64, packed: Packed, known: bool) {
        self.given.entry((device, id)).or_default().push((serial, packed, known));
    }

    /// An entry that was not on its device went at once, if an operator ever asked for that.
    pub fn is_dropped(&mut self, device: DeviceName, id: FlowId, serial: u64) {
        let removes = |stages: &Stages| {
            stages.iter().any(|stage| stage.get(&device).is_some_and(|change| change.get(&id) == Some(&None)))
        };
        if self.asked.values().any(removes) {
            self.dropped.entry((device, id)).or_default().push(serial);
        }
    }

    /// A table is gone.
    pub fn forgets(&mut self, device: &DeviceName) {
        self.parts.retain(|(_, _, of), _| of != device);
        self.given.retain(|(of, _), _| of != device);
        self.dropped.retain(|(of, _), _| of != device);
        self.taking.retain(|(of, _), _| of != device);
        self.taken.retain(|(of, _), _| of != device);
    }

    /// Whether a part went well; none: nobody can know.
    fn went_well(&self, id: u64, stage: usize, device: &DeviceName) -> Option<bool> {
        let record = self.ended.get(&id)?;
        let last = usize::try_from(record.stage).unwrap_or(usize::MAX);
        let failed = record.errors.iter().any(|error| error.device == device.to_string());
        Some(record.status == OperationStatus::Complete || stage < last || !failed)
    }

    /// The entries of operators that must be on a device, by id.
    pub fn wanted(&self, device: &DeviceName) -> BTreeMap<FlowId, Wanted> {
        self.writes(device).into_iter().map(|(id, writes)| (id, last_of(writes))).collect()
    }

    /// The writes to an entry, for reports.
    pub fn history(&self, device: &DeviceName, id: FlowId) -> String {
        format!("{:?}", self.writes(device).remove(&id).unwrap_or_default())
    }

    fn writes(&self, device: &DeviceName) -> BTreeMap<FlowId, Vec<Write>> {
        let mut writes: BTreeMap<FlowId, Vec<Write>> = BTreeMap::new();
        for ((id, stage, of), serial) in &self.parts {
            let change = self.asked.get(id).and_then(|stages| stages.get(*stage)?.get(of));
            let went = self.went_well(*id, *stage, of);
            for (entry, packed) in change.into_iter().flatten().filter(|_| of == device) {
                writes.entry(*entry).or_default().push(((*serial, *id), packed.clone(), went));
            }
        }
        // Before the shares that the same write gave back.
        for ((_, entry), taken) in self.taken.iter().filter(|((of, _), _)| of == device) {
            let taken = taken.iter().map(|serial| ((*serial, 0), None, Some(true)));
            writes.entry(*entry).or_default().extend(taken);
        }
        for ((of, entry), given) in self.given.iter().filter(|((of, _), _)| of == device) {
            debug_assert_eq!(of, device);
            for (serial, packed, known) in given {
                let write = ((*serial, 0), Some(packed.clone()), known.then_some(true));
                writes.entry(*entry).or_default().push(write);
            }
        }
        for ((_, entry), dropped) in self.dropped.iter().filter(|((of, _), _)| of == device) {
            for serial in dropped {
                writes.entry(*entry).or_default().push(((*serial, u64::MAX), None, Some(true)));
            }
        }
        writes
    }
}

fn last_of(mut writes: Vec<Write>) -> Wanted {
    writes.sort_by_key(|(order, ..)| *order);
    let (mut may, mut is_sure) = (Vec::new(), false);
    for (_, packed, went) in writes.into_iter().rev() {
        match went {
            Some(false) => {}
            Some(true) => {
                may.push(packed);
                is_sure = true;
                break;
            }
            None => may.push(packed),
        }
    }
    if !may.is_empty() && !is_sure {
        may.push(None);
    }
    match may.len() {
        0 => Wanted::Is(None),
        1 => Wanted::Is(may.remove(0)),
        _ => Wanted::OneOf(may),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_that_went_well_counts() {
        let none = |order, went| ((order, order), None, went);
        assert_eq!(last_of(vec![]), Wanted::Is(None));
        assert_eq!(last_of(vec![none(2, Some(true)), none(1, Some(false))]), Wanted::Is(None));
        assert_eq!(last_of(vec![none(2, None), none(1, Some(true))]), Wanted::OneOf(vec![None, None]));
    }
}
