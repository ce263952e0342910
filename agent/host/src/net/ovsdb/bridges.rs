//! The interfaces of each bridge, kept up to date from the database's own messages.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::rpc::Rpc;
use super::{OvsdbError, Result, name, uuids};

/// Bridges by name, with their interfaces.
pub type Interfaces = BTreeMap<Box<str>, Vec<Interface>>;

/// An interface of a bridge's port: a bond has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name, which is also the kernel's name for a link of the kernel.
    pub name: Box<str>,
    /// `internal`, `patch`, a kind of tunnel and so on; empty for a link that exists independently of
    /// the switch.
    pub kind: Box<str>,
    /// The state according to the switch: for interfaces that the kernel does not know.
    pub up: bool,
}

/// A monitor of bridges, ports and interfaces, with their state so far.
pub struct Bridges {
    rpc: Rpc,
    rows: Rows,
}

/// Rows by uuid.
#[derive(Debug, Default)]
struct Rows {
    bridges: BTreeMap<String, (Box<str>, Vec<String>)>,
    ports: BTreeMap<String, Vec<String>>,
    interfaces: BTreeMap<String, Interface>,
}

impl Bridges {
    /// Connects to `socket`.
    pub async fn open(socket: &Path) -> Result<Self> {
        let mut rpc = Rpc::connect(socket).await?;
        // Columns that count are left out: the switch writes them every few seconds.
        let tables = json!({
            "Bridge": {"columns": ["name", "ports"]},
            "Port": {"columns": ["interfaces"]},
            "Interface": {"columns": ["name", "type", "admin_state", "link_state"]},
        });
        let first = rpc.call("monitor", json!(["Open_vSwitch", "muster-ports", tables])).await?;
        let mut rows = Rows::default();
        rows.take(&first);
        Ok(Self { rpc, rows })
    }

    /// Takes the next change; an error when the connection is lost.
    pub async fn next(&mut self) -> Result<()> {
        loop {
            let message = self.rpc.receive().await?;
            if message["method"] == "update" {
                self.rows.take(&message["params"][1]);
                return Ok(());
            }
            if message["error"] != Value::Null {
                return Err(OvsdbError::Refused(message["error"].to_string().chars().take(500).collect()));
            }
        }
    }

    /// The present interfaces.
    pub fn interfaces(&self) -> Interfaces {
        self.rows.joined()
    }
}

impl Rows {
    /// Takes a `table-updates` of RFC 7047: the new value of each row, or null for a removed row.
    fn take(&mut self, updates: &Value) {
        let of = |table: &str| updates[table].as_object().into_iter().flatten();
        for (uuid, row) in of("Bridge") {
            let new = &row["new"];
            let bridge = name(new).map(|name| (name.into(), owned(&new["ports"])));
            put(&mut self.bridges, uuid, bridge);
        }
        for (uuid, row) in of("Port") {
            let new = &row["new"];
            put(&mut self.ports, uuid, new.is_object().then(|| owned(&new["interfaces"])));
        }
        for (uuid, row) in of("Interface") {
            let new = &row["new"];
            let text = |column: &str| new[column].as_str().unwrap_or_default();
            let interface = name(new).map(|name| Interface {
                name: name.into(),
                kind: Some(text("type")).filter(|kind| *kind != "system").unwrap_or_default().into(),
                up: text("admin_state") == "up" && text("link_state") == "up",
            });
            put(&mut self.interfaces, uuid, interface);
        }
    }

    fn joined(&self) -> Interfaces {
        let of_bridge = |ports: &[String]| -> Vec<Interface> {
            let ports = ports.iter().filter_map(|uuid| self.ports.get(uuid));
            ports.flatten().filter_map(|uuid| self.interfaces.get(uuid)).cloned().collect()
        };
        self.bridges.values().map(|(name, ports)| (name.clone(), of_bridge(ports))).collect()
    }
}

fn put<T>(rows: &mut BTreeMap<String, T>, uuid: &str, row: Option<T>) {
    match row {
        Some(row) => drop(rows.insert(uuid.to_owned(), row)),
        None => drop(rows.remove(uuid)),
    }
}

fn owned(column: &Value) -> Vec<String> {
    uuids(column).into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &Rows) -> Vec<String> {
        let shown = |(bridge, interfaces): (Box<str>, Vec<Interface>)| {
            let each = |it: &Interface| format!(" {}/{}/{}", it.name, it.kind, it.up);
            format!("{bridge}:{}", interfaces.iter().map(each).collect::<String>())
        };
        rows.joined().into_iter().map(shown).collect()
    }

    #[test]
    fn rows_come_change_and_go() {
        let mut rows = Rows::default();
        let uuid = |of: &str| json!(["uuid", of]);
        let up = |name: &str, kind: &str| json!({"new": {"name": name, "type": kind, "admin_state": "up", "link_state": "up"}});
        rows.take(&json!({
            "Bridge": {"b": {"new": {"name": "br0", "ports": ["set", [uuid("p1"), uuid("p2")]]}}},
            "Port": {"p1": {"new": {"interfaces": uuid("i1")}},
                "p2": {"new": {"interfaces": ["set", [uuid("i2"), uuid("i3")]]}}},
            "Interface": {"i1": up("br0", "internal"), "i2": up("eth1", "system"), "i3": up("eth2", "")},
        }));
        assert_eq!(shown(&rows), ["br0: br0/internal/true eth1//true eth2//true"]);
        rows.take(&json!({"Interface": {"i2": {"old": {"link_state": "up"},
            "new": {"name": "eth1", "type": "", "admin_state": "up", "link_state": ["set", []]}}}}));
        assert_eq!(shown(&rows), ["br0: br0/internal/true eth1//false eth2//true"]);
        rows.take(&json!({
            "Bridge": {"b": {"new": {"name": "br0", "ports": uuid("p1")}},
                "c": {"new": {"name": "br1", "ports": ["set", []]}}},
            "Port": {"p2": {"old": {"interfaces": uuid("i2")}}},
            "Interface": {"i2": {"old": {}}, "i3": {"old": {}}},
        }));
        assert_eq!(shown(&rows), ["br0: br0/internal/true", "br1:"]);
        rows.take(&json!({"Bridge": {"b": {"old": {"name": "br0"}}}}));
        assert_eq!(shown(&rows), ["br1:"]);
        for odd in [json!(null), json!({"Bridge": 5}), json!({"Bridge": {"c": {"new": {"ports": [1]}}}})] {
            rows.take(&odd);
        }
        assert_eq!(shown(&rows), Vec::<String>::new(), "a bridge without a name is none");
    }
}
