//! Two controllers of one site: a copy of the first one's disk begins to run elsewhere while the first one goes on, and
//! the name that agents know leads to the copy for a while, and then to the first one again.
//!
//! ```text
//!   first ── a copy of its disk ──▶ … nobody reaches it … ──────▶ agents come back ── an operator starts it again
//!                     │                                              ▲
//!                     └──▶ the copy starts, agents and operators ────┘ it is switched off
//! ```
//!
//! The first one goes on as a process: it keeps its epoch, and what it knows of its agents. What operators asked of the
//! copy no longer counts once the first one is back, as after a restore.
//!
//! Absent: agents of the one while others are with the other. No agent sees a difference: it is with one at a time.

use std::collections::{BTreeMap, BTreeSet};

use muster_controller::driver::Turns;
use muster_shared::model::ReportKey;
use muster_shared::{Generation, MonoTime, NodeId, ResourceId};

use super::super::dice::Dice;
use super::super::fault::Kind;
use super::super::outbox::SimOutbox;
use super::super::store::SimStore;
use super::super::world::{Event, World};
use super::held::Jobs;
use super::{Copy, Step};

/// A run in so many of those in which anything may go back has two controllers.
const EACH: u64 = 3;

/// The second controller of a run.
pub(super) struct Twin {
    is_planned: bool,
    dice: Dice,
    /// The disk that it will start from.
    image: Option<Box<Copy>>,
    /// The first controller, while the second one runs.
    first: Option<Box<First>>,
}

/// A controller that nobody reaches.
struct First {
    turns: Turns<SimStore, SimOutbox>,
    started: MonoTime,
    copy: Copy,
    registered: BTreeMap<NodeId, u64>,
    sent: BTreeSet<(ResourceId, Generation)>,
    tried: BTreeSet<ReportKey>,
    began: BTreeMap<(ResourceId, Generation), u64>,
    /// Jobs that its store did not know then.
    lost: Jobs,
}

impl Twin {
    /// `is_sure`: the run is about that.
    pub(super) fn of(seed: u64, is_sure: bool) -> Self {
        let mut dice = Dice::new(seed, "twin");
        let is_planned = dice.one_in(EACH) || is_sure;
        Self { is_planned, dice, image: None, first: None }
    }

    /// A second controller runs.
    pub(super) fn runs(&self) -> bool {
        self.first.is_some()
    }
}

impl World {
    pub(super) fn plans_the_twin(&mut self) {
        let twin = &mut self.history.twin;
        if !twin.is_planned {
            return;
        }
        let images = twin.dice.millis(60_000, 600_000);
        let begins = images + twin.dice.millis(1_000, 300_000);
        let goes = begins + twin.dice.millis(20_000, 400_000);
        self.later(images, Event::GoesBack(Step::TwinImages));
        self.later(begins, Event::GoesBack(Step::TwinBegins));
        self.later(goes, Event::GoesBack(Step::TwinGoes));
    }

    pub(super) fn images_for_the_twin(&mut self) {
        self.history.twin.image = Some(Box::new(self.copy()));
    }

    /// The copy starts, and agents come to it. The first one runs on.
    pub(super) fn twin_begins(&mut self) {
        let Some(image) = self.history.twin.image.take() else { return };
        if !self.can_be_asked() {
            return;
        }
        self.controller_catches_up();
        // A busy database has yet to take changes, and would not answer questions about them.
        let turns = self.controller.turns.as_ref();
        let has_written = turns.is_some_and(|turns| !turns.is_busy() && turns.read_only().is_none());
        let is_ready = has_written && !self.shared.borrow().blown;
        if !is_ready || !self.faults.happens(self.now, Kind::ControllerTwice, "controller") {
            return;
        }
        let copy = self.copy();
        let registered = self.bus.registered.clone();
        let (sent, tried, began) = {
            let shared = self.shared.borrow();
            (shared.sent.clone(), shared.tried.clone(), shared.began.clone())
        };
        let Some(turns) = self.controller_is_left_alone() else { return };
        self.another_start_follows();
        let started = self.controller.started();
        let lost = self.history.held.lost();
        let first = First { turns, started, copy, registered, sent, tried, began, lost };
        self.history.twin.first = Some(Box::new(first));
        self.note(|_| format!("FAULT {}", Kind::ControllerTwice.name()));
        self.takes_up(*image, false);
        self.shared.borrow_mut().counts.add("history a second controller runs");
    }

    /// The second one is switched off, and agents come back to the first. An operator starts that again, as it asks for.
    pub fn twin_goes(&mut self) {
        let Some(first) = self.history.twin.first.take() else { return };
        let First { turns, started, copy, registered, sent, tried, began, lost } = *first;
        self.note(|_| "the second controller is switched off".to_owned());
        self.controller_ends();
        self.history.held.is_of_another(&self.shared.borrow(), &sent);
        self.takes_up(copy, false);
        self.history.held.knows_again(&lost, &sent);
        {
            let shared = &mut *self.shared.borrow_mut();
            shared.sent.extend(sent);
            shared.tried.extend(tried);
            shared.began.extend(began);
        }
        self.controller_is_back(turns, started, registered);
        let again = self.history.twin.dice.millis(1_000, 120_000);
        self.later(again, Event::GoesBack(Step::FirstStartsAgain));
    }
}
