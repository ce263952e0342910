//! Reports this server's clock: after each welcome, after the clock was set, and every hour.
//!
//! Absent: how far a clock may be off (`controller/engine/src/node/clock.rs`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_shared::MonoTime;
use muster_shared::model::Up;

/// If the clock moved this much against the monotonic one, it was set, or the server slept.
const SET: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(3600);

/// The last report.
#[derive(Debug, Default)]
pub struct Clock(Option<(MonoTime, Duration)>);

/// The time of day, since 1970.
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Clock {
    /// The report to send along with this message, if one is due.
    pub fn beside(&mut self, said: &Up, now: MonoTime, wall: Duration) -> Option<Up> {
        let is_due = match said {
            // Sent after each welcome: a report along with a greeting is lost if the controller cannot write
            // at that moment.
            Up::Jobs(_) | Up::Ledger { last: true, .. } => true,
            Up::Heartbeat { .. } => self.0.is_none_or(|(at, told)| {
                let passed = now.since(at);
                passed >= EVERY || wall.abs_diff(told + passed) >= SET
            }),
            _ => false,
        };
        is_due.then(|| {
            self.0 = Some((now, wall));
            Up::Clock { unix: wall.as_secs(), ahead: 0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::Epoch;
    use muster_shared::model::Hello;

    use super::*;

    #[test]
    fn is_told_after_a_welcome_when_it_was_set_and_each_hour() {
        let hello = Up::Hello(Hello {
            boot_id: 1,
            instance: Some(2),
            address: None,
            agent_version: "1".into(),
            reads: 0,
            epoch: Epoch(1).into(),
            ledger: 0,
        });
        let heartbeat = Up::Heartbeat { drift: Some(0) };
        let mut clock = Clock::default();
        // The message, its time, the clock's time, and whether the clock is reported.
        for (said, now, wall, is_told) in [
            (&heartbeat, 0, 1000, true),
            (&hello, 1, 1001, false),
            (&Up::Jobs(Vec::new()), 2, 1002, true),
            (&Up::Ledger { entries: Vec::new(), last: false }, 2, 1002, false),
            (&Up::Ledger { entries: Vec::new(), last: true }, 2, 1002, true),
            (&heartbeat, 60, 1060, false),
            (&heartbeat, 61, 1070, false),
            (&heartbeat, 120, 1131, true),
            (&heartbeat, 121, 900, true),
            (&heartbeat, 180, 959, false),
            (&heartbeat, 3721, 4500, true),
        ] {
            let now = MonoTime(Duration::from_secs(now));
            let told = clock.beside(said, now, Duration::from_secs(wall));
            assert_eq!(told, is_told.then_some(Up::Clock { unix: wall, ahead: 0 }), "{said:?} at {now:?}");
        }
    }
}
