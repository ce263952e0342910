//! The controller's settings, their defaults, and what is refused: flag over environment (`MUSTER_<SECTION>__<KEY>`)
//! over file.
//!
//! Absent: bounds of the engine that no setting changes (`Limits`, `controller/engine/src/limits.rs`), and the agent's
//! settings (`agent/src/settings.rs`).

mod link;
mod oidc;
mod sites;
mod telemetry;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use muster_api::user::Role;
use muster_template::FlowLimits;
use rustls::server::danger::ClientCertVerifier;
use serde::Deserialize;

pub use self::link::{Brokers, Link, Way};
pub use self::oidc::OidcSettings;
pub use self::sites::SiteSettings;
pub use self::telemetry::TelemetrySettings;
use crate::api::{self, Door, OwnCertificate};
use crate::lease::Terms;
use crate::site_name::SiteName;
use crate::store::{Bounds, KEY_FILE, Location};
use crate::this_host::host_name;

/// The path of the file without a flag; the file may be absent there.
pub const DEFAULT_FILE: &str = "/etc/muster/controller.toml";

/// An empty database, and the space that keeps it writable.
const DATABASE_MIN: u64 = 16 * 1024 * 1024;
/// Seconds between two intents that are verified. A switch answers a trace in milliseconds: nobody feels one in so many
/// seconds, and a site of a thousand intents is looked at within an hour and a half.
const VERIFY_EVERY: u64 = 5;
/// The most bytes of a controller's name: a host name.
const NAME_MAX: usize = 253;

/// The settings of the controller.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Directory, addresses and socket.
    pub controller: Controller,
    pub link: Link,
    pub store: StoreSettings,
    pub limits: Limits,
    pub log: Log,
    pub oidc: OidcSettings,
    pub telemetry: TelemetrySettings,
    pub sites: Vec<SiteSettings>,
    /// The one that the rest describes.
    #[serde(skip)]
    pub site: SiteName,
}

/// `[controller]`
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Controller {
    /// Database and keys.
    pub data_dir: PathBuf,
    /// The address for agents: MQTT 5 over TLS 1.3.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// Addresses that join tokens carry, `host:port`; by default this host's name with the port of `listen`.
    pub addresses: Vec<String>,
    pub api_socket: PathBuf,
    /// The role of this machine's users at the socket, except for root, who may do everything.
    #[serde(deserialize_with = "role")]
    pub socket_role: Role,
    /// The address of the API over the network, `ADDRESS:PORT`; none by default.
    #[serde(deserialize_with = "optional_address")]
    pub api: Option<SocketAddr>,
    /// The address of ONOS's REST over the network, `ADDRESS:PORT`; none by default.
    #[serde(deserialize_with = "optional_address")]
    pub onos_api: Option<SocketAddr>,
    /// The certificate that the API shows there, PEM; empty: one of the site's CA.
    pub api_certificate: PathBuf,
    /// The key of that certificate.
    pub api_key: PathBuf,
    /// The CA of users' certificates, PEM; empty: users have tokens alone.
    pub api_client_ca: PathBuf,
    /// The address for clients of Heat's API, `ADDRESS:PORT`; none by default.
    #[serde(deserialize_with = "optional_address")]
    pub heat_api: Option<SocketAddr>,
    /// The role of such clients that show no token, viewer or operator; empty: they are refused.
    pub heat_api_without_token: String,
    /// Unique among the site's controllers; by default this host's name.
    pub name: String,
}

/// `[store]`
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// The database; empty: `muster.db` in the data directory.
    #[serde(deserialize_with = "location")]
    pub url: Option<Location>,
    /// The key that secrets in the database are sealed with; empty: `secrets.key` in the data directory.
    pub key_file: PathBuf,
    /// Seconds without a renewal after which a standby takes the site over; in PostgreSQL only.
    pub lease: u64,
}

/// `[limits]`
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Agents connected at a time.
    pub connections: usize,
    /// The most jobs in flight with one agent.
    pub in_flight_per_node: usize,
    /// The most jobs in flight of one stack.
    pub in_flight_per_stack: usize,
    /// Further tries of a job before its resource is FAILED.
    pub retries: u32,
    /// Bytes of an API request.
    pub api_body: usize,
    /// Bytes of a template.
    pub template: usize,
    /// Rules, groups and meters of a flow file.
    pub flow_rules: usize,
    /// Seconds between an agent's heartbeats.
    pub heartbeat: u64,
    /// Seconds without any progress of a stack before an event reports it.
    pub quiet: u64,
    /// Seconds between two intents whose packets are traced; 0: none are.
    pub verify_every: u64,
    /// Revisions kept per stack.
    pub revisions_kept: u32,
    /// Events kept per stack.
    pub events_kept: u64,
    /// The most bytes of the database; 0 for no bound but the disk.
    pub database_bytes: u64,
    /// Days that the audit is kept; 0 for ever.
    pub audit_days: u32,
    /// Newest rows of the audit that are kept.
    pub audit_rows: u64,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A filter of `tracing`: `info`, `muster_controller=debug`, …
    pub level: String,
    /// human or json
    pub format: LogFormat,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// For programs.
    Json,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            data_dir: "/var/lib/muster".into(),
            listen: SocketAddr::from(([0, 0, 0, 0], 8883)),
            addresses: Vec::new(),
            api_socket: "/run/muster/api.sock".into(),
            socket_role: Role::Admin,
            api: None,
            onos_api: None,
            api_certificate: PathBuf::new(),
            api_key: PathBuf::new(),
            api_client_ca: PathBuf::new(),
            heat_api: None,
            heat_api_without_token: String::new(),
            name: String::new(),
        }
    }
}

impl Controller {
    /// The addresses over the network, with what is behind each.
    pub fn doors(&self) -> impl Iterator<Item = (Door, SocketAddr)> {
        let doors = [(Door::Api, self.api), (Door::Onos, self.onos_api), (Door::Heat, self.heat_api)];
        doors.into_iter().filter_map(|(door, address)| Some((door, address?)))
    }

    /// The role of clients of Heat's API that show no token.
    ///
    /// # Errors
    /// The role may not be given, or the address is not this machine's own.
    pub fn heat_without_token(&self) -> anyhow::Result<Option<Role>> {
        let role = match &*self.heat_api_without_token {
            "" => return Ok(None),
            "viewer" => Role::Viewer,
            "operator" => Role::Operator,
            other => anyhow::bail!("controller.heat_api_without_token is '{other}': want viewer or operator"),
        };
        anyhow::ensure!(
            self.heat_api.is_some_and(|address| address.ip().is_loopback()),
            "controller.heat_api_without_token needs controller.heat_api at a loopback address, such as 127.0.0.1:8004: \
             over a network every client must show a token"
        );
        Ok(Some(role))
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { url: None, key_file: PathBuf::new(), lease: 5 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let engine = muster_engine::Limits::default();
        Self {
            connections: 20_000,
            in_flight_per_node: engine.in_flight_per_node,
            in_flight_per_stack: engine.in_flight_per_stack,
            retries: engine.retries,
            api_body: 256 * 1024 * 1024,
            template: 16 * 1024 * 1024,
            flow_rules: FlowLimits::default().entries,
            heartbeat: engine.heartbeat.as_secs(),
            quiet: engine.quiet.as_secs(),
            verify_every: VERIFY_EVERY,
            revisions_kept: engine.revisions_kept,
            events_kept: Bounds::default().events,
            database_bytes: Bounds::default().bytes,
            audit_days: Bounds::default().audit_days,
            audit_rows: Bounds::default().audit_rows,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Human }
    }
}

impl Settings {
    /// Reads file and environment. Without `file`, reads the default one, if it exists.
    ///
    /// # Errors
    /// The error names the file or variable, the key, and the reason.
    pub fn read(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> anyhow::Result<Self> {
        let variables: HashMap<String, String> =
            environment.filter(|(key, _)| key.starts_with("MUSTER_") && key.contains("__")).collect();
        let source = match file {
            Some(file) => config::File::from(file).required(true),
            None => config::File::from(Path::new(DEFAULT_FILE)).required(false),
        };
        let environment = config::Environment::with_prefix("MUSTER")
            .prefix_separator("_")
            .separator("__")
            .list_separator(",")
            .with_list_parse_key("controller.addresses")
            .with_list_parse_key("oidc.scopes")
            .with_list_parse_key("oidc.roles.admin")
            .with_list_parse_key("oidc.roles.operator")
            .with_list_parse_key("oidc.roles.viewer")
            .try_parsing(true)
            .source(Some(variables));
        let settings: Settings = config::Config::builder()
            .add_source(source.format(config::FileFormat::Toml))
            .add_source(environment)
            .build()
            .context("cannot read the configuration")?
            .try_deserialize()
            .with_context(|| {
                format!("{}: the configuration is wrong", file.unwrap_or(Path::new(DEFAULT_FILE)).display())
            })?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> anyhow::Result<()> {
        self.link.way()?;
        self.check_sites()?;
        self.oidc.check()?;
        self.telemetry.endpoint()?;
        anyhow::ensure!(self.limits.connections > 0, "limits.connections must be at least 1");
        anyhow::ensure!(self.limits.in_flight_per_node > 0, "limits.in_flight_per_node must be at least 1");
        anyhow::ensure!(self.limits.in_flight_per_stack > 0, "limits.in_flight_per_stack must be at least 1");
        anyhow::ensure!(
            (1..=86_400).contains(&self.limits.heartbeat),
            "limits.heartbeat must be 1 to 86400 seconds"
        );
        for (n, (door, address)) in self.controller.doors().enumerate() {
            let taken =
                self.controller.doors().take(n).find(|(_, other)| *other == address && address.port() != 0);
            if let Some((other, _)) = taken {
                anyhow::bail!(
                    "{} and {} are both {address}: give each an address of its own",
                    other.setting(),
                    door.setting()
                );
            }
        }
        let Controller { api_certificate, api_key, .. } = &self.controller;
        anyhow::ensure!(
            api_certificate.as_os_str().is_empty() == api_key.as_os_str().is_empty(),
            "controller.api_certificate and controller.api_key belong together: set both, or neither"
        );
        self.controller.heat_without_token()?;
        anyhow::ensure!((2..=60).contains(&self.store.lease), "store.lease must be 2 to 60 seconds");
        let name = self.name();
        anyhow::ensure!(
            !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(|c| c.is_ascii_graphic()),
            "controller.name must be 1 to {NAME_MAX} characters without spaces"
        );
        let limits = &self.limits;
        anyhow::ensure!((1..=86_400).contains(&limits.quiet), "limits.quiet must be 1 to 86400 seconds");
        anyhow::ensure!(limits.verify_every <= 86_400, "limits.verify_every must be 0 to 86400 seconds");
        anyhow::ensure!(limits.flow_rules > 0, "limits.flow_rules must be at least 1");
        anyhow::ensure!(limits.revisions_kept > 0, "limits.revisions_kept must be at least 1");
        anyhow::ensure!(limits.events_kept > 0, "limits.events_kept must be at least 1");
        anyhow::ensure!(limits.audit_rows > 0, "limits.audit_rows must be at least 1");
        anyhow::ensure!(
            limits.database_bytes == 0 || limits.database_bytes >= DATABASE_MIN,
            "limits.database_bytes must be 0, or at least {DATABASE_MIN}"
        );
        Ok(())
    }

    /// The database.
    pub fn database(&self) -> Location {
        match &self.store.url {
            None => Location::Sqlite(self.controller.data_dir.join("muster.db")),
            Some(url) => url.clone().of_site(&self.site),
        }
    }

    /// This controller's name.
    pub fn name(&self) -> String {
        match self.controller.name.as_str() {
            "" => host_name(),
            name => name.to_owned(),
        }
    }

    /// The times of the site's lease.
    pub fn lease(&self) -> Terms {
        Terms { lease: Duration::from_secs(self.store.lease) }
    }

    /// The addresses of agents' link in join tokens, with this port where the settings name none.
    pub fn addresses(&self, port: u16) -> Vec<String> {
        let Controller { addresses, listen, .. } = &self.controller;
        match addresses.is_empty() {
            false => addresses.clone(),
            true if listen.ip().is_unspecified() => vec![format!("{}:{port}", host_name())],
            true => vec![SocketAddr::new(listen.ip(), port).to_string()],
        }
    }

    /// The file with the key that seals secrets in the database.
    pub fn key_file(&self) -> PathBuf {
        match self.store.key_file.as_os_str().is_empty() {
            true => self.controller.data_dir.join(KEY_FILE),
            false => self.store.key_file.clone(),
        }
    }

    /// The certificate that the API shows over the network instead of one of the site's CA.
    ///
    /// # Errors
    /// A file is bad; the error names it.
    pub fn own_certificate(&self) -> anyhow::Result<Option<OwnCertificate>> {
        let Controller { api_certificate, api_key, .. } = &self.controller;
        if api_certificate.as_os_str().is_empty() {
            return Ok(None);
        }
        Ok(Some(OwnCertificate::read(api_certificate, api_key)?))
    }

    /// The verifier of users' certificates; none without `controller.api_client_ca`.
    ///
    /// # Errors
    /// The file is bad; the error names it.
    pub fn client_verifier(&self) -> anyhow::Result<Option<Arc<dyn ClientCertVerifier>>> {
        let path = &self.controller.api_client_ca;
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        Ok(Some(api::client_verifier(path)?))
    }

    /// The bounds of the database.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            events: self.limits.events_kept,
            bytes: self.limits.database_bytes,
            audit_days: self.limits.audit_days,
            audit_rows: self.limits.audit_rows,
        }
    }

    /// The bounds of the engine.
    pub fn engine_limits(&self) -> muster_engine::Limits {
        muster_engine::Limits {
            in_flight_per_node: self.limits.in_flight_per_node,
            in_flight_per_stack: self.limits.in_flight_per_stack,
            retries: self.limits.retries,
            heartbeat: Duration::from_secs(self.limits.heartbeat),
            quiet: Duration::from_secs(self.limits.quiet),
            verify_every: Some(self.limits.verify_every).filter(|it| *it > 0).map(Duration::from_secs),
            revisions_kept: self.limits.revisions_kept,
            ..muster_engine::Limits::default()
        }
    }
}

fn location<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Location>, D::Error> {
    let url = String::deserialize(deserializer)?;
    if url.is_empty() {
        return Ok(None);
    }
    url.parse().map(Some).map_err(serde::de::Error::custom)
}

/// An empty text is none.
fn optional_address<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        Ok(None)
    } else {
        socket_address(serde::de::value::StringDeserializer::new(text)).map(Some)
    }
}

fn role<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Role, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn socket_address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_invalid| {
        serde::de::Error::custom(format!("'{text}': want ADDRESS:PORT, such as 0.0.0.0:8883 or [::]:8883"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str, environment: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("controller.toml");
        std::fs::write(&file, toml).unwrap();
        Settings::read(Some(&file), environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    #[test]
    fn environment_goes_over_file() {
        let toml = "[limits]\nretries = 5\nheartbeat = 10\n";
        let settings =
            read(toml, &[("MUSTER_LIMITS__RETRIES", "7"), ("MUSTER_TOKEN", "x"), ("PATH", "y")]).unwrap();
        assert_eq!((settings.limits.retries, settings.limits.heartbeat), (7, 10));
        let lists = [("MUSTER_CONTROLLER__ADDRESSES", "a:1,b:2")];
        assert_eq!(read("", &lists).unwrap().controller.addresses, ["a:1", "b:2"]);
    }

    #[test]
    fn the_key_is_beside_the_database_if_nothing_else_is_said() {
        let toml = "[controller]\ndata_dir = \"/srv/muster\"\n";
        assert_eq!(read(toml, &[]).unwrap().key_file(), Path::new("/srv/muster/secrets.key"));
        let elsewhere = [("MUSTER_STORE__KEY_FILE", "/run/credentials/key")];
        assert_eq!(read(toml, &elsewhere).unwrap().key_file(), Path::new("/run/credentials/key"));
    }

    #[test]
    fn the_store_is_a_file_in_the_data_directory_or_elsewhere() {
        let toml = "[controller]\ndata_dir = \"/srv/muster\"\n";
        assert_eq!(read(toml, &[]).unwrap().database().to_string(), "sqlite:/srv/muster/muster.db");
        assert!(read(&format!("{toml}[store]\nurl = \"\"\n"), &[]).unwrap().store.url.is_none());
        let elsewhere = [("MUSTER_STORE__URL", "postgres://muster:s3cret@db1,db2/site?sslmode=require")];
        let settings = read(toml, &elsewhere).unwrap();
        assert_eq!(settings.database().to_string(), "postgres://muster@db1,db2/site");
        assert!(!format!("{settings:?}").contains("s3cret"));
        let wrong = [("MUSTER_STORE__URL", "postgres://muster:s3cret@db1/site?sslmode=maybe")];
        let error = format!("{:#}", read(toml, &wrong).unwrap_err());
        assert!(error.contains("sslmode must be") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (toml, wanted) in [
            ("[limits]\nretires = 5\n", "retires"),
            ("[limits]\nheartbeat = 0\n", "heartbeat"),
            ("[limits]\nquiet = 0\n", "limits.quiet"),
            ("[limits]\nverify_every = 86401\n", "limits.verify_every"),
            ("[limits]\nflow_rules = 0\n", "limits.flow_rules"),
            ("[limits]\nrevisions_kept = 0\n", "limits.revisions_kept"),
            ("[limits]\nevents_kept = 0\n", "limits.events_kept"),
            ("[limits]\ndatabase_bytes = 4096\n", "limits.database_bytes"),
            ("[controller]\nlisten = \"nowhere\"\n", "listen"),
            ("[controller]\nlisten = \"nowhere\"\n", "'nowhere': want ADDRESS:PORT, such as 0.0.0.0:8883"),
            ("[controller]\nlisten = \"nowhere\"\n", "controller.toml: the configuration is wrong: "),
            ("[link]\nurl = \"mq\"\n", "link.url: 'mq'"),
            ("[controller]\nsocket_role = \"boss\"\n", "'boss' is no role: want viewer, operator or admin"),
            ("[controller]\napi_key = \"/k\"\n", "set both, or neither"),
            (
                "[controller]\napi = \"[::]:8443\"\nonos_api = \"[::]:8443\"\n",
                "controller.api and controller.onos_api are both [::]:8443",
            ),
            ("[controller]\nheat_api = \"here\"\n", "heat_api"),
            ("[controller]\nheat_api_without_token = \"viewer\"\n", "loopback"),
            (
                "[controller]\nheat_api = \"0.0.0.0:8004\"\nheat_api_without_token = \"viewer\"\n",
                "every client must show a token",
            ),
            (
                "[controller]\nheat_api = \"127.0.0.1:8004\"\nheat_api_without_token = \"admin\"\n",
                "want viewer or operator",
            ),
            ("[log]\nformat = \"xml\"\n", "xml"),
            ("[limits\n", "controller.toml"),
        ] {
            let error = format!("{:#}", read(toml, &[]).unwrap_err());
            assert!(error.contains(wanted), "{toml:?}: {error}");
        }
    }
}
