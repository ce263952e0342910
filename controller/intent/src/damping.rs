//! Ports that come and go. A port that came back waits before it counts as up, longer each time that
//! it fails again soon: intents do not move with each of its falls.
//!
//! Absent: what follows from a port's report (`links_from_reports.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::MonoTime;

use crate::topology::PortNo;

/// The first wait for a port that came back.
const HOLD_FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
const HOLD_MAX: Duration = Duration::from_secs(32);
/// A port that stayed up for this long starts again with the first wait.
const CALM: Duration = Duration::from_secs(60);

/// Ports that went down lately.
#[derive(Debug, Default)]
pub(crate) struct Damping {
    ports: BTreeMap<PortNo, Fall>,
    due: BTreeSet<(MonoTime, PortNo)>,
}

#[derive(Debug)]
struct Fall {
    at: MonoTime,
    times: u32,
    /// The port is up, and will count as up at this time.
    rises: Option<MonoTime>,
}

impl Damping {
    pub fn next_due(&self) -> Option<MonoTime> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Whether the port is up but does not count as up yet.
    pub fn is_rising(&self, port: PortNo) -> bool {
        self.ports.get(&port).is_some_and(|fall| fall.rises.is_some())
    }

    /// A port is down. A port that never fell and was not up does not count as flapping.
    pub fn falls(&mut self, now: MonoTime, port: PortNo, was_up: bool) {
        if !was_up && !self.ports.contains_key(&port) {
            return;
        }
        let fall = self.ports.entry(port).or_insert(Fall { at: now, times: 0, rises: None });
        let rising = fall.rises.take();
        if let Some(rises) = rising {
            self.due.remove(&(rises, port));
        }
        if was_up || rising.is_some() {
            fall.times = if now.since(fall.at) < CALM { fall.times.saturating_add(1) } else { 1 };
            fall.at = now;
        }
    }

    /// A port came back. Returns whether it counts as up at once.
    pub fn rises(&mut self, now: MonoTime, port: PortNo) -> bool {
        let Some(fall) = self.ports.get_mut(&port) else { return true };
        if now.since(fall.at) >= CALM {
            self.ports.remove(&port);
            return true;
        }
        if fall.rises.is_none() {
            let hold = HOLD_FIRST.saturating_mul(1 << fall.times.saturating_sub(1).min(16)).min(HOLD_MAX);
            fall.rises = Some(now + hold);
            self.due.insert((now + hold, port));
        }
        false
    }

    /// Takes the next port that has stayed up for as long as it had to.
    pub fn next_risen(&mut self, now: MonoTime) -> Option<PortNo> {
        let (due, port) = self.due.first().copied().filter(|(due, _)| *due <= now)?;
        self.due.remove(&(due, port));
        if let Some(fall) = self.ports.get_mut(&port) {
            fall.rises = None;
        }
        Some(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{ConnectPoint, Topology};

    fn port() -> PortNo {
        let point = ConnectPoint { device: "node-1/br0".parse().expect("a device"), port: "eth1".into() };
        Topology::default().know_port(&point).expect("room for a port")
    }

    #[test]
    fn a_port_waits_longer_each_time_that_it_falls_again_soon() {
        let (mut damping, port, mut now) = (Damping::default(), port(), MonoTime::default());
        let mut waits = Vec::new();
        for _ in 0..8 {
            damping.falls(now, port, true);
            assert!(!damping.rises(now, port) && damping.is_rising(port));
            let due = damping.next_due().expect("a port that came back");
            waits.push(due.since(now).as_millis());
            assert_eq!(damping.next_risen(due), Some(port));
            now = due;
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 32_000]);
        damping.falls(now, port, true);
        assert!(damping.rises(now + CALM, port), "a port that was down for long counts at once");
    }

    #[test]
    fn a_port_that_falls_while_it_waits_does_not_rise() {
        let (mut damping, port, now) = (Damping::default(), port(), MonoTime::default());
        damping.falls(now, port, false);
        assert!(damping.rises(now, port), "a port that was never up");
        damping.falls(now, port, true);
        assert!(!damping.rises(now, port));
        damping.falls(now, port, false);
        assert_eq!((damping.next_due(), damping.is_rising(port)), (None, false));
    }
}
