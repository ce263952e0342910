//! The pace at which a user may ask over the network: so many requests at once, and after that so many a second. One
//! user's script that asks without end leaves room for the others.
//!
//! Absent: connections of one address (`accept.rs`), and what waits for the driver (`driver/handle.rs`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A hundred a second.
const EVERY: Duration = Duration::from_millis(10);
/// Requests at once.
const BURST: u32 = 200;
/// Users that are remembered before those are forgotten who have not asked for a while.
const REMEMBERED: usize = 1000;

/// When each user has used up what they asked so far.
#[derive(Debug)]
pub(super) struct RateLimit {
    every: Duration,
    burst: u32,
    used_up: Mutex<BTreeMap<String, Instant>>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self::new(EVERY, BURST)
    }
}

impl RateLimit {
    /// So many at once, and then one in that time.
    pub fn new(every: Duration, burst: u32) -> Self {
        Self { every, burst, used_up: Mutex::default() }
    }

    /// Takes a request of a user whose token counts.
    ///
    /// # Errors
    /// How long to wait: it is one too many.
    pub fn take(&self, user: &str, now: Instant) -> Result<(), Duration> {
        let mut used_up = self.used_up.lock().unwrap_or_else(PoisonError::into_inner);
        if used_up.len() >= REMEMBERED {
            used_up.retain(|_, at| *at > now);
        }
        let next = self.next(&used_up, user, now)?;
        used_up.insert(user.to_owned(), next);
        Ok(())
    }

    /// Whether there is room for a request, which is not taken.
    ///
    /// # Errors
    /// How long to wait.
    pub fn has_room(&self, user: &str, now: Instant) -> Result<(), Duration> {
        let used_up = self.used_up.lock().unwrap_or_else(PoisonError::into_inner);
        self.next(&used_up, user, now).map(drop)
    }

    /// When a user would have used up one request more.
    fn next(
        &self,
        used_up: &BTreeMap<String, Instant>,
        user: &str,
        now: Instant,
    ) -> Result<Instant, Duration> {
        let at = used_up.get(user).copied().unwrap_or(now).max(now);
        let (next, most) = (at + self.every, now + self.every * self.burst);
        if next > most { Err(next - most) } else { Ok(next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_asks_so_often_and_no_other_waits() {
        let (pace, now) = (RateLimit::default(), Instant::now());
        let taken = |user: &str, now| (0..1000).filter(|_| pace.take(user, now).is_ok()).count();
        assert_eq!(taken("anna", now), 200);
        assert_eq!(pace.take("anna", now), Err(EVERY));
        assert_eq!(taken("ben", now), 200);
        assert_eq!(taken("anna", now + Duration::from_secs(1)), 100);
        assert_eq!(taken("anna", now + Duration::from_secs(60)), 200);
        for number in 0..5000 {
            let asks = now + Duration::from_secs(100 + number);
            pace.take(&format!("u{number}"), asks).unwrap();
        }
        assert!(pace.used_up.lock().unwrap().len() <= REMEMBERED, "those who ask no more are forgotten");
    }
}
