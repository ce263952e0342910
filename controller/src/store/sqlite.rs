//! SQLite: one writer, WAL, a full fsync per commit.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use muster_engine::cause::Cause;
use muster_engine::record::{
    Change, EventRecord, PackedSpec, ProgressRecord, ResourceRecord, RevisionRecord, StackRecord, action_str,
    type_text,
};
use muster_engine::{Hook, SourceText, Starts};
use muster_shared::{Epoch, NodeId, StackName};
use muster_template::DriftPolicy;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::convert::{note_key, put_content, remove_content, sealed_with};
use super::key::{DataKey, KeyFile};
use super::sealed::{
    ATTRIBUTES, ENVIRONMENTS, FILES, HIDDEN_DIGESTS, OUTPUTS, PARAMETERS, SECRET_NOTES, SPEC, SealedText,
    TEMPLATE,
};
use super::steady::SteadyClock;
use super::{Bounds, Failure, Store, StoreError, corrections, name};

/// The first schema makes the database, and each further one upgrades it. `user_version` counts the applied
/// schemas. A released schema never changes: later changes are a further file.
const SCHEMAS: [&str; 1] = [include_str!("schema.sql")];
/// The version of the encoding of `resources.spec`.
pub(super) const SPEC_VERSION: u8 = 2;
/// Pages held in memory, in KiB: the engine has the working set, this is for the tree's inner pages.
const CACHE_KIB: i64 = 8 * 1024;
/// Pages in the WAL before they are copied home: pages that change again and again are copied once.
const CHECKPOINT_PAGES: i64 = 8192;
/// The WAL is cut back to this after a checkpoint.
const WAL_MAX: i64 = 64 * 1024 * 1024;

/// A commit waits so long for another program's lock; the driver, which has others to serve, then tries
/// again later.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// The most deleted stacks whose events are kept.
const GONE_KEPT: usize = 20;

/// The default store.
pub struct Sqlite {
    pub(super) db: Connection,
    pub(super) key: DataKey,
    pub(super) bounds: Bounds,
    pub(super) steady: SteadyClock,
    /// Bytes of the last commit, if there was no room for it.
    pub(super) wants: u64,
}

impl Sqlite {
    /// Opens or makes the database at `path`, with the data key at `key_file`, which is made if nothing is
    /// sealed yet.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be opened or is of a newer version, or if the key is missing,
    /// wrong, or readable by others.
    pub fn open(path: &Path, key_file: &Path) -> Result<Self, StoreError> {
        // The database records in clear who did what: only the owner may read it. SQLite gives its other
        // files the same mode.
        let made =
            std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        made.map_err(|error| StoreError::Format(format!("{} cannot be opened: {error}", path.display())))?;
        let mut db = Connection::open(path)?;
        db.busy_timeout(BUSY_WAIT)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "cache_size", -CACHE_KIB)?;
        db.pragma_update(None, "journal_size_limit", WAL_MAX)?;
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        db.set_prepared_statement_cache_capacity(64);
        let version = version(&db)?;
        let sealed_with = if version == 0 { None } else { sealed_with(&db)? };
        if version > 0 && sealed_with.is_none() {
            return Err(StoreError::Format("the database does not say which key it is sealed with".into()));
        }
        let key = KeyFile::at(key_file).open(sealed_with)?;
        migrate(&mut db, &key, &SCHEMAS, version)?;
        let steady = SteadyClock::open(&db)?;
        let mut store = Self { db, key, bounds: Bounds::default(), steady, wants: 0 };
        if let Err(error) = store.scrub() {
            tracing::warn!(%error, "what was deleted still lies in the database's file; it is tried again at the next start");
        }
        Ok(store)
    }

    /// The key that seals the database.
    pub fn key(&self) -> DataKey {
        self.key.clone()
    }

    fn write(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        let (now, bounds, steady) = (now(), self.bounds, self.steady.now());
        // First of all: a database that is busy takes nothing of the changes.
        let transaction = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut bytes = 0;
        let mut written = Ok(());
        // Also what comes after a failure is weighed: room is wanted for all of it.
        for change in changes {
            bytes += name::weight(&change);
            if written.is_ok() {
                written =
                    apply(&transaction, &self.key, &change, (&now, steady), &bounds).map_err(|source| {
                        StoreError::Change { change: name::name(&change), source: Box::new(source) }
                    });
            }
        }
        let written = written.and_then(|()| {
            for node in seen {
                let mut update =
                    transaction.prepare_cached("UPDATE nodes SET last_seen = ?2 WHERE name = ?1")?;
                update.execute(params![node.as_str(), now])?;
            }
            Ok(transaction.commit()?)
        });
        let is_full = written.as_ref().is_err_and(|error| error.failure() == Failure::Full);
        self.wants = if is_full { bytes } else { 0 };
        written
    }

    pub(super) fn db(&self) -> &Connection {
        &self.db
    }
}

/// Applies the schemas that a database of this version lacks, all of them or none.
fn migrate(db: &mut Connection, key: &DataKey, schemas: &[&str], version: usize) -> Result<(), StoreError> {
    if version == schemas.len() {
        return Ok(());
    }
    let transaction = db.transaction()?;
    for schema in schemas.iter().skip(version) {
        transaction.execute_batch(schema)?;
    }
    if version == 0 {
        note_key(&transaction, key)?;
    }
    transaction.pragma_update(None, "user_version", int(schemas.len() as u64))?;
    transaction.commit()?;
    Ok(())
}

impl Store for Sqlite {
    fn commit(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        self.write(changes, seen).map_err(|error| match self.has_room() {
            Err(full @ StoreError::Full { .. }) if error.failure() == Failure::Full => full,
            Ok(()) | Err(_) => error,
        })
    }

    fn load(&mut self) -> Result<muster_engine::Snapshot, StoreError> {
        super::load::load(self)
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        let epoch: i64 = self.db.query_row(
            "UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'epoch' RETURNING CAST(value AS INTEGER)",
            [],
            |row| row.get(0),
        )?;
        Ok(Epoch(u32::try_from(epoch).map_err(|_| StoreError::Format("the epoch is out of range".into()))?))
    }

    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<Starts, StoreError> {
        let transaction = self.db.transaction()?;
        let known = "SELECT value FROM meta WHERE key = 'starts'";
        let text: Option<String> = transaction.query_row(known, [], |row| row.get(0)).optional()?;
        // An unreadable value counts as a store without recorded starts.
        let mut starts: Starts = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        starts.add(epoch, bits);
        let text = serde_json::to_string(&starts).map_err(|error| StoreError::Format(error.to_string()))?;
        transaction.execute("INSERT OR REPLACE INTO meta VALUES ('starts', ?1)", [text])?;
        transaction.commit()?;
        Ok(starts)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.has_room()?;
        self.db.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'probe'", [])?;
        self.try_room()
    }

    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError> {
        Ok(super::read::source(&self.db, &self.key, stack, Some(revision))?.map(|(_, text)| text))
    }
}

/// The number of applied [`SCHEMAS`].
pub(super) fn version(db: &Connection) -> Result<usize, StoreError> {
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let newest = SCHEMAS.len();
    usize::try_from(version).ok().filter(|version| *version <= newest).ok_or_else(|| {
        StoreError::Format(format!(
            "the database is of version {version}, this controller knows {newest}: upgrade the controller"
        ))
    })
}

/// SQLite has no unsigned integers; ids count up from 1 and never come near the limit.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain maps, lists and strings")
}

/// The beginning of a period of this length that ends now.
pub(super) fn began(now: i64, waited: Duration) -> i64 {
    now.saturating_sub(i64::try_from(waited.as_secs()).unwrap_or(i64::MAX))
}

pub(super) fn now() -> String {
    rfc3339(time::OffsetDateTime::now_utc())
}

/// The form of times in the database and in views: UTC, to the millisecond.
pub(crate) fn rfc3339(time: time::OffsetDateTime) -> String {
    let format = time::macros::format_description!(
        "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
    );
    time.format(&format).expect("a year of four digits")
}

/// The times are the wall clock's, for people, and the [`SteadyClock`]'s.
fn apply(
    db: &Transaction<'_>,
    key: &DataKey,
    change: &Change,
    (now, steady): (&str, i64),
    bounds: &Bounds,
) -> Result<(), StoreError> {
    match change {
        Change::Stack(stack) => put_stack(db, key, stack, now)?,
        Change::StackRemoved { id, traversal, .. } => {
            bury(db, *id)?;
            // A stack that came and went in one turn was never put.
            raise(db, "highest_stack", *id)?;
            raise(db, "highest_traversal", *traversal)?;
            for sql in [
                "DELETE FROM stacks WHERE id = ?1",
                "DELETE FROM revisions WHERE stack_id = ?1",
                "DELETE FROM graph WHERE needed_by IN (SELECT id FROM resources WHERE stack_id = ?1)",
                "DELETE FROM resources WHERE stack_id = ?1",
            ] {
                db.execute(sql, [int(*id)])?;
            }
        }
        Change::Revision(revision) => put_revision(db, key, revision, now)?,
        Change::RevisionsTrimmed { stack, below, but } => {
            let older = "DELETE FROM revisions WHERE stack_id = ?1 AND number < ?2
                AND number NOT IN (SELECT value FROM json_each(?3))";
            db.prepare_cached(older)?.execute(params![int(*stack), below, json(but)])?;
        }
        Change::Resource(resource) => put_resource(db, key, resource, steady)?,
        Change::Progress(progress) => put_progress(db, key, progress, steady)?,
        Change::ResourceRemoved(id) => {
            db.prepare_cached("DELETE FROM resources WHERE id = ?1")?.execute([int(*id)])?;
            db.prepare_cached("DELETE FROM graph WHERE needed_by = ?1")?.execute([int(*id)])?;
        }
        Change::Edges { needed_by, requires } => {
            db.prepare_cached("DELETE FROM graph WHERE needed_by = ?1")?.execute([int(*needed_by)])?;
            let mut insert = db.prepare_cached("INSERT INTO graph VALUES (?1, ?2)")?;
            for required in requires {
                insert.execute([int(*needed_by), int(*required)])?;
            }
        }
        Change::Node(node) => {
            db.prepare_cached(
                "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8, ?9)
                 ON CONFLICT (name) DO UPDATE SET labels = ?2, seal_public = ?3, agent_version = ?4, revoked = ?5,
                     token_id = ?7, token_hash = ?8, maintenance = ?9",
            )?
            .execute(params![
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
            db.prepare_cached("DELETE FROM nodes WHERE name = ?1")?.execute([name.as_str()])?;
        }
        Change::Token(record) => {
            let token = &record.token;
            db.prepare_cached("INSERT OR REPLACE INTO tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
                .execute(params![
                    hex(&token.id),
                    token.secret_hash,
                    int(token.expires),
                    token.uses,
                    record.uses_left,
                    token.name,
                    json(&token.labels),
                    token.rate.map(|rate| rate.to_string()),
                ])?;
        }
        Change::TokenRemoved(id) => {
            db.prepare_cached("DELETE FROM tokens WHERE id = ?1")?.execute([hex(id)])?;
        }
        Change::Content { digest, bytes } => put_content(db, key, &digest.0, bytes)?,
        Change::ContentRemoved(digest) => remove_content(db, key, &digest.0)?,
        Change::Event(event) => put_event(db, event, now, bounds)?,
        Change::Intent(change) => super::intent::apply(db, key, change, now)?,
        Change::Flow(change) => super::flow::apply(db, key, change, now)?,
        Change::Counters(counters) => {
            db.prepare_cached("UPDATE meta SET value = max(CAST(value AS INTEGER), ?1) WHERE key = 'epoch'")?
                .execute([counters.epoch.0])?;
        }
        Change::Rollout(change) => super::rollout::apply(db, change)?,
        Change::Restored(record) => super::restored::put(db, record.as_deref())?,
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn put_revision(
    db: &Transaction<'_>,
    key: &DataKey,
    revision: &RevisionRecord,
    now: &str,
) -> Result<(), StoreError> {
    let text = &revision.text;
    let row = [int(revision.stack), i64::from(revision.number)];
    let (files, parameters, environments) =
        (json(&text.files), json(&text.parameters), json(&text.environments));
    db.prepare_cached("INSERT INTO revisions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?.execute(
        params![
            row[0],
            row[1],
            text.name,
            SealedText::new(key, TEMPLATE, &row, &text.template)?,
            SealedText::new(key, FILES, &row, &files)?,
            SealedText::new(key, PARAMETERS, &row, &parameters)?,
            now,
            SealedText::new(key, ENVIRONMENTS, &row, &environments)?,
            revision.made_by,
        ],
    )?;
    Ok(())
}

fn put_stack(db: &Transaction<'_>, key: &DataKey, stack: &StackRecord, now: &str) -> Result<(), StoreError> {
    let row = [int(stack.id)];
    let (outputs, hidden_digests) = (json(&stack.outputs), json(&stack.hidden_digests));
    db.prepare_cached(
        "INSERT INTO stacks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?15, ?16, ?17, ?18, ?19,
             ?20, ?21)
         ON CONFLICT (id) DO UPDATE SET action = ?3, status = ?4, status_reason = ?5, revision = ?6, traversal = ?7,
             timeout_s = ?8, rollback = ?9, complete = ?10, outputs = ?11, parameters = ?12, events = ?13,
             updated_at = ?14, delete_first = ?15, cancelled = ?16, failures = ?17, hidden_digests = ?18,
             converge = ?19, timed_out = ?20, entering = ?21",
    )?
    .execute(params![
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
    ])?;
    for (key, value) in [("highest_stack", stack.id), ("highest_traversal", stack.traversal)] {
        raise(db, key, value)?;
    }
    Ok(())
}

/// Ids are never reused, even if the highest row is gone.
fn raise(db: &Transaction<'_>, key: &str, value: u64) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE meta SET value = ?2 WHERE key = ?1 AND CAST(value AS INTEGER) < ?2")?
        .execute(params![key, int(value)])?;
    Ok(())
}

/// Deletes a stack. Its events stay until [`GONE_KEPT`] others were deleted, so that readers learn how
/// it ended.
fn bury(db: &Transaction<'_>, id: u64) -> Result<(), StoreError> {
    let mut select = db.prepare_cached("SELECT value FROM meta WHERE key = 'gone'")?;
    let gone: Option<String> = select.query_row([], |row| row.get(0)).optional()?;
    let mut gone: Vec<u64> = match gone {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| StoreError::Format(format!("meta.gone is damaged: {error}")))?,
        None => Vec::new(),
    };
    gone.push(id);
    for old in gone.drain(..gone.len().saturating_sub(GONE_KEPT)) {
        db.prepare_cached("DELETE FROM events WHERE stack_id = ?1")?.execute([int(old)])?;
    }
    db.prepare_cached("INSERT OR REPLACE INTO meta VALUES ('gone', ?1)")?.execute([json(&gone)])?;
    Ok(())
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

fn put_resource(
    db: &Transaction<'_>,
    key: &DataKey,
    r: &ResourceRecord,
    steady: i64,
) -> Result<(), StoreError> {
    let p = &r.progress;
    let spec = sealed_spec(key, r)?;
    let (notes, secret_notes) = kept_notes(key, p)?;
    let mut physical = [0; uuid::fmt::Hyphenated::LENGTH];
    db.prepare_cached(
        "INSERT OR REPLACE INTO resources VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
             ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26,
             ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39)",
    )?
    .execute(params![
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

fn put_progress(
    db: &Transaction<'_>,
    key: &DataKey,
    p: &ProgressRecord,
    steady: i64,
) -> Result<(), StoreError> {
    let (notes, secret_notes) = kept_notes(key, p)?;
    db.prepare_cached(
        "UPDATE resources SET action = ?2, status = ?3, status_reason = ?4, applied = ?5, held_epoch = ?6,
             held_number = ?7, epoch = ?8, number = ?9, attempt = ?10, in_flight = ?11, retry_count = ?12,
             observed_ready = ?13, attributes = ?14,
             observed = ?15, unhealthy = ?16, hook = ?17, hooks_cleared = ?18, causes = ?19, waits_since = ?20,
             corrections = ?21, cause = ?22, notes = ?23, secret_notes = ?24
             WHERE id = ?1",
    )?
    .execute(params![
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

fn put_event(
    db: &Transaction<'_>,
    event: &EventRecord,
    now: &str,
    bounds: &Bounds,
) -> Result<(), StoreError> {
    let (resource, physical) = event.resource.as_ref().map(|(name, id)| (&**name, id.to_string())).unzip();
    db.prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?.execute(params![
        int(event.stack),
        int(event.number),
        now,
        resource,
        physical,
        event.action,
        event.status,
        event.reason,
    ])?;
    if let Some(below) = bounds.cut(event.number) {
        db.prepare_cached("DELETE FROM events WHERE stack_id = ?1 AND number <= ?2")?
            .execute(params![int(event.stack), int(below)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
