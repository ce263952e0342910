//! Operators, who act at random and at the worst moments, and remember what they were told.

use std::rc::Rc;
use std::time::Duration;

use muster_engine::record::Status;
use muster_engine::{Answer, JoinAsk, NewToken, Options as How, Refusal, Request, Source};
use muster_shared::StackName;
use muster_shared::join::TokenSecret;

use super::dice::Dice;
use super::plan::{Maker, Mood, Plan};
use super::reference::Asked;
use super::world::{Event, World};

/// Seconds of the wall clock when a run begins.
const WALL: u64 = 1_700_000_000;

/// The operators of a site.
pub struct Operators {
    dice: Dice,
    /// Makes what they want.
    pub maker: Maker,
    stacks: usize,
    tokens: u64,
    /// They have gone home.
    pub done: bool,
}

/// What one does.
#[derive(Clone, Debug)]
enum Deed {
    Create,
    Update,
    Delete,
    Rollback(Option<u32>),
}

impl Operators {
    /// For so many stacks on these nodes.
    pub fn new(seed: u64, stacks: usize, nodes: Vec<String>) -> Self {
        Self {
            dice: Dice::new(seed, "operators"),
            maker: Maker::new(seed, nodes),
            stacks,
            tokens: 0,
            done: false,
        }
    }

    fn how(&mut self) -> How {
        How {
            rollback: self.dice.one_in(4),
            require_nodes: self.dice.one_in(20),
            timeout: Duration::from_secs(*self.dice.pick(&[5, 20, 60, 180, 600])),
            ..How::default()
        }
    }
}

/// Of stack number `n`.
pub fn stack_name(n: usize) -> StackName {
    format!("s{n}").parse().expect("a letter and a number")
}

impl World {
    /// The controller can be asked at this moment.
    pub fn can_be_asked(&self) -> bool {
        self.controller.turns.is_some() && self.controller.busy_until <= self.now
    }

    /// A server asks to become a node, with a token for its name; until it is one.
    pub fn joins(&mut self, at: usize) {
        if self.machines[at].joined || self.machines[at].scrapped {
            return;
        }
        if self.can_be_asked() && self.is_let_in(at) {
            self.machines[at].joined = true;
            self.agent_starts(at);
        } else {
            self.later(Duration::from_secs(2), Event::Joins(at));
        }
    }

    fn is_let_in(&mut self, at: usize) -> bool {
        self.operators.tokens += 1;
        let id = self.operators.tokens.to_be_bytes();
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&self.operators.dice.number().to_le_bytes());
        let secret = TokenSecret(secret);
        let name = self.machines[at].name.clone();
        let wall = WALL + self.now.0.as_secs();
        let token = NewToken {
            id,
            secret_hash: secret.digest(),
            expires: wall + 3600,
            uses: 1,
            name: Some(name.to_string()),
            labels: std::collections::BTreeMap::new(),
        };
        if !matches!(self.ask(Request::NewToken(token), false), Some(Ok(_))) {
            return false;
        }
        let ask = JoinAsk {
            token_id: id,
            secret,
            name,
            seal_public: self.machines[at].key,
            agent_version: "1.0.0".into(),
            wall,
        };
        matches!(self.ask(Request::Join(ask), false), Some(Ok(_)))
    }

    /// One of them does something.
    pub fn operator_acts(&mut self) {
        if self.operators.done {
            return;
        }
        let next = self.operators.dice.millis(100, 40_000);
        self.later(next, Event::Operator);
        if !self.can_be_asked() {
            return;
        }
        let n = self.operators.dice.index(self.operators.stacks);
        let name = stack_name(n);
        let newest = {
            let shared = self.shared.borrow();
            let tables = &shared.tables;
            tables.names.get(&name).and_then(|id| tables.stacks.get(id)).map(|stack| stack.revision)
        };
        let dice = &mut self.operators.dice;
        let deed = match (newest, dice.below(100)) {
            (None, 0..90) | (Some(_), 0..2) => Deed::Create,
            (_, 0..62) => Deed::Update,
            (_, 62..78) => Deed::Rollback(None),
            (newest, 78..86) => {
                let most = u64::from(newest.unwrap_or_default()) + 2;
                Deed::Rollback(Some(u32::try_from(dice.below(most)).unwrap_or_default()))
            }
            _ => Deed::Delete,
        };
        self.does(n, &deed);
    }

    fn does(&mut self, n: usize, deed: &Deed) {
        let name = stack_name(n);
        let how = self.operators.how();
        match deed {
            Deed::Create | Deed::Update => {
                let plan = Rc::new(self.operators.maker.make(n, Mood::Any));
                self.applies(&name, plan, how, matches!(deed, Deed::Create));
            }
            Deed::Delete => drop(self.asks(&name, Asked::Delete, Request::Delete { name: name.clone() })),
            Deed::Rollback(to) => {
                let request = Request::Rollback { name: name.clone(), to: *to };
                self.asks(&name, Asked::Rollback(*to), request);
            }
        }
    }

    /// Creates or updates a stack.
    pub fn applies(
        &mut self,
        name: &StackName,
        plan: Rc<Plan>,
        options: How,
        create: bool,
    ) -> Option<Result<Answer, Refusal>> {
        let source = match Source::parse(plan.source()) {
            Ok(source) => source,
            Err(errors) => {
                self.violate(format!("{} is no template: {errors}", plan.name));
                return None;
            }
        };
        self.shared.borrow_mut().plans.insert(plan.name.clone(), Rc::clone(&plan));
        let name = name.clone();
        if create {
            let request = Request::Create { name: name.clone(), source, options };
            self.asks(&name, Asked::Create(plan), request)
        } else {
            let request = Request::Update { name: name.clone(), source, options };
            self.asks(&name, Asked::Update(plan), request)
        }
    }

    /// Asks about a stack, and finds out whether it was taken, whatever the answer was.
    pub fn asks(
        &mut self,
        name: &StackName,
        asked: Asked,
        request: Request,
    ) -> Option<Result<Answer, Refusal>> {
        let traversal = |world: &Self| {
            let shared = world.shared.borrow();
            let stack = shared.tables.names.get(name).and_then(|id| shared.tables.stacks.get(id));
            stack.map(|stack| (stack.id, stack.traversal, stack.revision, stack.status))
        };
        // What is due comes first, so that a refusal changes nothing; a stack that is COMPLETE stays so by itself, and
        // there the request shares its turn with whatever waits.
        let settled = traversal(self).is_some_and(|(.., status)| status == Status::Complete);
        let alone = !settled || self.operators.dice.one_in(2);
        if alone {
            self.controller_catches_up();
        }
        let before = traversal(self);
        let written = self.shared.borrow().changes;
        self.reference.expect(name, asked.clone());
        let answer = self.ask(request, alone);
        let after = traversal(self);
        let text = match &answer {
            None => "no answer".to_owned(),
            Some(Ok(answer)) => format!("{answer:?}"),
            Some(Err(refusal)) => format!("refused: {refusal}"),
        };
        self.note(|_| format!("operator: {name} {asked:?}: {text}"));
        let mut shared = self.shared.borrow_mut();
        let kind = asked.name();
        match &answer {
            None => shared.counts.add(format!("operator {kind}: no answer")),
            Some(Ok(_)) => shared.counts.add(format!("operator {kind}: taken")),
            Some(Err(_)) => shared.counts.add(format!("operator {kind}: refused")),
        }
        let wrong = match &answer {
            Some(Err(refusal)) if alone && shared.changes != written => {
                Some(format!("{name} {asked:?} was refused and changed something: {refusal}"))
            }
            Some(Err(_)) if alone && before != after => {
                Some(format!("{name} {asked:?} was refused and begun"))
            }
            Some(Ok(Answer::Stack { traversal, revision, .. }))
                if after.is_some_and(|after| (after.1, after.2) < (*traversal, *revision)) =>
            {
                Some(format!("{name} {asked:?} was answered and is not durable"))
            }
            _ => None,
        };
        wrong.into_iter().for_each(|wrong| shared.violate(wrong));
        drop(shared);
        self.reference.expected();
        answer
    }
}
