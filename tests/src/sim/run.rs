//! Runs the simulator once, from beginning to end.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use muster_engine::record::{ResourceRecord, StackAction, Status};
use muster_engine::{Options as How, Request};
use muster_flow::OperationStatus;
use muster_shared::model::flow::DeviceName;
use muster_shared::{MonoTime, NodeId, ResourceId, StackName};

use super::Options;
use super::count::Counts;
use super::dice::Dice;
use super::fault::{Fired, Level};
use super::flow;
use super::machine::Machine;
use super::operator::stack_name;
use super::plan::{Mood, Plan};
use super::reference::Asked;
use super::store::brief;
use super::world::{Event, World};

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The first violation.
    pub violation: Option<String>,
    /// The digest of all steps: equal for equal runs.
    pub digest: String,
    /// The number of steps.
    pub steps: u64,
    /// The number of times that each event happened.
    pub counts: Counts,
    /// The faults that happened.
    pub fired: Vec<Fired>,
}

/// Virtual time in which everything must have come to an end once the faults have stopped: a few jobs of five minutes
/// that hang, or of those that take twenty, one after the other.
const SETTLED_WITHIN: Duration = Duration::from_secs(6 * 3600);
/// Twice the time between two looks without a hint.
const LOOKED_WITHIN: Duration = Duration::from_secs(660);
/// The time without a write after which all is quiet: the longest backoff, and some.
const QUIET: Duration = Duration::from_secs(90);

/// Runs it, without the faults `left_out`; each step goes to `out`.
pub fn run(options: Options, left_out: BTreeSet<u64>, out: Option<Box<dyn std::io::Write>>) -> Outcome {
    let mut world = World::new(options.sized(), left_out);
    world.trace.out = out;
    let panicked = catch_unwind(AssertUnwindSafe(|| world.lives())).err();
    if let Some(panic) = panicked {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        // A borrow that the panic left no longer matters.
        let shared = Rc::clone(&world.shared);
        let what = format!("panic: {}", text.unwrap_or_default());
        match shared.try_borrow_mut() {
            Ok(mut shared) => shared.violate(what),
            Err(_) => {
                world.shared = Rc::new(RefCell::new(super::shared::Shared {
                    violation: Some(what),
                    ..Default::default()
                }))
            }
        }
    }
    let mut counts = world.shared.borrow().counts.clone();
    counts.merge(&world.reference.counts);
    for fault in &world.faults.fired {
        counts.add(format!("fault {}", fault.kind.name()));
    }
    Outcome {
        violation: world.violation(),
        digest: world.digest(),
        steps: world.trace.steps,
        counts,
        fired: std::mem::take(&mut world.faults.fired),
    }
}

impl World {
    fn lives(&mut self) {
        self.begins();
        self.run_until(MonoTime(Duration::from_secs(60 * self.options.minutes)));
        self.operators.done = true;
        self.heal();
        self.tokens_are_revoked();
        self.settles("after the faults");
        self.everybody_looks();
        self.is_as_it_should_be("after the faults", false);
        self.makes_peace();
        self.is_sound = true;
        self.signals_are_put_right();
        let reported = self.reported();
        let converged = self.everybody_updates();
        self.everybody_submits();
        self.settles("after the last update");
        self.is_as_it_should_be("after the last update", true);
        self.drift_is_over("after the last update", &reported, &converged);
        let reported = self.reported();
        let changed = self.everybody_changes();
        self.settles("after the last change");
        self.is_as_it_should_be("after the last change", true);
        let reported = self.of_stacks(&reported, &changed);
        self.drift_is_over("after the last change", &reported, &BTreeSet::new());
        self.a_cable_is_missing();
        self.everybody_deletes();
        self.everybody_withdraws();
        self.settles("after the last delete");
        self.everybody_forgets();
        self.everybody_purges();
        self.settles("after the last purge");
        self.nothing_is_left();
    }

    fn begins(&mut self) {
        let mut setup = Dice::new(self.options.seed, "arrivals");
        if !self.controllers_begin() {
            self.at(MonoTime::default(), Event::ControllerStarts);
        }
        for at in 0..self.machines.len() {
            let due = if setup.one_in(6) { setup.millis(0, 120_000) } else { setup.millis(100, 3000) };
            self.later(due, Event::Joins(at));
        }
        self.later(Duration::from_secs(1), Event::Operator);
        self.later(Duration::from_secs(2), Event::FlowOperator);
        self.later(Duration::from_secs(3), Event::Signaller);
        self.later(Duration::from_secs(10), Event::LooksWhoIsServed);
        if self.options.parts.fleets {
            self.later(Duration::from_secs(7), Event::FleetOperator);
        }
        if self.options.parts.drift {
            self.later(Duration::from_secs(30), Event::Maintainer);
        }
        if self.options.parts.clocks {
            self.clocks_begin();
        }
        if self.options.faults != Level::None {
            self.later(Duration::from_secs(5), Event::Chaos);
            self.plans_controllers_chaos();
        }
        self.history_begins();
        if !self.network.is_empty() {
            self.later(Duration::from_secs(4), Event::IntentOperator);
            self.later(Duration::from_secs(6), Event::CableChaos);
        }
    }

    /// Runs until nothing is under way any more.
    fn settles(&mut self, when: &str) {
        let within = self.load.settles_within(SETTLED_WITHIN);
        let end = self.now + within;
        loop {
            let next = self.now + Duration::from_secs(10);
            self.run_until(next);
            if self.is_sound {
                self.signals_who_waits();
            }
            self.restorer_ends();
            if self.violation().is_some() {
                return;
            }
            let quiet = self.now.since(self.last_write) > QUIET;
            match self.is_busy() {
                None if quiet => return,
                busy if self.now >= end => {
                    let busy = busy.unwrap_or_else(|| "something is written again and again".to_owned());
                    return self.violate(format!("{when}, and {} s later: {busy}", within.as_secs()));
                }
                _ => {}
            }
        }
    }

    fn is_busy(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let tables = &shared.tables;
        if let Some(stack) = tables.stacks.values().find(|stack| stack.status == Status::InProgress) {
            let action = stack.action.as_str();
            let rows =
                tables.rows.values().filter(|row| row.stack == stack.id && !row.progress.observed_ready);
            let open: Vec<String> = rows.map(brief).collect();
            return Some(format!("stack {} is still {action} IN_PROGRESS: {}", stack.name, open.join("; ")));
        }
        if let Some(node) = tables.nodes.values().find(|node| node.maintenance) {
            return Some(format!("{} is in maintenance", node.name));
        }
        if let Some(row) = tables.rows.values().find(|row| row.progress.in_flight) {
            return Some(format!("a job is still out: {}", brief(row)));
        }
        if let Some((id, (record, _))) = tables
            .flows
            .operations
            .iter()
            .find(|(_, (record, _))| record.status == OperationStatus::InProgress)
        {
            return Some(format!("operation {id} on flow tables is still IN_PROGRESS: {record:?}"));
        }
        if let Some((key, part)) = tables.flows.parts.first_key_value() {
            return Some(format!("a part of an operation on flow tables is still open: {key:?} {part:?}"));
        }
        drop(shared);
        if let Some(busy) = self.intents_under_way() {
            return Some(busy);
        }
        if self.is_restored() {
            return Some("the site is still restored".to_owned());
        }
        let away = self.machines.iter().find(|machine| !machine.scrapped && !machine.is_online());
        away.map(|machine| format!("{} is not online", machine.name))
    }

    fn is_as_it_should_be(&mut self, when: &str, all_complete: bool) {
        if self.violation().is_some() {
            return;
        }
        let wrong = {
            let shared = self.shared.borrow();
            let tables = &shared.tables;
            let open = tables.stacks.values().find(|stack| all_complete && stack.status != Status::Complete);
            open.map(|stack| {
                format!(
                    "stack {} is {} {}: {}",
                    stack.name,
                    stack.action.as_str(),
                    stack.status.as_str(),
                    stack.reason
                )
            })
            .or_else(|| {
                let is_failed =
                    |row: &&ResourceRecord| row.progress.status == Some(Status::Failed) && !row.is_lost();
                let failed = tables.rows.values().find(|row| all_complete && is_failed(row))?;
                Some(format!("all stacks are COMPLETE, and {}", brief(failed)))
            })
            .or_else(|| self.reference.differs(tables, &self.machines))
            .or_else(|| flow::differ(&shared, &self.machines))
        };
        if let Some(wrong) = wrong.or_else(|| self.network_differs()) {
            self.violate(format!("{when}: {wrong}"));
        }
    }

    /// Cuts a cable, and checks that intents that went over it find another way, where there is one.
    fn a_cable_is_missing(&mut self) {
        let Some(cable) = self.cuts_a_cable().filter(|_| self.violation().is_none()) else { return };
        self.settles("after a cable was cut");
        self.is_as_it_should_be(&format!("without cable {cable}"), true);
        self.cables_heal();
        self.settles("after it was whole again");
        self.is_as_it_should_be("after a cable was mended", true);
    }

    /// Also without any hint: what is observed of each resource is true then.
    fn everybody_looks(&mut self) {
        self.run_until(self.now + LOOKED_WITHIN);
        self.settles("after everybody has looked");
        if self.violation().is_some() {
            return;
        }
        let wrong =
            self.drift_is_wrong().or_else(|| self.drift_is_shown()).or_else(|| self.waits_for_nothing());
        let wrong = wrong.or_else(|| self.clocks_are_named());
        wrong.into_iter().for_each(|wrong| self.violate(format!("after the faults: {wrong}")));
        self.counts_drift();
    }

    /// Checks that an operation has corrected all drift, but for resources whose drift nobody is told of.
    fn drift_is_over(&mut self, when: &str, reported: &BTreeSet<ResourceId>, converged: &BTreeSet<u64>) {
        if self.violation().is_some() {
            return;
        }
        let wrong = self.drift_outlives(reported, converged).or_else(|| self.drift_is_wrong());
        wrong.into_iter().for_each(|wrong| self.violate(format!("{when}: {wrong}")));
    }

    /// Every stack gets a revision that can be carried out.
    ///
    /// The stacks of which all was looked at.
    fn everybody_updates(&mut self) -> BTreeSet<u64> {
        let mut converged = BTreeSet::new();
        for n in 0..self.options.stacks {
            if self.violation().is_some() {
                return converged;
            }
            let name = stack_name(n);
            let deleting = {
                let shared = self.shared.borrow();
                let stack = shared.tables.names.get(&name).and_then(|id| shared.tables.stacks.get(id));
                stack.map(|stack| stack.action == StackAction::Delete)
            };
            if deleting == Some(true) {
                self.asks(&name, Asked::Delete, Request::Delete { name: name.clone() });
                self.settles("after a delete that had failed");
            }
            self.resumes_rollouts(&name);
            if self.failures_would_come_back(&name) {
                let plan = self.operators.maker.make_without_handle(n);
                self.makes_sound(&name, plan, false);
                self.settles("after an update without a handle");
            }
            let plan = self.operators.maker.make(n, Mood::Sound);
            let converge = self.dice.watch.one_in(2);
            self.makes_sound(&name, plan, converge);
            let id = self.shared.borrow().tables.names.get(&name).copied();
            converged.extend(id.filter(|_| converge));
            if n == 0 {
                // The others have ports on its network.
                self.settles("after the last update of the first stack");
            }
        }
        converged
    }

    fn makes_sound(&mut self, name: &StackName, plan: Plan, converge: bool) {
        let exists = self.shared.borrow().tables.names.contains_key(name);
        let how =
            How { timeout: self.load.settles_within(SETTLED_WITHIN) + QUIET, converge, ..How::default() };
        match self.applies(name, Rc::new(plan), how, !exists) {
            Some(Ok(_)) => {}
            other => self.violate(format!("a sound plan for {name} was not taken: {other:?}")),
        }
    }

    /// A thing changes in each stack that has one to change, and what needs it follows. Returns those stacks.
    fn everybody_changes(&mut self) -> BTreeSet<StackName> {
        let mut changed = BTreeSet::new();
        for n in 0..self.options.stacks {
            let Some(plan) = self.operators.maker.change(n) else { continue };
            let name = stack_name(n);
            let how = How { timeout: self.load.settles_within(SETTLED_WITHIN) + QUIET, ..How::default() };
            match self.applies(&name, Rc::new(plan), how, false) {
                _ if self.violation().is_some() => return changed,
                Some(Ok(_)) => drop(changed.insert(name)),
                other => self.violate(format!("a change of {name} was not taken: {other:?}")),
            }
        }
        changed
    }

    fn everybody_deletes(&mut self) {
        for n in (0..self.options.stacks).rev() {
            if n == 0 {
                // Its network goes when nobody has a port on it any more.
                self.settles("after the last delete but one");
            }
            if self.violation().is_some() {
                return;
            }
            let name = stack_name(n);
            let answer = self.asks(&name, Asked::Delete, Request::Delete { name: name.clone() });
            if !matches!(answer, Some(Ok(_))) {
                self.violate(format!("the delete of {name} was not taken: {answer:?}"));
            }
        }
        self.what_is_lost_is_tried_again();
    }

    /// No operator wants a rule any more.
    fn everybody_purges(&mut self) {
        let names: BTreeSet<DeviceName> = {
            let shared = self.shared.borrow();
            let devices = shared.tables.flows.devices.values();
            devices.map(|it| DeviceName { node: it.node.clone(), bridge: it.bridge.clone() }).collect()
        };
        for name in names {
            if self.violation().is_none() {
                self.purges_flows(name, false);
            }
        }
    }

    /// Breaks the lines of nodes that could not clean up what is lost: it is tried again when their agents say hello.
    fn what_is_lost_is_tried_again(&mut self) {
        let with_lost: BTreeSet<NodeId> = {
            let shared = self.shared.borrow();
            let lost = shared.tables.rows.values().filter(|row| row.is_lost());
            lost.filter_map(|row| row.node.clone()).collect()
        };
        for at in 0..self.machines.len() {
            let line = self.machines[at].process.as_ref().and_then(|process| process.line);
            if let (true, Some(line)) = (with_lost.contains(&self.machines[at].name), line) {
                self.line_ends(line, Some(Duration::ZERO), Some(Duration::ZERO));
            }
        }
    }

    fn nothing_is_left(&mut self) {
        if self.violation().is_some() {
            return;
        }
        let wrong = {
            let shared = self.shared.borrow();
            let tables = &shared.tables;
            let row = tables.rows.values().next().map(|row| format!("the row of {} is left", row.name));
            row.or_else(|| tables.stacks.values().next().map(|stack| format!("stack {} is left", stack.name)))
                .or_else(|| {
                    tables.contents.keys().next().map(|digest| format!("the content {digest} is left"))
                })
                .or_else(|| {
                    tables
                        .edges
                        .iter()
                        .find(|(_, n)| !n.is_empty())
                        .map(|(row, _)| format!("edges of row {row} are left"))
                })
                .or_else(|| {
                    tables.claims.keys().next().map(|(node, claim)| format!("{claim} on {node} is claimed"))
                })
                .or_else(|| self.reference.differs(tables, &self.machines))
                .or_else(|| flow::differ(&shared, &self.machines))
                .or_else(|| self.flows_are_left())
                .or_else(|| self.ledgers_hold())
                .or_else(|| tables.are_left())
                .or_else(|| {
                    let left = self.controller.turns.as_ref()?.view().leftovers();
                    (!left.is_empty()).then(|| format!("the controller still holds {left:?}"))
                })
                .or_else(|| self.agents_hold())
                .or_else(|| {
                    let due = self.controller.turns.as_ref()?.poll_timeout()?;
                    Some(format!("a timer of the controller is set to {due:?} for nothing"))
                })
        };
        if let Some(wrong) = wrong {
            self.violate(format!("after everything was deleted: {wrong}"));
        }
    }

    /// Nothing of ours on any switch, nothing in any table.
    fn flows_are_left(&self) -> Option<String> {
        let shared = self.shared.borrow();
        if let Some((record, _)) = shared.tables.intents.intents.values().next() {
            return Some(format!("intent {} is left: {record:?}", record.key));
        }
        let entry = shared.tables.flows.entries.values().next();
        entry.map(|entry| format!("a flow table still has {entry:?}"))
    }

    /// Returns what an agent still holds that serves nothing: things that it watches, jobs that run, scripts.
    fn agents_hold(&self) -> Option<String> {
        let is_left = |machine: &Machine, id| self.reference.is_left(&machine.name, id);
        self.machines.iter().filter(|machine| !machine.scrapped).find_map(|machine| {
            let process = machine.process.as_ref()?;
            let left = [
                ("jobs", process.runs.len()),
                ("checks", process.checks.len()),
                ("watched things", process.watched.keys().filter(|id| !is_left(machine, **id)).count()),
                ("scripts", process.scripts.len()),
            ];
            let (what, count) = left.into_iter().find(|(_, count)| *count > 0)?;
            Some(format!("the agent of {} still has {count} {what}", machine.name))
        })
    }

    fn ledgers_hold(&self) -> Option<String> {
        self.machines.iter().filter(|machine| !machine.scrapped).find_map(|machine| {
            let is_left = |id| self.reference.is_left(&machine.name, id);
            let mut entries = machine.disk.entries().filter(|entry| !is_left(entry.resource));
            let entry = entries.find(|entry| entry.exists() || entry.current.is_some())?;
            Some(format!("the ledger of {} holds {}", machine.name, entry.resource))
        })
    }
}
