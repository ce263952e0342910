//! Cables that break and are mended, and what agents hear over them.

use std::time::Duration;

use muster_agent_core::Input;
use muster_shared::model::topology::{Beacon, DevicePorts, HEARD_MAX, PortState};

use super::super::fault::{Kind, Level};
use super::super::world::{Event, World};
use super::fabric::{HOSTS, cable_port};

/// A cable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cable {
    /// Both ends see that there is nobody.
    cut: bool,
    /// Ends whose packets do not arrive, and nobody sees that.
    silent: [bool; 2],
    /// The turn of the last fault.
    turn: u64,
}

/// The end of a cable at which something may be heard.
pub type Side = (usize, usize);

/// The state of hearing at an end.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    heard: Vec<Beacon>,
    /// The beacon that the other end sends.
    said: Option<Beacon>,
    /// Counts changes of that.
    turn: u64,
}

/// A port speaks so often: milliseconds.
const SPEAKS_EVERY: u64 = 2000;
/// The milliseconds after which a port no longer hears a beacon that nobody says any more, at least and at most: a
/// beacon is good for 6 s.
const MISSED: (u64, u64) = (4000, 6000);

impl World {
    /// The server that has this bridge now.
    pub(super) fn machine_of(&self, device: usize) -> Option<usize> {
        let node = &self.network.fabric.devices[device].node;
        self.machines.iter().position(|machine| machine.name == *node && !machine.scrapped)
    }

    /// The bridge's server, if the bridge is there and has power.
    fn has_bridge(&self, device: usize) -> Option<usize> {
        let bridge = self.network.fabric.devices[device].bridge.as_str();
        let at = self.machine_of(device)?;
        let machine = &self.machines[at];
        (!machine.is_off() && !machine.host.switch.away.contains(bridge)).then_some(at)
    }

    /// Whether packets get from this end of a cable to the other.
    pub(super) fn passes(&self, cable: usize, end: usize) -> bool {
        let ends = self.network.fabric.cables[cable];
        let is = &self.network.cables[cable];
        !is.cut && !is.silent[end] && ends.iter().all(|device| self.has_bridge(*device).is_some())
    }

    /// Whether a cable's end sees somebody at the other.
    fn has_carrier(&self, cable: usize, end: usize) -> bool {
        let other = self.network.fabric.cables[cable][1 - end];
        let is_on = self.machine_of(other).is_some_and(|at| !self.machines[at].is_off());
        !self.network.cables[cable].cut && is_on
    }

    /// Whether a port's carrier is there.
    pub(super) fn is_port_up(&self, device: usize, port: &str) -> bool {
        match super::fabric::cable_of(port) {
            Some(cable) => {
                let end = self.network.fabric.cables[cable].iter().position(|it| *it == device);
                end.is_some_and(|end| self.has_carrier(cable, end))
            }
            None => !self.network.down.keys().any(|(of, name)| *of == device && *name == port),
        }
    }

    fn beacon(&self, at: usize, device: usize, port: &str) -> Beacon {
        let machine = &self.machines[at];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&machine.key.0);
        hasher.update(&machine.boot().to_le_bytes());
        hasher.update(self.network.fabric.devices[device].to_string().as_bytes());
        hasher.update(port.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Beacon(bytes)
    }

    /// The agent runs, and knows its bridges.
    fn listens(&self, at: usize) -> bool {
        let machine = &self.machines[at];
        machine.process.is_some() && self.network.seen.contains(&(at, machine.life))
    }

    /// The beacon that arrives at an end, where somebody listens.
    fn said_to(&self, (cable, end): Side) -> Option<Beacon> {
        let other = self.network.fabric.cables[cable][1 - end];
        let at = self.has_bridge(other)?;
        let speaks = self.listens(at) && self.machines[at].frozen_until <= self.now;
        (speaks && self.passes(cable, 1 - end)).then(|| self.beacon(at, other, &cable_port(cable)))
    }

    /// Lets agents hear and tell after something happened.
    pub fn network_moves(&mut self) {
        if !std::mem::take(&mut self.network.dirty) || self.network.is_empty() {
            return;
        }
        for cable in 0..self.network.cables.len() {
            (0..2).for_each(|end| self.pricks((cable, end)));
        }
        (0..self.network.fabric.devices.len()).for_each(|device| self.tells_ports(device));
    }

    fn pricks(&mut self, side: Side) {
        let here = self.network.fabric.cables[side.0][side.1];
        let is_deaf = self.has_bridge(here).is_none_or(|at| !self.listens(at));
        let said = if is_deaf { None } else { self.said_to(side) };
        let carrier = self.has_carrier(side.0, side.1);
        let receiver = self.network.receivers.entry(side).or_default();
        if is_deaf || !carrier {
            receiver.heard.clear();
        }
        if receiver.said == said {
            return;
        }
        receiver.said = said;
        receiver.turn += 1;
        let turn = receiver.turn;
        let after = match said {
            Some(_) => self.network.air.millis(0, SPEAKS_EVERY),
            None => self.network.air.millis(MISSED.0, MISSED.1),
        };
        self.later(after, Event::Hears(side, turn, said.is_none()));
    }

    /// A beacon is heard, or `last`: those that nobody says any more are not.
    pub fn hears(&mut self, side: Side, turn: u64, last: bool) {
        let receiver = self.network.receivers.entry(side).or_default();
        if receiver.turn != turn {
            return;
        }
        if last {
            receiver.heard = receiver.said.into_iter().collect();
        } else {
            receiver.heard.extend(receiver.said);
            receiver.heard.sort();
            receiver.heard.dedup();
            if receiver.heard.len() > 1 {
                let after = self.network.air.millis(MISSED.0, MISSED.1);
                self.later(after, Event::Hears(side, turn, true));
            }
        }
        self.network.dirty = true;
    }

    /// A bridge as it is.
    fn ports_of(&self, device: usize) -> DevicePorts {
        let bridge = self.network.fabric.devices[device].bridge.clone();
        let Some(at) = self.has_bridge(device) else {
            return DevicePorts { bridge, up: false, ports: Vec::new() };
        };
        let port = |name: String, heard| PortState {
            up: self.is_port_up(device, &name),
            beacon: Some(self.beacon(at, device, &name)),
            name: name.into(),
            heard,
        };
        let cables = self.network.fabric.cables.iter().enumerate();
        let mut ports: Vec<PortState> = cables
            .filter_map(|(cable, ends)| Some((cable, ends.iter().position(|it| *it == device)?)))
            .map(|side| {
                // As a host tells them: of an agent that started twice in a moment three are good.
                let heard = self
                    .network
                    .receivers
                    .get(&side)
                    .map(|receiver| receiver.heard.iter().take(HEARD_MAX).copied());
                let heard = heard.map(Iterator::collect);
                port(cable_port(side.0), heard.unwrap_or_default())
            })
            .collect();
        ports.extend(HOSTS.iter().map(|name| port((*name).to_owned(), Vec::new())));
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        DevicePorts { bridge, up: true, ports }
    }

    fn tells_ports(&mut self, device: usize) {
        let Some(at) = self.machine_of(device).filter(|at| self.listens(*at)) else {
            self.network.told.remove(&device);
            return;
        };
        let ports = self.ports_of(device);
        if self.network.told.get(&device) != Some(&ports) {
            self.network.told.insert(device, ports.clone());
            self.tell_agent(at, Input::Ports(vec![ports]));
        }
    }

    /// An agent starts: it has yet to find out which bridges there are.
    pub fn bridges_are_looked_for(&mut self, at: usize) {
        if self.network.is_empty() {
            return;
        }
        self.network.dirty = true;
        for device in 0..self.network.fabric.devices.len() {
            if self.machine_of(device) == Some(at) {
                self.network.told.remove(&device);
            }
        }
        let (life, after) = (self.machines[at].life, self.network.air.millis(1, 300));
        self.later(after, Event::BridgesSeen(at, life));
    }

    /// The agent knows its server's bridges now.
    pub fn bridges_are_seen(&mut self, at: usize, life: u64) {
        if self.machines[at].life == life {
            self.network.seen.retain(|(of, _)| *of != at);
            self.network.seen.insert((at, life));
            self.network.dirty = true;
        }
    }

    /// The next cable breaks.
    pub fn cable_chaos(&mut self) {
        if !self.faults.on || self.network.is_empty() {
            return;
        }
        let dice = &mut self.network.chaos;
        let kind = match dice.below(10) {
            0..4 => Kind::CableCut,
            4..7 => Kind::CableSilent,
            7 | 8 => Kind::CableFlaps,
            _ => Kind::PortDown,
        };
        let cable = dice.index(self.network.fabric.cables.len());
        let (device, port) = (dice.index(self.network.fabric.devices.len()), *dice.pick(&HOSTS));
        let long = if dice.one_in(3) { dice.millis(100, 3000) } else { dice.millis(100, 90_000) };
        let often = if self.faults.level == Level::Heavy { 30_000 } else { 120_000 };
        let next = dice.millis(100, often);
        // Both ways, or one.
        let silent = *dice.pick(&[[true, true], [true, false], [false, true]]);
        let flaps = 2 + dice.below(5);
        self.later(next, Event::CableChaos);
        let whom = match kind {
            Kind::PortDown => format!("{} port {port}", self.network.fabric.devices[device]),
            _ => format!("cable {cable}"),
        };
        if !self.faults.happens(self.now, kind, &whom) {
            return;
        }
        self.note(|_| format!("FAULT {} {whom} {long:?}", kind.name()));
        match kind {
            Kind::PortDown => self.port_goes(device, port, long),
            Kind::CableCut => self.cable_breaks(cable, Cable { cut: true, ..Cable::default() }, Some(long)),
            Kind::CableSilent => self.cable_breaks(cable, Cable { silent, ..Cable::default() }, Some(long)),
            _ => self.cable_flaps(cable, flaps),
        }
    }

    pub(super) fn cable_breaks(&mut self, cable: usize, how: Cable, long: Option<Duration>) {
        self.network.turn += 1;
        let turn = self.network.turn;
        self.network.cables[cable] = Cable { turn, ..how };
        self.network.dirty = true;
        if let Some(long) = long {
            self.later(long, Event::CableMends(cable, turn, 0));
        }
    }

    /// Cuts the cable for a moment; then it is whole for a moment, and so on.
    fn cable_flaps(&mut self, cable: usize, flaps: u64) {
        self.cable_breaks(cable, Cable { cut: true, ..Cable::default() }, None);
        let (turn, after) = (self.network.turn, self.network.chaos.millis(50, 1500));
        self.later(after, Event::CableMends(cable, turn, flaps));
    }

    /// Mends the cable, which breaks again where `flaps` are left.
    pub fn cable_mends(&mut self, cable: usize, turn: u64, flaps: u64) {
        if self.network.cables[cable].turn != turn {
            return;
        }
        self.network.dirty = true;
        let was_cut = self.network.cables[cable].cut;
        self.network.cables[cable] = Cable { cut: false, silent: [false; 2], turn };
        if was_cut || flaps == 0 {
            self.note(|_| format!("cable {cable} is whole"));
        }
        if flaps == 0 || !self.faults.on {
            return;
        }
        let after = self.network.chaos.millis(50, 1500);
        if was_cut {
            self.later(after, Event::CableMends(cable, turn, flaps));
        } else {
            self.note(|_| format!("cable {cable} is cut again"));
            self.network.cables[cable].cut = true;
            self.later(after, Event::CableMends(cable, turn, flaps - 1));
        }
    }

    fn port_goes(&mut self, device: usize, port: &'static str, long: Duration) {
        self.network.turn += 1;
        let turn = self.network.turn;
        self.network.down.insert((device, port), turn);
        self.network.dirty = true;
        self.later(long, Event::PortMends(device, port, turn));
    }

    /// Brings the port up again.
    pub fn port_mends(&mut self, device: usize, port: &'static str, turn: u64) {
        if self.network.down.get(&(device, port)) == Some(&turn) {
            self.network.down.remove(&(device, port));
            self.network.dirty = true;
            self.note(|_| format!("port {port} of device {device} is up"));
        }
    }

    /// Ends all faults of cables: all are whole.
    pub fn cables_heal(&mut self) {
        self.network.turn += 1;
        let turn = self.network.turn;
        self.network.cables.fill(Cable { cut: false, silent: [false; 2], turn });
        self.network.down.clear();
        self.network.dirty = true;
        self.network_moves();
    }

    /// Cuts one for good, as the last fault of a run; which.
    pub fn cuts_a_cable(&mut self) -> Option<usize> {
        if self.network.is_empty() {
            return None;
        }
        let cable = self.network.chaos.index(self.network.cables.len());
        let how = match self.network.chaos.below(3) {
            0 => Cable { silent: [true; 2], ..Cable::default() },
            _ => Cable { cut: true, ..Cable::default() },
        };
        self.note(|_| format!("cable {cable} is cut: {how:?}"));
        self.cable_breaks(cable, how, None);
        self.network_moves();
        Some(cable)
    }
}
