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
        let mut all: BTreeMap<(DeviceNo, Identity), Packed> = std::mem::take(&mut self.0)
            .into_iter()
            .map(|(device, packed)| ((device, identity(&packed.unpack())), packed))
            .collect();
        let mut opened = BTreeMap::new();
        for (device, ops) in by_device {
            let mut done = Vec::with_capacity(ops.len());
            for op in ops {
                let (Op::Put(packed) | Op::Remove(packed)) = op;
                let place = (*device, identity(&packed.unpack()));
                let before = match op {
                    Op::Put(packed) => all.insert(place, packed.clone()),
                    Op::Remove(_) => all.remove(&place),
                };
                done.push((op.clone(), before));
            }
            opened.insert(*device, Open { device: *device, done });
        }
        self.0 = all.into_iter().map(|((device, _), packed)| (device, packed)).collect();
        opened
    }

    /// Nothing of a write happened: what it changed is again what it was, where nothing came after it. Gives what was new:
    /// that stays in the table as FAILED, and has to be taken out of it, or put there again.
    pub fn undo(&mut self, open: &Open) -> Vec<(DeviceNo, Packed)> {
        let mut failed = Vec::new();
        let mut all: Vec<(DeviceNo, Packed)> = std::mem::take(&mut self.0).into();
        for (op, before) in &open.done {
            let (Op::Put(packed) | Op::Remove(packed)) = op;
            let place = identity(&packed.unpack());
            let at = all
                .iter()
                .position(|(device, held)| *device == open.device && identity(&held.unpack()) == place);
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
