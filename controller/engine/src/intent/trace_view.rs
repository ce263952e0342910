//! A trace as operators read it: whose rules took the packet, and for which intent. Decides which values of a packet
//! are masked: those that differ from what the operator gave, behind a rule with hidden parameters.
//!
//! Absent: how a packet is followed (`controller/intent/src/trace.rs`).

use std::collections::BTreeMap;

use muster_api::intent::Point;
use muster_api::trace::{TraceEnd, TraceHop, TraceRule, TraceView};
use muster_intent::host::HostLocation;
use muster_intent::topology::ConnectPoint;
use muster_intent::trace::{End, Fate, Hop, Loss, Trace};
use muster_shared::model::flow::{DeviceName, FlowId, Packet, TraceStep};
use muster_template::MASK;
use serde_json::{Map, Value};

use crate::view::View;

impl View<'_> {
    /// A trace that is over.
    pub(crate) fn trace_view(&self, trace: &Trace) -> TraceView {
        let start = trace.hops().first();
        let start = start.map(|hop| (point(&hop.at), fields(&hop.packet, None)));
        let (from, packet) = start.unwrap_or_default();
        // A hop comes after the one before it.
        let mut hidden: Vec<bool> = Vec::new();
        for hop in trace.hops() {
            let before = hop.before.is_some_and(|before| hidden[before]);
            hidden.push(before || self.hides(hop));
        }
        let masked = |is_hidden: bool| is_hidden.then_some(&packet);
        let mut hops = Vec::new();
        for (at, hop) in trace.hops().iter().enumerate() {
            let before = hop.before.is_some_and(|before| hidden[before]);
            hops.push(self.hop_view(at, hop, masked(before), hidden[at]));
        }
        let ends: Vec<TraceEnd> =
            trace.ends().iter().map(|end| self.end_view(end, masked(hidden[end.hop]))).collect();
        let delivered = !ends.is_empty() && ends.iter().all(|end| end.delivered);
        TraceView { delivered, from, hops, ends, packet }
    }

    fn hop_view(
        &self,
        at: usize,
        hop: &Hop,
        given: Option<&Map<String, Value>>,
        is_hidden: bool,
    ) -> TraceHop {
        let node = &hop.at.device.node;
        let mut view = TraceHop {
            hop: at + 1,
            after: hop.before.map(|before| before + 1),
            device: hop.at.device.to_string(),
            in_port: hop.at.port.to_string(),
            packet: fields(&hop.packet, given),
            ..TraceHop::default()
        };
        for step in &hop.steps {
            let device = DeviceName { node: node.clone(), bridge: step.bridge().clone() };
            match step {
                TraceStep::Rule { table, matches, .. } => {
                    view.rules.push(self.rule_view(&device, *table, step.own_rule(), matches));
                }
                TraceStep::Miss { table, .. } => {
                    let device = device.to_string();
                    view.rules.push(TraceRule { device, table: *table, ..TraceRule::default() });
                }
                TraceStep::Output { port, .. } => {
                    view.outputs.push(point(&ConnectPoint { device, port: port.clone() }));
                }
                TraceStep::Controller { .. } => view.notes.push("sent to an OpenFlow controller".into()),
                TraceStep::Refused { why, .. } | TraceStep::Unclear { action: why, .. } => {
                    view.notes.push(if is_hidden { MASK.into() } else { why.clone() });
                }
            }
        }
        view
    }

    fn rule_view(&self, device: &DeviceName, table: u8, own: Option<FlowId>, matches: &str) -> TraceRule {
        let view = TraceRule { device: device.to_string(), table, ..TraceRule::default() };
        let Some(id) = own else { return TraceRule { matches: Some(matches.to_owned()), ..view } };
        let owner = self.flows.owner(device, id);
        let intent = owner.and_then(muster_flow::Owner::as_intent);
        TraceRule {
            id: Some(id.to_string()),
            owner: Some(owner.map_or_else(
                || "the flow table does not have it".to_owned(),
                |owner| self.owner_text(owner),
            )),
            intent: intent.and_then(|no| self.intents.manager.key(no)).map(str::to_owned),
            ..view
        }
    }

    fn end_view(&self, end: &End, given: Option<&Map<String, Value>>) -> TraceEnd {
        let view = TraceEnd { hop: end.hop + 1, ..TraceEnd::default() };
        match &end.fate {
            Fate::Delivered { at, packet } => TraceEnd {
                delivered: true,
                at: Some(point(at)),
                hosts: self.hosts_at(at),
                packet: fields(packet, given),
                ..view
            },
            Fate::Lost(Loss::Unclear { device, .. }) if given.is_some() => {
                let loss = Loss::Unclear { device: device.clone(), action: MASK.into() };
                TraceEnd { why: loss.to_string(), ..view }
            }
            Fate::Lost(loss) => TraceEnd { why: loss.to_string(), ..view },
        }
    }

    fn hosts_at(&self, at: &ConnectPoint) -> Vec<String> {
        let is_there = |host_location: &HostLocation<'_>| match host_location {
            HostLocation::At(host) => host.location == *at,
            HostLocation::Unknown | HostLocation::Claimed(_) => false,
        };
        let hosts = self.intents.manager.topology().hosts();
        hosts
            .filter(|(_, host_location, ..)| is_there(host_location))
            .map(|(id, ..)| id.to_string())
            .collect()
    }

    /// Whether a rule on the way has something of a hidden parameter in it.
    pub(super) fn trace_hides(&self, trace: &Trace) -> bool {
        trace.hops().iter().any(|hop| self.hides(hop))
    }

    /// Whether a rule of this hop has something of a hidden parameter in it.
    fn hides(&self, hop: &Hop) -> bool {
        let flows = self.flows();
        hop.steps.iter().any(|step| {
            let bridge = step.bridge().clone();
            let device = DeviceName { node: hop.at.device.node.clone(), bridge };
            let owner = step.own_rule().and_then(|id| self.flows.owner(&device, id));
            owner.is_some_and(|owner| flows.hides(owner))
        })
    }
}

/// The fields of a packet. Those that are not as `given` are masked.
fn fields(packet: &Packet, given: Option<&Map<String, Value>>) -> Map<String, Value> {
    let Value::Object(mut fields) = packet.to_json() else { return Map::new() };
    if let Some(given) = given {
        let others = fields.iter_mut().filter(|(name, value)| given.get(*name) != Some(*value));
        let others: BTreeMap<&String, &mut Value> = others.collect();
        others.into_values().for_each(|value| *value = Value::from(MASK));
    }
    fields
}

fn point(point: &ConnectPoint) -> Point {
    Point { device: point.device.to_string(), port: point.port.to_string() }
}
