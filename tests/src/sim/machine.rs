//! A server and its agent: the real machine of `muster-agent-core`, a disk that forgets what was not synced, and the
//! fake host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use muster_agent_core::{Agent, Config, Entry, Input, WriteId, at_boot};
use muster_agent_link::NodeSeal;
use muster_shared::model::flow::Bridge;
use muster_shared::model::{Action, Claim, Down, Job, ReportKey, Spec, Up};
use muster_shared::seal::{Seal, SealPublic};
use muster_shared::{EpochId, Generation, MonoTime, NodeId, ResourceId};

use super::clocks::Clock;
use super::disk::Disk;
use super::drift::Thing;
use super::flow::{Hands, Log};
use super::host::Host;
use super::job_fate::Run;
use super::load::Places;
use super::script::Ordered;
use super::world::{Event, World};

/// Inputs in one turn, as in the real agent.
const INPUTS_PER_TURN: usize = 32;

/// A server.
pub struct Machine {
    /// The name it has joined under.
    pub name: NodeId,
    /// The long-lived keys, as its disk has them.
    pub seal: Arc<Seal>,
    pub key: SealPublic,
    /// Whether it has been told that it is a node.
    pub joined: bool,
    /// Whether it has been replaced, or cut off for ever.
    pub scrapped: bool,
    /// Whether it runs beside the one that it is a copy of, and counts for nothing.
    pub is_clone: bool,
    /// The agent, while one runs.
    pub process: Option<Process>,
    /// Counts agents' starts: what is for an earlier one is nobody's.
    pub life: u64,
    /// The contents of its disk.
    pub disk: Disk,
    pub host: Host,
    /// Bytes a second over its line, if that is slow.
    pub bandwidth: Option<u64>,
    pub clock: Clock,
    /// The places of its jobs.
    pub places: Places,
    /// Cannot be reached before this.
    pub cut_off_until: MonoTime,
    /// Stands still until then.
    pub frozen_until: MonoTime,
    /// The host could not restore something then: it is tried again in its time.
    pub refused_at: MonoTime,
    boot: u128,
    /// Whether it starts again after a power cut.
    boots: bool,
    /// The time when its agent last began, or went on after it stood still.
    pub up_since: MonoTime,
    /// Counts how often it was cut off.
    pub cuts: u32,
    /// The connection that stood when it was cut off last goes on.
    pub line_goes_on: bool,
    /// The jobs that it was told to do, by generation.
    pub given: BTreeMap<(ResourceId, Generation), (Action, Spec)>,
}

/// A running agent.
pub struct Process {
    /// The machine under test.
    pub agent: Agent,
    started: MonoTime,
    inbox: VecDeque<Input>,
    /// The input that its connection brought and the agent has not read yet.
    socket: VecDeque<Input>,
    /// Whether all of that was read, and nothing was handled since.
    caught_up: bool,
    pub(super) written: Vec<(WriteId, Result<(), String>)>,
    pub(super) said: Vec<Up>,
    /// The end of the seal, with what its last session has left.
    pub seal: Rc<NodeSeal>,
    /// The connection it knows of.
    pub line: Option<u64>,
    /// Counts attempts to connect: one that was given up comes to nothing.
    pub attempt: u64,
    turn_due: bool,
    timer: u64,
    pub(super) runs: BTreeMap<ReportKey, Run>,
    /// Checks under way, each with whether the agent knows that it has made the thing.
    pub(super) checks: BTreeMap<ReportKey, (Job, bool)>,
    /// Adoptions that found what they want.
    pub(super) compared: BTreeSet<ReportKey>,
    /// The things of which the host is asked to tell changes.
    pub(super) watched: BTreeMap<ResourceId, Thing>,
    /// Jobs that wait for a script.
    pub(super) scripts: BTreeMap<ReportKey, Ordered>,
    /// Entries that say how a job ended, and are not on disk yet.
    pub(super) ended: Vec<Entry>,
    /// The work under way at flow tables.
    pub hands: Hands,
    /// Ends after so many effects.
    pub fuse: Option<u32>,
    /// Epoch of the controller that greeted it last.
    pub(super) greeted: EpochId,
    /// Epoch that it said last that it obeys.
    pub(super) said_epoch: EpochId,
    /// Whether it takes its disk for full, until it has found room.
    pub(super) found_no_room: bool,
    /// Jobs whose change was under way, and not confirmed, when the agent before it ended.
    pub(super) half_done: BTreeSet<ReportKey>,
}

impl Machine {
    /// A server that has not joined yet.
    pub fn new(name: NodeId, seal: Arc<Seal>, key: SealPublic, host: Host) -> Self {
        Self {
            name,
            seal,
            key,
            joined: false,
            scrapped: false,
            is_clone: false,
            process: None,
            life: 0,
            disk: Disk::default(),
            host,
            bandwidth: None,
            clock: Clock::default(),
            places: Places::default(),
            cut_off_until: MonoTime::default(),
            frozen_until: MonoTime::default(),
            refused_at: MonoTime::default(),
            boot: 1,
            boots: false,
            up_since: MonoTime::default(),
            cuts: 0,
            line_goes_on: false,
            given: BTreeMap::new(),
        }
    }

    /// A generation of a resource is one thing, whatever became of the controller that gave it.
    pub fn is_given_another(&mut self, job: &Job) -> Option<String> {
        let content = (job.action, job.spec.clone());
        let first = self.given.entry((job.resource, job.generation)).or_insert_with(|| content.clone());
        let (name, generation, id) = (&self.name, job.generation, job.resource);
        (*first != content)
            .then(|| format!("generation {generation} of {id} is {content:?} on {name}, and was {first:?}"))
    }

    /// A copy of it, with its disk and its identity.
    pub fn copy(&self) -> Self {
        Self {
            joined: true,
            scrapped: true,
            is_clone: true,
            disk: self.disk.clone(),
            boot: self.boot,
            ..Self::new(self.name.clone(), Arc::clone(&self.seal), self.key, self.host.clone())
        }
    }

    /// Counts each thing that the taker claims as one that was always there, if the agent has forgotten the resource
    /// that made it.
    pub(super) fn forgets_retained(&mut self, taker: ResourceId, spec: &Spec) {
        for claim in spec.claims() {
            let made_by = self.host.made_by.get(&claim.key).copied().filter(|by| *by != taker);
            // One that holds it knows what was there before Muster, and so does one that takes it again.
            let known = |entry: &Entry| {
                let is_known = entry.resource == taker || !self.disk.is_taken(entry);
                entry.claims().contains(&claim) && is_known
            };
            if self.disk.entries.values().any(known) {
                continue;
            }
            if let Some(by) = made_by.filter(|by| !self.holds(*by)) {
                self.host.retains(by, &claim.key);
            }
        }
    }

    /// The claims that a resource holds, or held, as its agent has written down.
    pub fn held_by(&self, resource: ResourceId) -> Vec<Claim> {
        self.disk.held_by(resource)
    }

    /// Whether its agent knows that something of a resource may be here.
    pub fn holds(&self, resource: ResourceId) -> bool {
        self.disk.entries.get(&resource).is_some_and(Entry::exists)
    }

    /// Whether that attempt of that agent to connect was not given up since.
    pub fn is_connecting(&self, life: u64, attempt: u64) -> bool {
        self.life == life && self.process.as_ref().is_some_and(|process| process.attempt == attempt)
    }

    /// Whether its agent sees to what a bridge holds.
    pub fn watches(&self, bridge: &Bridge) -> bool {
        self.process.as_ref().is_some_and(|process| process.hands.watched.contains(bridge))
    }

    /// Whether it has lost power, and not booted yet.
    pub fn is_off(&self) -> bool {
        self.boots && self.process.is_none()
    }

    /// Counts its boots.
    pub fn boot(&self) -> u128 {
        self.boot
    }

    /// Whether its agent hears the controller.
    pub fn is_online(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.agent.is_online())
    }
}

impl Process {
    /// Returns the agent's next input. What was written is durable before the next message is read.
    fn next_input(&mut self) -> Option<Input> {
        let input = match self.inbox.pop_front() {
            Some(input) => input,
            None if !self.written.is_empty() => return None,
            None => self.socket.pop_front().or_else(|| (!self.caught_up).then_some(Input::CaughtUp))?,
        };
        self.caught_up = input == Input::CaughtUp;
        Some(input)
    }

    /// Returns whether a withdrawal of the job waits, which the agent did not read before the job began.
    pub fn unread_withdrawal(&self, job: &Job) -> bool {
        self.socket.iter().any(|input| {
            matches!(input, Input::Received(Down::Withdraw { resource, generation })
                if (*resource, *generation) == (job.resource, job.generation))
        })
    }

    /// Drops what the connection brought.
    pub fn hangs_up(&mut self) {
        self.socket.clear();
    }

    fn has_more(&self) -> bool {
        !self.inbox.is_empty() || !self.socket.is_empty() || !self.caught_up
    }
}

impl World {
    pub fn agent_starts(&mut self, at: usize) {
        let seed = self.dice.agents.number();
        let now = self.now;
        let machine = &mut self.machines[at];
        if machine.process.is_some() || machine.scrapped && !machine.is_clone || !machine.joined {
            return;
        }
        (machine.life, machine.up_since) = (machine.life + 1, now);
        machine.places.begins(machine.disk.entries.values());
        if std::mem::take(&mut machine.boots) {
            let entries: Vec<Entry> = machine.disk.entries.values().cloned().collect();
            machine.host.boots(&at_boot(&entries));
        }
        // Another with every start.
        let instance = (u128::from(machine.life) << 64) | u128::from(seed);
        let config = Config { seed, boot_id: machine.boot, instance, agent_version: "1.0.0".into() };
        let entries = machine.disk.entries.values().cloned().collect();
        let half_done = machine.disk.half_done();
        if !half_done.is_empty() {
            self.shared.borrow_mut().counts.add("agent starts with a change that was not confirmed");
        }
        // The logs are on disk once they are read: else the agent could report a table that a power cut undoes.
        machine.disk.logs.values_mut().for_each(Log::open);
        machine.disk.sync();
        let is_open = |log: &&Log| log.fold(true).open.is_some();
        if machine.disk.logs.values().any(|log| is_open(&log)) {
            let counts = &mut self.shared.borrow_mut().counts;
            counts.add("flow log is read with a batch that was not decided");
        }
        let tables = machine.disk.logs.iter().filter_map(|(bridge, log)| log.load(bridge)).collect();
        machine.process = Some(Process {
            agent: Agent::new(config, entries, machine.disk.epoch).with_flows(tables),
            started: now,
            inbox: VecDeque::from([Input::Start]),
            socket: VecDeque::new(),
            caught_up: false,
            written: Vec::new(),
            said: Vec::new(),
            seal: Rc::new(Arc::clone(&machine.seal).into()),
            line: None,
            attempt: 0,
            turn_due: false,
            timer: 0,
            runs: BTreeMap::new(),
            checks: BTreeMap::new(),
            compared: BTreeSet::new(),
            watched: BTreeMap::new(),
            scripts: BTreeMap::new(),
            ended: Vec::new(),
            hands: Hands::default(),
            fuse: None,
            greeted: EpochId::default(),
            said_epoch: EpochId::default(),
            found_no_room: false,
            half_done,
        });
        self.excuses_all(at);
        self.scripts_are_swept(at);
        self.bridges_are_looked_for(at);
        self.note(|world| format!("{} agent starts", world.machines[at].name));
        self.agent_has_something(at, Duration::ZERO);
    }

    /// The agent ends, wherever it is; with a power cut the whole server.
    pub fn agent_ends(&mut self, at: usize, power_cut: bool) {
        let machine = &mut self.machines[at];
        let Some(process) = machine.process.take() else { return };
        machine.life += 1;
        self.network.dirty = true;
        if power_cut {
            if machine.disk.power_cut(&mut self.dice.disks) {
                self.shared.borrow_mut().counts.add("flow log is cut by a power cut");
            }
            (machine.boot, machine.boots) = (machine.boot + 1, true);
        }
        if power_cut {
            self.switch_boots(at);
            self.scripts_lose_power(at);
        }
        self.running.retain(|_, (machine, _)| *machine != at);
        self.note(|world| {
            format!("{} agent ends{}", world.machines[at].name, if power_cut { ", power cut" } else { "" })
        });
        if let Some(line) = process.line {
            // A process that ends closes its sockets; a server that is off does not.
            let controller =
                if power_cut { self.dice.net.millis(1000, 60_000) } else { self.dice.net.millis(1, 50) };
            self.line_ends(line, None, Some(controller));
        }
        let back = self.dice.agents.millis(200, if power_cut { 60_000 } else { 10_000 });
        self.later(back, Event::AgentStarts(at));
    }

    /// An input for an agent.
    pub fn tell_agent(&mut self, at: usize, input: Input) {
        if let Some(process) = &mut self.machines[at].process {
            process.inbox.push_back(input);
            self.agent_has_something(at, Duration::ZERO);
        }
    }

    /// A connection brings a message: the agent reads it when it has nothing else to do.
    pub fn agent_receives(&mut self, at: usize, input: Input) {
        if let Some(process) = &mut self.machines[at].process {
            process.socket.push_back(input);
            self.agent_has_something(at, Duration::ZERO);
        }
    }

    fn agent_has_something(&mut self, at: usize, after: Duration) {
        let machine = &mut self.machines[at];
        let life = machine.life;
        let Some(process) = &mut machine.process else { return };
        if std::mem::replace(&mut process.turn_due, true) {
            return;
        }
        let due = (self.now + after).max(machine.frozen_until);
        self.at(due, Event::AgentTurn(at, life));
    }

    /// A turn of the agent's loop: some inputs, their effects, one sync.
    pub fn agent_turn(&mut self, at: usize, life: u64) {
        if self.machines[at].life != life {
            return;
        }
        if self.now < self.machines[at].frozen_until {
            let due = self.machines[at].frozen_until;
            return self.at(due, Event::AgentTurn(at, life));
        }
        let now = self.now;
        if let Some(process) = &mut self.machines[at].process {
            process.turn_due = false;
        }
        for _ in 0..INPUTS_PER_TURN {
            let Some(process) = &mut self.machines[at].process else { return };
            let Some(input) = process.next_input() else { break };
            let since_start = MonoTime(now.since(process.started));
            match &input {
                Input::Received(Down::Welcome(welcome)) => process.greeted = welcome.epoch,
                Input::Room(found) => process.found_no_room = found.is_err(),
                _ => {}
            }
            process.agent.handle(since_start, input);
            while let Some(effect) = self.machines[at].process.as_mut().and_then(|p| p.agent.poll_effect()) {
                if self.agent_fuse_blows(at) {
                    self.agent_says(at);
                    return self.agent_ends(at, false);
                }
                self.agent_effect(at, effect);
            }
        }
        self.agent_says(at);
        self.agent_syncs(at);
        self.agent_timer(at);
        let more = self.machines[at].process.as_ref().is_some_and(Process::has_more);
        if more {
            let disk = self.dice.disks.millis(0, 4);
            self.agent_has_something(at, disk);
        }
    }

    fn agent_fuse_blows(&mut self, at: usize) -> bool {
        let Some(process) = &mut self.machines[at].process else { return false };
        match &mut process.fuse {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn agent_timer(&mut self, at: usize) {
        let now = self.now;
        let Some(process) = &mut self.machines[at].process else { return };
        process.timer += 1;
        let timer = process.timer;
        if let Some((due, _)) = process.agent.poll_timeout() {
            let due = (process.started + due.0).max(now);
            let life = self.machines[at].life;
            self.at(due, Event::AgentWakes(at, life, timer));
        }
    }

    /// The time of its timer has come.
    pub fn agent_wakes(&mut self, at: usize, life: u64, timer: u64) {
        let machine = &self.machines[at];
        if machine.life == life && machine.process.as_ref().is_some_and(|process| process.timer == timer) {
            self.tell_agent(at, Input::Timeout);
        }
    }

    fn agent_says(&mut self, at: usize) {
        let Some(process) = &mut self.machines[at].process else { return };
        let said = std::mem::take(&mut process.said);
        if let (Some(line), false) = (process.line, said.is_empty()) {
            self.post_up(line, &said);
        }
    }

    fn agent_syncs(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let Some(process) = &mut machine.process else { return };
        if process.written.is_empty() {
            return;
        }
        let full = machine.disk.full;
        if !full {
            machine.disk.sync();
        }
        let is_written = !full && process.written.iter().all(|(_, result)| result.is_ok());
        let ended = std::mem::take(&mut process.ended);
        if full {
            process.inbox.push_back(Input::Room(Err("no space left on device".into())));
        }
        for (write, result) in process.written.drain(..) {
            let result = result.and(if full { Err("no space left on device".to_owned()) } else { Ok(()) });
            process.inbox.push_back(match result {
                Ok(()) => Input::Written(write),
                Err(reason) => Input::WriteFailed { write, reason },
            });
        }
        for entry in ended.iter().filter(|_| is_written) {
            self.script_is_forgotten(at, entry);
        }
    }
}
