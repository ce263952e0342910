//! The move to another site: the driver joins it beside the present one, and records the change.
//!
//! The identity at the other site is in memory until the machine decides (`agent/core/src/moving.rs`).
//!
//! Absent: what the node forgets on the way (`change_site`, `state_dir.rs`), and the start at the other site
//! with another driver (`serve`, `main.rs`).

use std::time::Duration;

use muster_agent_core::Input;
use muster_agent_link::Identity;
use muster_agent_link::join;
use muster_shared::join::{Address, JoinToken};
use tokio::time::{Instant, timeout};

use super::Driver;
use super::tasks::Done;

/// For the whole join: the operator waits for it, and the controller for a little longer.
const JOIN_WITHIN: Duration = Duration::from_secs(60);
/// For the last word to the site that was left. Its controller closes the connection when it has stored that.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(5);

/// The driver's part of a move.
#[derive(Default)]
pub(super) struct Moving {
    /// The identity at the site that the node has joined, with the number of the join.
    joined: Option<(u64, Identity)>,
    /// The change is on disk: until when the driver goes on.
    left: Option<Instant>,
}

impl Moving {
    /// Until when the driver goes on, once the change is on disk.
    pub(super) fn left(&self) -> Option<Instant> {
        self.left
    }
}

impl Driver {
    pub(super) fn join_other(&mut self, number: u64, token: Box<JoinToken>) {
        if let Err(reason) = reaches(&self.controllers, &token) {
            return self.inbox.push_back(Input::Joined { number, joined: Err(reason) });
        }
        let node = self.identity.node.clone();
        tracing::info!(site = %token.site, "joining another site");
        self.tasks.spawn_local(async move {
            let waits = |reason: &str, after: Duration| {
                tracing::info!("{reason}: asking again in {} s", after.as_secs().max(1));
            };
            let joined = match timeout(JOIN_WITHIN, join::change_site(&token, node, waits)).await {
                Ok(joined) => joined.map_err(|error| error.to_string()),
                Err(_elapsed) => Err(format!("no answer within {} s", JOIN_WITHIN.as_secs())),
            };
            let joined = joined.map_err(|why| format!("it cannot join site '{}': {why}", token.site));
            Done::Joined { number, joined: Box::new(joined) }
        });
    }

    pub(super) fn joined(&mut self, number: u64, joined: Result<Identity, String>) {
        let joined = joined.map(|identity| self.moving.joined = Some((number, identity)));
        self.inbox.push_back(Input::Joined { number, joined });
    }

    pub(super) fn change_site(&mut self, number: u64) {
        let joined = self.moving.joined.take().filter(|(of, _)| *of == number);
        let changed = match joined {
            Some((_, identity)) => self.state.change_site(&identity).map_err(|error| error.to_string()),
            None => Err("its identity at the other site is lost: a bug, please report it".into()),
        };
        if changed.is_ok() {
            self.moving.left = Some(Instant::now() + LAST_WORD_WITHIN);
        }
        self.inbox.push_back(Input::SiteChanged(changed));
    }

    /// Whether the site that was left has heard the last word, or has had its time for that.
    pub(super) fn is_gone(&self) -> bool {
        self.moving.left.is_some_and(|until| self.connection.is_none() || Instant::now() >= until)
    }
}

/// Whether the configured addresses of controllers would be those of the other site.
///
/// # Errors
/// The addresses are the present site's, and are tried first.
fn reaches(configured: &[Address], token: &JoinToken) -> Result<(), String> {
    let is_theirs = |address| token.addresses.contains(address);
    if token.broker.is_some() || configured.iter().all(is_theirs) {
        return Ok(());
    }
    Err("'controllers' in its agent.toml names controllers of this site: take that out, and restart the agent".into())
}

#[cfg(test)]
mod tests {
    use muster_shared::join::{TokenId, TokenSecret};

    use super::*;

    #[test]
    fn configured_controllers_must_be_those_of_the_other_site() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let token = JoinToken {
            site: "lab-b".parse().unwrap(),
            addresses: addresses(&["b1:8883", "b2:8883"]),
            ca_fingerprint: [0; 32],
            id: TokenId([0; 8]),
            secret: TokenSecret([0; 16]),
            expires: 0,
            broker: None,
        };
        for (configured, may) in
            [(&[][..], true), (&["b2:8883"], true), (&["a1:8883"], false), (&["b1:8883", "a1:8883"], false)]
        {
            assert_eq!(reaches(&addresses(configured), &token).is_ok(), may, "{configured:?}");
        }
    }
}
