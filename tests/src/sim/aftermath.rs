//! Checks of what becomes durable: rows and stacks that went, and things that stay although no row stands for them any
//! more; jobs that must not begin on a host, and what operators read.

use std::collections::BTreeSet;

use muster_agent_core::Before;
use muster_engine::record::{PackedSpec, ResourceRecord, Status};
use muster_shared::model::{Action, Claim, Job, OnDelete, Spec};
use muster_shared::{NodeId, ResourceId, StackName};

use super::machine::Machine;
use super::shared::Noted;
use super::store::brief;
use super::world::World;

/// The resources of a stack that is busy are looked at once in this many turns.
const LOOKS_IN: usize = 4;

impl World {
    /// Whether a job must not begin on this host.
    pub fn job_must_not_begin(&self, at: usize, job: &Job, before: Option<&Before>) -> Option<String> {
        let machine = &self.machines[at];
        let name = &machine.name;
        // Each of two servers with one identity may do what both had started.
        // A store that went back has no other place for what a lost job does elsewhere.
        let is_lost =
            |key: &muster_shared::model::ReportKey| self.history.is_lost_job(key.resource, key.generation);
        if let Some((other, key)) =
            self.running.get(&job.resource).filter(|(_, key)| !self.was_cloned(at) && !is_lost(key))
        {
            let other = &self.machines[*other].name;
            return Some(format!("{} has two jobs at once: {key:?} on {other}, and on {name}", job.resource));
        }
        if let Some(wrong) = machine.host.out_of_order(job) {
            return Some(format!("on {name}: {wrong}"));
        }
        if machine.process.as_ref().is_some_and(|process| process.half_done.contains(&job.key())) {
            let id = job.resource;
            return Some(format!(
                "{name} makes a change of {id} again that nobody confirmed before its agent ended"
            ));
        }
        let shared = self.shared.borrow();
        if job.action == Action::Delete {
            let (thing, other) = machine.host.takes_from_another(job, before)?;
            // One that is gone, or gives it up, is nobody to take from.
            let owner = shared.tables.physical.get(&other).and_then(|id| shared.tables.rows.get(id))?;
            let owns = owner.dropped.is_none() && !owner.handed_over && !owner.is_lost();
            return owns.then(|| {
                format!("on {name} {} goes and takes {thing} away, which is of {}", job.resource, owner.name)
            });
        }
        let row = shared.tables.physical.get(&job.resource).and_then(|id| shared.tables.rows.get(id));
        match row {
            // The job was sent by a controller whose disk has gone back since: nobody can withdraw it. The same goes for a
            // job that one of two servers with one identity has taken, and the other says is over.
            _ if self.history.is_lost(job) || self.has_again(job) || self.was_cloned(at) => None,
            None => Some(format!("{name} makes {}, which has no row", job.resource)),
            Some(row) if row.node.as_ref() != Some(name) => {
                Some(format!("{name} makes {}, which is of {:?}", row.name, row.node))
            }
            Some(_) => None,
        }
    }

    /// Takes note of what became durable in the last turn.
    pub fn noted(&mut self) {
        self.shared.borrow_mut().remember_maintained();
        let noted = std::mem::take(&mut self.shared.borrow_mut().noted);
        self.controller.gone.clear();
        for it in &noted {
            if let Noted::RowGone(row) = it {
                self.leaves_what_it_retains(row);
            }
        }
        for it in noted {
            match it {
                Noted::RowGone(row) => {
                    // Where disks go back, what another server has under its id has no row there, and is listed as such.
                    let is_elsewhere =
                        |at: usize| self.history.is_on && row.node.as_ref() != Some(&self.machines[at].name);
                    let left = self.left_behind(row.physical);
                    if let Some((at, thing)) = left.iter().find(|(at, _)| !is_elsewhere(*at))
                        && row.external_id.is_none()
                        && !self.becomes_a_stray(*at, &row)
                    {
                        let (row, id, on) = (brief(&row), row.physical, &self.machines[*at].name);
                        self.violate(format!("the {row} ({id}) is gone, and on {on} is {thing}"));
                    }
                }
                Noted::Stack { was, is } => {
                    self.note(|_| {
                        format!(
                            "stack {} is {} {} r{} {}",
                            is.name,
                            is.action.as_str(),
                            is.status.as_str(),
                            is.revision,
                            is.reason
                        )
                    });
                    let wrong = {
                        let shared = self.shared.borrow();
                        let was_complete = shared.fleet.completed.contains(&is.id);
                        self.reference.stack_went(was.as_deref(), &is, was_complete, &shared.tables)
                    };
                    wrong.into_iter().for_each(|wrong| self.violate(wrong));
                }
                Noted::Event(is) => {
                    self.note(|world| {
                        let stacks = &world.shared.borrow().tables.stacks;
                        let stack = stacks.get(&is.stack).map_or("gone", |stack| stack.name.as_str());
                        let name = is.resource.as_ref().map_or("-", |(name, _)| &**name);
                        format!("event {stack} {name} {} {}: {}", is.action, is.status, is.reason)
                    });
                    let wrong = self.is_answered(&is).or_else(|| self.fails_untold(&is));
                    wrong.into_iter().for_each(|wrong| self.violate(wrong));
                }
                Noted::Intent(is) => self.note(|_| {
                    let (key, state) = (&is.key, is.state.as_str());
                    let reason = is.reason.as_deref().unwrap_or_default();
                    format!("intent {key} is {state} v{} errors {} {reason}", is.version, is.errors)
                }),
                Noted::Deployed(row) => {
                    let wrong = self.script_has_run(&row);
                    wrong.into_iter().for_each(|wrong| self.violate(wrong));
                }
                Noted::TableGone(device) => self.table_is_gone(&device),
                Noted::VersionGone(device) => self.version_is_gone(&device),
                Noted::StackGone(stack) => {
                    self.note(|_| format!("stack {} is gone", stack.name));
                    self.reference.stack_is_gone(&stack);
                    self.controller.gone.insert(stack.name);
                }
            }
        }
        self.shared.borrow_mut().fleet.completed.clear();
    }

    /// Leaves the things of retained rows on their servers, as soon as no other row stands for them: such a row may go
    /// in this turn.
    fn leaves_what_it_retains(&mut self, row: &ResourceRecord) {
        if row.retain || row.progress.action == Some(Action::Retain) || keeps(row) {
            self.retained.push(row.physical);
            // Its agent cannot be told what to leave where a restored store does not know it, and keeps it in its ledger.
            if let Some(node) = row.node.as_ref().filter(|_| row.spec.is_none()) {
                self.reference.left.insert((node.clone(), row.physical));
            }
        }
        if self.retained.contains(&row.physical) {
            self.stays_with(row);
        }
        for resource in self.retained.clone() {
            for (at, thing) in self.left_behind(resource) {
                // The other one of two servers with one identity has it still, and lists it.
                let is_listed = self.was_cloned(at) && self.machines[at].holds(resource);
                if !is_listed && !self.was_made_again(at, resource) {
                    self.machines[at].host.retains(resource, &thing);
                }
            }
        }
    }

    /// A retained row keeps what it took over from another row, if that one has gone before and left the thing.
    fn stays_with(&mut self, row: &ResourceRecord) {
        let Some(spec) = row.spec.as_ref().map(PackedSpec::unpack) else { return };
        let shared = self.shared.borrow();
        let here = |machine: &&mut Machine| !machine.scrapped && row.node.as_ref() == Some(&machine.name);
        for machine in self.machines.iter_mut().filter(here) {
            // The agent's record has the claims that it must restore and the spec does not name.
            let held: BTreeSet<Claim> =
                spec.claims().into_iter().chain(machine.held_by(row.physical)).collect();
            for thing in held.into_iter().map(|claim| claim.key) {
                let Some(maker) = machine.host.made_by.get(&thing).copied() else { continue };
                let mut others = shared.tables.rows.values().filter(|other| other.physical != maker);
                if !machine.holds(maker) && !others.any(|other| claims(other, &machine.name, &thing)) {
                    machine.host.retains(maker, &thing);
                }
            }
        }
    }

    /// Returns the things of a row that is gone and that no other row stands for, each with its machine.
    ///
    /// If disks go back in time, an entry that a server has without a row is listed, and stands for a thing that both
    /// had to restore.
    fn left_behind(&self, resource: ResourceId) -> Vec<(usize, String)> {
        let shared = self.shared.borrow();
        let mut all = Vec::new();
        let there = |(_, machine): &(usize, &Machine)| !machine.scrapped || machine.is_clone;
        for (at, machine) in self.machines.iter().enumerate().filter(there) {
            let mut left = machine.host.things_of(resource);
            // The next owner must restore it, by the record of its agent, whether it took the thing over yet or not.
            left.retain(|thing| {
                let on_disk = machine.disk.holders(thing);
                let has_row = |it: &ResourceId| shared.tables.physical.contains_key(it);
                let is_listed = |it: &ResourceId| self.history.is_on && *it != resource;
                !on_disk.into_iter().any(|holder| has_row(&holder) || is_listed(&holder))
                    && !shared.tables.rows.values().any(|other| claims(other, &machine.name, thing))
            });
            all.extend(left.into_iter().map(|thing| (at, thing)));
        }
        all
    }

    /// Looks at the site as an operator would after this turn.
    pub fn look(&mut self) {
        let Some(turns) = self.controller.turns.as_ref().filter(|_| self.looks_at_all()) else { return };
        let site = turns.view();
        let mut wrong = None;
        // A COMPLETE row needs no reason and is in no phase.
        let busy: BTreeSet<StackName> = {
            let tables = &self.shared.borrow().tables;
            let is_busy = |row: &&ResourceRecord| row.progress.status != Some(Status::Complete);
            let stacks = tables.rows.values().filter(is_busy).filter_map(|row| tables.stacks.get(&row.stack));
            stacks.map(|stack| stack.name.clone()).collect()
        };
        // The resources of one of them at most, for that takes a fifth of a run otherwise: each has its turn soon.
        let turn = usize::try_from(self.trace.steps).unwrap_or_default() % busy.len().max(LOOKS_IN);
        let looked_at = busy.iter().nth(turn);
        for stack in site.stack_views() {
            let Ok(name) = stack.name.parse() else { continue };
            if stack.status == "FAILED" && stack.status_reason.is_empty() {
                wrong = Some(format!("stack {name} is FAILED without a reason"));
            }
            let rows = (looked_at == Some(&name)).then(|| site.resource_views(&name, true));
            for row in rows.flatten().unwrap_or_default() {
                if row.status == "IN_PROGRESS" && row.phase.is_empty() {
                    wrong = Some(format!("{} of {name} is IN_PROGRESS and in no phase: {row:?}", row.name));
                }
                if row.status == "FAILED" && row.status_reason.is_empty() {
                    wrong = Some(format!("{} of {name} is FAILED without a reason: {row:?}", row.name));
                }
            }
            if stack.status == "IN_PROGRESS" && turns.poll_timeout().is_none() {
                wrong = Some(format!("stack {name} is IN_PROGRESS and no timer is set"));
            }
        }
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        self.reservations_are_right();
    }
}

fn claims(row: &ResourceRecord, node: &NodeId, thing: &String) -> bool {
    let spec = row.spec.as_ref().filter(|_| row.node.as_ref() == Some(node));
    spec.is_some_and(|spec| spec.unpack().claims().iter().any(|claim| claim.key == *thing))
}

fn keeps(row: &ResourceRecord) -> bool {
    row.spec.as_ref().is_some_and(|spec| spec.unpack().spec().is_some_and(is_kept))
}

/// Whether things made by it stay when it is deleted.
pub fn is_kept(spec: &Spec) -> bool {
    match spec {
        Spec::File(file) => file.on_delete == OnDelete::Keep,
        Spec::Network(network) => network.on_delete == OnDelete::Keep,
        Spec::Hostname(hostname) => hostname.on_delete == OnDelete::Keep,
        Spec::Unit(unit) => unit.on_delete == OnDelete::Keep,
        Spec::User(user) => user.on_delete == OnDelete::Keep,
        Spec::Group(group) => group.on_delete == OnDelete::Keep,
        Spec::Package(package) => package.on_delete == OnDelete::Keep,
        Spec::Sysctl(sysctl) => sysctl.on_delete == OnDelete::Keep,
        Spec::Timezone(zone) => zone.on_delete == OnDelete::Keep,
        Spec::Dummy(_) | Spec::Deployment(_) => false,
    }
}
