//! ONOS's meters and the meters of flow files. Decides that a meter gets the lowest number that is free on its device, as
//! ONOS gives it one.

use std::collections::BTreeSet;

use muster_api::flow::FlowView;
use serde_json::{Value, json};

use crate::application;
use crate::document::{Part, Read, shown};
use crate::network::{Bridge, Network};
use crate::rule::said;

/// Units by ONOS's name and by that of flow files. ONOS's kilobytes are OpenFlow's kilobits.
const UNITS: [(&str, &str); 2] = [("KB_PER_SEC", "kilobits"), ("PKTS_PER_SEC", "packets")];

const KEYS: &[&str] = &["deviceId", "unit", "burst", "bands", "appId", "scope", "index"];
/// Keys that ONOS has in its answers, and ignores in a document.
const OF_ANSWERS: &[&str] = &["id", "life", "packets", "bytes", "referenceCount", "state"];

/// A meter of a flow file, without its number.
pub fn decoded(part: &Part<'_>, network: &Network, bridge: &Bridge) -> Read<Value> {
    part.only(&[KEYS, OF_ANSWERS].concat())?;
    network.of_path(part, bridge)?;
    if let Some(scope) = part.get("scope")? {
        match scope.text()? {
            "global" => {}
            _ => return Err(scope.wrong("a meter of another scope is for P4 switches, which Muster has not")),
        }
    }
    let unit = part.need("unit")?;
    let name = unit.text()?;
    let (_, own) = UNITS.iter().find(|(onos, _)| *onos == name).ok_or_else(|| {
        let known = UNITS.map(|(onos, _)| onos).join(" and ");
        unit.wrong(format!("there is no unit '{}': Open vSwitch has {known}", shown(name)))
    })?;
    // As in ONOS's MeterRequestCodec.
    let has_burst = part.get("burst")?.map(|burst| burst.is_true()).transpose()?.unwrap_or(false);
    let bands = part.need("bands")?.items()?;
    let bands = bands.iter().map(|band| one(band, has_burst)).collect::<Read<Vec<_>>>()?;
    Ok(json!({"device": bridge.name, "unit": own, "bands": bands}))
}

fn one(part: &Part<'_>, has_burst: bool) -> Read<Value> {
    part.only(&["type", "rate", "burstSize", "prec", "packets", "bytes"])?;
    let mut band = json!({"rate": part.need("rate")?.number(u32::MAX.into())?});
    if let Some(burst) = part.get("burstSize")?.filter(|_| has_burst) {
        band["burst"] = json!(burst.number(u32::MAX.into())?);
    }
    let kind = part.need("type")?;
    match kind.text()? {
        "DROP" => {}
        "REMARK" => band["dscp_remark"] = json!(part.need("prec")?.number(255)?),
        other => return Err(kind.wrong(format!("there is no band '{}': want DROP or REMARK", shown(other)))),
    }
    Ok(band)
}

/// The lowest number that none of these has.
pub fn free(all: &[FlowView]) -> u64 {
    let taken: BTreeSet<u64> = all.iter().map(number).collect();
    (1..).find(|number| !taken.contains(number)).unwrap_or(1)
}

/// The number of a meter.
pub fn number(flow: &FlowView) -> u64 {
    flow.entry.meter.as_ref().and_then(Value::as_u64).unwrap_or_default()
}

/// ONOS's meter.
pub fn encoded(flow: &FlowView, bridge: &Bridge) -> Value {
    let own = said(flow.entry.unit.as_ref());
    let unit = UNITS.iter().find(|(_, known)| *known == own).map_or(own.as_str(), |(onos, _)| onos);
    let list = || flow.entry.bands.as_ref().and_then(Value::as_array).into_iter().flatten();
    let band = |band: &Value| {
        let mut shown = json!({
            "type": if band.get("dscp_remark").is_some() { "REMARK" } else { "DROP" },
            "rate": band["rate"],
            "packets": 0,
            "bytes": 0,
            "burstSize": band.get("burst").and_then(Value::as_u64).unwrap_or_default(),
        });
        if let Some(levels) = band.get("dscp_remark") {
            shown["prec"] = levels.clone();
        }
        shown
    };
    let bands: Vec<Value> = list().map(band).collect();
    json!({
        "id": number(flow).to_string(),
        "life": flow.duration.unwrap_or_default(),
        "packets": flow.packets.unwrap_or_default(),
        "bytes": flow.bytes.unwrap_or_default(),
        "referenceCount": 0,
        "unit": unit,
        "burst": list().any(|band| band.get("burst").is_some()),
        "deviceId": bridge.id,
        "appId": application::of_owner(flow.owner.as_deref()),
        "state": flow.state,
        "bands": bands,
    })
}
