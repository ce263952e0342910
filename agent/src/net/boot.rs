//! `net boot`: restores the network's last good state, before there is an agent or a controller.
//!
//! Reads the ledger without changing it: the agent itself ends jobs that a reboot has interrupted.
//!
//! Absent: which states are restored, and in which order (`agent/core/src/boot.rs`).

use std::time::Duration;

use anyhow::bail;
use muster_agent_core::{AtBoot, at_boot};
use muster_host::net::Network;
use muster_shared::model::network::NetworkDocument;
use tokio::time::{Instant, sleep};

use super::local::Local;
use crate::host::Host;
use crate::state_dir::{StateDir, StateError};

/// Interfaces and the switch may come up a moment after this starts; a boot must not wait longer.
const READY_WITHIN: Duration = Duration::from_secs(40);
const AGAIN: Duration = Duration::from_millis(500);

/// Applies the confirmed states, and undoes unconfirmed changes.
///
/// # Errors
/// Some of it failed; everything else is done.
pub async fn boot(network: &Network, host: &Host, state: &StateDir) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    let ledger = state.ledger()?;
    let counts =
        Local::read(state.path()).is_ok_and(|local| local.document.is_some() && local.counts(&ledger));
    let mut open: Vec<Todo> = at_boot(&ledger)
        .into_iter()
        .filter(|todo| !(counts && matches!(todo, AtBoot::Apply { resource, .. } if resource.is_local())))
        .map(Todo::Resource)
        .collect();
    open.push(Todo::Local { applies: counts });
    loop {
        let mut failed = Vec::new();
        for todo in open {
            if let Err(reason) = carry_out(&todo, network, host, state).await {
                failed.push((todo, reason));
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let reasons: Vec<String> =
                failed.into_iter().map(|(todo, reason)| format!("{todo}: {reason}")).collect();
            bail!("{}", reasons.join("; "));
        }
        open = failed.into_iter().map(|(todo, _)| todo).collect();
        sleep(AGAIN).await;
    }
}

/// A running agent handles it.
pub fn is_seen_to(error: &StateError) -> bool {
    matches!(error, StateError::Locked { .. })
}

enum Todo {
    Resource(AtBoot),
    Local {
        /// Whether the document is the newest one.
        applies: bool,
    },
}

impl std::fmt::Display for Todo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resource(AtBoot::Apply { resource, .. }) => write!(f, "the last good state of {resource}"),
            Self::Resource(AtBoot::Restore { key, .. }) => {
                write!(f, "what was there before an unconfirmed change of {}", key.resource)
            }
            Self::Local { .. } => f.write_str("the last document of 'net apply'"),
        }
    }
}

async fn carry_out(todo: &Todo, network: &Network, host: &Host, state: &StateDir) -> Result<(), String> {
    match todo {
        Todo::Resource(AtBoot::Apply { spec, before, .. }) => host.apply_at_boot(spec, before.as_ref()).await,
        Todo::Resource(AtBoot::Restore { undo, .. }) => host.restore(undo).await,
        Todo::Local { applies } => {
            local(network, state, *applies).await.map_err(|error| format!("{error:#}"))
        }
    }
}

async fn local(network: &Network, state: &StateDir, applies: bool) -> anyhow::Result<()> {
    let mut local = Local::read(state.path())?;
    local.recover(network, state).await?;
    let Some(document) = local.document.as_ref().filter(|_| applies) else { return Ok(()) };
    let document = NetworkDocument::from_json(document)?;
    let before = local.snapshot()?.unwrap_or_default();
    let applied = network.apply(&document, &local.nics()?, &before).await?;
    applied.steps.iter().for_each(|step| println!("{step}"));
    Ok(())
}
