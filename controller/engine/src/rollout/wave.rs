//! The order in which the members of a set begin. Pure: who asks says what time it is and how members are.
//!
//! ```text
//!   held ── its turn ─▶ begun ─▶ ended
//!   (absent: its node is away)     ├─▶ failed
//!   (missed: it counts for that)   └─▶ left: a member no more, its place is taken until its job has ended
//!
//!   Going: a batch begins ─▶ all of it ended ─▶ pause ─▶ the next     the first is the canary's, if there is one
//!     │ ▲
//!     ▼ └── resume
//!   Paused    abort, too many failed, a canary failed or was disturbed ─▶ Aborted
//! ```
//!
//! So at most `batch` members are under way on top of those that failed, of which there are at most `max_failures` when
//! a batch begins: no more than both together ever get a revision that fails everywhere. Those of whom nobody can say how
//! they ended, for they were removed or their node is gone, are counted with those that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_template::Away;

use super::policy::{Ended, Health, Kept, Policy, Standing, State};

/// Names in a reason: a line's worth.
const NAMED: usize = 3;
/// A node that went away after its member had begun is not waited for any longer: most servers boot in less.
const GONE_AFTER: Duration = Duration::from_secs(300);
/// Who is away for less than that when its turn comes does not count as failed, but goes later: agents connect anew, as to
/// confirm a change of the network, and after a restart of the controller.
const AWAY_AFTER: Duration = Duration::from_secs(30);

pub(crate) struct Wave {
    pub policy: Policy,
    kept: Kept,
    /// Those with something to do whose turn is yet to come, by name.
    held: BTreeSet<Arc<str>>,
    /// Likewise, but their node is away, since when.
    absent: BTreeMap<Arc<str>, MonoTime>,
    /// Likewise, and it has missed its turn.
    missed: BTreeSet<Arc<str>>,
    /// Of them, those that nobody has been told of.
    newly_missed: Vec<Arc<str>>,
    /// Of those that left: their job has not ended yet.
    leaving: BTreeSet<Arc<str>>,
    /// Begun, and their node is away since.
    gone: BTreeMap<Arc<str>, MonoTime>,
    /// The same by time, but for those that nobody waits for any more.
    awaited: BTreeSet<(MonoTime, Arc<str>)>,
    /// Of the present batch: those that have begun and not ended.
    open: usize,
    /// When the last of the present batch ended, or was found well again.
    ended_at: Option<MonoTime>,
    /// What is kept has changed.
    changed: bool,
}

impl Wave {
    pub fn new(policy: Policy) -> Self {
        let kept = Kept { canary: policy.canary > 0, ..Kept::default() };
        Self::of(policy, kept)
    }

    /// As it was kept; the pause, if there is one, begins anew.
    pub fn of(policy: Policy, kept: Kept) -> Self {
        let open = kept.begun.intersection(&kept.batch).count();
        Self {
            policy,
            kept,
            held: BTreeSet::new(),
            absent: BTreeMap::new(),
            missed: BTreeSet::new(),
            newly_missed: Vec::new(),
            leaving: BTreeSet::new(),
            gone: BTreeMap::new(),
            awaited: BTreeSet::new(),
            open,
            ended_at: None,
            changed: false,
        }
    }

    /// As another one was a moment before; the pause goes on that it was in.
    pub fn going_on_from(policy: Policy, other: &Self) -> Self {
        let (changed, ended_at) = (other.changed, other.ended_at);
        let mut wave = Self::of(policy, other.kept.clone());
        (wave.gone, wave.awaited) = (other.gone.clone(), other.awaited.clone());
        (wave.changed, wave.ended_at) = (changed, ended_at);
        // A percentage of nobody is no canary: it is one as soon as there are members.
        let Kept { batch, begun, failed, left, .. } = &other.kept;
        let is_untouched = [batch, begun, failed, left].iter().all(|names| names.is_empty());
        wave.kept.canary |= is_untouched && other.policy.canary == 0 && policy.canary > 0;
        wave
    }

    /// Who has ended, and who is a member still; each of the others is one no more.
    pub fn settle(&mut self, now: MonoTime, standing: &dyn Fn(&str) -> Standing) {
        let before = self.kept.clone();
        let kept = &mut self.kept;
        let is_member = |name: &Arc<str>| standing(name).is_member;
        let left = kept.begun.extract_if(.., |name| !is_member(name));
        kept.left.extend(left);
        // Who is back and not at work any more has its turn anew, and is counted as before until then.
        let goes_on = |name: &Arc<str>| standing(name).works || standing(name).is_ready;
        let back = kept.left.extract_if(.., |name| is_member(name) && goes_on(name));
        kept.begun.extend(back);
        kept.well |= kept.begun.iter().any(|name| standing(name).is_ready);
        kept.begun.retain(|name| !standing(name).is_ready);
        self.leaving = kept.left.iter().filter(|name| standing(name).works).cloned().collect();
        kept.batch.retain(|name| is_member(name) || self.leaving.contains(name));
        self.open = kept.begun.intersection(&kept.batch).count();
        self.changed |= before != *kept;
        let away = |name: &Arc<str>| !standing(name).is_there;
        let begun = &self.kept.begun;
        let back: Vec<Arc<str>> =
            self.gone.keys().filter(|name| !begun.contains(*name) || !away(name)).cloned().collect();
        let away: Vec<Arc<str>> = begun.iter().filter(|name| away(name)).cloned().collect();
        for name in &back {
            self.is_back(name);
        }
        away.into_iter().for_each(|name| self.goes(name, now));
    }

    fn goes(&mut self, name: Arc<str>, now: MonoTime) {
        if !self.gone.contains_key(&name) {
            self.awaited.insert((now, Arc::clone(&name)));
            self.gone.insert(name, now);
        }
    }

    /// Whether it was gone.
    fn is_back(&mut self, name: &str) -> bool {
        let Some((name, since)) = self.gone.remove_entry(name) else { return false };
        self.awaited.remove(&(since, name));
        true
    }

    /// It is a member no more, while its job is under way.
    pub fn leave(&mut self, name: &Arc<str>) {
        if self.has_ended(name) {
            self.kept.left.insert(Arc::clone(name));
            self.leaving.insert(Arc::clone(name));
            self.changed = true;
        }
    }

    /// The job of one that left has ended; whether there was one.
    pub fn left_ended(&mut self, name: &str, how: Ended) -> bool {
        let Some(name) = self.leaving.take(name) else { return false };
        if how != Ended::Untold {
            self.kept.left.remove(&name);
        }
        // Nobody looks any more at one that left: another one is to prove what a canary proves.
        if how == Ended::Unbegun || self.kept.canary && how != Ended::Failed {
            self.kept.batch.remove(&name);
        }
        self.kept.well |= how == Ended::Well;
        if how == Ended::Failed {
            self.kept.failed.insert(name);
        }
        self.changed = true;
        true
    }

    /// What is to be kept, if that is another than it was.
    pub fn take_changed(&mut self) -> Option<&Kept> {
        std::mem::take(&mut self.changed).then_some(&self.kept)
    }

    /// All members are as they are wanted: whoever comes later is another rollout's, also if this one was paused or aborted.
    /// Where there are no members, none has shown that the revision does no harm: what was to stop stays so.
    pub fn is_over(&mut self, has_members: bool) {
        let Kept { well, returns, .. } = self.kept;
        let state = match std::mem::take(&mut self.kept.state) {
            State::Paused | State::Aborted(_) if has_members => State::Going,
            state => state,
        };
        let canary = !has_members && self.policy.canary > 0;
        *self = Self::of(self.policy, Kept { state, canary, well, returns, ..Kept::default() });
        self.changed = self.is_stopped();
    }

    /// Nobody else begins.
    pub fn is_stopped(&self) -> bool {
        matches!(self.kept.state, State::Paused | State::Aborted(_))
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
        self.kept.failed.len() + self.missed.len()
    }

    pub fn has_failed(&self, name: &str) -> bool {
        self.kept.failed.contains(name)
    }

    /// Those whose turn is yet to come, and of them those whose node is away.
    pub fn waiting(&self) -> (usize, usize) {
        let away = self.absent.len() + self.missed.len();
        (self.held.len() + away, away)
    }

    /// Of those that have begun and not ended: those whose node is away.
    pub fn gone(&self) -> usize {
        self.gone.len()
    }

    /// It is kept as it is, though nothing has happened to it.
    pub fn keep(&mut self) {
        self.changed = true;
    }

    /// In a rollback: whether it leads to what was COMPLETE.
    pub fn returns(&self) -> bool {
        self.kept.returns
    }

    /// It leads to what was COMPLETE.
    pub fn set_returns(&mut self) {
        self.changed |= !std::mem::replace(&mut self.kept.returns, true);
    }

    /// Somebody of it is yet to begin or to end.
    pub fn is_open(&self) -> bool {
        self.waiting().0 > 0 || self.begun().len() > 0
    }

    pub fn all_waiting(&self) -> impl Iterator<Item = &Arc<str>> {
        self.held.iter().chain(self.absent.keys()).chain(&self.missed)
    }

    pub fn holds(&self, name: &str) -> bool {
        self.held.contains(name) || self.absent.contains_key(name) || self.missed.contains(name)
    }

    /// Those that have missed their turn since this was asked last.
    pub fn take_missed(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.newly_missed)
    }

    /// Its turn has come, now or earlier.
    pub fn may_begin(&self, name: &str) -> bool {
        self.kept.begun.contains(name)
    }

    /// It has something to do. `away`: since when its node is.
    pub fn hold(&mut self, name: &Arc<str>, away: Option<MonoTime>) {
        self.forget_held(name);
        match away.filter(|_| self.policy.away != Away::Wait) {
            Some(since) => drop(self.absent.insert(Arc::clone(name), since)),
            None => drop(self.held.insert(Arc::clone(name))),
        }
    }

    /// It is under way already.
    pub fn take_in(&mut self, name: &Arc<str>, is_there: bool, now: MonoTime) {
        self.forget_held(name);
        if self.kept.begun.insert(Arc::clone(name)) {
            self.open += usize::from(self.kept.batch.insert(Arc::clone(name)));
            self.changed = true;
        }
        if !is_there {
            self.goes(Arc::clone(name), now);
        }
    }

    fn forget_held(&mut self, name: &str) {
        self.held.remove(name);
        self.absent.remove(name);
        self.missed.remove(name);
    }

    /// Its node has come or gone; whether that matters.
    pub fn node(&mut self, name: &str, is_there: bool, now: MonoTime) -> bool {
        let begun = self.kept.begun.get(name).cloned();
        if let Some(name) = &begun {
            match is_there {
                // It was counted for being gone.
                true => self.changed |= self.is_back(name) && self.kept.failed.remove(name),
                false => self.goes(Arc::clone(name), now),
            }
        }
        if begun.is_some() {
            return true;
        }
        // It may be held anew by what others of its batch have changed.
        let is_of_batch = self.kept.batch.contains(name);
        match is_there {
            true => {
                let absent = self.absent.remove_entry(name).map(|(name, _)| name);
                let Some(name) = absent.or_else(|| self.missed.take(name)) else { return is_of_batch };
                self.held.insert(name);
            }
            false if self.policy.away == Away::Wait => return is_of_batch,
            false => {
                let Some(name) = self.held.take(name) else { return is_of_batch };
                self.absent.insert(name, now);
            }
        }
        true
    }

    /// It is ready, or there is nothing to do for it, or it is wanted no more.
    pub fn ended(&mut self, name: &str) {
        self.forget_held(name);
        let proves = self.has_ended(name) && !std::mem::replace(&mut self.kept.well, true);
        let (failed, left) = (self.kept.failed.remove(name), self.kept.left.remove(name));
        self.changed |= proves || failed || left;
    }

    /// Whether it was under way.
    fn has_ended(&mut self, name: &str) -> bool {
        self.is_back(name);
        let was_under_way = self.kept.begun.remove(name);
        self.open -= usize::from(was_under_way && self.kept.batch.contains(name));
        was_under_way
    }

    /// It has failed for good.
    pub fn failed_of(&mut self, name: &Arc<str>) {
        let was_in = self.has_ended(name) || self.kept.batch.contains(name);
        self.forget_held(name);
        if was_in && self.kept.failed.insert(Arc::clone(name)) {
            self.changed = true;
        }
    }

    /// When to look again, after `now`.
    pub fn due(&self, now: MonoTime) -> Option<MonoTime> {
        if self.kept.state != State::Going {
            return None;
        }
        // Where being away counts as failed, somebody's turn comes that is.
        let counts = self.policy.away == Away::Fail && !self.absent.is_empty();
        let waits = counts || !self.held.is_empty();
        let pause = self.ended_at.filter(|_| waits).map(|ended| ended + self.policy.pause);
        let away = self.absent.values().filter(|_| counts).map(|since| *since + AWAY_AFTER);
        let gone = self
            .awaited
            .first()
            .filter(|_| self.may_pass_over() && (waits || self.policy.away == Away::Fail));
        let gone = gone.map(|(since, _)| *since + GONE_AFTER);
        pause.into_iter().chain(away).chain(gone).filter(|due| *due > now).min()
    }

    /// Whether one more may be left behind whose node is gone.
    fn may_pass_over(&self) -> bool {
        match self.policy.away {
            Away::Wait => false,
            Away::Fail => true,
            Away::Skip => {
                // Those who failed, and those of whom nobody can say yet that they did not.
                let unsaid = self.lost() + self.kept.begun.len() - self.open;
                !self.kept.canary && self.failed() + unsaid < self.policy.max_failures
            }
        }
    }

    /// Of those that left: nobody will say how they ended.
    fn lost(&self) -> usize {
        self.kept.left.len() - self.leaving.len()
    }

    /// Who is gone for long has its batch wait no more.
    fn pass_over(&mut self, now: MonoTime) {
        while self.kept.state == State::Going
            && self.may_pass_over()
            && self.awaited.first().is_some_and(|(since, _)| *since + GONE_AFTER <= now)
            && let Some((_, name)) = self.awaited.pop_first()
        {
            if self.policy.away == Away::Fail {
                self.changed |= self.kept.failed.insert(Arc::clone(&name));
            }
            if !self.kept.canary && self.kept.batch.remove(&name) {
                self.open -= 1;
                self.changed = true;
            }
        }
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
        self.next_batch();
        self.kept.well = true;
        self.leaving.clear();
    }

    fn next_batch(&mut self) {
        self.kept.batch.clear();
        self.open = 0;
        self.kept.canary = false;
        self.ended_at = None;
        self.changed = true;
    }

    /// Those who begin now.
    pub fn turn(&mut self, now: MonoTime, health: &dyn Fn(&str) -> Health) -> Vec<Arc<str>> {
        self.pass_over(now);
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
        if self.open > 0 || !self.leaving.is_empty() {
            self.ended_at = None;
            return self.fill(now);
        }
        // All of the batch may have left meanwhile: the pause after it goes on.
        let rests = !self.kept.canary && self.ended_at.is_some_and(|ended| ended + self.policy.pause > now);
        if self.kept.batch.is_empty() {
            return if rests { Vec::new() } else { self.fill(now) };
        }
        let is_away = |name: &Arc<str>| health(name) == Health::Away;
        if self.kept.canary && !self.policy.pause.is_zero() && self.kept.batch.iter().any(is_away) {
            self.ended_at = None; // its time begins when it is back
            return Vec::new();
        }
        // Others of the canary may have had to wait for what they need.
        if self.kept.canary && self.kept.batch.len() < self.size() {
            let begin = self.fill(now);
            if !begin.is_empty() {
                return begin;
            }
        }
        let ended = *self.ended_at.get_or_insert(now);
        if ended + self.policy.pause > now {
            return Vec::new();
        }
        if self.held.is_empty() && self.absent.is_empty() {
            return Vec::new(); // nobody is left
        }
        if self.kept.canary && self.kept.batch.len() < self.size() {
            return Vec::new(); // those who are left are away, and are of the canary
        }
        self.next_batch();
        self.fill(now)
    }

    fn what_hurts(&self, health: &dyn Fn(&str) -> Health) -> Option<String> {
        let Kept { canary, batch, begun, failed, .. } = &self.kept;
        let lost = self.lost();
        if *canary {
            for name in batch.iter().filter(|name| !begun.contains(*name) || failed.contains(*name)) {
                if begun.contains(name) {
                    return Some(format!("its canary {name} went away after it had begun"));
                }
                if failed.contains(name) {
                    return Some(format!("its canary {name} failed"));
                }
                if let Health::Disturbed(why) = health(name) {
                    return Some(format!("its canary {name} was disturbed: {why}"));
                }
            }
        }
        let most = self.policy.max_failures;
        let count = if self.failed() == 0 { 0 } else { self.failed() + lost };
        if lost > 0 && count <= most && self.rests() && self.room() == 0 && self.waits_for_room() {
            return Some(format!("{lost} left while under way, and nobody has ended well yet"));
        }
        (count > most).then(|| {
            let named: Vec<&str> =
                failed.iter().chain(&self.missed).take(NAMED).map(|name| &**name).collect();
            let more = if self.failed() > NAMED { ", …" } else { "" };
            format!(
                "{} failed, more than its max_failures of {most}: {}{more}{}",
                count,
                named.join(", "),
                match lost {
                    0 => String::new(),
                    lost => format!(" and {lost} that left while under way"),
                }
            )
        })
    }

    /// Somebody is held, and nobody of them has begun before.
    fn waits_for_room(&self) -> bool {
        !self.held.is_empty() && self.held.is_disjoint(&self.kept.left)
    }

    /// Nothing of it is under way.
    fn rests(&self) -> bool {
        self.kept.begun.is_empty() && self.leaving.is_empty()
    }

    /// How many may begin yet: before anybody has ended well, no more than may get what fails everywhere.
    fn room(&self) -> usize {
        if self.kept.well {
            return usize::MAX;
        }
        let Kept { begun, failed, left, .. } = &self.kept;
        let touched = begun.len() + left.len() + failed.difference(begun).count();
        (self.policy.batch + self.policy.max_failures).saturating_sub(touched)
    }

    /// Of the present batch.
    fn size(&self) -> usize {
        match self.kept.canary {
            true => self.policy.canary.min(self.policy.batch).max(1),
            false => self.policy.batch,
        }
    }

    fn fill(&mut self, now: MonoTime) -> Vec<Arc<str>> {
        let (size, mut room) = (self.size(), self.room());
        let mut begin = Vec::new();
        while self.kept.batch.len() < size {
            let Some(name) = self.next(now, room > 0) else { break };
            // Who has begun before takes no more room.
            if !self.kept.left.remove(&name) {
                room -= 1;
            }
            self.kept.batch.insert(Arc::clone(&name));
            self.kept.begun.insert(Arc::clone(&name));
            self.open += 1;
            begin.push(name);
        }
        if !begin.is_empty() {
            (self.changed, self.ended_at) = (true, None);
        }
        begin
    }

    /// The first by name of those whose node is there; without room, of those that have begun before.
    fn next(&mut self, now: MonoTime, has_room: bool) -> Option<Arc<str>> {
        if !has_room {
            let name = self.held.intersection(&self.kept.left).next().cloned()?;
            return self.held.take(&name);
        }
        let first = self.held.first().cloned();
        if self.policy.away == Away::Fail {
            // Those before it have missed their turn.
            let before =
                self.absent.iter().take_while(|(name, _)| first.as_ref().is_none_or(|first| *name < first));
            let misses = before.filter(|(_, since)| **since + AWAY_AFTER <= now);
            let missed: Vec<Arc<str>> = misses.map(|(name, _)| Arc::clone(name)).collect();
            for name in missed {
                self.absent.remove(&name);
                self.newly_missed.push(Arc::clone(&name));
                self.missed.insert(name);
            }
            if self.failed() > self.policy.max_failures {
                return None;
            }
        }
        self.held.pop_first()
    }
}

#[cfg(test)]
mod tests;
