//! Time for the pure machines: a number that only grows, given by the caller. And how a time of day
//! is written.

use std::ops::Add;
use std::time::Duration;

/// Time since an arbitrary start, from the caller's monotonic clock. Values of different runs
/// cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(pub Duration);

impl MonoTime {
    /// The time since `earlier`; zero if `earlier` is in the future.
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

/// A time of day as operators read it, to the minute: `2026-11-22 13:42 UTC`. `seconds` are since 1970.
pub fn utc(seconds: u64) -> String {
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    // Howard Hinnant's civil_from_days: years that begin in March, in eras of 400.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// A span as operators read it, by its two largest units: `2 d 3 h`, `5 min 7 s`.
pub fn span(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    let first = units.iter().position(|(_, size)| seconds >= *size).unwrap_or(units.len() - 1);
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, size) in units.iter().skip(first).take(2) {
        let count = left / size;
        left %= size;
        if count > 0 || parts.is_empty() {
            parts.push(format!("{count} {unit}"));
        }
    }
    parts.join(" ")
}

/// A hint about a server's clock that is this many seconds ahead of the controller's, or behind it.
pub fn clock_off(ahead: i64) -> String {
    let side = if ahead < 0 { "behind" } else { "ahead of" };
    format!(
        "{} {side} the controller's clock: set the one that is wrong (chronyc makestep, timedatectl)",
        span(ahead.unsigned_abs())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (427, "7 min 7 s"),
            (3601, "1 h"),
            (7500, "2 h 5 min"),
            (86_400, "1 d"),
            (183_600, "2 d 3 h"),
            (63_154_800, "730 d 23 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
        assert!(clock_off(-3600).starts_with("1 h behind the controller's clock"));
        assert!(clock_off(i64::MIN).starts_with("106751991167300 d"));
    }

    #[test]
    fn times_of_day() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_732_369_352, "2024-11-23 13:42 UTC"),
            (4_102_444_800, "2100-01-01 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
