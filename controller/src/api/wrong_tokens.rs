//! The pace at which a network may show tokens that do not count: so many at once, and after that so many a second. Each
//! of them is a question for the driver, which answers agents, too. Decides that a token is not looked at for now. One
//! that was made here or counted before is always looked at, so that others of its network keep no such user out. After
//! a start nothing is known of any token, and all of a network wait their turn while one of them shows wrong ones.
//!
//! Absent: which tokens count (`controller/engine/src/user.rs`), and the pace of users (`rate_limit.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::rate_limit::RateLimit;
use super::tls::network;

/// A hundred a second.
const EVERY: Duration = Duration::from_millis(10);
/// Tokens at once: a program that has an old one asks again and again until somebody sees it.
const BURST: u32 = 1000;
/// Tokens that are remembered because they counted. Of more, those that were shown last.
const REMEMBERED: usize = 20_000;

/// The tokens that came from each network.
#[derive(Debug)]
pub(super) struct WrongTokens {
    rate_limit: RateLimit,
    /// When each token that counts was shown last, by digest.
    counted: Mutex<BTreeMap<[u8; 32], Instant>>,
}

impl Default for WrongTokens {
    fn default() -> Self {
        Self { rate_limit: RateLimit::new(EVERY, BURST), counted: Mutex::default() }
    }
}

impl WrongTokens {
    /// Whether a token from this address is looked at.
    ///
    /// # Errors
    /// Not for so long: too many from its network did not count.
    pub fn may_show(&self, from: IpAddr, token: &[u8; 32], now: Instant) -> Result<(), Duration> {
        let has_counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).contains_key(token);
        if has_counted { Ok(()) } else { self.rate_limit.has_room(&network(from).to_string(), now) }
    }

    /// The token counts: it was made now, or looked at.
    pub fn counts(&self, token: [u8; 32], now: Instant) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.insert(token, now);
        if counted.len() > REMEMBERED {
            let mut shown: Vec<Instant> = counted.values().copied().collect();
            shown.sort_unstable();
            let middle = shown[shown.len() / 2];
            counted.retain(|_, shown| *shown >= middle);
        }
    }

    /// The token from this address does not count.
    pub fn does_not_count(&self, from: IpAddr, token: &[u8; 32], now: Instant) {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
        // Several that were looked at together may be more than there was room for.
        let _ = self.rate_limit.take(&network(from).to_string(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_shows_so_many_and_keeps_no_known_user_out() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (attacker, neighbour, other) =
            (address("2001:db8::1"), address("2001:db8::2"), address("2001:db8:0:1::1"));
        wrong.counts([1; 32], now);
        let shown = |from, now| {
            let shows = |_: &u32| {
                let looked_at = wrong.may_show(from, &[9; 32], now).is_ok();
                if looked_at {
                    wrong.does_not_count(from, &[9; 32], now);
                }
                looked_at
            };
            (0..5000).filter(shows).count()
        };
        assert_eq!(shown(attacker, now), 1000);
        assert_eq!(shown(neighbour, now), 0, "it is of the same network");
        assert_eq!(wrong.may_show(neighbour, &[2; 32], now), Err(EVERY));
        assert_eq!(wrong.may_show(neighbour, &[1; 32], now), Ok(()), "this one counted before");
        assert_eq!(wrong.may_show(other, &[2; 32], now), Ok(()));
        assert_eq!(shown(attacker, now + Duration::from_secs(1)), 100);
        wrong.does_not_count(neighbour, &[1; 32], now + Duration::from_secs(1));
        assert!(wrong.may_show(neighbour, &[1; 32], now + Duration::from_secs(1)).is_err(), "it was revoked");
    }

    #[test]
    fn tokens_that_are_shown_are_remembered() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let used = [[0; 32], [255; 32]];
        for number in 0..50_000_u64 {
            let mut token = [7; 32];
            token[..8].copy_from_slice(&number.to_be_bytes());
            let now = now + Duration::from_millis(number);
            wrong.counts(token, now);
            used.iter().filter(|_| number % 5000 == 0).for_each(|token| wrong.counts(*token, now));
            assert!(wrong.counted.lock().unwrap().len() <= REMEMBERED);
        }
        let counted = wrong.counted.lock().unwrap();
        assert!(used.iter().all(|token| counted.contains_key(token)));
    }
}
