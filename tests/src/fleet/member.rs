//! A member of the fleet: a real machine and a real link, over a server that is in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_agent_core::{Agent, Config, Effect, Input};
use muster_agent_link::connection::{Connection, LinkEvent, Peer};
use muster_agent_link::{Identity, NodeSeal};
use muster_shared::model::{Down, Job, Outcome, ReportKey, Spec, Up};
use muster_shared::{Epoch, EpochId, MonoTime, ResourceId};
use rustls::ClientConfig;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::figures::Figures;
use super::server::Server;
use super::settled::Settled;

/// The orders to the whole fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Connections are dropped when this rises.
    pub storms: u64,
    /// Connections are dropped when this rises, and what TLS remembers of them is forgotten.
    pub restarts: u64,
    /// A thing of the first `drifting` members is changed behind their backs when this rises.
    pub drifts: u64,
    /// The number of members that drift.
    pub drifting: u64,
}

/// See the module's head.
pub struct Member {
    number: u64,
    machine: Agent,
    identity: Identity,
    tls: Arc<ClientConfig>,
    /// As an agent has it that starts again; made before, for it is not what is measured.
    fresh_tls: Arc<ClientConfig>,
    fresh_seal: Arc<NodeSeal>,
    seal: Arc<NodeSeal>,
    connection: Option<Connection>,
    inbox: VecDeque<Input>,
    server: Server,
    running: Vec<(Instant, Box<Job>)>,
    reported: BTreeMap<ReportKey, Instant>,
    /// When a thing was changed behind its back, and not corrected since.
    drifted: BTreeMap<ResourceId, Instant>,
    /// The jobs may begin: no input came since.
    caught_up: bool,
    /// The epoch of the controller that greeted the member last.
    epoch: Epoch,
    settled: Settled,
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
            fresh_tls: identity.tls()?,
            seal: Arc::new(identity.seal().into()),
            fresh_seal: Arc::new(identity.seal().into()),
            identity,
            connection: None,
            inbox: VecDeque::from([Input::Start]),
            server: Server::default(),
            running: Vec::new(),
            reported: BTreeMap::new(),
            drifted: BTreeMap::new(),
            caught_up: false,
            epoch: Epoch(0),
            settled: Settled::default(),
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
        if order.restarts > before.restarts {
            self.tls = Arc::clone(&self.fresh_tls);
            self.seal = Arc::clone(&self.fresh_seal);
            self.disconnected("a restart".into());
        }
        if order.storms > before.storms {
            self.disconnected("a storm".into());
        }
        if order.drifts > before.drifts && self.number < order.drifting {
            self.drift();
        }
    }

    /// Changes a thing behind the agent's back.
    fn drift(&mut self) {
        let Some((resource, hint)) = self.server.drift() else { return };
        self.drifted.insert(resource, Instant::now());
        self.figures.drifted();
        self.inbox.extend(hint);
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
            Down::Job(job) => {
                if let Some(violation) = self.settled.violation(&job.key()) {
                    self.figures.violated(violation);
                }
            }
            Down::Acknowledge(key) => {
                self.settled.acknowledged(key);
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
        match effect {
            Effect::Connect => {
                let peer = Peer::node(&self.identity, Arc::clone(&self.tls));
                self.connection = Some(Connection::open(peer, Arc::clone(&self.seal)));
            }
            Effect::Disconnect { reason } => self.disconnected(reason),
            Effect::Send(up) => self.send(up),
            Effect::Run { job, .. } => self.begins(job),
            Effect::Cancel(key) => self.running.retain(|(_, job)| job.key() != key),
            effect => self.inbox.extend(self.server.take(effect)),
        }
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
        let outcome = self.server.apply(job);
        if outcome.is_ok()
            && let Some(since) = self.drifted.remove(&job.resource)
        {
            self.figures.corrected(since.elapsed());
        }
        self.inbox.push_back(Input::Ran { key: job.key(), outcome, before: None, touched: true });
    }
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
