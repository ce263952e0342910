//! The agent's machine: passes each input and each message of the controller to the part that owns its subject,
//! and hands out effects. Decides itself what keeps a node from a move (`may_leave`), and what each heartbeat
//! repeats.
//!
//! Absent: whether a job is taken (`jobs/accept.rs`), and whether a controller is obeyed (`connection.rs`).

use std::sync::Arc;

use muster_shared::model::flow::Bridge;
use muster_shared::model::{ContentDigest, Down, Hello, Job, ReportKey, Up, Welcome};
use muster_shared::wire::READS;
use muster_shared::{EpochId, MonoTime};

use crate::connection::Connection;
use crate::disk_full::Disk;
use crate::effects::Effects;
use crate::face::{Config, Effect, Hint, Input, WriteId};
use crate::facts::FactsSchedule;
use crate::fetch::{Fetch, Settled};
use crate::flow::{self, Flows, Loaded, TableEntry};
use crate::jobs::tell::{self, Account};
use crate::jobs::{self, Jobs};
use crate::ledger::Entry;
use crate::moving::Moving;
use crate::ports::Ports;
use crate::reconnect::Due;
use crate::survey::Surveying;
use crate::watch::Watches;

/// The agent of one node.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    pub(crate) jobs: Jobs,
    connection: Connection,
    fetch: Fetch,
    watches: Watches,
    facts: FactsSchedule,
    flows: Flows,
    ports: Ports,
    account: Account,
    disk: Disk,
    moving: Moving,
    surveying: Surveying,
    /// The agent begins no new work.
    is_stopping: bool,
    effects: Effects,
    now: MonoTime,
}

impl Agent {
    /// Starts from the ledger and the highest epoch found on disk.
    pub fn new(config: Config, ledger: Vec<Entry>, epoch: EpochId) -> Self {
        let seed = config.seed;
        Self {
            config,
            jobs: Jobs::new(ledger),
            connection: Connection::new(seed, epoch),
            fetch: Fetch::default(),
            watches: Watches::new(seed),
            facts: FactsSchedule::new(seed),
            flows: Flows::new(seed),
            ports: Ports::default(),
            account: Account::default(),
            disk: Disk::default(),
            moving: Moving::default(),
            surveying: Surveying::default(),
            is_stopping: false,
            effects: Effects::default(),
            now: MonoTime::default(),
        }
    }

    /// Loads the flow tables from their logs on disk; call this before [`Input::Start`].
    #[must_use]
    pub fn with_flows(mut self, tables: Vec<Loaded>) -> Self {
        self.flows.load(tables);
        self
    }

    pub fn handle(&mut self, now: MonoTime, input: Input) {
        self.now = now;
        let caught_up = input == Input::CaughtUp;
        match input {
            Input::Start => self.start(),
            Input::Connected => self.connected(),
            Input::Disconnected { reason } => self.disconnected(reason),
            Input::Received(down) => self.received(down),
            Input::Written(write) => self.written(write, None),
            Input::WriteFailed { write, reason } => self.written(write, Some(reason)),
            Input::Captured { key, before } => self.on_jobs(|jobs, turn| jobs.captured(key, before, turn)),
            Input::Guarded { key, undo, challenge } => {
                self.on_jobs(|jobs, turn| jobs.guarded(key, undo, challenge, turn));
            }
            Input::Ran { key, outcome, before, touched } => {
                self.on_jobs(|jobs, turn| jobs.ran(key, outcome, before, touched, turn));
            }
            Input::Restored { key, result } => self.on_jobs(|jobs, turn| jobs.restored(key, result, turn)),
            Input::Stop => self.stop(),
            Input::Checked { key, found } => self.on_jobs(|jobs, turn| jobs.checked(key, found, turn)),
            Input::Content { digest, state } => {
                let settled = self.fetch.content(digest, state, now, &mut self.effects);
                self.settled(settled);
            }
            Input::Hint(hint) => {
                if hint != Hint::Neighbours {
                    self.watches.network_hint(now);
                }
                if hint != Hint::Other {
                    self.facts.hint(now);
                }
            }
            Input::Changed(resources) => self.watches.changed(now, &resources, &self.jobs.ledger),
            Input::Looked { number, looked } => {
                self.watches.looked(now, number, looked, &self.jobs.ledger, &mut self.effects);
            }
            Input::Gathered(facts) => {
                self.facts.gathered(now, facts, self.connection.is_open(), &mut self.effects);
            }
            Input::Room(found) => self.room(found),
            Input::Flow { device, input } => self.on_flows(|flows, turn| flows.input(&device, input, turn)),
            Input::Ports(devices) => devices.into_iter().for_each(|device| self.ports.take(now, device)),
            Input::Local { config, timeout, after } => {
                self.on_jobs(|jobs, turn| jobs.local(config, timeout, after, turn));
            }
            Input::Joined { number, joined } => {
                let may_leave = self.may_leave();
                self.moving.joined(number, joined, may_leave, &mut self.effects);
            }
            Input::SiteChanged(changed) => self.moving.changed(changed, &mut self.effects),
            Input::Surveyed(survey) => self.surveying.surveyed(survey, &mut self.effects),
            Input::CaughtUp | Input::Timeout => {}
        }
        self.timeouts();
        self.on_jobs(Jobs::begin_restoring);
        if caught_up {
            self.on_jobs(Jobs::begin_all);
        }
        self.on_flows(Flows::advance);
        self.tell_news();
    }

    /// Runs after every input: sends news to the controller, and tells the host what to watch.
    fn tell_news(&mut self) {
        let (now, is_open) = (self.now, self.connection.is_open());
        let is_running = |lane| self.jobs.changes(lane);
        self.watches.look_if_due(now, is_open, is_running, &self.jobs.ledger, &mut self.effects);
        self.watches.watch_applied(&mut self.jobs.ledger, &mut self.effects);
        if is_open {
            self.facts.gather(now, &mut self.effects);
        }
        if is_open && !self.is_stopping {
            self.ports.tell(now, &mut self.effects);
        }
        self.account.tell_if_due(now, is_open, &self.jobs, &mut self.effects);
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop()
    }

    /// When to send [`Input::Timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let (is_open, is_stopping) = (self.connection.is_open(), self.is_stopping);
        let jobs = self.jobs.run_timeout(is_open);
        let guard = self.jobs.guard_timeout(is_open, !is_stopping && !self.flows.guards());
        let own = [self.connection.timeout(), self.fetch.timeout(), jobs, guard];
        let told = [self.watches.timeout(&self.jobs.ledger), self.facts.timeout(), self.account.timeout()];
        let told = told.into_iter().filter(|_| is_open);
        let ports = self.ports.timeout().filter(|_| is_open && !is_stopping);
        let flows = self.flows.timeout(is_open, is_stopping);
        let rest = [flows, ports, self.disk.timeout()];
        own.into_iter().chain(told).chain(rest).flatten().min_by_key(|(at, _)| *at)
    }

    /// The entries, by resource.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.jobs.ledger.iter()
    }

    /// The desired entries of a device, each with its state.
    pub fn flow_table(&self, device: &Bridge) -> Option<Arc<Vec<TableEntry>>> {
        self.flows.table(device)
    }

    /// A change waits for confirmation, or a restore is under way.
    pub fn is_guarding(&self) -> bool {
        self.jobs.guards() || self.flows.guards()
    }

    /// Whether the entries on disk equal those in memory.
    pub fn is_on_disk(&self) -> bool {
        self.jobs.ledger.is_on_disk()
    }

    /// The highest epoch obeyed.
    pub fn epoch(&self) -> EpochId {
        self.connection.epoch()
    }

    /// The controller has been heard and accepted on this connection.
    pub fn is_online(&self) -> bool {
        self.connection.is_open()
    }

    fn start(&mut self) {
        let mut contents: Vec<ContentDigest> = self.jobs.ledger.iter().filter_map(Entry::content).collect();
        contents.sort_unstable();
        contents.dedup();
        self.effects.push(Effect::KeepContents(contents));
        self.on_jobs(Jobs::recover);
        self.on_flows(Flows::start);
    }

    /// Calls the flow tables with the parts of the agent that they use.
    fn on_flows<R>(&mut self, call: impl FnOnce(&mut Flows, &mut flow::Turn) -> R) -> R {
        let mut turn = flow::Turn {
            now: self.now,
            is_stopping: self.is_stopping,
            may_guard: self.jobs.let_flows_guard(),
            connection: &mut self.connection,
            fetch: &mut self.fetch,
            effects: &mut self.effects,
        };
        call(&mut self.flows, &mut turn)
    }

    /// Calls the jobs with the parts of the agent that they use.
    fn on_jobs<R>(&mut self, call: impl FnOnce(&mut Jobs, &mut jobs::Turn) -> R) -> R {
        let mut turn = jobs::Turn {
            now: self.now,
            is_stopping: self.is_stopping,
            flows_guard: self.flows.guards(),
            connection: &mut self.connection,
            fetch: &mut self.fetch,
            watches: &mut self.watches,
            disk: &self.disk,
            effects: &mut self.effects,
        };
        call(&mut self.jobs, &mut turn)
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.on_flows(Flows::stop);
        self.on_jobs(Jobs::stop_guarding);
    }

    fn connected(&mut self) {
        if self.connection.connected(self.now) {
            self.effects.send(Up::Hello(Hello {
                boot_id: self.config.boot_id,
                instance: Some(self.config.instance),
                address: None,
                agent_version: self.config.agent_version.clone(),
                reads: READS,
                epoch: self.connection.epoch(),
                ledger: self.jobs.ledger.digest(),
            }));
        }
    }

    /// Whether nothing of the present site is under way here.
    ///
    /// # Errors
    /// The reason why the node stays.
    fn may_leave(&self) -> Result<(), String> {
        if self.is_stopping {
            return Err("its agent is stopping".into());
        }
        if self.disk.is_full() {
            return Err("its disk has no room for what the agent records".into());
        }
        if let Some(device) = self.flows.in_use() {
            return Err(format!("the flow table of {device} is not empty"));
        }
        if self.is_guarding() || self.jobs.has_open() {
            return Err("a job, or a document that was given on the server, is under way there".into());
        }
        Ok(())
    }

    fn disconnected(&mut self, reason: String) {
        self.moving.disconnected(&mut self.effects);
        self.surveying.disconnected();
        if !self.connection.disconnected(self.now) {
            self.confirm_disconnected(reason);
        }
        let confirms = self.jobs.is_confirming() || self.flows.is_confirming();
        if confirms || self.connection.hurries(self.now) {
            self.connection.hasten(self.now);
        }
        self.fetch.set_online(false, self.now, &mut self.effects);
    }

    /// Tells changes that wait for confirmation that the connection is lost.
    fn confirm_disconnected(&mut self, reason: String) {
        self.jobs.disconnected(&reason);
        self.flows.disconnected(reason);
    }

    fn disconnect(&mut self, reason: String) {
        self.moving.disconnected(&mut self.effects);
        self.surveying.disconnected();
        self.connection.close(self.now);
        self.confirm_disconnected(reason.clone());
        self.fetch.set_online(false, self.now, &mut self.effects);
        self.effects.push(Effect::Disconnect { reason });
    }

    fn received(&mut self, down: Down) {
        match down {
            _ if self.moving.is_over() => {}
            Down::Welcome(welcome) if self.connection.listens() => self.welcome(welcome),
            _ if !self.connection.is_greeted() => {}
            Down::Welcome(_) => {}
            Down::Job(Job { resource, .. })
            | Down::Withdraw { resource, .. }
            | Down::Remove(ReportKey { resource, .. })
                if resource.is_local() =>
            {
                self.effects.warn(
                    "the controller gives jobs of this node's own document: a bug, please report it".into(),
                );
            }
            // The controller says this again once there is room.
            Down::Withdraw { .. } | Down::Flow(_) if self.connection.is_only_heard() => {}
            Down::Job(job) => {
                self.watches.unsay(self.now, job.resource, &self.jobs.ledger);
                self.on_jobs(|jobs, turn| jobs.job(job, turn));
            }
            Down::Withdraw { resource, generation } => {
                self.watches.unsay(self.now, resource, &self.jobs.ledger);
                self.on_jobs(|jobs, turn| jobs.withdraw(resource, generation, turn));
            }
            Down::Acknowledge(key) => self.on_jobs(|jobs, turn| jobs.acknowledge(key, turn)),
            Down::Answer { key, bytes } => {
                if !self.on_flows(|flows, turn| flows.answer(key, &bytes, turn)) {
                    self.on_jobs(|jobs, turn| jobs.answer(key, &bytes, turn));
                }
            }
            Down::Chunk { digest, offset, bytes } => {
                let settled = self.fetch.chunk(digest, offset, bytes, self.now, &mut self.effects);
                self.settled(settled);
            }
            Down::AskFacts => self.facts.ask(self.now),
            Down::AskDrift => self.watches.say_all_again(self.now),
            Down::Flow(flow) => self.on_flows(|flows, turn| flows.down(flow, turn)),
            Down::Describe(resources) => self.on_jobs(|jobs, turn| jobs.describe(&resources, turn)),
            Down::Move(token) => {
                let may_leave = self.may_leave();
                self.moving.ask(token, may_leave, &mut self.effects);
            }
            Down::Survey => self.surveying.ask(&self.jobs.ledger, &mut self.effects),
            // The link's own matter.
            Down::Controllers(_) => {}
            Down::Remove(key) => {
                self.watches.unsay(self.now, key.resource, &self.jobs.ledger);
                self.on_jobs(|jobs, turn| jobs.remove(key, turn));
            }
        }
    }

    fn welcome(&mut self, welcome: Welcome) {
        match self.connection.welcome(welcome, &mut self.jobs.ledger, &mut self.effects) {
            Ok(Some(welcome)) => self.welcomed(&welcome),
            Ok(None) => {}
            Err(reason) => self.disconnect(reason),
        }
    }

    fn welcomed(&mut self, welcome: &Welcome) {
        let now = self.now;
        self.connection.obey(now, welcome);
        if welcome.want_ledger {
            tell::tell_ledger(&self.jobs.ledger, &mut self.effects);
        }
        self.connection.report_again(&self.jobs.ledger, &mut self.effects);
        self.jobs.reached(now);
        self.flows.reached(now);
        self.watches.greeted(now, welcome.heartbeat);
        self.facts.greeted(now, welcome.reads);
        self.flows.greeted(welcome.reads);
        self.ports.greeted(now);
        self.account.tell(now, &self.jobs, &mut self.effects);
        self.tell_disk();
        self.fetch.set_online(true, now, &mut self.effects);
    }

    /// Tells a controller that listens that the disk is full. Until told, the controller assumes room.
    fn tell_disk(&mut self) {
        if self.connection.is_open() && self.disk.is_full() {
            self.effects.send(Up::DiskFull(self.disk.full().map(str::to_owned)));
        }
    }

    /// Handles a change of the room on the disk.
    fn room(&mut self, found: Result<(), String>) {
        let refused = found.as_ref().err().cloned();
        if !self.disk.found(self.now, found) {
            return;
        }
        if let Some(reason) = refused {
            self.effects.warn(format!("there is no room for what the agent records: {reason}"));
            // Records take precedence over contents that can be fetched again.
            self.fetch.drop_kept(&mut self.effects);
            return self.tell_disk();
        }
        if self.connection.is_open() {
            self.effects.send(Up::DiskFull(None));
        }
        self.jobs.ledger.write_refused(&mut self.effects);
        if self.connection.is_only_heard() {
            let why = "there is room again to record the controller's epoch";
            self.connection.reconnect(self.now, why, &mut self.fetch, &mut self.effects);
        }
    }

    fn written(&mut self, write: WriteId, failed: Option<String>) {
        if let Some(welcome) = self.connection.take_greeting(write) {
            return match failed {
                None => {
                    self.connection.recorded(welcome.epoch);
                    self.welcomed(&welcome);
                }
                Some(_) if self.disk.is_full() => {
                    self.connection.only_hear(self.now, &welcome);
                    self.tell_disk();
                }
                Some(reason) => self.disconnect(format!("cannot record the controller's epoch: {reason}")),
            };
        }
        self.on_jobs(|jobs, turn| jobs.written(write, failed, turn));
    }

    fn settled(&mut self, settled: Option<Settled>) {
        match settled {
            None => {}
            Some(Settled::Ready(users)) => users.into_iter().for_each(|user| {
                if !self.on_flows(|flows, turn| flows.settled(user, None, turn)) {
                    self.jobs.fetched(user);
                }
            }),
            Some(Settled::Failed { users, error }) => {
                for user in users {
                    let failed = Some(&*error.reason);
                    if !self.on_flows(|flows, turn| flows.settled(user, failed, turn)) {
                        self.on_jobs(|jobs, turn| jobs.not_fetched(user, &error, turn));
                    }
                }
            }
        }
    }

    fn timeouts(&mut self) {
        match self.connection.due(self.now) {
            Some(Due::Connect) if self.moving.is_over() => {}
            Some(Due::Connect) => self.effects.push(Effect::Connect),
            Some(Due::Heartbeat) => {
                self.effects.send(Up::Heartbeat { drift: Some(self.watches.digest()) });
                self.connection.report_again(&self.jobs.ledger, &mut self.effects);
                self.on_flows(Flows::heartbeat);
                self.jobs.ledger.write_refused(&mut self.effects);
            }
            Some(Due::NoWelcome) => {
                self.disconnect("the controller did not answer the greeting".into());
            }
            None => {}
        }
        self.fetch.pump(self.now, &mut self.effects);
        self.on_jobs(Jobs::run_timeouts);
        self.on_jobs(Jobs::guard_timeouts);
        self.disk.look(self.now, &mut self.effects);
    }
}
