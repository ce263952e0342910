//! ONOS's constraints and those of intent files. Decides which mean something here.
//!
//! Absent: what a constraint does to a path (`controller/intent/src/compile/constrained_path.rs`).

use serde_json::{Value, json};

use crate::document::{Part, Read, shown};
use crate::network::{LINK_TYPES, Network};

/// Constraints that have a word: name, word.
#[cfg(test)]
pub const SAID: &[(&str, &str)] = &[
    ("AnnotationConstraint", ANNOTATIONS),
    ("AsymmetricPathConstraint", "asymmetric"),
    ("BandwidthConstraint", "bandwidth"),
    ("LatencyConstraint", "latency"),
    ("LinkTypeConstraint", "link_type"),
    ("ObstacleConstraint", "obstacles"),
    ("WaypointConstraint", "waypoints"),
];

/// The word of an intent file for bounds on annotations.
pub const ANNOTATIONS: &str = "annotations";

/// Every intent of Muster keeps to it: it moves without a loss.
pub const ALWAYS: &str = "NonDisruptiveConstraint";

/// Constraints that mean nothing here, and why.
pub const REFUSED: &[(&str, &str)] = &[
    ("DomainConstraint", "Muster has no domains"),
    ("MeteredConstraint", "a link has no such property"),
    ("TierConstraint", "a link has no tier; its cost is in its template"),
];

/// ONOS has it of an annotation of its own.
const DIRECT: &str = LINK_TYPES[0];
const MILLIS: f64 = 1000.0;

/// A constraint of an intent file. `None`: every intent keeps to it.
pub fn decoded(part: &Part<'_>, network: &Network) -> Read<Option<Value>> {
    let name = part.need("type")?;
    let name = name.text()?;
    if let Some((_, why)) = REFUSED.iter().find(|(known, _)| *known == name) {
        return Err(part.wrong(format!("{name} is not supported: {why}")));
    }
    let devices = |key| -> Read<Vec<Value>> {
        part.only(&["type", key])?;
        part.need(key)?.items()?.iter().map(|item| Ok(json!(network.device(item)?.name))).collect()
    };
    Ok(Some(match name {
        ALWAYS => {
            part.only(&["type"])?;
            return Ok(None);
        }
        "AnnotationConstraint" => {
            part.only(&["type", "key", "threshold"])?;
            let most = part.need("threshold")?;
            let number = most.value().as_f64().ok_or_else(|| most.wrong("want a number"))?;
            json!({ANNOTATIONS: {part.need("key")?.text()?: number}})
        }
        "AsymmetricPathConstraint" => {
            part.only(&["type"])?;
            json!({"asymmetric": true})
        }
        "BandwidthConstraint" => {
            part.only(&["type", "bandwidth"])?;
            let bits = part.need("bandwidth")?;
            let whole =
                bits.value().as_f64().filter(|bits| bits.fract() == 0.0 && (0.0..1e18).contains(bits));
            let whole = whole.ok_or_else(|| bits.wrong("want bits per second, a whole number"))?;
            json!({"bandwidth": whole as u64})
        }
        "LatencyConstraint" => {
            part.only(&["type", "latencyMillis"])?;
            let millis = part.need("latencyMillis")?.number(u32::MAX.into())?;
            json!({"latency": millis as f64 / MILLIS})
        }
        "ObstacleConstraint" => json!({"obstacles": devices("obstacles")?}),
        "WaypointConstraint" => json!({"waypoints": devices("waypoints")?}),
        "LinkTypeConstraint" => {
            part.only(&["type", "types", "inclusive"])?;
            let inclusive = part.need("inclusive")?.is_true()?;
            let list = part.need("types")?;
            let types = list.items()?.iter().map(link_type).collect::<Read<Vec<_>>>()?;
            link_types(inclusive, &types).ok_or_else(|| list.wrong("no link is left"))?
        }
        other => return Err(part.wrong(format!("ONOS reads no constraint '{}'", shown(other)))),
    }))
}

fn link_type(part: &Part<'_>) -> Read<&'static str> {
    let name = part.text()?;
    LINK_TYPES.into_iter().find(|known| *known == name).ok_or_else(|| {
        part.wrong(format!(
            "there is no type of links '{}': want one of {}",
            shown(name),
            LINK_TYPES.join(", ")
        ))
    })
}

/// DIRECT is each link whose annotation is no type of ONOS: so it is said by the other types. `None`: no link is left.
fn link_types(inclusive: bool, types: &[&str]) -> Option<Value> {
    let has_direct = types.contains(&DIRECT);
    let others = |are_given: bool| -> Vec<&str> {
        LINK_TYPES
            .into_iter()
            .filter(|known| *known != DIRECT && types.contains(known) == are_given)
            .collect()
    };
    let (word, list) = match (inclusive, has_direct) {
        (true, false) => ("only", others(true)),
        (true, true) => ("without", others(false)),
        (false, false) => ("without", others(true)),
        (false, true) => ("only", others(false)),
    };
    (word != "only" || !list.is_empty()).then(|| json!({"link_type": {word: list}}))
}

/// ONOS's constraints of one of an intent file.
pub fn encoded(constraint: &Value, network: &Network) -> Vec<Value> {
    let Some((word, value)) = constraint.as_object().and_then(|map| map.iter().next()) else {
        return Vec::new();
    };
    let id = |device: &Value| {
        let found = device.as_str().and_then(|name| network.named(name));
        found.map_or_else(|| device.clone(), |bridge| json!(bridge.id))
    };
    let devices = || -> Value { value.as_array().into_iter().flatten().map(id).collect() };
    let one = match word.as_str() {
        ANNOTATIONS => {
            let bounds = value.as_object().into_iter().flatten();
            return bounds
                .map(|(key, most)| json!({"type": "AnnotationConstraint", "key": key, "threshold": most}))
                .collect();
        }
        "asymmetric" => json!({"type": "AsymmetricPathConstraint"}),
        "bandwidth" => json!({"type": "BandwidthConstraint", "bandwidth": value.as_f64()}),
        "latency" => {
            let millis = value.as_f64().unwrap_or_default() * MILLIS;
            json!({"type": "LatencyConstraint", "latencyMillis": millis.round() as u64})
        }
        "obstacles" => json!({"type": "ObstacleConstraint", "obstacles": devices()}),
        "waypoints" => json!({"type": "WaypointConstraint", "waypoints": devices()}),
        "link_type" => {
            let inclusive = value.get("only").is_some();
            let types = value.get("only").or_else(|| value.get("without"));
            json!({"type": "LinkTypeConstraint", "inclusive": inclusive, "types": types})
        }
        // ONOS has these, too, and does not say them in JSON either.
        _ => json!({"type": word, word: value}),
    };
    vec![one]
}
