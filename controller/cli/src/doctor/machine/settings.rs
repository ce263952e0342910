//! The controller's settings, as far as the checks of its machine need them. The whole file is the controller's to
//! judge (`controller/src/config.rs`).

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use muster_shared::join::Address;
use nix::unistd::gethostname;
use serde::{Deserialize, Deserializer};

use super::firewall::Door;

/// The path of the file without a flag.
pub const DEFAULT_FILE: &str = "/etc/muster/controller.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub controller: Controller,
    link: Link,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct Controller {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    addresses: Vec<String>,
    pub api: Network,
    onos_api: Network,
    heat_api: Network,
    /// Empty: one of the site's CA.
    pub api_certificate: PathBuf,
    pub api_key: PathBuf,
}

/// An address where clients connect; an empty text is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network(pub Option<SocketAddr>);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "" => Ok(Self(None)),
            text => text.parse().map(|address| Self(Some(address))).map_err(serde::de::Error::custom),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Link {
    url: String,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            data_dir: "/var/lib/muster".into(),
            listen: SocketAddr::from(([0, 0, 0, 0], 8883)),
            addresses: Vec::new(),
            api: Network::default(),
            onos_api: Network::default(),
            heat_api: Network::default(),
            api_certificate: PathBuf::new(),
            api_key: PathBuf::new(),
        }
    }
}

/// The outcome of reading the settings.
#[derive(Debug)]
pub enum Outcome {
    Read(Box<Settings>),
    /// This is not the controller's machine, or not for this user to look at.
    Elsewhere,
    Wrong(String),
}

impl Settings {
    /// Without a file that an operator gave, a machine with neither file nor data directory is not the controller's.
    pub fn read(file: &Path, is_given: bool) -> Outcome {
        let wrong = |why: &dyn std::fmt::Display| Outcome::Wrong(format!("{}: {why}", file.display()));
        match fs::read_to_string(file) {
            Ok(text) => match toml::from_str(&text) {
                Ok(settings) => Outcome::Read(Box::new(settings)),
                Err(error) => wrong(&error.message()),
            },
            Err(error) if is_given => wrong(&error),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let settings = Self::default();
                if settings.controller.data_dir.exists() {
                    Outcome::Read(Box::new(settings))
                } else {
                    Outcome::Elsewhere
                }
            }
            Err(_) => Outcome::Elsewhere,
        }
    }

    /// Agents connect to the controller itself.
    pub fn is_direct(&self) -> bool {
        matches!(self.link.url.as_str(), "" | "direct")
    }

    /// The addresses of join tokens, as the controller makes them (`controller/src/config.rs`).
    pub fn addresses(&self) -> Vec<String> {
        let Controller { addresses, listen, .. } = &self.controller;
        match addresses.is_empty() {
            false => addresses.clone(),
            true if listen.ip().is_unspecified() => vec![format!("{}:{}", host_name(), listen.port())],
            true => vec![listen.to_string()],
        }
    }

    /// The names and addresses by which operators may know this machine: its own name, those of join tokens, and the
    /// API's address.
    pub fn hosts(&self) -> Vec<String> {
        let mut hosts = vec![host_name()];
        let tokens = self.addresses();
        let parsed = tokens.iter().filter_map(|address| address.parse::<Address>().ok());
        hosts.extend(parsed.map(|address| address.host().to_owned()));
        hosts.extend(
            self.controller
                .api
                .0
                .map(|api| api.ip())
                .filter(|ip| !ip.is_unspecified())
                .map(|ip| ip.to_string()),
        );
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// The addresses where the controller listens for others.
    pub fn doors(&self) -> Vec<Door> {
        let Controller { listen, api, onos_api, heat_api, .. } = &self.controller;
        let agents = self.is_direct().then_some(*listen);
        let all = [
            ("agents", agents),
            ("users of the API and the console", api.0),
            ("clients of ONOS's API", onos_api.0),
            ("clients of Heat's API", heat_api.0),
        ];
        let door = |(who, address): (&'static str, Option<SocketAddr>)| {
            Some(Door { who, address: address?, is_for_agents: who == "agents" })
        };
        all.into_iter().filter_map(door).collect()
    }
}

fn host_name() -> String {
    gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "localhost".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_its_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("controller.toml");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            Settings::read(&file, true)
        };
        let Outcome::Read(settings) = read("") else { panic!("refused") };
        assert_eq!(settings.controller.data_dir, Path::new("/var/lib/muster"));
        assert!(settings.is_direct() && settings.controller.listen.port() == 8883);
        let Outcome::Read(settings) = read(
            "[controller]\ndata_dir = '/x'\nlisten = '[::]:1'\nname = 'c'\n[link]\nurl = 'mqtts://a:1'\n[log]\n",
        ) else {
            panic!("refused")
        };
        assert_eq!(
            (settings.controller.data_dir.as_path(), settings.controller.listen.port()),
            (Path::new("/x"), 1)
        );
        assert!(!settings.is_direct() && settings.doors().is_empty());
        let Outcome::Read(settings) = read(
            "[controller]\nlisten = '10.0.0.1:1'\napi = '0.0.0.0:2'\nheat_api = ''\nonos_api = '[::1]:3'\n\
             addresses = ['c1.example.org:1', 'odd']\n",
        ) else {
            panic!("refused")
        };
        let doors: Vec<_> = settings.doors().iter().map(|door| door.address.port()).collect();
        assert_eq!(doors, [1, 2, 3]);
        assert_eq!(settings.addresses(), ["c1.example.org:1", "odd"]);
        assert!(settings.hosts().contains(&"c1.example.org".to_owned()));
        assert!(matches!(read("[controller]\napi = 'x'"), Outcome::Wrong(_)));
        assert!(matches!(read("listen"), Outcome::Wrong(why) if why.contains("controller.toml: ")));
        fs::remove_file(&file).unwrap();
        assert!(matches!(Settings::read(&file, true), Outcome::Wrong(_)));
    }
}
