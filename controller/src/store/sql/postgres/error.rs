//! The reasons why PostgreSQL cannot be used, each with what to do. Never with values of rows: those are in an
//! error's detail, which is left out.
//!
//! `of_code` decides which of four kinds a failed commit is, as `store/failure.rs` does for SQLite.

use std::error::Error as _;
use std::time::Duration;

use thiserror::Error;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use super::server::Server;
use crate::store::Failure;

/// The reason why the PostgreSQL database cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PostgresError {
    /// No connection.
    #[error("no connection to {server}: {why}")]
    Away { server: String, why: String },
    /// The connection ended while it was used.
    #[error("the connection to {server} was lost: {why}")]
    Lost { server: String, why: String },
    /// No answer in time.
    #[error("{server} does not answer for {after:?}")]
    Hangs { server: String, after: Duration },
    /// The connection ended during a commit, and there is no other one yet that could tell what became of it.
    #[error("whether the commit was made is not known yet: {why}")]
    Undecided { why: String },
    /// The server refused a statement or a connection.
    #[error("{server}: {message}{advice} (SQLSTATE {code})")]
    Refused { server: String, message: String, code: String, advice: &'static str },
    /// Another controller has the database.
    #[error("{server} is used by {by}: one controller at a time may write to it; stop that one first")]
    Taken { server: String, by: String },
    /// The site has another controller.
    #[error("{server}: another controller has taken the site over, and this one's epoch {epoch} is over")]
    Deposed { server: String, epoch: u32 },
    /// The database is not where this controller left it.
    #[error(
        "{server} is at commit {found} and this controller made {made}: another controller wrote to it, or a failover \
         lost commits (see synchronous replication in docs/postgresql.md); restart this controller"
    )]
    Moved { server: String, found: u64, made: u64 },
    /// The server or the database is of a kind that does not do.
    #[error("{server}: {why}")]
    Unfit { server: String, why: String },
    /// The URL.
    #[error("the store's URL: {0}")]
    Url(String),
    /// The thread of the connections.
    #[error("the thread for PostgreSQL's connections: {why}")]
    NoThread { why: String },
    /// A message or value that the client does not understand.
    #[error("{server}: {why}")]
    Protocol { server: String, why: String },
}

impl PostgresError {
    /// While a connection was used.
    pub(super) fn of(server: &Server, error: &Error) -> Self {
        Self::refused(server, error).unwrap_or_else(|| {
            let (server, why) = (server.to_string(), chain(error));
            let is_io = error.source().is_some_and(|source| source.is::<std::io::Error>());
            if error.is_closed() || is_io {
                Self::Lost { server, why }
            } else {
                Self::Protocol { server, why }
            }
        })
    }

    /// While it was made.
    pub(super) fn of_connect(server: &Server, error: &Error) -> Self {
        Self::refused(server, error)
            .unwrap_or_else(|| Self::Away { server: server.to_string(), why: chain(error) })
    }

    fn refused(server: &Server, error: &Error) -> Option<Self> {
        let refused = error.as_db_error()?;
        Some(Self::Refused {
            server: server.to_string(),
            message: refused.message().to_owned(),
            code: refused.code().code().to_owned(),
            advice: advice(refused.code()),
        })
    }

    /// The driver's reaction.
    pub(in crate::store) fn failure(&self) -> Failure {
        match self {
            Self::Away { .. }
            | Self::Lost { .. }
            | Self::Hangs { .. }
            | Self::Undecided { .. }
            | Self::Taken { .. } => Failure::Busy,
            Self::Refused { code, .. } => of_code(code),
            Self::Deposed { .. }
            | Self::Moved { .. }
            | Self::Unfit { .. }
            | Self::Url(_)
            | Self::NoThread { .. } => Failure::Broken,
            Self::Protocol { .. } => Failure::Mistake,
        }
    }
}

/// The server ended the connection with this error.
pub(super) fn is_fatal(error: &Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|refused| matches!(refused.parsed_severity(), Some(Severity::Fatal | Severity::Panic)))
}

/// The whole chain: the client's own text leaves the reason out.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn advice(code: &SqlState) -> &'static str {
    match code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "; set user and password in store.url, and allow the user in the server's pg_hba.conf"
        }
        &SqlState::INVALID_CATALOG_NAME => {
            "; make it (createdb --encoding=UTF8 --owner=USER NAME), or name another one in store.url"
        }
        &SqlState::INSUFFICIENT_PRIVILEGE => "; make the user the owner of the database",
        &SqlState::TOO_MANY_CONNECTIONS => "; a controller needs four: raise max_connections",
        _ => "",
    }
}

/// By SQLSTATE: a whole code, or its class (the first two characters).
fn of_code(code: &str) -> Failure {
    match (code, code.get(..2).unwrap_or(code)) {
        // disk_full, and the bounds of a quota
        ("53100" | "53400", _) => Failure::Full,
        // connections, shutdowns and failovers; deadlocks and locks; a standby
        (_, "08" | "40" | "53") | ("25006" | "55P03" | "57P01" | "57P02" | "57P03" | "57014", _) => {
            Failure::Busy
        }
        // sign-in, no such database, no privilege; errors of the system and of the data
        (_, "28" | "3D" | "57" | "58" | "F0" | "XX") | ("42501", _) => Failure::Broken,
        _ => Failure::Mistake,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_one_of_four() {
        for (code, failure) in [
            ("53100", Failure::Full),
            ("53300", Failure::Busy),
            ("08006", Failure::Busy),
            ("57P01", Failure::Busy),
            ("40001", Failure::Busy),
            ("25006", Failure::Busy),
            ("28P01", Failure::Broken),
            ("3D000", Failure::Broken),
            ("42501", Failure::Broken),
            ("58030", Failure::Broken),
            ("XX001", Failure::Broken),
            ("23505", Failure::Mistake),
            ("42P01", Failure::Mistake),
            ("22021", Failure::Mistake),
            ("", Failure::Mistake),
        ] {
            assert_eq!(of_code(code), failure, "{code}");
        }
    }
}
