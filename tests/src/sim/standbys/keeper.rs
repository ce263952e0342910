//! Passes requests of a controller's lease machine to the row of the lease, and the answers back, as `lease/keeper.rs`
//! does on a thread.
//!
//! Requests and answers take their time, and are lost where a controller is cut off. Answers that arrive while a
//! process is paused are taken when it goes on.

use std::time::Duration;

use muster_controller::lease::{Holder, Knocks, LeaseState, Record, Standby, Tenure, Term, Verdict};
use muster_shared::{Epoch, MonoTime};

use super::super::shared::Shared;
use super::super::world::{Event, World};
use super::{LOADS, RESTARTS, Role, Seat};

/// The next step of a controller for the lease.
#[derive(Clone)]
pub enum Step {
    /// The controller's process starts, as a standby.
    Starts,
    /// The controller looks at the lease, or renews it.
    Asks,
    /// A request of the controller arrives at the database.
    Arrives(Box<Asked>),
    /// The answer is there.
    Answers(Box<Answered>),
    /// The request with this number is not waited for any longer.
    IsLate(u64),
    /// The controller has the lease, and has loaded the site.
    Serves,
    /// Is its lease over, by its own clock?
    MayBeOver,
    /// The process that was replaced goes on with what waits for it.
    GoesOn,
}

/// The answer to the request with this number.
#[derive(Clone)]
pub struct Answered {
    number: u64,
    /// When the request was made.
    at: MonoTime,
    answer: Answer,
}

/// A request to the database.
#[derive(Clone)]
pub struct Asked {
    number: u64,
    /// When the request was made, by the controller's clock; of a take, when the controller looked.
    at: MonoTime,
    request: Request,
}

#[derive(Clone)]
enum Request {
    Look,
    Take(Option<Record>),
    Renew(Term, usize),
    /// The holder must give the lease to this controller.
    Ask(Term),
    Leave(Term, Option<String>),
}

#[derive(Clone)]
enum Answer {
    Saw(Option<Record>),
    Took(Option<Term>),
    Renewed(Option<Record>),
    Left,
    WasAsked,
    Failed,
}

/// Returns the database's answer to a request, and changes the row of the lease.
fn served(shared: &mut Shared, request: Request, member: &super::Member, bits: u64) -> Answer {
    if shared.full || shared.broken {
        return Answer::Failed;
    }
    let row = &mut shared.lease.row;
    match request {
        Request::Look => Answer::Saw(row.clone()),
        Request::Renew(term, agents) => {
            let ours = row.as_mut().filter(|row| row.term == term);
            Answer::Renewed(ours.map(|row| {
                (row.beat, row.agents) = (row.beat + 1, agents);
                row.clone()
            }))
        }
        Request::Ask(term) => {
            if let Some(row) = row.as_mut().filter(|row| row.term == term && row.state == LeaseState::Held) {
                row.state = LeaseState::Asked { heir: member.name.clone() };
                shared.counts.add("standby a lease is asked for by a controller that more agents reach");
            }
            Answer::WasAsked
        }
        Request::Take(seen) if *row == seen => {
            let how = match &seen {
                None => "a lease that is free is taken",
                Some(seen) if seen.holder.instance == member.instance => {
                    "a lease is taken back after a crash"
                }
                Some(Record { state: LeaseState::Free, .. }) => "a lease that is free is taken",
                Some(Record { state: LeaseState::Left { heir }, .. }) if *heir == member.name => {
                    "a lease is taken by its heir"
                }
                Some(_) => "a lease that is not renewed is taken over",
            };
            let last = seen.map_or(0, |seen| seen.term.epoch.0).max(shared.tables.epoch);
            let term = Term { epoch: Epoch(last + 1), bits };
            let (holder, since) = (member.clone(), String::new());
            *row = Some(Record {
                term,
                holder,
                since,
                beat: 0,
                agents: 0,
                state: LeaseState::Held,
                asker: None,
            });
            shared.counts.add(format!("standby {how}"));
            Answer::Took(Some(term))
        }
        Request::Take(_) => {
            shared.counts.add("standby a lease is another's by the time of the take");
            Answer::Took(None)
        }
        Request::Leave(term, heir) => {
            if let Some(row) = row.as_mut().filter(|row| row.term == term) {
                row.state = heir.map_or(LeaseState::Free, |heir| LeaseState::Left { heir });
                row.beat += 1;
            }
            Answer::Left
        }
    }
}

impl World {
    /// A controller, in this life of its process, does something for the lease.
    pub fn keeper_steps(&mut self, at: usize, life: u64, step: Step) {
        if self.standbys.is_over {
            return;
        }
        // Whatever became of the process that sent it.
        if let Step::Arrives(asked) = step {
            self.lease_is_asked(at, life, *asked);
            return self.one_holds_the_lease();
        }
        let controller = &mut self.standbys.controllers[at];
        if controller.life != life {
            return;
        }
        let goes_on = controller.place.paused_until.get();
        if self.now < goes_on {
            return self.at(goes_on, Event::Keeper(at, life, step));
        }
        match step {
            Step::Arrives(_) => {}
            Step::Starts => {
                (controller.tenure, controller.knocks) = (Tenure::none(), Knocks::default());
                controller.role = Role::Waits(Standby::new(controller.me.clone(), self.standbys.terms));
                self.keeper_asks(at);
            }
            Step::Asks => self.keeper_asks(at),
            Step::Answers(answered) => {
                let Answered { number, at: asked, answer } = *answered;
                // One that comes later is of a connection that was given up.
                let is_cut_off = self.now < controller.place.cut_off_until.get();
                if !is_cut_off && controller.open.take_if(|open| *open == number).is_some() {
                    self.keeper_hears(at, asked, answer);
                }
            }
            Step::IsLate(number) => {
                if controller.open.take_if(|open| *open == number).is_some() {
                    self.keeper_hears(at, MonoTime::default(), Answer::Failed);
                }
            }
            Step::Serves => self.holder_serves(at),
            Step::MayBeOver => self.lease_may_be_over(at),
            Step::GoesOn => self.replaced_goes_on(at),
        }
        self.one_holds_the_lease();
    }

    fn keeper_asks(&mut self, at: usize) {
        let controller = &self.standbys.controllers[at];
        let request = match &controller.role {
            Role::Ended | Role::Leaves(_) => return,
            Role::Waits(_) => Request::Look,
            Role::Holds(_, term) => Request::Renew(*term, self.bus.registered.len()),
        };
        self.keeper_sends(at, request, controller.place.clock(self.now));
    }

    fn keeper_sends(&mut self, at: usize, request: Request, asked: MonoTime) {
        let controller = &mut self.standbys.controllers[at];
        controller.asked += 1;
        let (number, life) = (controller.asked, controller.life);
        controller.open = Some(number);
        let (way, bound) = (self.takes_to_the_database(), self.standbys.terms.lease / 2);
        self.later(
            way,
            Event::Keeper(at, life, Step::Arrives(Box::new(Asked { number, at: asked, request }))),
        );
        self.later(bound, Event::Keeper(at, life, Step::IsLate(number)));
    }

    fn takes_to_the_database(&mut self) -> Duration {
        let dice = &mut self.standbys.dice;
        let most = if dice.one_in(20) { 1000 } else { 10 };
        dice.millis(0, most)
    }

    fn lease_is_asked(&mut self, at: usize, life: u64, asked: Asked) {
        let bits = self.standbys.dice.number();
        let controller = &self.standbys.controllers[at];
        if self.now < controller.place.cut_off_until.get() {
            return;
        }
        let Asked { number, at: when, request } = asked;
        let answer = served(&mut self.shared.borrow_mut(), request, &controller.me, bits);
        let answered = Answered { number, at: when, answer };
        let way = self.takes_to_the_database();
        self.later(way, Event::Keeper(at, life, Step::Answers(Box::new(answered))));
    }

    fn keeper_hears(&mut self, at: usize, asked: MonoTime, answer: Answer) {
        let (now, terms) = (self.now, self.standbys.terms);
        let controller = &mut self.standbys.controllers[at];
        let clock = controller.place.clock(now);
        let pause = match (&mut controller.role, answer) {
            (Role::Waits(standby), Answer::Saw(record)) => {
                if standby.saw(clock, record.as_ref(), controller.reserve) != Verdict::Wait {
                    return self.keeper_sends(at, Request::Take(record), asked);
                }
                let stranded = controller.knocks.stranded(clock, terms.lease);
                // Not at the end, when one must serve the site at a certain moment.
                let asks = self.faults.on && standby.reaches_more(clock, stranded);
                if let Some(Record { term, .. }) = record.filter(|_| asks) {
                    return self.keeper_sends(at, Request::Ask(term), asked);
                }
                standby.next_look(clock, controller.reserve)
            }
            (Role::Waits(_), Answer::Took(Some(term))) if !self.shared.borrow().lease.is_in(term) => {
                // The controller was stopped meanwhile. Its process finds that when it loads the site.
                self.shared.borrow_mut().counts.add("standby a take is over when its answer comes");
                return self.lease_is_lost(at);
            }
            (Role::Waits(_), Answer::Took(Some(term))) => {
                let holder = Holder::new(asked, terms);
                controller.tenure.set(holder.until());
                controller.role = Role::Holds(holder, term);
                controller.knocks.clear();
                self.takes_the_site_over(at, term);
                Duration::ZERO
            }
            (Role::Holds(holder, _), Answer::Renewed(Some(record))) => {
                holder.renewed(asked);
                let until = holder.until();
                let was_over = !controller.holds(now);
                controller.tenure.set(until);
                if was_over && controller.holds(now) && controller.replaced.is_none() {
                    self.shared.borrow_mut().counts.add("standby a lease that was over is renewed");
                }
                if let LeaseState::Asked { heir } = record.state {
                    return self.leaves_the_lease(at, Some(heir), Duration::ZERO);
                }
                terms.pace()
            }
            (Role::Holds(..), Answer::Renewed(None)) => return self.lease_is_lost(at),
            (Role::Holds(holder, _), Answer::Failed) => {
                let over = controller.place.when(holder.until()).max(now);
                let life = controller.life;
                self.at(over, Event::Keeper(at, life, Step::MayBeOver));
                terms.pace() / 4
            }
            (Role::Waits(_), _) | (Role::Holds(..), _) => terms.pace(),
            (Role::Leaves(back), _) => {
                let back = *back;
                return self.process_ends(at, back);
            }
            (Role::Ended, _) => return,
        };
        let life = self.standbys.controllers[at].life;
        self.later(pause, Event::Keeper(at, life, Step::Asks));
    }

    /// The controller has the lease. If another process had it, that one goes on beside it.
    fn takes_the_site_over(&mut self, at: usize, term: Term) {
        let name = self.standbys.controllers[at].me.name.clone();
        self.note(|_| format!("{name} has the lease, epoch {}", term.epoch.0));
        if let Some(former) = self.standbys.active.take() {
            self.is_replaced(former);
        }
        self.standbys.active = Some(at);
        let (loads, life) = (self.standbys.dice.millis(LOADS.0, LOADS.1), self.standbys.controllers[at].life);
        self.later(loads, Event::Keeper(at, life, Step::Serves));
    }

    fn holder_serves(&mut self, at: usize) {
        let controller = &self.standbys.controllers[at];
        let Role::Holds(_, term) = controller.role else { return };
        let (tenure, place) = (controller.tenure.clone(), std::rc::Rc::clone(&controller.place));
        let seat = Seat { term, tenure, place };
        if self.standbys.active == Some(at) && !self.controller_loads(Some(seat)) {
            self.process_ends(at, Duration::from_secs(5));
        }
    }

    /// Sends the agents of a controller away whose lease is over.
    fn lease_may_be_over(&mut self, at: usize) {
        let is_active = self.standbys.active == Some(at) && self.controller.turns.is_some();
        if !is_active || self.standbys.controllers[at].holds(self.now) {
            return;
        }
        let run = self.controller.run;
        let lines = self.bus.lines.iter().filter(|(_, line)| line.run == run && !line.broken);
        for number in lines.map(|(number, _)| *number).collect::<Vec<_>>() {
            let agent = self.standbys.dice.millis(1, 200);
            self.line_ends(number, Some(agent), Some(Duration::ZERO));
            self.shared.borrow_mut().counts.add("standby agents are sent away, for the lease is over");
        }
    }

    /// The controller's process finds that another one has the lease: it ends, and is started again.
    fn lease_is_lost(&mut self, at: usize) {
        self.shared.borrow_mut().counts.add("standby a renewal finds another holder");
        if self.standbys.active == Some(at) && self.controller.turns.is_some() {
            return self.controller_ends();
        }
        let back = self.standbys.dice.millis(RESTARTS.0, RESTARTS.1);
        self.process_ends(at, back);
    }

    /// The controller's process stops in order, gives the lease up, and stands by after the time `back`.
    pub(super) fn leaves_the_lease(&mut self, at: usize, heir: Option<String>, back: Duration) {
        let Role::Holds(_, term) = self.standbys.controllers[at].role else { return };
        let name = self.standbys.controllers[at].me.name.clone();
        self.note(|_| format!("{name} gives the lease up for {heir:?}"));
        if self.standbys.active == Some(at) {
            drop(self.controller_is_left_alone());
        }
        self.process_becomes(at, Role::Leaves(back));
        self.keeper_sends(at, Request::Leave(term, heir), MonoTime::default());
    }

    /// Two never hold the lease at one moment, and who holds it is in the row.
    fn one_holds_the_lease(&mut self) {
        let holding = self.standbys.controllers.iter().filter(|controller| controller.holds(self.now));
        let terms: Vec<(&str, u32)> = holding
            .filter_map(|it| match it.role {
                Role::Holds(_, term) => Some((&*it.me.name, term.epoch.0)),
                Role::Waits(_) | Role::Leaves(_) | Role::Ended => None,
            })
            .collect();
        let row = self.shared.borrow().lease.row.as_ref().map(|row| row.term.epoch.0);
        let is_right = terms.len() < 2 && terms.iter().all(|(_, epoch)| Some(*epoch) == row);
        let wrong = (!is_right).then(|| format!("{terms:?} hold the lease, whose epoch is {row:?}"));
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
    }
}
