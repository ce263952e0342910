//! The identity of a node, the certificates that it trusts, and the addresses that it was given. Decides when its
//! certificate is due for renewal.
//!
//! Absent: the renewal (`join.rs`), renewal because a certificate was refused (`agent/src/driver/reach.rs`),
//! and how long a certificate is valid (`NODE_DAYS`, `controller/src/pki.rs`).

use std::sync::Arc;

use muster_broker::{Trust, client_config};
use muster_shared::join::{self, ADDRESSES_MAX, Address, BrokerAccess, JoinToken};
use muster_shared::seal::{Seal, SealPublic, SealSecret};
use muster_shared::{NodeId, SiteId};
use rustls::ClientConfig;
use serde::{Deserialize, Deserializer, Serialize};

use crate::tls::Root;

/// The identity of this node, and the CA that it trusts.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    pub site: SiteId,
    pub node: NodeId,
    /// The addresses of the controller or of the brokers, to be tried in this order.
    pub addresses: Vec<Address>,
    /// The only root.
    pub ca_der: Vec<u8>,
    /// The node's certificate.
    pub certificate_der: Vec<u8>,
    pub key_der: Vec<u8>,
    /// The node's sealing key.
    pub seal_secret: [u8; 32],
    /// The controller's sealing key.
    pub controller_seal: SealPublic,
    /// Seconds since 1970: when the certificate came.
    pub issued: u64,
    /// Seconds since 1970: when it runs out.
    pub not_after: u64,
    /// The way through brokers; `None`: `addresses` are the controller's own.
    #[serde(deserialize_with = "or_none")]
    pub broker: Option<BrokerAccess>,
}

/// A record from before there were brokers ends here. What else could be wrong with it, its checksum has found.
fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BrokerAccess>, D::Error> {
    Ok(Option::deserialize(deserializer).unwrap_or_default())
}

impl Identity {
    /// With these addresses of controllers before its own, which give way where that is too many. A node that reaches its
    /// controller through brokers stays as it is.
    #[must_use]
    pub fn with_addresses(mut self, first: &[Address]) -> Self {
        if self.broker.is_none() {
            let own = self.addresses.iter().filter(|address| !first.contains(address));
            self.addresses = first.iter().chain(own).take(ADDRESSES_MAX).cloned().collect();
        }
        self
    }

    /// Between this node and its controller.
    pub fn seal(&self) -> Seal {
        let secret = SealSecret::from_bytes(self.seal_secret);
        Seal::new(&secret, &self.controller_seal, &self.site, &self.node)
    }

    /// As this node, towards its controller or the brokers.
    ///
    /// # Errors
    /// The certificate and key do not fit each other.
    pub fn tls(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        let own = (&self.certificate_der[..], &self.key_der[..]);
        Ok(Arc::new(client_config(self.trust(), Some(own))?))
    }

    /// The servers that this node takes for its controller, or for the brokers in between.
    pub fn trust(&self) -> Trust {
        match &self.broker {
            Some(broker) => Trust::Broker(broker.ca_fingerprint),
            None => Trust::Controller(Root::Certificate(self.ca_der.clone())),
        }
    }

    /// Whether this token, for this name, joins as who we are already. A controller that was reinstalled has
    /// another CA: it is another site, also by the same name.
    pub fn is_of(&self, token: &JoinToken, name: &NodeId) -> bool {
        (&self.site, &self.node) == (&token.site, name)
            && join::fingerprint(&self.ca_der) == token.ca_fingerprint
    }

    /// When to renew: after two thirds of the certificate's life. Seconds since 1970.
    pub fn renew_at(&self) -> u64 {
        self.issued + self.not_after.saturating_sub(self.issued) / 3 * 2
    }
}
