//! The bridges of Open vSwitch through its database: OVSDB (RFC 7047) over the Unix socket, no process.
//!
//! A transaction is durable in the database at once; [`Ovsdb::sync`] waits until the switch has taken it up.
//! What Muster makes carries `external_ids:muster-owner`.

mod rpc;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use super::state::{OvsBridge, OvsInterface, OvsPort};
use rpc::Rpc;

/// The key of Muster's mark.
const OWNER: &str = "muster-owner";
/// What went wrong with Open vSwitch.
#[derive(Debug, Error)]
pub enum OvsdbError {
    /// No database there.
    #[error("cannot reach Open vSwitch's database at {}; is openvswitch-switch installed and running?", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("lost the connection to Open vSwitch's database")]
    Lost(#[source] std::io::Error),
    /// No answer.
    #[error("Open vSwitch's database did not answer within {0} s")]
    Timeout(u64),
    /// The database has it, the switch does not take it up.
    #[error("ovs-vswitchd has not taken up the change within {} s; is it running?", .0.as_secs())]
    NotTakenUp(Duration),
    /// An answer that is not as in RFC 7047, or too long.
    #[error("Open vSwitch's database gave an answer that cannot be understood: {0}")]
    Answer(String),
    /// The database refused.
    #[error("Open vSwitch's database refused: {0}")]
    Refused(String),
}

type Result<T> = std::result::Result<T, OvsdbError>;

/// A connection to the database.
pub struct Ovsdb {
    rpc: Rpc,
    sync_timeout: Duration,
}

impl Ovsdb {
    /// Connects to `socket`. The switch has `sync_timeout` to take up what is asked of the database.
    pub async fn connect(socket: &Path, sync_timeout: Duration) -> Result<Self> {
        Ok(Self { rpc: Rpc::connect(socket).await?, sync_timeout })
    }

    /// All bridges with their ports.
    pub async fn bridges(&mut self) -> Result<BTreeMap<String, OvsBridge>> {
        let select = |table: &str, columns: Value| json!({"op": "select", "table": table, "where": [], "columns": columns});
        let results = self
            .transact(vec![
                select("Interface", json!(["_uuid", "name", "type", "mtu_request", "error"])),
                select("Port", json!(["_uuid", "name", "interfaces", "tag", "external_ids"])),
                select("Bridge", json!(["name", "ports", "datapath_type", "other_config", "external_ids"])),
            ])
            .await?;
        let interfaces: BTreeMap<String, (String, OvsInterface)> =
            rows(&results, 0).filter_map(|row| Some((uuid(row)?, (name(row)?, interface(row))))).collect();
        let ports: BTreeMap<String, (String, OvsPort)> = rows(&results, 1)
            .filter_map(|row| Some((uuid(row)?, (name(row)?, port(row, &interfaces)))))
            .collect();
        Ok(rows(&results, 2).filter_map(|row| Some((name(row)?, bridge(row, &ports)))).collect())
    }

    /// A bridge with its local port, unless there is one by that name.
    pub async fn create_bridge(
        &mut self,
        bridge: &str,
        datapath_type: Option<&str>,
        hwaddr: Option<&str>,
    ) -> Result<()> {
        if self.find("Bridge", bridge).await?.is_some() {
            return self.set_hwaddr(bridge, hwaddr).await;
        }
        let mut row = json!({"name": bridge, "ports": ["named-uuid", "port"], "external_ids": mark()});
        if let Some(datapath_type) = datapath_type {
            row["datapath_type"] = json!(datapath_type);
        }
        if let Some(hwaddr) = hwaddr {
            row["other_config"] = json!(["map", [["hwaddr", hwaddr]]]);
        }
        let [interface, port] = new_port(bridge, None, true);
        let new_bridge = json!({"op": "insert", "table": "Bridge", "uuid-name": "bridge", "row": row});
        let known = json!({"op": "mutate", "table": "Open_vSwitch", "where": [],
            "mutations": [["bridges", "insert", ["named-uuid", "bridge"]]]});
        self.transact(vec![interface, port, new_bridge, known]).await.map(drop)
    }

    /// Deletes a bridge with its ports.
    pub async fn delete_bridge(&mut self, bridge: &str) -> Result<()> {
        let Some(uuid) = self.find("Bridge", bridge).await? else { return Ok(()) };
        let mutation = json!({"op": "mutate", "table": "Open_vSwitch", "where": [],
            "mutations": [["bridges", "delete", ["uuid", uuid]]]});
        self.transact(vec![mutation]).await.map(drop)
    }

    /// A port with one interface of its name, or a tag for the one that is there.
    pub async fn add_port(
        &mut self,
        bridge: &str,
        port: &str,
        tag: Option<u16>,
        internal: bool,
    ) -> Result<()> {
        if self.find("Port", port).await?.is_some() {
            return self.set_tag(port, tag).await;
        }
        let [interface, new_port] = new_port(port, tag, internal);
        let known = json!({"op": "mutate", "table": "Bridge", "where": [["name", "==", bridge]],
            "mutations": [["ports", "insert", ["named-uuid", "port"]]]});
        self.transact(vec![interface, new_port, known]).await.map(drop)
    }

    /// Takes a port out of a bridge.
    pub async fn remove_port(&mut self, bridge: &str, port: &str) -> Result<()> {
        let Some(uuid) = self.find("Port", port).await? else { return Ok(()) };
        let mutation = json!({"op": "mutate", "table": "Bridge", "where": [["name", "==", bridge]],
            "mutations": [["ports", "delete", ["uuid", uuid]]]});
        self.transact(vec![mutation]).await.map(drop)
    }

    /// The VLAN of a port.
    pub async fn set_tag(&mut self, port: &str, tag: Option<u16>) -> Result<()> {
        self.update("Port", port, json!({"tag": optional(tag)})).await
    }

    /// The MTU asked for on an interface.
    pub async fn set_mtu(&mut self, interface: &str, mtu: Option<u32>) -> Result<()> {
        self.update("Interface", interface, json!({"mtu_request": optional(mtu)})).await
    }

    /// The MAC address of a bridge.
    pub async fn set_hwaddr(&mut self, bridge: &str, hwaddr: Option<&str>) -> Result<()> {
        let mut mutations = vec![json!(["other_config", "delete", ["set", ["hwaddr"]]])];
        mutations.extend(hwaddr.map(|mac| json!(["other_config", "insert", ["map", [["hwaddr", mac]]]])));
        let where_ = json!([["name", "==", bridge]]);
        let mutation = json!({"op": "mutate", "table": "Bridge", "where": where_, "mutations": mutations});
        self.transact(vec![mutation]).await.map(drop)
    }

    /// Waits until the switch has taken up all that was committed so far.
    pub async fn sync(&mut self) -> Result<()> {
        let asked = self
            .transact(vec![
                json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["next_cfg", "+=", 1]]}),
                json!({"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["next_cfg"]}),
            ])
            .await?;
        let wanted = rows(&asked, 1).find_map(|row| row["next_cfg"].as_i64()).ok_or_else(|| {
            OvsdbError::Refused(
                "it holds no Open_vSwitch row; is the switch set up (ovs-vsctl init)?".to_owned(),
            )
        })?;
        let waited = tokio::time::timeout(self.sync_timeout, self.rpc.wait_for_cur_cfg(wanted)).await;
        waited.map_err(|_| OvsdbError::NotTakenUp(self.sync_timeout))?
    }

    async fn update(&mut self, table: &str, name: &str, row: Value) -> Result<()> {
        let where_ = json!([["name", "==", name]]);
        self.transact(vec![json!({"op": "update", "table": table, "where": where_, "row": row})])
            .await
            .map(drop)
    }

    async fn find(&mut self, table: &str, name: &str) -> Result<Option<String>> {
        let where_ = json!([["name", "==", name]]);
        let select = json!({"op": "select", "table": table, "where": where_, "columns": ["_uuid"]});
        let results = self.transact(vec![select]).await?;
        Ok(rows(&results, 0).find_map(uuid))
    }

    async fn transact(&mut self, operations: Vec<Value>) -> Result<Vec<Value>> {
        let count = operations.len();
        let mut params = vec![json!("Open_vSwitch")];
        params.extend(operations);
        let answer = self.rpc.call("transact", Value::Array(params)).await?;
        let Value::Array(results) = answer else {
            return Err(OvsdbError::Answer("no list of results".to_owned()));
        };
        for result in &results {
            if let Some(error) = result.get("error").and_then(Value::as_str) {
                let details = result.get("details").and_then(Value::as_str).unwrap_or("no details");
                let text: String = format!("{error}: {details}").chars().take(500).collect();
                return Err(OvsdbError::Refused(text));
            }
        }
        if results.len() < count {
            return Err(OvsdbError::Answer(format!("{} results for {count} operations", results.len())));
        }
        Ok(results)
    }
}

fn mark() -> Value {
    json!(["map", [[OWNER, "muster"]]])
}

fn new_port(name: &str, tag: Option<u16>, internal: bool) -> [Value; 2] {
    let kind = if internal { "internal" } else { "" };
    let row = json!({"name": name, "interfaces": ["named-uuid", "interface"], "tag": optional(tag), "external_ids": mark()});
    [
        json!({"op": "insert", "table": "Interface", "uuid-name": "interface", "row": {"name": name, "type": kind}}),
        json!({"op": "insert", "table": "Port", "uuid-name": "port", "row": row}),
    ]
}

fn optional<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or_else(|| json!(["set", []]), Into::into)
}

fn rows(results: &[Value], index: usize) -> impl Iterator<Item = &Value> {
    results.get(index).and_then(|result| result["rows"].as_array()).into_iter().flatten()
}

fn uuid(row: &Value) -> Option<String> {
    row["_uuid"][1].as_str().map(str::to_owned)
}

fn name(row: &Value) -> Option<String> {
    row["name"].as_str().map(str::to_owned)
}

/// The uuids of a column that is one of them or a set.
fn uuids(column: &Value) -> Vec<&str> {
    match column[0].as_str() {
        Some("uuid") => column[1].as_str().into_iter().collect(),
        Some("set") => column[1].as_array().into_iter().flatten().filter_map(|one| one[1].as_str()).collect(),
        _ => Vec::new(),
    }
}

/// An entry of a column that is a map.
fn entry<'a>(column: &'a Value, key: &str) -> Option<&'a str> {
    let pairs = column[1].as_array()?;
    pairs.iter().find(|pair| pair[0] == key).and_then(|pair| pair[1].as_str())
}

fn interface(row: &Value) -> OvsInterface {
    OvsInterface {
        internal: row["type"] == "internal",
        mtu_request: row["mtu_request"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()),
        error: row["error"].as_str().map(str::to_owned),
    }
}

fn port(row: &Value, interfaces: &BTreeMap<String, (String, OvsInterface)>) -> OvsPort {
    OvsPort {
        tag: row["tag"].as_u64().and_then(|tag| u16::try_from(tag).ok()),
        ours: entry(&row["external_ids"], OWNER).is_some(),
        interfaces: uuids(&row["interfaces"])
            .into_iter()
            .filter_map(|uuid| interfaces.get(uuid).cloned())
            .collect(),
    }
}

fn bridge(row: &Value, ports: &BTreeMap<String, (String, OvsPort)>) -> OvsBridge {
    OvsBridge {
        ports: uuids(&row["ports"]).into_iter().filter_map(|uuid| ports.get(uuid).cloned()).collect(),
        hwaddr: entry(&row["other_config"], "hwaddr").map(str::to_owned),
        datapath_type: row["datapath_type"].as_str().unwrap_or_default().to_owned(),
        ours: entry(&row["external_ids"], OWNER).is_some(),
    }
}
