//! A controller that hangs while a standby takes its site over, and that goes on later with what waited for it.
//!
//! **Invariants.** A controller that was replaced changes nothing in the store, answers no request with success, and the
//! agents do not hear from it. Its successor loads what it has committed, and nothing is lost of that: it is a start like
//! any other, and what holds after a start holds here.
//!
//! Absent: when a lease is taken. `controller/src/lease/machine.rs` decides that, and has a simulation of its own with
//! three controllers. The store's answer and the held messages stand for `FOR KEY SHARE` and for `Tenure`, which tests with
//! a server and with connections show.

use std::collections::VecDeque;

use muster_controller::driver::Turns;
use muster_shared::MonoTime;

use super::controller::Inlet;
use super::dice::Dice;
use super::fault::Kind;
use super::outbox::SimOutbox;
use super::store::SimStore;
use super::world::{Event, World};

/// In one of so many runs a standby takes over.
const ONE_IN: u64 = 4;

/// What a run does with standbys.
pub struct Standbys {
    dice: Dice,
    is_on: bool,
    replaced: Option<Box<Replaced>>,
}

/// The process that hangs.
struct Replaced {
    turns: Turns<SimStore, SimOutbox>,
    started: MonoTime,
    inbox: VecDeque<Inlet>,
}

impl Standbys {
    pub fn new(seed: u64, is_on: bool) -> Self {
        let mut dice = Dice::new(seed, "standbys");
        let is_on = dice.one_in(ONE_IN) && is_on;
        Self { dice, is_on, replaced: None }
    }
}

impl World {
    /// A standby will take over, if this is such a run.
    pub fn plans_a_takeover(&mut self) {
        if self.standbys.is_on {
            let after = self.standbys.dice.millis(20_000, 400_000);
            self.later(after, Event::StandbyTakesOver);
        }
    }

    /// The controller hangs. Its lease runs out, and a standby starts in its place.
    pub fn standby_takes_over(&mut self) {
        let again = self.standbys.dice.millis(60_000, 600_000);
        self.later(again, Event::StandbyTakesOver);
        let is_free = self.standbys.replaced.is_none() && self.controller.turns.is_some();
        if !self.faults.on
            || !is_free
            || !self.faults.happens(self.now, Kind::ControllerReplaced, "controller")
        {
            return;
        }
        let (started, inbox) = (self.controller.started(), self.controller.takes_inbox());
        let Some(turns) = self.controller_is_left_alone() else { return };
        self.note(|_| format!("FAULT {}", Kind::ControllerReplaced.name()));
        self.shared.borrow_mut().term += 1;
        self.standbys.replaced = Some(Box::new(Replaced { turns, started, inbox }));
        let goes_on = self.standbys.dice.millis(100, 120_000);
        self.later(goes_on, Event::ReplacedGoesOn);
    }

    /// The process that hung goes on, and takes what waited for it.
    pub fn replaced_goes_on(&mut self) {
        let Some(replaced) = self.standbys.replaced.take() else { return };
        let Replaced { mut turns, started, inbox } = *replaced;
        let now = MonoTime(self.now.since(started));
        for inlet in inbox {
            match inlet {
                Inlet::Connected { node, connection } => turns.connected(now, node, connection),
                Inlet::Disconnected { node, connection } => turns.disconnected(now, node, connection),
                Inlet::Received { node, connection, messages } => {
                    turns.received(now, &node, connection, messages);
                }
                Inlet::Asks(_) => {}
            }
        }
        turns.wake(now);
        let (written, leaving) = {
            let shared = self.shared.borrow();
            (shared.changes, shared.leaving.len())
        };
        let told = turns.turn_over(now);
        let shared = &mut *self.shared.borrow_mut();
        shared.counts.add("standby a controller that was replaced goes on");
        if shared.changes != written {
            shared.violate("a controller that was replaced wrote".to_owned());
        }
        if shared.leaving.len() != leaving {
            shared.violate("a controller that was replaced spoke".to_owned());
        }
        if told.answers.iter().any(|(_, answer)| answer.is_ok()) {
            shared.violate("a controller that was replaced answered".to_owned());
        }
        if turns.read_only().is_some() {
            shared.counts.add("standby a commit of a controller that was replaced is refused");
        }
    }
}
