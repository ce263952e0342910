//! `devices`: bridges of Open vSwitch as ONOS has switches, and their ports.

use axum::Json;
use serde_json::{Value, json};

use super::{Named, named};
use crate::answer::Answer;
use crate::client::Visitor;
use crate::network::Bridge;

/// The maker of every device.
const MAKER: &str = "Nicira, Inc.";
const HARDWARE: &str = "Open vSwitch";

/// ONOS's device.
pub fn device(bridge: &Bridge) -> Value {
    let (node, _) = bridge.parts();
    json!({
        "id": bridge.id,
        "type": "SWITCH",
        "available": bridge.is_available,
        "role": "MASTER",
        "mfr": MAKER,
        "hw": HARDWARE,
        "sw": "",
        "serial": "",
        "driver": "ovs",
        "chassisId": bridge.id.trim_start_matches("of:").trim_start_matches('0'),
        "annotations": {"name": bridge.name, "node": node, "protocol": "OF_14"},
    })
}

/// ONOS's ports of a device, its own first.
fn ports_of(bridge: &Bridge) -> Vec<Value> {
    let (_, name) = bridge.parts();
    let port = |number: String, name: &str, is_up: bool| {
        json!({
            "element": bridge.id,
            "port": number,
            "isEnabled": is_up,
            "type": "copper",
            "portSpeed": 0,
            "annotations": {"portName": name},
        })
    };
    let own = port("local".to_owned(), name, bridge.is_available);
    let others = bridge.ports.iter().filter(|(port, _)| *port != name);
    [own].into_iter().chain(others.map(|(name, is_up)| port(bridge.port(name), name, *is_up))).collect()
}

/// GET /devices
pub async fn list(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    Ok(Json(json!({"devices": network.bridges.iter().map(device).collect::<Vec<_>>()})))
}

/// GET /devices/{device}
pub async fn show(visitor: Visitor, path: Named<String>) -> Answer {
    let (bridge, _) = visitor.bridge(&named(path)?).await?;
    Ok(Json(device(&bridge)))
}

/// GET /devices/{device}/ports
pub async fn ports(visitor: Visitor, path: Named<String>) -> Answer {
    let (bridge, _) = visitor.bridge(&named(path)?).await?;
    let mut shown = device(&bridge);
    shown["ports"] = Value::Array(ports_of(&bridge));
    Ok(Json(shown))
}

/// GET /devices/ports
pub async fn all_ports(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    Ok(Json(json!({"ports": network.bridges.iter().flat_map(ports_of).collect::<Vec<_>>()})))
}
