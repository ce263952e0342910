//! Intents and the network as the API has them.
//!
//! Absent: what an intent's state is (`controller/intent/src/phase.rs`), and how `muster` prints it
//! (`controller/cli/src/intent/shown.rs`).

use std::time::Duration;

use muster_api::intent::{
    BridgeView, HostView, IntentRow, IntentRule, IntentView, IntentWay, LinkEnds, LinkView, Point, PortView,
    Reroute, Reservation, TopologyView, WaitsFor,
};
use muster_engine::IntentSummary;
use muster_flow::FlowRow;
use muster_intent::manager;
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{DeviceName, FlowId};
use muster_template::{MASK, wish_json};
use serde_json::json;

/// The most rules of an intent that are shown with states; of more only the ids.
pub const RULES_JOINED: usize = 1000;

/// The known data of one intent.
pub struct Shown {
    pub view: manager::IntentView,
    /// The first rules of the intent, as the flow tables have them.
    pub rows: Vec<(FlowId, Option<FlowRow>)>,
    /// The owner, for people.
    pub owner: Option<String>,
    /// The fault that traces found.
    pub broken: Option<String>,
}

pub fn summary(intent: &IntentSummary) -> IntentRow {
    IntentRow {
        key: intent.key.to_string(),
        kind: intent.kind.to_owned(),
        state: intent.state.as_str().to_owned(),
        request: intent.request.as_str().to_owned(),
        errors: intent.errors,
        reason: intent.reason.clone(),
        owner: intent.owner.clone(),
        broken: intent.broken.clone(),
    }
}

pub fn shown(shown: &Shown) -> IntentView {
    let Shown { view, rows, owner, broken } = shown;
    let secret = rows.iter().filter_map(|(_, row)| row.as_ref()).any(|row| row.secret);
    let mut wish = wish_json(&view.intent, view.group.as_deref());
    if secret {
        // The request contains a hidden parameter.
        wish.iter_mut().filter(|(name, _)| *name != "type").for_each(|(_, value)| *value = json!(MASK));
    }
    let entry = |((device, _), (id, row)): (&(DeviceName, _), &(FlowId, Option<FlowRow>))| {
        let error = row.as_ref().and_then(|row| row.error.as_deref());
        IntentRule {
            id: id.to_string(),
            device: device.to_string(),
            state: row.as_ref().map(|row| row.standing.as_str().to_owned()),
            error: error.map(|error| if secret { MASK } else { error }.to_owned()),
        }
    };
    let ids = view.rules.iter().map(|(device, packed)| packed.unpack().id(device).to_string());
    let waits =
        view.waits_for.iter().map(|(device, rules)| WaitsFor { device: device.to_string(), rules: *rules });
    IntentView {
        key: view.key.to_string(),
        state: view.state.as_str().to_owned(),
        request: view.request.as_str().to_owned(),
        errors: view.errors,
        reason: view.reason.as_deref().unwrap_or_default().to_owned(),
        owner: owner.clone(),
        paths: paths(&view.paths),
        path_links: view.links.iter().map(ends).collect(),
        rules: ids.collect(),
        entries: view.rules.iter().zip(rows).map(entry).collect(),
        reservations: view.reservations.iter().map(reservation).collect(),
        history: view.history.iter().map(reroute).collect(),
        waits_for: waits.collect(),
        retry_in: view.retry_in.map(|wait| wait.as_secs_f64()),
        broken: broken.clone(),
        wish,
    }
}

/// The intent as the picture of the topology shows it.
pub fn drawn(view: &manager::IntentView) -> IntentWay {
    let (key, state) = (view.key.to_string(), view.state.as_str().to_owned());
    IntentWay { key, state, links: view.links.iter().map(ends).collect() }
}

/// The network, with the datapath ids of its bridges, in their order, and the ways of some intents.
pub fn topology_view(
    topology: manager::TopologyView,
    datapath_ids: &[u64],
    intents: &[manager::IntentView],
) -> TopologyView {
    let port = |port: manager::PortView| PortView { name: port.name.into(), up: port.up };
    let device =
        |((device, up, away, ports), id): ((DeviceName, bool, bool, Vec<manager::PortView>), &u64)| {
            BridgeView {
                device: device.to_string(),
                datapath_id: format!("{id:016x}"),
                up,
                away,
                ports: ports.into_iter().map(port).collect(),
            }
        };
    let host = |view: manager::HostView| HostView {
        host: view.id.to_string(),
        location: point(&view.host.location),
        addresses: view.host.addresses,
        claimed: view.claimed.iter().map(point).collect(),
        declared: view.declared,
        observed: view.observed,
        intents: view.intents,
    };
    TopologyView {
        devices: topology.devices.into_iter().zip(datapath_ids).map(device).collect(),
        links: topology.links.into_iter().map(link).collect(),
        hosts: topology.hosts.into_iter().map(host).collect(),
        intents: intents.iter().map(drawn).collect(),
    }
}

fn link(link: manager::LinkView) -> LinkView {
    let manager::LinkView { from, to, up, declared, discovered, traits, reserved, intents } = link;
    LinkView {
        from: point(&from),
        to: point(&to),
        up,
        declared,
        discovered,
        cost: traits.cost,
        bandwidth: traits.bandwidth,
        reserved,
        latency: traits.latency.map(|nanoseconds| Duration::from_nanos(nanoseconds).as_secs_f64()),
        annotations: traits.annotations,
        intents,
    }
}

fn point(point: &ConnectPoint) -> Point {
    Point { device: point.device.to_string(), port: point.port.to_string() }
}

fn ends((from, to): &(ConnectPoint, ConnectPoint)) -> LinkEnds {
    LinkEnds { from: point(from), to: point(to) }
}

fn reservation(held: &manager::ReservationView) -> Reservation {
    let manager::ReservationView { from, to, bandwidth, label } = held;
    Reservation { from: point(from), to: point(to), bandwidth: *bandwidth, label: *label }
}

fn reroute(reroute: &manager::Reroute) -> Reroute {
    let manager::Reroute { why, took, before } = reroute;
    Reroute { why: why.to_string(), took: took.as_secs_f64(), before: paths(before) }
}

fn paths(paths: &[Vec<DeviceName>]) -> Vec<Vec<String>> {
    paths.iter().map(|path| path.iter().map(ToString::to_string).collect()).collect()
}

#[cfg(test)]
mod tests;
