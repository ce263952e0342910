//! Settings: flag over environment (`MUSTER_<SECTION>__<KEY>`) over file, with their defaults and ranges.
//!
//! Absent: the controller's settings (`controller/src/config.rs`).

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use muster_host::net::Client;
use muster_shared::join::{ADDRESSES_MAX, Address};
use serde::{Deserialize, Deserializer};
use tracing_subscriber::filter::LevelFilter;

/// The path of the file without a flag; the file may be absent there.
pub const DEFAULT_FILE: &str = "/etc/muster/agent.toml";

/// The sections; variables of other sections belong to the controller on the same machine.
const SECTIONS: [&str; 3] = ["MUSTER_AGENT__", "MUSTER_HOST__", "MUSTER_LOG__"];

/// The settings of the agent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The agent's directory and times.
    pub agent: AgentSection,
    /// The paths and programs of the host.
    pub host: HostSection,
    pub log: LogSection,
}

/// `[agent]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSection {
    /// Keys and ledger.
    pub state_dir: PathBuf,
    /// Seconds within which a document given on this server must be confirmed.
    pub confirm_timeout: u32,
    /// Addresses of controllers, tried before those of the join token and those that a controller told of.
    #[serde(deserialize_with = "addresses")]
    pub controllers: Vec<Address>,
}

/// `[host]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct HostSection {
    /// The socket of Open vSwitch's database.
    pub ovs_db: Option<PathBuf>,
    /// The datapath of bridges that are made, such as `netdev`; by default the kernel's.
    pub ovs_datapath_type: Option<String>,
    /// The file that the host name is read from at boot.
    pub etc_hostname: Option<PathBuf>,
    /// The directory in which systemd has its sockets.
    pub run_dir: Option<PathBuf>,
    /// The root of the system whose network managers must leave links alone.
    pub neighbours: Option<PathBuf>,
    /// The DHCP client; by default the first one found.
    pub dhcp_client: Option<Client>,
    /// Ports of Open vSwitch identify themselves over LLDP.
    pub send_lldp: bool,
    /// The directories of deployments' hooks.
    #[serde(deserialize_with = "hook_directories")]
    pub hooks: HookDirectories,
}

/// Directories in which a deployment's group may have its program; the first that has it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookDirectories(pub Vec<PathBuf>);

/// `[log]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// off, error, warn, info, debug or trace
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

/// The most directories of hooks: heat-agents has two.
const HOOK_DIRECTORIES_MAX: usize = 8;

/// A list, or in a variable texts with commas in between.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrList {
        Text(String),
        List(Vec<String>),
    }
    Ok(match TextOrList::deserialize(deserializer)? {
        TextOrList::Text(text) => {
            text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
        }
        TextOrList::List(list) => list,
    })
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Address>, D::Error> {
    texts(deserializer)?.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

fn hook_directories<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HookDirectories, D::Error> {
    let paths: Vec<PathBuf> = texts(deserializer)?.into_iter().map(PathBuf::from).collect();
    if paths.is_empty() || paths.len() > HOOK_DIRECTORIES_MAX || !paths.iter().all(|path| path.is_absolute())
    {
        let message = format!("host.hooks: want 1 to {HOOK_DIRECTORIES_MAX} absolute paths of directories");
        return Err(serde::de::Error::custom(message));
    }
    Ok(HookDirectories(paths))
}

impl Default for AgentSection {
    fn default() -> Self {
        Self { state_dir: "/var/lib/muster-agent".into(), confirm_timeout: 120, controllers: Vec::new() }
    }
}

impl Default for HostSection {
    fn default() -> Self {
        Self {
            ovs_db: None,
            ovs_datapath_type: None,
            etc_hostname: None,
            run_dir: None,
            neighbours: None,
            dhcp_client: None,
            send_lldp: true,
            hooks: HookDirectories::default(),
        }
    }
}

impl Default for HookDirectories {
    /// The folders of heat-agents, in its order.
    fn default() -> Self {
        Self(["/usr/libexec/heat-config/hooks", "/var/lib/heat-config/hooks"].map(PathBuf::from).into())
    }
}

impl Default for LogSection {
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
        let variables =
            environment.filter(|(key, _)| SECTIONS.iter().any(|section| key.starts_with(section)));
        let source = match file {
            Some(file) => config::File::from(file).required(true),
            None => config::File::from(Path::new(DEFAULT_FILE)).required(false),
        };
        let environment = config::Environment::with_prefix("MUSTER")
            .prefix_separator("_")
            .separator("__")
            .source(Some(variables.collect()));
        let settings: Settings = config::Config::builder()
            .add_source(source.format(config::FileFormat::Toml))
            .add_source(environment)
            .build()
            .context("cannot read the configuration")?
            .try_deserialize()
            .with_context(|| {
                format!("{}: the configuration is wrong", file.unwrap_or(Path::new(DEFAULT_FILE)).display())
            })?;
        settings.level()?;
        let most = crate::cli::CONFIRM_WITHIN_MAX;
        if !(1..=most).contains(&settings.agent.confirm_timeout.into()) {
            anyhow::bail!(
                "agent.confirm_timeout: {} is not 1 to {most} seconds",
                settings.agent.confirm_timeout
            );
        }
        anyhow::ensure!(
            settings.agent.controllers.len() <= ADDRESSES_MAX,
            "agent.controllers: at most {ADDRESSES_MAX} addresses"
        );
        Ok(settings)
    }

    /// `log.level`
    ///
    /// # Errors
    /// The value is no level.
    pub fn level(&self) -> anyhow::Result<LevelFilter> {
        let level = self.log.level.parse();
        level.map_err(|_| {
            anyhow::anyhow!(
                "log.level: '{}' is none of off, error, warn, info, debug, trace",
                self.log.level.escape_default()
            )
        })
    }
}

#[cfg(test)]
mod tests;
