//! The wait before the agent connects again: exponential backoff with full jitter, from a seed.
//!
//! Absent: the short pause while a change waits for confirmation, and after a restore (`connection.rs`).

use std::time::Duration;

use crate::random::Random;

/// A controller that restarts is back within this, so the first attempts come quickly.
const CEILING_FIRST: Duration = Duration::from_millis(200);
/// A fleet that waits longer than this looks dead to its operator.
const CEILING_MAX: Duration = Duration::from_secs(30);

/// Delays between attempts: each is random between zero and a ceiling that doubles.
#[derive(Clone, Debug)]
pub struct Backoff {
    random: Random,
    ceiling: Duration,
}

impl Backoff {
    /// The same seed gives the same delays.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), ceiling: CEILING_FIRST }
    }

    /// The delay after a connection that held for `held`. If `held` exceeds the present ceiling, the delays
    /// start over.
    pub fn next(&mut self, held: Duration) -> Duration {
        if held > self.ceiling {
            self.ceiling = CEILING_FIRST;
        }
        let ceiling = self.ceiling;
        self.ceiling = (ceiling * 2).min(CEILING_MAX);
        self.random.below(ceiling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_ceiling_and_no_further() {
        let mut backoff = Backoff::new(7);
        for n in 0..20 {
            let ceiling = (CEILING_FIRST * 2u32.pow(n.min(10))).min(CEILING_MAX);
            assert!(backoff.next(Duration::ZERO) <= ceiling, "attempt {n}");
        }
        assert_eq!(backoff.ceiling, CEILING_MAX);
    }

    #[test]
    fn the_backoff_resets_only_after_a_connection_that_held() {
        let mut backoff = Backoff::new(7);
        for _ in 0..10 {
            backoff.next(Duration::ZERO);
        }
        backoff.next(Duration::from_secs(5));
        assert_eq!(backoff.ceiling, CEILING_MAX, "5 s of connection do not excuse 30 s of trouble");
        assert!(backoff.next(Duration::from_secs(60)) <= CEILING_FIRST);
    }

    #[test]
    fn nodes_spread() {
        let delays: std::collections::BTreeSet<_> =
            (0..1000).map(|seed| Backoff::new(seed).next(Duration::ZERO)).collect();
        assert!(delays.len() > 990, "{} different delays", delays.len());
    }
}
