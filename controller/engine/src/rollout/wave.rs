//! The order in which the members of a set begin. Pure: who asks says what time it is and how members are.
//!
//! ```text
//!   held ── its turn ─▶ begun ─▶ ended
//!   (absent: its node is away)     └─▶ failed
//!
//!   Going: a batch begins ─▶ all of it ended ─▶ pause ─▶ the next     the first is the canary's, if there is one
//!     │ ▲
//!     ▼ └── resume
//!   Paused    abort, too many failed, a canary failed or was disturbed ─▶ Aborted
//! ```
//!
//! So at most `batch` members are under way on top of those that failed, of which there are at most `max_failures` when
//! a batch begins: no more than both together ever get a revision that fails everywhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_template::{Away, Rollout};
use serde::{Deserialize, Serialize};

/// Names in a reason: a line's worth.
const NAMED: usize = 3;

/// A rollout as it is with so many members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub batch: usize,
    pub pause: Duration,
    pub max_failures: usize,
    pub canary: usize,
    pub away: Away,
}

/// Whether members begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    #[default]
    Going,
    /// An operator wants it so.
    Paused,
    /// The stack has had its time.
    TimedOut,
    /// Nothing more of it begins in this operation, for this reason.
    Aborted(String),
}

/// How a member is that had begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// Nobody can say.
    Away,
    Disturbed(String),
}

/// What is kept over a restart of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub state: State,
    /// Whether the canary is yet to prove itself.
    pub canary: bool,
    pub batch: BTreeSet<Arc<str>>,
    pub begun: BTreeSet<Arc<str>>,
    pub failed: BTreeSet<Arc<str>>,
    /// Members no more that were under way: they count as failed as soon as another one has.
    #[serde(default)]
    pub left: BTreeSet<Arc<str>>,
}

pub(crate) struct Wave {
    pub policy: Policy,
    kept: Kept,
    /// Those with something to do whose turn is yet to come, by name.
    held: BTreeSet<Arc<str>>,
    /// Likewise, but their node is away.
    absent: BTreeSet<Arc<str>>,
    /// Of the present batch: those that have begun and not ended.
    open: usize,
    /// When the last of the present batch ended, or was found well again.
    ended_at: Option<MonoTime>,
    /// Until then nobody counts as failed for being away: the controller has just begun.
    grace: Option<MonoTime>,
    /// What is kept has changed.
    changed: bool,
}

impl Policy {
    pub fn new(rollout: &Rollout, members: usize) -> Self {
        Self {
            batch: rollout.batch.at_least_one_of(members),
            pause: rollout.pause,
            max_failures: rollout.max_failures.of(members),
            canary: rollout.canary.rounded_up_of(members),
            away: rollout.away,
        }
    }

    /// Of what has proven itself: nobody need go first, and nobody is waited for.
    pub fn proven(self) -> Self {
        Self { pause: Duration::ZERO, canary: 0, ..self }
    }
}

impl Wave {
    pub fn new(policy: Policy) -> Self {
        let kept = Kept { canary: policy.canary > 0, ..Kept::default() };
        Self::of(policy, kept)
    }

    /// As it was kept; the pause, if there is one, begins anew.
    pub fn of(policy: Policy, kept: Kept) -> Self {
        let open = kept.begun.intersection(&kept.batch).count();
        let (held, absent) = (BTreeSet::new(), BTreeSet::new());
        Self { policy, kept, held, absent, open, ended_at: None, grace: None, changed: false }
    }

    /// As another one was a moment before; the pause goes on that it was in.
    pub fn going_on_from(policy: Policy, other: &Self) -> Self {
        let (changed, ended_at) = (other.changed, other.ended_at);
        let mut wave = Self::of(policy, other.kept.clone());
        // Who was counted for being away counts no more if it is wanted no more.
        wave.absent.clone_from(&other.absent);
        (wave.changed, wave.ended_at) = (changed, ended_at);
        wave
    }

    /// Who has ended, and who is a member still; each of the others is one no more.
    pub fn settle(&mut self, is_member: &dyn Fn(&str) -> bool, is_ready: &dyn Fn(&str) -> bool) {
        let before = self.kept.clone();
        let kept = &mut self.kept;
        let left = kept.begun.iter().filter(|name| !is_member(name)).cloned();
        kept.left.extend(left);
        kept.begun.retain(|name| is_member(name) && !is_ready(name));
        kept.batch.retain(|name| is_member(name));
        kept.failed.retain(|name| is_member(name) || !self.absent.contains(name));
        self.absent.clear();
        self.open = kept.begun.intersection(&kept.batch).count();
        self.changed |= before != *kept;
    }

    /// Until then nobody counts as failed for being away.
    pub fn bear_until(&mut self, grace: MonoTime) {
        self.grace = Some(grace);
    }

    /// What is to be kept, if that is another than it was.
    pub fn take_changed(&mut self) -> Option<&Kept> {
        std::mem::take(&mut self.changed).then_some(&self.kept)
    }

    pub fn state(&self) -> &State {
        &self.kept.state
    }

    pub fn is_canary(&self) -> bool {
        self.kept.canary
    }

    pub fn begun(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.kept.begun.iter()
    }

    pub fn failed(&self) -> usize {
        self.kept.failed.len()
    }

    pub fn has_failed(&self, name: &str) -> bool {
        self.kept.failed.contains(name)
    }

    /// Those whose turn is yet to come, and of them those whose node is away.
    pub fn waiting(&self) -> (usize, usize) {
        (self.held.len() + self.absent.len(), self.absent.len())
    }

    /// Somebody of it is yet to begin or to end.
    pub fn is_open(&self) -> bool {
        self.waiting().0 > 0 || self.begun().len() > 0
    }

    pub fn all_waiting(&self) -> impl Iterator<Item = &Arc<str>> {
        self.held.iter().chain(&self.absent)
    }

    pub fn holds(&self, name: &str) -> bool {
        self.held.contains(name) || self.absent.contains(name)
    }

    /// Its turn has come, now or earlier.
    pub fn may_begin(&self, name: &str) -> bool {
        self.kept.begun.contains(name)
    }

    /// It has something to do.
    pub fn hold(&mut self, name: &Arc<str>, is_there: bool) {
        let is_there = is_there || self.policy.away == Away::Wait;
        let (of, other) = match is_there {
            true => (&mut self.held, &mut self.absent),
            false => (&mut self.absent, &mut self.held),
        };
        other.remove(name);
        of.insert(Arc::clone(name));
    }

    /// It is under way already.
    pub fn take_in(&mut self, name: &Arc<str>) {
        self.held.remove(name);
        self.absent.remove(name);
        if self.kept.begun.insert(Arc::clone(name)) {
            self.open += usize::from(self.kept.batch.insert(Arc::clone(name)));
            self.changed = true;
        }
    }

    /// Its node has come or gone; whether that matters.
    pub fn node(&mut self, name: &str, is_there: bool) -> bool {
        if self.kept.batch.contains(name) {
            return true;
        }
        let (from, to) = match is_there {
            true => (&mut self.absent, &mut self.held),
            false if self.policy.away == Away::Wait => return false,
            false => (&mut self.held, &mut self.absent),
        };
        let Some(name) = from.take(name) else { return false };
        if is_there && self.kept.failed.remove(&name) {
            self.changed = true; // it was counted for being away
        }
        to.insert(name);
        true
    }

    /// It is ready, or there is nothing to do for it, or it is wanted no more.
    pub fn ended(&mut self, name: &str) {
        self.held.remove(name);
        self.absent.remove(name);
        self.has_ended(name);
        let (failed, left) = (self.kept.failed.remove(name), self.kept.left.remove(name));
        self.changed |= failed || left;
    }

    /// Whether it was under way.
    fn has_ended(&mut self, name: &str) -> bool {
        let was_under_way = self.kept.begun.remove(name);
        self.open -= usize::from(was_under_way && self.kept.batch.contains(name));
        was_under_way
    }

    /// It has failed for good.
    pub fn failed_of(&mut self, name: &Arc<str>) {
        let was_in = self.has_ended(name) || self.kept.batch.contains(name);
        self.held.remove(name);
        self.absent.remove(name);
        if was_in && self.kept.failed.insert(Arc::clone(name)) {
            self.changed = true;
        }
    }

    /// When to look again.
    pub fn due(&self) -> Option<MonoTime> {
        // Where being away counts as failed, somebody's turn comes that is.
        let counts = self.policy.away == Away::Fail && !self.absent.is_empty();
        if self.kept.state != State::Going || !counts && self.held.is_empty() {
            return None;
        }
        let grace = self.grace.filter(|_| counts);
        self.ended_at.map(|ended| ended + self.policy.pause).into_iter().chain(grace).min()
    }

    pub fn abort(&mut self, reason: String) {
        self.kept.state = State::Aborted(reason);
        self.changed = true;
    }

    pub fn set_state(&mut self, state: State) {
        self.changed |= self.kept.state != state;
        self.kept.state = state;
    }

    /// What is waited for is waited for no more, and the canary counts as proven.
    pub fn promote(&mut self) {
        self.kept.batch.clear();
        self.open = 0;
        self.kept.canary = false;
        self.ended_at = None;
        self.changed = true;
    }

    /// Those who begin now.
    pub fn turn(&mut self, now: MonoTime, health: &dyn Fn(&str) -> Health) -> Vec<Arc<str>> {
        self.grace = self.grace.filter(|grace| *grace > now);
        self.stop_if_it_hurts(health);
        let begin = if self.kept.state == State::Going { self.next_of_turn(now, health) } else { Vec::new() };
        self.stop_if_it_hurts(health);
        begin
    }

    fn stop_if_it_hurts(&mut self, health: &dyn Fn(&str) -> Health) {
        if !matches!(self.kept.state, State::Aborted(_))
            && let Some(reason) = self.what_hurts(health)
        {
            self.abort(reason);
        }
    }

    fn next_of_turn(&mut self, now: MonoTime, health: &dyn Fn(&str) -> Health) -> Vec<Arc<str>> {
        if self.open > 0 {
            self.ended_at = None;
            return self.fill();
        }
        if self.kept.batch.is_empty() {
            return self.fill();
        }
        let is_away = |name: &Arc<str>| health(name) == Health::Away;
        if self.kept.canary && !self.policy.pause.is_zero() && self.kept.batch.iter().any(is_away) {
            self.ended_at = None; // its time begins when it is back
            return Vec::new();
        }
        let ended = *self.ended_at.get_or_insert(now);
        if ended + self.policy.pause > now {
            return Vec::new();
        }
        if self.held.is_empty() && self.absent.is_empty() {
            return Vec::new(); // nobody is left
        }
        self.promote();
        self.fill()
    }

    fn what_hurts(&self, health: &dyn Fn(&str) -> Health) -> Option<String> {
        let Kept { canary, batch, begun, failed, left, .. } = &self.kept;
        if *canary {
            for name in batch.iter().filter(|name| !begun.contains(*name)) {
                if failed.contains(name) {
                    return Some(format!("its canary {name} failed"));
                }
                if let Health::Disturbed(why) = health(name) {
                    return Some(format!("its canary {name} was disturbed: {why}"));
                }
            }
        }
        let most = self.policy.max_failures;
        let count = if failed.is_empty() { 0 } else { failed.union(left).count() };
        (count > most).then(|| {
            let named: Vec<&str> = failed.iter().take(NAMED).map(|name| &**name).collect();
            let more = if failed.len() > NAMED { ", …" } else { "" };
            format!(
                "{} failed, more than its max_failures of {most}: {}{more}{}",
                count,
                named.join(", "),
                match left.difference(failed).count() {
                    0 => String::new(),
                    gone => format!(" and {gone} that left while under way"),
                }
            )
        })
    }

    fn fill(&mut self) -> Vec<Arc<str>> {
        let size = match self.kept.canary {
            true => self.policy.canary.min(self.policy.batch).max(1),
            false => self.policy.batch,
        };
        let mut begin = Vec::new();
        while self.kept.batch.len() < size {
            let Some(name) = self.next() else { break };
            self.kept.batch.insert(Arc::clone(&name));
            self.kept.begun.insert(Arc::clone(&name));
            self.open += 1;
            begin.push(name);
        }
        self.changed |= !begin.is_empty();
        begin
    }

    /// The first by name of those whose node is there.
    fn next(&mut self) -> Option<Arc<str>> {
        let first = self.held.first().cloned();
        if self.policy.away == Away::Fail && self.grace.is_none() {
            // Those before it have missed their turn.
            let before = |name: &&Arc<str>| first.as_ref().is_none_or(|first| *name < first);
            let missed: Vec<Arc<str>> = self.absent.iter().take_while(before).cloned().collect();
            for name in missed {
                self.changed |= self.kept.failed.insert(name);
            }
            if self.kept.failed.len() > self.policy.max_failures {
                return None;
            }
        }
        self.held.pop_first()
    }
}

#[cfg(test)]
mod tests;
