//! Flow tables: one row of `flow_devices` has the states of many entries. An entry is in clear unless it
//! contains a hidden value: then it is sealed, and only that entry costs more.

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
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde_json::Value;

use super::StoreError;
use super::convert::note_scrub;
use super::key::DataKey;
use super::sealed::{Column, FLOW_ENTRY, FLOW_PAST, open};

/// The most ends of writes kept per device: for an older rule, the time of its write stands for the time of
/// its end.
const SETTLED_KEPT: i64 = 1000;

/// An id in SQLite's type: ours are below half of the range.
fn id(id: FlowId) -> i64 {
    id.0.cast_signed()
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn apply(
    db: &Transaction<'_>,
    key: &DataKey,
    change: &FlowChange,
    now: &str,
) -> Result<(), StoreError> {
    match change {
        FlowChange::Device(record) => put_device(db, record, now)?,
        FlowChange::DeviceRemoved(device) => {
            for table in ["flow_devices", "flow_entries", "flow_past", "flow_settled", "flow_parts"] {
                db.prepare_cached(&format!("DELETE FROM {table} WHERE device = ?1"))?.execute([device])?;
            }
        }
        FlowChange::Entries { device, entries, gone } => {
            let mut remove = db.prepare_cached("DELETE FROM flow_entries WHERE device = ?1 AND id = ?2")?;
            let mut forget = db.prepare_cached("DELETE FROM flow_past WHERE device = ?1 AND id = ?2")?;
            for gone in gone {
                remove.execute(params![device, id(*gone)])?;
                forget.execute(params![device, id(*gone)])?;
            }
            put_entries(db, key, *device, entries, now)?;
        }
        FlowChange::Settled { device, serial } => {
            db.prepare_cached(
                "DELETE FROM flow_entries WHERE device = ?1 AND removing = 1 AND serial <= ?2",
            )?
            .execute(params![device, int(*serial)])?;
            db.prepare_cached("DELETE FROM flow_past WHERE device = ?1 AND until <= ?2")?
                .execute(params![device, int(*serial)])?;
        }
        FlowChange::Forgotten(ForgottenRecord { node, bridge, generation }) => {
            let number = int(generation.number);
            db.prepare_cached("INSERT OR REPLACE INTO flow_forgotten VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![node.as_str(), bridge.as_str(), generation.epoch.0, number])?;
        }
        FlowChange::ForgottenHeard { node, bridge } => {
            db.prepare_cached("DELETE FROM flow_forgotten WHERE node = ?1 AND bridge = ?2")?
                .execute([node.as_str(), bridge.as_str()])?;
        }
        FlowChange::Operation(record) => put_operation(db, record, now)?,
        FlowChange::Stages { operation, stages } => {
            let bytes = postcard::to_stdvec(&**stages).map_err(|e| StoreError::Format(e.to_string()))?;
            db.prepare_cached("UPDATE flow_operations SET to_come = ?2 WHERE id = ?1")?
                .execute(params![int(*operation), bytes])?;
        }
        FlowChange::OperationRemoved(operation) => {
            db.prepare_cached("DELETE FROM flow_operations WHERE id = ?1")?.execute([int(*operation)])?;
        }
        FlowChange::Part(part) => {
            db.prepare_cached("INSERT OR REPLACE INTO flow_parts VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![int(part.operation), part.device, int(part.serial), int(part.count)])?;
        }
        FlowChange::PartRemoved { operation, device } => {
            db.prepare_cached("DELETE FROM flow_parts WHERE operation = ?1 AND device = ?2")?
                .execute(params![int(*operation), device])?;
        }
    }
    Ok(())
}

fn put_device(db: &Transaction<'_>, record: &FlowDeviceRecord, now: &str) -> Result<(), StoreError> {
    let (sent, serial) = record.sent.unzip();
    db.prepare_cached("INSERT OR REPLACE INTO flow_devices VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
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
    db.prepare_cached("INSERT OR IGNORE INTO flow_settled VALUES (?1, ?2, ?3)")?.execute(params![
        record.device,
        int(record.settled),
        now
    ])?;
    db.prepare_cached("DELETE FROM flow_settled WHERE device = ?1 AND serial < ?2")?
        .execute(params![record.device, int(record.settled) - SETTLED_KEPT])?;
    Ok(())
}

fn put_entries(
    db: &Transaction<'_>,
    key: &DataKey,
    device: u32,
    entries: &[FlowEntryRecord],
    now: &str,
) -> Result<(), StoreError> {
    let mut put = db.prepare_cached(
        "INSERT OR REPLACE INTO flow_entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    let mut forget = db.prepare_cached("DELETE FROM flow_past WHERE device = ?1 AND id = ?2")?;
    let mut remember =
        db.prepare_cached("INSERT INTO flow_past VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
    // Most devices have no past states: then none is looked up entry by entry.
    let has_past: bool = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM flow_past WHERE device = ?1)")?
        .query_row([device], |row| row.get(0))?;
    for entry in entries {
        if entry.hidden || entry.past.iter().any(|past| past.hidden) {
            note_if_clear(db, device, entry.id)?;
        }
        let Shown { reason, packed, table, priority, selector, treatment } = shown(entry);
        let place = [device.into(), id(entry.id)];
        put.execute(params![
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
            forget.execute(params![device, id(entry.id)])?;
        }
        let mut until = entry.serial;
        for past in &entry.past {
            let place = [device.into(), id(entry.id), int(until)];
            remember.execute(params![
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
) -> rusqlite::Result<(Packed, Option<String>)> {
    let plain = open(key, column, place, sealed)?;
    let (packed, reason): (Vec<u8>, _) = postcard::from_bytes(&plain).map_err(|_| bad("an entry"))?;
    Ok((Packed::from_bytes(&packed).map_err(|_| bad("an entry"))?, reason))
}

/// Notes a scrub if the value was in clear until now: its parameter was not hidden before.
fn note_if_clear(db: &Transaction<'_>, device: u32, entry: FlowId) -> Result<(), StoreError> {
    let could_be_read: bool = db
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM flow_entries WHERE device = ?1 AND id = ?2 AND sealed IS NULL)
                 OR EXISTS (SELECT 1 FROM flow_past WHERE device = ?1 AND id = ?2 AND sealed IS NULL)",
        )?
        .query_row(params![device, id(entry)], |row| row.get(0))?;
    if could_be_read { note_scrub(db) } else { Ok(()) }
}

fn put_operation(db: &Transaction<'_>, record: &FlowOperationRecord, now: &str) -> Result<(), StoreError> {
    let errors = serde_json::to_string(&record.errors).map_err(|e| StoreError::Format(e.to_string()))?;
    db.prepare_cached(
        "INSERT INTO flow_operations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, ?10, ?10)
         ON CONFLICT (id) DO UPDATE SET status = ?3, stage = ?4, done = ?6, errors = ?9, changed_at = ?10,
             to_come = CASE WHEN ?3 = 'IN_PROGRESS' THEN to_come END",
    )?
    .execute(params![
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
    ])?;
    db.prepare_cached(
        "INSERT INTO meta VALUES ('highest_flow_operation', ?1) ON CONFLICT (key) DO UPDATE SET
             value = max(CAST(value AS INTEGER), ?1)",
    )?
    .execute([int(record.id)])?;
    Ok(())
}

fn bad(what: &str) -> rusqlite::Error {
    let error = std::io::Error::other(format!("flow tables are damaged: {what}"));
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error))
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| bad("a number"))
}

fn packed(row: &Row<'_>, column: usize) -> rusqlite::Result<Packed> {
    Packed::from_bytes(row.get_ref(column)?.as_blob()?).map_err(|_| bad("an entry"))
}

fn mark(row: &Row<'_>, column: usize) -> rusqlite::Result<FlowMark> {
    FlowMark::from_name(row.get_ref(column)?.as_str()?).ok_or_else(|| bad("a mark"))
}

pub(super) fn load(db: &Connection, key: &DataKey) -> Result<FlowSnapshot, StoreError> {
    let mut snapshot = FlowSnapshot::default();
    let mut select = db.prepare("SELECT * FROM flow_devices")?;
    for record in select.query_map([], device)? {
        let record = record?;
        snapshot.devices.insert(record.device, record);
    }
    let mut select = db.prepare(
        "SELECT device, id, serial, owner, removing, mark, reason, packed, sealed FROM flow_entries
         ORDER BY device, id",
    )?;
    for entry in select.query_map([], |row| entry(row, key))? {
        let (device, entry) = entry?;
        snapshot.entries.insert((device, entry.id), entry);
    }
    let mut select = db.prepare(
        "SELECT device, id, serial, owner, removing, mark, packed, sealed, until FROM flow_past
         ORDER BY device, id, until DESC",
    )?;
    for past in select.query_map([], |row| past(row, key))? {
        let (key, past) = past?;
        if let Some(entry) = snapshot.entries.get_mut(&key) {
            entry.past.push(past);
        }
    }
    let mut select = db.prepare(
        "SELECT id, action, status, stage, stages, done, total, confirm_timeout, errors, to_come FROM flow_operations",
    )?;
    for operation in select.query_map([], operation)? {
        let (record, stages) = operation?;
        snapshot.operations.insert(record.id, (record, Arc::new(stages)));
    }
    let mut select = db.prepare("SELECT operation, device, serial, count FROM flow_parts")?;
    let part = |row: &Row<'_>| {
        Ok(FlowPartRecord {
            operation: unsigned(row, 0)?,
            device: row.get(1)?,
            serial: unsigned(row, 2)?,
            count: unsigned(row, 3)?,
        })
    };
    for part in select.query_map([], part)? {
        let part = part?;
        snapshot.parts.insert((part.operation, part.device), part);
    }
    let mut select = db.prepare("SELECT node, bridge, epoch, number FROM flow_forgotten")?;
    let forgotten = |row: &Row<'_>| {
        let node = row.get_ref(0)?.as_str()?.parse().map_err(|_| bad("a node"))?;
        let bridge = row.get_ref(1)?.as_str()?.parse().map_err(|_| bad("a bridge"))?;
        Ok(((node, bridge), Generation { epoch: Epoch(row.get(2)?), number: unsigned(row, 3)? }))
    };
    for forgotten in select.query_map([], forgotten)? {
        let (key, generation) = forgotten?;
        snapshot.forgotten.insert(key, generation);
    }
    let highest = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'highest_flow_operation'";
    snapshot.highest = db.query_row(highest, [], |row| unsigned(row, 0)).optional()?.unwrap_or(0);
    Ok(snapshot)
}

fn device(row: &Row<'_>) -> rusqlite::Result<FlowDeviceRecord> {
    let sent: (Option<u32>, Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?, row.get(7)?);
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let sent = match sent {
        (Some(epoch), Some(of), Some(serial)) => {
            Some((Generation { epoch: Epoch(epoch), number: number(of) }, number(serial)))
        }
        _ => None,
    };
    Ok(FlowDeviceRecord {
        device: row.get(0)?,
        node: row.get_ref(1)?.as_str()?.parse().map_err(|_| bad("a node"))?,
        bridge: row.get_ref(2)?.as_str()?.parse().map_err(|_| bad("a bridge"))?,
        serial: unsigned(row, 3)?,
        settled: unsigned(row, 4)?,
        sent,
        foreign: ForeignPolicy::from_name(row.get_ref(8)?.as_str()?).ok_or_else(|| bad("a policy"))?,
    })
}

fn entry(row: &Row<'_>, key: &DataKey) -> rusqlite::Result<(u32, FlowEntryRecord)> {
    let sealed = row.get_ref(8)?.as_blob_or_null()?;
    let (packed, reason) = match sealed {
        Some(sealed) => opened(key, FLOW_ENTRY, &[row.get(0)?, row.get(1)?], sealed)?,
        None => (packed(row, 7)?, row.get(6)?),
    };
    let record = FlowEntryRecord {
        id: FlowId(unsigned(row, 1)?),
        serial: unsigned(row, 2)?,
        owner: Owner(unsigned(row, 3)?),
        removing: row.get(4)?,
        mark: mark(row, 5)?,
        hidden: sealed.is_some(),
        reason: reason.map(Into::into),
        packed,
        past: Vec::new(),
    };
    Ok((row.get(0)?, record))
}

fn past(row: &Row<'_>, key: &DataKey) -> rusqlite::Result<((u32, FlowId), FlowPast)> {
    let sealed = row.get_ref(7)?.as_blob_or_null()?;
    let packed = match sealed {
        Some(sealed) => opened(key, FLOW_PAST, &[row.get(0)?, row.get(1)?, row.get(8)?], sealed)?.0,
        None => packed(row, 6)?,
    };
    let past = FlowPast {
        serial: unsigned(row, 2)?,
        owner: Owner(unsigned(row, 3)?),
        removing: row.get(4)?,
        mark: mark(row, 5)?,
        hidden: sealed.is_some(),
        packed,
    };
    Ok(((row.get(0)?, FlowId(unsigned(row, 1)?)), past))
}

fn operation(row: &Row<'_>) -> rusqlite::Result<(FlowOperationRecord, Vec<Vec<FlowWrite>>)> {
    let record = FlowOperationRecord {
        id: unsigned(row, 0)?,
        action: FlowAction::from_name(row.get_ref(1)?.as_str()?).ok_or_else(|| bad("an action"))?,
        status: OperationStatus::from_name(row.get_ref(2)?.as_str()?).ok_or_else(|| bad("a status"))?,
        stage: row.get(3)?,
        stages: row.get(4)?,
        done: unsigned(row, 5)?,
        total: unsigned(row, 6)?,
        confirm_timeout: row.get(7)?,
        errors: serde_json::from_str(row.get_ref(8)?.as_str()?).map_err(|_| bad("errors"))?,
    };
    let stages = match row.get_ref(9)?.as_blob_or_null()? {
        Some(bytes) => postcard::from_bytes(bytes).map_err(|_| bad("stages"))?,
        None => Vec::new(),
    };
    Ok((record, stages))
}

#[cfg(test)]
mod tests;
