//! Placed rules: the entries that an intent told the flow table to hold, by device and identity.

use std::collections::BTreeMap;

use muster_shared::model::flow::{Action, Entry, Packed};

use super::Op;
use crate::compile::{vlan, vlan_set};
use crate::stages::{Identity, actions, identity, ingress, outputs};
use crate::topology::{DeviceNo, PortNo, Topology};

/// Packed to as few bytes as possible, because there may be hundreds of thousands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed(Box<[(DeviceNo, Packed)]>);

/// The intent's entry in a flow table, by the newest write that has not failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableEntry {
    /// No entry, or one that is being removed.
    Nothing,
    /// This entry, or one that is being put.
    Entry(Packed),
    /// This entry, as FAILED: it must be removed from the table or put there again.
    Failed(Packed),
}

/// A write under way.
#[derive(Debug)]
pub(super) struct Open {
    pub device: DeviceNo,
    pub ops: Vec<Op>,
    /// Entries that devices may have instead until the write ends.
    pub before: Vec<Packed>,
}

/// Ports where packets with a label come in by a rule, and the label: the rule's own port, and the
/// ports behind its outputs, over any cable that was ever there.
pub(super) fn labelled(topology: &Topology, device: DeviceNo, packed: &Packed) -> Vec<(PortNo, u16)> {
    let entry = packed.unpack();
    let Entry::Rule(rule) = &entry else { return Vec::new() };
    let comes = vlan(&rule.selector);
    let goes = if actions(&entry).any(|action| *action == Action::PopVlan) {
        None
    } else {
        actions(&entry).find_map(vlan_set).or(comes)
    };
    let own = ingress(topology, device, &entry).zip(comes);
    let next = goes.into_iter().flat_map(|label| {
        let links = outputs(topology, device, &entry).flat_map(|port| topology.links_out_of(port));
        links.map(move |link| (topology.ends(*link).1, label))
    });
    own.into_iter().chain(next).collect()
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

    /// Applies writes. Returns the entries that they replace or remove, and whether one is replaced.
    pub fn apply(&mut self, by_device: &BTreeMap<DeviceNo, Vec<Op>>) -> (Vec<(DeviceNo, Packed)>, bool) {
        let held: Vec<(DeviceNo, Packed)> = std::mem::take(&mut self.0).into();
        // Entries of other devices stay as they are.
        let is_met = |(device, _): &(DeviceNo, Packed)| by_device.contains_key(device);
        let (met, mut all): (Vec<_>, Vec<_>) = held.into_iter().partition(is_met);
        let entries: Vec<Entry> = met.iter().map(|(_, packed)| packed.unpack()).collect();
        let mut places: BTreeMap<(DeviceNo, Identity<'_>), Packed> = entries
            .iter()
            .zip(met)
            .map(|(entry, (device, packed))| ((device, identity(entry)), packed))
            .collect();
        let ops = by_device.iter().flat_map(|(device, ops)| ops.iter().map(|op| (*device, op)));
        let ops: Vec<(DeviceNo, &Op, Entry)> =
            ops.map(|(device, op)| (device, op, op.packed().unpack())).collect();
        let (mut before, mut over) = (Vec::new(), false);
        for (device, op, entry) in &ops {
            let place = (*device, identity(entry));
            let was = match op {
                Op::Put(packed) => places.insert(place, packed.clone()),
                Op::Remove(_) => places.remove(&place),
            };
            over |= was.is_some() && matches!(op, Op::Put(_));
            before.extend(was.map(|was| (*device, was)));
        }
        all.extend(places.into_iter().map(|((device, _), packed)| (device, packed)));
        all.sort_by_key(|(device, _)| *device);
        self.0 = all.into();
        (before, over)
    }

    /// Sets the entry with the identity of `of`.
    pub fn set(&mut self, device: DeviceNo, of: &Packed, lies: Option<Packed>) {
        let entry = of.unpack();
        let mut all: Vec<(DeviceNo, Packed)> = std::mem::take(&mut self.0).into();
        all.retain(|(at, held)| *at != device || identity(&held.unpack()) != identity(&entry));
        all.extend(lies.map(|packed| (device, packed)));
        all.sort_by_key(|(device, _)| *device);
        self.0 = all.into();
    }
}
