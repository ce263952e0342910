//! The proof of an intent in the data plane: which packets it promises to carry from where to where, and whether
//! a trace of such a packet says that it does.
//!
//! For each port where packets come in there is one promise, with the lowest packet that the selector takes. So a
//! rule of higher priority that takes other packets of the selector is not seen.
//!
//! Absent: the trace (`trace.rs`), and when an intent is verified (`controller/engine/src/intent/proof.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{
    Action, Criterion, DeviceName, Entry, Field, Instruction, Output, Packed, Packet, Port,
};
use thiserror::Error;

use crate::intent::{Intent, Kind};
use crate::topology::{ConnectPoint, Topology};
use crate::trace::{Fate, Loss, Trace};

/// Promises of one intent that are looked at: as many as a switch has ports. Further ones are counted.
pub const PROMISES_MAX: usize = 64;

/// Packets that come in at a port, and where they must arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    pub from: ConnectPoint,
    pub packet: Packet,
    pub to: BTreeSet<ConnectPoint>,
    /// The packet as it arrives, if that is known.
    arrives: Option<Packet>,
    /// The fields of a VLAN tag are not compared: a second tag hides the first one on the way.
    without_tag: bool,
}

/// The reason why a promise is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// Nothing arrives where it must.
    #[error("packets from {from} do not arrive at {at}: {loss}")]
    Lost { from: ConnectPoint, at: ConnectPoint, loss: Loss },
    /// Packets arrive, but not there.
    #[error("packets from {from} do not arrive at {at}, but at {instead}")]
    Missing { from: ConnectPoint, at: ConnectPoint, instead: ConnectPoint },
    /// A copy arrives where none is promised.
    #[error("packets from {from} also arrive at {at}")]
    Elsewhere { from: ConnectPoint, at: ConnectPoint },
    #[error("packets from {from} arrive at {at} with another '{field}'")]
    Changed { from: ConnectPoint, at: ConnectPoint, field: &'static str },
}

/// The promises of an intent, port by port. `rules` are the rules that it has placed: with `partial_failure`, a port
/// without one is not connected.
pub fn promises(topology: &Topology, intent: &Intent, rules: &[(DeviceName, Packed)]) -> Vec<Promise> {
    let packet = Packet::of(&intent.selector);
    if let Some([one, two]) = intent.kind.hosts() {
        let [Some(at), Some(other)] = [one, two].map(|host| topology.host(host)) else { return Vec::new() };
        if at.location == other.location {
            return Vec::new(); // hosts behind one port need no rule
        }
        let directed = |from: &ConnectPoint, to: &ConnectPoint, src: u128, dst: u128| {
            let mut packet = packet.clone();
            packet.set(Field::EthSrc, src, None);
            packet.set(Field::EthDst, dst, None);
            promise(intent, from, packet, [to.clone()].into())
        };
        return vec![
            directed(&at.location, &other.location, one.value(), two.value()),
            directed(&other.location, &at.location, two.value(), one.value()),
        ];
    }
    let connected = Connected::of(rules);
    let is_partial = intent.constraints.partial_failure;
    let is_in = |point: &&ConnectPoint| !is_partial || connected.takes(point);
    let is_out = |point: &&ConnectPoint| !is_partial || connected.sends(point);
    let ingress = intent.kind.ingress().iter().filter(is_in);
    let of = |from: &ConnectPoint| {
        let to = intent.kind.egress().iter().filter(is_out);
        let to = to.filter(|to| leads(&intent.kind, from, to)).cloned().collect();
        promise(intent, from, packet.clone(), to)
    };
    ingress.map(of).collect()
}

fn promise(intent: &Intent, from: &ConnectPoint, packet: Packet, to: BTreeSet<ConnectPoint>) -> Promise {
    let mut arrives = packet.clone();
    let is_known = intent.treatment.iter().all(|action: &Action| arrives.apply(action));
    let arrives = is_known.then(|| arrives.on_the_cable());
    let without_tag = intent.constraints.vlan && packet.get(Field::VlanVid) != 0;
    Promise { from: from.clone(), packet, to, arrives, without_tag }
}

/// Whether packets of an intent that come in at `from` reach the device of `to`. Only the links of a collection may
/// lead elsewhere.
fn leads(kind: &Kind, from: &ConnectPoint, to: &ConnectPoint) -> bool {
    let Kind::LinkCollection { links, .. } = kind else { return true };
    let mut reached: BTreeSet<&DeviceName> = [&from.device].into();
    loop {
        let before = reached.len();
        let next = links.iter().filter(|(start, _)| reached.contains(&start.device));
        let next: Vec<&DeviceName> = next.map(|(_, end)| &end.device).collect();
        reached.extend(next);
        if reached.len() == before {
            return reached.contains(&to.device);
        }
    }
}

/// Ports that rules take packets from, and send packets to.
#[derive(Default)]
struct Connected(BTreeMap<DeviceName, (BTreeSet<Port>, BTreeSet<Port>)>);

impl Connected {
    fn of(rules: &[(DeviceName, Packed)]) -> Self {
        let mut known = Self::default();
        for (device, packed) in rules {
            let Entry::Rule(rule) = packed.unpack() else { continue };
            let (from, to) = known.0.entry(device.clone()).or_default();
            from.extend(rule.selector.into_iter().filter_map(|criterion| match criterion {
                Criterion::InPort(port) => Some(port),
                Criterion::Field { .. } => None,
            }));
            to.extend(rule.treatment.into_iter().filter_map(|instruction| match instruction {
                Instruction::Do(Action::Output(Output::Port(port))) => Some(port),
                Instruction::Do(_)
                | Instruction::Meter(_)
                | Instruction::GotoTable(_)
                | Instruction::WriteMetadata { .. }
                | Instruction::ClearActions
                | Instruction::WriteActions(_) => None,
            }));
        }
        known
    }

    fn takes(&self, point: &ConnectPoint) -> bool {
        self.0.get(&point.device).is_some_and(|(from, _)| from.contains(&point.of_rule()))
    }

    fn sends(&self, point: &ConnectPoint) -> bool {
        self.0.get(&point.device).is_some_and(|(_, to)| to.contains(&point.of_rule()))
    }
}

impl Promise {
    /// The trace that shows whether the promise is kept.
    pub fn trace(&self) -> Trace {
        Trace::new(self.from.clone(), self.packet.clone())
    }

    /// Whether a trace that is over shows that the promise is kept.
    ///
    /// # Errors
    /// The first thing that shows that it is not.
    pub fn judge(&self, trace: &Trace) -> Result<(), Box<Broken>> {
        self.find_broken(trace).map_or(Ok(()), |broken| Err(Box::new(broken)))
    }

    fn find_broken(&self, trace: &Trace) -> Option<Broken> {
        let from = || self.from.clone();
        let delivered = trace.delivered();
        if let Some(at) = self.to.iter().find(|to| !delivered.contains(to)) {
            let at = at.clone();
            // A copy that another rule leads away says more than one that got lost on purpose.
            let instead = delivered.iter().find(|it| !self.to.contains(**it));
            let loss = trace.ends().iter().find_map(|end| end.loss().cloned());
            return Some(match (instead, loss) {
                (Some(instead), None) => Broken::Missing { from: from(), at, instead: (*instead).clone() },
                (_, Some(loss)) => Broken::Lost { from: from(), at, loss },
                (None, None) => {
                    let loss = Loss::Dropped(self.from.device.clone());
                    Broken::Lost { from: from(), at, loss }
                }
            });
        }
        if let Some(at) = delivered.iter().find(|at| !self.to.contains(**at)) {
            return Some(Broken::Elsewhere { from: from(), at: (*at).clone() });
        }
        for end in trace.ends() {
            if let Fate::Delivered { at, packet } = &end.fate
                && let Some(field) = self.differs(packet)
            {
                return Some(Broken::Changed { from: from(), at: at.clone(), field: field.name() });
            }
        }
        None
    }

    /// The first field in which the packet is not as it must arrive.
    fn differs(&self, packet: &Packet) -> Option<Field> {
        let expected = self.arrives.as_ref()?;
        let is_compared =
            |field: &Field| !(self.without_tag && matches!(field, Field::VlanVid | Field::VlanPcp));
        let fields: BTreeSet<Field> =
            expected.fields().chain(packet.fields()).map(|(field, _)| field).collect();
        let mut fields = fields.into_iter().filter(is_compared);
        fields.find(|field| expected.get(*field) != packet.get(*field))
    }
}
