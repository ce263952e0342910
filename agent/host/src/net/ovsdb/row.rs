//! Rows of the database as the state has them, and back.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::state::{Columns, OvsBridge, OvsInterface, OvsPort};
use super::OWNER;

/// Columns that are kept unchanged. All exist in Open vSwitch since 2.5. References to other tables (QoS,
/// mirrors, controllers) are left out, since their targets vanish with the row.
pub(super) const INTERFACE: [&str; 7] = [
    "external_ids",
    "ingress_policing_burst",
    "ingress_policing_rate",
    "mac",
    "ofport_request",
    "options",
    "other_config",
];
/// See [`INTERFACE`].
pub(super) const PORT: [&str; 11] = [
    "bond_downdelay",
    "bond_fake_iface",
    "bond_mode",
    "bond_updelay",
    "external_ids",
    "fake_bridge",
    "lacp",
    "mac",
    "other_config",
    "trunks",
    "vlan_mode",
];
/// See [`INTERFACE`].
pub(super) const BRIDGE: [&str; 8] = [
    "external_ids",
    "fail_mode",
    "flood_vlans",
    "mcast_snooping_enable",
    "other_config",
    "protocols",
    "rstp_enable",
    "stp_enable",
];

const HWADDR: &str = "hwaddr";

pub(super) fn interface(row: &Value) -> OvsInterface {
    let mut columns = columns(row, &INTERFACE, &[]);
    let kind = row["type"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "internal" | "system") {
        columns.insert("type".to_owned(), json!(kind));
    }
    OvsInterface {
        internal: kind == "internal",
        mtu_request: row["mtu_request"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()),
        error: row["error"].as_str().map(str::to_owned),
        columns,
    }
}

/// The port, without its interfaces.
pub(super) fn port(row: &Value) -> OvsPort {
    OvsPort {
        tag: row["tag"].as_u64().and_then(|tag| u16::try_from(tag).ok()),
        ours: entry(&row["external_ids"], OWNER).is_some(),
        interfaces: BTreeMap::new(),
        columns: columns(row, &PORT, &[("external_ids", OWNER)]),
    }
}

/// The bridge, without its ports.
pub(super) fn bridge(row: &Value) -> OvsBridge {
    OvsBridge {
        ports: BTreeMap::new(),
        hwaddr: entry(&row["other_config"], HWADDR).map(str::to_owned),
        datapath_type: row["datapath_type"].as_str().unwrap_or_default().to_owned(),
        ours: entry(&row["external_ids"], OWNER).is_some(),
        columns: columns(row, &BRIDGE, &[("external_ids", OWNER), ("other_config", HWADDR)]),
    }
}

pub(super) fn of_interface(name: &str, interface: &OvsInterface) -> Value {
    let mut row = written(&interface.columns, None, None);
    row["name"] = json!(name);
    if interface.internal {
        row["type"] = json!("internal");
    }
    if let Some(mtu) = interface.mtu_request {
        row["mtu_request"] = json!(mtu);
    }
    row
}

/// The row of a port, without its interfaces.
pub(super) fn of_port(name: &str, port: &OvsPort) -> Value {
    let mut row = written(&port.columns, port.ours.then_some(()), None);
    row["name"] = json!(name);
    if let Some(tag) = port.tag {
        row["tag"] = json!(tag);
    }
    row
}

/// The row of a bridge, without its ports.
pub(super) fn of_bridge(name: &str, bridge: &OvsBridge) -> Value {
    let mut row = written(&bridge.columns, bridge.ours.then_some(()), bridge.hwaddr.as_deref());
    row["name"] = json!(name);
    if !bridge.datapath_type.is_empty() {
        row["datapath_type"] = json!(bridge.datapath_type);
    }
    row
}

/// The kept columns with Muster's mark and a bridge's MAC address.
fn written(columns: &Columns, mark: Option<()>, hwaddr: Option<&str>) -> Value {
    let mut row: Map<String, Value> = columns.clone().into_iter().collect();
    let mut add = |column: &str, key: &str, value: &str| {
        let map = row.entry(column).or_insert_with(|| json!(["map", []]));
        if let Some(pairs) = map.get_mut(1).and_then(Value::as_array_mut) {
            pairs.push(json!([key, value]));
        }
    };
    mark.iter().for_each(|()| add("external_ids", OWNER, "muster"));
    hwaddr.iter().for_each(|mac| add("other_config", HWADDR, mac));
    Value::Object(row)
}

/// The columns of `names` that differ from their default, without entries that are listed elsewhere.
fn columns(row: &Value, names: &[&str], without: &[(&str, &str)]) -> Columns {
    let kept = |name: &&str| {
        let mut value = row.get(*name)?.clone();
        for (_, key) in without.iter().filter(|(column, _)| column == name) {
            if let Some(pairs) = value.get_mut(1).and_then(Value::as_array_mut) {
                pairs.retain(|pair| pair[0] != *key);
            }
        }
        let default = match &value {
            Value::Array(_) => value[1].as_array().is_some_and(Vec::is_empty),
            Value::Bool(on) => !on,
            Value::Number(number) => number.as_i64() == Some(0),
            Value::String(text) => text.is_empty(),
            Value::Null | Value::Object(_) => true,
        };
        (!default).then(|| ((*name).to_owned(), value))
    };
    names.iter().filter_map(kept).collect()
}

/// An entry of a column that is a map.
fn entry<'a>(column: &'a Value, key: &str) -> Option<&'a str> {
    let pairs = column[1].as_array()?;
    pairs.iter().find(|pair| pair[0] == key).and_then(|pair| pair[1].as_str())
}
