//! Intents and the network as JSON.

use muster_engine::IntentSummary;
use muster_flow::FlowRow;
use muster_intent::manager::{IntentView, LinkView, Reroute, ReservationView, TopologyView};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{DeviceName, FlowId};
use muster_template::{MASK, point_json, wish_json};
use serde_json::{Value, json};

/// Rules of an intent whose states are told; of more the ids alone.
pub const RULES_JOINED: usize = 1000;

/// All that is known of one intent.
pub struct Shown {
    /// Itself.
    pub view: IntentView,
    /// Of its first rules how the flow tables have them.
    pub rows: Vec<(FlowId, Option<FlowRow>)>,
    /// Whose it is, for people.
    pub owner: Option<String>,
}

/// In a list.
pub fn summary(intent: &IntentSummary) -> Value {
    json!({
        "key": intent.key,
        "type": intent.kind,
        "state": intent.state.as_str(),
        "request": intent.request.as_str(),
        "errors": intent.errors,
        "reason": intent.reason,
        "owner": intent.owner,
    })
}

/// Alone.
pub fn shown(shown: &Shown) -> Value {
    let Shown { view, rows, owner } = shown;
    let secret = rows.iter().filter_map(|(_, row)| row.as_ref()).any(|row| row.secret);
    let mut map = wish_json(&view.intent, view.group.as_deref());
    if secret {
        // What a hidden parameter holds went into it.
        map.iter_mut().filter(|(name, _)| *name != "type").for_each(|(_, value)| *value = json!(MASK));
    }
    let devices =
        |path: &Vec<DeviceName>| path.iter().map(|device| json!(device.to_string())).collect::<Value>();
    let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
    put("key", json!(view.key));
    put("state", json!(view.state.as_str()));
    put("request", json!(view.request.as_str()));
    put("errors", json!(view.errors));
    put("reason", json!(view.reason.as_deref().unwrap_or_default()));
    put("owner", json!(owner));
    put("paths", view.paths.iter().map(devices).collect());
    put("path_links", view.links.iter().map(link_json).collect());
    let ids = view.rules.iter().map(|(device, packed)| packed.unpack().id(device).to_string());
    put("rules", ids.collect());
    let entries = view.rules.iter().zip(rows).map(|((device, _), (id, row))| {
        let error = row.as_ref().and_then(|row| row.error.as_deref());
        json!({
            "id": id.to_string(),
            "device": device.to_string(),
            "state": row.as_ref().map(|row| row.standing.as_str()),
            "error": error.map(|error| if secret { MASK } else { error }),
        })
    });
    put("entries", entries.collect());
    put("reservations", view.reservations.iter().map(reservation).collect());
    put("history", view.history.iter().map(reroute).collect());
    let waits =
        view.waits_for.iter().map(|(device, rules)| json!({"device": device.to_string(), "rules": rules}));
    put("waits_for", waits.collect());
    put("retry_in", json!(view.retry_in.map(|wait| wait.as_secs_f64())));
    Value::Object(map)
}

/// What a picture has of an intent.
pub fn drawn(view: &IntentView) -> Value {
    let links: Value = view.links.iter().map(link_json).collect();
    json!({"key": view.key, "state": view.state.as_str(), "links": links})
}

/// The network, whole.
pub fn topology_view(topology: &TopologyView) -> Value {
    let devices = topology.devices.iter().map(|(device, up, away, ports)| {
        let ports: Value = ports.iter().map(|port| json!({"name": port.name, "up": port.up})).collect();
        json!({"device": device.to_string(), "up": up, "away": away, "ports": ports})
    });
    let links = topology.links.iter().map(link);
    let hosts = topology.hosts.iter().map(|view| {
        json!({
            "host": view.id.to_string(),
            "location": point_json(&view.host.location),
            "addresses": view.host.addresses,
            "claimed": view.claimed.iter().map(point_json).collect::<Value>(),
            "declared": view.declared,
            "observed": view.observed,
            "intents": view.intents,
        })
    });
    let (devices, hosts): (Value, Value) = (devices.collect(), hosts.collect());
    json!({"devices": devices, "links": links.collect::<Value>(), "hosts": hosts})
}

fn link(link: &LinkView) -> Value {
    let LinkView { from, to, up, declared, discovered, traits, reserved, intents } = link;
    json!({
        "from": point_json(from),
        "to": point_json(to),
        "up": up,
        "declared": declared,
        "discovered": discovered,
        "cost": traits.cost,
        "bandwidth": traits.bandwidth,
        "reserved": reserved,
        "latency": traits.latency.map(|nanoseconds| std::time::Duration::from_nanos(nanoseconds).as_secs_f64()),
        "annotations": traits.annotations,
        "intents": intents,
    })
}

fn link_json((from, to): &(ConnectPoint, ConnectPoint)) -> Value {
    json!({"from": point_json(from), "to": point_json(to)})
}

fn reservation(held: &ReservationView) -> Value {
    let ReservationView { from, to, bandwidth, label } = held;
    json!({"from": point_json(from), "to": point_json(to), "bandwidth": bandwidth, "label": label})
}

fn reroute(reroute: &Reroute) -> Value {
    let Reroute { why, took, before } = reroute;
    let before: Value = before
        .iter()
        .map(|path| path.iter().map(|device| json!(device.to_string())).collect::<Value>())
        .collect();
    json!({"why": why, "took": took.as_secs_f64(), "before": before})
}

#[cfg(test)]
mod tests;
