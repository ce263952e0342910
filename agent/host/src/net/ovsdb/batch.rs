//! Several steps as one transaction.
//!
//! Existing rows are named by uuid, new rows by names within the transaction (RFC 7047, "named-uuid").

use std::collections::BTreeMap;

use muster_shared::model::network::OvsPlace;
use serde_json::{Value, json};

use super::super::state::{OvsBridge, OvsInterface, OvsPort};
use super::super::step::Step;
use super::row;

/// Rows of the database that exist.
#[derive(Default)]
pub(super) struct ExistingRows {
    /// Port → its row, as an operation names it.
    ports: BTreeMap<String, Value>,
    /// Bridge → its row, and its ports.
    bridges: BTreeMap<String, (Value, Vec<String>)>,
}

impl ExistingRows {
    /// `ports`: uuid → name; `bridges`: name, uuid and the ports' uuids.
    pub fn new(ports: BTreeMap<String, String>, bridges: Vec<(String, String, Vec<String>)>) -> Self {
        let bridges = bridges.into_iter().map(|(name, uuid, of_bridge)| {
            let names = of_bridge.iter().filter_map(|uuid| ports.get(uuid).cloned()).collect();
            (name, (json!(["uuid", uuid]), names))
        });
        let bridges = bridges.collect();
        let ports = ports.into_iter().map(|(uuid, name)| (name, json!(["uuid", uuid]))).collect();
        Self { ports, bridges }
    }
}

/// A transaction that grows.
pub(super) struct Batch {
    known: ExistingRows,
    pub operations: Vec<Value>,
    /// The step of each operation.
    pub steps: Vec<usize>,
    step: usize,
    names: usize,
}

impl Batch {
    pub fn new(known: ExistingRows) -> Self {
        Self { known, operations: Vec::new(), steps: Vec::new(), step: 0, names: 0 }
    }

    /// Adds the operations of `step`, whose index is `index`.
    pub fn add(&mut self, index: usize, step: &Step) {
        self.step = index;
        match step {
            Step::CreateOvsBridge { bridge, row } => self.create_bridge(bridge, row),
            Step::DeleteOvsBridge { bridge } => self.delete_bridge(bridge),
            Step::AddOvsPort { bridge, port, row } => self.add_port(bridge, port, row),
            Step::RemoveOvsPort { bridge, port } => self.remove_port(bridge, port),
            Step::SetOvsTag { port, tag } => self.update("Port", port, json!({"tag": optional(*tag)})),
            Step::SetOvsHwaddr { bridge, hwaddr } => self.set_hwaddr(bridge, hwaddr.as_deref()),
            Step::SetOvsMtu { interface, mtu } => {
                self.update("Interface", interface, json!({"mtu_request": optional(*mtu)}));
            }
            Step::SetOvs { place, value } => self.set(place, value.as_ref()),
            // The caller passes only steps of Open vSwitch.
            _ => {}
        }
    }

    /// Marks the configuration as changed, so that a crash before [`super::Ovsdb::sync`] is noticed later.
    pub fn close(&mut self) {
        if !self.operations.is_empty() {
            self.push(super::more_to_take_up());
        }
    }

    fn push(&mut self, operation: Value) {
        self.operations.push(operation);
        self.steps.push(self.step);
    }

    fn update(&mut self, table: &str, name: &str, row: Value) {
        self.push(json!({"op": "update", "table": table, "where": [["name", "==", name]], "row": row}));
    }

    fn mutate(&mut self, table: &str, name: Option<&str>, mutations: Value) {
        let rows: Vec<Value> = name.iter().map(|name| json!(["name", "==", name])).collect();
        self.push(json!({"op": "mutate", "table": table, "where": rows, "mutations": mutations}));
    }

    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("row{}", self.names)
    }

    fn insert(&mut self, table: &str, row: Value) -> Value {
        let name = self.new_name();
        self.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    }

    fn insert_port(&mut self, port: &str, of_port: &OvsPort) -> Value {
        let insert = |(name, interface): (&String, &OvsInterface)| {
            self.insert("Interface", row::of_interface(name, interface))
        };
        let interfaces: Vec<Value> = of_port.interfaces.iter().map(insert).collect();
        let mut row = row::of_port(port, of_port);
        row["interfaces"] = json!(["set", interfaces]);
        let inserted = self.insert("Port", row);
        self.known.ports.insert(port.to_owned(), inserted.clone());
        inserted
    }

    /// Adds a bridge with its local port, unless a bridge of that name exists.
    fn create_bridge(&mut self, bridge: &str, of_bridge: &OvsBridge) {
        if self.known.bridges.contains_key(bridge) {
            return self.set_hwaddr(bridge, of_bridge.hwaddr.as_deref());
        }
        let mut local = OvsPort::new(bridge, None, true);
        local.ours = of_bridge.ours;
        let local = of_bridge.ports.get(bridge).unwrap_or(&local);
        let port = self.insert_port(bridge, local);
        let mut row = row::of_bridge(bridge, of_bridge);
        row["ports"] = port;
        let inserted = self.insert("Bridge", row);
        self.mutate("Open_vSwitch", None, json!([["bridges", "insert", inserted.clone()]]));
        self.known.bridges.insert(bridge.to_owned(), (inserted, vec![bridge.to_owned()]));
    }

    fn delete_bridge(&mut self, bridge: &str) {
        let Some((row, ports)) = self.known.bridges.remove(bridge) else { return };
        for port in ports {
            self.known.ports.remove(&port);
        }
        self.mutate("Open_vSwitch", None, json!([["bridges", "delete", row]]));
    }

    /// Adds a port with its interfaces, or sets the tag of an existing one.
    fn add_port(&mut self, bridge: &str, port: &str, of_port: &OvsPort) {
        if self.known.ports.contains_key(port) {
            return self.update("Port", port, json!({"tag": optional(of_port.tag)}));
        }
        let inserted = self.insert_port(port, of_port);
        self.mutate("Bridge", Some(bridge), json!([["ports", "insert", inserted]]));
        if let Some((_, ports)) = self.known.bridges.get_mut(bridge) {
            ports.push(port.to_owned());
        }
    }

    fn remove_port(&mut self, bridge: &str, port: &str) {
        let Some((_, ports)) = self.known.bridges.get_mut(bridge) else { return };
        // The port may be in another bridge by now. Then the removal is done.
        let before = ports.len();
        ports.retain(|name| name != port);
        if ports.len() < before
            && let Some(row) = self.known.ports.remove(port)
        {
            self.mutate("Bridge", Some(bridge), json!([["ports", "delete", row]]));
        }
    }

    fn set(&mut self, place: &OvsPlace, value: Option<&Value>) {
        let (table, column) = (place.table.as_str(), place.column.as_str());
        let Some(key) = &place.key else {
            let value = value.cloned().unwrap_or_else(|| unset(column));
            return self.update(table, &place.record, json!({column: value}));
        };
        let mut mutations = vec![json!([column, "delete", ["set", [key]]])];
        mutations.extend(value.map(|value| json!([column, "insert", ["map", [[key, value]]]])));
        self.mutate(table, Some(&place.record), Value::Array(mutations));
    }

    fn set_hwaddr(&mut self, bridge: &str, hwaddr: Option<&str>) {
        let mut mutations = vec![json!(["other_config", "delete", ["set", ["hwaddr"]]])];
        mutations.extend(hwaddr.map(|mac| json!(["other_config", "insert", ["map", [["hwaddr", mac]]]])));
        self.mutate("Bridge", Some(bridge), Value::Array(mutations));
    }
}

/// The value of a column that was never set.
fn unset(column: &str) -> Value {
    match column {
        "stp_enable" | "rstp_enable" | "mcast_snooping_enable" | "bond_fake_iface" => json!(false),
        "bond_updelay" | "bond_downdelay" | "ingress_policing_rate" | "ingress_policing_burst" => json!(0),
        _ => json!(["set", []]),
    }
}

fn optional<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or_else(|| json!(["set", []]), Into::into)
}
