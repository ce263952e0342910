//! An agent that is open for a minute is served: it was welcomed over a connection that stands, and the controller knows
//! that it is there.
//!
//! Absent: moments in which the controller can do nothing, and agents that are cut off.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::MonoTime;

use super::bus::Way;
use super::machine::Machine;
use super::world::{Event, World};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(20);
/// The time for which an agent may be open and not served.
const UNSERVED_MAX: Duration = Duration::from_secs(60);

/// Servers whose agents are open and not served, with the connection of each: since when.
#[derive(Default)]
pub struct Unserved(BTreeMap<usize, (u64, MonoTime)>);

impl World {
    /// Looks who is served.
    pub fn looks_who_is_served(&mut self) {
        self.later(EVERY, Event::LooksWhoIsServed);
        let mut unserved = BTreeMap::new();
        for at in 0..self.machines.len() {
            let Some(line) = self.is_open_and_not_served(&self.machines[at]) else { continue };
            let since =
                self.unserved.0.get(&at).filter(|(of, _)| *of == line).map_or(self.now, |(_, since)| *since);
            if self.now.since(since) >= UNSERVED_MAX {
                let name = self.machines[at].name.clone();
                self.violate(format!(
                    "the agent of {name} is open over connection {line}, and is not served"
                ));
            }
            unserved.insert(at, (line, since));
        }
        self.unserved.0 = unserved;
    }

    fn is_open_and_not_served(&self, machine: &Machine) -> Option<u64> {
        let turns = self.controller.turns.as_ref()?;
        let is_well =
            turns.read_only().is_none() && !turns.is_busy() && self.controller.busy_until <= self.now;
        let is_still = machine.frozen_until.max(machine.cut_off_until).max(self.standbys.away_until(Way::Up));
        let is_reached = is_still <= self.now && !machine.host.is_cut() && self.active_admits();
        let number = machine.process.as_ref().filter(|process| process.agent.is_online())?.line?;
        let line = self.bus.lines.get(&number)?;
        let is_open = !line.broken && line.run == self.controller.run;
        let is_known = turns.view().node_named(&machine.name)?.view.silent.is_some();
        (is_well && is_reached && is_open && !is_known).then_some(number)
    }
}
