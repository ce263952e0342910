//! Random bytes of the system.

use rustls::crypto::ring::default_provider;
use thiserror::Error;

/// The system gives no random bytes.
#[derive(Clone, Copy, Debug, Error)]
#[error("the system gives no random bytes")]
pub struct NoRandom;

/// Draws unpredictable bytes.
///
/// # Errors
/// [`NoRandom`]
pub fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    default_provider().secure_random.fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}
