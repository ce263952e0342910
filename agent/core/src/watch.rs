//! How resources stand while no job is at them: somebody else may change what Muster made.
//!
//! ```text
//!   hint, scan, greeting, end of a job ─▶ due ─time, nothing of ours under way─▶ Look ─▶ Looked ─▶ Drift, if it is news
//! ```
//!
//! Each lane is watched by itself. **Invariants.** A hint only wakes: of the network all is looked at then, for one change
//! there is many; of the rest what the hint names. Nothing is looked at while a job of its lane runs, is confirmed or is
//! undone, and what was seen meanwhile does not count: our own changes are no drift. What was said is remembered for the
//! connection, so that it is said once there and again on the next one; the digest of what differs goes with each
//! heartbeat, and who misses something asks for all. Nothing of it is durable.
//!
//! Absent: what a hint is made of, and how a look is kept cheap (the host knows).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::model::{Drift, DriftState, Lane, Outcome, Report, Up};
use muster_shared::wire::{DRIFT_REASON_MAX, DRIFTS_MAX};
use muster_shared::{Generation, MonoTime, ResourceId};

use crate::backoff::Random;
use crate::effects::Effects;
use crate::face::{Effect, Found, Look, Looked, Retry, RunError};
use crate::ledger::{Entry, Ledger};

/// After a hint, for one change is seldom alone. A person hardly notices it.
const SETTLE: Duration = Duration::from_millis(50);
/// Between looks: somebody who types commands is told of each.
const SPACING: Duration = Duration::from_millis(250);
/// While hints keep coming, one look in this time once the burst is used up: a routing daemon at work must not keep
/// this agent at work.
const STORM_SPACING: Duration = Duration::from_secs(2);
/// Looks that may follow each other at once, times the spacing in a storm.
const BURST: Duration = STORM_SPACING.saturating_mul(8);
/// What a look took, so many times over, is rest: a host with a million routes spends a tenth of a processor at most.
const REST: u32 = 10;
/// Without any hint, for one may be lost and not everything gives one: after so many heartbeats, a tenth more or less, so
/// that a fleet does not look in step. The controller stretches heartbeats with its fleet.
const SCAN_HEARTBEATS: u32 = 5;
/// However it counts heartbeats: more often is no scan any more, and less often than each hour none that anybody trusts.
const SCAN_MIN: Duration = Duration::from_secs(5);
const SCAN_MAX: Duration = Duration::from_secs(3600);
/// After a greeting all is looked at within this part of a heartbeat, and at least that time: a fleet that reconnects does
/// not speak all at once.
const GREETING_PART: u32 = 120;
const GREETING_MIN: Duration = Duration::from_millis(500);
const GREETING_MAX: Duration = Duration::from_secs(30);
/// The host answers in milliseconds, of many packages in minutes; one that does not is asked again.
const LOOK_WITHIN: Duration = Duration::from_secs(60);
const LOOK_WITHIN_SLOW: Duration = Duration::from_secs(600);
/// What could not be looked at is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What was said of a resource: the generation it was compared with, how it stood, and the reason.
type ReportedDrift = (Generation, DriftState, String);

/// All lanes, and what was said of their resources.
#[derive(Debug)]
pub(crate) struct Watches {
    lanes: [Watch; Lane::ALL.len()],
    /// Of looks, in all lanes.
    number: u64,
    said: BTreeMap<ResourceId, ReportedDrift>,
    /// Exclusive or over what differs of `said`.
    digest: u128,
    scan_every: Duration,
}

/// One lane. See the module's diagram.
#[derive(Debug)]
struct Watch {
    lane: Lane,
    random: Random,
    /// When to look, for something may have changed.
    due: Option<MonoTime>,
    /// What at; the whole lane where it holds none.
    wanted: Wanted,
    /// When to look at all in any case.
    scan: MonoTime,
    /// A look is due, and a job of ours is under way.
    held: bool,
    /// A job of the lane was running after the last input.
    was_busy: bool,
    round: Option<Round>,
    /// Not before.
    rest_until: MonoTime,
    /// Each look puts it off by [`STORM_SPACING`]; it may lie as far ahead as [`BURST`].
    paid_until: MonoTime,
}

/// The resources to look at when a look is due.
#[derive(Clone, Debug)]
enum Wanted {
    Some(BTreeSet<ResourceId>),
    All,
}

/// A look that is not answered yet.
#[derive(Debug)]
struct Round {
    number: u64,
    since: MonoTime,
    of: Wanted,
    /// Something of ours began meanwhile.
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

    /// Something of the network may have changed.
    pub(crate) fn network_hint(&mut self, now: MonoTime) {
        let networks = self.lanes.iter_mut().filter(|watch| watch.lane == Lane::Network);
        networks.for_each(|watch| watch.hint(now, &Wanted::All));
    }

    /// Of what differs, as it was said on this connection: see [`Drift::digest`].
    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }

    /// A new connection: nothing was said on it yet. All is looked at soon.
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

    /// Together with what is wanted already, if a look is due at all.
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
        // Of the network a job that waits may be half done, before a restart.
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
    /// The controller listens: it is told how all stands.
    pub(crate) fn greeted(&mut self, now: MonoTime, heartbeat: Duration) {
        self.scan_every = (heartbeat * SCAN_HEARTBEATS).clamp(SCAN_MIN, SCAN_MAX);
        let within = (heartbeat / GREETING_PART).clamp(GREETING_MIN, GREETING_MAX);
        self.begin_anew(now, within);
    }

    /// The controller has not heard all that was said.
    pub(crate) fn say_all_again(&mut self, now: MonoTime) {
        self.begin_anew(now, GREETING_MIN);
    }

    /// Something of these may have changed.
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

    /// The controller has a new desired state for the resource: whatever follows is reported again.
    pub(crate) fn unsay(&mut self, now: MonoTime, resource: ResourceId, ledger: &Ledger) {
        if self.said.contains_key(&resource) {
            self.say(resource, None);
            self.look_again(now, resource, ledger);
        }
    }

    /// A job's outcome is told by itself; what it made is as it should be.
    pub(crate) fn ended(&mut self, now: MonoTime, report: &Report, ledger: &Ledger) {
        let resource = report.key.resource;
        let entry = ledger.get(resource).filter(|_| !ledger.is_taken(resource));
        let Some(applied) = entry.and_then(|entry| entry.applied.as_ref()) else { return };
        // The network may still be coming to rest, and is looked at after each of its jobs.
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

    /// After every input: begins each look that is due, unless it would see our own work. `is_running`: a job of the lane
    /// runs, or something of it is being put back.
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

    /// The answer to [`Effect::Look`].
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
                    // The controller has no row of it.
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

    /// After every input: tells the host what to watch, and drops states that need no further report.
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

    /// While somebody listens.
    pub(crate) fn timeout(&self, ledger: &Ledger) -> Option<(MonoTime, &'static str)> {
        let watched = self.lanes.iter().filter(|watch| !ledger.in_lane(watch.lane).is_empty());
        watched.map(Watch::timeout).min_by_key(|(at, _)| *at)
    }
}

/// Whether a job of this resource is under way, or its outcome is on the way to disk.
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
        // What was taken over is its taker's, which may have made something else of it; what has a job is looked at when
        // that has ended.
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

/// Nothing if that is not known.
fn stands(found: Result<Found, RunError>) -> Option<(DriftState, String)> {
    let (state, mut reason) = match found {
        Ok(Found::AsDesired) => (DriftState::InSync, String::new()),
        Ok(Found::Differs { missing: true, reason }) => (DriftState::Missing, reason),
        Ok(Found::Differs { missing: false, reason }) => (DriftState::Drifted, reason),
        // The state was applied once, so the host has changed: an interface that a mapping names
        // has gone.
        Err(RunError { reason, retry: Retry::Never }) => (DriftState::Drifted, reason),
        Err(RunError { retry: Retry::Later | Retry::WhenRoom, .. }) => return None,
    };
    reason.truncate(reason.floor_char_boundary(DRIFT_REASON_MAX));
    Some((state, reason))
}
