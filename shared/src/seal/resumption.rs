//! A secret that a session leaves for the next one between the same two. Decides how old it may be.
//!
//! Both sides count its age from the last session that was made of agreements, each by its own clock: sessions that
//! follow each other do not make it younger. Its bytes are wiped when it is dropped, in whatever way.
//!
//! Absent: how a session begins with it (`greeting.rs`), and where it is kept meanwhile (`agent/link/src/seal.rs`,
//! `controller/src/link/admitted.rs`).

use std::time::Duration;

use blake3::{Hash, Hasher, OutputReader};
use zeroize::Zeroizing;

use super::greeting::keys_of;
use super::session::Keys;
use super::{PacketError, Seal, VERSION};
use crate::MonoTime;

/// Sessions in a row without agreements of fresh keys: a secret stolen from a process's memory is of use for so many.
const SESSIONS_MAX: u8 = 64;
/// The time for which a secret stolen from a process's memory is of use. A ticket of TLS lasts as long, and where TLS is not
/// resumed either, these agreements are a small part of a connection.
const AGE_MAX: Duration = Duration::from_secs(12 * 3600);

/// See the module's head.
pub struct Again {
    /// In one place from its making to its end, so that no move leaves a copy.
    secret: Box<Zeroizing<[u8; 32]>>,
    /// The sessions since the last one that was made of agreements.
    sessions: u8,
    /// When that one began; `None` for what that one leaves, until it is taken.
    since: Option<MonoTime>,
}

/// The last session that was made of agreements, for one that follows it.
#[derive(Default)]
pub(super) struct Origin {
    sessions: u8,
    since: Option<MonoTime>,
}

impl Origin {
    /// The next bytes, unless it is time for a session of agreements.
    pub fn leave(self, derived: &mut OutputReader) -> Option<Again> {
        let Self { sessions, since } = self;
        (sessions < SESSIONS_MAX).then(|| {
            let mut secret = Box::new(Zeroizing::new([0; 32]));
            derived.fill(&mut **secret);
            Again { secret, sessions, since }
        })
    }
}

impl Again {
    /// The same from now on, where it comes of agreements.
    pub(super) fn begins(mut self, now: MonoTime) -> Self {
        self.since.get_or_insert(now);
        self
    }

    /// Whether it is too old to begin a session.
    pub fn is_old(&self, now: MonoTime) -> bool {
        self.since.is_none_or(|since| now.since(since) >= AGE_MAX)
    }

    /// The agent's proof that it has the secret.
    pub(super) fn proof(&self, fresh: &[u8; 32]) -> Hash {
        let mut hasher = Hasher::new_derive_key("muster 2026 proof of the session before");
        hasher.update(&**self.secret).update(&[VERSION]).update(fresh);
        hasher.finalize()
    }

    /// The keys of the next session and the controller's proof, of the secret and what both sides sent.
    pub(super) fn derive(
        &self,
        seal: &Seal,
        agent: &[u8; 32],
        controller: &[u8; 32],
    ) -> Result<(Keys, Hash), PacketError> {
        let long_lived = seal.keys.as_ref().ok_or(PacketError::Seal)?;
        let mut hasher = Hasher::new_derive_key("muster 2026 session after another");
        hasher.update(&long_lived.sessions).update(&**self.secret);
        hasher.update(&[VERSION]).update(agent).update(controller);
        let origin = Origin { sessions: self.sessions.saturating_add(1), since: self.since };
        Ok(keys_of(&hasher, origin))
    }
}

impl std::fmt::Debug for Again {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Again")
    }
}
