//! Builds the engine's snapshot from the tables.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_engine::cause::Cause;
use muster_engine::notes::Notes;
use muster_engine::record::{
    NodeRecord, Observation, PackedSpec, ProgressRecord, ResourceRecord, StackAction, StackRecord, Status,
    TokenRecord, action_from_name, type_from_text,
};
use muster_engine::{EnvironmentText, Hook, NewToken, Snapshot, Source};
use muster_shared::model::ContentDigest;
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, Generation, ResourceId};
use muster_template::{DriftPolicy, Environment, Policies};
use rusqlite::types::{FromSql, Type, ValueRef};
use rusqlite::{Connection, Row};

use super::convert::digest_of;
use super::damaged::DamagedRows;
use super::key::DataKey;
use super::sealed::{
    ATTRIBUTES, Column, ENVIRONMENTS, HIDDEN_DIGESTS, OUTPUTS, SECRET_NOTES, SPEC, open, open_text,
};
use super::sqlite::{SPEC_VERSION, Sqlite, int};
use super::{Store as _, StoreError, corrections};

pub(super) fn load(store: &mut Sqlite) -> Result<Snapshot, StoreError> {
    let mut snapshot = Snapshot::default();
    let (key, now) = (store.key(), store.steady.now());
    let mut stacks = Vec::new();
    let mut damaged = DamagedRows::default();
    {
        let db = store.db();
        let mut select = db.prepare(
            // A stack's own record may be older than its last event.
            "SELECT *, (SELECT coalesce(max(number), 0) FROM events WHERE stack_id = stacks.id) AS last_event
             FROM stacks ORDER BY id",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            match stack(row, &key) {
                Ok(stack) => stacks.push(stack),
                Err(error) => damaged.stack(row, &error),
            }
        }
        let mut select = db.prepare(RESOURCES)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            match resource(row, &key, now) {
                Ok(resource) if damaged.stacks.contains(&resource.stack) => {}
                Ok(resource) => snapshot.resources.push(resource),
                Err(error) => damaged.resource(row, &error),
            }
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
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            match token(row) {
                Ok(token) => snapshot.tokens.push(token),
                Err(error) => tracing::error!("a join token cannot be read and is not valid: {error}"),
            }
        }
        let mut select = db.prepare("SELECT name, digest FROM contents")?;
        for content in select.query_map([], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?)))? {
            let (name, sealed) = content?;
            snapshot.contents.push(ContentDigest(digest_of(&key, &name, &sealed)?));
        }
        // The engine removes contents that no row names, and it does not see the rows that are left out.
        if damaged.is_any {
            snapshot.contents.clear();
        }
        snapshot.damaged = damaged.damaged;
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
    snapshot.restored = super::restored::load(store.db())?;
    snapshot.rollouts = super::rollout::load(store.db())?;
    snapshot.policies = policies(store.db(), &key)?;
    snapshot.intents = super::intent::load(store.db(), &key)?;
    snapshot.flows = super::flow::load(store.db(), &key)?;
    for record in stacks {
        let source = match (record.status, record.action) {
            (Status::Complete, _) => None,
            (_, StackAction::Delete) => Some(Source::nothing()),
            _ => source(store, &record)?,
        };
        snapshot.stacks.push((record, source));
    }
    Ok(snapshot)
}

/// The source of the revision that a stack moves to. A source that is damaged, or that this version refuses,
/// blocks its own stack, not the site.
fn source(store: &mut Sqlite, stack: &StackRecord) -> Result<Option<Source>, StoreError> {
    let text = match store.source(&stack.name, stack.revision) {
        Ok(text) => text,
        Err(error) if is_damage(&error) => {
            tracing::error!(stack = %stack.name, "its revision cannot be read: {error}");
            None
        }
        Err(error) => return Err(error),
    };
    let unreadable = |errors| tracing::error!(stack = %stack.name, "its revision cannot be read: {errors}");
    Ok(text.and_then(|text| Source::parse(text).map_err(unreadable).ok()))
}

fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Format(_) | StoreError::Sqlite(rusqlite::Error::FromSqlConversionFailure(..)))
}

/// The policies of resources in the current revisions' environments.
fn policies(db: &Connection, key: &DataKey) -> Result<BTreeMap<u64, Policies>, StoreError> {
    let mut select = db.prepare(
        "SELECT stack_id, number, environments FROM revisions JOIN stacks ON id = stack_id AND revision = number
         WHERE environments <> '[]'",
    )?;
    let texts = select.query_map([], |row| {
        let text = open_text(key, ENVIRONMENTS, &[row.get(0)?, row.get(1)?], row.get_ref(2)?)?;
        let texts: Vec<EnvironmentText> = serde_json::from_str(&text).map_err(|e| bad("environments", e))?;
        Ok((unsigned(row, 0)?, texts))
    })?;
    let mut found = BTreeMap::new();
    for text in texts {
        let (stack, texts) = text?;
        match Environment::parse(texts.iter().map(EnvironmentText::file)) {
            Ok(environment) => drop(found.insert(stack, environment.policies().clone())),
            // Environments that this version refuses block their own stack, not the site.
            Err(errors) => tracing::error!(stack, "its environments cannot be read: {errors}"),
        }
    }
    Ok(found)
}

pub(super) fn bad(column: &str, message: impl std::fmt::Display) -> rusqlite::Error {
    let error = std::io::Error::other(format!("column {column}: {message}"));
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|e| bad("number", e))
}

pub(super) fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|e| bad(column, e))
}

pub(super) fn parsed<T>(
    row: &Row<'_>,
    column: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| bad(column, format!("unknown value '{text}'")))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|e| bad(column, e))
}

fn stack(row: &Row<'_>, key: &DataKey) -> rusqlite::Result<StackRecord> {
    let place = [row.get("id")?];
    let sealed = |column: Column| open_text(key, column, &place, row.get_ref(column.name)?);
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
        converge: row.get("converge")?,
        entering: row.get("entering")?,
        cancelled: row.get("cancelled")?,
        timed_out: row.get("timed_out")?,
        complete: json(row, "complete")?,
        outputs: serde_json::from_str(&sealed(OUTPUTS)?).map_err(|e| bad("outputs", e))?,
        parameters: json(row, "parameters")?,
        hidden_digests: serde_json::from_str(&sealed(HIDDEN_DIGESTS)?)
            .map_err(|e| bad("hidden_digests", e))?,
        events: number(row, "events")?.max(number(row, "last_event")?),
        failures: json(row, "failures")?,
    })
}

/// A row's columns in the order of their select: a million rows are not looked at by name.
struct Columns<'r> {
    row: &'r Row<'r>,
    at: usize,
}

impl Columns<'_> {
    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.at += 1;
        self.row.get(self.at - 1)
    }

    fn number(&mut self) -> rusqlite::Result<u64> {
        u64::try_from(self.next::<i64>()?).map_err(|e| bad(self.name(), e))
    }

    fn optional(&mut self) -> rusqlite::Result<Option<u64>> {
        self.next::<Option<i64>>()?.map(u64::try_from).transpose().map_err(|e| bad(self.name(), e))
    }

    /// A text that `parse` must accept.
    fn parsed<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> rusqlite::Result<Option<T>> {
        self.at += 1;
        let Some(text) = self.row.get_ref(self.at - 1)?.as_str_or_null()? else { return Ok(None) };
        let unknown = || bad(self.name(), format!("unknown value '{text}'"));
        parse(text).map(Some).ok_or_else(unknown)
    }

    fn required<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
        self.parsed(parse)?.ok_or_else(|| bad(self.name(), "it is null"))
    }

    fn json<T: serde::de::DeserializeOwned + Default>(&mut self) -> rusqlite::Result<T> {
        let value = self.parsed(|text| serde_json::from_str(text).ok())?;
        Ok(value.unwrap_or_default())
    }

    fn bytes(&mut self) -> rusqlite::Result<Option<&[u8]>> {
        self.at += 1;
        Ok(self.row.get_ref(self.at - 1)?.as_blob_or_null()?)
    }

    fn attributes(&mut self, key: &DataKey, place: &[i64]) -> rusqlite::Result<BTreeMap<String, String>> {
        self.at += 1;
        match self.row.get_ref(self.at - 1)? {
            ValueRef::Null => Ok(BTreeMap::new()),
            sealed => serde_json::from_str(&open_text(key, ATTRIBUTES, place, sealed)?)
                .map_err(|e| bad(self.name(), e)),
        }
    }

    /// Reads the column in clear, or the sealed one after it.
    fn notes(&mut self, key: &DataKey, place: &[i64]) -> rusqlite::Result<Option<Notes>> {
        let clear: Option<String> = self.next()?;
        self.at += 1;
        let text = match (clear, self.row.get_ref(self.at - 1)?) {
            (Some(text), _) => text,
            (None, ValueRef::Null) => return Ok(None),
            (None, sealed) => open_text(key, SECRET_NOTES, place, sealed)?,
        };
        serde_json::from_str(&text).map(Some).map_err(|e| bad(self.name(), e))
    }

    /// Name of the column that was read last.
    fn name(&self) -> &str {
        self.row.as_ref().column_name(self.at - 1).unwrap_or("?")
    }
}

/// The columns in the order of `resource()`.
const RESOURCES: &str = "SELECT id, spec, physical_id, stack_id, name, type, node, revision, dropped,
    handed_over, replaces, replaced_by, retain, external_id, lost_from, action, status, status_reason, applied,
    held_epoch, held_number, epoch, number, attempt, in_flight, retry_count, observed_ready, attributes, observed,
    unhealthy, hook, hooks_cleared, causes, waits_since, corrections, cause, notes, secret_notes, drift_policy FROM resources ORDER BY id";

fn resource(row: &Row<'_>, key: &DataKey, now: i64) -> rusqlite::Result<ResourceRecord> {
    let mut columns = Columns { row, at: 0 };
    let c = &mut columns;
    let spec = |bytes: &[u8]| match bytes.split_first() {
        Some((&SPEC_VERSION, packed)) => PackedSpec::from_bytes(packed).ok_or_else(|| bad("spec", "no spec")),
        // The form from before there were resources other than those on nodes.
        Some((1, packed)) => {
            PackedSpec::from_bytes(&[&[0], packed].concat()).ok_or_else(|| bad("spec", "no spec"))
        }
        _ => Err(bad("spec", "unknown version")),
    };
    let generation = |epoch: Option<u32>, number: Option<u64>| {
        epoch.zip(number).map(|(epoch, number)| Generation { epoch: Epoch(epoch), number })
    };
    let id = c.number()?;
    let place = [int(id)];
    let plain = match c.bytes()? {
        Some(sealed) => open(key, SPEC, &place, sealed)?,
        None => vec![0; size_of::<u128>()],
    };
    let (definition, packed) = plain.split_first_chunk().ok_or_else(|| bad("spec", "too short"))?;
    let type_name;
    Ok(ResourceRecord {
        id,
        physical: ResourceId(c.required(|text| uuid::Uuid::parse_str(text).ok())?),
        stack: c.number()?,
        name: c.required(|text| Some(text.into()))?,
        kind: {
            let kind;
            (kind, type_name) = c.required(type_from_text)?;
            kind
        },
        type_name,
        node: c.parsed(|text| text.parse().ok())?,
        revision: c.next()?,
        dropped: c.next()?,
        definition: u128::from_le_bytes(*definition),
        spec: (!packed.is_empty()).then(|| spec(packed)).transpose()?,
        handed_over: c.next()?,
        replaces: c.optional()?,
        replaced_by: c.optional()?,
        retain: c.next()?,
        external_id: c.parsed(|text| Some(text.into()))?,
        lost_from: c.parsed(|text| text.parse().ok())?,
        progress: ProgressRecord {
            id,
            action: c.parsed(action_from_name)?,
            status: c.parsed(Status::from_name)?,
            reason: c.parsed(|text| Some(text.into()))?,
            applied: c.next()?,
            held: generation(c.next()?, c.optional()?),
            generation: Generation { epoch: Epoch(c.next()?), number: c.number()? },
            attempt: c.next()?,
            in_flight: c.next()?,
            retry_count: c.next()?,
            observed_ready: c.next()?,
            attributes: c.attributes(key, &place)?,
            observed: c.required(Observation::from_name)?,
            unhealthy: c.next()?,
            hook: c.parsed(Hook::from_name)?,
            hooks_cleared: c.next()?,
            causes: c.json()?,
            waited: c.next::<Option<i64>>()?.map(|began| since(now, began)),
            corrections: c.parsed(|text| corrections::read(text, now))?,
            cause: c.parsed(Cause::from_name)?.unwrap_or(Cause::Traversal),
            notes: c.notes(key, &place)?,
        },
        drift_policy: c.parsed(DriftPolicy::from_name)?,
    })
}

/// The time since `began`; zero if that is in the future.
pub(super) fn since(now: i64, began: i64) -> Duration {
    Duration::from_secs(u64::try_from(now.saturating_sub(began)).unwrap_or(0))
}

fn node(row: &Row<'_>) -> rusqlite::Result<NodeRecord> {
    Ok(NodeRecord {
        name: parsed(row, "name", |text| text.parse().ok())?,
        labels: json(row, "labels")?,
        seal_public: SealPublic(row.get("seal_public")?),
        agent_version: row.get("agent_version")?,
        revoked: row.get("revoked")?,
        maintenance: row.get("maintenance")?,
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
            rate: row
                .get::<_, Option<String>>("rate")?
                .map(|_| parsed(row, "rate", |text| text.parse().ok()))
                .transpose()?,
        },
        uses_left: row.get("uses_left")?,
    })
}
