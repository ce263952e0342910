//! The machine itself: takes inputs, hands each to the machine that owns what it is about, and hands out effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::model::flow::Bridge;
use muster_shared::model::{ContentDigest, Down, Hello, Job, Lane, ReportKey, Up, Welcome};
use muster_shared::wire::READS;
use muster_shared::{EpochId, MonoTime, ResourceId};

use crate::account::{self, Account, Jobs};
use crate::confirm::Guard;
use crate::connection::Connection;
use crate::disk::Disk;
use crate::effects::Effects;
use crate::face::{Config, Effect, Hint, Input, WriteId};
use crate::facts::Telling;
use crate::fetch::{Fetch, Settled};
use crate::flow::{Flows, Kept, Loaded, Turn};
use crate::lanes::Lanes;
use crate::ledger::{After, Entry, Ledger};
use crate::ports::Ports;
use crate::run::Run;
use crate::session::Due;
use crate::watch::Watches;

/// The agent of one node.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    pub(crate) ledger: Ledger,
    pub(crate) connection: Connection,
    pub(crate) lanes: Lanes,
    pub(crate) fetch: Fetch,
    pub(crate) watches: Watches,
    facts: Telling,
    pub(crate) flows: Flows,
    ports: Ports,
    account: Account,
    pub(crate) disk: Disk,
    /// Where each entry's `current` stands.
    pub(crate) runs: BTreeMap<ResourceId, Run>,
    /// The change that may cut the node off, or is being undone.
    pub(crate) guard: Option<Guard>,
    /// When to put back what could not be put back yet.
    pub(crate) restore_at: BTreeMap<ResourceId, MonoTime>,
    /// Nothing new begins.
    pub(crate) is_stopping: bool,
    pub(crate) effects: Effects,
    pub(crate) now: MonoTime,
}

impl Agent {
    /// With the ledger and the highest epoch as they were on disk.
    pub fn new(config: Config, ledger: Vec<Entry>, epoch: EpochId) -> Self {
        let seed = config.seed;
        Self {
            config,
            ledger: Ledger::new(ledger),
            connection: Connection::new(seed, epoch),
            lanes: Lanes::default(),
            fetch: Fetch::default(),
            watches: Watches::new(seed),
            facts: Telling::new(seed),
            flows: Flows::new(seed),
            ports: Ports::default(),
            account: Account::default(),
            disk: Disk::default(),
            runs: BTreeMap::new(),
            guard: None,
            restore_at: BTreeMap::new(),
            is_stopping: false,
            effects: Effects::default(),
            now: MonoTime::default(),
        }
    }

    /// With the flow tables as their logs were on disk; before [`Input::Start`].
    #[must_use]
    pub fn with_flows(mut self, tables: Vec<Loaded>) -> Self {
        self.flows.load(tables);
        self
    }

    /// Takes one input.
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
            Input::Captured { key, before } => self.captured(key, before),
            Input::Guarded { key, undo, challenge } => self.guarded(key, undo, challenge),
            Input::Ran { key, outcome, before, touched } => self.ran(key, outcome, before, touched),
            Input::Restored { key, result } => self.restored(key, result),
            Input::Stop => self.stop(),
            Input::Checked { key, found } => self.checked(key, found),
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
            Input::Changed(resources) => self.watches.changed(now, &resources, &self.ledger),
            Input::Looked { number, looked } => {
                self.watches.looked(now, number, looked, &self.ledger, &mut self.effects);
            }
            Input::Gathered(facts) => {
                self.facts.gathered(now, facts, self.connection.is_open(), &mut self.effects);
            }
            Input::Room(found) => self.room(found),
            Input::Flow { device, input } => self.on_flows(|flows, turn| flows.input(&device, input, turn)),
            Input::Ports(devices) => devices.into_iter().for_each(|device| self.ports.take(now, device)),
            Input::Local { config, timeout, after } => self.local(config, timeout, after),
            Input::CaughtUp | Input::Timeout => {}
        }
        self.timeouts();
        self.begin_restoring();
        if caught_up {
            self.begin_all();
        }
        self.on_flows(Flows::advance);
        self.tell_news();
    }

    /// After every input: what is news for the controller, and for the host that watches for it.
    fn tell_news(&mut self) {
        let (now, is_open) = (self.now, self.connection.is_open());
        let is_restoring = self.guard.is_some() || !self.restore_at.is_empty();
        let is_running = |lane| self.lanes.is_busy(lane) || lane == Lane::Network && is_restoring;
        self.watches.look_if_due(now, is_open, is_running, &self.ledger, &mut self.effects);
        self.watches.watch_applied(&mut self.ledger, &mut self.effects);
        if is_open {
            self.facts.gather(now, &mut self.effects);
        }
        if is_open && !self.is_stopping {
            self.ports.tell(now, &mut self.effects);
        }
        let jobs = Jobs { ledger: &self.ledger, lanes: &self.lanes, runs: &self.runs };
        self.account.tell_if_due(now, is_open, &jobs, &mut self.effects);
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop()
    }

    /// When to send [`Input::Timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let own = [self.connection.timeout(), self.fetch.timeout(), self.run_timeout(), self.guard_timeout()];
        let told = [self.watches.timeout(&self.ledger), self.facts.timeout(), self.account.timeout()];
        let told = told.into_iter().filter(|_| self.connection.is_open());
        let ports = self.ports.timeout().filter(|_| self.connection.is_open() && !self.is_stopping);
        let flows = self.flows.timeout(self.connection.is_open(), self.is_stopping);
        let rest = [flows, ports, self.disk.timeout()];
        own.into_iter().chain(told).chain(rest).flatten().min_by_key(|(at, _)| *at)
    }

    /// The entries, by resource.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.ledger.iter()
    }

    /// What each device is to hold, and how it stands.
    pub fn flow_table(&self, device: &Bridge) -> Option<Arc<Vec<Kept>>> {
        self.flows.table(device)
    }

    /// Whether the entries are on disk as they are here.
    pub fn is_on_disk(&self) -> bool {
        self.ledger.is_on_disk()
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
        let mut contents: Vec<ContentDigest> = self.ledger.iter().filter_map(Entry::content).collect();
        contents.sort_unstable();
        contents.dedup();
        self.effects.push(Effect::KeepContents(contents));
        self.recover();
        self.on_flows(Flows::start);
    }

    /// A call to the flow tables, with what they use of the rest.
    fn on_flows<R>(&mut self, call: impl FnOnce(&mut Flows, &mut Turn) -> R) -> R {
        let mut turn = Turn {
            now: self.now,
            is_stopping: self.is_stopping,
            may_guard: self.guard.is_none() && !self.lanes.is_busy(Lane::Network),
            connection: &mut self.connection,
            fetch: &mut self.fetch,
            effects: &mut self.effects,
        };
        call(&mut self.flows, &mut turn)
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.on_flows(Flows::stop);
        self.stop_guarding();
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
                ledger: self.ledger.digest(),
            }));
        }
    }

    fn disconnected(&mut self, reason: String) {
        if !self.connection.disconnected(self.now) {
            self.confirm_disconnected(reason);
        }
        self.hurry();
        self.fetch.set_online(false, self.now, &mut self.effects);
    }

    fn disconnect(&mut self, reason: String) {
        self.connection.close(self.now);
        self.confirm_disconnected(reason.clone());
        self.fetch.set_online(false, self.now, &mut self.effects);
        self.effects.push(Effect::Disconnect { reason });
    }

    fn received(&mut self, down: Down) {
        match down {
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
            // Said again once there is room.
            Down::Withdraw { .. } | Down::Flow(_) if self.connection.is_only_heard() => {}
            Down::Job(job) => {
                self.watches.unsay(self.now, job.resource, &self.ledger);
                self.job(job);
            }
            Down::Withdraw { resource, generation } => {
                self.watches.unsay(self.now, resource, &self.ledger);
                self.withdraw(resource, generation);
            }
            Down::Acknowledge(key) => self.acknowledge(key),
            Down::Answer { key, bytes } => {
                if !self.on_flows(|flows, turn| flows.answer(key, &bytes, turn)) {
                    self.answer(key, &bytes);
                }
            }
            Down::Chunk { digest, offset, bytes } => {
                let settled = self.fetch.chunk(digest, offset, bytes, self.now, &mut self.effects);
                self.settled(settled);
            }
            Down::AskFacts => self.facts.ask(self.now),
            Down::AskDrift => self.watches.say_all_again(self.now),
            Down::Flow(flow) => self.on_flows(|flows, turn| flows.down(flow, turn)),
            Down::Describe(resources) => self.describe(&resources),
            Down::Remove(key) => {
                self.watches.unsay(self.now, key.resource, &self.ledger);
                self.remove(key);
            }
        }
    }

    fn welcome(&mut self, welcome: Welcome) {
        match self.connection.welcome(welcome, &mut self.ledger, &mut self.effects) {
            Ok(Some(welcome)) => self.welcomed(&welcome),
            Ok(None) => {}
            Err(reason) => self.disconnect(reason),
        }
    }

    fn welcomed(&mut self, welcome: &Welcome) {
        let now = self.now;
        self.connection.obey(now, welcome);
        if welcome.want_ledger {
            account::tell_ledger(&self.ledger, &mut self.effects);
        }
        self.connection.report_again(&self.ledger, &mut self.effects);
        self.confirm_over_new_connection();
        self.watches.greeted(now, welcome.heartbeat);
        self.facts.greeted(now);
        self.flows.greeted();
        self.ports.greeted(now);
        let jobs = Jobs { ledger: &self.ledger, lanes: &self.lanes, runs: &self.runs };
        self.account.tell(now, &jobs, &mut self.effects);
        self.tell_disk();
        self.fetch.set_online(true, now, &mut self.effects);
    }

    /// A controller that listens takes the disk to have room.
    fn tell_disk(&mut self) {
        if self.connection.is_open() && self.disk.is_full() {
            self.effects.send(Up::DiskFull(self.disk.full().map(str::to_owned)));
        }
    }

    /// There is room on the disk, or not.
    fn room(&mut self, found: Result<(), String>) {
        let refused = found.as_ref().err().cloned();
        if !self.disk.found(self.now, found) {
            return;
        }
        if let Some(reason) = refused {
            self.effects.warn(format!("there is no room for what the agent records: {reason}"));
            // Records come before what may be fetched again.
            self.fetch.drop_kept(&mut self.effects);
            return self.tell_disk();
        }
        if self.connection.is_open() {
            self.effects.send(Up::DiskFull(None));
        }
        self.ledger.write_refused(&mut self.effects);
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
        let Some((after, kept_with)) = self.ledger.written(write, failed.is_some()) else { return };
        self.on_disk(after, failed.clone());
        if let Some(report) = kept_with {
            self.ended(report, None, failed);
        }
    }

    fn on_disk(&mut self, after: After, failed: Option<String>) {
        match (after, failed) {
            (After::Accepted(key), None) => self.accepted(key),
            (After::Accepted(key), Some(reason)) => self.not_accepted(key, &reason),
            (After::Captured { key, .. }, None) => self.run(key),
            (After::Guarded { key, was }, None) => self.guard_written(key, *was),
            (After::Captured { key, was } | After::Guarded { key, was }, Some(reason)) => {
                self.not_recorded(key, *was, &reason);
            }
            (After::Ended { report, held }, failed) => self.ended(report, held, failed),
            (After::Nothing, None) => {}
            (After::Nothing, Some(reason)) => {
                self.effects.warn(format!("cannot write the ledger, will try again: {reason}"));
            }
        }
    }

    pub(crate) fn settled(&mut self, settled: Option<Settled>) {
        match settled {
            None => {}
            Some(Settled::Ready(users)) => users.into_iter().for_each(|user| {
                if !self.on_flows(|flows, turn| flows.settled(user, None, turn)) {
                    self.fetched(user);
                }
            }),
            Some(Settled::Failed { users, error }) => {
                for user in users {
                    let failed = Some(&*error.reason);
                    if !self.on_flows(|flows, turn| flows.settled(user, failed, turn)) {
                        self.not_fetched(user, &error);
                    }
                }
            }
        }
    }

    fn timeouts(&mut self) {
        match self.connection.due(self.now) {
            Some(Due::Connect) => self.effects.push(Effect::Connect),
            Some(Due::Heartbeat) => {
                self.effects.send(Up::Heartbeat { drift: Some(self.watches.digest()) });
                self.connection.report_again(&self.ledger, &mut self.effects);
                self.on_flows(Flows::heartbeat);
                self.ledger.write_refused(&mut self.effects);
            }
            Some(Due::NoWelcome) => {
                self.disconnect("the controller did not answer the greeting".into());
            }
            None => {}
        }
        self.fetch.pump(self.now, &mut self.effects);
        self.run_timeouts();
        self.guard_timeouts();
        self.disk.look(self.now, &mut self.effects);
    }
}
