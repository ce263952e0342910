//! The token of a user, who asks the controller over the network. It names the user, and the CA of the controller's
//! certificate: so a user trusts the right controller from the first connection on.
//!
//! Absent: join tokens of servers (`join.rs`), and which tokens count (`controller/engine/src/user.rs`).

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use thiserror::Error;

/// The begin of each token.
const PREFIX: &str = "muster-user.";
/// A damaged copy is told apart from a token that is not known.
const CHECKSUM: usize = 4;

/// Shown once, when the user is made.
#[derive(Clone, PartialEq, Eq)]
pub struct UserToken {
    /// The user.
    pub name: String,
    /// [`fingerprint`](crate::join::fingerprint) of the CA of the controller's certificate.
    pub ca_fingerprint: [u8; 32],
    /// The random secret.
    pub secret: [u8; 32],
}

/// The text is no token, or not all of it.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("that is no user's token: want the whole text that 'muster user create' printed, '{PREFIX}NAME.…'")]
pub struct UserTokenError;

impl UserToken {
    /// The digest that the controller keeps in place of the secret. It does not reveal 256 random bits.
    pub fn digest(&self) -> [u8; 32] {
        blake3::derive_key("muster 2026 user token secret", &self.secret)
    }

    fn checksum(&self) -> [u8; CHECKSUM] {
        let mut hasher = blake3::Hasher::new_derive_key("muster 2026 user token checksum");
        hasher.update(self.name.as_bytes()).update(&self.ca_fingerprint).update(&self.secret);
        let mut sum = [0; CHECKSUM];
        sum.copy_from_slice(&hasher.finalize().as_bytes()[..CHECKSUM]);
        sum
    }
}

impl fmt::Display for UserToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.ca_fingerprint[..], &self.secret, &self.checksum()].concat();
        write!(f, "{PREFIX}{}.{}", self.name, BASE64URL_NOPAD.encode(&bytes))
    }
}

impl fmt::Debug for UserToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserToken of {}", self.name)
    }
}

impl FromStr for UserToken {
    type Err = UserTokenError;

    fn from_str(text: &str) -> Result<Self, UserTokenError> {
        let (name, encoded) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('.')).ok_or(UserTokenError)?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| UserTokenError)?;
        let (ca_fingerprint, rest) = bytes.split_first_chunk::<32>().ok_or(UserTokenError)?;
        let (secret, sum) = rest.split_first_chunk::<32>().ok_or(UserTokenError)?;
        let token = Self { name: name.to_owned(), ca_fingerprint: *ca_fingerprint, secret: *secret };
        if token.checksum() == *sum { Ok(token) } else { Err(UserTokenError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_damage_is_seen() {
        let token = UserToken { name: "anna.b@example.org".into(), ca_fingerprint: [1; 32], secret: [2; 32] };
        let text = token.to_string();
        assert!(text.starts_with("muster-user.anna.b@example.org."), "{text}");
        assert_eq!(text.parse::<UserToken>().unwrap(), token);
        assert!(!format!("{token:?}").contains(&BASE64URL_NOPAD.encode(&[2; 32])));
        for at in 0..text.len() {
            let (before, after) = text.split_at(at);
            assert!(before.parse::<UserToken>().is_err(), "{before}");
            let other = if after.starts_with('A') { 'B' } else { 'A' };
            let changed = format!("{before}{other}{}", &after[1..]);
            assert!(changed.parse::<UserToken>().is_err(), "{changed}");
        }
        assert!(format!("{text}A").parse::<UserToken>().is_err());
        assert!("".parse::<UserToken>().is_err());
    }
}
