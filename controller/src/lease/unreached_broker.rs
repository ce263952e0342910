//! When the active controller gives the site to a standby, since it reaches no broker: its agents hear nothing from it, and
//! perhaps the standby reaches them. Pure: times come with each call.
//!
//! Where no controller reaches a broker, the site would go round among them for as long as that lasts. So each waits twice
//! as long as the last time, until it has reached a broker.
//!
//! Absent: the connection to the broker (`link/broker.rs`), the choice of the standby (`run/hand_on.rs`), and agents that
//! come to standbys (`agents_at_standby.rs`), which they do over the direct link alone.

use std::time::Duration;

use muster_shared::MonoTime;

/// A broker that is started again is back by then, and all of a site's brokers have been tried five times.
const PATIENCE: Duration = Duration::from_secs(10);
/// The site goes round at most this often.
const PATIENCE_MAX: Duration = Duration::from_secs(600);

/// A controller's knowledge of its brokers, over all of its times as the active one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreachedBroker {
    /// Since when the controller was active and reached none.
    since: Option<MonoTime>,
    patience: Duration,
}

impl Default for UnreachedBroker {
    fn default() -> Self {
        Self { since: None, patience: PATIENCE }
    }
}

impl UnreachedBroker {
    /// The controller is the active one from now on.
    pub fn becomes_active(&mut self) {
        self.since = None;
    }

    /// The controller reaches a broker.
    pub fn reaches_one(&mut self) {
        *self = Self::default();
    }

    /// The controller reaches none. The result is the time at which a standby is to have the site.
    pub fn reaches_none(&mut self, now: MonoTime) -> MonoTime {
        *self.since.get_or_insert(now) + self.patience
    }

    /// The controller gave the site to a standby.
    pub fn gave_site(&mut self) {
        self.patience = (2 * self.patience).min(PATIENCE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime(Duration::from_secs(seconds))
    }

    #[test]
    fn a_standby_gets_the_site_ten_seconds_after_a_broker_loss() {
        let mut broker = UnreachedBroker::default();
        assert_eq!([1, 4, 12].map(|now| broker.reaches_none(at(now))), [at(11); 3]);
        broker.reaches_one();
        assert_eq!(broker.reaches_none(at(20)), at(30));
    }

    #[test]
    fn a_site_without_any_broker_changes_hands_ever_more_slowly() {
        let mut broker = UnreachedBroker::default();
        let mut now = at(0);
        let waits: Vec<u64> = (0..9)
            .map(|_| {
                let due = broker.reaches_none(now);
                let wait = due.since(now).as_secs();
                broker.gave_site();
                // Another one had it for a while.
                broker.becomes_active();
                now = due + Duration::from_secs(100);
                wait
            })
            .collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        broker.reaches_one();
        assert_eq!(broker.reaches_none(now), now + Duration::from_secs(10));
    }
}
