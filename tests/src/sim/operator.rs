//! Operators, who act at random and at the worst moments, and remember what they were told.

use std::rc::Rc;
use std::time::Duration;

use muster_engine::record::{ResourceRecord, Status};
use muster_engine::{Answer, Hook, JoinAsk, NewToken, Options as How, Refusal, Request, Source};
use muster_shared::join::TokenSecret;
use muster_shared::{ResourceId, StackName};

use super::adopt::Adopters;
use super::dice::Dice;
use super::machine::Machine;
use super::plan::{Maker, Mood, Plan, What};
use super::reference::Asked;
use super::world::{Event, World};

/// The operators of a site.
pub struct Operators {
    dice: Dice,
    /// The dice of operators who work on flow tables.
    pub flows: Dice,
    /// The dice of operators who see to servers by hand.
    pub maintenance: Dice,
    /// The dice of operators who send signals.
    pub signals: Dice,
    /// The dice of operators who see to the fleet.
    pub fleet: Dice,
    pub adopters: Adopters,
    /// Makes the plans that operators want.
    pub maker: Maker,
    stacks: usize,
    tokens: u64,
    /// The operators have gone home.
    pub done: bool,
}

#[derive(Clone, Debug)]
enum Deed {
    Create,
    Update,
    Delete,
    Rollback(Option<u32>),
    Check,
    Cancel,
    Unhealthy,
    ClearHook,
    Label,
    Revoke,
    Remove,
}

impl Operators {
    /// Makes operators for so many stacks on these nodes.
    pub fn new(seed: u64, stacks: usize, nodes: Vec<String>) -> Self {
        Self {
            dice: Dice::new(seed, "operators"),
            flows: Dice::new(seed, "flow operators"),
            maintenance: Dice::new(seed, "maintenance"),
            signals: Dice::new(seed, "signals"),
            fleet: Dice::new(seed, "fleet"),
            adopters: Adopters::new(seed),
            maker: Maker::new(seed, nodes),
            stacks,
            tokens: 0,
            done: false,
        }
    }

    /// Some updates change one thing only.
    pub fn plan(&mut self, stack: usize, is_create: bool) -> Plan {
        let change = !is_create && self.dice.one_in(3);
        let changed = if change { self.maker.change(stack) } else { None };
        changed.unwrap_or_else(|| self.maker.make(stack, Mood::Any))
    }

    /// Draws the options of an operation.
    pub fn how(&mut self) -> How {
        How {
            rollback: self.dice.one_in(4),
            require_nodes: self.dice.one_in(20),
            delete_first: self.dice.one_in(6),
            converge: self.dice.one_in(8),
            adopt: false,
            timeout: Duration::from_secs(*self.dice.pick(&[5, 20, 60, 180, 600])),
            max_nodes: None,
            scope: None,
            revision: None,
        }
    }
}

/// Returns the name of stack number `n`.
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
        let wall = self.shared.borrow().clocks.wall(self.now);
        let labels = self.labels_at_first();
        let token = NewToken {
            id,
            secret_hash: secret.digest(),
            expires: wall + 3600,
            uses: 1,
            name: Some(name.to_string()),
            labels,
            rate: None,
        };
        if !matches!(self.ask(Request::NewToken { token, wall: 0 }, false), Some(Ok(_))) {
            return false;
        }
        let ask = JoinAsk {
            token_id: id,
            secret,
            name,
            seal_public: self.machines[at].key,
            agent_version: "1.0.0".into(),
            moves: false,
            wall,
        };
        matches!(self.ask(Request::Join(ask), false), Some(Ok(_)))
    }

    /// An operator does something.
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
            (_, 0..4) => Deed::Revoke,
            (_, 4..8) => Deed::Remove,
            (_, 8..10) => Deed::Label,
            (None, 10..90) | (Some(_), 10..12) => Deed::Create,
            (_, 12..50) => Deed::Update,
            (_, 50..60) => Deed::Rollback(None),
            (newest, 60..65) => {
                let most = u64::from(newest.unwrap_or_default()) + 2;
                Deed::Rollback(Some(u32::try_from(dice.below(most)).unwrap_or_default()))
            }
            (_, 65..71) => Deed::Cancel,
            (_, 71..77) => Deed::Check,
            (_, 77..82) => Deed::Unhealthy,
            (_, 82..91) => Deed::ClearHook,
            _ => Deed::Delete,
        };
        self.does(n, &deed);
    }

    fn does(&mut self, n: usize, deed: &Deed) {
        let name = stack_name(n);
        let how = self.operators.how();
        match deed {
            Deed::Create | Deed::Update => {
                let is_create = matches!(deed, Deed::Create);
                let mut plan = self.operators.plan(n, is_create);
                self.removes_things(&name, &mut plan);
                let adopt = self.operators.adopters.adopt();
                if adopt {
                    self.others_make(&plan);
                }
                let plan = Rc::new(plan);
                self.applies(&name, plan, How { adopt, ..how }, is_create);
            }
            Deed::Delete => drop(self.asks(&name, Asked::Delete, Request::Delete { name: name.clone() })),
            Deed::Rollback(to) => {
                let request = Request::Rollback { name: name.clone(), to: *to };
                self.asks(&name, Asked::Rollback(*to), request);
            }
            Deed::Check => drop(self.asks(&name, Asked::Check, Request::Check { name: name.clone() })),
            Deed::Cancel => drop(self.asks(&name, Asked::Cancel, Request::Cancel { name: name.clone() })),
            Deed::Unhealthy => self.marks_unhealthy(&name),
            Deed::ClearHook => self.clears_a_hook(&name),
            Deed::Label | Deed::Revoke | Deed::Remove => self.sees_to_a_node(deed),
        }
    }

    /// Some members of groups are to go, by what they stand for now.
    fn removes_things(&mut self, name: &StackName, plan: &mut Plan) {
        let shared = self.shared.borrow();
        let id = shared.tables.names.get(name).copied().unwrap_or_default();
        for (name, resource) in &mut plan.resources {
            let What::Group(group) = &mut resource.what else { continue };
            if group.chain.is_some() || !self.operators.dice.one_in(4) {
                continue;
            }
            let inside = format!("{name}/");
            let is_member = |row: &&ResourceRecord| {
                let member = row.name.strip_prefix(&inside).filter(|member| !member.contains('/'));
                row.stack == id && id != 0 && row.dropped.is_none() && member.is_some()
            };
            let members: Vec<ResourceId> =
                shared.tables.rows.values().filter(is_member).map(|row| row.physical).collect();
            if !members.is_empty() {
                group.removed_things.insert(*self.operators.dice.pick(&members));
            }
        }
    }

    /// The names of a stack's rows, and what each waits for.
    fn names(&self, name: &StackName) -> Vec<(String, Option<Hook>)> {
        let shared = self.shared.borrow();
        let id = shared.tables.names.get(name).copied().unwrap_or_default();
        let rows = shared.tables.rows.values().filter(|row| row.stack == id && id != 0);
        rows.map(|row| (row.name.to_string(), row.progress.hook)).collect()
    }

    fn marks_unhealthy(&mut self, name: &StackName) {
        // A network that others have ports on cannot be replaced.
        let is_net = |name: &str| ["y", "z"].contains(&name);
        let mut names: Vec<String> = self.names(name).into_iter().map(|(name, _)| name).collect();
        names.retain(|name| !is_net(name));
        names.push("nothing".into());
        let resource = self.operators.dice.pick(&names).clone();
        let request = Request::Unhealthy { stack: name.clone(), resource: resource.clone() };
        let answer = self.tries("unhealthy", request);
        let shared = self.shared.borrow();
        match answer {
            Some(Ok(_)) => self.reference.marks(name, &resource, &shared.tables),
            // The controller ended: its answer is lost, and the mark may be durable.
            None => self.reference.may_mark(name, &resource),
            Some(Err(_)) => {}
        }
    }

    fn clears_a_hook(&mut self, name: &StackName) {
        let names = self.names(name);
        let waiting: Vec<_> = names.iter().filter(|(_, hook)| hook.is_some()).cloned().collect();
        let from = if waiting.is_empty() { &names } else { &waiting };
        if from.is_empty() {
            return;
        }
        let (resource, hook) = self.operators.dice.pick(from).clone();
        let hook = hook.unwrap_or(Hook::PreCreate);
        self.tries("clear-hook", Request::ClearHook { stack: name.clone(), resource, hook });
    }

    fn sees_to_a_node(&mut self, deed: &Deed) {
        let there = |machine: &Machine| machine.joined && !machine.scrapped;
        let ats: Vec<usize> = (0..self.machines.len()).filter(|at| there(&self.machines[*at])).collect();
        if ats.is_empty() {
            return;
        }
        let at = *self.operators.dice.pick(&ats);
        let node = self.machines[at].name.clone();
        match deed {
            Deed::Label => {
                let labels = [("role".to_owned(), Some(format!("r{}", self.operators.dice.below(3))))].into();
                self.tries("label", Request::LabelNode { node, labels });
                return;
            }
            Deed::Revoke => drop(self.tries("revoke", Request::RevokeNode { node: node.clone() })),
            _ => {
                self.reference.removing = true;
                drop(self.tries("remove", Request::RemoveNode { node: node.clone() }));
                self.reference.removing = false;
            }
        }
        let cut_off = self.shared.borrow().tables.nodes.get(&node).is_none_or(|node| node.revoked);
        if cut_off {
            // The server, or a new one in its place, is back sooner or later.
            let (after, new) = (self.operators.dice.millis(100, 120_000), self.operators.dice.one_in(3));
            self.machines[at].joined = false;
            self.later(after, Event::Rejoins(at, new));
        }
    }

    /// Joins a server again that was cut off, with new keys, or a new server in its place.
    pub fn rejoins(&mut self, at: usize, new: bool) {
        self.agent_ends(at, false);
        let mut dice = Dice::new(
            self.options.seed,
            &format!("again {}", self.machines.len() + self.trace.steps as usize),
        );
        let name = self.machines[at].name.clone();
        if new {
            self.machines[at].scrapped = true;
            let new = self.add_machine(name.as_str(), &mut dice);
            self.machines[new].host.is_bare();
            return self.joins(new);
        }
        let (key, seal) = self.new_key(&name, &mut dice);
        (self.machines[at].key, self.machines[at].seal) = (key, seal);
        self.joins(at);
    }

    /// Asks for something that begins no operation.
    pub fn tries(&mut self, what: &str, request: Request) -> Option<Result<Answer, Refusal>> {
        self.controller_catches_up();
        let written = self.shared.borrow().changes;
        let answer = self.ask(request, true);
        let text = match &answer {
            None => "no answer".to_owned(),
            Some(Ok(answer)) => format!("{answer:?}"),
            Some(Err(refusal)) => format!("refused: {refusal}"),
        };
        self.note(|_| format!("operator: {what}: {text}"));
        let mut shared = self.shared.borrow_mut();
        let came = match &answer {
            None => "no answer",
            Some(Ok(_)) => "taken",
            Some(Err(_)) => "refused",
        };
        shared.counts.add(format!("operator {what}: {came}"));
        if matches!(&answer, Some(Err(_))) && shared.changes != written {
            shared.violate(format!("{what} was refused and changed something: {text}"));
        }
        drop(shared);
        answer
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
            let converge = options.converge;
            let request = Request::Update { name: name.clone(), source, options };
            let answer = self.asks(&name, Asked::Update(plan), request);
            if converge && matches!(answer, Some(Ok(_))) {
                self.shared.borrow_mut().counts.add("operator update --converge: taken");
            }
            answer
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
        // Due work comes first, so that a refusal changes nothing; a stack that is COMPLETE stays so by itself, and
        // there the request shares its turn with whatever waits.
        let settled = traversal(self).is_some_and(|(.., status)| status == Status::Complete);
        let alone = !settled || self.operators.dice.one_in(2);
        if alone {
            self.controller_catches_up();
        }
        let before = traversal(self);
        let written = self.shared.borrow().changes;
        let answer = self.asks_for(request, Some((name.clone(), asked.clone())), alone);
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
        answer
    }
}
