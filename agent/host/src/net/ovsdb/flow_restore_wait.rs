//! `flow-restore-wait`: a switch that starts while this key is in the database forwards nothing by rules
//! until the key is removed, so that traffic never meets a half-filled table.
//!
//! The switch watches the key from its start until it has once seen the key gone. From then on the key can be
//! set again, for the next start. `external_ids:muster-flow-restore` marks our key; a key without the mark
//! belongs to others and is left alone.
//!
//! Absent: when the key is set and removed (`agent/src/driver/flow_restore_wait.rs`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Ovsdb, OvsdbError, Result, name, rows};

const WAIT: &str = "flow-restore-wait";
const MARK: &str = "muster-flow-restore";

/// The owner of the hold on the flow tables of the switch's next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Nobody,
    Ours,
    /// The hold belongs to another program, which has to remove it.
    Others,
}

impl Ovsdb {
    /// The names of all bridges.
    pub async fn bridge_names(&mut self) -> Result<BTreeSet<String>> {
        let select = json!({"op": "select", "table": "Bridge", "where": [], "columns": ["name"]});
        let results = self.transact(vec![select]).await?;
        Ok(rows(&results, 0).filter_map(name).collect())
    }

    pub async fn held(&mut self) -> Result<Hold> {
        let select = json!({"op": "select", "table": "Open_vSwitch", "where": [],
            "columns": ["other_config", "external_ids"]});
        let results = self.transact(vec![select]).await?;
        let row = rows(&results, 0).next();
        let row = row.ok_or_else(|| OvsdbError::Answer("no row of Open_vSwitch".to_owned()))?;
        let is = |column: &str, key: &str| get(&row[column], key) == Some("true");
        Ok(match (is("other_config", WAIT), is("external_ids", MARK)) {
            (false, _) => Hold::Nobody,
            (true, true) => Hold::Ours,
            (true, false) => Hold::Others,
        })
    }

    /// Sets the hold, unless there is one already.
    pub async fn hold(&mut self) -> Result<Hold> {
        match self.held().await? {
            Hold::Nobody => {}
            held => return Ok(held),
        }
        let entry = |key: &str| json!(["map", [[key, "true"]]]);
        let keys = |key: &str| json!(["set", [key]]);
        let mutations = [
            // An insertion alone does not change an existing key, such as one that says "false".
            json!(["other_config", "delete", keys(WAIT)]),
            json!(["other_config", "insert", entry(WAIT)]),
            json!(["external_ids", "delete", keys(MARK)]),
            json!(["external_ids", "insert", entry(MARK)]),
        ];
        self.mutate(&mutations).await?;
        Ok(Hold::Ours)
    }

    /// Removes our hold. Returns true if there was one.
    pub async fn release(&mut self) -> Result<bool> {
        if self.held().await? != Hold::Ours {
            return Ok(false);
        }
        let keys = |key: &str| json!(["set", [key]]);
        let mutations =
            [json!(["other_config", "delete", keys(WAIT)]), json!(["external_ids", "delete", keys(MARK)])];
        self.mutate(&mutations).await?;
        Ok(true)
    }

    async fn mutate(&mut self, mutations: &[Value]) -> Result<()> {
        let mutate = json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": mutations});
        self.transact(vec![mutate]).await.map(drop)
    }
}

/// The value of a key in a column that is a map.
fn get<'a>(column: &'a Value, key: &str) -> Option<&'a str> {
    let pairs = column[1].as_array()?;
    pairs.iter().find(|pair| pair[0].as_str() == Some(key))?[1].as_str()
}
