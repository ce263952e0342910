//! The breaker counts how often a resource was corrected, or made again for an agent that had lost
//! it. The count says when the next correction may start.
//!
//! Absent: which resources may be corrected, and the event when the breaker opens (`drift/correct.rs`).

use std::time::Duration;

use muster_shared::MonoTime;

use crate::record::{Corrections, Rebuilds};

/// Corrections before the breaker opens. An administrator who tries something three times is no
/// fight yet. Another tool that runs every few minutes is found within half an hour.
pub const CORRECTIONS_MAX: u32 = 5;
/// After this long without a correction a resource counts as calm. An open breaker then allows one
/// more try.
pub const CALM: Duration = Duration::from_secs(3600);
/// Interval between two corrections: none before the first, this before the second, doubled each
/// time. With the bound above a fight ends within [`SPACING_TOTAL`] and the time of its jobs.
const SPACING: Duration = Duration::from_secs(1);
/// The sum of all intervals.
pub const SPACING_TOTAL: Duration = Duration::from_secs(1 + 2 + 4 + 8);

/// Corrections and rebuilds of a resource, as long as they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Breaker {
    /// Corrections since the last calm.
    pub corrected: Strikes,
    /// Rebuilds for an agent that had lost the thing. They count apart: a fight over a file is no
    /// reason to leave the file out on a server that was replaced.
    pub made_again: Strikes,
    /// Corrections have stopped.
    pub open: bool,
    /// The time of the next look, if no message comes before.
    pub due: Option<MonoTime>,
}

/// A count since the last calm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strikes {
    pub count: u32,
    /// When the last one started, or when the controller started.
    since: MonoTime,
    /// Time from the last one to the start of the controller. Zero if it started later.
    earlier: Duration,
    /// Time between the first and the last.
    pub lasted: Duration,
}

/// When the next correction or rebuild may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTry {
    Now,
    At(MonoTime),
    /// Not before the resource was calm for [`CALM`].
    AfterCalm(MonoTime),
}

impl Breaker {
    pub fn new(now: MonoTime) -> Self {
        let none = Strikes::new(now);
        Self { corrected: none, made_again: none, open: false, due: None }
    }

    /// Builds the breaker from the store.
    pub fn load(record: &Corrections, now: MonoTime) -> Self {
        let Corrections { count, ago, lasted, open, made_again } = *record;
        let load = |count, earlier, lasted| Strikes { count, since: now, earlier, lasted };
        let made_again = match made_again {
            Some(Rebuilds { count, ago, lasted }) => load(count, ago, lasted),
            None => Strikes::new(now),
        };
        Self { corrected: load(count, ago, lasted), made_again, open, due: None }
    }

    /// The record for the store.
    pub fn record(&self, now: MonoTime) -> Corrections {
        let Self { corrected, made_again, open, .. } = *self;
        let Strikes { count, lasted, .. } = made_again;
        let made_again = (count > 0).then(|| Rebuilds { count, ago: made_again.ago(now), lasted });
        let Strikes { count, lasted, .. } = corrected;
        Corrections { count, ago: corrected.ago(now), lasted, open, made_again }
    }

    /// When the next correction may begin.
    pub fn next_try(&self, now: MonoTime) -> NextTry {
        self.corrected.next_try(now)
    }

    /// A correction has ended. Its job may have waited for its node, so the time counts from the end.
    pub fn end(&mut self, now: MonoTime) {
        self.corrected.lasted += self.corrected.ago(now);
        (self.corrected.since, self.corrected.earlier) = (now, Duration::ZERO);
    }

    /// Counts a correction that starts.
    pub fn strike(&mut self, now: MonoTime) {
        // An open breaker allows one try.
        let calm = if self.open { CORRECTIONS_MAX - 1 } else { 0 };
        self.corrected.strike(now, calm);
        self.open = false;
    }
}

impl Strikes {
    fn new(now: MonoTime) -> Self {
        Self { count: 0, since: now, earlier: Duration::ZERO, lasted: Duration::ZERO }
    }

    pub fn ago(&self, now: MonoTime) -> Duration {
        self.earlier + now.since(self.since)
    }

    pub fn next_try(&self, now: MonoTime) -> NextTry {
        let ago = self.ago(now);
        let after = |time: Duration| now + time.saturating_sub(ago);
        if self.count == 0 || ago >= CALM {
            return NextTry::Now;
        }
        if self.count >= CORRECTIONS_MAX {
            return NextTry::AfterCalm(after(CALM));
        }
        let spacing = SPACING * (1 << (self.count - 1));
        if ago >= spacing { NextTry::Now } else { NextTry::At(after(spacing)) }
    }

    /// Counts one more. `calm`: the count that remains after a calm.
    pub fn strike(&mut self, now: MonoTime, calm: u32) {
        let ago = self.ago(now);
        if ago >= CALM {
            (self.count, self.lasted) = (calm, Duration::ZERO);
        } else if self.count > 0 {
            self.lasted += ago;
        }
        self.count += 1;
        (self.since, self.earlier) = (now, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime(Duration::from_secs(seconds))
    }

    /// Strikes as soon as the breaker allows, from `from` on: each correction is undone at once.
    fn struck(breaker: &mut Breaker, from: MonoTime) -> (Vec<u64>, MonoTime) {
        let (mut times, mut now) = (Vec::new(), from);
        loop {
            match breaker.next_try(now) {
                NextTry::Now => {
                    breaker.strike(now);
                    times.push(now.since(from).as_secs());
                }
                NextTry::At(due) => now = due,
                NextTry::AfterCalm(due) => {
                    breaker.open = true;
                    return (times, due);
                }
            }
        }
    }

    #[test]
    fn a_fight_is_fought_ever_more_slowly_and_given_up() {
        let mut breaker = Breaker::new(at(0));
        let (times, due) = struck(&mut breaker, at(10));
        assert_eq!(times, [0, 1, 3, 7, 15]);
        assert_eq!((breaker.corrected.count, breaker.corrected.lasted), (CORRECTIONS_MAX, SPACING_TOTAL));
        assert_eq!(due, at(25) + CALM);
        let (times, next) = struck(&mut breaker, due);
        assert_eq!(times, [0], "one more try");
        assert_eq!(next, due + CALM);
        breaker.strike(next);
        assert!(!breaker.open);
        assert_eq!(breaker.next_try(next + CALM), NextTry::Now);
        breaker.strike(next + CALM);
        assert_eq!(breaker.corrected.count, 1, "the last try held");
    }

    #[test]
    fn a_correction_that_waited_for_its_node_counts_from_its_end() {
        let mut breaker = Breaker::new(at(0));
        breaker.strike(at(0));
        breaker.end(at(0) + CALM * 2);
        let (times, _) = struck(&mut breaker, at(1) + CALM * 2);
        assert_eq!(times.len(), CORRECTIONS_MAX as usize - 1);
    }

    #[test]
    fn what_was_kept_goes_on_where_it_was() {
        let mut breaker = Breaker::new(at(0));
        let (_, due) = struck(&mut breaker, at(0));
        let kept = breaker.record(at(1000));
        // The clock starts over with the controller.
        let loaded = Breaker::load(&kept, at(5));
        assert_eq!(loaded.next_try(at(5)), NextTry::AfterCalm(at(5) + due.since(at(1000))));
        assert_eq!(loaded.record(at(5)), kept);
    }

    #[test]
    fn now_and_then_is_no_fight() {
        let mut breaker = Breaker::new(at(0));
        for n in 1..100 {
            let now = at(n * CALM.as_secs());
            assert_eq!(breaker.next_try(now), NextTry::Now);
            breaker.strike(now);
            assert_eq!(breaker.corrected.count, 1);
        }
    }
}
