//! The controller: the real engine and the real turns of the driver, over the simulated disk and connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use muster_controller::driver::Turns;
use muster_controller::link::Admitted;
use muster_engine::{Answer, Config, Limits, Refusal, Request, Starts};
use muster_shared::model::Up;
use muster_shared::{MonoTime, NodeId, StackName};

use super::bus::told;
use super::crowd::Asking;
use super::fault::Kind;
use super::invariant::SoFar;
use super::large::Turn;
use super::outbox::{Leaving, SimOutbox};
use super::real_database::Beside;
use super::reference::Asked;
use super::standbys::Seat;
use super::store::SimStore;
use super::world::{Event, World};

/// Turns in which stacks enter their rows: more are a loop.
const SLICES_MAX: usize = 1000;
/// Inputs in one turn, as in the real driver.
const TURN_MAX: usize = 8192;
/// Timers that come due at one moment: more are a loop.
const WAKES_MAX: u32 = 10_000;

/// The controller's process.
pub struct Controller {
    /// The turns of the process, while it runs.
    pub turns: Option<Turns<SimStore, SimOutbox>>,
    /// Counts its starts.
    pub run: u64,
    /// The time until which it stands still, or waits for its disk.
    pub busy_until: MonoTime,
    /// Bounds of this site.
    pub limits: Limits,
    /// Requests of a crowd that have no answer yet.
    pub crowd: BTreeMap<u64, Rc<Asking>>,
    /// Stacks that went in this turn.
    pub gone: BTreeSet<StackName>,
    started: MonoTime,
    inbox: VecDeque<Inlet>,
    turn_due: bool,
    timer: u64,
    woken: (MonoTime, u32),
}

#[derive(Clone)]
pub enum Inlet {
    /// A node is here.
    Connected { node: NodeId, connection: u64 },
    /// The connection is gone.
    Disconnected { node: NodeId, connection: u64 },
    /// The node sent messages.
    Received { node: NodeId, connection: u64, messages: Vec<Up> },
    /// An operator of a crowd asks.
    Asks(Rc<Asking>),
}

impl Controller {
    /// Makes a controller that has not started yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            turns: None,
            run: 0,
            busy_until: MonoTime::default(),
            limits,
            crowd: BTreeMap::new(),
            gone: BTreeSet::new(),
            started: MonoTime::default(),
            inbox: VecDeque::new(),
            turn_due: false,
            timer: 0,
            woken: (MonoTime::default(), 0),
        }
    }

    /// Takes the inlets that wait for it.
    pub fn takes_inbox(&mut self) -> VecDeque<Inlet> {
        std::mem::take(&mut self.inbox)
    }

    /// Returns the time when the process started.
    pub fn started(&self) -> MonoTime {
        self.started
    }
}

impl World {
    /// Starts the controller; if its disk does not let it, again a little later.
    pub fn controller_starts(&mut self) {
        if self.controller.turns.is_none() && !self.controller_loads(None) {
            self.later(Duration::from_secs(5), Event::ControllerStarts);
        }
    }

    /// The controller loads the site, and goes on with it. False: its disk does not let it.
    pub fn controller_loads(&mut self, seat: Option<Seat>) -> bool {
        self.controller.run += 1;
        let (run, limits) = (self.controller.run, self.controller.limits);
        let seed: [u8; 32] = self.dice.controller.bytes();
        let own_bits = u64::from_le_bytes(std::array::from_fn(|at| seed[at]));
        let epoch_bits = seat.as_ref().map_or(own_bits, |seat| seat.term.bits);
        let mut configs = 0u8;
        let config = move |epoch| {
            configs = configs.wrapping_add(1);
            let mut seed = seed;
            seed[0] ^= configs;
            Config { epoch, epoch_bits, starts: Starts::default(), seed, limits }
        };
        {
            let mut shared = self.shared.borrow_mut();
            (shared.fuse, shared.blown) = (None, false);
            let takes = !(shared.full || shared.broken || shared.held);
            shared.clocks.opens(self.now, takes);
        }
        let store = SimStore { shared: Rc::clone(&self.shared), seat: seat.clone() };
        let outbox = SimOutbox { shared: Rc::clone(&self.shared), seat };
        let Ok(mut turns) = Turns::new(store, outbox, config, MonoTime::default()) else { return false };
        turns.keep(Admitted::default());
        self.controller.turns = Some(turns);
        self.controller.started = self.now;
        self.controller.busy_until = self.now;
        self.controller.turn_due = false;
        self.bus.registered.clear();
        self.note(|_| format!("controller starts, run {run}"));
        self.controller_wakes_now();
        self.controller_turn();
        true
    }

    /// Ends the controller wherever it is; what it had not written is lost.
    pub fn controller_ends(&mut self) {
        if self.controller_is_left_alone().is_some() {
            self.another_start_follows();
            self.note(|_| "controller ends".to_owned());
        }
    }

    pub fn another_start_follows(&mut self) {
        let back = self.dice.controller.millis(100, 15_000);
        if !self.active_process_ended(back) {
            self.later(back, Event::ControllerStarts);
        }
    }

    /// Cuts all connections to the controller and takes its process away: another process takes its place, and nobody
    /// reaches the old one any more.
    pub fn controller_is_left_alone(&mut self) -> Option<Turns<SimStore, SimOutbox>> {
        let turns = self.controller.turns.take()?;
        self.controller.inbox.clear();
        self.controller.crowd.clear();
        self.reference.forgets_what_is_asked();
        {
            let mut shared = self.shared.borrow_mut();
            shared.leaving.clear();
            (shared.fuse, shared.blown) = (None, false);
        }
        let run = self.controller.run;
        let lines = self.bus.lines.iter().filter(|(_, line)| line.run == run && !line.broken);
        for number in lines.map(|(number, _)| *number).collect::<Vec<_>>() {
            let notice = if self.dice.net.one_in(4) {
                self.dice.net.millis(1000, 60_000)
            } else {
                self.dice.net.millis(1, 200)
            };
            self.line_ends(number, Some(notice), None);
        }
        Some(turns)
    }

    /// The process that was replaced for a while, by another one in its place, is reached again.
    pub fn controller_is_back(
        &mut self,
        turns: Turns<SimStore, SimOutbox>,
        started: MonoTime,
        away: BTreeMap<NodeId, u64>,
    ) {
        self.controller.run += 1;
        self.controller.turns = Some(turns);
        self.controller.started = started;
        self.controller.busy_until = self.now;
        self.controller.turn_due = false;
        self.bus.registered.clear();
        // The controller has known that for long: before anything of theirs was due.
        let away = away.into_iter().map(|(node, connection)| Inlet::Disconnected { node, connection });
        self.controller.inbox.extend(away);
        self.controller_turn();
    }

    /// Queues an input for the controller's next turn.
    pub fn tell_controller(&mut self, inlet: Inlet) {
        if self.controller.turns.is_some() {
            self.controller.inbox.push_back(inlet);
            self.controller_has_something();
        }
    }

    fn controller_has_something(&mut self) {
        if !std::mem::replace(&mut self.controller.turn_due, true) {
            self.turn_may_be_late();
            let due = self.controller.busy_until.max(self.now);
            let run = self.controller.run;
            self.at(due, Event::ControllerTurn(run));
        }
    }

    /// The turn has come.
    pub fn controller_turn_due(&mut self, run: u64) {
        if run != self.controller.run || self.controller.turns.is_none() {
            return;
        }
        self.controller.turn_due = false;
        if self.now < self.controller.busy_until {
            return self.controller_has_something();
        }
        self.controller_turn();
    }

    /// Takes what waits, commits once, lets leave.
    pub fn controller_turn(&mut self) {
        let (now, turns) = (self.controller_now(), self.controller.turns.as_ref());
        let is_due = turns.and_then(Turns::poll_timeout).is_some_and(|due| due <= now);
        let turn = self.turn_begins(self.controller.inbox.len(), is_due);
        self.controller_takes(TURN_MAX);
        self.controller_wakes_if_due();
        self.statement_fails();
        self.controller_turns_over_with(turn.as_ref());
    }

    /// Takes at most this many of the inputs that wait. Inputs that come while the database is busy wait with it, as in
    /// the real driver.
    fn controller_takes(&mut self, most: usize) {
        let now = self.controller_now();
        for _ in 0..most {
            let Some(turns) = self.controller.turns.as_mut().filter(|turns| !turns.is_busy()) else { break };
            match self.controller.inbox.pop_front() {
                Some(Inlet::Connected { node, connection }) => turns.connected(now, node, connection),
                Some(Inlet::Disconnected { node, connection }) => turns.disconnected(now, node, connection),
                Some(Inlet::Received { node, connection, messages }) => {
                    turns.received(now, &node, connection, messages);
                }
                Some(Inlet::Asks(asking)) => self.crowd_asks(&asking),
                None => break,
            }
        }
    }

    /// An input of its turn; its answer comes with the turn's end.
    pub fn requests(
        &mut self,
        request: Request,
        expected: Option<(StackName, Asked)>,
    ) -> Option<Result<u64, Refusal>> {
        let now = self.controller_now();
        let asked = self.controller.turns.as_mut()?.request(now, None, request);
        if let (Ok(id), Some((name, asked))) = (&asked, expected) {
            self.reference.expect(*id, name, asked);
        }
        Some(asked)
    }

    fn controller_now(&self) -> MonoTime {
        MonoTime(self.now.since(self.controller.started))
    }

    /// The timer has come due.
    pub fn controller_wakes(&mut self, run: u64, timer: u64) {
        if run != self.controller.run || timer != self.controller.timer {
            return;
        }
        if self.now < self.controller.busy_until {
            let due = self.controller.busy_until;
            return self.at(due, Event::ControllerWakes(run, timer));
        }
        let (at, times) = self.controller.woken;
        self.controller.woken = if at == self.now { (at, times + 1) } else { (self.now, 0) };
        if times > WAKES_MAX {
            self.violate("a timer of the controller comes due for ever".into());
        }
        self.controller_turn();
    }

    /// Wakes the controller if a timer is due, after the inputs that waited were taken, as in the real driver.
    fn controller_wakes_if_due(&mut self) {
        let (now, turns) = (self.controller_now(), self.controller.turns.as_ref());
        if turns.and_then(|turns| turns.poll_timeout()).is_some_and(|due| due <= now) {
            self.controller_wakes_now();
        }
    }

    fn controller_wakes_now(&mut self) {
        let now = self.controller_now();
        if let Some(turns) = &mut self.controller.turns {
            turns.wake(now);
        }
    }

    /// Commits and lets leave; the answers come back, unless it ends on the way.
    pub fn controller_turns_over(&mut self) -> Vec<(u64, Result<Answer, Refusal>)> {
        self.controller_turns_over_with(None)
    }

    fn controller_turns_over_with(&mut self, turn: Option<&Turn>) -> Vec<(u64, Result<Answer, Refusal>)> {
        let now = self.controller_now();
        let Some(turns) = &mut self.controller.turns else { return Vec::new() };
        let written = self.shared.borrow().changes;
        let told = turns.turn_over(now);
        self.was_stopped_in_its_turn();
        let wrote = self.shared.borrow().changes > written;
        if wrote {
            self.last_write = self.now;
            let mut takes = self.dice.disks.millis(0, 5);
            if self.faults.strikes(self.now, Kind::StoreStalls, "the controller") {
                takes = self.dice.disks.millis(1000, 40_000);
            }
            self.controller.busy_until = self.controller.busy_until.max(self.now + takes);
        }
        let refuses = told.answers.iter().any(|(_, answer)| answer.is_err());
        turn.into_iter().for_each(|turn| self.turn_costs(turn, refuses));
        self.what_left();
        for (id, answer) in &told.answers {
            self.reference.answered(*id, answer);
        }
        let mut answers = Vec::new();
        for answer in told.answers {
            if self.shared.borrow_mut().step() {
                answers.push(answer);
            }
        }
        self.noted();
        for (id, _) in &answers {
            self.reference.is_over(*id);
        }
        if self.shared.borrow().blown {
            self.controller_ends();
            return answers;
        }
        self.crowd_hears(&answers);
        self.sees_that_it_is_restored();
        self.look();
        self.controller_timer();
        // A turn that was cut short goes on. What waits for the database is taken when its timer has come.
        let takes = self.controller.turns.as_ref().is_some_and(|turns| !turns.is_busy());
        if takes && !self.controller.inbox.is_empty() {
            self.controller_has_something();
        }
        answers
    }

    fn controller_timer(&mut self) {
        let Some(turns) = &self.controller.turns else { return };
        self.controller.timer += 1;
        if let Some(due) = turns.poll_timeout() {
            let due = (self.controller.started + due.0).max(self.now);
            let (run, timer) = (self.controller.run, self.controller.timer);
            self.at(due, Event::ControllerWakes(run, timer));
        }
    }

    /// Sends on what left the controller.
    fn what_left(&mut self) {
        let (leaving, suspects) = {
            let mut shared = self.shared.borrow_mut();
            shared.turn = SoFar::default();
            (std::mem::take(&mut shared.leaving), std::mem::take(&mut shared.suspects))
        };
        let blown = self.shared.borrow().blown;
        if let Some(suspect) = suspects.into_iter().next().filter(|_| !blown) {
            self.violate(suspect.wrong);
        }
        for it in leaving {
            match it {
                Leaving::Send { node, connection, messages } => {
                    let all = || messages.iter().map(told).collect::<Vec<_>>().join(", ");
                    self.note(|_| format!("controller to {node}: {}", all()));
                    let wrong = self.welcomes_what_it_never_gave(&node, connection, &messages);
                    wrong.into_iter().for_each(|wrong| self.violate(wrong));
                    self.post_down(connection, &messages);
                }
                Leaving::Close(node) => {
                    self.note(|_| format!("controller closes {node}"));
                    if let Some(line) = self.bus.registered.get(&node).copied() {
                        let agent = self.dice.net.millis(1, 1000);
                        self.line_ends(line, Some(agent), Some(Duration::ZERO));
                    }
                }
            }
        }
    }

    /// Does what is due and takes what waits.
    pub fn controller_catches_up(&mut self) {
        self.controller_turn();
        // Built again after a mistake, it has more to say at once; and a stack may enter its rows.
        let most = if self.has_slices() { SLICES_MAX } else { 1 };
        for _ in 0..most {
            let now = self.controller_now();
            let due = self.controller.turns.as_ref().and_then(Turns::poll_timeout);
            if due.is_none_or(|due| due > now) {
                return;
            }
            self.controller_wakes_now();
            self.controller_turn();
        }
    }

    /// Asks, in a turn of its own or somewhere between what waits. None: no answer came, for the controller ended.
    pub fn ask(&mut self, request: Request, alone: bool) -> Option<Result<Answer, Refusal>> {
        self.asks_for(request, None, alone)
    }

    /// Asks the controller, as [`Self::ask`]. The reference knows what the request should lead to.
    pub fn asks_for(
        &mut self,
        request: Request,
        expected: Option<(StackName, Asked)>,
        alone: bool,
    ) -> Option<Result<Answer, Refusal>> {
        // Real requests wait as long as the database is busy; simulated operators ask another time.
        if self.controller.turns.as_ref()?.is_busy() || self.active_hears_nobody() {
            return Some(Err(Refusal::Unavailable("the database is busy".to_owned())));
        }
        {
            let mut shared = self.shared.borrow_mut();
            shared.held = false;
            shared.beside.iter_mut().for_each(Beside::let_go);
        }
        let before = if alone { 0 } else { self.dice.controller.index(self.controller.inbox.len() + 1) };
        self.controller_takes(before);
        let id = match self.requests(request, expected)? {
            Ok(id) => id,
            Err(refusal) => return Some(Err(refusal)),
        };
        if !alone {
            self.controller_takes(TURN_MAX);
        }
        let answers = self.controller_turns_over();
        self.reference.is_over(id);
        answers.into_iter().find(|(of, _)| *of == id).map(|(_, answer)| answer)
    }
}
