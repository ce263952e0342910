//! A site of thousands of servers, in one run of a hundred: little happens on each, and what one of them says costs no look
//! at the others.
//!
//! Absent: turns in which a timer is due, which may be about many; what is about a whole stack, set or site by its
//! nature: operations, their ends, lists. `tests/costs.rs` of the engine has requests one by one.

use super::Options;
use super::dice::Dice;
use super::shared::Noted;
use super::world::World;

/// A run in so many.
const IN: u64 = 100;
const NODES: usize = 2000;
const STACKS: usize = 2;
/// Virtual minutes: each server says some dozen things.
const MINUTES: u64 = 3;
/// Rows and nodes that are looked at, for each thing that is touched, and for each level of an index.
const EACH: usize = 10;
/// Turns after which operators look at all that there is, of which they look after each elsewhere.
const LOOKS_IN: u64 = 200;

impl Options {
    /// Returns the options of the run: some sites are large.
    pub fn sized(self) -> Self {
        let is_large = self.parts.large && Dice::new(self.seed, "large").one_in(IN);
        if !is_large {
            return self;
        }
        let parts = super::Parts { network: false, fleets: false, ..self.parts };
        let minutes = self.minutes.min(MINUTES);
        Self { nodes: NODES, stacks: self.stacks.min(STACKS), minutes, parts, ..self }
    }

    /// Whether it is such a site.
    pub fn is_large(&self) -> bool {
        self.nodes >= NODES
    }
}

/// Before a turn.
pub struct Turn {
    loads: u64,
    changes: u64,
    told: usize,
}

impl World {
    /// Whether operators look at all that there is after this turn.
    pub fn looks_at_all(&self) -> bool {
        !self.options.is_large() || self.trace.steps.is_multiple_of(LOOKS_IN)
    }

    /// Starts to count what this turn looks at. The first turn of a start is left out, since it is about all that was
    /// loaded, and so is a turn in which a timer is due.
    pub fn turn_begins(&self, told: usize, timer_is_due: bool) -> Option<Turn> {
        let is_about_all = timer_is_due || self.controller.started() == self.now;
        let turns = self.controller.turns.as_ref().filter(|_| self.options.is_large() && !is_about_all)?;
        turns.view().take_visits();
        let shared = self.shared.borrow();
        Some(Turn { loads: shared.loads, changes: shared.changes, told })
    }

    /// The end: what became durable and what leaves is there. `refuses`: an operator's request of this turn was refused,
    /// which may look for the name that was meant among all there are.
    pub fn turn_costs(&mut self, turn: &Turn, refuses: bool) {
        let Some(turns) = self.controller.turns.as_ref() else { return };
        let visits = turns.view().take_visits();
        let shared = self.shared.borrow();
        // A rebuilt engine has looked at all there is, and so does an operation.
        let is_about_all = |noted: &Noted| matches!(noted, Noted::Stack { .. } | Noted::StackGone(_));
        let noted = || shared.noted.iter().any(is_about_all);
        if refuses || shared.loads != turn.loads || turns.read_only().is_some() || noted() {
            return;
        }
        let changes = usize::try_from(shared.changes - turn.changes).unwrap_or(usize::MAX);
        let touched = turn.told + changes + shared.leaving.len();
        let most = EACH * touched.saturating_add(1) * self.options.nodes.ilog2() as usize;
        drop(shared);
        self.shared.borrow_mut().counts.add("large turn is counted");
        if visits > most {
            let told = turn.told;
            self.violate(format!(
                "a turn with {told} messages looked at {visits} rows and nodes: {touched} were touched, which is {most}"
            ));
        }
    }
}
