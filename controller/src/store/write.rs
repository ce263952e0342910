//! Each change of a commit as statements. Decides for how many deleted stacks the events stay.
//!
//! Absent: the commit around them (`database.rs`), and how many events of a stack are kept (`bounds.rs`).

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use muster_engine::Hook;
use muster_engine::cause::Cause;
use muster_engine::record::{
    Change, EventRecord, PackedSpec, ProgressRecord, ResourceRecord, RevisionRecord, StackRecord, action_str,
    type_text,
};
use muster_intent::record::IntentChange;
use muster_shared::{NodeId, StackName};
use muster_template::DriftPolicy;

use super::database::{began, int, json};
use super::key::DataKey;
use super::sealed::{
    ATTRIBUTES, ENVIRONMENTS, FILES, HIDDEN_DIGESTS, OUTPUTS, PARAMETERS, SECRET_NOTES, SPEC, SealedText,
    TEMPLATE,
};
use super::sealed_content::{put_content, remove_content};
use super::sql::{Db, Statement, upsert, values};
use super::{Bounds, StoreError, corrections, meta, schema};

/// The version of the encoding of `resources.spec`.
pub(super) const SPEC_VERSION: u8 = 2;

/// The most deleted stacks whose events are kept.
const GONE_KEPT: usize = 20;

const PUT_EVENT: &str = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const REMOVE_RESOURCE: &str = "DELETE FROM resources WHERE id = ?1";
const PUT_EDGE: &str = "INSERT INTO graph VALUES (?1, ?2)";
const REMOVE_EDGES: &str = "DELETE FROM graph WHERE needed_by = ?1";
const SEEN: &str = "UPDATE nodes SET last_seen = ?2 WHERE name = ?1";

/// Writes the changes of one commit.
pub(super) struct Writer<'d> {
    db: &'d Db,
    key: &'d DataKey,
    /// The wall clock's time, for people, and the `SteadyClock`'s.
    times: (&'d str, i64),
    bounds: Bounds,
    /// Statements for changes that come by the thousand. To find one by its text costs as much as to bind its values.
    put_resource: Option<Statement<'d>>,
    put_progress: Option<Statement<'d>>,
    put_event: Option<Statement<'d>>,
    put_edge: Option<Statement<'d>>,
    remove_edges: Option<Statement<'d>>,
    highest: Highest,
}

/// The highest numbers that were written. They are noted once, since a note of each would keep rows from going together.
#[derive(Default)]
struct Highest {
    row: u64,
    intent: i64,
}

impl<'d> Writer<'d> {
    pub fn new(db: &'d Db, key: &'d DataKey, times: (&'d str, i64), bounds: Bounds) -> Self {
        Self {
            db,
            key,
            times,
            bounds,
            put_resource: None,
            put_progress: None,
            put_event: None,
            put_edge: None,
            remove_edges: None,
            highest: Highest::default(),
        }
    }

    pub fn write(&mut self, change: &Change) -> Result<(), StoreError> {
        let (db, key, (now, steady)) = (self.db, self.key, self.times);
        match change {
            Change::Stack(stack) => put_stack(db, key, stack, (now, steady))?,
            Change::StackRemoved { id, traversal, .. } => {
                bury(db, *id)?;
                // A stack that came and went in one turn was never put.
                meta::raise(db, "highest_stack", int(*id))?;
                meta::raise(db, "highest_traversal", int(*traversal))?;
                for sql in [
                    "DELETE FROM stacks WHERE id = ?1",
                    "DELETE FROM revisions WHERE stack_id = ?1",
                    "DELETE FROM graph WHERE needed_by IN (SELECT id FROM resources WHERE stack_id = ?1)",
                    "DELETE FROM resources WHERE stack_id = ?1",
                ] {
                    db.execute(sql, values![int(*id)])?;
                }
            }
            Change::Revision(revision) => put_revision(db, key, revision, now)?,
            Change::RevisionsTrimmed { stack, below, but } => {
                // A list with a comma at both ends, since the databases have no kind of list in common.
                let but: String = but.iter().map(|number| format!(",{number}")).collect();
                db.execute(
                    "DELETE FROM revisions WHERE stack_id = ?1 AND number < ?2
                         AND ?3 NOT LIKE '%,' || CAST(number AS TEXT) || ',%'",
                    values![int(*stack), below, but + ","],
                )?;
            }
            Change::Resource(resource) => {
                self.highest.row = self.highest.row.max(resource.id);
                put_resource(prepared(db, &mut self.put_resource, PUT_RESOURCE)?, key, resource, steady)?;
            }
            Change::Progress(progress) => {
                put_progress(prepared(db, &mut self.put_progress, PUT_PROGRESS)?, key, progress, steady)?;
            }
            Change::ResourceRemoved(id) => {
                db.prepare_many(REMOVE_RESOURCE)?.execute(values![int(*id)])?;
                self.remove_edges(*id)?;
            }
            Change::Edges { needed_by, requires } => {
                self.remove_edges(*needed_by)?;
                let put = prepared(db, &mut self.put_edge, PUT_EDGE)?;
                for required in requires {
                    put.execute(values![int(*needed_by), int(*required)])?;
                }
            }
            Change::Node(node) => {
                db.prepare(
                    "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8, ?9)
                     ON CONFLICT (name) DO UPDATE SET labels = ?2, seal_public = ?3, agent_version = ?4, revoked = ?5,
                         token_id = ?7, token_hash = ?8, maintenance = ?9",
                )?
                .execute(values![
                    node.name.as_str(),
                    json(&node.labels),
                    node.seal_public.0,
                    node.agent_version,
                    node.revoked,
                    now,
                    node.joined_with.0,
                    node.joined_with.1,
                    node.maintenance,
                ])?;
            }
            Change::NodeRemoved(name) => {
                db.execute("DELETE FROM nodes WHERE name = ?1", values![name.as_str()])?;
            }
            Change::Token(record) => {
                let token = &record.token;
                db.execute(
                    upsert!(
                        "tokens",
                        ["id"],
                        ["secret_hash", "expires", "uses", "uses_left", "name", "labels", "rate"]
                    ),
                    values![
                        HEXLOWER.encode(&token.id),
                        token.secret_hash,
                        int(token.expires),
                        token.uses,
                        record.uses_left,
                        token.name,
                        json(&token.labels),
                        token.rate.map(|rate| rate.to_string()),
                    ],
                )?;
            }
            Change::TokenRemoved(id) => {
                db.execute("DELETE FROM tokens WHERE id = ?1", values![HEXLOWER.encode(id)])?;
            }
            Change::User(user) => super::user::put(db, user)?,
            Change::UserRemoved(name) => super::user::remove(db, name)?,
            Change::Content { digest, bytes } => put_content(db, key, &digest.0, bytes)?,
            Change::ContentRemoved(digest) => remove_content(db, key, &digest.0)?,
            Change::Event(event) => self.put_event(event)?,
            Change::Intent(change) => {
                if let IntentChange::Intent(intent, _) = change {
                    self.highest.intent = self.highest.intent.max(int(intent.no.0));
                }
                super::intent::apply(db, key, change, now)?;
            }
            Change::Flow(change) => super::flow::apply(db, key, change, now)?,
            Change::Counters(counters) => {
                meta::raise(db, "epoch", counters.epoch.0.into())?;
            }
            Change::Rollout(change) => super::rollout::apply(db, change, steady)?,
            Change::Restored(record) => super::restored::put(db, record.as_deref())?,
            Change::Audit(record) => super::audit::put(db, record, now, &self.bounds)?,
        }
        Ok(())
    }

    /// Writes what follows from all changes, and that these nodes were connected just now.
    pub fn finish(self, seen: &[NodeId]) -> Result<(), StoreError> {
        let Self { db, times, highest, .. } = self;
        db.name(|| "the highest numbers".to_owned());
        if highest.row > 0 {
            schema::raise_highest_row(db, highest.row)?;
        }
        if highest.intent > 0 {
            meta::raise(db, "highest_intent", highest.intent)?;
        }
        db.name(|| "the times of nodes".to_owned());
        let mut saw = db.prepare_many(SEEN)?;
        seen.iter().try_for_each(|node| saw.execute(values![node.as_str(), times.0]))
    }

    fn remove_edges(&mut self, needed_by: u64) -> Result<(), StoreError> {
        prepared(self.db, &mut self.remove_edges, REMOVE_EDGES)?.execute(values![int(needed_by)])
    }

    fn put_event(&mut self, event: &EventRecord) -> Result<(), StoreError> {
        let (resource, physical) =
            event.resource.as_ref().map(|(name, id)| (&**name, id.to_string())).unzip();
        prepared(self.db, &mut self.put_event, PUT_EVENT)?.execute(values![
            int(event.stack),
            int(event.number),
            self.times.0,
            resource,
            physical,
            event.action,
            event.status,
            event.reason,
            event.actor.as_deref(),
        ])?;
        if let Some(below) = self.bounds.cut(event.number) {
            self.db.execute(
                "DELETE FROM events WHERE stack_id = ?1 AND number <= ?2",
                values![int(event.stack), int(below)],
            )?;
        }
        Ok(())
    }
}

/// The statement, which is prepared once.
fn prepared<'s, 'd>(
    db: &'d Db,
    statement: &'s mut Option<Statement<'d>>,
    sql: &str,
) -> Result<&'s mut Statement<'d>, StoreError> {
    match statement {
        Some(statement) => Ok(statement),
        none => Ok(none.insert(db.prepare_many(sql)?)),
    }
}

fn put_revision(db: &Db, key: &DataKey, revision: &RevisionRecord, now: &str) -> Result<(), StoreError> {
    let text = &revision.text;
    let row = [int(revision.stack), i64::from(revision.number)];
    let (files, parameters, environments) =
        (json(&text.files), json(&text.parameters), json(&text.environments));
    db.prepare("INSERT INTO revisions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?.execute(values![
        row[0],
        row[1],
        text.name,
        SealedText::new(key, TEMPLATE, &row, &text.template)?,
        SealedText::new(key, FILES, &row, &files)?,
        SealedText::new(key, PARAMETERS, &row, &parameters)?,
        now,
        SealedText::new(key, ENVIRONMENTS, &row, &environments)?,
        revision.made_by,
    ])?;
    Ok(())
}

fn put_stack(
    db: &Db,
    key: &DataKey,
    stack: &StackRecord,
    (now, steady): (&str, i64),
) -> Result<(), StoreError> {
    let row = [int(stack.id)];
    let (outputs, hidden_digests) = (json(&stack.outputs), json(&stack.hidden_digests));
    db.prepare(
        "INSERT INTO stacks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?15, ?16, ?17, ?18, ?19,
             ?20, ?21, ?22, ?23, ?24)
         ON CONFLICT (id) DO UPDATE SET action = ?3, status = ?4, status_reason = ?5, revision = ?6, traversal = ?7,
             timeout_s = ?8, rollback = ?9, complete = ?10, outputs = ?11, parameters = ?12, events = ?13,
             updated_at = ?14, delete_first = ?15, cancelled = ?16, failures = ?17, hidden_digests = ?18,
             converge = ?19, timed_out = ?20, entering = ?21, adopt = ?23, runs_since = ?24",
    )?
    .execute(values![
        row[0],
        stack.name.as_str(),
        stack.action.as_str(),
        stack.status.as_str(),
        stack.reason,
        stack.revision,
        int(stack.traversal),
        int(stack.timeout_s),
        stack.rollback,
        json(&stack.complete),
        SealedText::new(key, OUTPUTS, &row, &outputs)?,
        json(&stack.parameters),
        int(stack.events),
        now,
        stack.delete_first,
        stack.cancelled,
        json(&stack.failures),
        SealedText::new(key, HIDDEN_DIGESTS, &row, &hidden_digests)?,
        stack.converge,
        stack.timed_out,
        stack.entering,
        stack.scope.as_ref().map(ToString::to_string),
        stack.adopt,
        stack.ran.map(|ran| began(steady, ran)),
    ])?;
    for (key, value) in [("highest_stack", stack.id), ("highest_traversal", stack.traversal)] {
        meta::raise(db, key, int(value))?;
    }
    Ok(())
}

/// Deletes a stack. Its events stay until [`GONE_KEPT`] others were deleted, so that readers learn how
/// it ended.
fn bury(db: &Db, id: u64) -> Result<(), StoreError> {
    let mut gone: Vec<u64> = match meta::text(db, "gone")? {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| StoreError::Format(format!("meta.gone is damaged: {error}")))?,
        None => Vec::new(),
    };
    gone.push(id);
    for old in gone.drain(..gone.len().saturating_sub(GONE_KEPT)) {
        db.execute("DELETE FROM events WHERE stack_id = ?1", values![int(old)])?;
    }
    meta::put(db, "gone", &json(&gone))
}

/// The attributes of a row in stored form; most have none.
fn sealed_attributes(
    key: &DataKey,
    id: u64,
    attributes: &BTreeMap<String, String>,
) -> Result<Option<Vec<u8>>, StoreError> {
    if attributes.is_empty() {
        return Ok(None);
    }
    Ok(match SealedText::new(key, ATTRIBUTES, &[int(id)], &json(attributes))? {
        SealedText::Sealed(bytes) => Some(bytes),
        SealedText::Plain(_) => None,
    })
}

/// The cause of a row in stored form. Most jobs are an operation's, and a row of those is not longer for it.
fn kept_cause(cause: Cause) -> Option<&'static str> {
    (cause != Cause::Traversal).then(|| cause.as_str())
}

/// The notes of a row, in clear or sealed.
fn kept_notes(key: &DataKey, p: &ProgressRecord) -> Result<(Option<String>, Option<Vec<u8>>), StoreError> {
    let Some(notes) = &p.notes else { return Ok((None, None)) };
    let text = json(notes);
    if !notes.is_secret() {
        return Ok((Some(text), None));
    }
    match SealedText::new(key, SECRET_NOTES, &[int(p.id)], &text)? {
        SealedText::Sealed(bytes) => Ok((None, Some(bytes))),
        SealedText::Plain(text) => Ok((Some(text.to_owned()), None)),
    }
}

/// The desired state of a row, with the digest of its definition: the digest could reveal a short secret to
/// guessing. `None` while there is neither.
fn sealed_spec(key: &DataKey, r: &ResourceRecord) -> Result<Option<Vec<u8>>, StoreError> {
    if r.spec.is_none() && r.definition == 0 {
        return Ok(None);
    }
    let packed = r.spec.as_ref().map(PackedSpec::bytes);
    let mut plain = Vec::with_capacity(17 + packed.map_or(0, <[u8]>::len));
    plain.extend_from_slice(&r.definition.to_le_bytes());
    if let Some(packed) = packed {
        plain.push(SPEC_VERSION);
        plain.extend_from_slice(packed);
    }
    Ok(Some(key.seal(&SPEC.place(&[int(r.id)]), &plain)?))
}

const PUT_RESOURCE: &str = upsert!(
    "resources",
    ["id"],
    [
        "physical_id",
        "stack_id",
        "name",
        "type",
        "node",
        "revision",
        "dropped",
        "spec",
        "handed_over",
        "replaces",
        "replaced_by",
        "action",
        "status",
        "status_reason",
        "applied",
        "held_epoch",
        "held_number",
        "epoch",
        "number",
        "attempt",
        "in_flight",
        "retry_count",
        "observed_ready",
        "attributes",
        "retain",
        "external_id",
        "lost_from",
        "observed",
        "unhealthy",
        "hook",
        "hooks_cleared",
        "causes",
        "waits_since",
        "drift_policy",
        "corrections",
        "cause",
        "notes",
        "secret_notes"
    ]
);

fn put_resource(
    statement: &mut Statement<'_>,
    key: &DataKey,
    r: &ResourceRecord,
    steady: i64,
) -> Result<(), StoreError> {
    let p = &r.progress;
    let spec = sealed_spec(key, r)?;
    let (notes, secret_notes) = kept_notes(key, p)?;
    let mut physical = [0; uuid::fmt::Hyphenated::LENGTH];
    statement.execute(values![
        int(r.id),
        &*r.physical.0.hyphenated().encode_lower(&mut physical),
        int(r.stack),
        r.name,
        type_text(r.kind, r.type_name.as_deref()),
        r.node.as_ref().map(NodeId::as_str),
        r.revision,
        r.dropped,
        spec,
        r.handed_over,
        r.replaces.map(int),
        r.replaced_by.map(int),
        p.action.map(|action| action_str(Some(action))),
        p.status.map(muster_engine::record::Status::as_str),
        p.reason,
        p.applied,
        p.held.map(|held| held.epoch.0),
        p.held.map(|held| int(held.number)),
        p.generation.epoch.0,
        int(p.generation.number),
        p.attempt,
        p.in_flight,
        p.retry_count,
        p.observed_ready,
        sealed_attributes(key, p.id, &p.attributes)?,
        r.retain,
        r.external_id,
        r.lost_from.as_ref().map(StackName::as_str),
        p.observed.as_str(),
        p.unhealthy,
        p.hook.map(Hook::as_str),
        p.hooks_cleared,
        (!p.causes.is_empty()).then(|| json(&p.causes)),
        p.waited.map(|waited| began(steady, waited)),
        r.drift_policy.map(DriftPolicy::as_str),
        p.corrections.as_ref().map(|it| corrections::written(it, steady)),
        kept_cause(p.cause),
        notes,
        secret_notes,
    ])?;
    Ok(())
}

const PUT_PROGRESS: &str =
    "UPDATE resources SET action = ?2, status = ?3, status_reason = ?4, applied = ?5, held_epoch = ?6,
         held_number = ?7, epoch = ?8, number = ?9, attempt = ?10, in_flight = ?11, retry_count = ?12,
         observed_ready = ?13, attributes = ?14, observed = ?15, unhealthy = ?16, hook = ?17, hooks_cleared = ?18,
         causes = ?19, waits_since = ?20, corrections = ?21, cause = ?22, notes = ?23, secret_notes = ?24
     WHERE id = ?1";

fn put_progress(
    statement: &mut Statement<'_>,
    key: &DataKey,
    p: &ProgressRecord,
    steady: i64,
) -> Result<(), StoreError> {
    let (notes, secret_notes) = kept_notes(key, p)?;
    statement.execute(values![
        int(p.id),
        p.action.map(|action| action_str(Some(action))),
        p.status.map(muster_engine::record::Status::as_str),
        p.reason,
        p.applied,
        p.held.map(|held| held.epoch.0),
        p.held.map(|held| int(held.number)),
        p.generation.epoch.0,
        int(p.generation.number),
        p.attempt,
        p.in_flight,
        p.retry_count,
        p.observed_ready,
        sealed_attributes(key, p.id, &p.attributes)?,
        p.observed.as_str(),
        p.unhealthy,
        p.hook.map(Hook::as_str),
        p.hooks_cleared,
        (!p.causes.is_empty()).then(|| json(&p.causes)),
        p.waited.map(|waited| began(steady, waited)),
        p.corrections.as_ref().map(|it| corrections::written(it, steady)),
        kept_cause(p.cause),
        notes,
        secret_notes,
    ])?;
    Ok(())
}
