//! Builds the engine's snapshot from the tables: all that a start reads.
//!
//! Absent: what the engine makes of it (`controller/engine/src/load.rs`), and reads while the controller runs
//! (`read.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::damaged::DamagedRows;
use super::database::int;
use super::key::DataKey;
use super::sealed::{
    ATTRIBUTES, Column, ENVIRONMENTS, HIDDEN_DIGESTS, OUTPUTS, SECRET_NOTES, SPEC, open, open_text,
};
use super::sealed_content::digest_of;
use super::sql::{Damage, Db, FromValue, Row, ValueRef, values};
use super::write::SPEC_VERSION;
use super::{Database, Store as _, StoreError, corrections, meta, schema};
use muster_api::user::NodeLabel;
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

pub(super) fn load(store: &mut Database) -> Result<Snapshot, StoreError> {
    let mut snapshot = Snapshot::default();
    let (key, now) = (store.key(), store.steady.now());
    let mut stacks = Vec::new();
    let mut damaged = DamagedRows::default();
    let db = store.db();
    // A stack's own record may be older than its last event.
    db.each(
        "SELECT *, (SELECT coalesce(max(number), 0) FROM events WHERE stack_id = stacks.id) AS last_event
         FROM stacks ORDER BY id",
        values![],
        |row| {
            match stack(row, &key, now) {
                Ok(stack) => stacks.push(stack),
                Err(error) => damaged.stack(row, &error),
            }
            Ok(())
        },
    )?;
    // A list that grows is copied again and again, and this one may have a million records.
    let records: u32 = db.only("SELECT count(*) FROM resources", values![], |row| row.get(0))?;
    snapshot.resources.reserve_exact(records as usize);
    db.each(RESOURCES, values![], |row| {
        match resource(row, &key, now) {
            Ok(resource) if damaged.stacks.contains(&resource.stack) => {}
            Ok(resource) => snapshot.resources.push(resource),
            Err(error) => damaged.resource(row, &error),
        }
        Ok(())
    })?;
    snapshot.edges = db.all(
        "SELECT needed_by, resource_id FROM graph ORDER BY needed_by, resource_id",
        values![],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    snapshot.nodes = db.all("SELECT * FROM nodes ORDER BY name", values![], node)?;
    db.each("SELECT * FROM tokens ORDER BY id", values![], |row| {
        match token(row) {
            Ok(token) => snapshot.tokens.push(token),
            Err(error) => tracing::error!("a join token cannot be read and is not valid: {error}"),
        }
        Ok(())
    })?;
    snapshot.users = super::user::load(db)?;
    db.each("SELECT name, digest FROM contents", values![], |row| {
        let (name, sealed): (_, Vec<u8>) = (row.get(0)?, row.get(1)?);
        snapshot.contents.push(ContentDigest(digest_of(&key, &name, &sealed)?));
        Ok(())
    })?;
    snapshot.contents.sort_unstable_by_key(|digest| digest.0);
    // The engine removes contents that no row names, and it does not see the rows that are left out.
    if damaged.is_any {
        snapshot.contents.clear();
    }
    snapshot.damaged = damaged.damaged;
    let highest = |key: &str| {
        let found = meta::number(db, key)?;
        found.ok_or_else(|| StoreError::Format(format!("meta.{key} is missing")))
    };
    snapshot.highest = (schema::highest_row(db)?, highest("highest_stack")?, highest("highest_traversal")?);
    snapshot.restored = super::restored::load(store.db())?;
    snapshot.rollouts = super::rollout::load(store.db(), now)?;
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
fn source(store: &mut Database, stack: &StackRecord) -> Result<Option<Source>, StoreError> {
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
    matches!(error, StoreError::Format(_) | StoreError::Damaged(_))
}

/// The policies of resources in the current revisions' environments.
fn policies(db: &Db, key: &DataKey) -> Result<BTreeMap<u64, Policies>, StoreError> {
    let texts: Vec<(u64, Vec<EnvironmentText>)> = db.all(
        "SELECT stack_id, number, environments FROM revisions JOIN stacks ON id = stack_id AND revision = number
         WHERE environments <> '[]'",
        values![],
        |row| {
            let text = open_text(key, ENVIRONMENTS, &[row.get(0)?, row.get(1)?], row.value(2)?)?;
            let texts = serde_json::from_str(&text).map_err(|e| Damage::of_column("environments", e))?;
            Ok((row.get(0)?, texts))
        },
    )?;
    let mut found = BTreeMap::new();
    for (stack, texts) in texts {
        match Environment::parse(texts.iter().map(EnvironmentText::file)) {
            Ok(environment) => drop(found.insert(stack, environment.policies().clone())),
            // Environments that this version refuses block their own stack, not the site.
            Err(errors) => tracing::error!(stack, "its environments cannot be read: {errors}"),
        }
    }
    Ok(found)
}

pub(super) fn parsed<T>(row: &Row<'_>, column: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Damage> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| Damage::of_column(column, format_args!("unknown value '{text}'")))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T, Damage> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|e| Damage::of_column(column, e))
}

fn stack(row: &Row<'_>, key: &DataKey, now: i64) -> Result<StackRecord, Damage> {
    let place = [row.get("id")?];
    let sealed = |column: Column| open_text(key, column, &place, row.value(column.name)?);
    Ok(StackRecord {
        id: row.get("id")?,
        name: parsed(row, "name", |text| text.parse().ok())?,
        action: parsed(row, "action", StackAction::from_name)?,
        status: parsed(row, "status", Status::from_name)?,
        reason: row.get("status_reason")?,
        revision: row.get("revision")?,
        traversal: row.get("traversal")?,
        timeout_s: row.get("timeout_s")?,
        ran: row.get::<Option<i64>>("runs_since")?.map(|began| since(now, began)),
        rollback: row.get("rollback")?,
        delete_first: row.get("delete_first")?,
        converge: row.get("converge")?,
        adopt: row.get("adopt")?,
        entering: row.get("entering")?,
        cancelled: row.get("cancelled")?,
        timed_out: row.get("timed_out")?,
        complete: json(row, "complete")?,
        outputs: serde_json::from_str(&sealed(OUTPUTS)?).map_err(|e| Damage::of_column("outputs", e))?,
        parameters: json(row, "parameters")?,
        hidden_digests: serde_json::from_str(&sealed(HIDDEN_DIGESTS)?)
            .map_err(|e| Damage::of_column("hidden_digests", e))?,
        events: row.get::<u64>("events")?.max(row.get("last_event")?),
        failures: json(row, "failures")?,
        scope: row.get::<Option<String>>("scope")?.map(|text| label(&text)).transpose()?,
    })
}

pub(super) fn label(text: &str) -> Result<NodeLabel, Damage> {
    text.parse().map_err(|error| Damage::of_column("scope", error))
}

/// A row's columns in the order of their select: a million rows are not looked at by name.
struct Columns<'r> {
    row: &'r Row<'r>,
    at: usize,
}

impl<'r> Columns<'r> {
    fn next<T: FromValue>(&mut self) -> Result<T, Damage> {
        self.at += 1;
        self.row.get(self.at - 1)
    }

    /// A text that `parse` must accept.
    fn parsed<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Damage> {
        self.at += 1;
        let Some(text) = self.row.text(self.at - 1)? else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| self.bad(format_args!("unknown value '{text}'")))
    }

    fn required<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> Result<T, Damage> {
        self.parsed(parse)?.ok_or_else(|| self.bad("it is null"))
    }

    fn json<T: serde::de::DeserializeOwned + Default>(&mut self) -> Result<T, Damage> {
        let value = self.parsed(|text| serde_json::from_str(text).ok())?;
        Ok(value.unwrap_or_default())
    }

    fn bytes(&mut self) -> Result<Option<&'r [u8]>, Damage> {
        self.at += 1;
        self.row.bytes(self.at - 1)
    }

    fn attributes(&mut self, key: &DataKey, place: &[i64]) -> Result<BTreeMap<String, String>, Damage> {
        self.at += 1;
        match self.row.value(self.at - 1)? {
            ValueRef::Null => Ok(BTreeMap::new()),
            sealed => {
                serde_json::from_str(&open_text(key, ATTRIBUTES, place, sealed)?).map_err(|e| self.bad(e))
            }
        }
    }

    /// Reads the column in clear, or the sealed one after it.
    fn notes(&mut self, key: &DataKey, place: &[i64]) -> Result<Option<Notes>, Damage> {
        let clear: Option<String> = self.next()?;
        self.at += 1;
        let text = match (clear, self.row.value(self.at - 1)?) {
            (Some(text), _) => text,
            (None, ValueRef::Null) => return Ok(None),
            (None, sealed) => open_text(key, SECRET_NOTES, place, sealed)?,
        };
        serde_json::from_str(&text).map(Some).map_err(|e| self.bad(e))
    }

    /// The column that was read last is damaged.
    fn bad(&self, why: impl std::fmt::Display) -> Damage {
        Damage::of_column(self.row.name(self.at - 1), why)
    }
}

/// The columns in the order of `resource()`.
const RESOURCES: &str = "SELECT id, spec, physical_id, stack_id, name, type, node, revision, dropped,
    handed_over, replaces, replaced_by, retain, external_id, lost_from, action, status, status_reason, applied,
    held_epoch, held_number, epoch, number, attempt, in_flight, retry_count, observed_ready, attributes, observed,
    unhealthy, hook, hooks_cleared, causes, waits_since, corrections, cause, notes, secret_notes, drift_policy FROM resources ORDER BY id";

fn resource(row: &Row<'_>, key: &DataKey, now: i64) -> Result<ResourceRecord, Damage> {
    let mut columns = Columns { row, at: 0 };
    let c = &mut columns;
    let spec = |bytes: &[u8]| match bytes.split_first() {
        Some((&SPEC_VERSION, packed)) => {
            PackedSpec::from_bytes(packed).ok_or_else(|| Damage::of_column("spec", "no spec"))
        }
        // The form from before there were resources other than those on nodes.
        Some((1, packed)) => PackedSpec::from_bytes(&[&[0], packed].concat())
            .ok_or_else(|| Damage::of_column("spec", "no spec")),
        _ => Err(Damage::of_column("spec", "unknown version")),
    };
    let generation = |epoch: Option<u32>, number: Option<u64>| {
        epoch.zip(number).map(|(epoch, number)| Generation { epoch: Epoch(epoch), number })
    };
    let id = c.next()?;
    let place = [int(id)];
    let plain = match c.bytes()? {
        Some(sealed) => open(key, SPEC, &place, sealed)?,
        None => vec![0; size_of::<u128>()],
    };
    let (definition, packed) =
        plain.split_first_chunk().ok_or_else(|| Damage::of_column("spec", "too short"))?;
    let type_name;
    Ok(ResourceRecord {
        id,
        physical: ResourceId(c.required(|text| uuid::Uuid::parse_str(text).ok())?),
        stack: c.next()?,
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
        replaces: c.next()?,
        replaced_by: c.next()?,
        retain: c.next()?,
        external_id: c.parsed(|text| Some(text.into()))?,
        lost_from: c.parsed(|text| text.parse().ok())?,
        progress: ProgressRecord {
            id,
            action: c.parsed(action_from_name)?,
            status: c.parsed(Status::from_name)?,
            reason: c.parsed(|text| Some(text.into()))?,
            applied: c.next()?,
            held: generation(c.next()?, c.next()?),
            generation: Generation { epoch: Epoch(c.next()?), number: c.next()? },
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

fn node(row: &Row<'_>) -> Result<NodeRecord, Damage> {
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

fn token(row: &Row<'_>) -> Result<TokenRecord, Damage> {
    Ok(TokenRecord {
        token: NewToken {
            id: parsed(row, "id", |text| u64::from_str_radix(text, 16).ok())?.to_be_bytes(),
            secret_hash: row.get("secret_hash")?,
            expires: row.get("expires")?,
            uses: row.get("uses")?,
            name: row.get("name")?,
            labels: json(row, "labels")?,
            rate: row.text("rate")?.map(|_| parsed(row, "rate", |text| text.parse().ok())).transpose()?,
        },
        uses_left: row.get("uses_left")?,
    })
}
