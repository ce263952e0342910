//! Decides when the ports of this node's devices are reported to the controller, which computes paths from
//! them.
//!
//! ```text
//!   greeting ─▶ every device          Ports ─▶ differs from what was told ─┬─ something ended: at once ─▶ Up::Ports
//!                                                                          └─ something came: a moment later ─▶
//! ```
//!
//! **Invariants.** `told` is the report on this connection; each report covers a whole device. The loss of a
//! port or a neighbour is reported at once, unless losses keep coming. Nothing here is durable.
//!
//! Absent: how the host observes ports (`agent/host/src/ports.rs`), and when the controller trusts a flapping
//! one again (`controller/intent/src/damping.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Up;
use muster_shared::model::flow::Bridge;
use muster_shared::model::topology::{DevicePorts, TOLD_DEVICES_MAX, TOLD_PORTS_MAX};

use crate::effects::Effects;

/// The pause after a gain, which is seldom alone: a cable is two ports, and a switch that starts is many.
const SETTLE: Duration = Duration::from_millis(50);
/// The least time between two reports of gains at one device.
const SPACING: Duration = Duration::from_millis(250);
/// So many reports of losses at one device may follow each other at once …
const BURST: Duration = ENDED_SPACING.saturating_mul(32);
/// … and then one per this time: ports that flap must not fill the line.
const ENDED_SPACING: Duration = Duration::from_millis(100);

/// The node's devices, as they are and as last reported.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    devices: BTreeMap<Bridge, Device>,
}

#[derive(Debug)]
struct Device {
    now: DevicePorts,
    /// The report on this connection.
    told: Option<DevicePorts>,
    due: Option<MonoTime>,
    /// Gains are not reported before this time.
    rest_until: MonoTime,
    /// Each report adds [`ENDED_SPACING`] to this time; it may lie as far ahead as [`BURST`].
    paid_until: MonoTime,
}

impl Device {
    /// Sets the time of the next report, if one is due.
    fn schedule(&mut self, now: MonoTime) {
        let at = match &self.told {
            Some(told) if *told == self.now => None,
            Some(told) if has_ended(told, &self.now) => {
                Some(MonoTime(self.paid_until.0.saturating_sub(BURST)).max(now))
            }
            Some(_) => Some(self.rest_until.max(now + SETTLE)),
            None => Some(now),
        };
        // A further gain does not delay a report that already waits.
        self.due = at.map(|at| self.due.map_or(at, |due| due.min(at)));
    }

    fn tell(&mut self, now: MonoTime) -> DevicePorts {
        self.due = None;
        self.rest_until = now + SPACING;
        self.paid_until = self.paid_until.min(now + BURST).max(now) + ENDED_SPACING;
        self.told = Some(self.now.clone());
        self.now.clone()
    }
}

impl Ports {
    /// Takes the present state of a device that changed.
    pub(crate) fn take(&mut self, now: MonoTime, ports: DevicePorts) {
        if let Some(device) = self.devices.get_mut(&ports.bridge) {
            device.now = ports;
            return device.schedule(now);
        }
        if !ports.up {
            return; // nobody heard of it
        }
        if self.devices.len() >= TOLD_DEVICES_MAX {
            // Devices that are gone stay until they are reported; the host bounds their number.
            let gone = self.devices.iter().find(|(_, device)| !device.now.up);
            let Some(gone) = gone.map(|(bridge, _)| bridge.clone()) else { return };
            self.devices.remove(&gone);
        }
        let (rest_until, paid_until) = (MonoTime::default(), MonoTime::default());
        let bridge = ports.bridge.clone();
        let mut device = Device { now: ports, told: None, due: None, rest_until, paid_until };
        device.schedule(now);
        self.devices.insert(bridge, device);
    }

    /// The controller listens: reports all devices, including those that went since this agent started.
    pub(crate) fn greeted(&mut self, now: MonoTime) {
        for device in self.devices.values_mut() {
            (device.told, device.due) = (None, Some(now));
        }
    }

    /// Sends reports that are due. Called after every input while the controller listens.
    pub(crate) fn tell(&mut self, now: MonoTime, effects: &mut Effects) {
        let is_due = |device: &&mut Device| device.due.is_some_and(|due| now >= due);
        let mut page = Vec::new();
        for device in self.devices.values_mut().filter(is_due) {
            let device = device.tell(now);
            let ports: usize = page.iter().map(|told: &DevicePorts| told.ports.len()).sum();
            if page.len() == TOLD_DEVICES_MAX || ports + device.ports.len() > TOLD_PORTS_MAX {
                effects.send(Up::Ports(std::mem::take(&mut page)));
            }
            page.push(device);
        }
        if !page.is_empty() {
            effects.send(Up::Ports(page));
        }
    }

    pub(crate) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.devices.values().filter_map(|device| device.due).min().map(|at| (at, "ports"))
    }
}

/// Whether a port no longer carries packets, or may not: senders must know soon.
fn has_ended(told: &DevicePorts, now: &DevicePorts) -> bool {
    told.up && !now.up
        || told.ports.iter().filter(|port| port.up).any(|was| {
            let found = now.ports.binary_search_by(|port| port.name.cmp(&was.name));
            found.map_or(true, |at| {
                let is = &now.ports[at];
                !is.up
                    || !was.heard.is_empty() && is.heard != was.heard
                    || was.beacon.is_some() && is.beacon != was.beacon
            })
        })
}
