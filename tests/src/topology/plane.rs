//! The rules on bridges, and packets that walk by them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use muster_intent::manager::{IntentNo, Op};
use muster_shared::model::flow::{
    Action, Criterion, DeviceName, Entry, Field, FlowId, Instruction, Output, Packed, Port,
};

use super::shape::{Fabric, cable_of};

/// By bridge and place: whose it is, and what.
pub type Table = BTreeMap<(usize, FlowId), (IntentNo, Packed)>;

/// Does what a write does.
pub fn write(table: &mut Table, device: usize, name: &DeviceName, intent: IntentNo, ops: &[Op]) {
    for op in ops {
        let (Op::Put(packed) | Op::Remove(packed)) = op;
        let place = (device, packed.unpack().id(name));
        match op {
            Op::Put(packed) => drop(table.insert(place, (intent, packed.clone()))),
            Op::Remove(_) => drop(table.remove(&place)),
        }
    }
}

/// The port that packets come in by, and their address.
type Match = (Box<str>, u128);
/// With the port that they go out by.
type Rules = BTreeMap<Match, Box<str>>;

/// The bridges' rules: in their agents' logs, and as packets meet them.
pub struct Plane {
    log: Table,
    /// The rules of each bridge, by port and address: where a packet goes out.
    rules: Vec<Rules>,
}

/// The fate of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet went out there, to a host.
    Out(usize, Box<str>),
    /// No rule is for the packet on this bridge, or its cable is not whole.
    Lost(usize),
    /// The packet came to a bridge's port again.
    Round(Vec<usize>),
}

fn read(packed: &Packed) -> anyhow::Result<(Match, Box<str>)> {
    let Entry::Rule(rule) = packed.unpack() else { anyhow::bail!("{packed:?} is no rule") };
    let (mut port, mut address) = (None, None);
    for criterion in &rule.selector {
        match criterion {
            Criterion::InPort(Port::Named(name)) => port = Some(name.clone()),
            Criterion::Field { field: Field::Ipv4Dst, value, .. } => address = Some(*value),
            Criterion::InPort(_) | Criterion::Field { .. } => {}
        }
    }
    let [Instruction::Do(Action::Output(Output::Port(Port::Named(out))))] = &rule.treatment[..] else {
        anyhow::bail!("{rule:?} does not lead to one port")
    };
    Ok(((port.context("no port")?, address.context("no address")?), out.clone()))
}

impl Plane {
    /// Makes as many bridges without rules.
    pub fn new(devices: usize) -> Self {
        Self { log: Table::new(), rules: vec![Rules::new(); devices] }
    }

    /// A write.
    pub fn apply(
        &mut self,
        device: usize,
        name: &DeviceName,
        intent: IntentNo,
        ops: &[Op],
    ) -> anyhow::Result<()> {
        for op in ops {
            let (Op::Put(packed) | Op::Remove(packed)) = op;
            let owner = self.log.get(&(device, packed.unpack().id(name))).map(|(owner, _)| *owner);
            ensure!(owner.is_none_or(|owner| owner == intent), "{intent:?} touches a rule of {owner:?}");
            let (key, out) = read(packed)?;
            match op {
                Op::Put(_) => drop(self.rules[device].insert(key, out)),
                Op::Remove(_) => drop(self.rules[device].remove(&key)),
            }
        }
        write(&mut self.log, device, name, intent, ops);
        Ok(())
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.iter().map(Rules::len).sum()
    }

    /// Returns the rules on the agents' disks.
    pub fn table(&self) -> Table {
        self.log.clone()
    }

    /// A bridge has lost all it held.
    pub fn empty(&mut self, device: usize) {
        self.rules[device].clear();
    }

    /// And has it again.
    pub fn fill(&mut self, device: usize) {
        let own = self.log.range((device, FlowId(0))..=(device, FlowId(u64::MAX)));
        self.rules[device] = own.filter_map(|(_, (_, packed))| read(packed).ok()).collect();
    }

    /// A packet for an address comes in at a port.
    pub fn walk(
        &self,
        fabric: &Fabric,
        passes: impl Fn(usize) -> bool,
        device: usize,
        port: &str,
        address: u128,
    ) -> Fate {
        let (mut device, mut port): (usize, Box<str>) = (device, port.into());
        let (mut seen, mut way) = (BTreeSet::new(), Vec::new());
        loop {
            way.push(device);
            if !seen.insert((device, port.clone())) {
                return Fate::Round(way);
            }
            let Some(out) = self.rules[device].get(&(port, address)) else { return Fate::Lost(device) };
            let Some(cable) = cable_of(out) else { return Fate::Out(device, out.clone()) };
            if !passes(cable) {
                return Fate::Lost(device);
            }
            let [one, other] = fabric.cables[cable];
            device = if one == device { other } else { one };
            port = out.clone();
        }
    }
}
