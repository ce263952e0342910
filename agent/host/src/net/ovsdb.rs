//! The bridges of Open vSwitch through its database: OVSDB (RFC 7047) over the Unix socket, no process.
//!
//! A transaction is durable in the database at once; [`Ovsdb::sync`] waits until the switch has applied it.
//! Muster's rows carry `external_ids:muster-owner`.

mod batch;
mod bridges;
mod changes;
mod flow_restore_wait;
mod row;
mod rpc;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::state::{Ovs, OvsBridge, OvsInterface, OvsPort};
use super::step::Step;
use batch::{Batch, ExistingRows};
pub(crate) use bridges::{Bridges, Interface, Interfaces};
pub(super) use changes::Changes;
pub use flow_restore_wait::Hold;
use rpc::Rpc;

/// The key of Muster's mark.
const OWNER: &str = "muster-owner";

/// A refused change; nothing of it was done.
#[derive(Debug)]
pub struct Failed {
    /// Index of the step.
    pub step: usize,
    pub error: OvsdbError,
}

/// An error of Open vSwitch or of the exchange with it.
#[derive(Debug, Error)]
pub enum OvsdbError {
    /// There is no database at this path.
    #[error("cannot reach Open vSwitch's database at {}; is openvswitch-switch installed and running?", path.display())]
    Connect {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("lost the connection to Open vSwitch's database")]
    Lost(#[source] std::io::Error),
    /// The database gave no answer.
    #[error("Open vSwitch's database did not answer within {0} s")]
    Timeout(u64),
    /// The database has the change, but the switch does not apply it.
    #[error("ovs-vswitchd has not taken up the change within {} s; is it running?", .0.as_secs())]
    NotTakenUp(Duration),
    /// The answer does not follow RFC 7047, or is too long.
    #[error("Open vSwitch's database gave an answer that cannot be understood: {0}")]
    Answer(String),
    /// The database refused.
    #[error("Open vSwitch's database refused: {0}")]
    Refused(String),
}

type Result<T> = std::result::Result<T, OvsdbError>;

/// A switch, as its database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchVersion {
    pub version: String,
    /// The switch has taken up the last change.
    pub is_current: bool,
}

/// A connection to the database.
pub struct Ovsdb {
    rpc: Rpc,
    sync_timeout: Duration,
}

impl Ovsdb {
    /// Connects to `socket`. The switch has `sync_timeout` to apply changes of the database.
    pub async fn connect(socket: &Path, sync_timeout: Duration) -> Result<Self> {
        Ok(Self { rpc: Rpc::connect(socket).await?, sync_timeout })
    }

    /// The bridges with their ports.
    pub async fn bridges(&mut self) -> Result<Ovs> {
        let select = |table: &str, read: &[&str], more: &[&str]| {
            let columns: Vec<&str> = read.iter().chain(more).copied().collect();
            json!({"op": "select", "table": table, "where": [], "columns": columns})
        };
        let tables = vec![
            select("Interface", &["_uuid", "name", "type", "mtu_request", "error"], &row::INTERFACE),
            select("Port", &["_uuid", "name", "interfaces", "tag"], &row::PORT),
            select("Bridge", &["name", "ports", "datapath_type"], &row::BRIDGE),
        ];
        let answer = self.rpc.call_for_much("transact", params(tables)).await?;
        let (interfaces, ports, bridges): Tables = match serde_json::from_slice::<Answer>(&answer) {
            Ok(answer) => answer.result,
            Err(error) => return Err(refused(&answer).unwrap_or(OvsdbError::Answer(error.to_string()))),
        };
        drop(answer);
        let mut interfaces: BTreeMap<_, _> = interfaces.rows.into_iter().filter_map(|row| row.0).collect();
        let joined = |row: PortRow| {
            let (uuid, (name, mut port), of_port) = row.0?;
            port.interfaces = of_port.iter().filter_map(|uuid| interfaces.remove(uuid)).collect();
            Some((uuid, (name, port)))
        };
        let mut ports: BTreeMap<_, _> = ports.rows.into_iter().filter_map(joined).collect();
        let joined = |row: BridgeRow| {
            let ((name, mut bridge), of_bridge) = row.0?;
            bridge.ports = of_bridge.iter().filter_map(|uuid| ports.remove(uuid)).collect();
            Some((name, bridge))
        };
        let bridges: BTreeMap<_, _> = bridges.rows.into_iter().filter_map(joined).collect();
        Ok(Ovs::from(bridges))
    }

    /// Executes all of `steps`, which must be [`Step::is_ovs`], in one transaction. Steps that are already
    /// done are left out.
    pub async fn change(&mut self, steps: &[Step]) -> std::result::Result<(), Failed> {
        let known = self.known().await.map_err(|error| Failed { step: 0, error })?;
        let mut batch = Batch::new(known);
        for (index, step) in steps.iter().enumerate() {
            batch.add(index, step);
        }
        batch.close();
        let Batch { operations, steps, .. } = batch;
        if operations.is_empty() {
            return Ok(());
        }
        let failed = |(index, error)| Failed { step: steps.get(index).copied().unwrap_or(0), error };
        self.transact_all(operations).await.map(drop).map_err(failed)
    }

    async fn known(&mut self) -> Result<ExistingRows> {
        let select = |table: &str, columns: Value| json!({"op": "select", "table": table, "where": [], "columns": columns});
        let results = self
            .transact(vec![
                select("Port", json!(["_uuid", "name"])),
                select("Bridge", json!(["_uuid", "name", "ports"])),
            ])
            .await?;
        let ports = rows(&results, 0).filter_map(|row| Some((uuid(row)?, name(row)?))).collect();
        let bridge = |row: &Value| {
            let ports = uuids(&row["ports"]).into_iter().map(str::to_owned).collect();
            Some((name(row)?, uuid(row)?, ports))
        };
        Ok(ExistingRows::new(ports, rows(&results, 1).filter_map(bridge).collect()))
    }

    /// Whether the switch has applied all changes of the database.
    pub async fn is_idle(&mut self) -> Result<bool> {
        let columns = json!(["next_cfg", "cur_cfg"]);
        let select = json!({"op": "select", "table": "Open_vSwitch", "where": [], "columns": columns});
        let results = self.transact(vec![select]).await?;
        Ok(rows(&results, 0).all(|row| row["cur_cfg"].as_i64() >= row["next_cfg"].as_i64()))
    }

    /// Waits until the switch has taken up all that was committed so far.
    pub async fn sync(&mut self) -> Result<()> {
        let asked = self
            .transact(vec![
                more_to_take_up(),
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

    /// The switch that works for this database.
    pub async fn version(&mut self) -> Result<SwitchVersion> {
        let columns = json!(["ovs_version", "next_cfg", "cur_cfg"]);
        let select = json!({"op": "select", "table": "Open_vSwitch", "where": [], "columns": columns});
        let results = self.transact(vec![select]).await?;
        let row = rows(&results, 0).next();
        let row = row.ok_or_else(|| OvsdbError::Answer("no row of Open_vSwitch".to_owned()))?;
        // A set without an element until the switch's start-up script has written it.
        let version = row["ovs_version"].as_str().unwrap_or("unknown").to_owned();
        Ok(SwitchVersion { version, is_current: row["cur_cfg"].as_i64() >= row["next_cfg"].as_i64() })
    }

    async fn transact(&mut self, operations: Vec<Value>) -> Result<Vec<Value>> {
        self.transact_all(operations).await.map_err(|(_, error)| error)
    }

    /// An error names the failed operation.
    async fn transact_all(
        &mut self,
        operations: Vec<Value>,
    ) -> std::result::Result<Vec<Value>, (usize, OvsdbError)> {
        let count = operations.len();
        let answer = self.rpc.call("transact", params(operations)).await.map_err(|error| (0, error))?;
        let Value::Array(results) = answer else {
            return Err((0, OvsdbError::Answer("no list of results".to_owned())));
        };
        if let Some(failed) = first_refused(&results) {
            return Err(failed);
        }
        if results.len() < count {
            let problem = format!("{} results for {count} operations", results.len());
            return Err((0, OvsdbError::Answer(problem)));
        }
        Ok(results)
    }
}

/// The answer to the query of [`Ovsdb::bridges`]. Only the kept parts of each row are ever in memory: as
/// [`Value`]s, the rows of some hundred ports take megabytes.
#[derive(Deserialize)]
struct Answer {
    result: Tables,
}

type Tables = (Rows<InterfaceRow>, Rows<PortRow>, Rows<BridgeRow>);

#[derive(Deserialize)]
struct Rows<T> {
    rows: Vec<T>,
}

/// The interface, with its uuid and name.
#[derive(Deserialize)]
#[serde(from = "Value")]
struct InterfaceRow(Option<(String, (String, OvsInterface))>);

impl From<Value> for InterfaceRow {
    fn from(row: Value) -> Self {
        Self(uuid(&row).zip(name(&row).map(|name| (name, row::interface(&row)))))
    }
}

/// The port, with its uuid and name, and its interfaces' uuids.
#[derive(Deserialize)]
#[serde(from = "Value")]
struct PortRow(Option<(String, (String, OvsPort), Vec<String>)>);

impl From<Value> for PortRow {
    fn from(row: Value) -> Self {
        let of_port = || uuids(&row["interfaces"]).into_iter().map(str::to_owned).collect();
        let port = uuid(&row).zip(name(&row));
        Self(port.map(|(uuid, name)| (uuid, (name, row::port(&row)), of_port())))
    }
}

/// The bridge, with its name and its ports' uuids.
#[derive(Deserialize)]
#[serde(from = "Value")]
struct BridgeRow(Option<((String, OvsBridge), Vec<String>)>);

impl From<Value> for BridgeRow {
    fn from(row: Value) -> Self {
        let of_bridge = || uuids(&row["ports"]).into_iter().map(str::to_owned).collect();
        Self(name(&row).map(|name| ((name, row::bridge(&row)), of_bridge())))
    }
}

fn params(operations: Vec<Value>) -> Value {
    let mut params = vec![json!("Open_vSwitch")];
    params.extend(operations);
    Value::Array(params)
}

/// The error that an answer holds in place of rows.
fn refused(answer: &[u8]) -> Option<OvsdbError> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    match (&answer["error"], answer["result"].as_array()) {
        (Value::Null, results) => Some(first_refused(results?)?.1),
        (error, _) => Some(OvsdbError::Refused(error.to_string().chars().take(500).collect())),
    }
}

/// The first of the operations that failed.
fn first_refused(results: &[Value]) -> Option<(usize, OvsdbError)> {
    results.iter().enumerate().find_map(|(index, result)| {
        let error = result.get("error").and_then(Value::as_str)?;
        let details = result.get("details").and_then(Value::as_str).unwrap_or("no details");
        let text: String = format!("{error}: {details}").chars().take(500).collect();
        Some((index, OvsdbError::Refused(text)))
    })
}

fn more_to_take_up() -> Value {
    json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["next_cfg", "+=", 1]]})
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

/// The uuids of a column that is either a single one or a set.
fn uuids(column: &Value) -> Vec<&str> {
    match column[0].as_str() {
        Some("uuid") => column[1].as_str().into_iter().collect(),
        Some("set") => column[1].as_array().into_iter().flatten().filter_map(|one| one[1].as_str()).collect(),
        _ => Vec::new(),
    }
}
