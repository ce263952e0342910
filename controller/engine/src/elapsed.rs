//! Time that passed since something began, before and after a restart of the controller. The store keeps when that was.

use std::time::Duration;

use muster_shared::MonoTime;

/// Time since a beginning, which may lie before the start of this controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elapsed {
    /// Time that had passed when this part began.
    earlier: Duration,
    /// When this part began.
    since: MonoTime,
}

impl Elapsed {
    /// Begins now.
    pub fn starting(now: MonoTime) -> Self {
        Self::load(Duration::ZERO, now)
    }

    /// Began this long ago, by the store.
    pub fn load(earlier: Duration, now: MonoTime) -> Self {
        Self { earlier, since: now }
    }

    /// The time that has passed until now.
    pub fn so_far(self, now: MonoTime) -> Duration {
        self.earlier + now.since(self.since)
    }

    /// When so much time has passed; at the earliest when this part began.
    pub fn reaches(self, time: Duration) -> MonoTime {
        self.since + time.saturating_sub(self.earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_over_a_restart() {
        let at = |seconds| MonoTime(Duration::from_secs(seconds));
        let ten = Duration::from_secs(10);
        let before = Elapsed::starting(at(100));
        assert_eq!((before.so_far(at(104)), before.reaches(ten)), (Duration::from_secs(4), at(110)));
        let after = Elapsed::load(before.so_far(at(104)), at(1));
        assert_eq!((after.so_far(at(3)), after.reaches(ten)), (Duration::from_secs(6), at(7)));
        assert_eq!(Elapsed::load(ten, at(2)).reaches(ten), at(2), "it is over at once");
    }
}
