//! Operators who ask at one time: a turn of the controller that comes late finds several requests among what agents have
//! said in the meantime, in the order in which they came, and one commit is for all of them.
//!
//! Two operations on one stack begin in one turn only where it is made or deleted: of others the tables do not tell what
//! the first one came to.

use std::rc::Rc;
use std::time::Duration;

use muster_engine::record::{StackAction, Status};
use muster_engine::{Answer, Options as How, Refusal, Request, Source};
use muster_shared::StackName;

use super::controller::Inlet;
use super::fault::Kind;
use super::operator::stack_name;
use super::reference::Asked;
use super::world::{Event, World};

/// A turn in so many is late, of those that could be: while a stack is being deleted, and otherwise.
const SELDOM: [u64; 2] = [8, 40];

/// A request of one of them.
pub struct Asking {
    /// The name of the stack.
    pub name: StackName,
    pub asked: Asked,
    pub how: How,
}

impl Asking {
    fn request(&self) -> Result<Request, String> {
        let name = self.name.clone();
        let options = self.how.clone();
        let source = |plan: &super::plan::Plan| {
            Source::parse(plan.source()).map_err(|errors| format!("{} is no template: {errors}", plan.name))
        };
        Ok(match &self.asked {
            Asked::Create(plan) => Request::Create { name, source: source(plan)?, options },
            Asked::Update(plan) => Request::Update { name, source: source(plan)?, options },
            Asked::Rollback(to) => Request::Rollback { name, to: *to },
            Asked::Delete => Request::Delete { name },
            Asked::Check => Request::Check { name },
            Asked::Cancel => Request::Cancel { name },
        })
    }
}

impl World {
    /// Perhaps delays the next turn; then a crowd of operators asks until it comes.
    pub fn turn_may_be_late(&mut self) {
        if self.operators.done || self.controller.busy_until > self.now {
            return;
        }
        let [while_deleting, otherwise] = SELDOM;
        let seldom = if self.is_deleting().is_some() { while_deleting } else { otherwise };
        if !self.faults.dice(Kind::TurnLate).one_in(seldom) {
            return;
        }
        if !self.faults.strikes(self.now, Kind::TurnLate, "the controller") {
            return;
        }
        let dice = self.faults.dice(Kind::TurnLate);
        let late = dice.millis(20, 3000);
        let times: Vec<Duration> =
            (0..=1 + dice.below(2)).map(|_| late.mul_f64(dice.below(1000) as f64 / 1000.0)).collect();
        self.controller.busy_until = self.controller.busy_until.max(self.now + late);
        for after in times {
            self.later(after, Event::CrowdAsks);
        }
    }

    fn is_deleting(&self) -> Option<usize> {
        let shared = self.shared.borrow();
        let deleting = |n: &usize| {
            let id = shared.tables.names.get(&stack_name(*n));
            let stack = id.and_then(|id| shared.tables.stacks.get(id));
            stack.is_some_and(|it| (it.action, it.status) == (StackAction::Delete, Status::InProgress))
        };
        (0..self.options.stacks).find(deleting)
    }

    /// An operator of a crowd asks for something: a later turn finds it.
    pub fn one_of_a_crowd_asks(&mut self) {
        if self.operators.done || self.controller.turns.is_none() {
            return;
        }
        let deleting = self.is_deleting();
        let dice = self.faults.dice(Kind::TurnLate);
        let at_random = dice.index(self.options.stacks);
        let n = deleting.filter(|_| !dice.one_in(4)).unwrap_or(at_random);
        let name = stack_name(n);
        let state = self.state_of(&name);
        let deed = self.faults.dice(Kind::TurnLate).below(6);
        let asked = match (state, deed) {
            (None, 0..5) | (Some((StackAction::Delete, _)), 0..5) => {
                Asked::Create(Rc::new(self.operators.plan(n, true)))
            }
            (Some((_, Status::Complete)), 0..3) => Asked::Update(Rc::new(self.operators.plan(n, false))),
            (Some((_, Status::Complete)), 3) => Asked::Check,
            (Some((_, Status::Complete)), 4) => Asked::Rollback(None),
            _ => Asked::Delete,
        };
        let how = self.operators.how();
        self.tell_controller(Inlet::Asks(Rc::new(Asking { name, asked, how })));
    }

    fn state_of(&self, name: &StackName) -> Option<(StackAction, Status)> {
        let shared = self.shared.borrow();
        let stack = shared.tables.names.get(name).and_then(|id| shared.tables.stacks.get(id));
        stack.map(|stack| (stack.action, stack.status))
    }

    /// Whether what it leads to can be told from what else this turn brings to its stack.
    fn fits_this_turn(&self, asking: &Asking) -> bool {
        let begins_or_ends = |asked: &Asked| matches!(asked, Asked::Create(_) | Asked::Delete);
        let mut open = self.reference.open(&asking.name).peekable();
        let alone = open.peek().is_none();
        let settled = self.state_of(&asking.name).is_none_or(|(_, status)| status == Status::Complete);
        match asking.asked {
            Asked::Create(_) | Asked::Delete => open.all(begins_or_ends),
            _ => alone && settled,
        }
    }

    /// The turn has come.
    pub fn crowd_asks(&mut self, asking: &Rc<Asking>) {
        if !self.fits_this_turn(asking) {
            return; // that operator sees what happens, and thinks again
        }
        let request = match asking.request() {
            Ok(request) => request,
            Err(wrong) => return self.violate(wrong),
        };
        if let Asked::Create(plan) | Asked::Update(plan) = &asking.asked {
            self.shared.borrow_mut().plans.insert(plan.name.clone(), Rc::clone(plan));
        }
        let open = self.controller.crowd.len();
        let expected = Some((asking.name.clone(), asking.asked.clone()));
        if let Some(Ok(id)) = self.requests(request, expected) {
            self.note(|_| format!("in a crowd: {} {:?}", asking.name, asking.asked));
            self.controller.crowd.insert(id, Rc::clone(asking));
        }
        if open > 0 {
            self.shared.borrow_mut().counts.add("crowd asks several things in one turn");
        }
    }

    /// The crowd gets its answers. Checks that what was answered is durable.
    pub fn crowd_hears(&mut self, answers: &[(u64, Result<Answer, Refusal>)]) {
        let mut made = Vec::new();
        for (id, answer) in answers {
            let Some(asking) = self.controller.crowd.remove(id) else { continue };
            let came = if answer.is_ok() { "taken" } else { "refused" };
            self.note(|_| format!("in a crowd: {} {}: {came}", asking.name, asking.asked.name()));
            let mut shared = self.shared.borrow_mut();
            shared.counts.add(format!("crowd {}: {came}", asking.asked.name()));
            let stack = shared.tables.names.get(&asking.name).and_then(|id| shared.tables.stacks.get(id));
            let Ok(Answer::Stack { traversal, .. }) = answer else { continue };
            if stack.is_some_and(|stack| stack.traversal < *traversal) {
                let (name, asked) = (&asking.name, asking.asked.name());
                shared.violate(format!("{asked} of {name} was answered and is not durable"));
            }
            made.extend(matches!(asking.asked, Asked::Create(_)).then(|| asking.name.clone()));
        }
        // In this turn another one of its name has gone.
        if made.iter().any(|name| self.controller.gone.contains(name)) {
            self.shared.borrow_mut().counts.add("crowd makes a stack in the turn in which its name goes");
        }
    }
}
