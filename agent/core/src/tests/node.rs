use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_shared::join::JoinToken;
use muster_shared::model::flow::Bridge;
use muster_shared::model::{
    Action, Claim, Content, ContentDigest, Down, Dummy, File, Job, Observed, OnDelete, Outcome, Report,
    ReportKey, Spec, Up, Welcome,
};
use muster_shared::{Attempt, Epoch, EpochId, Generation, MonoTime, ResourceId};
use uuid::Uuid;

use crate::{
    Agent, Before, Config, ContentState, ContentStep, Effect, Entry, FlowEffect, Found, Input, Loaded, Look,
    Looked, Retry, RunError, WriteId,
};

pub const HEARTBEAT: Duration = Duration::from_secs(30);
/// Stands for the random bytes of a challenge.
pub const CHALLENGE: &[u8] = b"fresh";
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A node: the machine, its disk, and what is under way.
pub struct Node {
    pub agent: Agent,
    pub now: MonoTime,
    pub disk: BTreeMap<ResourceId, Entry>,
    pub epoch: EpochId,
    /// Writes that wait for the disk, in order.
    pub writes: VecDeque<(WriteId, Option<Entry>, Option<EpochId>)>,
    /// Writes are answered at once.
    pub disk_is_quick: bool,
    /// Messages of the controller wait to be read.
    pub more_arrives: bool,
    /// Captures for resources that make their own thing.
    pub own: Vec<ResourceId>,
    pub captures: Vec<(ReportKey, Vec<Before>)>,
    /// The records that others had back when a job ran.
    pub theirs: Vec<Vec<Before>>,
    pub runs: Vec<(Job, Option<Before>)>,
    /// Answered at once.
    pub guards_are_quick: bool,
    pub guards: Vec<Job>,
    /// The requested restores.
    pub restores: Vec<(ReportKey, Before)>,
    pub fallbacks: Vec<ReportKey>,
    pub checks: Vec<Job>,
    pub contents: Vec<(ContentDigest, ContentStep)>,
    /// The looks that are not answered, by number.
    pub looks: Vec<(u64, Vec<Look>)>,
    /// Looks for room that are not answered.
    pub looks_for_room: usize,
    /// Facts asked of the host.
    pub gathers: usize,
    /// Surveys asked of the host, each with what is held.
    pub surveys: Vec<BTreeSet<Claim>>,
    /// The resources that the host watches.
    pub watched: BTreeSet<ResourceId>,
    pub sent: Vec<Up>,
    /// Work on flow tables that is not answered.
    pub flows: VecDeque<(Bridge, FlowEffect)>,
    /// The outcomes of documents given on the server.
    pub locals: Vec<Outcome>,
    pub warnings: Vec<String>,
    pub connects: usize,
    pub disconnects: Vec<String>,
    pub cancelled: Vec<ReportKey>,
    /// Joins of other sites that are not answered.
    pub joins: Vec<(u64, JoinToken)>,
    /// Changes to another site that are not answered.
    pub changes: Vec<u64>,
}

pub fn id(n: u128) -> ResourceId {
    ResourceId(Uuid::from_u128(n))
}

pub fn generation(number: u64) -> Generation {
    Generation { epoch: Epoch(1), number }
}

pub fn key(n: u128, number: u64, attempt: u32) -> ReportKey {
    ReportKey { resource: id(n), generation: generation(number), attempt: Attempt(attempt) }
}

pub fn dummy(value: &str) -> Spec {
    let values = [("a".to_owned(), value.to_owned())].into_iter().collect();
    Spec::Dummy(Dummy { values, ..Dummy::default() })
}

pub fn file(path: &str, content: Content) -> Spec {
    Spec::File(File {
        path: path.into(),
        content,
        mode: 0o644,
        owner: None,
        group: None,
        on_delete: OnDelete::Restore,
    })
}

pub fn plain(path: &str) -> Spec {
    file(path, Content::Inline(b"content".to_vec()))
}

/// Resource `n`'s job of generation `number`.
pub fn job(n: u128, number: u64, action: Action, spec: Spec) -> Job {
    Job {
        resource: id(n),
        generation: generation(number),
        attempt: Attempt(0),
        action,
        timeout: TIMEOUT,
        spec,
    }
}

pub fn create(n: u128, number: u64) -> Job {
    job(n, number, Action::Create, dummy("1"))
}

pub fn again(job: &Job, attempt: u32) -> Job {
    Job { attempt: Attempt(attempt), ..job.clone() }
}

pub fn failed(reason: &str) -> RunError {
    RunError { reason: reason.into(), retry: Retry::Later }
}

impl Node {
    /// Started; not connected.
    pub fn offline(entries: Vec<Entry>, epoch: EpochId) -> Self {
        Self::started(entries, epoch, true)
    }

    /// The same, with flow tables.
    pub fn with_flows(entries: Vec<Entry>, tables: Vec<Loaded>) -> Self {
        Self::started_with(entries, Epoch(1).into(), true, tables)
    }

    fn started(entries: Vec<Entry>, epoch: EpochId, is_quick: bool) -> Self {
        Self::started_with(entries, epoch, is_quick, Vec::new())
    }

    fn started_with(entries: Vec<Entry>, epoch: EpochId, is_quick: bool, tables: Vec<Loaded>) -> Self {
        let config = Config { seed: 7, boot_id: 9, instance: 8, agent_version: "1.2.3".into() };
        let disk = entries.iter().map(|entry| (entry.resource, entry.clone())).collect();
        let mut bed = Self {
            agent: Agent::new(config, entries, epoch).with_flows(tables),
            now: MonoTime::default(),
            disk,
            epoch,
            writes: VecDeque::new(),
            disk_is_quick: is_quick,
            more_arrives: false,
            own: Vec::new(),
            captures: Vec::new(),
            theirs: Vec::new(),
            runs: Vec::new(),
            guards_are_quick: is_quick,
            guards: Vec::new(),
            restores: Vec::new(),
            fallbacks: Vec::new(),
            checks: Vec::new(),
            contents: Vec::new(),
            looks: Vec::new(),
            looks_for_room: 0,
            gathers: 0,
            surveys: Vec::new(),
            watched: BTreeSet::new(),
            sent: Vec::new(),
            flows: VecDeque::new(),
            locals: Vec::new(),
            warnings: Vec::new(),
            connects: 0,
            disconnects: Vec::new(),
            cancelled: Vec::new(),
            joins: Vec::new(),
            changes: Vec::new(),
        };
        bed.input(Input::Start);
        bed
    }

    /// Started, connected and welcomed; nothing sent so far is remembered.
    pub fn online() -> Self {
        let mut bed = Self::offline(Vec::new(), Epoch(1).into());
        bed.greet();
        bed.sent.clear();
        bed
    }

    pub fn greet(&mut self) {
        self.input(Input::Connected);
        self.down(welcome(1, false));
    }

    /// The old connection is closed, the new one stands.
    pub fn reconnect(&mut self) {
        self.input(Input::Disconnected { reason: "closed by this side".into() });
        self.input(Input::Timeout);
        self.greet();
    }

    /// The resource that took over what resource `n` held, as the disk says.
    pub fn taker(&self, n: u128) -> Option<ResourceId> {
        let takers = self.disk.values().filter(|entry| entry.exists() && entry.is_over(&self.disk[&id(n)]));
        takers.max_by_key(|entry| entry.holding.as_ref().map(|it| it.since)).map(|entry| entry.resource)
    }

    /// As after kill -9: what is on disk is all there is.
    pub fn crash(self) -> Self {
        Self::offline(self.disk.into_values().collect(), self.epoch)
    }

    /// The same; disk and host answer when they are asked to.
    pub fn crash_slow(self) -> Self {
        Self::started(self.disk.into_values().collect(), self.epoch, false)
    }

    pub fn down(&mut self, down: Down) {
        self.input(Input::Received(down));
    }

    pub fn job(&mut self, job: &Job) {
        self.down(Down::Job(job.clone()));
    }

    pub fn after(&mut self, time: Duration) {
        self.now = self.now + time;
        self.input(Input::Timeout);
    }

    pub fn input(&mut self, input: Input) {
        self.agent.handle(self.now, input);
        self.drain();
        if !self.more_arrives {
            self.agent.handle(self.now, Input::CaughtUp);
            self.drain();
        }
    }

    /// The running job of resource `n` ends.
    pub fn ran(&mut self, n: u128, outcome: Result<(), RunError>) {
        let place = self.runs.iter().position(|(job, ..)| job.resource == id(n)).expect("it runs");
        let (job, ..) = self.runs.remove(place);
        let outcome = outcome.map(|()| Observed::default());
        self.input(Input::Ran { key: job.key(), outcome, before: None, touched: false });
    }

    /// The host has read what resource `n`'s job may touch.
    pub fn guarded(&mut self, n: u128, undo: &str) {
        let place = self.guards.iter().position(|job| job.resource == id(n)).expect("it is guarded");
        let key = self.guards.remove(place).key();
        let undo = Ok(Before::new(undo.as_bytes().to_vec()));
        self.input(Input::Guarded { key, undo, challenge: CHALLENGE.to_vec() });
    }

    /// The running job of resource `n` has changed something.
    pub fn touched(&mut self, n: u128, outcome: Result<(), RunError>) {
        let place = self.runs.iter().position(|(job, ..)| job.resource == id(n)).expect("it runs");
        let (job, ..) = self.runs.remove(place);
        let outcome = outcome.map(|()| Observed::default());
        self.input(Input::Ran { key: job.key(), outcome, before: None, touched: true });
    }

    /// Answers the latest request to restore.
    pub fn restored(&mut self, result: Result<(), &str>) {
        let (key, _) = self.restores.pop().expect("something is restored");
        self.input(Input::Restored { key, result: result.map_err(str::to_owned) });
    }

    /// The running job of resource `n` fails half way, cannot be undone, and its fallback is in force.
    pub fn falls_back(&mut self, n: u128) {
        self.touched(n, Err(failed("it differs after all")));
        for wait in [1, 2, 4, 8, 0] {
            self.restored(Err("the switch is not running"));
            self.after(Duration::from_secs(wait));
        }
        let key = self.fallbacks.pop().expect("it falls back");
        self.input(Input::Restored { key, result: Ok(()) });
        self.reconnect();
    }

    /// The check of resource `n` has an answer.
    pub fn checked(&mut self, n: u128, found: Found) {
        let place = self.checks.iter().position(|job| job.resource == id(n)).expect("it is checked");
        let key = self.checks.remove(place).key();
        self.input(Input::Checked { key, found: Ok(found) });
    }

    /// The oldest look finds all of its resources so.
    pub fn looked(&mut self, found: Result<Found, RunError>) {
        let (number, looks) = self.looks.remove(0);
        let looked = looks.into_iter().map(|look| Looked {
            resource: look.resource,
            generation: look.generation,
            found: found.clone(),
        });
        let looked = looked.collect();
        self.input(Input::Looked { number, looked });
    }

    /// Answers with the state before resource `n`.
    pub fn captured(&mut self, n: u128, before: Result<&str, RunError>) {
        let place = self.captures.iter().position(|(key, _)| key.resource == id(n)).expect("it captures");
        let (key, _) = self.captures.remove(place);
        let before = before.map(|text| Before::new(text.as_bytes().to_vec()));
        self.input(Input::Captured { key, before });
    }

    pub fn content(&mut self, digest: ContentDigest, state: ContentState) {
        self.input(Input::Content { digest, state: Ok(state) });
    }

    /// The disk takes the oldest write that waits.
    pub fn write_one(&mut self) {
        if let Some((write, entry, epoch)) = self.writes.pop_front() {
            self.epoch = epoch.unwrap_or(self.epoch);
            if let Some(entry) = entry {
                self.disk.insert(entry.resource, entry);
            }
            self.input(Input::Written(write));
        }
    }

    /// The disk refuses it.
    pub fn fail_one(&mut self) {
        if let Some((write, ..)) = self.writes.pop_front() {
            self.input(Input::WriteFailed { write, reason: "disk full".into() });
        }
    }

    /// Reports sent since the last call.
    pub fn reports(&mut self) -> Vec<Report> {
        let sent = std::mem::take(&mut self.sent);
        sent.into_iter()
            .filter_map(|up| match up {
                Up::Report(report) => Some(report),
                _ => None,
            })
            .collect()
    }

    /// The only report sent since the last call.
    pub fn report(&mut self) -> Report {
        let mut reports = self.reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        reports.remove(0)
    }

    /// Runs a job of a file from acceptance to its report.
    pub fn apply_file(&mut self, job: &Job, before: &str) {
        self.job(job);
        let n = job.resource.0.as_u128();
        if !self.captures.is_empty() {
            self.captured(n, Ok(before));
        }
        self.ran(n, Ok(()));
        let key = job.key();
        assert_eq!(self.report(), Report { key, outcome: Outcome::Done(Observed::default()) });
        self.down(Down::Acknowledge(key));
    }

    /// Comes after the writes that still wait: what they would write is gone then.
    fn remove(&mut self, resource: ResourceId) {
        for (_, entry, _) in &mut self.writes {
            entry.take_if(|entry| entry.resource == resource);
        }
        self.disk.remove(&resource);
    }

    fn drain(&mut self) {
        let mut guarded = Vec::new();
        while let Some(effect) = self.agent.poll_effect() {
            match effect {
                Effect::Connect => self.connects += 1,
                Effect::Disconnect { reason } => self.disconnects.push(reason),
                Effect::Send(up) => self.sent.push(up),
                Effect::Write { write, entry } => {
                    self.writes.push_back((write, Some(*entry), None));
                }
                Effect::WriteEpoch { write, epoch } => self.writes.push_back((write, None, Some(epoch))),
                Effect::Remove(resource) => self.remove(resource),
                Effect::Capture { key, known, own, .. } => {
                    self.captures.push((key, known));
                    self.own.extend(own.then_some(key.resource));
                }
                Effect::Run { job, before, theirs } => {
                    self.theirs.push(theirs);
                    self.runs.push((*job, before));
                }
                Effect::Guard { job, .. } => guarded.push(*job),
                Effect::Restore { key, undo } => self.restores.push((key, undo)),
                Effect::Fallback { key, .. } => self.fallbacks.push(key),
                Effect::Check { job, .. } => self.checks.push(*job),
                Effect::Cancel(key) => {
                    self.runs.retain(|(job, ..)| job.key() != key);
                    self.checks.retain(|job| job.key() != key);
                    self.captures.retain(|(captured, _)| *captured != key);
                    self.guards.retain(|job| job.key() != key);
                    self.restores.retain(|(restored, _)| *restored != key);
                    self.fallbacks.retain(|fallback| *fallback != key);
                    self.cancelled.push(key);
                }
                Effect::Content { digest, step } => self.contents.push((digest, step)),
                Effect::Look { number, looks } => self.looks.push((number, looks)),
                Effect::FindRoom => self.looks_for_room += 1,
                Effect::Gather => self.gathers += 1,
                Effect::Survey { held } => self.surveys.push(held),
                Effect::Watch { resource, spec } => {
                    match spec {
                        Some(_) => self.watched.insert(resource),
                        None => self.watched.remove(&resource),
                    };
                }
                Effect::KeepContents(_) => {}
                Effect::Flow { device, effect } => self.flows.push_back((device, effect)),
                Effect::Join { number, token } => self.joins.push((number, *token)),
                Effect::ChangeSite { number } => self.changes.push(number),
                Effect::LocalEnded(outcome) => self.locals.push(outcome),
                Effect::Warn(warning) => self.warnings.push(warning),
            }
        }
        for job in guarded {
            let n = job.resource.0.as_u128();
            self.guards.push(job);
            if self.guards_are_quick {
                self.guarded(n, "as it was");
            }
        }
        if self.disk_is_quick && !self.writes.is_empty() {
            self.write_one();
        }
    }
}

pub fn welcome(epoch: u32, want_ledger: bool) -> Down {
    Down::Welcome(Welcome { epoch: Epoch(epoch).into(), want_ledger, heartbeat: HEARTBEAT, reads: 0 })
}

pub fn done() -> Outcome {
    Outcome::Done(Observed::default())
}
