//! A server whose network was changed so that nobody reaches it: it must come back by itself.

use std::time::Duration;

use super::fault::Kind;
use super::plan::CONFIRM_TIMEOUT;
use super::world::{Event, World};

/// Beyond the time to confirm a change: restoring it, which may fail several times in a row and is then tried again
/// half a minute later.
const BACK_WITHIN: Duration = Duration::from_secs(CONFIRM_TIMEOUT + 100);

impl World {
    /// A change has just cut the server off: either its line ends, messages on their way are lost and neither side is
    /// told, or the line that stands goes on and only new connections fail.
    pub fn is_cut_off(&mut self, at: usize) {
        self.note(|world| format!("{} is cut off", world.machines[at].name));
        self.shared.borrow_mut().counts.add("server cut off");
        let line = self.machines[at].process.as_ref().and_then(|process| process.line);
        let goes_on = self.dice.net.one_in(3);
        self.machines[at].line_goes_on = goes_on;
        if let Some(line) = line.filter(|_| !goes_on) {
            let (agent, controller) =
                (self.dice.net.millis(1000, 60_000), self.dice.net.millis(1000, 60_000));
            self.line_ends(line, Some(agent), Some(controller));
        }
        self.machines[at].cuts += 1;
        let cut = self.machines[at].cuts;
        self.later(BACK_WITHIN, Event::IsBack(at, cut));
        let whom = self.machines[at].name.to_string();
        if self.faults.strikes(self.now, Kind::EndsWhileCut, &whom) {
            // Before it gives the change up by itself.
            let dice = self.faults.dice(Kind::EndsWhileCut);
            let (after, power_cut) = (dice.millis(0, CONFIRM_TIMEOUT * 1000), dice.one_in(4));
            let life = self.machines[at].life;
            self.later(after, Event::EndsWhileCut(at, life, power_cut));
        }
    }

    /// Ends an agent that is cut off, unless it has ended since or is reached again.
    pub fn ends_while_cut(&mut self, at: usize, life: u64, power_cut: bool) {
        let machine = &self.machines[at];
        if self.faults.on && machine.life == life && machine.host.is_cut() {
            self.agent_ends(at, power_cut);
        }
    }

    /// Checks that a server that was cut off is reached again. The time that it has for that starts when its agent, or
    /// the whole server, was last away, or when what it restores was last refused.
    pub fn is_back(&mut self, at: usize, cut: u32) {
        let machine = &self.machines[at];
        if machine.scrapped || machine.cuts != cut || !machine.host.is_cut() {
            return;
        }
        let up_since = machine.up_since.max(machine.frozen_until).max(machine.refused_at);
        let due = up_since + BACK_WITHIN;
        if machine.process.is_none() {
            return self.later(BACK_WITHIN, Event::IsBack(at, cut));
        }
        if self.now < due {
            return self.at(due, Event::IsBack(at, cut));
        }
        let name = machine.name.clone();
        self.violate(format!("{name} is cut off, and nothing restores it"));
    }
}
