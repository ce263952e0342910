//! The driver loop: executes the machine's effects, passes events to the machine, and sleeps in between.
//!
//! The driver has one thread. Ledger records are written at once and made durable together, after the last
//! effect of a turn; only then does the machine hear that they are on disk. Jobs run as tasks, so that a slow
//! one delays nothing else.

mod clock;
mod hold;
mod local;
mod ports;
mod reach;
mod reading;
mod runs;
mod watch;

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_agent_core::{
    Agent, Before, Config, ContentState, ContentStep, Effect, Entry, FlowInput, Found, Hint, Input, Looked,
    Retry, RunError, WriteId,
};
use muster_agent_link::connection::{Connection, LinkEvent};
use muster_agent_link::join::EnrolError;
use muster_agent_link::{Identity, tls};
use muster_host::net::{Change, Monitor};
use muster_host::systemd::Systemd;
use muster_host::watch::Watcher;
use muster_shared::MonoTime;
use muster_shared::model::flow::Bridge;
use muster_shared::model::{CHALLENGE_BYTES, ContentDigest, Facts, Job, ReportKey, Spec, Up};
use rustls::ClientConfig;
use tokio::task::{Id, JoinSet, yield_now};
use tokio::time::{Instant, sleep_until};

use crate::contents::Contents;
use crate::flows::Flows;
use crate::host::{Host, NotRun, Ran, lacks_room, tried_again};
use crate::signals::{Signal, Signals};
use crate::state_dir::StateDir;
use clock::Clock;
use hold::Holding;
use local::Locals;
use reach::renew_in;
use reading::Reading;
use runs::Runs;

/// The time that running jobs get when the agent is told to stop; a job that has not ended runs again after
/// the restart.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// The time to restore an unconfirmed change at the end: longer than for other work, since perhaps nobody
/// starts the agent again, and the server is cut off. systemd waits for 30 s (`TimeoutStopSec`).
const PUT_BACK_WITHIN: Duration = Duration::from_secs(25);
/// Inputs handled in one turn: a packet may hold thousands of jobs, each a write of some milliseconds on a
/// slow disk, and the connection must not time out meanwhile.
const INPUTS_PER_TURN: usize = 32;

/// The result of a task of the driver.
enum Done {
    Captured { key: ReportKey, before: Result<Before, RunError> },
    Guarded { key: ReportKey, undo: Result<Before, RunError> },
    Ran { key: ReportKey, ran: Result<Ran, NotRun> },
    Restored { key: ReportKey, result: Result<(), String> },
    Checked { key: ReportKey, found: Result<Found, RunError> },
    Verified { digest: ContentDigest, state: Result<ContentState, RunError> },
    Looked { number: u64, looked: Vec<Looked> },
    Gathered(Result<Box<Facts>, String>),
    Renewed(Box<Result<Identity, EnrolError>>),
}

/// The agent of this server.
pub struct Driver {
    machine: Agent,
    state: StateDir,
    identity: Identity,
    tls: Arc<ClientConfig>,
    host: Arc<Host>,
    contents: Contents,
    flows: Flows,
    holding: Holding,
    send_lldp: bool,
    watcher: Watcher,
    connection: Option<Connection>,
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
    renew_at: Instant,
    inbox: VecDeque<Input>,
    /// The progress of reading arrived messages since jobs could last begin.
    reading: Reading,
    written: Vec<(WriteId, Result<(), String>)>,
    /// A write was refused for want of room.
    no_room: Option<String>,
    start: Instant,
    clock: Clock,
}

impl Driver {
    /// Loads the ledger.
    ///
    /// # Errors
    /// The state directory cannot be read, or its keys do not fit.
    pub fn new(
        state: StateDir,
        identity: Identity,
        host: Host,
        ovs: PathBuf,
        confirm_timeout: u32,
        send_lldp: bool,
        systemd: Systemd,
    ) -> anyhow::Result<Self> {
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
        let tls = identity.tls()?;
        let contents = Contents::new(state.fetch());
        let host = Arc::new(host);
        let holding = Holding::start(Arc::clone(&host), identity.addresses.clone());
        Ok(Self {
            machine,
            tls,
            host,
            holding,
            send_lldp,
            watcher: Watcher::new(systemd),
            contents,
            flows,
            connection: None,
            tasks: JoinSet::new(),
            runs: Runs::default(),
            locals: Locals::open(&state, confirm_timeout),
            commands: BTreeSet::new(),
            ended: Vec::new(),
            renewing: false,
            connect_renewed: false,
            prove: false,
            prove_from: Instant::now(),
            renew_at: renew_in(&identity),
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

    /// Runs until told to stop.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub async fn run(mut self, mut signals: Signals, reload: impl Fn()) -> anyhow::Result<()> {
        tracing::info!(node = %self.identity.node, site = %self.identity.site, "agent started");
        let mut monitor = Monitor::open(&self.host.network);
        let mut ports = self.ports();
        let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        let mut alive_at = watchdog.map(|every| Instant::now() + every);
        notify(&[sd_notify::NotifyState::Ready]);
        loop {
            let more = self.turn();
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
                given = self.locals.given(), if !more => self.given(given),
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
                // The link, the jobs and the watchdog have their turns in between.
                () = yield_now(), if more => {}
                () = reading::arrivals(), if !more && self.reading.goes_on() => self.read_on(),
                signal = signals.next() => match signal {
                    Signal::Stop => break,
                    Signal::Reload => reload(),
                },
            }
        }
        notify(&[sd_notify::NotifyState::Stopping]);
        tracing::info!("stopping");
        self.stop().await;
        self.host.server.listener().end();
        self.holding.stop().await;
        Ok(())
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
            Effect::Write { write, entry } => {
                self.ended.extend(self.commands.iter().filter(|key| has_ended(&entry, **key)));
                let mut result = self.state.write_entry(&entry);
                if removes(&entry) && self.makes_room(&result) {
                    result = self.state.write_entry(&entry);
                }
                self.written(write, result);
            }
            Effect::Remove(resource) => self.state.remove_entry(resource),
            Effect::WriteEpoch { write, epoch } => {
                let mut result = self.state.write_epoch(epoch);
                if self.makes_room(&result) {
                    result = self.state.write_epoch(epoch);
                }
                self.written(write, result);
            }
            Effect::Capture { key, spec, known, own } => {
                let host = Arc::clone(&self.host);
                let known = self.known_locally(key, known);
                let task = async move {
                    let before = match known {
                        Ok(known) => host.capture(key.resource, &spec, known, own).await,
                        Err(error) => Err(error),
                    };
                    Done::Captured { key, before }
                };
                self.runs.begin(key, self.tasks.spawn_local(task));
            }
            Effect::Guard { job, before, theirs } => {
                let (key, host) = (job.key(), Arc::clone(&self.host));
                let guard =
                    async move { Done::Guarded { key, undo: host.guard(&job, before, &theirs).await } };
                self.runs.begin(key, self.tasks.spawn_local(guard));
            }
            Effect::Run { job, before, theirs } => self.begin(*job, before, theirs),
            Effect::Restore { key, undo } => {
                tracing::warn!(resource = %key.resource, generation = %key.generation, "putting back");
                let host = Arc::clone(&self.host);
                let restore = async move { Done::Restored { key, result: host.restore(&undo).await } };
                self.runs.begin(key, self.tasks.spawn_local(restore));
            }
            Effect::Fallback { key, spec } => {
                let host = Arc::clone(&self.host);
                let fallback = async move { Done::Restored { key, result: host.fallback(&spec).await } };
                self.runs.begin(key, self.tasks.spawn_local(fallback));
            }
            Effect::Check { job, applied, before } => {
                let (key, host) = (job.key(), Arc::clone(&self.host));
                tracing::info!(resource = %job.resource, generation = %job.generation, "check");
                let check = async move {
                    Done::Checked {
                        key,
                        found: host.check(job.resource, &job.spec, applied.as_ref(), before).await,
                    }
                };
                self.runs.begin(key, self.tasks.spawn_local(check));
            }
            Effect::Look { number, looks } => self.look(number, looks),
            Effect::Watch { resource, spec } => self.watch(resource, spec.as_deref()),
            Effect::Gather => self.gather(),
            Effect::FindRoom => {
                let found = self.state.find_room().map_err(|error| self.full(&error));
                self.inbox.push_back(Input::Room(found));
            }
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
            Effect::LocalEnded(outcome) => self.local_ended(outcome),
            Effect::Warn(warning) => tracing::warn!("{warning}"),
        }
    }

    fn send(&mut self, up: Up) {
        if self.connection.as_ref().is_some_and(|connection| !connection.send(up)) {
            self.disconnect("too much waits to be sent");
        }
    }

    /// Makes the written records durable, and tells the machine.
    fn sync(&mut self) {
        if self.written.is_empty() {
            return;
        }
        let synced = self.state.sync_ledger().map_err(|error| self.refused(&error));
        if let Some(reason) = self.no_room.take() {
            self.inbox.push_back(Input::Room(Err(reason)));
        }
        for key in self.ended.drain(..) {
            let is_written = self.written.iter().all(|(_, result)| result.is_ok());
            if synced.is_ok() && is_written && self.commands.remove(&key) {
                self.host.forget_run(key);
            }
        }
        for (write, result) in self.written.drain(..) {
            self.inbox.push_back(match result.and(synced.clone()) {
                Ok(()) => Input::Written(write),
                Err(reason) => Input::WriteFailed { write, reason },
            });
        }
    }

    fn written(&mut self, write: WriteId, result: io::Result<()>) {
        let result = result.map_err(|error| self.refused(&error));
        self.written.push((write, result));
    }

    fn refused(&mut self, error: &io::Error) -> String {
        if lacks_room(error) {
            self.no_room = Some(self.full(error));
        }
        error.to_string()
    }

    fn full(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.state.path().display())
    }

    /// Whether a write that was refused for want of room can be repeated, now that the reserve was given up
    /// for it.
    fn makes_room(&mut self, result: &io::Result<()>) -> bool {
        let Some(error) = result.as_ref().err().filter(|error| lacks_room(*error)) else { return false };
        self.no_room = Some(self.full(error));
        self.state.spend_reserve()
    }

    fn begin(&mut self, job: Job, before: Option<Before>, theirs: Vec<Before>) {
        let key = job.key();
        tracing::info!(
            resource = %job.resource, generation = %job.generation, attempt = job.attempt.0,
            action = ?job.action, "job"
        );
        if matches!(job.spec, Spec::Deployment(_)) {
            self.commands.insert(key);
        }
        let host = Arc::clone(&self.host);
        let run = self.tasks.spawn_local(async move {
            let ran = host.run(&job, before, theirs).await;
            Done::Ran { key, ran }
        });
        self.runs.begin(key, run);
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

    fn done(&mut self, task: Id, done: Done) {
        muster_host::sys::give_back_memory();
        match done {
            Done::Captured { key, before } => {
                if self.runs.ended(key, task) {
                    self.inbox.push_back(Input::Captured { key, before });
                }
            }
            Done::Guarded { key, undo } => {
                if self.runs.ended(key, task) {
                    let (undo, challenge) = match challenge() {
                        Ok(challenge) => (undo, challenge),
                        Err(error) => (Err(error), Vec::new()),
                    };
                    self.inbox.push_back(Input::Guarded { key, undo, challenge });
                }
            }
            Done::Restored { key, result } => {
                if self.runs.ended(key, task) {
                    self.locals.restored(key, &result);
                    self.inbox.push_back(Input::Restored { key, result });
                }
            }
            Done::Ran { key, ran } => {
                if self.runs.ended(key, task) {
                    self.ran(key, ran);
                }
            }
            Done::Checked { key, found } => {
                if self.runs.ended(key, task) {
                    self.inbox.push_back(Input::Checked { key, found });
                }
            }
            Done::Verified { digest, state } => self.inbox.push_back(Input::Content { digest, state }),
            Done::Looked { number, looked } => self.inbox.push_back(Input::Looked { number, looked }),
            Done::Gathered(facts) => self.inbox.push_back(Input::Gathered(facts)),
            Done::Renewed(renewed) => self.renewed(*renewed),
        }
    }

    fn ran(&mut self, key: ReportKey, ran: Result<Ran, NotRun>) {
        let (outcome, before, touched) = match ran {
            Ok(ran) => (Ok(ran.observed), ran.before, ran.touched),
            Err(NotRun { error, touched }) => {
                let reason = if self.commands.contains(&key) {
                    // The following lines were written by a command, and may be secret.
                    error.reason.lines().next().unwrap_or_default()
                } else {
                    &error.reason
                };
                let why = crate::log::unquoted(reason);
                tracing::warn!(resource = %key.resource, generation = %key.generation, "{why}");
                (Err(error), None, touched)
            }
        };
        self.locals.ran(key, touched);
        self.inbox.push_back(Input::Ran { key, outcome, before, touched });
    }

    /// Waits a while for running jobs, undoes unconfirmed changes, and sends nothing any more.
    async fn stop(&mut self) {
        self.connection = None;
        self.inbox.push_back(Input::Stop);
        let begun = Instant::now();
        let end = async {
            loop {
                self.turn_to_the_end();
                if self.runs.is_empty() && !self.machine.is_guarding() {
                    break;
                }
                // A failed restore is tried again after a while.
                let wake = self.machine.poll_timeout().map(|(at, _)| self.start + at.0);
                let is_guarding = self.machine.is_guarding();
                let limit = if is_guarding { PUT_BACK_WITHIN } else { STOP_WITHIN };
                tokio::select! {
                    Some(done) = self.tasks.join_next_with_id() => {
                        if let Ok((task, done)) = done {
                            self.done(task, done);
                        }
                    }
                    (device, input) = self.flows.said() => self.flow_said(device, input),
                    () = sleep_to(wake), if is_guarding => self.inbox.push_back(Input::Timeout),
                    () = sleep_until(begun + limit) => return false,
                }
            }
            true
        };
        if !end.await {
            tracing::warn!("a job did not end in time: it runs again, or is put back, when the agent starts");
        }
        self.sync();
    }

    /// Like [`Driver::turn`], without the controller.
    fn turn_to_the_end(&mut self) {
        loop {
            while let Some(input) = self.inbox.pop_front() {
                self.machine.handle(MonoTime(self.start.elapsed()), input);
            }
            while let Some(effect) = self.machine.poll_effect() {
                // Writes and work under way still matter; nothing new may begin.
                match effect {
                    Effect::Write { .. }
                    | Effect::Cancel(_)
                    | Effect::Flow { .. }
                    | Effect::LocalEnded(_)
                    | Effect::Restore { .. }
                    | Effect::Fallback { .. } => {
                        self.execute(effect);
                    }
                    _ => {}
                }
            }
            self.sync();
            if self.inbox.is_empty() {
                break;
            }
        }
    }
}

fn challenge() -> Result<Vec<u8>, RunError> {
    let random = tls::random::<CHALLENGE_BYTES>();
    let failed =
        |error: rustls::Error| RunError { reason: format!("no random bytes: {error}"), retry: Retry::Later };
    random.map(|bytes| bytes.to_vec()).map_err(failed)
}

/// Whether the entry's purpose frees room: a removal, from its acceptance to its end.
fn removes(entry: &Entry) -> bool {
    let mut jobs = [&entry.current, &entry.next].into_iter().flatten();
    !entry.exists() || jobs.any(|accepted| accepted.job.action.removes())
}

/// The entry has the job's final outcome, so the end of its run is no longer needed.
fn has_ended(entry: &Entry, key: ReportKey) -> bool {
    let jobs = [&entry.current, &entry.next].into_iter().flatten().map(|accepted| accepted.job.key());
    let mut open = jobs.chain(tried_again(entry));
    entry.resource == key.resource && !open.any(|other| other.generation == key.generation)
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
