//! Rates such as `10/s`, `30/m`, `100/h`.
//!
//! Absent: the pace of joins with a token (`controller/engine/src/node/join_token/pace.rs`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A number of times per second, minute or hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate {
    times: u32,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
}

/// The text is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("want a rate such as 10/s, 30/m or 100/h, of at most {max}", max = Rate::MAX)]
pub struct RateError;

impl Rate {
    /// The most times in a unit.
    pub const MAX: u32 = 1_000_000;

    /// Between two of them.
    pub fn interval(self) -> Duration {
        let unit = match self.unit {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3600,
        };
        Duration::from_secs(unit) / self.times
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (times, unit) = text.split_once('/').ok_or(RateError)?;
        let unit = match unit {
            "s" => Unit::Second,
            "m" => Unit::Minute,
            "h" => Unit::Hour,
            _ => return Err(RateError),
        };
        let is_number = times.bytes().all(|byte| byte.is_ascii_digit());
        let times = times.parse().ok().filter(|times| is_number && (1..=Self::MAX).contains(times));
        Ok(Self { times: times.ok_or(RateError)?, unit })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Second => 's',
            Unit::Minute => 'm',
            Unit::Hour => 'h',
        };
        write!(f, "{}/{unit}", self.times)
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;

    fn try_from(text: String) -> Result<Self, RateError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, interval) in [("10/s", 100), ("30/m", 2_000), ("3600/h", 1_000), ("1/h", 3_600_000)] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.interval(), rate.to_string().as_str()), (Duration::from_millis(interval), text));
        }
        for text in
            ["", "10", "0/s", "/s", "10/", "10/d", "-1/s", "+1/s", "1.5/s", "1/s/s", "1000001/s", " 1/s"]
        {
            assert_eq!(text.parse::<Rate>(), Err(RateError), "{text}");
        }
    }
}
