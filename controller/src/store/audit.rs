//! Table `audit`: rows are added with the change that they tell of, read, and removed once they are old enough. The
//! database itself refuses everything else: it lets rows go that are below the number in `meta`, which only rises
//! (`schema.sql`).
//!
//! Absent: which requests have a row, and what it says (`driver/audit.rs`).

use muster_api::site::AuditRow;
use muster_engine::record::AuditRecord;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::database::{int, now, rfc3339};
use super::read::Reader;
use super::sql::{Db, values};
use super::{Bounds, Database, StoreError};

/// The most old rows that a new one removes: the table shrinks while it is used, and no commit is long.
const REMOVED_AT_ONCE: i64 = 10;

/// The key in `meta` of the number below which rows may go, or have gone.
const KEPT_FROM: &str = "audit_kept_from";

/// The rows of the audit that are asked for.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Rows after this number.
    pub after: u64,
    /// Rows before this number, the newest first. `None`: the oldest come first.
    pub before: Option<u64>,
    /// Rows of this time and later, RFC 3339 UTC.
    pub since: Option<String>,
    /// Rows of this actor.
    pub user: Option<String>,
    /// So many at most.
    pub limit: usize,
}

/// Adds a row.
pub(super) fn add(db: &Db, record: &AuditRecord, now: &str) -> Result<(), StoreError> {
    let AuditRecord { actor, from, action, target, what, result } = record;
    db.prepare(
        "INSERT INTO audit SELECT coalesce(max(number), 0) + 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM audit",
    )?
    .execute(values![now, actor, from, &**action, target, what, result])
}

/// Adds a row, and removes some of those that are older than the settings want them.
pub(super) fn put(db: &Db, record: &AuditRecord, now: &str, bounds: &Bounds) -> Result<(), StoreError> {
    add(db, record, now)?;
    // Nothing is read: a commit would wait for each answer. The newest row stays, for its number is where the next one
    // goes on. Rows go in their order.
    db.execute(
        "INSERT INTO meta SELECT ?4, CAST(cut AS TEXT)
         FROM (SELECT min(number) AS oldest, coalesce(
                 min(CASE WHEN at < ?1 OR number <= (SELECT max(number) FROM audit) - ?3 THEN NULL ELSE number END),
                 max(number) + 1) AS cut
             FROM (SELECT number, at FROM audit WHERE number < (SELECT max(number) FROM audit)
                   ORDER BY number LIMIT ?2) AS oldest_rows) AS found
         WHERE cut > oldest
         ON CONFLICT (key) DO UPDATE SET value = excluded.value
             WHERE CAST(meta.value AS BIGINT) < CAST(excluded.value AS BIGINT)",
        values![
            kept_from(now, bounds.audit_days).unwrap_or_default(),
            REMOVED_AT_ONCE,
            int(bounds.audit_rows),
            KEPT_FROM
        ],
    )?;
    let kept = "SELECT CAST(value AS BIGINT) FROM meta WHERE key = ?1";
    db.execute(&format!("DELETE FROM audit WHERE number < ({kept})"), values![KEPT_FROM])
}

impl Database {
    /// Adds a row about a change that no request caused.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn note(&mut self, record: &AuditRecord) -> Result<(), StoreError> {
        self.db.transaction(|| put(&self.db, record, &now(), &self.bounds))
    }
}

/// The time of the oldest row that stays. `None`: all stay.
fn kept_from(now: &str, days: u32) -> Option<String> {
    let now = OffsetDateTime::parse(now, &Rfc3339).ok().filter(|_| days > 0)?;
    now.checked_sub(time::Duration::days(days.into())).map(rfc3339)
}

impl Reader {
    /// Rows of the audit.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRow>, StoreError> {
        let AuditQuery { after, before, since, user, limit } = query;
        let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
        self.with(|db| {
            // Each has its index: whoever follows asks again and again.
            let of_whom = match (user, since) {
                (Some(_), _) => "actor = ?3",
                (None, Some(_)) => "?3 = '' AND number >= (SELECT number FROM audit WHERE at >= ?2 ORDER BY at LIMIT 1)",
                (None, None) => "?3 = ''",
            };
            let order = if before.is_some() { "DESC" } else { "ASC" };
            let sql = format!(
                "SELECT number, at, actor, came_from, action, target, what, result FROM audit
                 WHERE {of_whom} AND number > ?1 AND number < ?5 AND at >= ?2 ORDER BY number {order} LIMIT ?4"
            );
            let before = before.map_or(i64::MAX, int);
            let (since, user) = (since.as_deref().unwrap_or_default(), user.as_deref().unwrap_or_default());
            db.all(&sql, values![int(*after), since, user, limit, before], |row| {
                Ok(AuditRow {
                    number: row.get(0)?,
                    at: row.get(1)?,
                    actor: row.get(2)?,
                    from: row.get(3)?,
                    action: row.get(4)?,
                    target: row.get(5)?,
                    what: row.get(6)?,
                    result: row.get(7)?,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_engine::record::Change;

    use super::*;
    use crate::store::testing::each;
    use crate::store::{Store as _, meta};

    fn record(actor: &str, target: &str) -> AuditRecord {
        AuditRecord {
            actor: actor.to_owned(),
            from: "local".to_owned(),
            action: "stack create".into(),
            target: target.to_owned(),
            what: String::new(),
            result: "ok".to_owned(),
        }
    }

    #[test]
    fn rows_are_found_by_number_time_and_actor() {
        each(|place| {
            let mut store = place.open();
            let rows = [record("anna", "web"), record("ben", "db"), record("anna", "db")];
            let changes = rows.map(|row| Change::Audit(Box::new(row)));
            store.commit(&mut changes.into_iter(), &[]).unwrap();
            let reader = place.reader(&store);
            let found = |query: AuditQuery| -> Vec<(u64, String, String)> {
                let rows = reader.audit(&AuditQuery { limit: 10, ..query }).unwrap();
                rows.into_iter().map(|row| (row.number, row.actor, row.target)).collect()
            };
            let row = |number, actor: &str, target: &str| (number, actor.to_owned(), target.to_owned());
            let all = [row(1, "anna", "web"), row(2, "ben", "db"), row(3, "anna", "db")];
            assert_eq!(found(AuditQuery::default()), all);
            assert_eq!(found(AuditQuery { after: 1, ..AuditQuery::default() }), all[1..]);
            assert_eq!(found(AuditQuery { user: Some("ben".into()), ..AuditQuery::default() }), all[1..2]);
            let newest = |before| found(AuditQuery { before: Some(before), ..AuditQuery::default() });
            assert_eq!(newest(u64::MAX), [row(3, "anna", "db"), row(2, "ben", "db"), row(1, "anna", "web")]);
            assert_eq!(newest(2), all[..1]);
            let since = Some("2999-01-01T00:00:00.000Z".into());
            assert_eq!(found(AuditQuery { since, ..AuditQuery::default() }), []);
            let limited = reader.audit(&AuditQuery { limit: 1, ..AuditQuery::default() }).unwrap();
            assert_eq!(limited.len(), 1);
        });
    }

    /// Whatever writes to the database: a fault of ours, or a hand with the controller's rights.
    #[test]
    fn no_row_is_changed_or_removed_before_its_time() {
        each(|place| {
            let mut store = place.open();
            let rows = [record("anna", "web"), record("ben", "db"), record("anna", "db")];
            let changes = rows.map(|row| Change::Audit(Box::new(row)));
            store.commit(&mut changes.into_iter(), &[]).unwrap();
            let db = store.db();
            let all = "SELECT number, actor, target FROM audit ORDER BY number";
            let read = |db: &Db| -> Vec<(i64, String, String)> {
                db.all(all, values![], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
            };
            let before = read(db);
            assert_eq!(before.len(), 3);
            let instead = match db {
                Db::Sqlite(_) => "INSERT OR REPLACE INTO audit VALUES (2, '', 'x', '', '', '', '', '')",
                Db::Postgres(_) => "TRUNCATE audit",
            };
            for (sql, why) in [
                ("UPDATE audit SET actor = 'x'", "never changed"),
                ("UPDATE audit SET number = 9 WHERE number = 2", "never changed"),
                (instead, "never changed"),
                ("DELETE FROM audit", "once they are old enough"),
                ("DELETE FROM audit WHERE number = 3", "once they are old enough"),
            ] {
                let refused = db.transaction(|| db.execute(sql, values![])).unwrap_err();
                let said = format!("{refused} {refused:?}");
                assert!(said.contains(why), "{sql}: {said}");
                assert_eq!(read(db), before, "{sql}");
            }
            // What is noted as old goes, and nothing above it.
            meta::raise(db, KEPT_FROM, 2).unwrap();
            let delete = |sql| db.transaction(|| db.execute(sql, values![]));
            assert!(delete("DELETE FROM audit WHERE number <= 2").is_err());
            delete("DELETE FROM audit WHERE number < 2").unwrap();
            assert_eq!(read(db), before[1..]);
        });
    }

    #[test]
    fn so_many_rows_are_kept() {
        each(|place| {
            let store = place.open();
            let bounds = Bounds { audit_rows: 3, audit_days: 0, ..Bounds::default() };
            let write = || {
                let now = "2026-01-01T00:00:00.000Z";
                store.db().transaction(|| put(store.db(), &record("anna", "web"), now, &bounds)).unwrap();
            };
            (0..20).for_each(|_| write());
            let kept: Vec<u64> = store
                .db()
                .all("SELECT number FROM audit ORDER BY number", values![], |row| row.get(0))
                .unwrap();
            assert_eq!(kept, [18, 19, 20]);
        });
    }

    #[test]
    fn old_rows_go_with_new_ones_and_the_newest_stays() {
        each(|place| {
            let store = place.open();
            let write = |now: &str, days| {
                let bounds = Bounds { audit_days: days, ..Bounds::default() };
                store.db().transaction(|| put(store.db(), &record("anna", now), now, &bounds)).unwrap();
            };
            let kept = || -> Vec<u64> {
                let rows =
                    store.db().all("SELECT number FROM audit ORDER BY number", values![], |row| row.get(0));
                rows.unwrap()
            };
            write("2026-01-01T00:00:00.000Z", 30);
            write("2026-01-30T00:00:00.000Z", 30);
            assert_eq!(kept(), [1, 2]);
            write("2026-02-15T00:00:00.000Z", 30);
            assert_eq!(kept(), [2, 3], "45 days are more than 30");
            write("2036-01-01T00:00:00.000Z", 0);
            assert_eq!(kept(), [2, 3, 4], "all stay");
            write("2046-01-01T00:00:00.000Z", 1);
            assert_eq!(kept(), [5]);
        });
    }
}
