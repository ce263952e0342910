//! A server and its agent: the real machine of `muster-agent-core`, a disk that forgets what was not synced, and the
//! fake host.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use muster_agent_core::{
    Agent, Before, Config, ContentState, ContentStep, Effect, Entry, Found, Input, RunError, WriteId,
};
use muster_shared::model::{Action, Claim, ContentDigest, Job, Observed, Outcome, ReportKey, Spec, Up};
use muster_shared::seal::{Seal, SealPublic};
use muster_shared::{Epoch, MonoTime, NodeId, ResourceId};

use super::dice::Dice;
use super::fault::Kind;
use super::host::Host;
use super::world::{Event, World, is_kept};

/// Inputs in one turn, as in the real agent.
const INPUTS_PER_TURN: usize = 32;

/// A server.
pub struct Machine {
    /// The name it has joined under.
    pub name: NodeId,
    /// Its end of the seal.
    pub seal: Rc<Seal>,
    /// Its key.
    pub key: SealPublic,
    /// It has been told that it is a node.
    pub joined: bool,
    /// It has been replaced, or cut off for ever.
    pub scrapped: bool,
    /// Its agent, while one runs.
    pub process: Option<Process>,
    /// Counts agents' starts: what is for an earlier one is nobody's.
    pub life: u64,
    /// What is on its disk.
    pub disk: Disk,
    /// What Muster configures.
    pub host: Host,
    /// Cannot be reached before this.
    pub cut_off_until: MonoTime,
    /// Stands still until then.
    pub frozen_until: MonoTime,
    boot: u128,
}

/// The state directory.
#[derive(Default)]
pub struct Disk {
    entries: BTreeMap<ResourceId, Entry>,
    /// As they were when last synced, of those that were written since.
    unsynced: BTreeMap<ResourceId, Option<Entry>>,
    epoch: Epoch,
    epoch_synced: Epoch,
    contents: BTreeMap<ContentDigest, Vec<u8>>,
    /// Nothing can be written.
    pub full: bool,
}

/// A running agent.
pub struct Process {
    /// The machine under test.
    pub agent: Agent,
    started: MonoTime,
    inbox: VecDeque<Input>,
    written: Vec<(WriteId, Result<(), String>)>,
    said: Vec<Up>,
    /// The connection it knows of.
    pub line: Option<u64>,
    /// It is connecting.
    pub connecting: bool,
    turn_due: bool,
    timer: u64,
    runs: BTreeMap<ReportKey, Run>,
    checks: BTreeMap<ReportKey, Job>,
    /// Ends after so many effects.
    pub fuse: Option<u32>,
}

/// What a job will come to on this host.
#[derive(Clone)]
struct Run {
    job: Job,
    before: Option<Before>,
    theirs: Vec<Before>,
    fate: Fate,
    result: Option<Result<(Observed, Option<Before>), RunError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Works,
    Fails { permanent: bool },
    FailsLate,
    Hangs,
    Silent,
}

/// Host work that comes to its end.
#[derive(Clone, Debug)]
pub enum Work {
    /// What was there is read.
    Capture(ReportKey, Box<Spec>, Vec<Before>, bool),
    /// What is there is compared.
    Check(ReportKey),
    /// The change is made.
    Apply(ReportKey),
    /// It answers.
    Answer(ReportKey),
    /// A content is compared with its digest.
    Verify(ContentDigest),
}

impl Machine {
    /// A server that has not joined yet.
    pub fn new(name: NodeId, seal: Rc<Seal>, key: SealPublic, host: Host) -> Self {
        Self {
            name,
            seal,
            key,
            joined: false,
            scrapped: false,
            process: None,
            life: 0,
            disk: Disk::default(),
            host,
            cut_off_until: MonoTime::default(),
            frozen_until: MonoTime::default(),
            boot: 1,
        }
    }

    /// What a resource made that the agent has forgotten since is as if it had always been there.
    fn forgets_retained(&mut self, taker: ResourceId, spec: &Spec) {
        for claim in spec.claims() {
            let made_by = self.host.made_by.get(&claim.key).copied().filter(|by| *by != taker);
            // One that holds it, or hands it over, knows what was there before Muster, and so does one that takes it
            // again.
            let known = |entry: &Entry| {
                let holds = entry.exists() && entry.claims.contains(&claim);
                holds && (entry.resource == taker || entry.handed_over.is_none_or(|to| to == taker))
            };
            if self.disk.entries.values().any(known) {
                continue;
            }
            if let Some(by) = made_by.filter(|by| !self.holds(*by)) {
                self.host.retains(by, &claim.key);
            }
        }
    }

    /// What a resource holds, or held, as its agent has written down.
    pub fn held_by(&self, resource: ResourceId) -> Vec<Claim> {
        self.disk.entries.get(&resource).map(|entry| entry.claims.clone()).unwrap_or_default()
    }

    /// Whether its agent knows that something of a resource may be here.
    pub fn holds(&self, resource: ResourceId) -> bool {
        self.disk.entries.get(&resource).is_some_and(Entry::exists)
    }

    /// Whether its agent hears the controller.
    pub fn is_online(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.agent.is_online())
    }
}

impl Disk {
    fn write(&mut self, entry: Entry) {
        let old = self.entries.insert(entry.resource, entry.clone());
        self.unsynced.entry(entry.resource).or_insert(old);
    }

    fn remove(&mut self, resource: ResourceId) {
        let old = self.entries.remove(&resource);
        self.unsynced.entry(resource).or_insert(old);
    }

    fn sync(&mut self) {
        self.unsynced.clear();
        self.epoch_synced = self.epoch;
    }

    /// What was not synced is there or not, each for itself; contents are cut somewhere.
    fn power_cut(&mut self, dice: &mut Dice) {
        for (resource, old) in std::mem::take(&mut self.unsynced) {
            if dice.one_in(2) {
                match old {
                    Some(entry) => drop(self.entries.insert(resource, entry)),
                    None => drop(self.entries.remove(&resource)),
                }
            }
        }
        if dice.one_in(2) {
            self.epoch = self.epoch_synced;
        }
        self.epoch_synced = self.epoch;
        for content in self.contents.values_mut() {
            content.truncate(dice.index(content.len() + 1));
        }
    }

    /// Resources that are to put a thing back.
    pub fn holders(&self, thing: &str) -> impl Iterator<Item = ResourceId> {
        let holds = |entry: &&Entry| entry.exists() && entry.handed_over.is_none();
        let about = move |entry: &&Entry| entry.claims.iter().any(|claim| claim.key == *thing);
        self.entries.values().filter(holds).filter(about).map(|entry| entry.resource)
    }

    /// What a resource holds that others handed over to it, with those, as long as it has made something itself:
    /// it goes with the resource. Of one that has not, they have it back.
    fn given_up_to(&self, resource: ResourceId) -> Vec<(String, ResourceId)> {
        let holds = |entry: &&Entry| entry.applied.is_some() && entry.handed_over.is_none();
        let Some(holder) = self.entries.get(&resource).filter(holds) else { return Vec::new() };
        let next = |from: &ResourceId| self.entries.get(from)?.handed_over;
        let leads_here = |from: &Entry| {
            let mut chain = std::iter::successors(from.handed_over, next).take(self.entries.len());
            chain.any(|to| to == resource)
        };
        let givers = self.entries.values().filter(|entry| entry.exists() && leads_here(entry));
        givers
            .flat_map(|giver| giver.claims.iter().map(move |claim| (claim, giver.resource)))
            .filter(|(claim, _)| holder.claims.contains(claim))
            .map(|(claim, giver)| (claim.key.clone(), giver))
            .collect()
    }

    /// Whether this is the end of a job that leaves what there is.
    fn ends_retained(&self, entry: &Entry) -> bool {
        let job = self.entries.get(&entry.resource).and_then(|old| old.current.as_ref()).map(|a| &a.job);
        let last = entry.last.as_ref().filter(|last| matches!(last.outcome, Outcome::Done(_)));
        job.filter(|job| last.is_some_and(|last| last.key == job.key())).is_some_and(|job| match job.action {
            Action::Retain => true,
            Action::Delete => is_kept(&job.spec),
            Action::Create | Action::Update | Action::Check => false,
        })
    }

    /// Entries, as an agent that starts reads them.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}

impl World {
    /// Its agent starts.
    pub fn agent_starts(&mut self, at: usize) {
        let seed = self.dice.agents.number();
        let now = self.now;
        let machine = &mut self.machines[at];
        if machine.process.is_some() || machine.scrapped || !machine.joined {
            return;
        }
        machine.life += 1;
        let config = Config { seed, boot_id: machine.boot, agent_version: "1.0.0".into() };
        let entries = machine.disk.entries.values().cloned().collect();
        machine.process = Some(Process {
            agent: Agent::new(config, entries, machine.disk.epoch),
            started: now,
            inbox: VecDeque::from([Input::Start]),
            written: Vec::new(),
            said: Vec::new(),
            line: None,
            connecting: false,
            turn_due: false,
            timer: 0,
            runs: BTreeMap::new(),
            checks: BTreeMap::new(),
            fuse: None,
        });
        self.note(|world| format!("{} agent starts", world.machines[at].name));
        self.agent_has_something(at, Duration::ZERO);
    }

    /// Its agent ends, wherever it is; with a power cut the whole server.
    pub fn agent_ends(&mut self, at: usize, power_cut: bool) {
        let machine = &mut self.machines[at];
        let Some(process) = machine.process.take() else { return };
        machine.life += 1;
        if power_cut {
            machine.disk.power_cut(&mut self.dice.disks);
            machine.boot += 1;
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

    /// One turn of the agent's loop: some inputs, their effects, one sync.
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
            let Some(input) = process.inbox.pop_front() else { break };
            let since_start = MonoTime(now.since(process.started));
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
        let more = self.machines[at].process.as_ref().is_some_and(|process| !process.inbox.is_empty());
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
        for (write, result) in process.written.drain(..) {
            let result = result.and(if full { Err("no space left on device".to_owned()) } else { Ok(()) });
            process.inbox.push_back(match result {
                Ok(()) => Input::Written(write),
                Err(reason) => Input::WriteFailed { write, reason },
            });
        }
    }

    fn agent_effect(&mut self, at: usize, effect: Effect) {
        self.note(|world| format!("{} {}", world.machines[at].name, shown(&effect)));
        if let Some(what) = counted(&effect) {
            self.shared.borrow_mut().counts.add(what);
        }
        match effect {
            Effect::Connect => self.agent_connects(at),
            Effect::Disconnect { .. } => {
                let line = self.machines[at].process.as_mut().and_then(|process| process.line.take());
                if let Some(line) = line {
                    let notice = self.dice.net.millis(1, 100);
                    self.line_ends(line, None, Some(notice));
                }
                self.tell_agent(at, Input::Disconnected);
            }
            Effect::Send(up) => {
                if let Some(process) = &mut self.machines[at].process {
                    process.said.push(up);
                }
            }
            Effect::Write { write, entry } => {
                // A disk that is full may have taken it all the same.
                let taken = !self.machines[at].disk.full || self.dice.disks.one_in(4);
                if taken {
                    let disk = &mut self.machines[at].disk;
                    if disk.ends_retained(&entry) {
                        // Its agent does not know it any more, whatever is asked of it next.
                        self.retained.push(entry.resource);
                        let held = disk.given_up_to(entry.resource);
                        self.machines[at].host.falls_to(entry.resource, &held);
                    }
                    self.machines[at].disk.write(*entry);
                }
                self.written(at, write, taken);
            }
            Effect::Remove(resource) => self.machines[at].disk.remove(resource),
            Effect::WriteEpoch { write, epoch } => {
                let taken = !self.machines[at].disk.full;
                if taken {
                    self.machines[at].disk.epoch = epoch;
                }
                self.written(at, write, taken);
            }
            Effect::Capture { key, spec, known, own } => {
                let after = self.dice.hosts.millis(0, 20);
                self.work_later(at, after, Work::Capture(key, Box::new(spec), known, own));
            }
            Effect::Run { job, before, theirs } => self.job_begins(at, *job, before, theirs),
            Effect::Check { job, .. } => {
                let after = self.dice.hosts.millis(0, 200);
                if let Some(process) = &mut self.machines[at].process {
                    process.checks.insert(job.key(), *job.clone());
                }
                self.work_later(at, after, Work::Check(job.key()));
            }
            Effect::Cancel(key) => {
                if let Some(process) = &mut self.machines[at].process {
                    process.runs.remove(&key);
                    process.checks.remove(&key);
                }
                self.job_ended(at, key);
            }
            Effect::Content { digest, step } => self.content(at, digest, step),
            Effect::KeepContents(kept) => {
                self.machines[at].disk.contents.retain(|digest, _| kept.contains(digest));
            }
            Effect::Warn(_) => {}
        }
    }

    fn written(&mut self, at: usize, write: WriteId, taken: bool) {
        let result = if taken { Ok(()) } else { Err("no space left on device".to_owned()) };
        if let Some(process) = &mut self.machines[at].process {
            process.written.push((write, result));
        }
    }

    fn work_later(&mut self, at: usize, after: Duration, work: Work) {
        let life = self.machines[at].life;
        self.later(after, Event::HostWork(at, life, work));
    }

    fn job_begins(&mut self, at: usize, job: Job, before: Option<Before>, theirs: Vec<Before>) {
        let key = job.key();
        // What others have back is left alone.
        let own = before.as_ref().map(|before| Host::without(before, &theirs));
        let wrong = self.job_must_not_begin(at, &job, own.as_ref()).or_else(|| self.forgets_needs(at, &job));
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        self.running.insert(job.resource, (at, key));
        let whom = format!("{} {:?} of {}", self.machines[at].name, job.action, job.resource);
        let mut strikes = |kind| self.faults.strikes(self.now, kind, &whom);
        let fate = if strikes(Kind::JobFails) {
            Fate::Fails { permanent: false }
        } else if strikes(Kind::JobRefused) {
            Fate::Fails { permanent: true }
        } else if strikes(Kind::JobFailsLate) {
            Fate::FailsLate
        } else if strikes(Kind::JobHangs) {
            Fate::Hangs
        } else if strikes(Kind::JobSilent) {
            Fate::Silent
        } else {
            Fate::Works
        };
        let slow = strikes(Kind::JobSlow);
        let mut takes = self.dice.hosts.millis(1, if slow { 60_000 } else { 300 });
        if let Spec::Dummy(dummy) = &job.spec {
            takes += Duration::from_millis(dummy.milliseconds);
        }
        if let Some(process) = &mut self.machines[at].process {
            process.runs.insert(key, Run { job, before, theirs, fate, result: None });
        }
        self.work_later(at, takes.mul_f64(0.7), Work::Apply(key));
        self.work_later(at, takes, Work::Answer(key));
    }

    /// The host's work comes to an end.
    pub fn host_works(&mut self, at: usize, life: u64, work: Work) {
        if self.machines[at].life != life {
            return;
        }
        if self.now < self.machines[at].frozen_until {
            let due = self.machines[at].frozen_until;
            return self.at(due, Event::HostWork(at, life, work));
        }
        match work {
            Work::Capture(key, spec, known, own) => {
                let whom = format!("{} {}", self.machines[at].name, key.resource);
                let before = if self.faults.strikes(self.now, Kind::CaptureFails, &whom) {
                    Err(RunError { reason: "input/output error".into(), permanent: false })
                } else {
                    self.machines[at].forgets_retained(key.resource, &spec);
                    Ok(self.machines[at].host.capture(&spec, &known, own))
                };
                self.tell_agent(at, Input::Captured { key, before });
            }
            Work::Check(key) => {
                let machine = &mut self.machines[at];
                let job = machine.process.as_mut().and_then(|process| process.checks.remove(&key));
                if let Some(job) = job {
                    let mut found = machine.host.check(&job);
                    let whom = format!("{} {}", machine.name, key.resource);
                    if self.faults.strikes(self.now, Kind::ForeignChange, &whom) {
                        found = Found::Differs { missing: false, reason: "somebody changes it".into() };
                    }
                    self.tell_agent(at, Input::Checked { key, found: Ok(found) });
                }
            }
            Work::Apply(key) => self.job_applies(at, key),
            Work::Answer(key) => self.job_answers(at, key),
            Work::Verify(digest) => {
                let contents = &mut self.machines[at].disk.contents;
                let right = contents.get(&digest).is_some_and(|bytes| ContentDigest::of(bytes) == digest);
                if !right {
                    contents.remove(&digest);
                }
                let state = if right { ContentState::Verified } else { ContentState::Corrupt };
                self.tell_agent(at, Input::Content { digest, state: Ok(state) });
            }
        }
    }

    fn job_applies(&mut self, at: usize, key: ReportKey) {
        let faults_on = self.faults.on;
        let machine = &mut self.machines[at];
        let Some(run) = machine.process.as_mut().and_then(|process| process.runs.get_mut(&key)) else {
            return;
        };
        if matches!(run.fate, Fate::Fails { .. } | Fate::Hangs) {
            return;
        }
        let before = run.before.as_ref().map(|before| Host::without(before, &run.theirs));
        let result = machine.host.run(&run.job, before.as_ref(), &machine.disk.contents, faults_on);
        let gone = result.is_ok() && run.job.action == Action::Delete;
        run.result = Some(result);
        if gone {
            self.taken_away(key.resource);
        }
    }

    fn job_answers(&mut self, at: usize, key: ReportKey) {
        let Some(process) = &mut self.machines[at].process else { return };
        let Some(run) = process.runs.get(&key) else { return };
        let error = |reason: &str, permanent| RunError { reason: reason.into(), permanent };
        let (outcome, before) = match (run.fate, run.result.clone()) {
            (Fate::Hangs | Fate::Silent, _) => return,
            (Fate::Works, Some(Ok((observed, before)))) => (Ok(observed), before),
            (Fate::Works, Some(Err(error))) => (Err(error), None),
            (Fate::FailsLate, _) => (Err(error("it differs after all", false)), None),
            (Fate::Fails { permanent }, _) => (Err(error("the host says no", permanent)), None),
            (Fate::Works, None) => (Err(error("nothing was done", false)), None),
        };
        process.runs.remove(&key);
        self.job_ended(at, key);
        self.tell_agent(at, Input::Ran { key, outcome, before });
    }

    fn job_ended(&mut self, at: usize, key: ReportKey) {
        if self.running.get(&key.resource) == Some(&(at, key)) {
            self.running.remove(&key.resource);
        }
    }

    fn content(&mut self, at: usize, digest: ContentDigest, step: ContentStep) {
        let disk = &mut self.machines[at].disk;
        let length = disk.contents.get(&digest).map_or(0, Vec::len) as u64;
        let state = match step {
            ContentStep::Find => Ok(ContentState::Have(length)),
            ContentStep::Append { .. } if disk.full => Err("no space left on device".to_owned()),
            ContentStep::Append { offset, bytes } => {
                let whom = format!("{} {digest}", self.machines[at].name);
                let damaged = self.faults.strikes(self.now, Kind::ContentDamaged, &whom);
                let content = self.machines[at].disk.contents.entry(digest).or_default();
                content.truncate(usize::try_from(offset).unwrap_or(usize::MAX));
                content.extend_from_slice(&bytes);
                if let (true, Some(last)) = (damaged, content.last_mut()) {
                    *last ^= 1;
                }
                Ok(ContentState::Have(content.len() as u64))
            }
            ContentStep::Verify => {
                let after = self.dice.disks.millis(0, 10);
                return self.work_later(at, after, Work::Verify(digest));
            }
            ContentStep::Drop => {
                disk.contents.remove(&digest);
                return;
            }
        };
        self.tell_agent(at, Input::Content { digest, state });
    }
}

fn shown(effect: &Effect) -> String {
    match effect {
        Effect::Write { write, entry } => format!("writes {} #{}", entry.resource, write.0),
        Effect::Run { job, .. } => {
            format!("runs {:?} {} {}.{}", job.action, job.resource, job.generation, job.attempt.0)
        }
        Effect::Send(Up::Report(report)) => {
            format!(
                "reports {} {}.{} {:?}",
                report.key.resource, report.key.generation, report.key.attempt.0, report.outcome
            )
        }
        Effect::Send(up) => format!("says {up:?}"),
        other => format!("{other:?}"),
    }
}

/// What of an effect is counted.
fn counted(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Run { job, .. } => format!("agent runs {:?}", job.action),
        Effect::Check { .. } => "agent checks".into(),
        Effect::Capture { known, .. } if known.is_empty() => "agent captures".into(),
        Effect::Capture { .. } => "agent captures what it takes over".into(),
        Effect::Cancel(_) => "agent cancels".into(),
        Effect::Remove(_) => "agent forgets".into(),
        Effect::Warn(_) => "agent warns".into(),
        Effect::WriteEpoch { .. } => "agent writes an epoch".into(),
        Effect::Disconnect { .. } => "agent disconnects".into(),
        Effect::Content { step: ContentStep::Verify, .. } => "agent has fetched".into(),
        Effect::Send(Up::Progress(_)) => "agent says progress".into(),
        Effect::Send(Up::Ledger { .. }) => "agent sends its ledger".into(),
        Effect::Send(Up::Report(report)) => format!(
            "outcome {}",
            match &report.outcome {
                Outcome::Done(_) => "done",
                Outcome::Failed { permanent: false, .. } => "failed",
                Outcome::Failed { permanent: true, .. } => "failed for good",
                Outcome::Withdrawn => "withdrawn",
                Outcome::Superseded { .. } => "superseded",
                Outcome::Differs { .. } => "differs",
            }
        ),
        _ => return None,
    })
}
