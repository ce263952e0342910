//! What an intent placed: the entries that the flow table was told to hold for it, by device and identity.

use std::collections::BTreeMap;

use muster_shared::model::flow::{Entry, Packed};

use super::Op;
use crate::stages::{Identity, identity};
use crate::topology::DeviceNo;

/// As few bytes as can be: there may be hundreds of thousands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed(Box<[(DeviceNo, Packed)]>);

/// A write on its way: what it did, and what was there before.
#[derive(Debug)]
pub(super) struct Open {
    pub device: DeviceNo,
    pub done: Vec<(Op, Option<Packed>)>,
}

impl Placed {
    pub fn of(entries: Vec<(DeviceNo, Packed)>) -> Self {
        Self(entries.into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (DeviceNo, &Packed)> {
        self.0.iter().map(|(device, packed)| (*device, packed))
    }

    pub fn has(&self, device: DeviceNo, packed: &Packed) -> bool {
        self.iter().any(|held| held == (device, packed))
    }

    pub fn entries(&self) -> Vec<(DeviceNo, Entry)> {
        self.0.iter().map(|(device, packed)| (*device, packed.unpack())).collect()
    }

    /// Does what a write does, and gives what was there.
    pub fn apply(&mut self, by_device: &BTreeMap<DeviceNo, Vec<Op>>) -> BTreeMap<DeviceNo, Open> {
        let held: Vec<(DeviceNo, Packed)> = std::mem::take(&mut self.0).into();
        // Those of other devices stay as they are.
        let is_met = |(device, _): &(DeviceNo, Packed)| by_device.contains_key(device);
        let (met, mut all): (Vec<_>, Vec<_>) = held.into_iter().partition(is_met);
        let entries: Vec<Entry> = met.iter().map(|(_, packed)| packed.unpack()).collect();
        let mut places: BTreeMap<(DeviceNo, Identity<'_>), Packed> = entries
            .iter()
            .zip(met)
            .map(|(entry, (device, packed))| ((device, identity(entry)), packed))
            .collect();
        let ops = by_device.iter().flat_map(|(device, ops)| ops.iter().map(|op| (*device, op)));
        let ops: Vec<(DeviceNo, &Op, Entry)> = ops
            .map(|(device, op)| {
                let (Op::Put(packed) | Op::Remove(packed)) = op;
                (device, op, packed.unpack())
            })
            .collect();
        let mut opened: BTreeMap<DeviceNo, Open> = BTreeMap::new();
        for (device, op, entry) in &ops {
            let place = (*device, identity(entry));
            let before = match op {
                Op::Put(packed) => places.insert(place, packed.clone()),
                Op::Remove(_) => places.remove(&place),
            };
            let open = opened.entry(*device).or_insert(Open { device: *device, done: Vec::new() });
            open.done.push(((*op).clone(), before));
        }
        all.extend(places.into_iter().map(|((device, _), packed)| (device, packed)));
        all.sort_by_key(|(device, _)| *device);
        self.0 = all.into();
        opened
    }

    /// Nothing of a write happened: what it changed is again what it was, where nothing came after it. Gives what was new:
    /// that stays in the table as FAILED, and has to be taken out of it, or put there again.
    pub fn undo(&mut self, open: &Open) -> Vec<(DeviceNo, Packed)> {
        let mut failed = Vec::new();
        let mut all: Vec<(DeviceNo, Packed)> = std::mem::take(&mut self.0).into();
        for (op, before) in &open.done {
            let (Op::Put(packed) | Op::Remove(packed)) = op;
            let entry = packed.unpack();
            let is_there = |(device, held): &(DeviceNo, Packed)| {
                *device == open.device && held.unpack().has_place_of(&entry)
            };
            let at = all.iter().position(is_there);
            match (op, before, at) {
                (Op::Put(put), Some(before), Some(at)) if all[at].1 == *put => all[at].1 = before.clone(),
                (Op::Put(put), None, Some(at)) if all[at].1 == *put => failed.push(all.remove(at)),
                (Op::Remove(_), Some(before), None) => all.push((open.device, before.clone())),
                _ => {}
            }
        }
        all.sort_by_key(|(device, _)| *device);
        self.0 = all.into();
        failed
    }
}
