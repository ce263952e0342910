//! Chaos: what breaks, how, and that all of it is mended in the end.

use std::time::Duration;

use super::fault::{CHAOS, Kind, Level};
use super::load::STANDS_STILL;
use super::real_database::Beside;
use super::world::{Event, World};

impl World {
    /// The next thing breaks.
    pub fn chaos(&mut self) {
        if !self.faults.on {
            return;
        }
        let kind = *self.dice.chaos.pick(&CHAOS);
        let at = self.dice.chaos.index(self.machines.len());
        let (long, effects) = (self.dice.chaos.millis(200, 60_000), self.dice.chaos.below(40));
        let often = if self.faults.level == Level::Heavy { 12_000 } else { 90_000 };
        let next = self.dice.chaos.millis(10, often);
        self.later(next, Event::Chaos);
        let whom = match kind {
            Kind::ControllerCrash
            | Kind::ControllerFrozen
            | Kind::StoreFull
            | Kind::StoreBroken
            | Kind::StoreBusy
            | Kind::StoreMistake => "controller".to_owned(),
            Kind::PartitionOfAll => "all".to_owned(),
            _ => self.machines[at].name.to_string(),
        };
        if self.faults.happens(self.now, kind, &whom) {
            self.note(|_| format!("FAULT {} {whom} {long:?}", kind.name()));
            self.breaks(kind, at, long, effects);
        }
    }

    fn breaks(&mut self, kind: Kind, at: usize, long: Duration, effects: u64) {
        let until = self.now + long;
        let fuse = u32::try_from(effects).unwrap_or_default();
        match kind {
            Kind::ConnectionBreaks | Kind::ConnectionSilent => {
                let late = kind == Kind::ConnectionSilent;
                let line = self.machines[at].process.as_ref().and_then(|process| process.line);
                if let Some(line) = line {
                    let most = if late { 60_000 } else { 50 };
                    let (agent, controller) = (self.dice.net.millis(0, most), self.dice.net.millis(0, most));
                    self.line_ends(line, Some(agent), Some(controller));
                }
            }
            Kind::Partition => self.machines[at].cut_off_until = until,
            Kind::PartitionOfAll => {
                self.machines.iter_mut().for_each(|machine| machine.cut_off_until = until);
            }
            Kind::ControllerCrash => self.shared.borrow_mut().fuse = Some(fuse),
            Kind::ControllerFrozen => {
                self.controller.busy_until = self.controller.busy_until.max(until);
                self.active_is_paused(until);
            }
            Kind::StoreFull => {
                self.shared.borrow_mut().full = true;
                self.later(long, Event::StoreMends);
            }
            Kind::StoreBroken => {
                self.shared.borrow_mut().broken = true;
                self.later(long, Event::StoreMends);
            }
            Kind::StoreBusy => {
                self.shared.borrow_mut().held = true;
                self.later(long, Event::StoreMends);
            }
            Kind::StoreMistake => self.shared.borrow_mut().mistaken = true,
            Kind::AgentCrash => {
                if let Some(process) = &mut self.machines[at].process {
                    process.fuse = Some(fuse);
                }
            }
            Kind::AgentFrozen => {
                let long = if self.load.is_on { long * STANDS_STILL } else { long };
                self.machines[at].frozen_until = self.now + long;
                self.network.dirty = true;
                self.later(long, Event::Thaws);
            }
            Kind::PowerCut => self.agent_ends(at, true),
            Kind::ForeignDrift => self.changes_by_hand(at, long),
            Kind::ForeignThing | Kind::ForeignFight if !self.options.parts.drift => {}
            Kind::ForeignThing => self.changes_a_thing(at, long, false),
            Kind::ForeignFight => self.changes_a_thing(at, long, true),
            Kind::LedgerFull => {
                self.machines[at].disk.full = true;
                self.later(long, Event::LedgerMends(at));
            }
            _ => self.harms_switch(kind, at, long, effects),
        }
    }

    /// Ends all faults, and mends what is broken.
    pub fn heal(&mut self) {
        self.faults.on = false;
        self.note(|_| "no more faults".to_owned());
        {
            let mut shared = self.shared.borrow_mut();
            (shared.full, shared.broken, shared.held, shared.fuse) = (false, false, false, None);
            shared.mistaken = false;
            shared.beside.iter_mut().for_each(Beside::disarm);
        }
        for machine in &mut self.machines {
            machine.cut_off_until = self.now;
            machine.disk.full = false;
            if let Some(process) = &mut machine.process {
                process.fuse = None;
            }
        }
        self.clone_goes();
        self.twin_goes();
        self.plans_the_last_look();
        self.everybody_leaves_maintenance();
        self.switches_heal();
        self.cables_heal();
    }
}
