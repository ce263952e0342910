//! `[oidc]`: the identity provider with which people log in, and who gets which role.
//!
//! Absent: how its ID tokens are verified (`oidc.rs`).

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use muster_api::user::Role;
use serde::Deserialize;

use crate::oidc::{Config, Mapping, Oidc};

/// The longest session in hours: a month. Whoever leaves the company has to be gone some day.
const SESSION_MAX: u64 = 31 * 24;

/// `[oidc]`
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OidcSettings {
    /// The provider's URL; empty: there is none.
    issuer: String,
    /// This controller at the provider.
    client_id: String,
    /// A file with its secret in the first line; empty: a public client.
    client_secret_file: PathBuf,
    /// The CA of the provider's certificate, PEM; empty: those of this machine.
    ca: PathBuf,
    /// The scopes that are asked for besides `openid`.
    scopes: Vec<String>,
    name_claim: String,
    roles_claim: String,
    /// The claims with the part of the site that a user reaches; empty: everybody reaches all of it.
    label_claim: String,
    stacks_claim: String,
    roles: Roles,
    /// Whether `POST /v1/login` takes an ID token of another login.
    id_tokens: bool,
    /// Hours for which a login is good.
    pub session: u64,
}

/// `[oidc.roles]`: which values of the claim stand for each role.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Roles {
    admin: Vec<String>,
    operator: Vec<String>,
    viewer: Vec<String>,
}

impl Default for OidcSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            client_id: String::new(),
            client_secret_file: PathBuf::new(),
            ca: PathBuf::new(),
            scopes: vec!["profile".to_owned(), "email".to_owned()],
            name_claim: "preferred_username".to_owned(),
            roles_claim: "groups".to_owned(),
            label_claim: String::new(),
            stacks_claim: String::new(),
            roles: Roles::default(),
            id_tokens: false,
            session: 8,
        }
    }
}

impl OidcSettings {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            (1..=SESSION_MAX).contains(&self.session),
            "oidc.session must be 1 to {SESSION_MAX} hours"
        );
        if self.issuer.is_empty() {
            anyhow::ensure!(
                self.client_id.is_empty(),
                "oidc.client_id needs oidc.issuer, the provider's URL"
            );
            return Ok(());
        }
        anyhow::ensure!(self.issuer.starts_with("https://"), "oidc.issuer '{}': want https://…", self.issuer);
        anyhow::ensure!(
            !self.client_id.is_empty(),
            "oidc.client_id must say which client this is at the provider"
        );
        anyhow::ensure!(
            !self.mapping().roles.is_empty(),
            "[oidc.roles] gives nobody a role: name groups for admin, operator or viewer"
        );
        anyhow::ensure!(
            self.mapping().roles.iter().all(|(name, _)| !name.is_empty()),
            "[oidc.roles] has an empty name, which would be that of an empty group"
        );
        Ok(())
    }

    fn mapping(&self) -> Mapping {
        let Roles { admin, operator, viewer } = &self.roles;
        let named = [(admin, Role::Admin), (operator, Role::Operator), (viewer, Role::Viewer)];
        let roles =
            named.into_iter().flat_map(|(names, role)| names.iter().cloned().map(move |name| (name, role)));
        Mapping {
            name_claim: self.name_claim.clone(),
            roles_claim: self.roles_claim.clone(),
            label_claim: Some(self.label_claim.clone()).filter(|claim| !claim.is_empty()),
            stacks_claim: Some(self.stacks_claim.clone()).filter(|claim| !claim.is_empty()),
            roles: roles.collect(),
        }
    }

    /// The provider, which nobody asks yet.
    ///
    /// # Errors
    /// A file is bad; the error names it.
    pub fn provider(&self) -> anyhow::Result<Option<Oidc>> {
        if self.issuer.is_empty() {
            return Ok(None);
        }
        let set = |path: &PathBuf| !path.as_os_str().is_empty();
        let client_secret = set(&self.client_secret_file).then(|| self.secret()).transpose()?;
        let oidc = Oidc::new(Config {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret,
            ca: set(&self.ca).then_some(self.ca.as_path()),
            scopes: self.scopes.clone(),
            mapping: self.mapping(),
            takes_id_tokens: self.id_tokens,
        })?;
        Ok(Some(oidc))
    }

    fn secret(&self) -> anyhow::Result<String> {
        let path = &self.client_secret_file;
        let text = fs::read_to_string(path)
            .with_context(|| format!("oidc.client_secret_file {}: cannot be read", path.display()))?;
        let secret = text.lines().next().unwrap_or_default().trim();
        anyhow::ensure!(
            !secret.is_empty(),
            "oidc.client_secret_file {}: the first line is to be the client's secret",
            path.display()
        );
        Ok(secret.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let good = "issuer = 'https://id'\nclient_id = 'muster'\n";
        for (toml, wanted) in [
            (String::new(), ""),
            (format!("{good}[roles]\nadmin = ['root']\n"), ""),
            (good.to_owned(), "[oidc.roles] gives nobody a role"),
            (format!("{good}[roles]\nadmin = ['']\n"), "[oidc.roles] has an empty name"),
            ("issuer = 'http://id'\nclient_id = 'm'\n".to_owned(), "want https://"),
            ("issuer = 'https://id'\n".to_owned(), "oidc.client_id must say"),
            ("client_id = 'muster'\n".to_owned(), "needs oidc.issuer"),
            ("session = 0\n".to_owned(), "oidc.session must be 1 to 744 hours"),
        ] {
            let said = toml::from_str::<OidcSettings>(&toml).unwrap().check();
            let said = said.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{said}, not {wanted}");
        }
    }

    #[test]
    fn files_are_named() {
        let settings = |toml: &str| {
            let toml = format!("issuer = 'https://id'\nclient_id = 'muster'\n{toml}");
            toml::from_str::<OidcSettings>(&toml).unwrap().provider()
        };
        for (toml, wanted) in [
            ("client_secret_file = '/nowhere'\n", "oidc.client_secret_file /nowhere"),
            ("ca = '/nowhere'\n", "oidc.ca /nowhere"),
        ] {
            let error = format!("{:#}", settings(toml).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
    }
}
