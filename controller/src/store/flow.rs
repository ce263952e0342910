//! Flow tables: one row of `flow_devices` has the states of many entries. An entry is in clear unless it
//! contains a hidden value: then it is sealed, and only that entry costs more.
//!
//! Absent: which entries are hidden (`controller/flow/src/secret.rs`), and the tables in memory
//! (`controller/flow/src/table.rs`).

use std::sync::Arc;

use muster_flow::OperationStatus;
use muster_flow::record::{
    FlowChange, FlowDeviceRecord, FlowEntryRecord, FlowMark, FlowOperationRecord, FlowPartRecord, FlowPast,
    FlowSnapshot, ForgottenRecord,
};
use muster_flow::{FlowAction, FlowWrite, Owner};
use muster_shared::model::flow::{Entry, FlowId, Packed};
use muster_shared::{Epoch, Generation};
use muster_template::ForeignPolicy;
use serde_json::Value;

use super::database::int;
use super::key::DataKey;
use super::sealed::{Column, FLOW_ENTRY, FLOW_PAST, open};
use super::sql::{Damage, Db, Row, upsert, values};
use super::{StoreError, meta};

/// The most ends of writes kept per device: for an older rule, the time of its write stands for the time of
/// its end.
const SETTLED_KEPT: i64 = 1000;

const FORGET_PAST: &str = "DELETE FROM flow_past WHERE device = ?1 AND id = ?2";

/// An id in the databases' type: ours are below half of the range.
fn id(id: FlowId) -> i64 {
    id.0.cast_signed()
}

pub(super) fn apply(db: &Db, key: &DataKey, change: &FlowChange, now: &str) -> Result<(), StoreError> {
    match change {
        FlowChange::Device(record) => put_device(db, record, now)?,
        FlowChange::DeviceRemoved(device) => {
            for table in ["flow_devices", "flow_entries", "flow_past", "flow_settled", "flow_parts"] {
                db.execute(&format!("DELETE FROM {table} WHERE device = ?1"), values![device])?;
            }
        }
        FlowChange::Entries { device, entries, gone } => {
            let mut remove = db.prepare_many("DELETE FROM flow_entries WHERE device = ?1 AND id = ?2")?;
            let mut forget = db.prepare_many(FORGET_PAST)?;
            for gone in gone {
                remove.execute(values![device, id(*gone)])?;
                forget.execute(values![device, id(*gone)])?;
            }
            put_entries(db, key, *device, entries, now)?;
        }
        FlowChange::Settled { device, serial } => {
            db.prepare_many("DELETE FROM flow_entries WHERE device = ?1 AND removing = 1 AND serial <= ?2")?
                .execute(values![device, int(*serial)])?;
            db.prepare_many("DELETE FROM flow_past WHERE device = ?1 AND until <= ?2")?
                .execute(values![device, int(*serial)])?;
        }
        FlowChange::Forgotten(ForgottenRecord { node, bridge, generation }) => {
            let number = int(generation.number);
            db.execute(
                upsert!("flow_forgotten", ["node", "bridge"], ["epoch", "number"]),
                values![node.as_str(), bridge.as_str(), generation.epoch.0, number],
            )?;
        }
        FlowChange::ForgottenHeard { node, bridge } => {
            db.execute(
                "DELETE FROM flow_forgotten WHERE node = ?1 AND bridge = ?2",
                values![node.as_str(), bridge.as_str()],
            )?;
        }
        FlowChange::Application { number, name } => {
            db.execute(upsert!("flow_applications", ["number"], ["name"]), values![int(*number), &**name])?;
        }
        FlowChange::Operation(record) => put_operation(db, record, now)?,
        FlowChange::Stages { operation, stages } => {
            let bytes = postcard::to_stdvec(&**stages).map_err(|e| StoreError::Format(e.to_string()))?;
            db.execute(
                "UPDATE flow_operations SET to_come = ?2 WHERE id = ?1",
                values![int(*operation), bytes],
            )?;
        }
        FlowChange::OperationRemoved(operation) => {
            db.execute("DELETE FROM flow_operations WHERE id = ?1", values![int(*operation)])?;
        }
        FlowChange::Part(part) => {
            db.prepare_many(upsert!("flow_parts", ["operation", "device"], ["serial", "count"]))?
                .execute(values![int(part.operation), part.device, int(part.serial), int(part.count)])?;
        }
        FlowChange::PartRemoved { operation, device } => {
            db.prepare_many("DELETE FROM flow_parts WHERE operation = ?1 AND device = ?2")?
                .execute(values![int(*operation), device])?;
        }
    }
    Ok(())
}

fn put_device(db: &Db, record: &FlowDeviceRecord, now: &str) -> Result<(), StoreError> {
    let (sent, serial) = record.sent.unzip();
    db.prepare_many(upsert!(
        "flow_devices",
        ["device"],
        ["node", "bridge", "serial", "settled", "sent_epoch", "sent_number", "sent_serial", "foreign_policy"]
    ))?
    .execute(values![
        record.device,
        record.node.as_str(),
        record.bridge.as_str(),
        int(record.serial),
        int(record.settled),
        sent.map(|sent| sent.epoch.0),
        sent.map(|sent| int(sent.number)),
        serial.map(int),
        record.foreign.as_str(),
    ])?;
    db.prepare_many("INSERT INTO flow_settled VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(values![record.device, int(record.settled), now])?;
    db.prepare_many("DELETE FROM flow_settled WHERE device = ?1 AND serial < ?2")?
        .execute(values![record.device, int(record.settled) - SETTLED_KEPT])
}

fn put_entries(
    db: &Db,
    key: &DataKey,
    device: u32,
    entries: &[FlowEntryRecord],
    now: &str,
) -> Result<(), StoreError> {
    let mut put = db.prepare_many(upsert!(
        "flow_entries",
        ["device", "id"],
        [
            "serial",
            "owner",
            "removing",
            "mark",
            "reason",
            "packed",
            "table_id",
            "priority",
            "selector",
            "treatment",
            "changed_at",
            "sealed"
        ]
    ))?;
    let mut forget = db.prepare_many(FORGET_PAST)?;
    let mut remember =
        db.prepare_many("INSERT INTO flow_past VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
    let has_past = has_past(db, device)?;
    for entry in entries {
        if entry.hidden || entry.past.iter().any(|past| past.hidden) {
            note_if_clear(db, device, entry.id)?;
        }
        let Shown { reason, packed, table, priority, selector, treatment } = shown(entry);
        let place = [device.into(), id(entry.id)];
        put.execute(values![
            device,
            id(entry.id),
            int(entry.serial),
            int(entry.owner.0),
            entry.removing,
            entry.mark.as_str(),
            reason,
            packed,
            table,
            priority,
            selector,
            treatment,
            now,
            entry
                .hidden
                .then(|| seal(key, FLOW_ENTRY, &place, &entry.packed, entry.reason.as_deref()))
                .transpose()?,
        ])?;
        if has_past {
            forget.execute(values![device, id(entry.id)])?;
        }
    }
    // Not before all are forgotten: in PostgreSQL many are, by one statement.
    for entry in entries {
        let mut until = entry.serial;
        for past in &entry.past {
            let place = [device.into(), id(entry.id), int(until)];
            remember.execute(values![
                device,
                id(entry.id),
                int(until),
                int(past.serial),
                int(past.owner.0),
                past.removing,
                past.mark.as_str(),
                if past.hidden { &[][..] } else { past.packed.bytes() },
                past.hidden.then(|| seal(key, FLOW_PAST, &place, &past.packed, None)).transpose()?,
            ])?;
            until = past.serial;
        }
    }
    Ok(())
}

/// The parts of an entry that are in clear.
#[derive(Default)]
struct Shown<'e> {
    reason: Option<&'e str>,
    packed: &'e [u8],
    table: Option<u8>,
    priority: Option<u16>,
    selector: Option<String>,
    treatment: String,
}

fn shown(entry: &FlowEntryRecord) -> Shown<'_> {
    if entry.hidden {
        return Shown::default();
    }
    let shown = Shown { reason: entry.reason.as_deref(), packed: entry.packed.bytes(), ..Shown::default() };
    match entry.packed.unpack() {
        Entry::Rule(rule) => Shown {
            table: Some(rule.table),
            priority: Some(rule.priority),
            selector: Some(rule.selector_json().to_string()),
            treatment: rule.treatment_json().to_string(),
            ..shown
        },
        special @ (Entry::Group(_) | Entry::Meter(_)) => {
            Shown { treatment: Value::Object(special.to_json()).to_string(), ..shown }
        }
    }
}

fn seal(
    key: &DataKey,
    column: Column,
    place: &[i64],
    packed: &Packed,
    reason: Option<&str>,
) -> Result<Vec<u8>, StoreError> {
    let plain =
        postcard::to_stdvec(&(packed.bytes(), reason)).map_err(|e| StoreError::Format(e.to_string()))?;
    Ok(key.seal(&column.place(place), &plain)?)
}

/// Opens an entry and the reason of its state.
fn opened(
    key: &DataKey,
    column: Column,
    place: &[i64],
    sealed: &[u8],
) -> Result<(Packed, Option<String>), Damage> {
    let plain = open(key, column, place, sealed)?;
    let (packed, reason): (Vec<u8>, _) = postcard::from_bytes(&plain).map_err(|_| bad("an entry"))?;
    Ok((Packed::from_bytes(&packed).map_err(|_| bad("an entry"))?, reason))
}

/// Most devices have no past states: then none is looked up entry by entry. Over a network the question costs
/// more than the look-ups.
fn has_past(db: &Db, device: u32) -> Result<bool, StoreError> {
    if let Db::Postgres(_) = db {
        return Ok(true);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM flow_past WHERE device = ?1)";
    db.only(sql, values![device], |row| row.get(0))
}

/// Notes a scrub if the value was in clear until now: its parameter was not hidden before.
fn note_if_clear(db: &Db, device: u32, entry: FlowId) -> Result<(), StoreError> {
    db.execute(
        "INSERT INTO meta SELECT 'scrub', '1' WHERE
             EXISTS (SELECT 1 FROM flow_entries WHERE device = ?1 AND id = ?2 AND sealed IS NULL)
             OR EXISTS (SELECT 1 FROM flow_past WHERE device = ?1 AND id = ?2 AND sealed IS NULL)
             ON CONFLICT (key) DO NOTHING",
        values![device, id(entry)],
    )
}

fn put_operation(db: &Db, record: &FlowOperationRecord, now: &str) -> Result<(), StoreError> {
    let errors = serde_json::to_string(&record.errors).map_err(|e| StoreError::Format(e.to_string()))?;
    db.execute(
        "INSERT INTO flow_operations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, ?10, ?10)
         ON CONFLICT (id) DO UPDATE SET status = ?3, stage = ?4, done = ?6, errors = ?9, changed_at = ?10,
             to_come = CASE WHEN ?3 = 'IN_PROGRESS' THEN flow_operations.to_come END",
        values![
            int(record.id),
            record.action.as_str(),
            record.status.as_str(),
            record.stage,
            record.stages,
            int(record.done),
            int(record.total),
            record.confirm_timeout,
            errors,
            now,
        ],
    )?;
    meta::raise(db, "highest_flow_operation", int(record.id))
}

fn bad(what: &str) -> Damage {
    Damage::new(format!("flow tables are damaged: {what}"))
}

/// A text that `read` must accept.
fn named<T>(
    row: &Row<'_>,
    column: usize,
    what: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Damage> {
    row.text(column)?.and_then(read).ok_or_else(|| bad(what))
}

fn parsed<T: std::str::FromStr>(row: &Row<'_>, column: usize, what: &str) -> Result<T, Damage> {
    named(row, column, what, |text| text.parse().ok())
}

fn packed(row: &Row<'_>, column: usize) -> Result<Packed, Damage> {
    let bytes = row.bytes(column)?.ok_or_else(|| bad("an entry"))?;
    Packed::from_bytes(bytes).map_err(|_| bad("an entry"))
}

pub(super) fn load(db: &Db, key: &DataKey) -> Result<FlowSnapshot, StoreError> {
    let mut snapshot = FlowSnapshot::default();
    db.each("SELECT * FROM flow_devices", values![], |row| {
        let record = device(row)?;
        snapshot.devices.insert(record.device, record);
        Ok(())
    })?;
    db.each(
        "SELECT device, id, serial, owner, removing, mark, reason, packed, sealed FROM flow_entries
         ORDER BY device, id",
        values![],
        |row| {
            let (device, entry) = entry(row, key)?;
            snapshot.entries.insert((device, entry.id), entry);
            Ok(())
        },
    )?;
    db.each(
        "SELECT device, id, serial, owner, removing, mark, packed, sealed, until FROM flow_past
         ORDER BY device, id, until DESC",
        values![],
        |row| {
            let (key, past) = past(row, key)?;
            if let Some(entry) = snapshot.entries.get_mut(&key) {
                entry.past.push(past);
            }
            Ok(())
        },
    )?;
    db.each(
        "SELECT id, action, status, stage, stages, done, total, confirm_timeout, errors, to_come FROM flow_operations",
        values![],
        |row| {
            let (record, stages) = operation(row)?;
            snapshot.operations.insert(record.id, (record, Arc::new(stages)));
            Ok(())
        },
    )?;
    db.each("SELECT operation, device, serial, count FROM flow_parts", values![], |row| {
        let (operation, device) = (row.get(0)?, row.get(1)?);
        let part = FlowPartRecord { operation, device, serial: row.get(2)?, count: row.get(3)? };
        snapshot.parts.insert((operation, device), part);
        Ok(())
    })?;
    db.each("SELECT node, bridge, epoch, number FROM flow_forgotten", values![], |row| {
        let device = (parsed(row, 0, "a node")?, parsed(row, 1, "a bridge")?);
        let generation = Generation { epoch: Epoch(row.get(2)?), number: row.get(3)? };
        snapshot.forgotten.insert(device, generation);
        Ok(())
    })?;
    db.each("SELECT number, name FROM flow_applications", values![], |row| {
        snapshot.applications.insert(row.get(0)?, row.get::<String>(1)?.into());
        Ok(())
    })?;
    snapshot.highest = meta::number(db, "highest_flow_operation")?.unwrap_or(0);
    Ok(snapshot)
}

fn device(row: &Row<'_>) -> Result<FlowDeviceRecord, Damage> {
    let sent = match (row.get(5)?, row.get(6)?, row.get(7)?) {
        (Some(epoch), Some(number), Some(serial)) => {
            Some((Generation { epoch: Epoch(epoch), number }, serial))
        }
        _ => None,
    };
    Ok(FlowDeviceRecord {
        device: row.get(0)?,
        node: parsed(row, 1, "a node")?,
        bridge: parsed(row, 2, "a bridge")?,
        serial: row.get(3)?,
        settled: row.get(4)?,
        sent,
        foreign: named(row, 8, "a policy", ForeignPolicy::from_name)?,
    })
}

fn entry(row: &Row<'_>, key: &DataKey) -> Result<(u32, FlowEntryRecord), Damage> {
    let sealed = row.bytes(8)?;
    let (packed, reason) = match sealed {
        Some(sealed) => opened(key, FLOW_ENTRY, &[row.get(0)?, row.get(1)?], sealed)?,
        None => (packed(row, 7)?, row.get(6)?),
    };
    let record = FlowEntryRecord {
        id: FlowId(row.get(1)?),
        serial: row.get(2)?,
        owner: Owner(row.get(3)?),
        removing: row.get(4)?,
        mark: named(row, 5, "a mark", FlowMark::from_name)?,
        hidden: sealed.is_some(),
        reason: reason.map(Into::into),
        packed,
        past: Vec::new(),
    };
    Ok((row.get(0)?, record))
}

fn past(row: &Row<'_>, key: &DataKey) -> Result<((u32, FlowId), FlowPast), Damage> {
    let sealed = row.bytes(7)?;
    let packed = match sealed {
        Some(sealed) => opened(key, FLOW_PAST, &[row.get(0)?, row.get(1)?, row.get(8)?], sealed)?.0,
        None => packed(row, 6)?,
    };
    let past = FlowPast {
        serial: row.get(2)?,
        owner: Owner(row.get(3)?),
        removing: row.get(4)?,
        mark: named(row, 5, "a mark", FlowMark::from_name)?,
        hidden: sealed.is_some(),
        packed,
    };
    Ok(((row.get(0)?, FlowId(row.get(1)?)), past))
}

fn operation(row: &Row<'_>) -> Result<(FlowOperationRecord, Vec<Vec<FlowWrite>>), Damage> {
    let record = FlowOperationRecord {
        id: row.get(0)?,
        action: named(row, 1, "an action", FlowAction::from_name)?,
        status: named(row, 2, "a status", OperationStatus::from_name)?,
        stage: row.get(3)?,
        stages: row.get(4)?,
        done: row.get(5)?,
        total: row.get(6)?,
        confirm_timeout: row.get(7)?,
        errors: named(row, 8, "errors", |text| serde_json::from_str(text).ok())?,
    };
    let stages = match row.bytes(9)? {
        Some(bytes) => postcard::from_bytes(bytes).map_err(|_| bad("stages"))?,
        None => Vec::new(),
    };
    Ok((record, stages))
}

#[cfg(test)]
mod tests;
