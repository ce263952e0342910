//! Builds the engine's snapshot from the tables.

use std::collections::BTreeMap;

use muster_engine::record::{
    NodeRecord, Observation, PackedSpec, ProgressRecord, ResourceRecord, StackAction, StackRecord, Status,
    TokenRecord, action_from_name,
};
use muster_engine::{Hook, NewToken, Snapshot, Source};
use muster_shared::model::ContentDigest;
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, Generation, ResourceId};
use muster_template::Kind;
use rusqlite::Row;
use rusqlite::types::Type;

use super::sqlite::{SPEC_VERSION, Sqlite};
use super::{Store as _, StoreError};

pub(super) fn load(store: &mut Sqlite) -> Result<Snapshot, StoreError> {
    let mut snapshot = Snapshot::default();
    let mut stacks = Vec::new();
    {
        let db = store.db();
        let mut select = db.prepare(
            // A stack's own record may be older than its last event.
            "SELECT *, (SELECT coalesce(max(number), 0) FROM events WHERE stack_id = stacks.id) AS last_event
             FROM stacks ORDER BY id",
        )?;
        for stack in select.query_map([], stack)? {
            stacks.push(stack?);
        }
        let mut select = db.prepare("SELECT * FROM resources ORDER BY id")?;
        for resource in select.query_map([], resource)? {
            snapshot.resources.push(resource?);
        }
        let mut select = db.prepare("SELECT needed_by, resource_id FROM graph")?;
        for edge in select.query_map([], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)))? {
            snapshot.edges.push(edge?);
        }
        let mut select = db.prepare("SELECT * FROM nodes")?;
        for node in select.query_map([], node)? {
            snapshot.nodes.push(node?);
        }
        let mut select = db.prepare("SELECT * FROM tokens")?;
        for token in select.query_map([], token)? {
            snapshot.tokens.push(token?);
        }
        let mut select = db.prepare("SELECT digest FROM contents")?;
        for digest in select.query_map([], |row| row.get(0).map(ContentDigest))? {
            snapshot.contents.push(digest?);
        }
        let meta = |key: &str| {
            db.query_row("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?1", [key], |row| {
                unsigned(row, 0)
            })
        };
        let rows = db.query_row(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'resources'",
            [],
            |row| unsigned(row, 0),
        )?;
        snapshot.highest = (rows, meta("highest_stack")?, meta("highest_traversal")?);
    }
    for record in stacks {
        let source = match (record.status, record.action) {
            (Status::Complete, _) => None,
            (_, StackAction::Delete) => Some(Source::nothing()),
            // One that this version does not take holds up its own stack, not the site.
            _ => store.source(&record.name, record.revision)?.and_then(|text| {
                let unreadable =
                    |errors| tracing::error!(stack = %record.name, "its revision cannot be read: {errors}");
                Source::parse(text).map_err(unreadable).ok()
            }),
        };
        snapshot.stacks.push((record, source));
    }
    Ok(snapshot)
}

fn bad(column: &str, message: impl std::fmt::Display) -> rusqlite::Error {
    let error = std::io::Error::other(format!("column {column}: {message}"));
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|e| bad("number", e))
}

fn optional(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    row.get::<_, Option<i64>>(column)?.map(u64::try_from).transpose().map_err(|e| bad(column, e))
}

fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|e| bad(column, e))
}

fn parsed<T>(row: &Row<'_>, column: &str, parse: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| bad(column, format!("unknown value '{text}'")))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|e| bad(column, e))
}

fn stack(row: &Row<'_>) -> rusqlite::Result<StackRecord> {
    Ok(StackRecord {
        id: number(row, "id")?,
        name: parsed(row, "name", |text| text.parse().ok())?,
        action: parsed(row, "action", StackAction::from_name)?,
        status: parsed(row, "status", Status::from_name)?,
        reason: row.get("status_reason")?,
        revision: row.get("revision")?,
        traversal: number(row, "traversal")?,
        timeout_s: number(row, "timeout_s")?,
        rollback: row.get("rollback")?,
        delete_first: row.get("delete_first")?,
        complete: json(row, "complete")?,
        outputs: json(row, "outputs")?,
        parameters: json(row, "parameters")?,
        events: number(row, "events")?.max(number(row, "last_event")?),
        failures: json(row, "failures")?,
    })
}

fn resource(row: &Row<'_>) -> rusqlite::Result<ResourceRecord> {
    let known = |column: &str| -> rusqlite::Result<Option<String>> { row.get(column) };
    let spec: Option<Vec<u8>> = row.get("spec")?;
    let spec = spec
        .map(|bytes| match bytes.split_first() {
            Some((&SPEC_VERSION, packed)) => {
                PackedSpec::from_bytes(packed).ok_or_else(|| bad("spec", "no spec"))
            }
            _ => Err(bad("spec", "unknown version")),
        })
        .transpose()?;
    let generation = |epoch: Option<u32>, number: Option<u64>| {
        epoch.zip(number).map(|(epoch, number)| Generation { epoch: Epoch(epoch), number })
    };
    let attributes: Option<String> = row.get("attributes")?;
    let causes: Option<String> = row.get("causes")?;
    Ok(ResourceRecord {
        id: number(row, "id")?,
        physical: ResourceId(parsed(row, "physical_id", |text| uuid::Uuid::parse_str(text).ok())?),
        stack: number(row, "stack_id")?,
        name: row.get::<_, String>("name")?.into(),
        kind: parsed(row, "type", Kind::from_name)?,
        node: known("node")?.map(|text| text.parse().map_err(|e| bad("node", e))).transpose()?,
        definition: u128::from_le_bytes(row.get("definition")?),
        revision: row.get("revision")?,
        dropped: row.get("dropped")?,
        spec,
        handed_over: row.get("handed_over")?,
        replaces: optional(row, "replaces")?,
        replaced_by: optional(row, "replaced_by")?,
        retain: row.get("retain")?,
        external_id: known("external_id")?.map(Into::into),
        lost_from: known("lost_from")?
            .map(|text| text.parse().map_err(|e| bad("lost_from", e)))
            .transpose()?,
        progress: ProgressRecord {
            id: number(row, "id")?,
            action: known("action")?.as_deref().and_then(action_from_name),
            status: known("status")?.as_deref().and_then(Status::from_name),
            reason: known("status_reason")?.map(Into::into),
            applied: row.get("applied")?,
            held: generation(row.get("held_epoch")?, optional(row, "held_number")?),
            generation: Generation { epoch: Epoch(row.get("epoch")?), number: number(row, "number")? },
            attempt: row.get("attempt")?,
            in_flight: row.get("in_flight")?,
            retry_count: row.get("retry_count")?,
            observed_ready: row.get("observed_ready")?,
            attributes: match attributes {
                Some(text) => serde_json::from_str(&text).map_err(|e| bad("attributes", e))?,
                None => BTreeMap::new(),
            },
            observed: parsed(row, "observed", Observation::from_name)?,
            unhealthy: row.get("unhealthy")?,
            hook: known("hook")?.as_deref().and_then(Hook::from_name),
            hooks_cleared: row.get("hooks_cleared")?,
            causes: match causes {
                Some(text) => serde_json::from_str(&text).map_err(|e| bad("causes", e))?,
                None => Vec::new(),
            },
        },
    })
}

fn node(row: &Row<'_>) -> rusqlite::Result<NodeRecord> {
    Ok(NodeRecord {
        name: parsed(row, "name", |text| text.parse().ok())?,
        labels: json(row, "labels")?,
        seal_public: SealPublic(row.get("seal_public")?),
        agent_version: row.get("agent_version")?,
        revoked: row.get("revoked")?,
        joined_with: (row.get("token_id")?, row.get("token_hash")?),
    })
}

fn token(row: &Row<'_>) -> rusqlite::Result<TokenRecord> {
    Ok(TokenRecord {
        token: NewToken {
            id: parsed(row, "id", |text| u64::from_str_radix(text, 16).ok())?.to_be_bytes(),
            secret_hash: row.get("secret_hash")?,
            expires: number(row, "expires")?,
            uses: row.get("uses")?,
            name: row.get("name")?,
            labels: json(row, "labels")?,
        },
        uses_left: row.get("uses_left")?,
    })
}
