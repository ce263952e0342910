//! The machine itself: takes inputs, hands out effects, and knows what each write on its way to disk is for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_shared::model::{ContentDigest, Down, Hello, Job, Outcome, Report, ReportKey, Up, Welcome};
use muster_shared::wire::READS;
use muster_shared::{EpochId, MonoTime, ResourceId};

use crate::account::Account;
use crate::confirm::Guard;
use crate::disk::Disk;
use crate::face::{Config, Effect, Hint, Input, WriteId};
use crate::facts::Telling;
use crate::fetch::{Fetch, Settled};
use crate::flow::Flows;
use crate::lanes::Lanes;
use crate::ledger::{Entry, Ledger};
use crate::ports::Ports;
use crate::run::Run;
use crate::session::{Due, Session};
use crate::watch::Watches;

/// Entries in one page of the ledger: 28 bytes each, well within a packet; the wire takes no more.
const LEDGER_PAGE: usize = 4096;

/// What a write is for: what happens once it is on disk.
#[derive(Clone, Debug)]
pub(crate) enum After {
    /// A job was accepted.
    Accepted(ReportKey),
    /// What was there before is recorded for this job; how the entry was until then.
    Captured { key: ReportKey, was: Box<Entry> },
    /// A job ended; how the entry was until then, if its resource let go of what it held.
    Ended { report: Report, held: Option<Box<Entry>> },
    /// What a job may touch is recorded for it; how the entry was until then.
    Guarded { key: ReportKey, was: Box<Entry> },
    /// A report was acknowledged, or something else that can be written later as well.
    Nothing(ResourceId),
}

/// One on its way to disk.
#[derive(Debug)]
struct Writing {
    resource: ResourceId,
    /// The entry says what to put back.
    has_undo: bool,
    after: After,
}

/// The agent of one node.
#[derive(Debug)]
pub struct Agent {
    pub(crate) config: Config,
    pub(crate) ledger: Ledger,
    pub(crate) session: Session,
    pub(crate) lanes: Lanes,
    pub(crate) fetch: Fetch,
    pub(crate) watches: Watches,
    pub(crate) facts: Telling,
    pub(crate) flows: Flows,
    pub(crate) ports: Ports,
    pub(crate) account: Account,
    pub(crate) disk: Disk,
    /// The controller's epoch is not on disk, for want of room: it is heard, and not obeyed.
    pub(crate) epoch_refused: bool,
    /// Where each entry's `current` stands.
    pub(crate) runs: BTreeMap<ResourceId, Run>,
    /// The change that may cut the node off, or is being undone.
    pub(crate) guard: Option<Guard>,
    /// When to put back what could not be put back yet.
    pub(crate) restore_at: BTreeMap<ResourceId, MonoTime>,
    /// What was seen last of the controller since a change.
    pub(crate) seen: Option<String>,
    /// Connections are tried without backoff until then.
    pub(crate) hurry_until: Option<MonoTime>,
    /// Nothing new begins.
    pub(crate) is_stopping: bool,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) now: MonoTime,
    epoch: EpochId,
    /// A greeting whose epoch is on its way to disk.
    greeting: Option<(WriteId, Welcome)>,
    writes: BTreeMap<WriteId, Writing>,
    last_write: u64,
    /// What is to be put back may be on disk, for these.
    pub(crate) undo_on_disk: BTreeSet<ResourceId>,
    /// That a change is kept was refused by the disk, and is said once more by this write.
    kept_with: Option<(WriteId, Report)>,
    /// Entries that the disk did not take, to be written when it may, with the last write when it was refused.
    pub(crate) stale: BTreeMap<ResourceId, WriteId>,
}

impl Agent {
    /// With the ledger and the highest epoch as they were on disk.
    pub fn new(config: Config, ledger: Vec<Entry>, epoch: EpochId) -> Self {
        let session = Session::new(config.seed);
        let undo_on_disk = ledger.iter().filter(|e| e.undo.is_some()).map(|e| e.resource).collect();
        let (watches, facts) = (Watches::new(config.seed), Telling::new(config.seed));
        let flows = Flows::new(config.seed);
        Self {
            config,
            flows,
            ports: Ports::default(),
            account: Account::default(),
            disk: Disk::default(),
            epoch_refused: false,
            ledger: Ledger::new(ledger),
            session,
            lanes: Lanes::default(),
            fetch: Fetch::default(),
            watches,
            facts,
            runs: BTreeMap::new(),
            guard: None,
            restore_at: BTreeMap::new(),
            seen: None,
            hurry_until: None,
            is_stopping: false,
            effects: VecDeque::new(),
            now: MonoTime::default(),
            epoch,
            greeting: None,
            writes: BTreeMap::new(),
            last_write: 0,
            undo_on_disk,
            kept_with: None,
            stale: BTreeMap::new(),
        }
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
            Input::Changed(resources) => self.resources_changed(&resources),
            Input::Looked { number, looked } => self.looked(number, looked),
            Input::Gathered(facts) => self.gathered(facts),
            Input::Room(found) => self.room(found),
            Input::Flow { device, input } => self.flow_input(&device, input),
            Input::Ports(devices) => self.ports(devices),
            Input::Local { config, timeout, after } => self.local(config, timeout, after),
            Input::CaughtUp | Input::Timeout => {}
        }
        self.timeouts();
        self.begin_restoring();
        if caught_up {
            self.begin_all();
        }
        self.advance_flows();
        self.watch();
        self.watch_applied();
        self.tell_facts();
        self.tell_ports();
        self.account();
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to send [`Input::Timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let (run, guard, watch) = (self.run_timeout(), self.guard_timeout(), self.watch_timeout());
        let (ports, account, disk) = (self.ports_timeout(), self.account_timeout(), self.disk_timeout());
        let flows = self.flow_timeout();
        [self.session.timeout(), self.fetch.timeout(), run, guard, watch, flows, ports, account, disk]
            .into_iter()
            .flatten()
            .min_by_key(|(at, _)| *at)
    }

    /// The entries, by resource.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.ledger.iter()
    }

    /// Whether the entries are on disk as they are here.
    pub fn is_on_disk(&self) -> bool {
        self.writes.is_empty() && self.stale.is_empty()
    }

    /// The highest epoch obeyed.
    pub fn epoch(&self) -> EpochId {
        self.epoch
    }

    /// The controller has been heard and accepted on this connection.
    pub fn is_online(&self) -> bool {
        self.session.is_open()
    }

    fn start(&mut self) {
        let mut contents: Vec<ContentDigest> = self.ledger.iter().filter_map(Entry::content).collect();
        contents.sort_unstable();
        contents.dedup();
        self.effects.push_back(Effect::KeepContents(contents));
        self.recover();
        self.start_flows();
    }

    fn connected(&mut self) {
        self.epoch_refused = false;
        if self.session.connected(self.now) {
            self.effects.push_back(Effect::Send(Up::Hello(Hello {
                boot_id: self.config.boot_id,
                instance: Some(self.config.instance),
                address: None,
                agent_version: self.config.agent_version.clone(),
                reads: READS,
                epoch: self.epoch,
                ledger: self.ledger.digest(),
            })));
        }
    }

    fn disconnected(&mut self, reason: String) {
        self.greeting = None;
        let is_ours = self.session.is_closing();
        self.session.disconnected(self.now);
        if !is_ours {
            self.confirm_disconnected(reason);
        }
        self.hurry();
        self.fetch.set_online(false, self.now, &mut self.effects);
    }

    fn disconnect(&mut self, reason: String) {
        self.greeting = None;
        self.session.close(self.now);
        self.confirm_disconnected(reason.clone());
        self.fetch.set_online(false, self.now, &mut self.effects);
        self.effects.push_back(Effect::Disconnect { reason });
    }

    /// A new connection, at once.
    pub(crate) fn reconnect(&mut self, why: &str) {
        self.greeting = None;
        if self.session.reconnect(self.now) {
            self.fetch.set_online(false, self.now, &mut self.effects);
            self.effects.push_back(Effect::Disconnect { reason: why.to_owned() });
        }
    }

    fn received(&mut self, down: Down) {
        match down {
            Down::Welcome(welcome) if self.session.listens() => self.welcome(welcome),
            // Until it has shown its epoch, whoever speaks may be a controller that was replaced.
            _ if !self.session.is_open() && self.greeting.is_none() => {}
            Down::Welcome(_) => {}
            Down::Job(Job { resource, .. })
            | Down::Withdraw { resource, .. }
            | Down::Remove(ReportKey { resource, .. })
                if resource.is_local() =>
            {
                self.warn(
                    "the controller gives jobs of this node's own document: a bug, please report it".into(),
                );
            }
            // Said again once there is room.
            Down::Withdraw { .. } | Down::Flow(_) if self.epoch_refused => {}
            Down::Job(job) if self.epoch_refused => self.job_without_epoch(&job),
            Down::Job(job) => {
                self.unsay(job.resource);
                self.job(job);
            }
            Down::Withdraw { resource, generation } => {
                self.unsay(resource);
                self.withdraw(resource, generation);
            }
            Down::Acknowledge(key) => self.acknowledge(key),
            Down::Answer { key, bytes } => self.answer(key, &bytes),
            Down::Chunk { digest, offset, bytes } => {
                let settled = self.fetch.chunk(digest, offset, bytes, self.now, &mut self.effects);
                self.settled(settled);
            }
            Down::AskFacts => self.ask_facts(),
            Down::AskDrift => self.say_all_again(),
            Down::Flow(flow) => self.flow(flow),
            Down::Describe(resources) => self.describe(&resources),
            Down::Remove(key) => {
                self.unsay(key.resource);
                self.remove(key);
            }
        }
    }

    fn welcome(&mut self, welcome: Welcome) {
        // One that is on its way to disk counts.
        let seen = self.greeting.as_ref().map_or(self.epoch, |(_, greeting)| greeting.epoch);
        let (theirs, ours) = (welcome.epoch.number, seen.number);
        if theirs < ours {
            return self.disconnect(format!(
                "the controller is of epoch {}, this node has obeyed epoch {}: it was replaced or restored \
                 from a backup",
                theirs.0, ours.0
            ));
        }
        if welcome.epoch.contradicts(seen) {
            return self.disconnect(format!(
                "the controller is of epoch {}, and so was another one that this node has obeyed: one of the two is \
                 a copy of the other's store; stop the one that is to go",
                theirs.0
            ));
        }
        // One of an older version has no bits: those of the number stay.
        if welcome.epoch == self.epoch || (welcome.epoch.bits.is_none() && theirs == self.epoch.number) {
            return self.welcomed(&welcome);
        }
        let write = self.next_write();
        self.effects.push_back(Effect::WriteEpoch { write, epoch: welcome.epoch });
        self.greeting = Some((write, welcome));
    }

    fn welcomed(&mut self, welcome: &Welcome) {
        self.session.welcome(self.now, welcome.heartbeat);
        if welcome.want_ledger {
            self.send_ledger();
        }
        self.report_again();
        self.confirm_over_new_connection();
        self.watch_greeted(welcome.heartbeat);
        self.flows_greeted();
        self.ports_greeted();
        self.account_greeted();
        self.disk_greeted();
        self.fetch.set_online(true, self.now, &mut self.effects);
    }

    fn report_again(&mut self) {
        let reports: Vec<Report> =
            self.ledger.iter().flat_map(|entry| entry.unacknowledged.iter().cloned()).collect();
        for report in reports {
            // One that is on its way to disk is sent when it is there.
            if !self.is_ending(&report.key) {
                self.report(report);
            }
        }
    }

    fn send_ledger(&mut self) {
        let entries: Vec<_> = self.ledger.iter().filter_map(Entry::listed).collect();
        let mut pages = entries.chunks(LEDGER_PAGE).peekable();
        if pages.peek().is_none() {
            self.effects.push_back(Effect::Send(Up::Ledger { entries: Vec::new(), last: true }));
        }
        while let Some(page) = pages.next() {
            let last = pages.peek().is_none();
            self.effects.push_back(Effect::Send(Up::Ledger { entries: page.to_vec(), last }));
        }
    }

    /// Says it if someone listens; a durable one is said again after the next greeting.
    pub(crate) fn report(&mut self, report: Report) {
        if report.key.resource.is_local() {
            return self.effects.push_back(Effect::LocalEnded(report.outcome));
        }
        if self.session.is_open() || self.greeting.is_some() {
            self.effects.push_back(Effect::Send(Up::Report(report)));
        }
    }

    pub(crate) fn refuse(&mut self, key: ReportKey, reason: String, permanent: bool) {
        self.report(Report { key, outcome: Outcome::Failed { reason, permanent } });
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.effects.push_back(Effect::Warn(warning));
    }

    /// Writes the entry as it is now.
    pub(crate) fn write(&mut self, resource: ResourceId, after: After) {
        let Some(entry) = self.ledger.get(resource).cloned() else {
            // Only an entry without any content is not kept; there is nothing to make durable.
            return self.forget(resource);
        };
        let write = self.next_write();
        let has_undo = entry.undo.is_some();
        if has_undo {
            self.undo_on_disk.insert(resource);
        }
        self.writes.insert(write, Writing { resource, has_undo, after });
        self.effects.push_back(Effect::Write { write, entry: Box::new(entry) });
        while let Some(oldest) = self.ledger.excess_tombstone() {
            self.ledger.edit(oldest, |entry| *entry = Entry::new(oldest));
            self.forget(oldest);
        }
    }

    fn forget(&mut self, resource: ResourceId) {
        self.stale.remove(&resource);
        self.undo_on_disk.remove(&resource);
        self.effects.push_back(Effect::Remove(resource));
    }

    /// With the next heartbeat.
    pub(crate) fn write_later(&mut self, resource: ResourceId) {
        self.stale.insert(resource, WriteId(self.last_write));
    }

    fn next_write(&mut self) -> WriteId {
        self.last_write += 1;
        WriteId(self.last_write)
    }

    /// Whether this outcome is not on disk yet.
    pub(crate) fn is_ending(&self, key: &ReportKey) -> bool {
        self.kept_with.as_ref().is_some_and(|(_, report)| report.key == *key)
            || self.is_on_its_way(|after| matches!(after, After::Ended { report, .. } if report.key == *key))
    }

    /// Whether such a write is not on disk yet.
    pub(crate) fn is_on_its_way(&self, is_such: impl Fn(&After) -> bool) -> bool {
        self.writes.values().any(|writing| is_such(&writing.after))
    }

    /// Whether this job is not on disk yet.
    pub(crate) fn is_accepting(&self, key: ReportKey) -> bool {
        self.is_on_its_way(|after| matches!(after, After::Accepted(accepted) if *accepted == key))
    }

    /// Records the job with its entry as it is now; what is on its way to disk of it does not count.
    pub(crate) fn accept_again(&mut self, key: ReportKey) {
        for Writing { after, .. } in self.writes.values_mut() {
            if matches!(after, After::Accepted(accepted) if *accepted == key) {
                *after = After::Nothing(key.resource);
            }
        }
        self.write(key.resource, After::Accepted(key));
    }

    fn written(&mut self, write: WriteId, failed: Option<String>) {
        if let Some((_, welcome)) = self.greeting.take_if(|(id, _)| *id == write) {
            return match failed {
                None => {
                    self.epoch = welcome.epoch;
                    self.welcomed(&welcome);
                }
                Some(_) if self.disk.is_full() => {
                    self.epoch_refused = true;
                    self.session.welcome(self.now, welcome.heartbeat);
                    self.disk_greeted();
                }
                Some(reason) => self.disconnect(format!("cannot record the controller's epoch: {reason}")),
            };
        }
        let Some(Writing { resource, has_undo, after }) = self.writes.remove(&write) else { return };
        let mut later = self.writes.values().filter(|writing| writing.resource == resource);
        if failed.is_none() && !has_undo && later.all(|writing| !writing.has_undo) {
            self.undo_on_disk.remove(&resource);
        }
        let kept_with = self.kept_with.take_if(|(with, _)| *with == write);
        self.on_disk(write, after, failed.clone());
        if let Some((_, report)) = kept_with {
            self.ended(report, None, failed);
        }
    }

    /// Whether an outcome that was refused is in a later write as well, which decides.
    pub(crate) fn is_written_again(&mut self, report: &Report) -> bool {
        let later = self.writes.iter().find(|(_, writing)| writing.resource == report.key.resource);
        let Some((&write, _)) = later.filter(|_| self.is_keeping(report.key)) else { return false };
        self.kept_with = Some((write, report.clone()));
        true
    }

    fn on_disk(&mut self, write: WriteId, after: After, failed: Option<String>) {
        match (after, failed) {
            (After::Accepted(key), None) => self.accepted(key),
            (After::Accepted(key), Some(reason)) => self.not_accepted(key, &reason),
            (After::Captured { key, .. }, None) => self.run(key),
            (After::Captured { key, was }, Some(reason)) => self.not_captured(key, *was, &reason),
            (After::Guarded { key, was }, None) => self.guard_written(key, *was),
            (After::Guarded { key, was }, Some(reason)) => self.guard_not_written(key, *was, &reason),
            (After::Ended { report, held }, failed) => self.ended(report, held, failed),
            (After::Nothing(resource), None) => {
                // One that was on its way before does not say what was refused since.
                if self.stale.get(&resource).is_some_and(|&refused| write > refused) {
                    self.stale.remove(&resource);
                }
            }
            (After::Nothing(resource), Some(reason)) => {
                self.write_later(resource);
                self.warn(format!("cannot write the ledger, will try again: {reason}"));
            }
        }
    }

    pub(crate) fn settled(&mut self, settled: Option<Settled>) {
        match settled {
            None => {}
            Some(Settled::Ready(users)) => users.into_iter().for_each(|user| {
                if !self.flow_settled(user, None) {
                    self.fetched(user);
                }
            }),
            Some(Settled::Failed { users, error }) => {
                for user in users {
                    if !self.flow_settled(user, Some(&error.reason)) {
                        self.not_fetched(user, &error);
                    }
                }
            }
        }
    }

    fn timeouts(&mut self) {
        match self.session.due(self.now) {
            Some(Due::Connect) => self.effects.push_back(Effect::Connect),
            Some(Due::Heartbeat) => {
                self.effects.push_back(Effect::Send(Up::Heartbeat { drift: Some(self.watches.digest()) }));
                self.report_again();
                self.flow_heartbeat();
                for resource in self.stale.keys().copied().collect::<Vec<_>>() {
                    self.write(resource, After::Nothing(resource));
                }
            }
            Some(Due::NoWelcome) => {
                self.disconnect("the controller did not answer the greeting".into());
            }
            None => {}
        }
        self.fetch.pump(self.now, &mut self.effects);
        self.run_timeouts();
        self.guard_timeouts();
        self.look_for_room();
    }
}
