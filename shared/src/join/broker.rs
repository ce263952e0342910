//! The facts that an agent needs about the brokers between it and its controller.
//!
//! Absent: the connection through a broker (`agent/link/src/broker.rs`).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ADDRESSES_MAX, Address};
use crate::seal::SealPublic;

/// Bytes of a user's name and of a password: more than any broker wants.
const CREDENTIAL_MAX: usize = 256;

/// The way through brokers, in a token and in what an agent keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerAccess {
    /// Addresses at which clients without a certificate of the site may connect; at most [`ADDRESSES_MAX`].
    pub join_addresses: Vec<Address>,
    /// [`fingerprint`](super::fingerprint) of the CA of the brokers' certificates. They send it along.
    pub ca_fingerprint: [u8; 32],
    /// The credentials to show at `join_addresses`.
    pub credentials: Option<Credentials>,
    /// The controller's sealing key: nobody else may read what a joiner says.
    pub controller_seal: SealPublic,
}

/// A user of a broker.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    pub user: String,
    /// Never shown.
    pub password: String,
}

impl Credentials {
    /// Whether name and password have a length that can be sent.
    pub fn is_bounded(&self) -> bool {
        !self.user.is_empty() && self.user.len() <= CREDENTIAL_MAX && self.password.len() <= CREDENTIAL_MAX
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials of {}", self.user)
    }
}

impl BrokerAccess {
    /// Whether everything has the length that it may have.
    pub fn is_bounded(&self) -> bool {
        (1..=ADDRESSES_MAX).contains(&self.join_addresses.len())
            && self.credentials.as_ref().is_none_or(Credentials::is_bounded)
    }
}
