//! The settings of a change's rollout through the members of a `for_each`: `rollout: {batch, pause, max_failures,
//! canary, away}`.
//!
//! Absent: when members begin and when the rollout pauses or aborts (`controller/engine/src/rollout/machine.rs`), and
//! batches of groups (`tree/group_members.rs`).

use std::time::Duration;

use serde_json::Value;

use crate::Limits;
use crate::error::{cut, suggestion_or_all};
use crate::expression::describe;

pub(crate) const KEYS: [&str; 5] = ["away", "batch", "canary", "max_failures", "pause"];
pub(crate) const AWAYS: [&str; 3] = ["fail", "skip", "wait"];
/// Seconds: a day.
const PAUSE_MAX: f64 = 86_400.0;

/// The settings of a `rollout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The most members under way at once.
    pub batch: Share,
    /// The pause after a batch before the next begins.
    pub pause: Duration,
    /// With one more failure, nothing else begins.
    pub max_failures: Share,
    /// The members that go first; none of them may fail or be disturbed until the pause is over.
    pub canary: Share,
    /// The treatment of members whose node is away when their turn comes.
    pub away: Away,
}

/// A share of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// An absolute number.
    Count(u32),
    /// A percentage.
    Percent(u32),
}

/// The treatment of members whose node is away when their turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// Others go first; the member begins when its node is back.
    Skip,
    /// The batch waits for the member.
    Wait,
    /// The member counts as failed until its node is back.
    Fail,
}

impl Share {
    /// The share of this many members, rounded down.
    pub fn of(self, members: usize) -> usize {
        match self {
            Share::Count(count) => count as usize,
            Share::Percent(percent) => members * percent as usize / 100,
        }
    }

    /// The share of this many members, rounded up.
    pub fn rounded_up_of(self, members: usize) -> usize {
        match self {
            Share::Count(count) => count as usize,
            Share::Percent(percent) => (members * percent as usize).div_ceil(100),
        }
    }

    /// The share rounded up, at least one.
    pub fn at_least_one_of(self, members: usize) -> usize {
        self.rounded_up_of(members).max(1)
    }

    fn read(value: &Value) -> Result<Self, String> {
        let wanted = || format!("want a whole number or a percentage such as 10%, got {}", describe(value));
        let most = u32::try_from(Limits::COUNT).unwrap_or(u32::MAX);
        let bounded = |number: u64, most: u32| {
            let fitting = u32::try_from(number).ok().filter(|number| *number <= most);
            fitting.ok_or_else(|| format!("want at most {most}, got {number}"))
        };
        match value {
            Value::Number(number) => bounded(number.as_u64().ok_or_else(wanted)?, most).map(Share::Count),
            Value::String(text) => {
                let text = text.trim();
                let (digits, most, share): (_, _, fn(u32) -> Share) = match text.strip_suffix('%') {
                    Some(digits) => (digits.trim_end(), 100, Share::Percent),
                    None => (text, most, Share::Count),
                };
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let number = digits.parse().ok().filter(|_| is_number);
                let number = number.ok_or_else(|| {
                    format!("want a whole number or a percentage such as 10%, got '{}'", cut(text))
                })?;
                bounded(number, most)
                    .map(share)
                    .map_err(|message| if most == 100 { format!("{message} percent") } else { message })
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wanted()),
        }
    }
}

impl Rollout {
    /// Reads the settings; null counts as not given.
    pub(crate) fn read(value: &Value) -> Result<Option<Self>, String> {
        let given = match value {
            Value::Null => return Ok(None),
            Value::Object(given) => given,
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err(format!("want a map, got {}", describe(other)));
            }
        };
        if let Some(other) = given.keys().find(|name| !KEYS.contains(&&***name)) {
            return Err(format!("unknown key '{}'{}", cut(other), suggestion_or_all(other, &KEYS)));
        }
        let share = |name: &str, default: u32| match given.get(name).filter(|value| !value.is_null()) {
            Some(value) => Share::read(value).map_err(|message| format!("{name}: {message}")),
            None => Ok(Share::Count(default)),
        };
        let batch = share("batch", 1)?;
        if matches!(batch, Share::Count(0) | Share::Percent(0)) {
            return Err("batch: want at least 1".into());
        }
        let pause = match given.get("pause").filter(|value| !value.is_null()) {
            Some(value) => seconds(value).map_err(|message| format!("pause: {message}"))?,
            None => Duration::ZERO,
        };
        let away = match given.get("away").filter(|value| !value.is_null()) {
            None => Away::Skip,
            Some(Value::String(text)) => match &**text {
                "skip" => Away::Skip,
                "wait" => Away::Wait,
                "fail" => Away::Fail,
                other => {
                    return Err(format!(
                        "away: unknown policy '{}'{}",
                        cut(other),
                        suggestion_or_all(other, &AWAYS)
                    ));
                }
            },
            Some(other) => return Err(format!("away: want {}, got {}", AWAYS.join(", "), describe(other))),
        };
        let (max_failures, canary) = (share("max_failures", 0)?, share("canary", 0)?);
        Ok(Some(Self { batch, pause, max_failures, canary, away }))
    }
}

/// Accepts fractions of a second.
pub(crate) fn seconds(value: &Value) -> Result<Duration, String> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(format!("want seconds, got {}", describe(value)));
        }
    };
    let number = number.filter(|number| (0.0..=PAUSE_MAX).contains(number));
    number.map(Duration::from_secs_f64).ok_or_else(|| format!("want seconds, from 0 to {PAUSE_MAX}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_rollout_says() {
        let read = |value| Rollout::read(&value).unwrap().unwrap();
        let rollout = read(json!({"batch": "10%", "pause": 5, "max_failures": 1, "canary": "2"}));
        assert_eq!(rollout.pause, Duration::from_secs(5));
        for (members, batch, failures, canaries) in
            [(0, 1, 1, 2), (1, 1, 1, 2), (11, 2, 1, 2), (100, 10, 1, 2)]
        {
            assert_eq!(rollout.batch.at_least_one_of(members), batch, "{members}");
            assert_eq!(rollout.max_failures.of(members), failures, "{members}");
            assert_eq!(rollout.canary.rounded_up_of(members), canaries, "{members}");
        }
        for (canary, members, wanted) in [("5%", 10, 1), ("0%", 10, 0), ("0", 10, 0), ("50%", 3, 2)] {
            let rollout = read(json!({"canary": canary}));
            assert_eq!(rollout.canary.rounded_up_of(members), wanted, "{canary} of {members}");
        }
        assert_eq!(read(json!({"max_failures": "10 %"})).max_failures.of(19), 1);
        let plain = read(json!({}));
        assert_eq!((plain.batch, plain.pause, plain.away), (Share::Count(1), Duration::ZERO, Away::Skip));
        assert_eq!(read(json!({"away": "fail"})).away, Away::Fail);
        assert_eq!(Rollout::read(&Value::Null), Ok(None));
    }

    #[test]
    fn what_no_rollout_says() {
        for (value, wanted) in [
            (json!("10%"), "want a map"),
            (json!({"batches": 1}), "unknown key 'batches'; did you mean 'batch'"),
            (json!({"batch": 0}), "batch: want at least 1"),
            (json!({"batch": "0%"}), "batch: want at least 1"),
            (json!({"batch": "101%"}), "batch: want at most 100, got 101 percent"),
            (json!({"batch": -1}), "batch: want a whole number or a percentage"),
            (json!({"batch": "+5"}), "got '+5'"),
            (json!({"batch": 1.5}), "batch: want a whole number"),
            (json!({"batch": 10_000_000}), "batch: want at most 1000000"),
            (
                json!({"max_failures": "half"}),
                "max_failures: want a whole number or a percentage such as 10%, got 'half'",
            ),
            (json!({"pause": "soon"}), "pause: want seconds"),
            (json!({"pause": 100_000}), "from 0 to 86400"),
            (json!({"canary": [1]}), "canary: want a whole number"),
            (json!({"away": "later"}), "away: unknown policy 'later'"),
            (json!({"away": 1}), "away: want fail, skip, wait"),
        ] {
            let error = Rollout::read(&value).unwrap_err();
            assert!(error.contains(wanted), "{value}: {error}");
        }
    }
}
