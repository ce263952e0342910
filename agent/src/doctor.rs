//! `muster-agent doctor`: what is wrong on this server, and what to do about it.
//!
//! Each file of `doctor/` is one check: a pure function makes findings of facts, and a thin one collects the facts.
//! The checks run side by side, and each ends within [`CHECK_WITHIN`]. They work with and without a running agent,
//! change nothing, take no lock, and show no key.
//!
//! Absent: how findings are shown (`shared/src/finding.rs`), and what the controller knows
//! (`controller/cli/src/doctor.rs`).

mod agent;
mod clock;
mod configuration;
mod controllers;
mod filter;
mod firewall;
mod identity;
mod kernel;
mod network_managers;
mod owner;
mod recorded;
mod service;
mod state_directory;
mod switch;

use std::process::ExitCode;
use std::time::Duration;

use muster_agent_link::join::now;
use muster_shared::finding::{self, Finding};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::cli::{Cli, Output};
use crate::settings::Settings;
use crate::{FAILED, block_on, network, systemd};
use recorded::Recorded;
use switch::Need;

/// A name that does not resolve, and an address that is silent, take the longest.
const CHECK_WITHIN: Duration = Duration::from_secs(30);

/// Prints the findings; fails if one is an error.
pub fn run(cli: &Cli, output: Output, settings: anyhow::Result<Settings>) -> ExitCode {
    let findings = match block_on(async { Ok(examine(cli, settings).await) }) {
        Ok(findings) => findings,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(FAILED);
        }
    };
    match output {
        Output::Table => print!("{}", finding::table(&findings)),
        Output::Json => println!("{}", serde_json::json!(findings)),
    }
    if finding::has_error(&findings) { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}

/// The findings, in the order in which an operator would look. With wrong settings, the other checks use the defaults.
async fn examine(cli: &Cli, settings: anyhow::Result<Settings>) -> Vec<Finding> {
    let configuration =
        configuration::finding(&configuration::Facts::read(cli.config.as_deref(), settings.as_ref().err()));
    let settings = settings.unwrap_or_else(|_| {
        let mut settings = Settings::default();
        if let Some(directory) = &cli.state_dir {
            settings.agent.state_dir.clone_from(directory);
        }
        settings
    });
    let directory = settings.agent.state_dir.clone();
    let path = directory.clone();
    let read = timeout(CHECK_WITHIN, spawn_blocking(move || Recorded::read(&path))).await;
    let recorded = match read {
        Ok(Ok(recorded)) => recorded,
        Ok(Err(_)) | Err(_) => {
            return vec![configuration, late("state_directory")];
        }
    };
    let known = recorded.identity.as_ref().ok().and_then(Option::as_ref);
    let (network, systemd) = (network(&settings), systemd(&settings));
    let joined = recorded.joined();
    let holder = recorded.holder;
    let needs_switch = match settings.host.ovs_db {
        Some(_) => Need::Document,
        None => recorded.needs_switch,
    };
    let (agent, service, controllers, firewall, switch, filter, managers, kernel) = tokio::join!(
        within("agent", agent::check(&directory, holder, joined)),
        within("service", service::check(&systemd, &directory, holder, joined)),
        within("controller", controllers::check(known, &settings.agent.controllers)),
        within("firewall", firewall::check(known, &settings.agent.controllers)),
        within("open_vswitch", switch::check(&network, needs_switch)),
        within("nftables", filter::check(recorded.uses_filter, known.map(|known| &known.node))),
        within("network_managers", network_managers::check(&network, &recorded.documents)),
        within("kernel", kernel::check()),
    );
    let own = [
        vec![configuration],
        recorded.findings.clone(),
        identity::findings(&recorded.identity_facts(), now()),
    ];
    let clock = vec![clock::finding(muster_host::sys::clock_is_synchronised())];
    let server = [service, clock, controllers, firewall, switch, filter, managers, kernel];
    own.into_iter().chain([agent]).chain(server).flatten().collect()
}

/// The findings of a check, or that it did not end.
async fn within(check: &'static str, findings: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    timeout(CHECK_WITHIN, findings).await.unwrap_or_else(|_| vec![late(check)])
}

fn late(check: &'static str) -> Finding {
    let found = format!("this check did not end within {} s", CHECK_WITHIN.as_secs());
    Finding::warning(
        check,
        found,
        "look whether a disk or a service hangs: 'dmesg | tail', 'systemctl list-jobs'",
    )
}
