//! The location of a site's database, as `store.url` says it: a file of SQLite, or a PostgreSQL server.
//!
//! Absent: the parts of a PostgreSQL URL (`sql/postgres/server.rs`).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::sql::{PostgresError, Server};
use crate::site_name::SiteName;

/// A database. Shown without a password.
#[derive(Clone, Debug)]
pub enum Location {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(Box<Server>),
}

impl Location {
    /// The same database, for this site of those in it.
    #[must_use]
    pub fn of_site(self, site: &SiteName) -> Self {
        match self {
            Self::Postgres(server) if !site.is_default() => Self::Postgres(Box::new(server.of_site(site))),
            Self::Sqlite(_) | Self::Postgres(_) => self,
        }
    }
}

impl FromStr for Location {
    type Err = PostgresError;

    /// # Errors
    /// [`PostgresError::Url`], without the URL: it may hold a password.
    fn from_str(url: &str) -> Result<Self, PostgresError> {
        match url.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(Box::new(url.parse()?))),
            _ => Err(PostgresError::Url("want sqlite:PATH or postgres://USER@HOST/DATABASE".to_owned())),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(server) => server.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_which_database_it_is() {
        for (url, wanted) in [
            ("sqlite:/srv/muster.db", "sqlite:/srv/muster.db"),
            ("sqlite:muster.db", "sqlite:muster.db"),
            ("postgres://muster:s3cret@db/site", "postgres://muster@db/site"),
            ("postgresql://muster:s3cret@db/site", "postgres://muster@db/site"),
        ] {
            assert_eq!(url.parse::<Location>().unwrap().to_string(), wanted);
        }
        for url in ["", "sqlite:", "/srv/muster.db", "mysql://m:s3cret@db/site"] {
            let error = url.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains("want sqlite:PATH") && !error.contains("s3cret"), "{url}: {error}");
        }
    }
}
