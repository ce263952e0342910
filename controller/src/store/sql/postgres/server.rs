//! The URL of a PostgreSQL database: `postgres://user:password@host:port,host:port/database?sslmode=…`.
//!
//! `tokio-postgres` reads all but `sslmode` and `sslrootcert`, of which it knows less than libpq. Nothing here
//! shows the password.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::tls::{Check, Tls};
use super::{Patience, PostgresError};
use crate::site_name::SiteName;

const PORT: u16 = 5432;
/// The name that servers list in `pg_stat_activity`.
const NAME: &str = "muster-controller";
/// A quiet connection is tested after this.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Bytes that the other end does not acknowledge end the connection.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// A database and how to reach it.
#[derive(Clone)]
pub struct Server {
    /// The settings for each host, in order.
    hosts: Vec<Config>,
    shown: String,
    check: Check,
    root_certificates: Option<PathBuf>,
    site: SiteName,
    pub(super) patience: Patience,
}

impl FromStr for Server {
    type Err = PostgresError;

    /// # Errors
    /// [`PostgresError::Url`], without the URL: it may hold a password.
    fn from_str(url: &str) -> Result<Self, PostgresError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut root_certificates, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => root_certificates = Some(PathBuf::from(decoded(value)?)),
                _ => rest.push(pair),
            }
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            PostgresError::Url(why.unwrap_or_else(|| error.to_string()))
        })?;
        let (ssl_mode, check) = checked(mode.as_deref(), root_certificates.is_some())?;
        config
            .ssl_mode(ssl_mode)
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE / 2)
            .keepalives_retries(3)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX);
        if config.get_application_name().is_none() {
            config.application_name(NAME);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresError::Url(
                "it names no host: want postgres://USER@HOST/DATABASE".to_owned(),
            ));
        }
        let hosts = each_host(&config)?;
        let shown = shown(&config, &hosts);
        let (site, patience) = (SiteName::default(), Patience::default());
        Ok(Self { hosts, shown, check, root_certificates, site, patience })
    }
}

impl Server {
    pub(super) fn hosts(&self) -> &[Config] {
        &self.hosts
    }

    pub(super) fn tls(&self) -> Result<Tls, PostgresError> {
        Tls::new(self.check, self.root_certificates.as_deref())
    }

    /// The same database, for this site of those in it.
    pub(in crate::store) fn of_site(mut self, site: &SiteName) -> Self {
        self.site = site.clone();
        self.shown = format!("{} (site {site})", self.shown);
        self
    }

    /// The schema that holds the site; none: the one that the server gives this user.
    pub(super) fn schema(&self) -> Option<String> {
        (!self.site.is_default()).then(|| format!("site_{}", self.site.as_str().replace('-', "_")))
    }

    /// With other bounds on waits than usual.
    pub(in crate::store) fn within(mut self, answer: Duration) -> Self {
        self.patience = Patience { connect: answer, answer, lock: answer };
        self
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

fn decoded(value: &str) -> Result<String, PostgresError> {
    let text = percent_encoding::percent_decode_str(value).decode_utf8();
    text.map(Into::into).map_err(|_| PostgresError::Url("sslrootcert is not UTF-8".to_owned()))
}

/// As in libpq: `require` with root certificates checks by whom the server's certificate was made.
fn checked(mode: Option<&str>, has_roots: bool) -> Result<(SslMode, Check), PostgresError> {
    let (mode, check) = match mode {
        Some("disable") => return Ok((SslMode::Disable, Check::Nothing)),
        None | Some("allow" | "prefer") => (SslMode::Prefer, Check::Nothing),
        Some("require") if has_roots => (SslMode::Require, Check::Chain),
        Some("require") => (SslMode::Require, Check::Nothing),
        Some("verify-ca") => (SslMode::Require, Check::Chain),
        Some("verify-full") => (SslMode::Require, Check::ChainAndName),
        Some(_) => {
            let why = "sslmode must be disable, allow, prefer, require, verify-ca or verify-full";
            return Err(PostgresError::Url(why.to_owned()));
        }
    };
    if check != Check::Nothing && !has_roots {
        let why = "sslmode=verify-ca and verify-full need sslrootcert=FILE, such as \
                   /etc/ssl/certs/ca-certificates.crt";
        return Err(PostgresError::Url(why.to_owned()));
    }
    Ok((mode, check))
}

/// The same settings for each host by itself: so each has its own bound.
fn each_host(config: &Config) -> Result<Vec<Config>, PostgresError> {
    let (names, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = names.len().max(addresses.len());
    let wrong = |what: &str| PostgresError::Url(format!("{what} must be one, or as many as there are hosts"));
    if ports.len() > 1 && ports.len() != count {
        return Err(wrong("ports"));
    }
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(wrong("values of hostaddr"));
    }
    let one = |at: usize| {
        let mut one = Config::new();
        if let Some(user) = config.get_user() {
            one.user(user);
        }
        if let Some(password) = config.get_password() {
            one.password(password);
        }
        if let Some(database) = config.get_dbname() {
            one.dbname(database);
        }
        if let Some(options) = config.get_options() {
            one.options(options);
        }
        if let Some(name) = config.get_application_name() {
            one.application_name(name);
        }
        if let Some(bound) = config.get_connect_timeout() {
            one.connect_timeout(*bound);
        }
        match names.get(at) {
            Some(Host::Tcp(host)) => drop(one.host(host)),
            Some(Host::Unix(path)) => drop(one.host_path(path)),
            None => {}
        }
        if let Some(address) = addresses.get(at) {
            one.hostaddr(*address);
        }
        one.port(ports.get(at).or(ports.first()).copied().unwrap_or(PORT))
            .ssl_mode(config.get_ssl_mode())
            .ssl_negotiation(config.get_ssl_negotiation())
            .channel_binding(config.get_channel_binding())
            .target_session_attrs(config.get_target_session_attrs())
            .keepalives(config.get_keepalives())
            .keepalives_idle(config.get_keepalives_idle());
        if let (Some(interval), Some(retries)) =
            (config.get_keepalives_interval(), config.get_keepalives_retries())
        {
            one.keepalives_interval(interval).keepalives_retries(retries);
        }
        if let Some(bound) = config.get_tcp_user_timeout() {
            one.tcp_user_timeout(*bound);
        }
        one
    };
    Ok((0..count).map(one).collect())
}

fn shown(config: &Config, hosts: &[Config]) -> String {
    let host = |one: &Config| {
        let name = match (one.get_hosts().first(), one.get_hostaddrs().first()) {
            (Some(Host::Tcp(name)), _) if name.contains(':') => format!("[{name}]"),
            (Some(Host::Tcp(name)), _) => name.clone(),
            (Some(Host::Unix(path)), _) => path.display().to_string(),
            (None, address) => address.map(ToString::to_string).unwrap_or_default(),
        };
        match one.get_ports().first() {
            Some(&PORT) | None => name,
            Some(port) => format!("{name}:{port}"),
        }
    };
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let hosts: Vec<String> = hosts.iter().map(host).collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, wanted) in [
            ("postgres://muster:s3cret@db1/site", "postgres://muster@db1/site"),
            ("postgresql://muster:s3cret@db1:5433,db2/site", "postgres://muster@db1:5433,db2/site"),
            ("postgres://m@[::1]:5433/site?sslmode=disable", "postgres://m@[::1]:5433/site"),
            (
                "postgres:///site?host=/run/postgresql&user=m&password=s3cret",
                "postgres://m@/run/postgresql/site",
            ),
        ] {
            let server: Server = url.parse().unwrap();
            assert_eq!((server.to_string(), format!("{server:?}")), (wanted.to_owned(), wanted.to_owned()));
        }
    }

    #[test]
    fn a_wrong_url_is_named_without_its_password() {
        for (url, wanted) in [
            ("postgres://m:s3cret@db/site?sslmode=maybe", "sslmode must be"),
            ("postgres://m:s3cret@db/site?sslmode=verify-full", "sslrootcert=FILE"),
            ("postgres://m:s3cret@db/site?nonsense=1", "nonsense"),
            ("postgres://m:s3cret@db:port/site", "port"),
            ("postgres:///site?user=m&password=s3cret", "no host"),
            ("postgres://a,b,c/site?port=1,2&password=s3cret", "ports"),
        ] {
            let error = url.parse::<Server>().unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn tls_is_checked_as_the_mode_says() {
        for (mode, has_roots, wanted) in [
            (None, false, (SslMode::Prefer, Check::Nothing)),
            (Some("disable"), true, (SslMode::Disable, Check::Nothing)),
            (Some("require"), false, (SslMode::Require, Check::Nothing)),
            (Some("require"), true, (SslMode::Require, Check::Chain)),
            (Some("verify-ca"), true, (SslMode::Require, Check::Chain)),
            (Some("verify-full"), true, (SslMode::Require, Check::ChainAndName)),
        ] {
            assert_eq!(checked(mode, has_roots).unwrap(), wanted, "{mode:?}");
        }
    }
}
