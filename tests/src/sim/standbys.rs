//! Several controllers of one site over one store: one of them has the lease, and the others stand by.
//!
//! ```text
//!   keeper of each controller ── looks, takes, renews ──▶ row of the lease ◀── each commit compares its term
//!        └──▶ Tenure ◀── what leaves for agents asks          (`Lease`)
//! ```
//!
//! The machines of the lease decide (`lease::Standby`, `lease::Holder`); `keeper` passes what they want to the row and
//! back, with delays. The process that serves the site is `World::controller`. One whose lease another has taken goes on
//! beside it (`replaced`).
//!
//! **Invariants.** Two never hold the lease at one moment. The store refuses who does not have it, as the real one does. A
//! controller that was replaced answers no request with success, and says nothing to agents. Its successor loads what was
//! committed, and nothing is lost of that: it is a start like any other, and what holds after a start holds here. Once the
//! faults are over, a controller serves the site soon.
//!
//! Absent: what an active controller that is cut off from the database takes from agents and operators before its lease is
//! over: here they wait. Packets of one that was replaced which are still on their way. Standbys whose clock jumps: such a
//! one takes the lease too early, and the transaction and the agents' epochs are what is left (`store/sql/postgres/tests`,
//! `--with history`). Commits in doubt, which the store's tests have.
//! Several sites: what the other sites of a controller make it leave to others is a number here (`lease/share.rs`).

mod keeper;
mod replaced;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use muster_controller::lease::{Holder, Knocks, LeaseState, Member, Record, Standby, Tenure, Term, Terms};
use muster_controller::store::{PostgresError, StoreError};
use muster_shared::{MonoTime, NodeId};

use super::bus::Way;
use super::dice::Dice;
use super::fault::Kind;
use super::shared::Shared;
use super::world::{Event, World};
pub use keeper::Step;
use replaced::Replaced;

/// In one of so many runs there are standbys.
const ONE_IN: u64 = 4;
/// The lease, in seconds: that of the product is the first.
const LEASES: [u64; 3] = [5, 5, 20];
/// Milliseconds between two faults.
const EVERY: (u64, u64) = (3000, 120_000);
/// The longest of them, in milliseconds: a moment, about a lease, and many.
const LONGEST: [u64; 3] = [2000, 10_000, 60_000];
/// Milliseconds until a process that ended is started again.
const RESTARTS: (u64, u64) = (100, 15_000);
/// Milliseconds until a site is loaded.
const LOADS: (u64, u64) = (20, 3000);
/// Faults of controllers; each comes as often as it stands here.
const CHAOS: [Kind; 8] = [
    Kind::ControllerPaused,
    Kind::ControllerPaused,
    Kind::ControllerPaused,
    Kind::ControllerCutOff,
    Kind::ControllerCutOff,
    Kind::ControllerUnreached,
    Kind::ControllerClockJumps,
    Kind::ControllerHandsOver,
];

/// The controllers of a site.
pub struct Standbys {
    dice: Dice,
    terms: Terms,
    /// The controllers; empty: the site has one controller, and no lease.
    controllers: Vec<Controller>,
    /// The one that took the lease last: `World::controller` is its process, once that has loaded the site.
    active: Option<usize>,
    /// No faults come any more, and one serves the site: nobody looks at the lease again.
    is_over: bool,
}

struct Controller {
    me: Member,
    /// The time for which the controller leaves a free lease to others, as one that has more sites does.
    reserve: Duration,
    place: Rc<Place>,
    tenure: Tenure,
    role: Role,
    /// Counts its processes.
    life: u64,
    /// Counts what it asked the database.
    asked: u64,
    /// Number of the request that has no answer yet.
    open: Option<u64>,
    /// Agents that came while it stood by.
    knocks: Knocks,
    replaced: Option<Box<Replaced>>,
}

/// The receiver of a lease.
enum HandOver {
    /// The holder of the lease is stopped, and starts again after this time.
    ToAnyone { back: Duration },
    /// The lease goes to the controller that is so many places further.
    ToHeir { further: usize },
}

impl HandOver {
    fn drawn(dice: &mut Dice, controllers: usize) -> Self {
        let (further, back) = (1 + dice.index(controllers - 1), dice.millis(RESTARTS.0, RESTARTS.1));
        if dice.one_in(3) { Self::ToAnyone { back } } else { Self::ToHeir { further } }
    }
}

enum Role {
    /// There is no process.
    Ended,
    /// The controller gives the lease up, and starts again after this time.
    Leaves(Duration),
    Waits(Standby),
    Holds(Holder, Term),
}

/// A controller's clock, and its ways to others.
struct Place {
    /// The speed of the controller's clock, in thousandths.
    rate: u32,
    ahead: Cell<Duration>,
    /// The controller's process does nothing before this.
    paused_until: Cell<MonoTime>,
    /// Nothing passes between the controller and the database before this.
    cut_off_until: Cell<MonoTime>,
    /// Nothing passes between the controller and the agents before this.
    unreached_until: Cell<MonoTime>,
}

impl Place {
    fn clock(&self, now: MonoTime) -> MonoTime {
        MonoTime(now.0 * self.rate / 1000 + self.ahead.get())
    }

    /// Returns the moment when the controller's clock shows this, or a moment later.
    fn when(&self, shows: MonoTime) -> MonoTime {
        MonoTime(shows.0.saturating_sub(self.ahead.get()) * 1000 / self.rate + Duration::from_millis(1))
    }

    fn last_fault(&self) -> MonoTime {
        self.paused_until.get().max(self.cut_off_until.get()).max(self.unreached_until.get())
    }
}

/// The lease, as a process that serves the site has it.
#[derive(Clone)]
pub struct Seat {
    pub term: Term,
    tenure: Tenure,
    place: Rc<Place>,
}

impl Seat {
    /// Returns whether the process may speak to agents. If it is paused, what it does now happens when it goes on.
    pub fn may_speak(&self, now: MonoTime) -> bool {
        self.tenure.holds_by(|| self.place.clock(now.max(self.place.paused_until.get())))
    }
}

/// The lease in the database.
#[derive(Default)]
pub struct Lease {
    row: Option<Record>,
    /// The time for which the controller is stopped after its next commit, before anything leaves.
    stops_for: Option<Duration>,
    /// A message was held: its connection ends.
    pub is_silent: bool,
}

impl Lease {
    /// Whether a transaction of this controller is let in: as `FOR KEY SHARE`, it holds until the commit.
    pub fn is_open_to(&self, seat: &Seat, now: MonoTime) -> Result<(), StoreError> {
        let server = "the simulated database".to_owned();
        if now < seat.place.cut_off_until.get() {
            return Err(PostgresError::Hangs { server, after: Duration::from_secs(10) }.into());
        }
        match self.is_of(seat) {
            true => Ok(()),
            false => Err(PostgresError::Deposed { server, epoch: seat.term.epoch.0 }.into()),
        }
    }

    /// Whether this controller has it.
    pub fn is_of(&self, seat: &Seat) -> bool {
        self.is_in(seat.term)
    }

    /// Whether this is the term of its holder.
    fn is_in(&self, term: Term) -> bool {
        self.row.as_ref().is_some_and(|row| row.term == term)
    }
}

impl Shared {
    /// A commit is made, and its controller may be stopped right after it.
    pub fn stops_after_a_commit(&mut self, seat: &Seat) {
        if let Some(long) = self.lease.stops_for.take() {
            seat.place.paused_until.set(seat.place.paused_until.get().max(self.now + long));
            self.counts.add("standby a controller stops between a commit and what leaves");
        }
    }
}

impl Standbys {
    pub fn new(seed: u64, is_on: bool) -> Self {
        let mut dice = Dice::new(seed, "standbys");
        let is_on = dice.one_in(ONE_IN) && is_on;
        let terms = Terms { lease: Duration::from_secs(*dice.pick(&LEASES)) };
        let many = if is_on { 2 + dice.index(2) } else { 0 };
        let controllers = (0..many).map(|at| Controller::new(at, terms, &mut dice)).collect();
        Self { dice, terms, controllers, active: None, is_over: false }
    }

    fn active(&self) -> Option<&Controller> {
        self.controllers.get(self.active?)
    }

    /// Before this nothing that goes this way reaches the active controller, or comes from it.
    pub fn away_until(&self, way: Way) -> MonoTime {
        let Some(Controller { place, .. }) = self.active() else { return MonoTime::default() };
        match way {
            Way::Down => place.unreached_until.get(),
            Way::Up => place.unreached_until.get().max(place.paused_until.get()),
        }
    }
}

impl Controller {
    fn new(at: usize, terms: Terms, dice: &mut Dice) -> Self {
        let name = format!("c{}", at + 1);
        let me = Member { instance: format!("{name}'s"), name, addresses: Vec::new() };
        let place = Place {
            rate: u32::try_from(960 + dice.below(80)).unwrap_or(1000),
            ahead: Cell::new(dice.millis(0, 1_000_000)),
            paused_until: Cell::default(),
            cut_off_until: Cell::default(),
            unreached_until: Cell::default(),
        };
        Self {
            me,
            reserve: terms.pace() / 2 * u32::try_from(dice.below(3)).unwrap_or_default(),
            place: Rc::new(place),
            tenure: Tenure::none(),
            role: Role::Ended,
            life: 0,
            asked: 0,
            open: None,
            knocks: Knocks::default(),
            replaced: None,
        }
    }

    fn holds(&self, now: MonoTime) -> bool {
        self.tenure.holds_by(|| self.place.clock(now))
    }
}

impl World {
    /// Starts all controllers. Returns false if the site has only one.
    pub fn controllers_begin(&mut self) -> bool {
        for at in 0..self.standbys.controllers.len() {
            let after = if at == 0 { Duration::ZERO } else { self.standbys.dice.millis(0, 20_000) };
            self.later(after, Event::Keeper(at, 0, Step::Starts));
        }
        !self.standbys.controllers.is_empty()
    }

    /// Whether agents can come to the active controller, as far as that depends on itself.
    pub fn active_admits(&self) -> bool {
        let Some(active) = self.standbys.active() else { return self.standbys.controllers.is_empty() };
        active.holds(self.now)
            && !self.active_hears_nobody()
            && active.place.unreached_until.get() <= self.now
    }

    /// Returns whether the active controller hears nobody: it is paused, or could write nothing that it is asked.
    pub fn active_hears_nobody(&self) -> bool {
        let place = self.standbys.active().map(|active| &active.place);
        place.is_some_and(|place| place.paused_until.get().max(place.cut_off_until.get()) > self.now)
    }

    /// An agent does not reach the active controller, and comes to another one, if that is there.
    pub fn comes_to_a_standby(&mut self, node: &NodeId) {
        if self.standbys.controllers.is_empty() {
            return;
        }
        let at = self.standbys.dice.index(self.standbys.controllers.len());
        let now = self.now;
        let controller = &mut self.standbys.controllers[at];
        let is_there = controller.place.paused_until.get().max(controller.place.unreached_until.get()) <= now;
        if is_there && matches!(controller.role, Role::Waits(_)) {
            controller.knocks.comes(controller.place.clock(now), node);
        }
    }

    /// The process of the active controller ended, and is started again after this. False: the site has one controller.
    pub fn active_process_ended(&mut self, back: Duration) -> bool {
        if let Some(at) = self.standbys.active {
            self.process_ends(at, back);
        }
        !self.standbys.controllers.is_empty()
    }

    /// Another process starts after this.
    fn process_ends(&mut self, at: usize, back: Duration) {
        let life = self.process_becomes(at, Role::Ended);
        self.later(back, Event::Keeper(at, life, Step::Starts));
    }

    /// Gives the controller's process another role: it does not serve the site any more, and forgets whatever it waits
    /// for. Returns its new life.
    fn process_becomes(&mut self, at: usize, role: Role) -> u64 {
        self.standbys.active.take_if(|active| *active == at);
        let controller = &mut self.standbys.controllers[at];
        controller.tenure.resign();
        (controller.role, controller.open, controller.replaced) = (role, None, None);
        controller.life += 1;
        controller.life
    }

    /// Pauses the whole process of the active controller.
    pub fn active_is_paused(&mut self, until: MonoTime) {
        if let Some(active) = self.standbys.active() {
            active.place.paused_until.set(active.place.paused_until.get().max(until));
        }
    }

    /// The turn that is over was stopped before anything left.
    pub fn was_stopped_in_its_turn(&mut self) {
        if let Some(active) = self.standbys.active() {
            self.controller.busy_until = self.controller.busy_until.max(active.place.paused_until.get());
        }
        let is_silent = std::mem::take(&mut self.shared.borrow_mut().lease.is_silent);
        if let Some(active) = self.standbys.active.filter(|_| is_silent) {
            let life = self.standbys.controllers[active].life;
            self.later(Duration::ZERO, Event::Keeper(active, life, Step::MayBeOver));
        }
    }

    /// Plans the first fault of a controller.
    pub fn plans_controllers_chaos(&mut self) {
        if !self.standbys.controllers.is_empty() {
            let after = self.standbys.dice.millis(EVERY.0, EVERY.1);
            self.later(after, Event::ControllersChaos);
        }
    }

    /// The next fault.
    pub fn controllers_chaos(&mut self) {
        if !self.faults.on {
            return;
        }
        self.plans_controllers_chaos();
        let dice = &mut self.standbys.dice;
        let kind = *dice.pick(&CHAOS);
        let most = *dice.pick(&LONGEST);
        let (long, of_active) = (dice.millis(100, most), dice.below(4) > 0);
        let any = dice.index(self.standbys.controllers.len());
        let (in_its_turn, to) = (dice.one_in(2), HandOver::drawn(dice, self.standbys.controllers.len()));
        let is_of_holder = kind != Kind::ControllerPaused && kind != Kind::ControllerCutOff;
        let active = self.standbys.active.filter(|_| of_active || is_of_holder);
        let Some(at) = active.or((!is_of_holder).then_some(any)) else { return };
        let name = self.standbys.controllers[at].me.name.clone();
        if !self.faults.happens(self.now, kind, &name) {
            return;
        }
        self.note(|_| format!("FAULT {} {name} {long:?}", kind.name()));
        let until = self.now + long;
        let place = Rc::clone(&self.standbys.controllers[at].place);
        match kind {
            Kind::ControllerPaused if active == Some(at) && in_its_turn => {
                self.shared.borrow_mut().lease.stops_for = Some(long);
            }
            Kind::ControllerPaused => {
                place.paused_until.set(place.paused_until.get().max(until));
                if active == Some(at) {
                    self.controller.busy_until = self.controller.busy_until.max(until);
                }
            }
            Kind::ControllerCutOff => place.cut_off_until.set(place.cut_off_until.get().max(until)),
            Kind::ControllerUnreached => place.unreached_until.set(place.unreached_until.get().max(until)),
            Kind::ControllerClockJumps => {
                place.ahead.set(place.ahead.get() + self.standbys.terms.lease + long);
                let life = self.standbys.controllers[at].life;
                self.later(Duration::ZERO, Event::Keeper(at, life, Step::MayBeOver));
            }
            _ => self.is_to_hand_over(at, to),
        }
    }

    /// An operator wants another controller to have the lease, or stops the one that has it.
    fn is_to_hand_over(&mut self, at: usize, to: HandOver) {
        let next = match to {
            HandOver::ToAnyone { back } => return self.leaves_the_lease(at, None, back),
            HandOver::ToHeir { further } => (at + further) % self.standbys.controllers.len(),
        };
        let heir = self.standbys.controllers[next].me.name.clone();
        let lease = &mut self.shared.borrow_mut().lease;
        if let Some(row) = lease.row.as_mut().filter(|row| row.state == LeaseState::Held) {
            row.state = LeaseState::Asked { heir };
        }
    }

    /// There are no more faults.
    pub fn plans_the_last_look(&mut self) {
        self.shared.borrow_mut().lease.stops_for = None;
        let ended = self.standbys.controllers.iter().map(|it| it.place.last_fault()).max();
        let Some(ended) = ended else { return };
        // A process starts again, finds that another one had the lease and waits until that is over, asks a few times
        // until it is answered, and loads the site.
        let Terms { lease } = self.standbys.terms;
        let (starts, loads) = (Duration::from_millis(RESTARTS.1), Duration::from_millis(LOADS.1));
        let within = starts * 2 + loads + lease * 2 + self.standbys.terms.pace() * 4;
        self.at(ended.max(self.now) + within, Event::ControllerIsDue);
    }

    /// Checks that a controller serves the site.
    pub fn controller_is_due(&mut self) {
        let active =
            self.standbys.active().filter(|it| it.holds(self.now) && self.controller.turns.is_some());
        match active {
            Some(active) => {
                active.tenure.set(MonoTime(Duration::MAX));
                self.standbys.is_over = true;
            }
            None => {
                let row = self.shared.borrow().lease.row.clone();
                self.violate(format!("no controller serves the site, and there are no more faults: {row:?}"));
            }
        }
    }
}
