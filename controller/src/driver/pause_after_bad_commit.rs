//! Pauses after our own mistakes: how long the site writes nothing then. The driver drops a commit that is wrong in
//! itself, and the engine continues from the durable state. The cause may return at once, and each time costs a load of
//! the whole store, so the pauses grow.
//!
//! Absent: which errors count as mistakes (`store/failure.rs`).

use std::time::Duration;

use muster_shared::MonoTime;

/// The pause after the second mistake in a row; each further one waits twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause: an operator who repeats a wrong request blocks the site for no longer.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A mistake after this time counts as the first again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The mistakes of late.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    in_a_row: u32,
    last: MonoTime,
}

impl Mistakes {
    /// Records a mistake. If this returns a pause, nothing is written until it is over.
    pub(super) fn made(&mut self, now: MonoTime) -> Option<Duration> {
        if now.since(self.last) >= FORGOTTEN_AFTER {
            self.in_a_row = 0;
        }
        (self.in_a_row, self.last) = (self.in_a_row.saturating_add(1), now);
        let doublings = self.in_a_row.checked_sub(2)?;
        Some(PAUSE_FIRST.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_forgotten() {
        let mut mistakes = Mistakes::default();
        // (seconds since the mistake before, pause)
        let rows = [
            (700, None),
            (0, Some(1)),
            (1, Some(2)),
            (2, Some(4)),
            (4, Some(8)),
            (8, Some(16)),
            (16, Some(32)),
            (32, Some(60)),
            (599, Some(60)),
            (600, None),
            (1, Some(1)),
        ];
        let mut now = MonoTime::default();
        for (row, (after, pause)) in rows.into_iter().enumerate() {
            now = now + Duration::from_secs(after);
            assert_eq!(mistakes.made(now), pause.map(Duration::from_secs), "row {row}");
        }
    }
}
