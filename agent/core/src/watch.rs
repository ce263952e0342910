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

use crate::agent::{After, Agent};
use crate::backoff::Random;
use crate::face::{Effect, Found, Look, Looked, Retry, RunError};
use crate::ledger::Entry;

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
type Said = (Generation, DriftState, String);

/// All lanes, and what was said of their resources.
#[derive(Debug)]
pub(crate) struct Watches {
    lanes: [Watch; Lane::ALL.len()],
    /// Of looks, in all lanes.
    number: u64,
    said: BTreeMap<ResourceId, Said>,
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
    /// It is due, and something of ours is under way.
    held: bool,
    /// A job of the lane was running after the last input.
    was_busy: bool,
    round: Option<Round>,
    /// Not before.
    rest_until: MonoTime,
    /// Each look puts it off by [`STORM_SPACING`]; it may lie as far ahead as [`BURST`].
    paid_until: MonoTime,
}

/// What is to be looked at when a look is due.
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
        let watch = |(n, lane)| Watch::new(seed ^ 0x7761_7463_6800_0000 ^ n, lane);
        let mut lanes = (0u64..).zip(Lane::ALL).map(watch);
        Self {
            lanes: std::array::from_fn(|_| lanes.next().expect("one for each lane")),
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

    fn say(&mut self, resource: ResourceId, said: Option<Said>) {
        let sum = |said: Option<&Said>| {
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

impl Agent {
    /// The controller listens: it is told how all stands.
    pub(crate) fn watch_greeted(&mut self, heartbeat: Duration) {
        self.watches.scan_every = (heartbeat * SCAN_HEARTBEATS).clamp(SCAN_MIN, SCAN_MAX);
        let within = (heartbeat / GREETING_PART).clamp(GREETING_MIN, GREETING_MAX);
        self.watches.begin_anew(self.now, within);
        self.facts.greeted(self.now);
    }

    /// The controller has not heard all that was said.
    pub(crate) fn say_all_again(&mut self) {
        self.watches.begin_anew(self.now, GREETING_MIN);
    }

    /// Something of these may have changed.
    pub(crate) fn resources_changed(&mut self, resources: &BTreeSet<ResourceId>) {
        for watch in &mut self.watches.lanes {
            let in_lane = self.ledger.in_lane(watch.lane);
            let of_lane: BTreeSet<ResourceId> =
                resources.iter().filter(|resource| in_lane.contains(resource)).copied().collect();
            if !of_lane.is_empty() {
                watch.hint(self.now, &Wanted::Some(of_lane));
            }
        }
    }

    /// The controller has something else in mind for it now: whatever it makes of it, it is told anew.
    pub(crate) fn unsay(&mut self, resource: ResourceId) {
        if self.watches.said.contains_key(&resource) {
            self.watches.say(resource, None);
            self.look_again(resource);
        }
    }

    /// A job's outcome is told by itself; what it made is as it should be.
    pub(crate) fn watch_ended(&mut self, report: &Report) {
        let resource = report.key.resource;
        let entry = self.ledger.get(resource);
        let applied = entry.filter(|_| !self.ledger.is_taken(resource)).and_then(|e| e.applied.as_ref());
        let Some(applied) = applied else { return };
        // The network may still be coming to rest, and is looked at after each of its jobs.
        if applied.spec.lane() == Lane::Network {
            return;
        }
        if matches!(report.outcome, Outcome::Done(_)) && applied.generation == report.key.generation {
            let said = (applied.generation, DriftState::InSync, String::new());
            self.watches.say(resource, Some(said));
        } else {
            self.look_again(resource);
        }
    }

    fn look_again(&mut self, resource: ResourceId) {
        let Some(applied) = self.ledger.get(resource).and_then(|entry| entry.applied.as_ref()) else {
            return;
        };
        let lane = applied.spec.lane();
        let at = match lane {
            Lane::Network => Wanted::All,
            Lane::Service | Lane::Package | Lane::Deployment => Wanted::Some([resource].into()),
        };
        let now = self.now;
        let watches = self.watches.lanes.iter_mut().filter(|watch| watch.lane == lane);
        watches.for_each(|watch| watch.hint(now, &at));
    }

    /// After every input: begins each look that is due, unless it would see our own work.
    pub(crate) fn watch(&mut self) {
        for at in 0..self.watches.lanes.len() {
            self.watch_lane(at);
        }
    }

    fn watch_lane(&mut self, at: usize) {
        let lane = self.watches.lanes[at].lane;
        let is_network = lane == Lane::Network;
        let is_restoring = is_network && (self.guard.is_some() || !self.restore_at.is_empty());
        let is_running = self.lanes.is_busy(lane) || is_restoring;
        let watch = &mut self.watches.lanes[at];
        if is_running {
            watch.was_busy = true;
        } else if std::mem::take(&mut watch.was_busy) && is_network {
            // Also where one was due before: what was just done is to come to rest.
            (watch.due, watch.held) = (None, false);
            watch.hint(self.now, &Wanted::All);
        }
        if !self.session.is_open() || self.ledger.in_lane(lane).is_empty() {
            watch.round = None;
            return;
        }
        let within = watch.within();
        if let Some(round) = watch.round.take_if(|round| self.now >= round.since + within) {
            watch.hint(self.now, &round.of);
        }
        let is_scan = self.now >= watch.scan;
        let is_due = is_scan || watch.due.is_some_and(|due| self.now >= due);
        if watch.round.is_none() && !is_due {
            return;
        }
        // Of the network a job that waits may be half done, before a restart.
        let is_busy = is_running
            || (is_network && self.ledger.in_lane(lane).iter().any(|resource| self.is_at(*resource)));
        let watch = &mut self.watches.lanes[at];
        match &mut watch.round {
            Some(round) => round.void |= is_busy,
            None if is_busy => {
                if is_scan {
                    watch.want(&Wanted::All);
                    watch.scan = self.now + self.watches.scan_every;
                }
                watch.due_by(self.now);
                watch.held = true;
            }
            None => {
                watch.held = false;
                let of = if is_scan { Wanted::All } else { watch.wanted.clone() };
                self.look(at, of);
            }
        }
    }

    /// Something of this resource is under way, also on the way to disk.
    fn is_at(&self, resource: ResourceId) -> bool {
        let has_job = |entry: &Entry| entry.current.is_some() || entry.next.is_some();
        self.ledger.get(resource).is_some_and(has_job) || self.is_ending_of(resource)
    }

    fn look(&mut self, at: usize, of: Wanted) {
        let in_lane = self.ledger.in_lane(self.watches.lanes[at].lane);
        let looks: Vec<Look> = in_lane
            .iter()
            .filter(|resource| match &of {
                Wanted::All => true,
                Wanted::Some(wanted) => wanted.contains(resource),
            })
            .filter_map(|resource| self.ledger.get(*resource))
            // What was taken over is its taker's, which may have made something else of it; what has a job is looked at
            // when that has ended.
            .filter(|entry| entry.current.is_none() && entry.next.is_none())
            .filter(|entry| !self.ledger.is_taken(entry.resource))
            .filter_map(|entry| {
                let applied = entry.applied.as_ref()?;
                Some(Look {
                    resource: entry.resource,
                    generation: applied.generation,
                    spec: applied.spec.clone(),
                    before: entry.before().cloned(),
                })
            })
            .collect();
        self.watches.number += 1;
        let (number, scan_every) = (self.watches.number, self.watches.scan_every);
        self.watches.lanes[at].begin(self.now, number, of, scan_every);
        self.effects.push_back(Effect::Look { number, looks });
    }

    /// The answer to [`Effect::Look`].
    pub(crate) fn looked(&mut self, number: u64, looked: Vec<Looked>) {
        let of_number = |watch: &mut Watch| {
            let round = watch.round.take_if(|round| round.number == number)?;
            Some((watch.lane, round))
        };
        let Some((at, (lane, round))) = (0..)
            .zip(&mut self.watches.lanes)
            .find_map(|(at, watch): (usize, _)| Some((at, of_number(watch)?)))
        else {
            return;
        };
        let (now, took) = (self.now, self.now.since(round.since));
        let watch = &mut self.watches.lanes[at];
        watch.rest_until = watch.rest_until.max(now + took.saturating_mul(REST));
        if round.void {
            return watch.hint(now, &round.of);
        }
        let mut news = Vec::new();
        let mut unknown = BTreeSet::new();
        for Looked { resource, generation, found } in looked {
            let entry = self.ledger.get(resource);
            let entry = entry.filter(|_| !self.ledger.is_taken(resource));
            let applied = entry.and_then(|entry| entry.applied.as_ref());
            if applied.is_none_or(|applied| applied.generation != generation) || self.is_at(resource) {
                continue;
            }
            let Some((state, reason)) = stands(found) else {
                unknown.insert(resource);
                continue;
            };
            let said = (generation, state, reason);
            if self.watches.said.get(&resource) != Some(&said) {
                self.watches.say(resource, Some(said.clone()));
                match resource.is_local() {
                    false => news.push(Drift { resource, generation, state, reason: said.2 }),
                    // The controller has no row of it.
                    true if state != DriftState::InSync => {
                        self.warn(format!(
                            "the document given on this server is not in force any more: {}",
                            said.2
                        ));
                    }
                    true => {}
                }
            }
        }
        if !unknown.is_empty() {
            let watch = &mut self.watches.lanes[at];
            watch.want(&if lane == Lane::Network { Wanted::All } else { Wanted::Some(unknown) });
            watch.due_by(now + LOOK_AGAIN);
        }
        for page in news.chunks(DRIFTS_MAX) {
            self.effects.push_back(Effect::Send(Up::Drift(page.to_vec())));
        }
    }

    /// After every input: what is there to be watched by the host, and of what nothing is to be said any more.
    pub(crate) fn watch_applied(&mut self) {
        for resource in self.ledger.take_changed() {
            let entry = self.ledger.get(resource);
            let applied = entry.and_then(|entry| entry.applied.as_ref());
            let spec = applied.map(|applied| Box::new(applied.spec.clone()));
            if spec.is_none() {
                self.watches.say(resource, None);
            }
            self.effects.push_back(Effect::Watch { resource, spec });
        }
    }

    pub(crate) fn watch_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let is_open = self.session.is_open();
        let watched = |watch: &&Watch| is_open && !self.ledger.in_lane(watch.lane).is_empty();
        let looks = self.watches.lanes.iter().filter(watched).map(Watch::timeout);
        let facts = is_open.then(|| self.facts.timeout()).flatten();
        looks.chain(facts).min_by_key(|(at, _)| *at)
    }

    /// Whether an outcome of this resource is not on disk yet.
    fn is_ending_of(&self, resource: ResourceId) -> bool {
        self.is_on_its_way(
            |after| matches!(after, After::Ended { report, .. } if report.key.resource == resource),
        )
    }
}

/// Nothing if that is not known.
fn stands(found: Result<Found, RunError>) -> Option<(DriftState, String)> {
    let (state, mut reason) = match found {
        Ok(Found::AsDesired) => (DriftState::InSync, String::new()),
        Ok(Found::Differs { missing: true, reason }) => (DriftState::Missing, reason),
        Ok(Found::Differs { missing: false, reason }) => (DriftState::Drifted, reason),
        // It was applied once, so it is the host that has changed: an interface that a mapping names has gone.
        Err(RunError { reason, retry: Retry::Never }) => (DriftState::Drifted, reason),
        Err(RunError { retry: Retry::Later | Retry::WhenRoom, .. }) => return None,
    };
    reason.truncate(reason.floor_char_boundary(DRIFT_REASON_MAX));
    Some((state, reason))
}
