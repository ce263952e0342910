//! The driver's way to its controller: the connection, and a certificate that is taken there. Decides when a
//! certificate that was refused is renewed.
//!
//! Absent: when to connect (`agent/core/src/reconnect.rs`), and when a renewal is due
//! (`agent/link/src/identity.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_agent_core::Input;
use muster_agent_link::Identity;
use muster_agent_link::connection::{Connection, LinkError, LinkEvent, Peer};
use muster_agent_link::join::{self, EnrolError};
use muster_shared::join::Address;
use muster_shared::model::Down;
use muster_shared::time::utc;
use tokio::time::Instant;

use super::Driver;
use super::tasks::Done;

/// The wall clock may be set while we wait for a certificate's time, so it is looked at this often.
const CLOCK_CHECK: Duration = Duration::from_secs(3600);
/// Between renewals because the controller does not take the certificate.
const PROVE_AGAIN: Duration = Duration::from_secs(60);
/// The pause between renewals, also after a failed one: a third of the certificate's life is left.
const RENEW_AGAIN: Duration = Duration::from_secs(600);

impl Driver {
    pub(super) fn event(&mut self, event: Option<LinkEvent>) {
        match event {
            Some(LinkEvent::Connected { remote }) => {
                tracing::info!(controller = %remote, "connected");
                self.link_state.connected(&remote, join::now());
                self.inbox.push_back(Input::Connected);
            }
            Some(LinkEvent::Received(messages)) => {
                for message in messages {
                    match message {
                        Down::Controllers(addresses) => self.learn(&addresses),
                        message => {
                            if matches!(message, Down::Welcome(_)) {
                                self.link_state.greeted();
                            }
                            self.inbox.push_back(Input::Received(message));
                        }
                    }
                }
            }
            Some(LinkEvent::Refused { error, count }) => {
                tracing::warn!(
                    "a packet from the controller is refused ({count} on this connection): {error}"
                );
            }
            Some(LinkEvent::Disconnected(error)) => {
                // The certificate is valid by our clock, but not by the controller's; or one of the clocks
                // was set meanwhile.
                if (error.is_expired() || error.is_not_let_in()) && Instant::now() >= self.prove_from {
                    self.prove = true;
                    self.prove_from = Instant::now() + PROVE_AGAIN;
                }
                if let LinkError::Elsewhere(address) = &error {
                    self.first_address = Some(address.clone());
                }
                self.disconnect(&error.to_string());
            }
            None => self.disconnect("the link's task ended: a bug, please report it"),
        }
    }

    /// Remembers where the site's controllers are. Former addresses are tried after these: a controller may be mistaken
    /// about how this server reaches it.
    fn learn(&mut self, told: &[Address]) {
        let identity = self.identity.clone().with_addresses(told);
        if identity.addresses.iter().all(|address| self.identity.addresses.contains(address)) {
            return; // the order alone is not worth a write at each connection
        }
        match self.state.write_identity(&identity) {
            Ok(()) => self.identity = identity,
            Err(error) => tracing::warn!(%error, "the addresses of the site's controllers cannot be kept"),
        }
    }

    pub(super) fn connect(&mut self) {
        let (now, ends) = (join::now(), self.identity.not_after);
        if now >= ends {
            let (now, ends) = (utc(now), utc(ends));
            tracing::warn!("this server's clock says {now}, and its certificate ended {ends}: renewing it");
        } else if std::mem::take(&mut self.prove) {
            tracing::warn!("the controller does not take this server's certificate: renewing it");
        } else {
            return self.open();
        }
        self.connect_renewed = true;
        self.renew();
    }

    fn open(&mut self) {
        let mut peer = Peer::node(&self.identity, Arc::clone(&self.tls));
        // Where the active controller was found last.
        if let Some(first) = &self.first_address {
            peer.addresses.sort_by_key(|address| address != first);
        }
        self.connection = Some(Connection::open(peer, Arc::clone(&self.seal)));
    }

    pub(super) fn disconnect(&mut self, reason: &str) {
        tracing::warn!("not connected: {reason}");
        self.link_state.away(reason, join::now());
        self.connection = None;
        self.inbox.push_back(Input::Disconnected { reason: reason.to_owned() });
    }

    pub(super) fn renew_if_due(&mut self) {
        if join::now() >= self.identity.renew_at() {
            self.renew();
        }
        self.renew_at = renew_in(&self.identity).max(Instant::now() + RENEW_AGAIN);
    }

    fn renew(&mut self) {
        if !self.renewing {
            self.renewing = true;
            let identity = self.identity.clone();
            self.tasks.spawn_local(async move { Done::Renewed(Box::new(join::renew(identity).await)) });
        }
    }

    pub(super) fn renewed(&mut self, renewed: Result<Identity, EnrolError>) {
        self.renewing = false;
        let taken = renewed.map_err(anyhow::Error::from).and_then(|identity| {
            self.tls = identity.tls()?;
            self.state.write_identity(&identity)?;
            // With a clock that is wrong by years, the agent must not renew again at once.
            self.renew_at = renew_in(&identity).max(Instant::now() + RENEW_AGAIN);
            self.identity = identity;
            Ok(())
        });
        let connect = std::mem::take(&mut self.connect_renewed);
        match taken {
            Ok(()) => {
                tracing::info!("the node's certificate was renewed");
                // Validity is not judged by our clock, which may be wrong: the controller decides.
                if connect {
                    self.open();
                }
            }
            Err(error) => {
                tracing::error!("cannot renew the node's certificate: {error:#}");
                if connect {
                    let reason = format!("cannot renew the node's certificate: {error:#}");
                    self.link_state.away(&reason, join::now());
                    self.inbox.push_back(Input::Disconnected { reason });
                }
            }
        }
    }
}

pub(super) fn renew_in(identity: &Identity) -> Instant {
    let left = Duration::from_secs(identity.renew_at().saturating_sub(join::now()));
    Instant::now() + left.min(CLOCK_CHECK)
}
