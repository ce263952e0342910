//! What an intent placed: the entries that the flow table was told to hold for it, by device and identity.

use std::collections::BTreeMap;

use muster_shared::model::flow::{Action, Entry, Packed};

use super::Op;
use crate::compile::{vlan, vlan_set};
use crate::stages::{Identity, actions, identity, ingress, outputs};
use crate::topology::{DeviceNo, PortNo, Topology};

/// As few bytes as can be: there may be hundreds of thousands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed(Box<[(DeviceNo, Packed)]>);

/// What a flow table has in the place of an entry, as far as it is the intent's, by the newest write that has not failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lies {
    /// Nothing, or what is on its way off.
    Nothing,
    /// This, or it is on its way.
    Entry(Packed),
    /// This as FAILED: it has to be taken out of the table, or put there again.
    Failed(Packed),
}

/// A write on its way.
#[derive(Debug)]
pub(super) struct Open {
    pub device: DeviceNo,
    pub ops: Vec<Op>,
    /// What may be in the places of these as long as it is on its way.
    pub before: Vec<Packed>,
}

/// Where packets with a label come in by a rule, and the label: at its own port, and where it sends them on to, by any cable
/// that was ever there.
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

    /// Does what writes do; what was in their places, and whether they put something over it.
    pub fn apply(&mut self, by_device: &BTreeMap<DeviceNo, Vec<Op>>) -> (Vec<(DeviceNo, Packed)>, bool) {
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

    /// In the place of an entry there is this.
    pub fn set(&mut self, device: DeviceNo, of: &Packed, lies: Option<Packed>) {
        let entry = of.unpack();
        let mut all: Vec<(DeviceNo, Packed)> = std::mem::take(&mut self.0).into();
        all.retain(|(at, held)| *at != device || identity(&held.unpack()) != identity(&entry));
        all.extend(lies.map(|packed| (device, packed)));
        all.sort_by_key(|(device, _)| *device);
        self.0 = all.into();
    }
}
