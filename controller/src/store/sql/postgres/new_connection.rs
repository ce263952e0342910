//! The first questions of a new connection: whether the server answers, whose the database is, and at which commit it
//! is. A writer takes the site's lock here.
//!
//! Absent: which controller may take the lease (`lease/machine.rs`).

use std::time::Duration;

use super::wait::{self, Deadline};
use super::{Link, PostgresError, Role};
use crate::lease::Term;
use crate::store::StoreError;
use crate::store::sql::{Row, Value, values};

/// The oldest server that is tested: 15.
const OLDEST: i64 = 150_000;
/// The lock of the default site among the database's advisory locks: "Muster" in ASCII.
const LOCK: i64 = 0x4d75_7374_6572;
/// Between two tries to take it.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// For the server: a client that is gone without a word is noticed within half a minute, and its lock is free.
/// A commit has no `statement_timeout`: it would end the wait for a synchronous standby, with success.
const WRITER: &str = "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '60s';
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    SET client_min_messages = 'error';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
const READER: &str = "SET default_transaction_read_only = on; SET statement_timeout = '30s'";

/// A renewal waits for a take at most.
const LEASE: &str = "SET lock_timeout = '2s'; SET statement_timeout = '5s';
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    SET client_min_messages = 'error'";

/// A session on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pid: i64,
    /// Microseconds since 1970: with it, the number names one session for good.
    started: i64,
}

pub(super) fn settle(link: &Link) -> Result<(), StoreError> {
    is_fit(link)?;
    if let Some(schema) = link.server.schema() {
        enter(link, &schema)?;
    }
    match link.role {
        Role::Reader => link.batch(READER),
        Role::Lease => link.batch(LEASE),
        Role::Writer(term) => {
            link.batch(WRITER)?;
            take(link, term)?;
            find_serial(link)
        }
    }
}

fn is_fit(link: &Link) -> Result<(), StoreError> {
    let sql =
        "SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('server_version'),
        current_setting('server_encoding')";
    let (number, version, encoding): (i64, String, String) =
        only(link, sql, values![], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    match unfit(number, &version, &encoding) {
        Some(why) => Err(PostgresError::Unfit { server: link.server.to_string(), why }.into()),
        None => Ok(()),
    }
}

/// The reason why a server does not do.
fn unfit(number: i64, version: &str, encoding: &str) -> Option<String> {
    if number < OLDEST {
        Some(format!("PostgreSQL {version} is too old: upgrade it to 15 or newer"))
    } else if encoding != "UTF8" {
        Some(format!(
            "the database's encoding is {encoding}: make one with createdb --encoding=UTF8 --template=template0"
        ))
    } else {
        None
    }
}

/// Names without a schema are of this one from now on. It is made if it is not there; a reader finds it empty then.
fn enter(link: &Link, schema: &str) -> Result<(), StoreError> {
    let is_there = || only(link, "SELECT to_regnamespace(?1) IS NOT NULL", values![schema], |row| row.get(0));
    if link.role != Role::Reader && !is_there()? {
        let made = link.batch(&format!("CREATE SCHEMA {schema}"));
        // Another controller may have made it meanwhile.
        if let Err(error) = made
            && !is_there()?
        {
            return Err(error);
        }
    }
    link.batch(&format!("SET search_path = {schema}"))
}

/// The number of the site's lock.
fn lock(link: &Link) -> i64 {
    link.server.schema().map_or(LOCK, |schema| {
        let digest = *blake3::hash(format!("muster {schema}").as_bytes()).as_bytes();
        let (number, _) = digest.split_first_chunk().expect("a digest of 32 bytes");
        i64::from_be_bytes(*number)
    })
}

/// Takes the site's lock. Sessions of this controller that outlived their connections are ended: what such a one
/// was about to commit is committed or gone from then on.
fn take(link: &Link, term: Option<Term>) -> Result<(), StoreError> {
    let sql = "SELECT pid, CAST(extract(epoch FROM backend_start) * 1000000 AS BIGINT) FROM pg_stat_activity
        WHERE pid = pg_backend_pid()";
    let own = only(link, sql, values![], |row| Ok(Backend { pid: row.get(0)?, started: row.get(1)? }))?;
    let former = std::mem::take(&mut link.state.borrow_mut().backends);
    let mut left = Vec::new();
    for backend in former {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE pid = ?1 AND CAST(extract(epoch FROM backend_start) * 1000000 AS BIGINT) = ?2";
        let ended: i64 = only(link, sql, values![backend.pid, backend.started], |row| row.get(0))?;
        if ended > 0 {
            left.push(backend);
        }
    }
    link.state.borrow_mut().backends = left.iter().copied().chain([own]).collect();
    if let Some(term) = term
        && first(link, &lease_of(term), values![], |row| row.get::<i64>(0))?.is_none()
    {
        return Err(PostgresError::Deposed { server: link.server.to_string(), epoch: term.epoch.0 }.into());
    }
    let deadline = Deadline::after(link.patience.lock);
    while !only(link, "SELECT pg_try_advisory_lock(?1)", values![lock(link)], |row| row.get::<bool>(0))? {
        if deadline.is_over() {
            let server = link.server.to_string();
            let (pid, by) = holder(link)?;
            return Err(match left.iter().any(|backend| backend.pid == pid) {
                true => PostgresError::Hangs { server, after: link.patience.lock },
                false => PostgresError::Taken { server, by },
            }
            .into());
        }
        let _ = wait::until(std::future::pending::<()>(), Deadline::after(LOCK_PAUSE));
    }
    Ok(())
}

/// Finds a row while the lease is of this term, and keeps it so until the end of the transaction.
pub(super) fn lease_of(Term { epoch, bits }: Term) -> String {
    let (epoch, bits) = (epoch.0, bits.cast_signed());
    format!("SELECT epoch FROM lease WHERE epoch = {epoch} AND bits = {bits} FOR KEY SHARE")
}

/// Ends the session that holds the lock, and waits until it has.
pub(super) fn end_holder(link: &Link) -> Result<(), StoreError> {
    let (pid, _) = holder(link)?;
    let sql = "SELECT CASE WHEN pg_terminate_backend(pid, 2000) THEN 1 ELSE 0 END FROM pg_stat_activity WHERE pid = ?1";
    first(link, sql, values![pid], |row| row.get::<i64>(0).map(drop)).map(drop)
}

/// The holder of the lock: the number of the session, and its description.
fn holder(link: &Link) -> Result<(i64, String), StoreError> {
    let sql = "SELECT a.pid, a.application_name || ' at ' || coalesce(host(a.client_addr), 'a socket of its machine')
                || ', session ' || a.pid
        FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
            AND (CAST(l.classid AS BIGINT) << 32) + CAST(l.objid AS BIGINT) = ?1
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let found = first(link, sql, values![lock(link)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.unwrap_or_else(|| (0, "another session".to_owned())))
}

/// Decides a commit whose outcome is unknown, and notices what others wrote.
fn find_serial(link: &Link) -> Result<(), StoreError> {
    let found = match only(link, "SELECT to_regclass('meta') IS NOT NULL", values![], |row| row.get(0))? {
        true => {
            // What is found may not be on a synchronous standby yet: this waits for it.
            let sql = "UPDATE meta SET value = value WHERE key = 'commit'";
            link.prepare(sql)?.execute(values![])?;
            link.settle()?;
            let sql = "SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'commit'";
            first(link, sql, values![], |row| row.get(0))?.unwrap_or(0)
        }
        false => 0,
    };
    let mut state = link.state.borrow_mut();
    let doubt = state.doubt.take();
    if state.is_known && found != state.serial && Some(found) != doubt {
        let (server, made) = (link.server.to_string(), state.serial);
        state.doubt = doubt;
        return Err(PostgresError::Moved { server, found, made }.into());
    }
    (state.serial, state.is_known) = (found, true);
    Ok(())
}

fn first<T>(
    link: &Link,
    sql: &str,
    values: &[Value<'_>],
    mut read: impl FnMut(&Row<'_>) -> Result<T, crate::store::Damage>,
) -> Result<Option<T>, StoreError> {
    let mut found = None;
    link.prepare(sql)?.each(values, &mut |row| {
        found = Some(read(row)?);
        Ok(false)
    })?;
    Ok(found)
}

fn only<T>(
    link: &Link,
    sql: &str,
    values: &[Value<'_>],
    read: impl FnMut(&Row<'_>) -> Result<T, crate::store::Damage>,
) -> Result<T, StoreError> {
    first(link, sql, values, read)?.ok_or_else(|| StoreError::Format("the server gave no row".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_and_other_encodings_do_not_do() {
        for (number, version, encoding, wanted) in [
            (150_000, "15.0", "UTF8", None),
            (170_002, "17.2 (Debian)", "UTF8", None),
            (140_013, "14.13", "UTF8", Some("PostgreSQL 14.13 is too old: upgrade it to 15 or newer")),
            (150_000, "15.0", "SQL_ASCII", Some("the database's encoding is SQL_ASCII")),
        ] {
            let why = unfit(number, version, encoding);
            assert_eq!(why.is_some(), wanted.is_some(), "{version} {encoding}: {why:?}");
            assert!(why.unwrap_or_default().starts_with(wanted.unwrap_or_default()));
        }
    }
}
