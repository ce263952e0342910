//! One member of the fleet: a real machine and a real link, over a disk and a server that are in memory.
//!
//! Absent: networks, services, flow tables. A job for one of these fails for good and says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_agent_core::{
    Agent, Before, Config, ContentState, ContentStep, Effect, FlowEffect, FlowInput, Found, Input, Looked,
    Retry, RunError,
};
use muster_agent_link::Identity;
use muster_agent_link::connection::{Connection, LinkEvent, Peer};
use muster_shared::model::{
    Action, ContentDigest, Down, FailOn, Job, Observed, Outcome, ReportKey, Spec, Up,
};
use muster_shared::{Epoch, EpochId, MonoTime, ResourceId};
use rustls::ClientConfig;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::figures::Figures;

/// What the whole fleet is told to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Connections are dropped when this rises.
    pub storms: u64,
    /// A thing of the first so many members is changed behind their backs when this rises.
    pub drifts: u64,
    /// How many members drift.
    pub drifting: u64,
}

/// See the module's head.
pub struct Member {
    number: u64,
    machine: Agent,
    identity: Identity,
    tls: Arc<ClientConfig>,
    connection: Option<Connection>,
    inbox: VecDeque<Input>,
    things: BTreeMap<ResourceId, Spec>,
    watched: BTreeSet<ResourceId>,
    contents: BTreeMap<ContentDigest, Vec<u8>>,
    running: Vec<(Instant, Box<Job>)>,
    reported: BTreeMap<ReportKey, Instant>,
    /// When a thing was changed behind its back, and not put right since.
    drifted: BTreeMap<ResourceId, Instant>,
    /// The jobs may begin: no input came since.
    caught_up: bool,
    /// Of the controller that greeted it last.
    epoch: Epoch,
    start: Instant,
    /// Since when it is not online; none while it is.
    offline: Option<Instant>,
    figures: Arc<Figures>,
}

impl Member {
    /// The agent is about to start for the first time.
    ///
    /// # Errors
    /// The certificate and key do not fit each other.
    pub fn new(number: u64, identity: Identity, figures: Arc<Figures>) -> Result<Self, rustls::Error> {
        let config = Config {
            seed: number,
            boot_id: u128::from(number),
            instance: u128::from(number),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let start = Instant::now();
        Ok(Self {
            number,
            machine: Agent::new(config, Vec::new(), EpochId::default()),
            tls: identity.tls()?,
            identity,
            connection: None,
            inbox: VecDeque::from([Input::Start]),
            things: BTreeMap::new(),
            watched: BTreeSet::new(),
            contents: BTreeMap::new(),
            running: Vec::new(),
            reported: BTreeMap::new(),
            drifted: BTreeMap::new(),
            caught_up: false,
            epoch: Epoch(0),
            start,
            offline: Some(start),
            figures,
        })
    }

    /// Until nobody gives orders any more.
    pub async fn run(mut self, mut orders: watch::Receiver<Order>) {
        let mut before = *orders.borrow_and_update();
        loop {
            self.turn();
            let machine = self.machine.poll_timeout().map(|(at, _)| self.start + at.0);
            let job = self.running.iter().map(|(at, _)| *at).min();
            let wake = machine.into_iter().chain(job).min();
            tokio::select! {
                event = next_event(&mut self.connection) => self.event(event),
                () = sleep_to(wake) => self.woken(),
                changed = orders.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let order = *orders.borrow_and_update();
                    self.obey(before, order);
                    before = order;
                }
            }
        }
    }

    fn obey(&mut self, before: Order, order: Order) {
        if order.storms > before.storms {
            self.disconnected("a storm".into());
        }
        if order.drifts > before.drifts && self.number < order.drifting {
            self.drift();
        }
    }

    /// Somebody changes a thing.
    fn drift(&mut self) {
        let Some((resource, spec)) = self.things.iter_mut().next() else { return };
        match spec {
            Spec::Dummy(dummy) => dummy.values.insert("changed".into(), "by somebody else".into()),
            Spec::File(file) => {
                file.mode ^= 0o111;
                None
            }
            _ => return,
        };
        self.drifted.insert(*resource, Instant::now());
        self.figures.drifted();
        if self.watched.contains(resource) {
            self.inbox.push_back(Input::Changed(BTreeSet::from([*resource])));
        }
    }

    fn event(&mut self, event: Option<LinkEvent>) {
        match event {
            Some(LinkEvent::Connected { .. }) => self.inbox.push_back(Input::Connected),
            Some(LinkEvent::Received(messages)) => {
                messages.iter().for_each(|message| self.hears(message));
                self.inbox.extend(messages.into_iter().map(Input::Received));
            }
            // Nothing is in between that could send a packet twice.
            Some(LinkEvent::Refused { error, .. }) => self.disconnected(error.to_string()),
            Some(LinkEvent::Disconnected(error)) => {
                self.figures.lost(&error);
                self.disconnected(error.to_string());
            }
            None => self.disconnected("the link's task ended".into()),
        }
    }

    fn hears(&mut self, message: &Down) {
        match message {
            Down::Welcome(welcome) => self.epoch = welcome.epoch.number,
            Down::Acknowledge(key) => {
                if let Some(at) = self.reported.remove(key) {
                    self.figures.acknowledged(at.elapsed());
                }
            }
            _ => {}
        }
    }

    fn disconnected(&mut self, reason: String) {
        self.connection = None;
        self.reported.clear();
        self.inbox.push_back(Input::Disconnected { reason });
    }

    fn woken(&mut self) {
        let now = Instant::now();
        let (due, waiting) = std::mem::take(&mut self.running).into_iter().partition(|(at, _)| *at <= now);
        self.running = waiting;
        let due: Vec<(Instant, Box<Job>)> = due;
        for (_, job) in due {
            self.ends(&job);
        }
        self.inbox.push_back(Input::Timeout);
    }

    /// Everything that can be done now.
    fn turn(&mut self) {
        loop {
            let input = self.inbox.pop_front().or_else(|| {
                let was_caught_up = std::mem::replace(&mut self.caught_up, true);
                (!was_caught_up).then_some(Input::CaughtUp)
            });
            let Some(input) = input else { break };
            self.caught_up = input == Input::CaughtUp;
            self.machine.handle(MonoTime(self.start.elapsed()), input);
            while let Some(effect) = self.machine.poll_effect() {
                self.execute(effect);
            }
        }
        match (self.machine.is_online(), self.offline) {
            (true, Some(since)) => {
                self.offline = None;
                self.figures.online(since.elapsed());
            }
            (false, None) => {
                self.offline = Some(Instant::now());
                self.figures.offline();
            }
            (true, None) | (false, Some(_)) => {}
        }
    }

    fn execute(&mut self, effect: Effect) {
        let answer = match effect {
            Effect::Connect => {
                let peer = Peer::node(&self.identity, Arc::clone(&self.tls));
                self.connection = Some(Connection::open(peer, Arc::new(self.identity.seal())));
                return;
            }
            Effect::Disconnect { reason } => return self.disconnected(reason),
            Effect::Send(up) => return self.send(up),
            // The disk is memory, and keeps everything.
            Effect::Write { write, .. } | Effect::WriteEpoch { write, .. } => Input::Written(write),
            Effect::Capture { key, .. } => Input::Captured { key, before: Ok(Before::new(Vec::new())) },
            Effect::Guard { job, .. } => {
                Input::Guarded { key: job.key(), undo: Err(not_simulated()), challenge: Vec::new() }
            }
            Effect::Restore { key, .. } | Effect::Fallback { key, .. } => {
                Input::Restored { key, result: Err(not_simulated().reason) }
            }
            Effect::Run { job, .. } => return self.begins(job),
            Effect::Check { job, .. } => {
                Input::Checked { key: job.key(), found: Ok(self.found(job.resource, &job.spec)) }
            }
            Effect::Look { number, looks } => {
                let looked = looks.into_iter().map(|look| Looked {
                    resource: look.resource,
                    generation: look.generation,
                    found: Ok(self.found(look.resource, &look.spec)),
                });
                Input::Looked { number, looked: looked.collect() }
            }
            Effect::Watch { resource, spec: Some(_) } => {
                self.watched.insert(resource);
                return;
            }
            Effect::Watch { resource, spec: None } => {
                self.watched.remove(&resource);
                return;
            }
            Effect::FindRoom => Input::Room(Ok(())),
            Effect::Gather => Input::Gathered(Ok(Box::default())),
            Effect::Cancel(key) => {
                self.running.retain(|(_, job)| job.key() != key);
                return;
            }
            Effect::Content { digest, step } => match self.content(digest, step) {
                Some(state) => Input::Content { digest, state: Ok(state) },
                None => return,
            },
            Effect::KeepContents(kept) => {
                self.contents.retain(|digest, _| kept.contains(digest));
                return;
            }
            Effect::Flow { device, effect: FlowEffect::Watch } => {
                Input::Flow { device, input: FlowInput::Gone { reason: not_simulated().reason } }
            }
            Effect::Join { number, .. } => Input::Joined { number, joined: Err(not_simulated().reason) },
            Effect::ChangeSite { .. } => Input::SiteChanged(Err(not_simulated().reason)),
            Effect::Flow { .. } | Effect::Remove(_) | Effect::LocalEnded(_) | Effect::Warn(_) => return,
        };
        self.inbox.push_back(answer);
    }

    fn send(&mut self, up: Up) {
        if let Up::Report(report) = &up {
            self.reported.insert(report.key, Instant::now());
            if matches!(report.outcome, Outcome::Failed { .. }) {
                self.figures.failed();
            }
        }
        if self.connection.as_ref().is_some_and(|connection| !connection.send(up)) {
            self.disconnected("too much waits to be sent".into());
        }
    }

    fn begins(&mut self, job: Box<Job>) {
        self.figures.began(self.epoch);
        let takes = match &job.spec {
            Spec::Dummy(dummy) => Duration::from_millis(dummy.milliseconds),
            _ => Duration::ZERO,
        };
        if takes.is_zero() {
            self.ends(&job);
        } else {
            self.running.push((Instant::now() + takes, job));
        }
    }

    fn ends(&mut self, job: &Job) {
        let outcome = self.apply(job);
        if outcome.is_ok()
            && let Some(since) = self.drifted.remove(&job.resource)
        {
            self.figures.corrected(since.elapsed());
        }
        self.inbox.push_back(Input::Ran { key: job.key(), outcome, before: None, touched: true });
    }

    fn apply(&mut self, job: &Job) -> Result<Observed, RunError> {
        let fail = match &job.spec {
            Spec::Dummy(dummy) => dummy.fail,
            Spec::File(_) => None,
            _ => return Err(not_simulated()),
        };
        if fail.is_some_and(|fail| fail == FailOn::Any || fail == FailOn::Action(job.action)) {
            return Err(RunError { reason: "told to fail".into(), retry: Retry::Later });
        }
        if matches!(job.action, Action::Delete | Action::Retain) {
            self.things.remove(&job.resource);
            return Ok(Observed::default());
        }
        self.things.insert(job.resource, job.spec.clone());
        let attributes = match &job.spec {
            Spec::Dummy(dummy) => dummy.values.clone(),
            _ => BTreeMap::new(),
        };
        Ok(Observed { attributes })
    }

    fn found(&self, resource: ResourceId, spec: &Spec) -> Found {
        let there = self.things.get(&resource);
        let is_equal = match (there, spec) {
            (Some(Spec::Dummy(there)), Spec::Dummy(wanted)) => there.values == wanted.values,
            // The content may be named by its digest in one and be in the other.
            (Some(Spec::File(there)), Spec::File(wanted)) => {
                (&there.path, there.mode) == (&wanted.path, wanted.mode)
            }
            _ => false,
        };
        if is_equal {
            Found::AsDesired
        } else {
            Found::Differs { missing: there.is_none(), reason: "somebody changed it".into() }
        }
    }

    fn content(&mut self, digest: ContentDigest, step: ContentStep) -> Option<ContentState> {
        let bytes = self.contents.entry(digest).or_default();
        match step {
            ContentStep::Find => {}
            ContentStep::Append { bytes: more, .. } => bytes.extend(more),
            ContentStep::Verify if ContentDigest::of(bytes) == digest => return Some(ContentState::Verified),
            ContentStep::Verify => {
                self.contents.remove(&digest);
                return Some(ContentState::Corrupt);
            }
            ContentStep::Drop => {
                self.contents.remove(&digest);
                return None;
            }
        }
        Some(ContentState::Have(bytes.len() as u64))
    }
}

fn not_simulated() -> RunError {
    RunError { reason: "a simulated server has dummies and files alone".into(), retry: Retry::Never }
}

async fn next_event(connection: &mut Option<Connection>) -> Option<LinkEvent> {
    match connection {
        Some(connection) => connection.events.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep_to(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
