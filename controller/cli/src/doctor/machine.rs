//! The machine of the controller, where the command runs there: data directory, unit, clock, ports and addresses, the
//! API's certificate, firewall.
//!
//! Things that cannot be looked at, as by an operator who is not root, are left out. Nothing is changed.

mod addresses;
mod certificate;
mod clock;
mod directory;
mod firewall;
mod listener;
pub mod program;
mod service;
mod settings;

use std::path::{Path, PathBuf};

use muster_api::site::{AgentCounts, Role, StatusView};
use muster_shared::finding::Finding;
use tokio::task::spawn_blocking;

use crate::context::DEFAULT_URL;
pub use settings::DEFAULT_FILE;
use settings::{Outcome, Settings};

/// The controller's status, as far as checks of its machine need it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    role: Role,
    agents: AgentCounts,
}

impl Seen {
    pub fn of(status: &StatusView) -> Self {
        Self { role: status.role, agents: status.agents }
    }
}

/// Checks this machine, if it is the controller's: `given` settings, or the default ones where `url` is the default.
pub async fn check(given: Option<PathBuf>, url: &str, seen: Option<Seen>) -> Vec<Finding> {
    let is_given = given.is_some();
    if !is_given && url != DEFAULT_URL {
        return Vec::new();
    }
    let file = given.unwrap_or_else(|| DEFAULT_FILE.into());
    let settings = match Settings::read(&file, is_given) {
        Outcome::Read(settings) => settings,
        Outcome::Elsewhere => return Vec::new(),
        Outcome::Wrong(why) => {
            let remedy = format!("muster-controller --check-config --config {}", file.display());
            return vec![Finding::error("configuration", why, remedy)];
        }
    };
    let directory = settings.controller.data_dir.clone();
    let mut findings = spawn_blocking(move || directory::check(&directory)).await.unwrap_or_default();
    // The unit has the default settings.
    if file == Path::new(DEFAULT_FILE) {
        findings.extend(service::check(seen.is_some()).await);
    }
    findings.extend(clock::check().await);
    if settings.is_direct() {
        let listen = settings.controller.listen;
        findings.extend(seen.and_then(|seen| listener::check(listen.port(), seen.role)));
        findings.extend(addresses::check(&settings.addresses(), listen).await);
    }
    if let Some(api) = settings.controller.api.0 {
        let files = certificate::Files {
            certificate: &settings.controller.api_certificate,
            key: &settings.controller.api_key,
        };
        findings.extend(certificate::check(api, files, &settings.hosts(), seen.is_some()).await);
    }
    findings.extend(firewall::check(&settings.doors(), seen.map(|seen| seen.agents)).await);
    findings
}
