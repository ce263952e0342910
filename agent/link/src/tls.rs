//! TLS 1.3 towards the controller, and random bytes.
//!
//! Absent: which certificates are trusted (`shared/tls/src/lib.rs`).

pub use muster_broker::Root;
use muster_broker::{Trust, client_config};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, Error};

/// As a node with its certificate and key (PKCS#8), or as a joiner with none. The site's CA is the only root.
///
/// # Errors
/// The certificate and key do not fit each other.
pub fn client(root: Root, identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig, Error> {
    client_config(Trust::Controller(root), identity)
}

/// Random bytes of the system.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    default_provider().secure_random.fill(&mut bytes)?;
    Ok(bytes)
}
