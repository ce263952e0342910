//! Time for the pure machines: a number that only grows, given by the caller.

use std::ops::Add;
use std::time::Duration;

/// Time since an arbitrary start, from the caller's monotonic clock. It means nothing after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(pub Duration);

impl MonoTime {
    /// The time since `earlier`, zero if that lies ahead.
    pub fn since(self, earlier: MonoTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for MonoTime {
    type Output = MonoTime;

    fn add(self, rhs: Duration) -> MonoTime {
        MonoTime(self.0.saturating_add(rhs))
    }
}
