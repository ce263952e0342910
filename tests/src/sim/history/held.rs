//! Checks of a restored site. Nothing on a server that the store does not know is changed before an operator has
//! decided, or asks for something newer of its stack. All of it is listed.
//!
//! Excused are changes by operations of the history that goes on: an operation that was under way in the copy, and
//! whatever an operator asks for after it.

use std::collections::{BTreeMap, BTreeSet};

use muster_agent_core::{Entry, Found};
use muster_engine::HeldView;
use muster_engine::record::{ResourceRecord, StackAction, Status};
use muster_flow::record::{FlowEntryRecord, FlowMark};
use muster_shared::model::flow::{DeviceName, FlowId};
use muster_shared::model::{Job, Outcome};
use muster_shared::{Generation, MonoTime, NodeId, ResourceId};

use super::super::aftermath::is_kept;
use super::super::drift::Thing;
use super::super::flow::{FOR_GOOD, Left, number_of};
use super::super::machine::Machine;
use super::super::shared::Shared;
use super::super::store::{Tables, brief};
use super::super::world::World;

/// The time after which everything on a connected server is listed: its ledger has come by then, also where messages
/// take seconds.
const TOLD_WITHIN: std::time::Duration = std::time::Duration::from_secs(90);

/// Jobs, with the number of the restore before which they left.
pub(super) type Jobs = BTreeMap<(ResourceId, Generation), u32>;

/// The reference for what the restored store does not know, and for what operators decided about it.
#[derive(Default)]
pub struct Held {
    /// The number of restores.
    turn: u32,
    /// Jobs that left a controller whose disk has gone back since, before which restore.
    lost: Jobs,
    /// Resources that servers did not have any more when the store went back and said that they did.
    deleted: BTreeMap<ResourceId, u32>,
    /// Resources that an operator has decided about, since which restore.
    decided: BTreeMap<ResourceId, u32>,
    /// The traversal of each stack in the copy; those that were under way go on.
    stood: BTreeMap<u64, (u64, bool)>,
    /// Rows that a walk had yet to come to in the copy: it goes on, also where its stack has FAILED meanwhile.
    ahead: BTreeSet<ResourceId>,
    /// When the site is known to be restored: at once where the copy is marked.
    known: Option<MonoTime>,
    /// Nodes that were greeted before that.
    greeted: BTreeSet<NodeId>,
    /// Nodes that were welcomed since the disk went back.
    pub(super) welcomed: BTreeSet<NodeId>,
}

impl Held {
    /// The disk goes back from what `shared` has to `tables`.
    pub fn goes_back(&mut self, shared: &Shared, tables: &Tables, machines: &[Machine], is_marked: bool) {
        self.turn += 1;
        let turn = self.turn;
        let row = |resource: &ResourceId| tables.physical.get(resource).and_then(|id| tables.rows.get(id));
        let is_lost = |(resource, generation): &&(ResourceId, Generation)| {
            row(resource).is_none_or(|row| {
                let progress = &row.progress;
                progress.generation < *generation || progress.generation == *generation && is_unsent(row)
            })
        };
        for job in shared.sent.iter().filter(is_lost) {
            self.lost.entry(*job).or_insert(turn);
        }
        let there: BTreeMap<&NodeId, &Machine> =
            machines.iter().filter(|it| !it.scrapped).map(|it| (&it.name, it)).collect();
        let is_gone = |row: &&ResourceRecord| {
            let machine = row.node.as_ref().and_then(|node| there.get(node));
            stands(row) && machine.is_some_and(|machine| !machine.holds(row.physical))
        };
        self.deleted.extend(tables.rows.values().filter(is_gone).map(|row| (row.physical, turn)));
        let goes_on = |status: Status, action| status == Status::InProgress && action != StackAction::Check;
        let stacks = tables.stacks.values();
        self.stood = stacks.map(|it| (it.id, (it.traversal, goes_on(it.status, it.action)))).collect();
        let is_ahead = |row: &&ResourceRecord| {
            let stack = tables.stacks.get(&row.stack);
            !stands(row) && stack.is_some_and(|stack| stack.status != Status::Complete)
        };
        self.ahead = tables.rows.values().filter(is_ahead).map(|row| row.physical).collect();
        self.known = is_marked.then_some(MonoTime::default());
        self.greeted.clear();
        self.welcomed.clear();
    }

    /// The site is known to be restored, or was since the disk went back.
    pub(super) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Jobs left another controller than the one whose disk goes on: whatever is not among these.
    pub fn is_of_another(&mut self, shared: &Shared, sent: &BTreeSet<(ResourceId, Generation)>) {
        let turn = self.turn + 1;
        for job in shared.sent.difference(sent) {
            self.lost.entry(*job).or_insert(turn);
        }
    }

    /// Jobs that the store which goes on does not know.
    pub fn lost(&self) -> Jobs {
        self.lost.clone()
    }

    /// The controller that goes on had sent these, and none of those that were lost before.
    pub fn knows_again(&mut self, before: &Jobs, sent: &BTreeSet<(ResourceId, Generation)>) {
        self.lost.retain(|job, _| before.contains_key(job) || !sent.contains(job));
    }

    /// An operator has decided about it.
    pub fn decided(&mut self, thing: ResourceId) {
        self.decided.insert(thing, self.turn);
    }

    /// Returns the decisions of operators so far.
    pub fn decisions(&self) -> BTreeMap<ResourceId, u32> {
        self.decided.clone()
    }

    /// Forgets all decisions but those that were made `before`.
    pub fn forgets_decisions(&mut self, before: BTreeMap<ResourceId, u32>) {
        self.decided = before;
    }

    /// The restore since which what the server has of a resource is not what the store knows, if there is one.
    fn since(&self, resource: ResourceId, entry: Option<&Entry>) -> Option<u32> {
        let lost = |generation| self.lost.get(&(resource, generation)).copied();
        let Some(entry) = entry.filter(|entry| entry.exists()) else {
            let last = entry.and_then(|entry| entry.last.as_ref());
            let last = last.filter(|last| matches!(last.outcome, Outcome::Done(_)));
            let gone = last.and_then(|last| lost(last.key.generation));
            return gone.max(self.deleted.get(&resource).copied());
        };
        lost(entry.applied.as_ref()?.generation)
    }

    /// A job that the store that goes on does not know makes it now, or has started it and not made it. A ledger says
    /// nothing of such.
    fn is_half_made(&self, entry: &Entry) -> bool {
        entry.exists() && entry.applied.is_none() && self.knows_of_a_lost_job(entry.resource)
    }

    fn knows_of_a_lost_job(&self, resource: ResourceId) -> bool {
        let first = (resource, Generation::default());
        self.lost.range(first..).next().is_some_and(|((lost, _), _)| *lost == resource)
    }

    /// An operator has decided, or wishes something newer of it.
    fn is_free(
        &self,
        resource: ResourceId,
        since: u32,
        row: Option<&ResourceRecord>,
        tables: &Tables,
    ) -> bool {
        let is_decided = self.decided.get(&resource).is_some_and(|decided| *decided >= since);
        let is_decided = is_decided || self.ahead.contains(&resource);
        is_decided || row.is_some_and(|row| row.is_lost() || self.is_wished(row, tables))
    }

    fn is_wished(&self, row: &ResourceRecord, tables: &Tables) -> bool {
        let Some((traversal, goes_on)) = self.stood.get(&row.stack) else { return true };
        let is_newer = |now: u64| now > *traversal;
        *goes_on || tables.stacks.get(&row.stack).is_none_or(|stack| is_newer(stack.traversal))
    }
}

/// The job has yet to leave.
fn is_unsent(row: &ResourceRecord) -> bool {
    let progress = &row.progress;
    progress.status == Some(Status::InProgress) && !progress.in_flight && progress.attempt == 0
}

/// The server is known to have it.
fn stands(row: &ResourceRecord) -> bool {
    let progress = &row.progress;
    let is_made = progress.status == Some(Status::Complete) && progress.held.is_some() && !progress.in_flight;
    is_made && row.dropped.is_none() && !row.is_lost() && row.external_id.is_none()
}

fn row(tables: &Tables, resource: ResourceId) -> Option<&ResourceRecord> {
    tables.physical.get(&resource).and_then(|id| tables.rows.get(id))
}

impl super::History {
    /// Whether a job left a controller whose disk has gone back since.
    pub fn is_lost(&self, job: &Job) -> bool {
        self.is_lost_job(job.resource, job.generation)
    }

    /// Returns whether the job with this generation is lost, as [`Self::is_lost`].
    pub fn is_lost_job(&self, resource: ResourceId, generation: Generation) -> bool {
        self.held.lost.contains_key(&(resource, generation))
    }
}

impl World {
    /// Returns why a job must not begin: the server has another state of its resource than the restored store knows,
    /// and no operator has decided.
    pub fn is_undecided(&self, at: usize, job: &Job) -> Option<String> {
        let held = &self.history.held;
        if held.turn == 0 || self.history.is_lost(job) {
            return None;
        }
        let machine = &self.machines[at];
        // The other one of two servers with one identity may have said what it has.
        if self.was_cloned(at) {
            return None;
        }
        // Without a mark nobody could know, until a server says what the store never gave.
        if held.known.is_none() || held.greeted.contains(&machine.name) {
            return None;
        }
        let resource = job.resource;
        let entry = machine.disk.entry(resource);
        let since = held.since(resource, entry)?;
        let shared = self.shared.borrow();
        let row = row(&shared.tables, resource);
        if held.is_free(resource, since, row, &shared.tables) {
            return None;
        }
        let (action, name) = (job.action, &machine.name);
        let what = row.map_or_else(|| "without a row".to_owned(), brief);
        Some(format!(
            "{action:?} of {resource} begins on {name}, and nobody has decided since a restore: {what}"
        ))
    }

    /// Excuses what a job of a lost history makes on a site that is not restored any more: the agent tells of it only
    /// when its node greets again.
    pub fn is_of_a_lost_history(&mut self, at: usize, job: &Job) {
        if self.history.is_lost(job) && !self.is_restored() {
            let row_is_known = row(&self.shared.borrow().tables, job.resource).is_some();
            if !row_is_known {
                self.reference.left.insert((self.machines[at].name.clone(), job.resource));
            }
        }
    }

    /// Returns whether the state of the resource on the server is unknown to the store.
    pub fn is_unknown(&self, at: usize, job: &Job) -> bool {
        let mut entries = self.machines[at].disk.entries();
        let entry = entries.find(|entry| entry.resource == job.resource);
        self.history.held.since(job.resource, entry).is_some()
    }

    /// A job of a lost history has made again what was retained: its agent's ledger has it, and what was there before, so it is
    /// listed, and goes when an operator says so.
    pub fn was_made_again(&self, at: usize, resource: ResourceId) -> bool {
        let machine = &self.machines[at];
        let applied = machine.disk.entry(resource).filter(|entry| entry.exists());
        let applied = applied.and_then(|entry| entry.applied.as_ref());
        let is_lost = applied.is_some_and(|it| self.history.is_lost_job(resource, it.generation));
        is_lost && !self.reference.is_left(&machine.name, resource)
    }

    /// Returns whether the state of the resource on the server of this name is unknown to the store.
    pub fn has_what_is_unknown(&self, node: &NodeId, resource: ResourceId) -> bool {
        let entry = |machine: &Machine| {
            let entry = machine.disk.entry(resource);
            self.history.held.since(resource, entry).is_some()
        };
        self.machines.iter().filter(|machine| machine.name == *node && !machine.scrapped).any(entry)
    }

    /// Returns whether a resource stays on the server without a row when its row goes, and is listed so: the store that
    /// goes on does not know its state, and no operator has decided.
    pub fn becomes_a_stray(&self, at: usize, row: &ResourceRecord) -> bool {
        let held = &self.history.held;
        let resource = row.physical;
        let entry = self.machines[at].disk.entry(resource);
        let since = held.since(resource, entry);
        let is_undecided =
            since.is_some_and(|since| held.decided.get(&resource).is_none_or(|decided| *decided < since));
        let is_left = self.reference.is_left(&self.machines[at].name, resource);
        // The other one of two servers with one identity may have taken it away.
        let is_told = self.was_cloned(at);
        // A server that went back has what was taken away there, and has yet to say so.
        let machine = &self.machines[at];
        let is_told = is_told || self.is_set_back(machine, resource) && !self.was_heard(machine);
        is_undecided || is_left || is_told || entry.is_some_and(|entry| held.is_half_made(entry))
    }

    /// Excuses entries that a lost job has started and not made: no agent tells of them, so they stay as they are. The
    /// same goes for a job that one of two servers with one identity had started, where the other one has said that it
    /// never did, and for a job that a server which went back had started when its disk was copied.
    pub(super) fn leaves_what_is_half_made(&mut self) {
        let shared = self.shared.borrow();
        let servers = &self.history.servers;
        let is_twice = |job| servers.begun_twice.contains(&job) || servers.had_again.contains(&job);
        for machine in self.machines.iter().filter(|machine| !machine.scrapped) {
            let entries = machine.disk.entries().filter(|entry| entry.exists() && entry.applied.is_none());
            let is_told = |entry: &Entry| {
                entry.newest().is_some_and(|(key, _)| is_twice((key.resource, key.generation)))
            };
            let lost = entries.filter(|entry| is_told(entry) || self.history.held.is_half_made(entry));
            // The store may have another place for it.
            let is_here = |id: &ResourceId| {
                row(&shared.tables, *id).is_some_and(|row| row.node.as_ref() == Some(&machine.name))
            };
            let strays = lost.map(|entry| entry.resource).filter(|id| !is_here(id));
            self.reference.left.extend(strays.map(|id| (machine.name.clone(), id)));
        }
    }

    /// Counts as drift what a job of a lost history has changed before it failed, or before its next attempt was
    /// withdrawn: the server differs from its agent's ledger, and the store has what the ledger has. Such drift is
    /// seen, reported and corrected like any other. Things that such a job makes once all is decided are told when the
    /// node greets again.
    pub(super) fn drifts_where_lost_jobs_end(&mut self) {
        let is_over = !self.is_restored();
        let shared = self.shared.borrow();
        for machine in self.machines.iter_mut().filter(|machine| !machine.scrapped) {
            let differ = machine.disk.entries().filter_map(|entry| {
                let (last, applied) = (entry.last.as_ref()?, entry.applied.as_ref()?);
                let is_lost = self.history.held.lost.contains_key(&(entry.resource, last.key.generation));
                let differs = match last.outcome {
                    Outcome::Failed { .. } | Outcome::NoRoom { .. } | Outcome::Withdrawn
                        if applied.generation < last.key.generation =>
                    {
                        machine.host.check(entry.resource, &applied.spec) != Found::AsDesired
                    }
                    Outcome::Done(_) if is_over && applied.generation == last.key.generation => {
                        row(&shared.tables, entry.resource)
                            .is_some_and(|row| row.progress.held != Some(applied.generation))
                    }
                    _ => false,
                };
                (is_lost && differs).then(|| (entry.resource, applied.spec.clone()))
            });
            for (resource, spec) in differ.collect::<Vec<_>>() {
                match Thing::of(resource, &spec) {
                    Some(thing) => machine.host.is_as_others_left_it(&thing),
                    None => machine.host.is_set_by_hand(&spec, self.now),
                }
            }
        }
    }

    /// A job of a lost history has deleted what it keeps: that is of others from now on, for the store that goes on has no row
    /// whose end would say so.
    pub fn keeps_what_has_no_row(&mut self, at: usize, job: &Job) {
        let is_known = row(&self.shared.borrow().tables, job.resource).is_some();
        if !self.history.is_on || !is_kept(&job.spec) || is_known {
            return;
        }
        let host = &mut self.machines[at].host;
        for thing in host.things_of(job.resource) {
            host.retains(job.resource, &thing);
        }
    }

    /// Leaves to others what was deleted and kept before the store, or the server, went back, if the store has no row
    /// of it: no agent has it to restore either.
    pub(super) fn leaves_what_no_row_puts_back(&mut self) {
        let shared = self.shared.borrow();
        for machine in &mut self.machines {
            let is_over = |maker| !machine.holds(maker) && row(&shared.tables, maker).is_none();
            let makers = machine.host.made_by.iter().map(|(thing, maker)| (thing.clone(), *maker));
            for (thing, maker) in makers.filter(|(_, maker)| is_over(*maker)).collect::<Vec<_>>() {
                machine.host.retains(maker, &thing);
            }
        }
    }

    /// Leaves in place, without an owner, what a job of a lost history has let its agent forget: the store that goes on
    /// has no row whose end would say so.
    pub(super) fn leaves_what_was_retained(&mut self) {
        let shared = self.shared.borrow();
        let lost = &self.history.held.lost;
        for machine in self.machines.iter_mut().filter(|machine| !machine.scrapped) {
            let is_over = |entry: &&Entry| {
                let last = entry.last.as_ref().filter(|last| matches!(last.outcome, Outcome::Done(_)));
                let is_lost =
                    last.is_some_and(|last| lost.contains_key(&(entry.resource, last.key.generation)));
                is_lost && !entry.exists() && row(&shared.tables, entry.resource).is_none()
            };
            for resource in machine.disk.entries().filter(is_over).map(|it| it.resource).collect::<Vec<_>>() {
                for thing in machine.host.things_of(resource) {
                    machine.host.retains(resource, &thing);
                }
            }
        }
    }

    /// The site is known to be restored from now on.
    pub fn sees_that_it_is_restored(&mut self) {
        if !self.history.is_on || self.history.held.known.is_some() || !self.is_restored() {
            return;
        }
        let online = self.machines.iter().filter(|machine| machine.is_online());
        let greeted: BTreeSet<NodeId> = online.map(|machine| machine.name.clone()).collect();
        self.rules_wait(&greeted);
        self.history.held.greeted = greeted;
        self.history.held.known = Some(self.now);
        self.shared.borrow_mut().counts.add("history a restore without a mark is found out");
    }

    /// Returns a resource that a server holds, that the store does not know and that no list has.
    pub(super) fn is_not_listed(&self, views: &[HeldView]) -> Option<String> {
        let listed: BTreeSet<(&NodeId, &str)> = views.iter().map(|view| (&view.node, &*view.id)).collect();
        let shared = self.shared.borrow();
        let tables = &shared.tables;
        let heard = self.machines.iter().filter(|machine| self.was_heard(machine));
        heard.flat_map(|machine| machine.disk.entries().map(move |entry| (machine, entry))).find_map(
            |(machine, entry)| {
                let id = entry.resource;
                let is_here = row(tables, id).is_some_and(|row| row.node.as_ref() == Some(&machine.name));
                let is_stray = entry.applied.is_some() && !is_here;
                let is_open = is_stray && !self.reference.is_left(&machine.name, id);
                let is_listed = listed.contains(&(&machine.name, &*id.to_string()));
                (is_open && !is_listed).then(|| {
                    let elsewhere = row(tables, id).map(brief);
                    format!("{id} on {} has no row, and is not listed: {elsewhere:?}", machine.name)
                })
            },
        )
    }

    /// The agent has been connected for so long that all it has is known.
    fn was_heard(&self, machine: &Machine) -> bool {
        let process =
            machine.process.as_ref().filter(|process| process.agent.is_online() && !machine.scrapped);
        let line = process.and_then(|process| process.line).and_then(|line| self.bus.lines.get(&line));
        let is_old = |since| self.now.since(since) >= TOLD_WITHIN;
        let is_still = machine.frozen_until.max(machine.cut_off_until).max(self.controller.busy_until);
        line.is_some_and(|line| {
            let is_open = !line.broken && line.run == self.controller.run;
            is_open && is_old(line.since) && is_old(is_still) && !machine.host.is_cut()
        })
    }

    /// Entries of a device that are not on its server as the table has them. Of two servers with one identity either may
    /// have said what it has.
    pub(super) fn differing_entries(&self, name: &DeviceName) -> Left {
        let is_it = |at: &usize| {
            let machine = &self.machines[*at];
            machine.name == name.node && (!machine.scrapped || self.was_cloned(*at))
        };
        let shared = self.shared.borrow();
        let flows = &shared.tables.flows;
        let number = number_of(flows, &name.node, &name.bridge);
        let settled = number.and_then(|number| flows.devices.get(&number)).map_or(0, |it| it.settled);
        let own = flows.entries.iter().filter(|((of, _), _)| Some(*of) == number);
        let own: BTreeMap<FlowId, &FlowEntryRecord> = own.map(|((_, id), entry)| (*id, entry)).collect();
        let mut left = Left::new();
        for at in (0..self.machines.len()).filter(is_it) {
            let log = self.machines[at].disk.logs.get(&name.bridge);
            let there = log.map(|log| log.fold(false)).unwrap_or_default().kept;
            let there: BTreeMap<FlowId, u64> = there.values().map(|kept| (kept.id, kept.digest)).collect();
            let ids: BTreeSet<FlowId> = own.keys().chain(there.keys()).copied().collect();
            let differs =
                |id: &FlowId| own.get(id).and_then(|it| stood(it, settled)) != there.get(id).copied();
            left.extend(ids.into_iter().filter(differs).map(|id| {
                let is_open = own.get(&id).filter(|entry| entry.serial > settled);
                (id, is_open.map_or(FOR_GOOD, |entry| entry.serial))
            }));
        }
        left
    }
}

/// Returns the digest that an entry has on its device as far as that is decided; none: the entry need not be there, and
/// may be left as it is.
fn stood(entry: &FlowEntryRecord, settled: u64) -> Option<u64> {
    if entry.serial > settled {
        let before = entry.past.iter().find(|past| past.serial <= settled);
        let before = before.filter(|past| past.mark == FlowMark::None && !past.removing);
        return before.map(|past| past.packed.digest());
    }
    (entry.mark == FlowMark::None && !entry.removing).then(|| entry.packed.digest())
}
