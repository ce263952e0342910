//! The way in which a node joins the site: the token from an operator, the request, and the answer.
//!
//! ```text
//!   token    = "muster1-" base64url( postcard(JoinToken) · checksum (4 bytes) )
//!            | "muster2-" base64url( postcard(JoinToken) · postcard(BrokerAccess) · checksum (4 bytes) )
//!   request  = version (1 byte) · postcard(JoinRequest)      on topic::join_request
//!   answer   = version (1 byte) · postcard(JoinAnswer)       on topic::join_answer
//! ```
//!
//! The joiner connects with TLS and no certificate of its own. The server sends its chain with the site's CA
//! last: the joiner takes that CA as its only root if its [`fingerprint`] is the token's, and verifies the
//! server against it for the usage *server authentication* (nodes' certificates lack it); names are not
//! compared. So only the controller ever receives the secret. Nothing here is sealed except
//! [`JoinRequest::Renew`].
//!
//! With a broker in between ([`JoinToken::broker`]), request and answer are sealed as well: [`relayed`].
//!
//! Absent: whether a token is valid, used up or expired (`controller/engine/src/node/join_token.rs`).

mod broker;
pub mod relayed;

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::Duration;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::broker::{BrokerAccess, Credentials};
use crate::seal::{Nonce, Seal, SealPublic};
use crate::{NodeId, SiteId};

/// The version this build writes and reads.
pub const VERSION: u8 = 1;
/// The largest request or answer: two certificates or one request for one, and some text.
pub const JOIN_MAX: usize = 8 * 1024;
/// The most addresses in a token: a controller is reached in a few networks, by name and by number.
pub const ADDRESSES_MAX: usize = 8;
/// A client id or the nonce in the join topics: long enough for 128 bits in hex.
pub const NONCE_MAX: usize = 32;
/// A topic's nonce has 128 bits in hex; a shorter one would be somebody's name.
const NONCE_MIN: usize = 8;

/// The most bytes of a token's text: one with the longest site and addresses is shorter.
pub const TOKEN_MAX: usize = 8192;
const PREFIX: &str = "muster1-";
/// The prefix of tokens for agents that reach their controller through brokers. An older agent does not know them.
const BROKER_PREFIX: &str = "muster2-";
const CHECKSUM: usize = 4;
/// A host name and a port.
const ADDRESS_MAX: usize = 253 + 6;
/// A certificate (request) with an elliptic curve key and a name of 253 letters is about 800 bytes.
const DER_MAX: usize = 2048;
const AGENT_VERSION_MAX: usize = 64;
const REASON_MAX: usize = 1024;

/// Whether a client without a certificate may have this id.
pub fn is_nonce(id: &str) -> bool {
    (NONCE_MIN..=NONCE_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Names a token; may be shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenId(pub [u8; 8]);

/// The secret that proves possession of a token. Never shown; the controller keeps only
/// its [`digest`](Self::digest).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSecret(pub [u8; 16]);

/// An address of a controller: `host:port`, `1.2.3.4:port` or `[v6]:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    text: String,
    port: u16,
}

/// The token that an operator gives to a server so that the server may join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The site to join.
    pub site: SiteId,
    /// The addresses of the controller, or of the brokers for nodes, to be tried in this order; at most
    /// [`ADDRESSES_MAX`].
    pub addresses: Vec<Address>,
    /// [`fingerprint`] of the site's CA certificate.
    pub ca_fingerprint: [u8; 32],
    /// The token's id.
    pub id: TokenId,
    pub secret: TokenSecret,
    /// Seconds since 1970 (UTC); refused from then on.
    pub expires: u64,
    /// The way through brokers; `None`: agents connect to the controller itself.
    #[serde(skip)]
    pub broker: Option<BrokerAccess>,
}

/// The reason why a text is no token.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// The text is no token at all.
    #[error("this is not a join token: it must begin with '{PREFIX}', as 'muster node token' prints it")]
    Prefix,
    /// A letter is wrong, missing or too many.
    #[error("the join token is damaged: copy it again, whole, as 'muster node token' printed it")]
    Damaged,
    /// Whole, but not of this version.
    #[error("the join token's contents are not understood: was it made by a controller of another version?")]
    Contents,
}

/// The text is not `host:port`.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("'{given}' is not an address: want HOST:PORT, IPV4:PORT or [IPV6]:PORT")]
pub struct AddressError {
    /// The given text, cut to a printable length.
    given: String,
}

/// A server that asks to become a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNode {
    /// [`JoinToken::id`]
    pub token_id: TokenId,
    /// [`JoinToken::secret`]
    pub secret: TokenSecret,
    /// The requested name.
    pub name: NodeId,
    /// A certificate signing request (ECDSA P-256 or Ed25519); only its key and signature count.
    pub csr_der: Vec<u8>,
    /// The node's sealing key.
    pub seal_public: SealPublic,
    pub agent_version: String,
}

/// A server's request, before the server has a valid certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinRequest {
    /// Asks to become a node, with a token.
    Join(NewNode),
    /// Asks for a new certificate for a node whose old one expires soon, or has expired; made by [`renewal`].
    Renew {
        node: NodeId,
        /// The signing request, sealed with the node's key.
        packet: Vec<u8>,
    },
    /// As [`JoinRequest::Join`], from a node of another site that moves here. It is refused where a node has that
    /// name: a token for the name would let it take that node's place.
    Move(NewNode),
}

/// The answer to a [`JoinRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinAnswer {
    /// The node belongs to the site.
    Granted {
        certificate_der: Vec<u8>,
        /// The site's CA: the only root to trust from now on.
        ca_der: Vec<u8>,
        /// The controller's sealing key.
        controller_seal: SealPublic,
        site: SiteId,
        /// The node's name, as it was asked for.
        node: NodeId,
        /// Seconds since 1970 (UTC): when the certificate runs out.
        not_after: u64,
    },
    /// The controller refuses.
    Refused {
        /// A reason for the operator.
        reason: String,
    },
    /// The controller asks for a later try: the token lets no more agents join at once.
    Later {
        /// A reason for the operator.
        reason: String,
        /// Milliseconds until the agent may ask again.
        after: u32,
    },
}

/// The reason why a request or an answer is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum JoinError {
    /// A version this build does not speak.
    #[error("join version {0} is not spoken here (known: {VERSION}): agent and controller differ too much")]
    Version(u8),
    /// The bytes are not postcard of the type, or exceed [`JOIN_MAX`].
    #[error("malformed join message")]
    Malformed,
    /// A field exceeds its bound.
    #[error("{0} is out of bounds")]
    Bounds(&'static str),
    /// A renewal by someone else than the node.
    #[error("the seal does not fit")]
    Seal,
}

/// BLAKE3 of a CA certificate in DER.
pub fn fingerprint(ca_der: &[u8]) -> [u8; 32] {
    *blake3::hash(ca_der).as_bytes()
}

/// Asks for a new certificate: seals the signing request with the node's key. `nonce` is fresh and random.
///
/// # Errors
/// [`JoinError::Bounds`] for a request larger than any this protocol has.
pub fn renewal(seal: &Seal, node: NodeId, nonce: Nonce, csr_der: &[u8]) -> Result<JoinRequest, JoinError> {
    at_most("signing request", csr_der.len(), DER_MAX)?;
    let sealed = seal.seal(&nonce, csr_der).map_err(|_| JoinError::Seal)?;
    Ok(JoinRequest::Renew { node, packet: [&nonce[..], &sealed].concat() })
}

/// Opens [`JoinRequest::Renew`]'s packet: the signing request of the holder of the node's key.
///
/// # Errors
/// [`JoinError::Seal`] if another key sealed the packet.
pub fn open_renewal(seal: &Seal, packet: &[u8]) -> Result<Vec<u8>, JoinError> {
    let (nonce, sealed) = packet.split_first_chunk().ok_or(JoinError::Malformed)?;
    seal.open(nonce, sealed).map_err(|_| JoinError::Seal)
}

impl JoinRequest {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes bytes from outside.
    ///
    /// # Errors
    /// [`JoinError`]; then no part of the bytes may be used.
    pub fn decode(bytes: &[u8]) -> Result<Self, JoinError> {
        let request = decode(bytes)?;
        match &request {
            JoinRequest::Join(NewNode { csr_der, agent_version, .. })
            | JoinRequest::Move(NewNode { csr_der, agent_version, .. }) => {
                at_most("signing request", csr_der.len(), DER_MAX)?;
                at_most("agent version", agent_version.len(), AGENT_VERSION_MAX)?;
            }
            JoinRequest::Renew { packet, .. } => at_most("renewal", packet.len(), DER_MAX + 24 + 16)?,
        }
        Ok(request)
    }
}

fn bounded(reason: impl fmt::Display) -> String {
    let mut reason = reason.to_string();
    reason.truncate(reason.floor_char_boundary(REASON_MAX));
    reason
}

impl JoinAnswer {
    /// A refusal; a reason that is too long is cut.
    pub fn refused(reason: impl fmt::Display) -> Self {
        JoinAnswer::Refused { reason: bounded(reason) }
    }

    /// Asks the agent to try again after a time.
    pub fn later(reason: impl fmt::Display, after: Duration) -> Self {
        let after = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
        JoinAnswer::Later { reason: bounded(reason), after }
    }

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes bytes from outside.
    ///
    /// # Errors
    /// [`JoinError`]; then no part of the bytes may be used.
    pub fn decode(bytes: &[u8]) -> Result<Self, JoinError> {
        let answer = decode(bytes)?;
        match &answer {
            JoinAnswer::Granted { certificate_der, ca_der, .. } => {
                at_most("certificate", certificate_der.len(), DER_MAX)?;
                at_most("CA certificate", ca_der.len(), DER_MAX)?;
            }
            JoinAnswer::Refused { reason } | JoinAnswer::Later { reason, .. } => {
                at_most("reason", reason.len(), REASON_MAX)?;
            }
        }
        Ok(answer)
    }
}

fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_extend(message, vec![VERSION]).expect("these types have no map of unknown length")
}

fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, JoinError> {
    if bytes.len() > JOIN_MAX {
        return Err(JoinError::Malformed);
    }
    let (&version, body) = bytes.split_first().ok_or(JoinError::Malformed)?;
    if version != VERSION {
        return Err(JoinError::Version(version));
    }
    whole(body).ok_or(JoinError::Malformed)
}

/// Reads postcard that must end where the bytes end.
fn whole<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

fn at_most(field: &'static str, size: usize, max: usize) -> Result<(), JoinError> {
    if size <= max { Ok(()) } else { Err(JoinError::Bounds(field)) }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = self.clone();
        written.addresses.truncate(ADDRESSES_MAX);
        const PLAIN: &str = "a token's types have no map of unknown length";
        let mut bytes = postcard::to_stdvec(&written).expect(PLAIN);
        let mut prefix = PREFIX;
        if let Some(broker) = &written.broker {
            prefix = BROKER_PREFIX;
            bytes.extend_from_slice(&postcard::to_stdvec(broker).expect(PLAIN));
        }
        bytes.extend_from_slice(&checksum(&bytes));
        write!(f, "{prefix}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

impl FromStr for JoinToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim_ascii();
        let (text, has_broker) = match (text.strip_prefix(PREFIX), text.strip_prefix(BROKER_PREFIX)) {
            (Some(text), _) => (text, false),
            (None, Some(text)) => (text, true),
            (None, None) => return Err(TokenError::Prefix),
        };
        if text.len() > TOKEN_MAX {
            return Err(TokenError::Damaged);
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| TokenError::Damaged)?;
        let (body, sum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(TokenError::Damaged)?;
        if *sum != checksum(body) {
            return Err(TokenError::Damaged);
        }
        let (mut token, rest): (JoinToken, _) =
            postcard::take_from_bytes(body).map_err(|_| TokenError::Contents)?;
        token.broker = match (has_broker, rest) {
            (true, rest) => Some(whole(rest).filter(BrokerAccess::is_bounded).ok_or(TokenError::Contents)?),
            (false, []) => None,
            (false, _) => return Err(TokenError::Contents),
        };
        if !(1..=ADDRESSES_MAX).contains(&token.addresses.len()) {
            return Err(TokenError::Contents);
        }
        Ok(token)
    }
}

/// Against typing errors, not against malice.
fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    blake3::Hasher::new_derive_key("muster 2026 join token checksum")
        .update(body)
        .finalize_xof()
        .fill(&mut sum);
    sum
}

impl TokenSecret {
    /// The digest that the controller keeps in place of the secret. It does not reveal 128 random bits.
    pub fn digest(&self) -> [u8; 32] {
        blake3::derive_key("muster 2026 join token secret", &self.0)
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret")
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", HEXLOWER.encode_display(&self.0))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TokenId {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| TokenError::Damaged)?;
        bytes.try_into().map(TokenId).map_err(|_| TokenError::Damaged)
    }
}

impl Address {
    /// `host:port`, as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host: a name, or a number without brackets.
    pub fn host(&self) -> &str {
        let host = self.text.rsplit_once(':').map_or("", |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError { given: text.chars().take(80).flat_map(char::escape_default).collect() };
        if text.len() > ADDRESS_MAX {
            return Err(error());
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let valid = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(v6) => v6.is_some_and(|v6| v6.parse::<Ipv6Addr>().is_ok()),
            None => host.parse::<NodeId>().is_ok(),
        };
        let port = port.parse().ok().filter(|port| *port != 0 && valid).ok_or_else(error)?;
        Ok(Self { text: text.to_owned(), port })
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.text
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
