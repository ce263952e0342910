//! Packets as a trace knows them, and what a switch says that it would do with one.
//!
//! Absent: the way through several switches (`controller/intent/src/trace.rs`), and the switch's own words
//! (`agent/host/src/openflow/trace.rs`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Action, Bridge, Criterion, Field, FlowId, Rule};

/// The most steps in one answer: the switch gives up after as many lookups.
pub const TRACE_STEPS_MAX: usize = 256;
/// Bytes of a text of the switch in an answer.
pub const TRACE_TEXT_MAX: usize = 256;
/// The bit in a VLAN field that means "there is a tag".
const TAGGED: u128 = 0x1000;

/// A packet, as far as it is known: fields with all of their bits. A field that is absent is zero.
///
/// Only the outermost of several VLAN tags is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet(BTreeMap<Field, u128>);

/// A question to a switch: what would it do with this packet?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceQuestion {
    /// The interface where the packet comes in.
    pub in_port: Box<str>,
    pub packet: Packet,
}

/// A step of the switch with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// A rule takes the packet.
    Rule {
        bridge: Bridge,
        table: u8,
        cookie: u64,
        /// The match of the rule, in the switch's words. Empty for rules of ours: the controller has those.
        matches: String,
    },
    /// No rule of the table takes the packet.
    Miss { bridge: Bridge, table: u8 },
    /// A copy of the packet leaves. A patch port is not one of these: the steps of its peer follow.
    Output {
        bridge: Bridge,
        /// The interface.
        port: Box<str>,
        packet: Packet,
    },
    /// A copy goes to an OpenFlow controller.
    Controller { bridge: Bridge },
    /// The switch does not do what a rule says.
    Refused {
        bridge: Bridge,
        /// The switch's own words.
        why: String,
    },
    /// The packet changes in a way that is not understood, so what follows is unknown.
    Unclear {
        bridge: Bridge,
        /// The action in the switch's words.
        action: String,
    },
}

impl Packet {
    /// The lowest packet that a selector takes. The port where the packet comes in is no part of it.
    pub fn of(selector: &[Criterion]) -> Self {
        let field = |criterion: &Criterion| match criterion {
            Criterion::Field { field, value, .. } => Some((*field, *value)),
            Criterion::InPort(_) => None,
        };
        Self(selector.iter().filter_map(field).collect())
    }

    /// The packet of these fields, if each value fits its field.
    pub fn from_fields(fields: impl IntoIterator<Item = (Field, u128)>) -> Option<Self> {
        let packet: BTreeMap<Field, u128> = fields.into_iter().collect();
        packet.iter().all(|(field, value)| value & !field.all_bits() == 0).then_some(Self(packet))
    }

    /// The known fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = (Field, u128)> + '_ {
        self.0.iter().map(|(field, value)| (*field, *value))
    }

    /// The value of a field; 0 if it is unknown.
    pub fn get(&self, field: Field) -> u128 {
        self.0.get(&field).copied().unwrap_or(0)
    }

    /// Sets the bits of `mask`, or the whole field.
    pub fn set(&mut self, field: Field, value: u128, mask: Option<u128>) {
        let mask = mask.unwrap_or(field.all_bits()) & field.all_bits();
        self.0.insert(field, self.get(field) & !mask | value & mask);
    }

    pub fn push_vlan(&mut self) {
        self.0.insert(Field::VlanVid, TAGGED);
        self.0.remove(&Field::VlanPcp);
    }

    pub fn pop_vlan(&mut self) {
        self.0.remove(&Field::VlanVid);
        self.0.remove(&Field::VlanPcp);
    }

    /// Changes the packet as an action does. Returns false for an action whose effect on the fields is not
    /// known here.
    pub fn apply(&mut self, action: &Action) -> bool {
        match action {
            Action::Set { field, value, mask } => self.set(*field, *value, *mask),
            Action::PushVlan(_) => self.push_vlan(),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(_) | Action::PopMpls(_) | Action::DecMplsTtl => return false,
            Action::Output(_)
            | Action::Group(_)
            | Action::SetQueue(_)
            | Action::Resubmit(_)
            | Action::DecTtl
            | Action::Ct(_) => {}
        }
        true
    }

    /// The packet on a cable: what belongs to the switch alone stays behind.
    #[must_use]
    pub fn on_the_cable(mut self) -> Self {
        // A packet without a tag has no field of a tag, however it lost it.
        if self.get(Field::VlanVid) == 0 {
            self.pop_vlan();
        }
        self.0.retain(|field, _| *field > Field::CtMark);
        self
    }

    /// The fields in the notation of a flow file.
    pub fn to_json(&self) -> Value {
        let criterion = |(field, value)| Criterion::Field { field, value, mask: None };
        let selector = self.fields().map(criterion).collect();
        let (treatment, table, priority) = Default::default();
        Rule { table, priority, selector, treatment, idle_timeout: 0, hard_timeout: 0 }.selector_json()
    }
}

impl TraceStep {
    pub fn bridge(&self) -> &Bridge {
        match self {
            Self::Rule { bridge, .. }
            | Self::Miss { bridge, .. }
            | Self::Output { bridge, .. }
            | Self::Controller { bridge }
            | Self::Refused { bridge, .. }
            | Self::Unclear { bridge, .. } => bridge,
        }
    }

    /// The rule of ours that took the packet.
    pub fn own_rule(&self) -> Option<FlowId> {
        match self {
            Self::Rule { cookie, .. } if FlowId::is_ours(*cookie) => Some(FlowId(*cookie)),
            Self::Rule { .. }
            | Self::Miss { .. }
            | Self::Output { .. }
            | Self::Controller { .. }
            | Self::Refused { .. }
            | Self::Unclear { .. } => None,
        }
    }
}
