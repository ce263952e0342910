//! `statistics`: counters of flow tables, and of ports from what their server's kernel counts.

use std::collections::BTreeMap;

use axum::Json;
use muster_api::flow::StatsView;
use muster_front::escaped;
use serde_json::{Value, json};

use super::{Named, named};
use crate::answer::{Answer, Refused};
use crate::client::Visitor;
use crate::document::Part;
use crate::network::Bridge;

/// Devices of one answer: each is a question to its server.
const DEVICES_MAX: usize = 64;

fn shown(all: Vec<Value>) -> Json<Value> {
    Json(json!({ "statistics": all }))
}

fn few(count: usize) -> Answer<()> {
    match count > DEVICES_MAX {
        true => Err(Refused::bad(format!(
            "{count} devices: {DEVICES_MAX} are allowed in one answer; ask for one"
        ))),
        false => Ok(()),
    }
}

/// GET /statistics/flows/tables
pub async fn tables(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    let bridges = visitor.with_tables(&network).await?;
    few(bridges.len())?;
    let mut all = Vec::with_capacity(bridges.len());
    for (bridge, _) in &bridges {
        all.push(counted(&visitor, bridge).await?);
    }
    Ok(shown(all))
}

/// GET /statistics/flows/tables/{device}
pub async fn tables_of(visitor: Visitor, path: Named<String>) -> Answer {
    let (bridge, _) = visitor.bridge(&named(path)?).await?;
    Ok(shown(vec![counted(&visitor, &bridge).await?]))
}

async fn counted(visitor: &Visitor, bridge: &Bridge) -> Answer<Value> {
    let (node, name) = bridge.parts();
    let stats: StatsView =
        visitor.get(&format!("/v1/devices/{}/{}/stats", escaped(node), escaped(name))).await?;
    let table = |table: &muster_api::flow::TableView| {
        json!({
            "tableId": table.table.to_string(),
            "deviceId": bridge.id,
            "activeEntries": table.active,
            "packetsLookedUp": table.lookups,
            "packetsMatched": table.matches,
        })
    };
    Ok(json!({"device": bridge.id, "table": stats.tables.iter().map(table).collect::<Vec<_>>()}))
}

/// GET /statistics/flows/activeentries
pub async fn active(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    let bridges = visitor.with_tables(&network).await?;
    let one = |(bridge, view): &(Bridge, muster_api::flow::DeviceView)| json!({"device": bridge.id, "activeEntries": view.added});
    Ok(shown(bridges.iter().map(one).collect()))
}

/// Counters of a server's links, by name.
type Counters = BTreeMap<String, Value>;

async fn counters(visitor: &Visitor, node: &str) -> Answer<Counters> {
    let facts: Value = visitor.get(&format!("/v1/nodes/{}/facts", escaped(node))).await?;
    let links = facts["links"].as_object().into_iter().flatten();
    Ok(links.map(|(name, link)| (name.clone(), link["counters"].clone())).collect())
}

fn of_ports<'b>(bridge: &'b Bridge, counters: &Counters, ports: impl Iterator<Item = &'b String>) -> Value {
    let ports: Vec<Value> =
        ports.filter_map(|name| port_counters(bridge, name, counters.get(name)?)).collect();
    json!({"device": bridge.id, "ports": ports})
}

fn port_counters(bridge: &Bridge, name: &str, counters: &Value) -> Option<Value> {
    let of = |key: &str| counters.get(key).and_then(Value::as_u64);
    Some(json!({
        "port": bridge.number(name),
        "packetsReceived": of("rx_packets")?,
        "packetsSent": of("tx_packets")?,
        "bytesReceived": of("rx_bytes")?,
        "bytesSent": of("tx_bytes")?,
        "packetsRxDropped": of("rx_dropped")?,
        "packetsTxDropped": of("tx_dropped")?,
        "packetsRxErrors": of("rx_errors")?,
        "packetsTxErrors": of("tx_errors")?,
        "durationSec": 0,
    }))
}

/// GET /statistics/ports
pub async fn ports(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    few(network.bridges.len())?;
    let (mut known, mut all): (BTreeMap<&str, Counters>, Vec<Value>) = (BTreeMap::new(), Vec::new());
    for bridge in network.bridges.iter().filter(|bridge| bridge.is_available) {
        let (node, _) = bridge.parts();
        if !known.contains_key(node) {
            known.insert(node, counters(&visitor, node).await?);
        }
        let nothing = Counters::new();
        all.push(of_ports(bridge, known.get(node).unwrap_or(&nothing), bridge.ports.keys()));
    }
    Ok(shown(all))
}

/// GET /statistics/ports/{device}
pub async fn ports_of(visitor: Visitor, path: Named<String>) -> Answer {
    let (bridge, _) = visitor.bridge(&named(path)?).await?;
    let counters = counters(&visitor, bridge.parts().0).await?;
    Ok(shown(vec![of_ports(&bridge, &counters, bridge.ports.keys())]))
}

/// GET /statistics/ports/{device}/{port}
pub async fn port(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let (device, port) = named(path)?;
    let (bridge, _) = visitor.bridge(&device).await?;
    let name = bridge.in_port(&Part::at(&json!(port), "port"))?;
    let counters = counters(&visitor, bridge.parts().0).await?;
    Ok(shown(vec![of_ports(&bridge, &counters, [&name].into_iter())]))
}
