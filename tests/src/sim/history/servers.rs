//! Servers whose disks go back, and servers that run twice.
//!
//! A server is **reverted** whole: its agent's state and what its host has are as they were at an earlier time, once or
//! at each start, as a machine that boots from an image. A **clone** is a copy of a server with its disk and its
//! identity, beside it for a while; then one of the two is switched off for good.
//!
//! Absent: a state directory that goes back without its host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_agent_core::Entry;
use muster_engine::record::Status;
use muster_shared::model::Job;
use muster_shared::seal::SealPublic;
use muster_shared::{Generation, MonoTime, NodeId, ResourceId};

use super::super::disk::Disk;
use super::super::fault::Kind;
use super::super::host::Host;
use super::super::machine::Machine;
use super::super::script::Ran;
use super::super::world::{Event, World};
use super::{Step, Which};

/// The most times that a thing may be made again within this time: five corrections, and five times for an agent that
/// had lost it, for each is counted by itself; once more at the edge.
const AGAIN_MAX: usize = 11;
const WITHIN: Duration = Duration::from_secs(3600);

/// A server's disk at an earlier time.
pub(super) struct Image {
    at: usize,
    key: SealPublic,
    disk: Disk,
    host: Host,
    /// The server is set back to it so many times more.
    again: u64,
}

/// The record of servers that went back or ran twice.
#[derive(Default)]
pub(super) struct Servers {
    image: Option<Image>,
    /// The server that runs twice, and its clone.
    clone: Option<(usize, usize)>,
    /// Jobs that a server had when its disk was copied, and has again since it went back.
    pub(super) had_again: BTreeSet<(ResourceId, Generation)>,
    /// Resources as a server had them before it went back: the server does not know what has become of each since, and
    /// the store does not know the old state.
    set_back: BTreeSet<(ResourceId, Generation)>,
    /// Jobs that a server which went back is in the middle of once more.
    midway: BTreeSet<(ResourceId, Generation)>,
    /// Jobs that one of two servers with one identity had when the other one went, which may have said anything of them.
    pub(super) begun_twice: BTreeSet<(ResourceId, Generation)>,
    /// Names that two servers had.
    cloned: BTreeSet<NodeId>,
    /// The runs of scripts on disks that are gone.
    ran: BTreeMap<ResourceId, Vec<Ran>>,
    /// Jobs that made a thing outside of any operation, under the traversal of its stack.
    again: BTreeMap<(ResourceId, u64), VecDeque<(MonoTime, Generation)>>,
}

impl Servers {
    /// Forgets the counts that a store that went back does not know.
    pub(super) fn forgets(&mut self) {
        self.again.clear();
    }

    /// A server's disk is followed by an earlier one, or another one's.
    fn goes_back(&mut self, before: &Disk, after: &Disk) {
        let had: BTreeMap<ResourceId, Generation> = before.entries().filter_map(applied).collect();
        let is_another =
            |(resource, generation): &(ResourceId, Generation)| had.get(resource) != Some(generation);
        self.set_back.extend(after.entries().filter_map(applied).filter(is_another));
    }

    /// A server's disk goes, and with it what its scripts came to.
    fn ends(&mut self, host: &Host) {
        for (resource, ran) in &host.scripts {
            let all = self.ran.entry(*resource).or_default();
            if all.iter().all(|it| it.deployment != ran.deployment) {
                all.push(ran.clone());
            }
        }
    }
}

impl World {
    pub(super) fn plans_servers(&mut self) {
        let dice = &mut self.history.dice;
        let copies = dice.millis(30_000, 500_000);
        let reverts = copies + dice.millis(20_000, 300_000);
        let clones = dice.millis(60_000, 900_000);
        if self.history.which.has(Which::Servers) {
            self.later(copies, Event::GoesBack(Step::Images));
            self.later(reverts, Event::GoesBack(Step::Reverts));
        }
        if self.history.which.has(Which::Clones) {
            self.later(clones, Event::GoesBack(Step::Clones));
        }
    }

    /// Picks a server that has joined.
    fn some_server(&mut self) -> Option<usize> {
        let there = |at: &usize| self.machines[*at].joined && !self.machines[*at].scrapped;
        let all: Vec<usize> = (0..self.machines.len()).filter(there).collect();
        (!all.is_empty()).then(|| *self.history.dice.pick(&all))
    }

    pub(super) fn takes_an_image(&mut self) {
        let Some(at) = self.some_server() else { return };
        let again = *self.history.dice.pick(&[0, 0, 1, 12]);
        let machine = &self.machines[at];
        let (disk, host) = (machine.disk.clone(), machine.host.clone());
        self.history.servers.image = Some(Image { at, key: machine.key, disk, host, again });
    }

    /// A server is as in its image, after a power cut. Some boot from it again and again.
    pub(super) fn reverts_a_server(&mut self) {
        let Some(Image { at, key, disk, host, again }) = &mut self.history.servers.image else { return };
        let (at, disk, host, is_last) = (*at, disk.clone(), host.clone(), *again == 0);
        *again = again.saturating_sub(1);
        let machine = &self.machines[at];
        let is_it = machine.key == *key && machine.joined && !machine.scrapped && machine.process.is_some();
        let whom = machine.name.to_string();
        if !is_it || !self.faults.happens(self.now, Kind::AgentReverted, &whom) {
            return;
        }
        self.note(|_| format!("FAULT {} {whom}", Kind::AgentReverted.name()));
        let machine = &mut self.machines[at];
        self.history.servers.ends(&machine.host);
        // Nothing of a switch outlives a power cut.
        let switch = std::mem::take(&mut machine.host.switch);
        self.history.servers.goes_back(&machine.disk, &disk);
        (machine.disk, machine.host) = (disk, host);
        machine.host.switch = switch;
        let current = machine.disk.entries().filter_map(|entry| Some(entry.current.as_ref()?.job.key()));
        self.history.servers.midway.extend(current.map(|key| (key.resource, key.generation)));
        self.history.servers.had_again.extend(machine.disk.entries().flat_map(jobs_of));
        self.agent_ends(at, true);
        self.leaves_what_no_row_puts_back();
        if !is_last {
            let next = self.history.dice.millis(10_000, 90_000);
            self.later(next, Event::GoesBack(Step::Reverts));
        }
    }

    /// A copy of a server begins to run beside it.
    pub(super) fn clones_a_server(&mut self) {
        if self.history.servers.clone.is_some() {
            return;
        }
        let Some(at) = self.some_server() else { return };
        let whom = self.machines[at].name.clone();
        if self.machines[at].host.is_cut() || !self.faults.happens(self.now, Kind::AgentCloned, whom.as_str())
        {
            return;
        }
        self.note(|_| format!("FAULT {} {whom}", Kind::AgentCloned.name()));
        let clone = self.machines[at].copy();
        self.machines.push(clone);
        let second = self.machines.len() - 1;
        self.history.servers.clone = Some((at, second));
        self.shared.borrow_mut().rules_undecided.retain(|device, _| device.node != whom);
        self.history.servers.cloned.insert(whom);
        self.agent_starts(second);
        let goes = self.history.dice.millis(20_000, 600_000);
        self.later(goes, Event::GoesBack(Step::CloneGoes));
    }

    /// Switches the server or its clone off for good. If it is the first, the copy takes its place.
    pub fn clone_goes(&mut self) {
        let Some((first, second)) = self.history.servers.clone.take() else { return };
        self.machines[second].is_clone = false;
        self.agent_ends(second, false);
        if self.history.dice.one_in(2) && self.machines[first].key == self.machines[second].key {
            self.agent_ends(first, false);
            let copy = self.machines[second].copy();
            let machine = &mut self.machines[first];
            self.history.servers.ends(&machine.host);
            // The switch is one of its own.
            let switch = std::mem::take(&mut machine.host.switch);
            self.history.servers.goes_back(&machine.disk, &copy.disk);
            (machine.disk, machine.host) = (copy.disk, copy.host);
            machine.host.switch = switch;
        }
        let had = self.machines[first].disk.entries().flat_map(jobs_of);
        self.history.servers.begun_twice.extend(had);
    }

    /// A server that went back has this job again: nobody can take it back before its agent is connected.
    pub fn has_again(&self, job: &Job) -> bool {
        self.history.servers.had_again.contains(&(job.resource, job.generation))
    }

    /// Returns whether the server has the resource as it was before the server went back: the store has another state,
    /// and does not know that one any more.
    pub fn is_set_back(&self, machine: &Machine, resource: ResourceId) -> bool {
        let entry = machine.disk.entry(resource);
        entry.and_then(applied).is_some_and(|applied| self.history.servers.set_back.contains(&applied))
    }

    /// A server went back into the middle of this run. Its ledger says nothing of what is not done, so what was done before is
    /// lost to its controller, which has it run again.
    pub fn was_midway(&self, run: (ResourceId, Generation)) -> bool {
        self.history.servers.midway.contains(&run)
    }

    /// A script ran so on a disk that went since: its report may have come late.
    pub fn ran_before(&self, resource: ResourceId, is_so: impl Fn(&Ran) -> bool) -> bool {
        self.history.servers.ran.get(&resource).is_some_and(|all| all.iter().any(is_so))
    }

    /// Two servers had this name: what the one ended or took away the other may still have, and is told to have.
    pub fn was_cloned(&self, at: usize) -> bool {
        self.history.servers.cloned.contains(&self.machines[at].name)
    }

    /// A thing is not made again more often than operators are told, outside of their operations.
    pub fn is_made_too_often(&mut self, job: &Job) -> Option<String> {
        let shared = self.shared.borrow();
        let tables = &shared.tables;
        let row = tables.physical.get(&job.resource).and_then(|id| tables.rows.get(id))?;
        let stack = tables.stacks.get(&row.stack)?;
        if stack.status == Status::InProgress || !job.action.applies() {
            return None;
        }
        let now = self.now;
        let again = self.history.servers.again.entry((job.resource, stack.traversal)).or_default();
        again.retain(|(at, _)| now.since(*at) < WITHIN);
        if !again.iter().any(|(_, generation)| *generation == job.generation) {
            again.push_back((now, job.generation));
        }
        let times = again.len();
        (times > AGAIN_MAX).then(|| format!("{} is made {times} times within an hour: {again:?}", row.name))
    }
}

/// Returns the resource and the generation that an agent has applied.
fn applied(entry: &Entry) -> Option<(ResourceId, Generation)> {
    Some((entry.resource, entry.applied.as_ref()?.generation))
}

/// Jobs that an agent has yet to end, and the newest one it knows.
fn jobs_of(entry: &Entry) -> impl Iterator<Item = (ResourceId, Generation)> {
    let open = [&entry.current, &entry.next].into_iter().flatten().map(|it| it.job.key());
    open.chain(entry.newest().map(|(key, _)| key)).map(|key| (key.resource, key.generation))
}
