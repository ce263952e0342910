//! How resources stand while no job is at them: somebody else may change what Muster made.
//!
//! ```text
//!   hint, scan, greeting, end of a job ─▶ due ─time, nothing of ours under way─▶ Look ─▶ Looked ─▶ Drift, if it is news
//! ```
//!
//! **Invariants.** A hint only wakes: then all is looked at. Nothing is looked at while a job of the network runs, is confirmed or is undone, and
//! what was seen meanwhile does not count: our own changes are no drift. What was said is remembered for the
//! connection, so that it is said once there and again on the next one. Nothing of it is durable.
//!
//! Absent: what a hint is made of; resources that are no network, which tell nobody when they change.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::{Drift, DriftState, Lane, Up};
use muster_shared::wire::{DRIFT_REASON_MAX, DRIFTS_MAX};
use muster_shared::{Generation, MonoTime, ResourceId};

use crate::agent::{After, Agent};
use crate::backoff::Random;
use crate::face::{Effect, Found, Look, Looked, RunError};
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
/// Without any hint, for one may be lost; a tenth more or less, so that a fleet does not look in step.
const SCAN: Duration = Duration::from_secs(300);
/// After a greeting all is looked at within this: a fleet that reconnects does not speak all at once.
const GREETING: Duration = Duration::from_millis(500);
/// The host answers in milliseconds; one that does not is asked again.
const LOOK_WITHIN: Duration = Duration::from_secs(60);
/// What could not be looked at is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What was said of a resource: the generation it was compared with, how it stood, and the reason.
type Said = (Generation, DriftState, String);

/// See the module's diagram.
#[derive(Debug)]
pub(crate) struct Watch {
    random: Random,
    /// When to look, for something may have changed.
    due: Option<MonoTime>,
    /// When to look in any case.
    scan: MonoTime,
    /// It is due, and something of ours is under way.
    held: bool,
    /// A job of the network was running after the last input.
    was_busy: bool,
    round: Option<Round>,
    number: u64,
    /// Not before.
    rest_until: MonoTime,
    /// Each look puts it off by [`STORM_SPACING`]; it may lie as far ahead as [`BURST`].
    paid_until: MonoTime,
    said: BTreeMap<ResourceId, Said>,
}

/// A look that is not answered yet.
#[derive(Debug)]
struct Round {
    number: u64,
    since: MonoTime,
    /// Something of ours began meanwhile.
    void: bool,
}

impl Watch {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed ^ 0x7761_7463_6800_0000),
            due: None,
            scan: MonoTime::default(),
            held: false,
            was_busy: false,
            round: None,
            number: 0,
            rest_until: MonoTime::default(),
            paid_until: MonoTime::default(),
            said: BTreeMap::new(),
        }
    }

    /// Something may have changed.
    pub(crate) fn hint(&mut self, now: MonoTime) {
        let burst_until = MonoTime(self.paid_until.0.saturating_sub(BURST));
        self.due_by(self.rest_until.max(burst_until).max(now + SETTLE));
    }

    fn due_by(&mut self, at: MonoTime) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// A new connection: nothing was said on it yet.
    fn greeted(&mut self, now: MonoTime) {
        self.said.clear();
        self.held = false;
        self.due = Some(now + self.random.below(GREETING));
        self.scan = now + SCAN;
    }

    /// The controller has something else in mind for it now: whatever it makes of it, it is told anew.
    pub(crate) fn unsay(&mut self, resource: ResourceId, now: MonoTime) {
        if self.said.remove(&resource).is_some() {
            self.hint(now);
        }
    }

    fn begin(&mut self, now: MonoTime) -> u64 {
        self.rest_until = now + SPACING;
        self.paid_until = self.paid_until.min(now + BURST).max(now) + STORM_SPACING;
        self.number += 1;
        self.round = Some(Round { number: self.number, since: now, void: false });
        self.due = None;
        self.scan = now + SCAN.mul_f64(0.9) + self.random.below(SCAN / 5);
        self.number
    }

    fn timeout(&self) -> (MonoTime, &'static str) {
        match (&self.round, self.due) {
            (Some(round), _) => (round.since + LOOK_WITHIN, "no answer to a look"),
            (None, Some(due)) if due < self.scan && !self.held => (due, "look"),
            (None, _) => (self.scan, "look without a hint"),
        }
    }
}

impl Agent {
    /// The controller listens: it is told how all stands.
    pub(crate) fn watch_greeted(&mut self) {
        self.watch.greeted(self.now);
        self.facts.greeted(self.now);
    }

    /// After every input: begins a look that is due, unless it would see our own work.
    pub(crate) fn watch(&mut self) {
        let is_restoring = self.guard.is_some() || !self.restore_at.is_empty();
        let is_running = self.lanes.is_busy(Lane::Network) || is_restoring;
        if is_running {
            self.watch.was_busy = true;
        } else if std::mem::take(&mut self.watch.was_busy) {
            // Also where one was due before: what was just done is to come to rest.
            (self.watch.due, self.watch.held) = (None, false);
            self.watch.hint(self.now);
        }
        if !self.session.is_open() || self.ledger.networks().is_empty() {
            self.watch.round = None;
            return;
        }
        if self.watch.round.as_ref().is_some_and(|round| self.now >= round.since + LOOK_WITHIN) {
            self.watch.round = None;
            self.watch.hint(self.now);
        }
        let is_due = self.now >= self.watch.scan || self.watch.due.is_some_and(|due| self.now >= due);
        if self.watch.round.is_none() && !is_due {
            return;
        }
        let is_busy = is_running || self.ledger.networks().iter().any(|resource| self.is_at(*resource));
        match &mut self.watch.round {
            Some(round) => round.void |= is_busy,
            None if is_busy => {
                self.watch.due_by(self.now);
                (self.watch.held, self.watch.scan) = (true, self.now + SCAN);
            }
            None => {
                self.watch.held = false;
                self.look();
            }
        }
    }

    /// Something of this resource is under way, also on the way to disk.
    fn is_at(&self, resource: ResourceId) -> bool {
        let has_job = |entry: &Entry| entry.current.is_some() || entry.next.is_some();
        self.ledger.get(resource).is_some_and(has_job) || self.is_ending_of(resource)
    }

    fn look(&mut self) {
        let looks: Vec<Look> = self
            .ledger
            .networks()
            .iter()
            .filter_map(|resource| self.ledger.get(*resource))
            // What was handed over is its taker's, which may have made something else of it.
            .filter(|entry| entry.handed_over.is_none())
            .filter_map(|entry| {
                let applied = entry.applied.as_ref()?;
                Some(Look {
                    resource: entry.resource,
                    generation: applied.generation,
                    spec: applied.spec.clone(),
                    before: entry.before.clone(),
                })
            })
            .collect();
        let number = self.watch.begin(self.now);
        self.effects.push_back(Effect::Look { number, looks });
    }

    /// The answer to [`Effect::Look`].
    pub(crate) fn looked(&mut self, number: u64, looked: Vec<Looked>) {
        let Some(round) = self.watch.round.take_if(|round| round.number == number) else { return };
        let took = self.now.since(round.since);
        self.watch.rest_until = self.watch.rest_until.max(self.now + took.saturating_mul(REST));
        if round.void {
            return self.watch.hint(self.now);
        }
        let mut news = Vec::new();
        for Looked { resource, generation, found } in looked {
            let entry = self.ledger.get(resource);
            let entry = entry.filter(|entry| entry.handed_over.is_none());
            let applied = entry.and_then(|entry| entry.applied.as_ref());
            if applied.is_none_or(|applied| applied.generation != generation) {
                continue;
            }
            let Some((state, reason)) = stands(found) else {
                self.watch.due_by(self.now + LOOK_AGAIN);
                continue;
            };
            let said = (generation, state, reason);
            if self.watch.said.get(&resource) != Some(&said) {
                self.watch.said.insert(resource, said.clone());
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
        let networks = self.ledger.networks();
        self.watch.said.retain(|resource, _| networks.contains(resource));
        for page in news.chunks(DRIFTS_MAX) {
            self.effects.push_back(Effect::Send(Up::Drift(page.to_vec())));
        }
    }

    pub(crate) fn watch_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let is_open = self.session.is_open();
        let look = (is_open && !self.ledger.networks().is_empty()).then(|| self.watch.timeout());
        let facts = is_open.then(|| self.facts.timeout()).flatten();
        look.into_iter().chain(facts).min_by_key(|(at, _)| *at)
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
        Err(RunError { reason, permanent: true }) => (DriftState::Drifted, reason),
        Err(RunError { permanent: false, .. }) => return None,
    };
    reason.truncate(reason.floor_char_boundary(DRIFT_REASON_MAX));
    Some((state, reason))
}
