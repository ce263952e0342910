//! The lease in a PostgreSQL database, and the controllers that look at it: a table each, over a connection of their
//! own with short bounds.
//!
//! The tables are not of the schema that migrations change: controllers of two versions share them while one is
//! upgraded after the other.
//!
//! Taking the lease changes the row's key, and a transaction of the holder keeps that key shared until its commit
//! (`FOR KEY SHARE`, in `sql/postgres.rs`): so a commit is before the take, or refused. A renewal changes no key, and
//! waits for nobody.
//!
//! Absent: when the lease may be taken, and until when it is held (`lease/machine.rs`).

use std::time::Duration;

use muster_shared::Epoch;
use serde::{Deserialize, Serialize};

use super::database::{int, json, now};
use super::sql::{Db, Row, Server, values};
use super::{StoreError, meta, schema};
use crate::lease::{Asker, Heir, LeaseState, Member, Record, StandbyView, Term};

/// A controller that has not looked for this long, in seconds, is forgotten.
const FORGOTTEN: i64 = 24 * 3600;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS lease (
        one BIGINT PRIMARY KEY CHECK (one = 1),
        epoch BIGINT NOT NULL,          -- with bits, the holder's term
        bits BIGINT NOT NULL,
        holder TEXT NOT NULL,           -- the controller that took it last
        addresses TEXT NOT NULL,        -- where agents reach that, JSON
        instance TEXT NOT NULL,         -- its data directory, on its machine since the last boot
        since TEXT NOT NULL,
        beat BIGINT NOT NULL,           -- raised by each renewal
        agents BIGINT NOT NULL DEFAULT 0,       -- connected to the holder at that time
        state TEXT NOT NULL CHECK (state IN ('held', 'asked', 'left', 'free')),
        heir TEXT,                      -- for whom it is asked or left
        asked_by TEXT,                  -- who wants that, JSON with the epoch in which it was said
        UNIQUE (epoch, bits));
    CREATE TABLE IF NOT EXISTS controllers (
        name TEXT PRIMARY KEY,
        addresses TEXT NOT NULL,
        looked TIMESTAMPTZ NOT NULL)";

/// Adds the columns that earlier controllers did not make: they work with them, for each has a default.
const LATER: &str = "ALTER TABLE lease ADD COLUMN IF NOT EXISTS agents BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS asked_by TEXT";
const HAS_LATER: &str = "SELECT count(*) = 2 FROM pg_attribute WHERE attrelid = to_regclass('lease')
    AND attname IN ('agents', 'asked_by') AND NOT attisdropped";

const COLUMNS: &str = "epoch, bits, holder, addresses, since, beat, state, heir, instance, agents, asked_by";

/// The value of `asked_by`. A controller of an earlier version leaves it as it is, and in another epoch it does not count.
#[derive(Serialize, Deserialize)]
struct Asked {
    epoch: u32,
    #[serde(flatten)]
    by: Asker,
}

/// The tables, as one controller uses them.
pub struct LeaseTable {
    db: Db,
    me: Member,
}

impl LeaseTable {
    /// Connects, with this bound on each wait, and makes the tables if they are not there.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn open(server: &Server, me: Member, bound: Duration) -> Result<Self, StoreError> {
        let table = Self { db: Db::lease(&server.clone().within(bound))?, me };
        // Two that begin at the same moment may both find nothing: the second finds it then.
        table.db.batch(TABLES).or_else(|_| table.db.batch(TABLES))?;
        // Only where it is missing: the change waits for the holder's transaction, and others wait for the change.
        if !table.db.only(HAS_LATER, values![], |row| row.get::<bool>(0))? {
            table.db.batch(LATER)?;
        }
        Ok(table)
    }

    /// The lease, without a note of who looks.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn look(&self) -> Result<Option<Record>, StoreError> {
        self.db.first(&format!("SELECT {COLUMNS} FROM lease"), values![], record)
    }

    /// Says that this controller is there and stands by. Returns when that is written.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn announce(&self) -> Result<(), StoreError> {
        let sql = "INSERT INTO controllers (name, addresses, looked) VALUES (?1, ?2, now())
            ON CONFLICT (name) DO UPDATE SET addresses = excluded.addresses, looked = excluded.looked RETURNING name";
        // With an answer: what has none may leave with a later statement.
        let addresses = json(&self.me.addresses);
        self.db.first(sql, values![self.me.name, addresses], |row| row.get::<String>(0)).map(drop)
    }

    /// Takes the lease, if it is still as it was seen. `None`: it is not.
    ///
    /// # Errors
    /// [`StoreError`]. A lease that was taken nevertheless runs out like any other.
    pub fn take(&self, seen: Option<&Record>, bits: u64) -> Result<Option<Term>, StoreError> {
        let known =
            if schema::has_table(&self.db, "meta")? { meta::number(&self.db, "epoch")? } else { None };
        let last = seen.map_or(0, |record| u64::from(record.term.epoch.0)).max(known.unwrap_or(0));
        let epoch = u32::try_from(last + 1)
            .map_err(|_| StoreError::Format("the lease's epoch is out of range".to_owned()))?;
        let (term, addresses) = (Term { epoch: Epoch(epoch), bits }, json(&self.me.addresses));
        let (number, signed, since) = (i64::from(epoch), bits.cast_signed(), now());
        let given: Option<i64> = match seen {
            None => {
                let sql =
                    "INSERT INTO lease (one, epoch, bits, holder, addresses, instance, since, beat, agents, state)
                    VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 'held') ON CONFLICT DO NOTHING RETURNING epoch";
                let values = values![number, signed, self.me.name, addresses, self.me.instance, since];
                self.db.first(sql, values, |row| row.get(0))?
            }
            Some(seen) => {
                let sql =
                    "UPDATE lease SET epoch = ?1, bits = ?2, holder = ?3, addresses = ?4, instance = ?5,
                        since = ?6, beat = 0, agents = 0, state = 'held', heir = NULL, asked_by = NULL
                    WHERE epoch = ?7 AND bits = ?8 AND beat = ?9 AND state = ?10 RETURNING epoch";
                let (was, beat) = (i64::from(seen.term.epoch.0), int(seen.beat));
                let (was_bits, state) = (seen.term.bits.cast_signed(), state_text(&seen.state));
                let (name, instance) = (&self.me.name, &self.me.instance);
                let values =
                    values![number, signed, name, addresses, instance, since, was, was_bits, beat, state];
                self.db.first(sql, values, |row| row.get(0))?
            }
        };
        Ok(given.map(|_| term))
    }

    /// Renews the lease, as a controller with so many agents. `None`: another controller has it.
    ///
    /// # Errors
    /// [`StoreError`]: whether it was renewed is not known.
    pub fn renew(&self, term: Term, agents: usize) -> Result<Option<Record>, StoreError> {
        let sql = format!(
            "UPDATE lease SET beat = beat + 1, agents = ?3 WHERE epoch = ?1 AND bits = ?2 RETURNING {COLUMNS}"
        );
        let (epoch, bits) = (i64::from(term.epoch.0), term.bits.cast_signed());
        let agents = i64::try_from(agents).unwrap_or(i64::MAX);
        self.db.first(&sql, values![epoch, bits, agents], record)
    }

    /// Gives the lease up, for `heir` if there is one.
    ///
    /// # Errors
    /// [`StoreError`]: then it runs out.
    pub fn leave(&self, term: Term, heir: Option<&Heir>) -> Result<(), StoreError> {
        let sql = "UPDATE lease SET state = ?3, heir = ?4, asked_by = coalesce(?5, asked_by), beat = beat + 1
            WHERE epoch = ?1 AND bits = ?2 RETURNING epoch";
        let (epoch, bits) = (i64::from(term.epoch.0), term.bits.cast_signed());
        let state = if heir.is_some() { "left" } else { "free" };
        let name = heir.map(|heir| heir.name.as_str());
        let by = heir.and_then(|heir| heir.asker.as_ref()).map(|asker| asked_by(term, asker));
        self.db.first(sql, values![epoch, bits, state, name, by], |row| row.get::<i64>(0)).map(drop)
    }

    /// Asks the holder to give the lease to `heir`. False: the holder changed meanwhile.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn ask(&self, record: &Record, heir: &str, asker: &Asker) -> Result<bool, StoreError> {
        let sql = "UPDATE lease SET state = 'asked', heir = ?3, asked_by = ?4
            WHERE epoch = ?1 AND bits = ?2 AND state = 'held' RETURNING epoch";
        let (epoch, bits) = (i64::from(record.term.epoch.0), record.term.bits.cast_signed());
        let by = asked_by(record.term, asker);
        Ok(self.db.first(sql, values![epoch, bits, heir, by], |row| row.get::<i64>(0))?.is_some())
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// Whether this controller knows the database's schema.
    ///
    /// # Errors
    /// [`StoreError::Format`]: a newer controller made it.
    pub fn check(&self) -> Result<(), StoreError> {
        schema::version(&self.db).map(drop)
    }

    /// The other controllers that said lately that they stand by, the newest first.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn standbys(&self, holder: &str) -> Result<Vec<StandbyView>, StoreError> {
        let sql = "SELECT name, addresses, CAST(extract(epoch FROM now() - looked) * 1000 AS BIGINT) FROM controllers
            WHERE name <> ?1 AND looked > now() - make_interval(secs => CAST(?2 AS BIGINT)) ORDER BY looked DESC, name";
        self.db.all(sql, values![holder, FORGOTTEN], |row| {
            let behind = u64::try_from(row.get::<i64>(2)?).unwrap_or(0);
            let member = member(row.get(0)?, row.get(1)?, String::new());
            Ok(StandbyView { member, behind: Duration::from_millis(behind) })
        })
    }

    /// A controller that stops is no standby.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn forget_me(&self) -> Result<(), StoreError> {
        let sql = "DELETE FROM controllers WHERE name = ?1 RETURNING name";
        self.db.first(sql, values![self.me.name], |row| row.get::<String>(0)).map(drop)
    }

    /// Ends the session that holds the site's lock: its controller no longer has the lease, and may hang in the
    /// middle of a transaction.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn end_holder(&self) -> Result<(), StoreError> {
        self.db.end_holder()
    }
}

fn asked_by(term: Term, asker: &Asker) -> String {
    json(&Asked { epoch: term.epoch.0, by: asker.clone() })
}

fn state_text(state: &LeaseState) -> &'static str {
    match state {
        LeaseState::Held => "held",
        LeaseState::Asked { .. } => "asked",
        LeaseState::Left { .. } => "left",
        LeaseState::Free => "free",
    }
}

/// Addresses that cannot be read are none.
fn member(name: String, addresses: String, instance: String) -> Member {
    Member { name, addresses: serde_json::from_str(&addresses).unwrap_or_default(), instance }
}

fn record(row: &Row<'_>) -> Result<Record, super::Damage> {
    let (state, heir): (String, Option<String>) = (row.get(6)?, row.get(7)?);
    let heir = heir.unwrap_or_default();
    let term = Term { epoch: Epoch(row.get(0)?), bits: row.get::<i64>(1)?.cast_unsigned() };
    let asked: Option<Asked> =
        row.get::<Option<String>>(10)?.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Record {
        term,
        holder: member(row.get(2)?, row.get(3)?, row.get(8)?),
        since: row.get(4)?,
        beat: row.get(5)?,
        agents: usize::try_from(row.get::<i64>(9)?).unwrap_or(0),
        state: match state.as_str() {
            "held" => LeaseState::Held,
            "asked" => LeaseState::Asked { heir },
            "left" => LeaseState::Left { heir },
            // The table's own check lets no other in.
            _ => LeaseState::Free,
        },
        asker: asked.filter(|asked| asked.epoch == term.epoch.0).map(|asked| Box::new(asked.by)),
    })
}

#[cfg(test)]
mod tests;
