//! The driver loop: executes the machine's effects, passes events to the machine, and sleeps in between.
//!
//! The driver has one thread. Ledger records are written at once and made durable together, after the last
//! effect of a turn; only then does the machine hear that they are on disk. Jobs run as tasks, so that a slow
//! one delays nothing else.
//!
//! Absent: decisions. The machine has them (`agent/core/src/agent.rs`).

mod clock;
mod flow_restore_wait;
mod local;
mod moving;
mod ports;
mod reach;
mod reading;
mod records;
mod runs;
mod stop;
mod tasks;
mod watch;

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use muster_agent_core::{Agent, Config, ContentStep, Effect, FlowInput, Hint, Input, WriteId};
use muster_agent_link::connection::{Connection, LinkEvent};
use muster_agent_link::{Identity, NodeSeal, tls};
use muster_host::net::{Change, Monitor};
use muster_host::systemd::Systemd;
use muster_host::watch::Watcher;
use muster_shared::MonoTime;
use muster_shared::join::Address;
use muster_shared::model::flow::Bridge;
use muster_shared::model::{ContentDigest, ReportKey, Up};
use rustls::ClientConfig;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep_until};

use crate::contents::Contents;
use crate::flows::Flows;
use crate::host::Host;
use crate::link_state::SharedLinkState;
use crate::signals::{Signal, Signals};
use crate::state_dir::StateDir;
use clock::Clock;
use flow_restore_wait::Holding;
use local::Locals;
use moving::Moving;
use reach::renew_in;
use reading::Reading;
use runs::Runs;
use tasks::Done;

/// Inputs handled in one turn: a packet may hold thousands of jobs, each a write of some milliseconds on a
/// slow disk, and the connection must not time out meanwhile.
const INPUTS_PER_TURN: usize = 32;

/// The agent of this server.
pub struct Driver {
    machine: Agent,
    state: StateDir,
    identity: Identity,
    tls: Arc<ClientConfig>,
    /// A renewed certificate keeps the keys of the seal.
    seal: Arc<NodeSeal>,
    host: Arc<Host>,
    contents: Contents,
    flows: Flows,
    holding: Holding,
    send_lldp: bool,
    watcher: Watcher,
    connection: Option<Connection>,
    link_state: SharedLinkState,
    tasks: JoinSet<Done>,
    runs: Runs,
    locals: Locals,
    /// Jobs that may have a command under way, or a record of a command.
    commands: BTreeSet<ReportKey>,
    /// The members of `commands` that have ended, kept until their records are durable.
    ended: Vec<ReportKey>,
    renewing: bool,
    /// Connect once the renewal is done: the certificate has run out.
    connect_renewed: bool,
    /// The controller refuses the certificate: the next connection is for obtaining another one.
    prove: bool,
    /// The earliest time at which a refused certificate leads to `prove`.
    prove_from: Instant,
    /// The address at which the active controller was found, if it is not the first of the identity's.
    first_address: Option<Address>,
    renew_at: Instant,
    /// As the operator of this server configured them, beside those of the identity.
    controllers: Vec<Address>,
    moving: Moving,
    inbox: VecDeque<Input>,
    /// The progress of reading arrived messages since jobs could last begin.
    reading: Reading,
    written: Vec<(WriteId, Result<(), String>)>,
    /// A write was refused for want of room.
    no_room: Option<String>,
    start: Instant,
    clock: Clock,
}

/// Settings of a driver.
pub struct Setup {
    /// The directory of Open vSwitch's sockets.
    pub ovs: PathBuf,
    /// Seconds until an unconfirmed local document is undone.
    pub confirm_timeout: u32,
    pub send_lldp: bool,
    pub systemd: Systemd,
    /// Addresses of controllers, tried before those of the identity.
    pub controllers: Vec<Address>,
}

/// The reason why a driver has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A signal said so.
    Stopped,
    /// The node belongs to another site: another driver begins there.
    Moved,
}

impl Driver {
    /// Loads the ledger.
    ///
    /// # Errors
    /// The state directory cannot be read, or its keys do not fit.
    pub fn new(state: StateDir, identity: Identity, host: Host, setup: Setup) -> anyhow::Result<Self> {
        let Setup { ovs, confirm_timeout, send_lldp, systemd, controllers } = setup;
        let identity = identity.with_addresses(&controllers);
        let entries = state.ledger()?;
        // Makes the ledger that was just read durable: otherwise a power cut could bring back a job whose run
        // is swept away here.
        state.sync_ledger()?;
        host.sweep(entries.iter())?;
        let config = Config {
            seed: u64::from_le_bytes(tls::random()?),
            boot_id: boot_id(),
            instance: u128::from_le_bytes(tls::random()?),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let (flows, tables) = Flows::new(state.flows(), ovs, identity.clone(), state.fetch())?;
        let machine = Agent::new(config, entries, state.epoch()?).with_flows(tables);
        let (tls, seal) = (identity.tls()?, Arc::new(identity.seal().into()));
        let contents = Contents::new(state.fetch());
        let host = Arc::new(host);
        let link_state = SharedLinkState::default();
        let holding = Holding::start(Arc::clone(&host), identity.addresses.clone());
        Ok(Self {
            machine,
            tls,
            seal,
            host,
            holding,
            send_lldp,
            watcher: Watcher::new(systemd),
            contents,
            flows,
            connection: None,
            tasks: JoinSet::new(),
            runs: Runs::default(),
            locals: Locals::open(&state, confirm_timeout, link_state.clone()),
            link_state,
            commands: BTreeSet::new(),
            ended: Vec::new(),
            renewing: false,
            connect_renewed: false,
            prove: false,
            prove_from: Instant::now(),
            first_address: None,
            renew_at: renew_in(&identity),
            controllers,
            moving: Moving::default(),
            inbox: VecDeque::from([Input::Start]),
            reading: Reading::default(),
            written: Vec::new(),
            no_room: None,
            start: Instant::now(),
            clock: Clock::default(),
            state,
            identity,
        })
    }

    /// Runs until told to stop, or until the node belongs to another site.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub async fn run(mut self, mut signals: Signals, reload: impl Fn()) -> anyhow::Result<Ended> {
        tracing::info!(node = %self.identity.node, site = %self.identity.site, "agent started");
        let mut monitor = Monitor::open(&self.host.network);
        let mut ports = self.ports();
        let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        let mut alive_at = watchdog.map(|every| Instant::now() + every);
        notify(&[sd_notify::NotifyState::Ready]);
        let ended = loop {
            let more = self.turn();
            if !more && self.is_gone() {
                break Ended::Moved;
            }
            let wake = self.machine.poll_timeout().map(|(at, _)| self.start + at.0);
            tokio::select! {
                // Work that is already here comes first, or it would grow without bound.
                event = next_event(&mut self.connection), if !more => self.event(event),
                Some(done) = self.tasks.join_next_with_id() => match done {
                    Ok((task, done)) => self.done(task, done),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => tracing::error!(%error, "a task failed: a bug, please report it"),
                },
                (device, input) = self.flows.said(), if !more => self.flow_said(device, input),
                given = self.locals.given(), if !more && self.moving.left().is_none() => self.given(given),
                () = sleep_to(wake) => self.inbox.push_back(Input::Timeout),
                change = monitor.change(), if !more => {
                    self.holding.network_changed();
                    self.inbox.push_back(Input::Hint(match change {
                        Change::Links => Hint::Links,
                        Change::Other => Hint::Other,
                    }));
                }
                resources = self.watcher.changed(), if !more => self.inbox.push_back(Input::Changed(resources)),
                news = ports.changed(), if !more => self.ports_changed(news),
                () = self.host.server.neighbours_changed(), if !more => {
                    self.inbox.push_back(Input::Hint(Hint::Neighbours));
                }
                () = sleep_until(self.renew_at) => {
                    self.renew_if_due();
                    self.sweep();
                }
                () = sleep_to(alive_at) => {
                    notify(&[sd_notify::NotifyState::Watchdog]);
                    alive_at = watchdog.map(|every| Instant::now() + every);
                }
                () = sleep_to(self.moving.left()) => {}
                // The link, the jobs and the watchdog have their turns in between.
                () = yield_now(), if more => {}
                () = reading::arrivals(), if !more && self.reading.goes_on() => self.read_on(),
                signal = signals.next() => match signal {
                    Signal::Stop => break Ended::Stopped,
                    Signal::Reload => reload(),
                },
            }
        };
        if ended == Ended::Stopped {
            notify(&[sd_notify::NotifyState::Stopping]);
            tracing::info!("stopping");
        }
        self.stop().await;
        self.host.server.listener().end();
        self.holding.stop().await;
        Ok(ended)
    }

    /// Executes the machine's effects and feeds its inputs, up to a bound. Records written on the way
    /// become durable at the end; the machine hears of this in the next turn. Returns whether there is more
    /// to do now.
    fn turn(&mut self) -> bool {
        self.execute_all();
        for _ in 0..INPUTS_PER_TURN {
            let overdue = self.reading.is_overdue().then_some(Input::CaughtUp);
            let Some(input) = overdue.or_else(|| self.inbox.pop_front()) else { break };
            self.reading.handled(&input);
            self.machine.handle(MonoTime(self.start.elapsed()), input);
            self.execute_all();
        }
        self.sync();
        let machine = &self.machine;
        self.holding.rules(|device| machine.flow_table(device).is_some_and(|table| !table.is_empty()));
        !self.inbox.is_empty()
    }

    fn flow_said(&mut self, device: Bridge, input: FlowInput) {
        self.holding.heard(&device, &input);
        self.inbox.push_back(Input::Flow { device, input });
    }

    /// Drops copies of former files that no entry needs any more.
    fn sweep(&self) {
        // A copy in progress is in no entry yet, and after a crash the entries on disk count.
        if self.tasks.is_empty()
            && self.inbox.is_empty()
            && self.machine.is_on_disk()
            && let Err(error) = self.host.sweep(self.machine.entries())
        {
            tracing::warn!(%error, "cannot drop what was kept aside");
        }
    }

    fn execute_all(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            self.execute(effect);
        }
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Connect => self.connect(),
            Effect::Disconnect { reason } => self.disconnect(&reason),
            Effect::Send(up) => {
                let clock = self.clock.beside(&up, MonoTime(self.start.elapsed()), clock::wall());
                for up in [Some(up), clock].into_iter().flatten() {
                    self.send(up);
                }
            }
            Effect::Write { write, entry } => self.write_entry(write, &entry),
            Effect::Remove(resource) => self.state.remove_entry(resource),
            Effect::WriteEpoch { write, epoch } => self.write_epoch(write, epoch),
            Effect::Capture { key, spec, known, own } => self.capture(key, spec, known, own),
            Effect::Guard { job, before, theirs } => self.guard(job, before, theirs),
            Effect::Run { job, before, theirs } => self.begin(*job, before, theirs),
            Effect::Restore { key, undo } => self.restore(key, undo),
            Effect::Fallback { key, spec } => self.fallback(key, spec),
            Effect::Check { job, applied, before } => self.check(job, applied, before),
            Effect::Look { number, looks } => self.look(number, looks),
            Effect::Watch { resource, spec } => self.watch(resource, spec.as_deref()),
            Effect::Gather => self.gather(),
            Effect::Survey { held } => self.survey(held),
            Effect::FindRoom => self.find_room(),
            Effect::Cancel(key) => {
                self.runs.cancel(key);
                // The job's command goes on by itself.
                if self.commands.contains(&key) {
                    self.host.stop_run(key);
                }
            }
            Effect::Content { digest, step } => self.content(digest, step),
            Effect::KeepContents(digests) => self.contents.keep_only(&digests),
            Effect::Flow { device, effect } => {
                self.holding.asked(&device, &effect);
                let kept = self.machine.flow_table(&device);
                if let Some(input) = self.flows.execute(&device, effect, kept) {
                    self.inbox.push_back(Input::Flow { device, input });
                }
            }
            Effect::Join { number, token } => self.join_other(number, token),
            Effect::ChangeSite { number } => self.change_site(number),
            Effect::LocalEnded(outcome) => self.local_ended(outcome),
            Effect::Warn(warning) => tracing::warn!("{warning}"),
        }
    }

    fn send(&mut self, up: Up) {
        if self.connection.as_ref().is_some_and(|connection| !connection.send(up)) {
            self.disconnect("too much waits to be sent");
        }
    }

    fn content(&mut self, digest: ContentDigest, step: ContentStep) {
        let state = match step {
            ContentStep::Find => self.contents.find(digest),
            ContentStep::Append { offset, bytes } => self.contents.append(digest, offset, &bytes),
            ContentStep::Verify => {
                let contents = self.contents.clone();
                let verify = async move { Done::Verified { digest, state: contents.verify(digest).await } };
                self.tasks.spawn_local(verify);
                return;
            }
            ContentStep::Drop => return self.contents.remove(digest),
        };
        self.inbox.push_back(Input::Content { digest, state });
    }
}

async fn next_event(connection: &mut Option<Connection>) -> Option<LinkEvent> {
    match connection {
        Some(connection) => connection.events.recv().await,
        None => pending().await,
    }
}

async fn sleep_to(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => pending().await,
    }
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell systemd");
    }
}

fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().parse::<uuid::Uuid>().map_or(0, |id| id.as_u128())
}
