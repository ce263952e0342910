//! The rate of joins with a token: even, with a burst of one second's worth.

use std::time::Duration;

use muster_shared::{MonoTime, Rate};

/// The longest wait that a server is told. Servers told before may never come back.
const LATER_MAX: Duration = Duration::from_secs(60);

/// The pace of one token. A controller restart starts it again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// When the next join would be due if all had come one by one.
    next: MonoTime,
    /// The latest time that an early server was told.
    told: MonoTime,
}

impl Pace {
    /// Counts a join.
    ///
    /// # Errors
    /// The time to wait. Each early server is told another time, so that they do not all return at once.
    pub fn take(&mut self, rate: Rate, now: MonoTime) -> Result<(), Duration> {
        let interval = rate.interval();
        let of_a_second = Duration::from_secs(1).as_nanos() / interval.as_nanos().max(1);
        let burst = u32::try_from(of_a_second).unwrap_or(u32::MAX).max(1);
        let ahead = interval * (burst - 1);
        let next = self.next.max(now);
        if next.since(now) <= ahead {
            self.next = next + interval;
            return Ok(());
        }
        let free = now + (next.since(now) - ahead);
        let turn = self.told.max(free).min(now + LATER_MAX.max(free.since(now)));
        self.told = turn + interval;
        Err(turn.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> MonoTime {
        MonoTime::default() + Duration::from_millis(milliseconds)
    }

    /// The number of nodes that join in ten seconds, if one asks each 10 ms.
    fn joined(rate: &str) -> usize {
        let (rate, mut pace) = (rate.parse().unwrap(), Pace::default());
        (0..1000).filter(|step| pace.take(rate, at(step * 10)).is_ok()).count()
    }

    #[test]
    fn no_more_join_than_the_rate_says() {
        for (rate, most) in [("1/s", 10), ("30/m", 5), ("10/s", 109), ("1/h", 1), ("1000000/s", 1000)] {
            assert_eq!(joined(rate), most, "{rate}");
        }
    }

    #[test]
    fn those_who_wait_come_back_one_by_one() {
        let (rate, mut pace) = ("1/s".parse().unwrap(), Pace::default());
        assert_eq!(pace.take(rate, at(0)), Ok(()));
        let told: Vec<u64> = (0..3).map(|_| pace.take(rate, at(0)).unwrap_err().as_millis() as u64).collect();
        assert_eq!(told, [1000, 2000, 3000]);
        assert!(told.iter().all(|after| pace.take(rate, at(*after)).is_ok()));
        // Even very many nodes must not be told to come back in a year.
        let far = (0..10_000).map(|_| pace.take(rate, at(3000)).unwrap_err()).max().unwrap();
        assert_eq!(far, LATER_MAX);
        let (hourly, mut pace) = ("1/h".parse().unwrap(), Pace::default());
        assert_eq!(pace.take(hourly, at(0)), Ok(()));
        assert_eq!(pace.take(hourly, at(0)), Err(Duration::from_secs(3600)));
    }
}
