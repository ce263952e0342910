//! Decides when resources are compared with their last good state while no job works on them, and reports
//! drift: others may change what Muster made.
//!
//! ```text
//!   hint, scan, greeting, end of a job ─▶ due ─time, nothing of ours under way─▶ Look ─▶ Looked ─▶ Drift, if it is news
//! ```
//!
//! Each lane is watched separately. **Invariants.** A hint only wakes. In the network lane the agent then
//! looks at everything, since one change there is often many; in other lanes it looks at the resources that
//! the hint names. The agent does not look while a job of the lane runs, is confirmed or is undone, and
//! discards what it saw meanwhile: our own changes are no drift. Reports are remembered per connection, so
//! that each is sent once on a connection and again on the next. Each heartbeat carries the digest of all
//! drift; a controller that misses something asks for all of it. Nothing here is durable.
//!
//! Absent: where hints come from (`agent/host/src/watch.rs`, `agent/host/src/net/monitor.rs`), and whether
//! drift is corrected. The controller decides that (`controller/engine/src/drift/correct.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::model::{Drift, DriftState, Lane, Outcome, Report, Up};
use muster_shared::wire::{DRIFT_REASON_MAX, DRIFTS_MAX};
use muster_shared::{Generation, MonoTime, ResourceId};

use crate::effects::Effects;
use crate::face::{Effect, Found, Look, Looked, Retry, RunError};
use crate::ledger::{Entry, Ledger};
use crate::random::Random;

/// The pause after a hint, since one change is seldom alone. A person hardly notices it.
const SETTLE: Duration = Duration::from_millis(50);
/// The least time between looks: each command that an operator types is still reported by itself.
const SPACING: Duration = Duration::from_millis(250);
/// While hints keep coming, one look in this time once the burst is used up: a routing daemon at work must
/// not keep this agent at work.
const STORM_SPACING: Duration = Duration::from_secs(2);
/// The number of looks that may follow each other at once, times the spacing in a storm.
const BURST: Duration = STORM_SPACING.saturating_mul(8);
/// The pause after a look, in multiples of its duration: a host with a million routes spends a tenth of a
/// processor at most.
const REST: u32 = 10;
/// The interval of looks without a hint, in heartbeats, varied by a tenth so that a fleet does not look in
/// step. A hint may be lost, and some changes give none. The controller stretches heartbeats with its fleet.
const SCAN_HEARTBEATS: u32 = 5;
/// Bounds of the scan interval: more often would be no scan, and less often than hourly would earn no trust.
const SCAN_MIN: Duration = Duration::from_secs(5);
const SCAN_MAX: Duration = Duration::from_secs(3600);
/// After a greeting, the agent looks at everything within this fraction of a heartbeat, and at least this
/// time: a fleet that reconnects must not report all at once.
const GREETING_PART: u32 = 120;
const GREETING_MIN: Duration = Duration::from_millis(500);
const GREETING_MAX: Duration = Duration::from_secs(30);
/// The host answers in milliseconds, for many packages in minutes; a host that does not answer is
/// asked again.
const LOOK_WITHIN: Duration = Duration::from_secs(60);
const LOOK_WITHIN_SLOW: Duration = Duration::from_secs(600);
/// The pause before a failed look is repeated.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A report of a resource: the generation it was compared with, its state, and the reason.
type ReportedDrift = (Generation, DriftState, String);

/// The lanes, and the reports of their resources.
#[derive(Debug)]
pub(crate) struct Watches {
    lanes: [Watch; Lane::ALL.len()],
    /// The number of the latest look, over all lanes.
    number: u64,
    said: BTreeMap<ResourceId, ReportedDrift>,
    /// The exclusive or over the drift in `said`.
    digest: u128,
    scan_every: Duration,
}

/// A lane. See the module's diagram.
#[derive(Debug)]
struct Watch {
    lane: Lane,
    random: Random,
    /// When to look because something may have changed.
    due: Option<MonoTime>,
    /// The resources to look at then.
    wanted: Wanted,
    /// When to look at everything in any case.
    scan: MonoTime,
    /// A look is due but waits, because one of our own jobs is under way.
    held: bool,
    /// A job of the lane was running after the last input.
    was_busy: bool,
    round: Option<Round>,
    /// No look before this time.
    rest_until: MonoTime,
    /// Each look adds [`STORM_SPACING`] to this time; it may lie as far ahead as [`BURST`].
    paid_until: MonoTime,
}

/// The resources to look at when a look is due.
#[derive(Clone, Debug)]
enum Wanted {
    Some(BTreeSet<ResourceId>),
    All,
}

/// A look that waits for its answer.
#[derive(Debug)]
struct Round {
    number: u64,
    since: MonoTime,
    of: Wanted,
    /// A job of our own began meanwhile, so the answer is discarded.
    void: bool,
}

impl Watches {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            lanes: Lane::ALL.map(|lane| Watch::new(seed ^ 0x7761_7463_6800_0000 ^ lane as u64, lane)),
            number: 0,
            said: BTreeMap::new(),
            digest: 0,
            scan_every: SCAN_MAX,
        }
    }

    /// The network may have changed.
    pub(crate) fn network_hint(&mut self, now: MonoTime) {
        let networks = self.lanes.iter_mut().filter(|watch| watch.lane == Lane::Network);
        networks.for_each(|watch| watch.hint(now, &Wanted::All));
    }

    /// The digest of the drift reported on this connection: see [`Drift::digest`].
    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }

    /// A new connection, without reports yet: looks at everything soon.
    fn begin_anew(&mut self, now: MonoTime, within: Duration) {
        self.said.clear();
        self.digest = 0;
        for watch in &mut self.lanes {
            watch.held = false;
            watch.wanted = Wanted::All;
            watch.due = Some(now + watch.random.below(within));
            watch.scan = now + self.scan_every;
        }
    }

    fn say(&mut self, resource: ResourceId, said: Option<ReportedDrift>) {
        let sum = |said: Option<&ReportedDrift>| {
            said.filter(|_| !resource.is_local())
                .map_or(0, |(generation, state, _)| Drift::digest(resource, *generation, *state))
        };
        self.digest ^= sum(said.as_ref());
        let was = match said {
            Some(said) => self.said.insert(resource, said),
            None => self.said.remove(&resource),
        };
        self.digest ^= sum(was.as_ref());
    }
}

impl Watch {
    fn new(seed: u64, lane: Lane) -> Self {
        Self {
            lane,
            random: Random::new(seed),
            due: None,
            wanted: Wanted::All,
            scan: MonoTime::default(),
            held: false,
            was_busy: false,
            round: None,
            rest_until: MonoTime::default(),
            paid_until: MonoTime::default(),
        }
    }

    fn hint(&mut self, now: MonoTime, at: &Wanted) {
        let burst_until = MonoTime(self.paid_until.0.saturating_sub(BURST));
        self.want(at);
        self.due_by(self.rest_until.max(burst_until).max(now + SETTLE));
    }

    /// Adds resources to those wanted already, if a look is due.
    fn want(&mut self, at: &Wanted) {
        match (self.due, &mut self.wanted, at) {
            (Some(_), Wanted::Some(wanted), Wanted::Some(more)) => wanted.extend(more),
            (Some(_), Wanted::All, _) => {}
            (None, ..) | (_, _, Wanted::All) => self.wanted = at.clone(),
        }
    }

    fn due_by(&mut self, at: MonoTime) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// The resources to look at now, if a look is due and would not see our own work.
    fn due(
        &mut self,
        now: MonoTime,
        is_heard: bool,
        is_running: bool,
        scan_every: Duration,
        ledger: &Ledger,
    ) -> Option<Wanted> {
        let is_network = self.lane == Lane::Network;
        if is_running {
            self.was_busy = true;
        } else if std::mem::take(&mut self.was_busy) && is_network {
            // This also replaces a look that was due before: the change just made has to settle.
            (self.due, self.held) = (None, false);
            self.hint(now, &Wanted::All);
        }
        let in_lane = ledger.in_lane(self.lane);
        if !is_heard || in_lane.is_empty() {
            self.round = None;
            return None;
        }
        let within = self.within();
        if let Some(round) = self.round.take_if(|round| now >= round.since + within) {
            self.hint(now, &round.of);
        }
        let is_scan = now >= self.scan;
        let is_due = is_scan || self.due.is_some_and(|due| now >= due);
        if self.round.is_none() && !is_due {
            return None;
        }
        // In the network lane, a waiting job may be half done from before a restart.
        let is_busy = is_running || is_network && in_lane.iter().any(|resource| is_at(*resource, ledger));
        if let Some(round) = &mut self.round {
            round.void |= is_busy;
            return None;
        }
        if is_busy {
            if is_scan {
                self.want(&Wanted::All);
                self.scan = now + scan_every;
            }
            self.due_by(now);
            self.held = true;
            return None;
        }
        self.held = false;
        Some(if is_scan { Wanted::All } else { self.wanted.clone() })
    }

    fn begin(&mut self, now: MonoTime, number: u64, of: Wanted, scan_every: Duration) {
        self.rest_until = now + SPACING;
        self.paid_until = self.paid_until.min(now + BURST).max(now) + STORM_SPACING;
        if matches!(of, Wanted::All) {
            self.scan = now + scan_every.mul_f64(0.9) + self.random.below(scan_every / 5);
        }
        self.round = Some(Round { number, since: now, of, void: false });
        self.due = None;
    }

    fn within(&self) -> Duration {
        match self.lane {
            Lane::Network => LOOK_WITHIN,
            Lane::Service | Lane::Package | Lane::Deployment => LOOK_WITHIN_SLOW,
        }
    }

    fn timeout(&self) -> (MonoTime, &'static str) {
        match (&self.round, self.due) {
            (Some(round), _) => (round.since + self.within(), "no answer to a look"),
            (None, Some(due)) if due < self.scan && !self.held => (due, "look"),
            (None, _) => (self.scan, "look without a hint"),
        }
    }
}

impl Watches {
    /// The controller listens: reports the state of all resources.
    pub(crate) fn greeted(&mut self, now: MonoTime, heartbeat: Duration) {
        self.scan_every = (heartbeat * SCAN_HEARTBEATS).clamp(SCAN_MIN, SCAN_MAX);
        let within = (heartbeat / GREETING_PART).clamp(GREETING_MIN, GREETING_MAX);
        self.begin_anew(now, within);
    }

    /// The controller missed a report.
    pub(crate) fn say_all_again(&mut self, now: MonoTime) {
        self.begin_anew(now, GREETING_MIN);
    }

    /// These resources may have changed.
    pub(crate) fn changed(&mut self, now: MonoTime, resources: &BTreeSet<ResourceId>, ledger: &Ledger) {
        for watch in &mut self.lanes {
            let in_lane = ledger.in_lane(watch.lane);
            let of_lane: BTreeSet<ResourceId> =
                resources.iter().filter(|resource| in_lane.contains(resource)).copied().collect();
            if !of_lane.is_empty() {
                watch.hint(now, &Wanted::Some(of_lane));
            }
        }
    }

    /// The controller has a new desired state for the resource: the next look is reported even if
    /// nothing changed.
    pub(crate) fn unsay(&mut self, now: MonoTime, resource: ResourceId, ledger: &Ledger) {
        if self.said.contains_key(&resource) {
            self.say(resource, None);
            self.look_again(now, resource, ledger);
        }
    }

    /// A job's outcome is reported separately; the state that the job made counts as in sync.
    pub(crate) fn ended(&mut self, now: MonoTime, report: &Report, ledger: &Ledger) {
        let resource = report.key.resource;
        let entry = ledger.get(resource).filter(|_| !ledger.is_taken(resource));
        let Some(applied) = entry.and_then(|entry| entry.applied.as_ref()) else { return };
        // The network may still be settling; the agent looks at it after each of its jobs.
        if applied.spec.lane() == Lane::Network {
            return;
        }
        if matches!(report.outcome, Outcome::Done(_)) && applied.generation == report.key.generation {
            let said = (applied.generation, DriftState::InSync, String::new());
            self.say(resource, Some(said));
        } else {
            self.look_again(now, resource, ledger);
        }
    }

    fn look_again(&mut self, now: MonoTime, resource: ResourceId, ledger: &Ledger) {
        let Some(applied) = ledger.get(resource).and_then(|entry| entry.applied.as_ref()) else { return };
        let lane = applied.spec.lane();
        let at = match lane {
            Lane::Network => Wanted::All,
            Lane::Service | Lane::Package | Lane::Deployment => Wanted::Some([resource].into()),
        };
        let watches = self.lanes.iter_mut().filter(|watch| watch.lane == lane);
        watches.for_each(|watch| watch.hint(now, &at));
    }

    /// Begins each look that is due, unless the look would see our own work. Called after every input.
    /// `is_running`: a job of the lane runs, or a restore of its state is under way.
    pub(crate) fn look_if_due(
        &mut self,
        now: MonoTime,
        is_heard: bool,
        is_running: impl Fn(Lane) -> bool,
        ledger: &Ledger,
        effects: &mut Effects,
    ) {
        let (scan_every, mut number) = (self.scan_every, self.number);
        for watch in &mut self.lanes {
            if let Some(of) = watch.due(now, is_heard, is_running(watch.lane), scan_every, ledger) {
                number += 1;
                effects.push(Effect::Look { number, looks: looks(&of, ledger.in_lane(watch.lane), ledger) });
                watch.begin(now, number, of, scan_every);
            }
        }
        self.number = number;
    }

    /// Handles the answer to [`Effect::Look`].
    pub(crate) fn looked(
        &mut self,
        now: MonoTime,
        number: u64,
        looked: Vec<Looked>,
        ledger: &Ledger,
        effects: &mut Effects,
    ) {
        let is_it = |round: &mut Round| round.number == number;
        let rounds = self.lanes.iter_mut().enumerate();
        let mut found = rounds.filter_map(|(at, watch)| Some((at, watch.round.take_if(is_it)?)));
        let Some((at, round)) = found.next() else { return };
        let took = now.since(round.since);
        let watch = &mut self.lanes[at];
        let lane = watch.lane;
        watch.rest_until = watch.rest_until.max(now + took.saturating_mul(REST));
        if round.void {
            return watch.hint(now, &round.of);
        }
        let mut news = Vec::new();
        let mut unknown = BTreeSet::new();
        for Looked { resource, generation, found } in looked {
            let entry = ledger.get(resource).filter(|_| !ledger.is_taken(resource));
            let applied = entry.and_then(|entry| entry.applied.as_ref());
            if applied.is_none_or(|applied| applied.generation != generation) || is_at(resource, ledger) {
                continue;
            }
            let Some((state, reason)) = stands(found) else {
                unknown.insert(resource);
                continue;
            };
            let said = (generation, state, reason);
            if self.said.get(&resource) != Some(&said) {
                self.say(resource, Some(said.clone()));
                match resource.is_local() {
                    false => news.push(Drift { resource, generation, state, reason: said.2 }),
                    // The controller has no row for this resource.
                    true if state != DriftState::InSync => {
                        effects.warn(format!(
                            "the document given on this server is not in force any more: {}",
                            said.2
                        ));
                    }
                    true => {}
                }
            }
        }
        if !unknown.is_empty() {
            let watch = &mut self.lanes[at];
            watch.want(&if lane == Lane::Network { Wanted::All } else { Wanted::Some(unknown) });
            watch.due_by(now + LOOK_AGAIN);
        }
        for page in news.chunks(DRIFTS_MAX) {
            effects.send(Up::Drift(page.to_vec()));
        }
    }

    /// Tells the host what to watch, and drops states that need no further report. Called after every input.
    pub(crate) fn watch_applied(&mut self, ledger: &mut Ledger, effects: &mut Effects) {
        for resource in ledger.take_changed() {
            let applied = ledger.get(resource).and_then(|entry| entry.applied.as_ref());
            let spec = applied.map(|applied| Box::new(applied.spec.clone()));
            if spec.is_none() {
                self.say(resource, None);
            }
            effects.push(Effect::Watch { resource, spec });
        }
    }

    /// When a look is due, while the controller listens.
    pub(crate) fn timeout(&self, ledger: &Ledger) -> Option<(MonoTime, &'static str)> {
        let watched = self.lanes.iter().filter(|watch| !ledger.in_lane(watch.lane).is_empty());
        watched.map(Watch::timeout).min_by_key(|(at, _)| *at)
    }
}

/// Whether a job of this resource is under way, or its outcome is being written.
fn is_at(resource: ResourceId, ledger: &Ledger) -> bool {
    let has_job = |entry: &Entry| entry.current.is_some() || entry.next.is_some();
    ledger.get(resource).is_some_and(has_job) || ledger.ending().any(|key| key.resource == resource)
}

fn looks(of: &Wanted, in_lane: &BTreeSet<ResourceId>, ledger: &Ledger) -> Vec<Look> {
    let is_wanted = |resource: &&ResourceId| match of {
        Wanted::All => true,
        Wanted::Some(wanted) => wanted.contains(resource),
    };
    let entries = in_lane.iter().filter(is_wanted).filter_map(|resource| ledger.get(*resource));
    let looks = entries
        // The taker of a resource may have made something else of it; a resource with a job is looked at
        // after that job.
        .filter(|entry| entry.current.is_none() && entry.next.is_none())
        .filter(|entry| !ledger.is_taken(entry.resource))
        .filter_map(|entry| {
            let applied = entry.applied.as_ref()?;
            Some(Look {
                resource: entry.resource,
                generation: applied.generation,
                spec: applied.spec.clone(),
                before: entry.before().cloned(),
            })
        });
    looks.collect()
}

/// The drift state to report; `None` if the look failed.
fn stands(found: Result<Found, RunError>) -> Option<(DriftState, String)> {
    let (state, mut reason) = match found {
        Ok(Found::AsDesired) => (DriftState::InSync, String::new()),
        Ok(Found::Differs { missing: true, reason }) => (DriftState::Missing, reason),
        Ok(Found::Differs { missing: false, reason }) => (DriftState::Drifted, reason),
        // The state was applied once, so the host has changed: an interface that a mapping names is gone.
        Err(RunError { reason, retry: Retry::Never }) => (DriftState::Drifted, reason),
        Err(RunError { retry: Retry::Later | Retry::WhenRoom, .. }) => return None,
    };
    reason.truncate(reason.floor_char_boundary(DRIFT_REASON_MAX));
    Some((state, reason))
}
