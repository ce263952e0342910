//! Intents and the network, to and from the tables of the database.
//!
//! Absent: which records there are (`controller/intent/src/record.rs`), and what a start makes of them
//! (`controller/engine/src/intent/load.rs`).

use std::sync::Arc;

use muster_intent::intent::Intent;
use muster_intent::manager::{IntentNo, IntentRecord, PathRecord, Reroute};
use muster_intent::phase::{Request, State};
use muster_intent::record::{IntentChange, IntentSnapshot};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::DeviceName;
use serde::{Deserialize, Serialize};

use super::database::int;
use super::key::DataKey;
use super::sealed::{SealedText, WISH, open_text};
use super::sql::{Db, Row, upsert, values};
use super::{StoreError, meta};

/// The intent as requested.
#[derive(Serialize, Deserialize)]
struct Wish {
    intent: Arc<Intent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<Box<str>>,
}

/// The intent as installed.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Installation {
    paths: Vec<PathRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: PathRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<ConnectPoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ends: Vec<ConnectPoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Reroute>,
}

fn text(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Format(error.to_string()))
}

pub(super) fn apply(db: &Db, key: &DataKey, change: &IntentChange, now: &str) -> Result<(), StoreError> {
    match change {
        IntentChange::Intent(record, owner) => put(db, key, record, *owner, now)?,
        IntentChange::Removed(no) => {
            db.prepare_many("DELETE FROM intents WHERE number = ?1")?.execute(values![int(no.0)])?;
        }
        IntentChange::Device { device, up, ports } => {
            db.prepare_many(upsert!("topology_devices", ["node", "bridge"], ["up", "ports", "changed_at"]))?
                .execute(values![device.node.as_str(), device.bridge.as_str(), up, text(ports)?, now])?;
        }
        IntentChange::DeviceRemoved(device) => {
            db.execute(
                "DELETE FROM topology_devices WHERE node = ?1 AND bridge = ?2",
                values![device.node.as_str(), device.bridge.as_str()],
            )?;
        }
    }
    Ok(())
}

fn put(
    db: &Db,
    key: &DataKey,
    record: &IntentRecord,
    owner: Option<u64>,
    now: &str,
) -> Result<(), StoreError> {
    let number = int(record.no.0);
    let wish = text(&Wish { intent: record.intent.clone(), group: record.group.clone() })?;
    let stands = text(&Installation {
        paths: record.paths.clone(),
        links: record.links.clone(),
        label: record.label,
        bandwidth: record.bandwidth,
        missing: record.missing.clone(),
        ends: record.ends.clone(),
        history: record.history.clone(),
    })?;
    db.prepare_many(upsert!(
        "intents",
        ["number"],
        ["key", "wish", "request", "state", "version", "errors", "reason", "stands", "owner", "changed_at"]
    ))?
    .execute(values![
        number,
        record.key,
        SealedText::new(key, WISH, &[number], &wish)?,
        record.request.as_str(),
        record.state.as_str(),
        int(record.version),
        record.errors,
        record.reason,
        stands,
        owner.map(int),
        now,
    ])
}

pub(super) fn load(db: &Db, key: &DataKey) -> Result<IntentSnapshot, StoreError> {
    let mut snapshot = IntentSnapshot::default();
    db.each(
        "SELECT number, key, wish, request, state, version, errors, reason, stands, owner FROM intents",
        values![],
        |row| {
            let (record, owner) = read(row, key)?;
            snapshot.intents.insert(record.no, (record, owner));
            Ok(())
        },
    )?;
    db.each("SELECT node, bridge, up, ports FROM topology_devices", values![], |row| {
        let (node, bridge, ports): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let name = format!("{node}/{bridge}");
        let device: DeviceName =
            name.parse().map_err(|_| StoreError::Format(format!("'{name}' is not a device")))?;
        let ports = serde_json::from_str(&ports)
            .map_err(|error| StoreError::Format(format!("ports of {name}: {error}")))?;
        snapshot.devices.insert(device, (row.get(2)?, ports));
        Ok(())
    })?;
    snapshot.highest = meta::number(db, "highest_intent")?.unwrap_or(0);
    Ok(snapshot)
}

fn read(row: &Row<'_>, data_key: &DataKey) -> Result<(IntentRecord, Option<u64>), StoreError> {
    let (number, key): (i64, Box<str>) = (row.get(0)?, row.get(1)?);
    let wrong = |what: &str, why: &dyn std::fmt::Display| {
        StoreError::Format(format!("{what} of intent {number}: {why}"))
    };
    let wish = open_text(data_key, WISH, &[number], row.value(2)?)?;
    let Wish { intent, group } = serde_json::from_str(&wish).map_err(|error| wrong("wish", &error))?;
    let (request, state): (String, String) = (row.get(3)?, row.get(4)?);
    let stands: String = row.get(8)?;
    let stands: Installation = serde_json::from_str(&stands).map_err(|error| wrong("stands", &error))?;
    let record = IntentRecord {
        no: IntentNo(number.cast_unsigned()),
        key,
        intent,
        group,
        request: Request::from_name(&request).ok_or_else(|| wrong("request", &request))?,
        state: State::from_name(&state).ok_or_else(|| wrong("state", &state))?,
        version: row.get(5)?,
        errors: row.get(6)?,
        reason: row.get(7)?,
        paths: stands.paths,
        links: stands.links,
        label: stands.label,
        bandwidth: stands.bandwidth,
        missing: stands.missing,
        ends: stands.ends,
        history: stands.history,
    };
    Ok((record, row.get(9)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use muster_engine::record::Change;
    use muster_intent::intent::{Constraints, Kind};
    use muster_intent::manager::PortRecord;
    use muster_shared::model::flow::{Criterion, Field};

    use super::super::Store as _;
    use super::super::testing::each;
    use super::*;

    fn at(text: &str, port: &str) -> ConnectPoint {
        ConnectPoint { device: text.parse().expect("a device"), port: port.into() }
    }

    fn record(number: u64, secret: u128) -> IntentRecord {
        let hop = (at("a/br0", "b"), at("b/br0", "a"));
        IntentRecord {
            no: IntentNo(number),
            key: format!("key {number}").into(),
            intent: Arc::new(Intent {
                kind: Kind::PointToPoint { from: at("a/br0", "h"), to: at("b/br0", "h") },
                priority: 100,
                selector: vec![Criterion::Field { field: Field::Ipv6Dst, value: secret, mask: None }],
                treatment: Vec::new(),
                constraints: Constraints {
                    bandwidth: Some(5),
                    obstacle_links: BTreeSet::from([hop.clone()]),
                    ..Constraints::default()
                },
            }),
            group: Some("together".into()),
            request: Request::Install,
            state: State::Reallocating,
            version: 7,
            errors: 2,
            reason: Some("why".into()),
            paths: vec![vec![hop.clone()], vec![]],
            links: vec![hop],
            label: Some(9),
            bandwidth: Some(5),
            missing: vec![at("c/br0", "h")],
            ends: vec![at("a/br0", "g")],
            history: vec![Reroute {
                why: "a cable".into(),
                took: Duration::from_micros(1234),
                before: vec![vec![at("a/br0", "h").device]],
            }],
        }
    }

    #[test]
    fn stored_intents_load_as_written_and_are_not_readable() {
        each(|place| {
            let mut store = place.open();
            let device = || at("a/br0", "h").device;
            let ports = vec![
                PortRecord { name: "b".into(), up: true, heard: Some(at("b/br0", "a")), missed: None },
                PortRecord { name: "h".into(), up: false, heard: None, missed: Some(at("c/br0", "a")) },
            ];
            let changes = [
                IntentChange::Intent(Box::new(record(1, 54321)), None),
                IntentChange::Intent(Box::new(record(2, u128::MAX - 1)), Some(77)),
                IntentChange::Intent(Box::new(record(3, 1)), None),
                IntentChange::Removed(IntentNo(3)),
                IntentChange::Device { device: device(), up: true, ports: ports.clone() },
                IntentChange::Device { device: at("b/br0", "h").device, up: false, ports: Vec::new() },
                IntentChange::DeviceRemoved(at("b/br0", "h").device),
            ];
            store.commit(&mut changes.into_iter().map(Change::Intent), &[]).expect("written");
            drop(store);
            let store = place.open();
            let found = load(store.db(), &store.key()).expect("loaded");
            assert_eq!(found.highest, 3);
            let wanted = [
                (IntentNo(1), (record(1, 54321), None)),
                (IntentNo(2), (record(2, u128::MAX - 1), Some(77))),
            ];
            assert_eq!(found.intents, wanted.into());
            assert_eq!(found.devices, [(device(), (true, ports))].into());
            for file in ["muster.db", "muster.db-wal"] {
                let bytes = std::fs::read(place.folder().join(file)).unwrap_or_default();
                assert!(!bytes.windows(5).any(|window| window == b"54321"), "{file}");
            }
        });
    }
}
