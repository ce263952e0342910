//! `[[sites]]`: more sites in the same database. Each has its own nodes, stacks, keys, users and addresses.
//!
//! Absent: which of several controllers serves a site (`lease/share.rs`).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Deserialize;

use super::link::Way;
use super::{Controller, Link, OidcSettings, Settings, StoreSettings, optional_address, socket_address};
use crate::site_name::SiteName;
use crate::store::Location;

/// The most sites of one process: each has a driver, and four connections to the database.
const SITES_MAX: usize = 64;

/// `[[sites]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteSettings {
    pub name: SiteName,
    /// The address for this site's agents.
    #[serde(deserialize_with = "socket_address")]
    listen: SocketAddr,
    /// As `controller.addresses`.
    #[serde(default)]
    addresses: Vec<String>,
    /// The key of this site's secrets; empty: `secrets.key` in the site's directory.
    #[serde(default)]
    key_file: PathBuf,
    /// As `controller.api`, for this site's users.
    #[serde(default, deserialize_with = "optional_address")]
    api: Option<SocketAddr>,
    /// As `controller.onos_api`.
    #[serde(default, deserialize_with = "optional_address")]
    onos_api: Option<SocketAddr>,
    /// As `controller.heat_api`, where every client shows a token.
    #[serde(default, deserialize_with = "optional_address")]
    heat_api: Option<SocketAddr>,
    /// As `[link]`, for this site.
    #[serde(default)]
    link: Link,
    /// As `[oidc]`, for this site.
    #[serde(default)]
    oidc: OidcSettings,
}

impl Settings {
    /// The settings of each site by itself, the one of `[controller]` first.
    pub fn of_sites(&self) -> Vec<Self> {
        let own = Self { sites: Vec::new(), ..self.clone() };
        let others = self.sites.iter().map(|site| own.with(site)).collect::<Vec<_>>();
        [own.clone()].into_iter().chain(others).collect()
    }

    /// The settings of the site of this name.
    ///
    /// # Errors
    /// No section describes it.
    pub fn of_site(&self, name: &SiteName) -> anyhow::Result<Self> {
        let found = self.of_sites().into_iter().find(|settings| settings.site == *name);
        found.ok_or_else(|| {
            let known: Vec<String> = self.of_sites().iter().map(|other| other.site.to_string()).collect();
            anyhow::anyhow!("there is no site '{name}' in the settings: they have {}", known.join(", "))
        })
    }

    fn with(&self, site: &SiteSettings) -> Self {
        let SiteSettings { name, listen, addresses, key_file, api, onos_api, heat_api, link, oidc } =
            site.clone();
        let controller = Controller {
            data_dir: self.controller.data_dir.join("sites").join(name.as_str()),
            listen,
            addresses,
            api,
            onos_api,
            heat_api,
            heat_api_without_token: String::new(),
            ..self.controller.clone()
        };
        let store = StoreSettings { key_file, ..self.store.clone() };
        Self { site: name, controller, store, link, oidc, ..self.clone() }
    }

    /// Sites that share what each needs for itself.
    pub(super) fn check_sites(&self) -> anyhow::Result<()> {
        if self.sites.is_empty() {
            return Ok(());
        }
        anyhow::ensure!(self.sites.len() < SITES_MAX, "one controller serves at most {SITES_MAX} sites");
        let sites = self.of_sites();
        let mut names = BTreeSet::new();
        let mut taken: Vec<SocketAddr> = Vec::new();
        for Settings { site, controller, link, oidc, .. } in &sites {
            anyhow::ensure!(names.insert(site), "two sites have the name {site}: give one of them another");
            // Through a broker, agents come to no address of the controller.
            let listen = matches!(link.way()?, Way::Direct).then_some(("listen", controller.listen));
            let doors = controller.doors().map(|(door, address)| (door.setting(), address));
            for (setting, address) in listen.into_iter().chain(doors) {
                let setting = setting.trim_start_matches("controller.");
                anyhow::ensure!(
                    !taken.iter().any(|other| is_one_place(*other, address)),
                    "site {site}: its {setting} is {address}, where another part listens already"
                );
                taken.push(address);
            }
            oidc.check().with_context(|| format!("site {site}"))?;
        }
        Ok(())
    }

    /// Checks the identity providers of all sites, and the files that they name: a site that cannot be served ends the
    /// others, and a standby must learn of that before it takes one over.
    ///
    /// # Errors
    /// A provider cannot be asked.
    pub fn check_providers(&self) -> anyhow::Result<()> {
        let check =
            |site: &Self| site.oidc.provider().map(drop).with_context(|| format!("site {}", site.site));
        self.of_sites().iter().try_for_each(check)
    }

    /// Checks settings that depend on flags.
    ///
    /// # Errors
    /// Several sites in a database that holds one.
    pub fn check_database(&self) -> anyhow::Result<()> {
        match self.database() {
            Location::Sqlite(path) if !self.sites.is_empty() => anyhow::bail!(
                "the database {} holds one site: several need PostgreSQL (docs/sites.md), or a controller each",
                path.display()
            ),
            Location::Sqlite(_) | Location::Postgres(_) => Ok(()),
        }
    }
}

/// Whether two listeners would be in each other's way. Port 0 is a free one each time.
fn is_one_place(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (is_any || one.ip() == other.ip())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::api::Door;

    const TWO: &str = "[[sites]]\nname = \"hall-b\"\nlisten = \"[::]:8884\"\naddresses = [\"c1:8884\"]\n";

    fn read(toml: &str) -> anyhow::Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("controller.toml");
        std::fs::write(&file, toml).unwrap();
        let variables = [("MUSTER_STORE__URL", "postgres://muster@db1/muster")];
        Settings::read(
            Some(&file),
            variables.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter(),
        )
    }

    #[test]
    fn each_site_has_its_own_directory_key_schema_and_address() {
        let settings =
            read(&format!("[controller]\ndata_dir = \"/srv\"\n[store]\nkey_file = \"/k\"\n{TWO}")).unwrap();
        let sites = settings.of_sites();
        let [own, hall] = &sites[..] else { panic!("{sites:?}") };
        assert_eq!((own.site.as_str(), own.key_file().as_path()), ("default", Path::new("/k")));
        assert_eq!(own.database().to_string(), "postgres://muster@db1/muster");
        assert_eq!((hall.site.as_str(), hall.controller.listen.port()), ("hall-b", 8884));
        assert_eq!(hall.controller.data_dir, Path::new("/srv/sites/hall-b"));
        assert_eq!(hall.key_file(), Path::new("/srv/sites/hall-b/secrets.key"));
        assert_eq!(hall.database().to_string(), "postgres://muster@db1/muster (site hall-b)");
        assert_eq!(hall.addresses(1), ["c1:8884"]);
        assert_eq!(
            settings.of_site(&"hall-b".parse().unwrap()).unwrap().controller.data_dir,
            hall.controller.data_dir
        );
        let error = settings.of_site(&"hall-c".parse().unwrap()).unwrap_err().to_string();
        assert_eq!(error, "there is no site 'hall-c' in the settings: they have default, hall-b");
        assert_eq!(hall.controller.doors().count(), 0, "they are the first site's");
        let doors = format!("{TWO}api = \"[::]:8444\"\n");
        let settings = read(&format!(
            "[controller]\nheat_api = \"127.0.0.1:8004\"\nheat_api_without_token = \"viewer\"\n{doors}"
        ))
        .unwrap();
        let hall = &settings.of_sites()[1].controller;
        assert_eq!(hall.doors().collect::<Vec<_>>(), [(Door::Api, "[::]:8444".parse().unwrap())]);
        assert_eq!(hall.heat_without_token().unwrap(), None);
    }

    #[test]
    fn sites_that_share_something_are_named() {
        let again = TWO.replace("8884", "8885");
        for (toml, wanted) in [
            (format!("{TWO}{again}"), "two sites have the name hall-b"),
            (TWO.replace("hall-b", "default"), "two sites have the name default"),
            (
                format!("{TWO}{}", TWO.replace("hall-b", "hall-c")),
                "site hall-c: its listen is [::]:8884, where another part listens already",
            ),
            (TWO.replace("hall-b", "Hall"), "'Hall' is not a site's name"),
            (TWO.replace("hall-b", "a_b"), "'a_b' is not a site's name"),
            (TWO.replace("addresses", "adresses"), "adresses"),
            (format!("{TWO}link = {{url = \"mq\"}}\n"), "link.url: 'mq'"),
            (
                format!("[controller]\napi = \"[::]:8443\"\n{TWO}onos_api = \"10.0.0.1:8443\"\n"),
                "site hall-b: its onos_api is 10.0.0.1:8443, where another part listens already",
            ),
            (format!("{TWO}api = \"[::]:8884\"\n"), "site hall-b: its api is [::]:8884"),
            (
                format!("[controller]\nlisten = \"0.0.0.0:8883\"\napi = \"0.0.0.0:8883\"\n{TWO}"),
                "site default: its api is 0.0.0.0:8883, where another part",
            ),
            (format!("{TWO}oidc = {{client_id = \"muster\"}}\n"), "site hall-b: oidc.client_id needs"),
        ] {
            let error = format!("{:#}", read(&toml).unwrap_err());
            assert!(error.contains(wanted), "{toml}: {error}");
        }
    }

    #[test]
    fn through_a_broker_no_site_listens_for_agents() {
        let link = "link = {url = \"mqtts://b.example.org:8883\", ca_file = \"/ca\"}\n";
        let settings = format!("{TWO}{link}[[sites]]\nname = \"hall-c\"\nlisten = \"[::]:8884\"\n{link}");
        assert_eq!(read(&settings).unwrap().of_sites().len(), 3);
    }

    #[test]
    fn the_provider_of_each_site_is_looked_at() {
        let oidc = "oidc = {issuer = \"https://login.example.org\", client_id = \"m\", client_secret_file = \"/none\", roles = {viewer = [\"v\"]}}\n";
        let settings = read(&format!("{TWO}{oidc}")).unwrap();
        let error = format!("{:#}", settings.check_providers().unwrap_err());
        assert!(error.contains("site hall-b") && error.contains("/none"), "{error}");
    }

    #[test]
    fn a_file_holds_one_site() {
        let mut settings = read(TWO).unwrap();
        settings.check_database().unwrap();
        settings.store.url = Some("sqlite:/srv/muster.db".parse().unwrap());
        let error = settings.check_database().unwrap_err().to_string();
        assert!(error.contains("/srv/muster.db holds one site: several need PostgreSQL"), "{error}");
    }
}
