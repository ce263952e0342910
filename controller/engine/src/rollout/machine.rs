//! One rollout: the order in which the members of a set begin, and the reasons to stop. Pure: the
//! caller supplies the time, the events and the health of members.
//!
//! ```text
//!   Going: a batch begins ─▶ all of it ended ─▶ pause ─▶ the next     the first is the canary's, if there is one
//!     │ ▲
//!     ▼ └── resume
//!   Paused    abort, too many failed, a canary failed or was disturbed ─▶ Aborted
//! ```
//!
//! At most `batch` members are under way beside those that failed, and at most `max_failures` have
//! failed when a batch begins. So a revision that fails everywhere reaches at most `batch` +
//! `max_failures` members. A member that left the set while under way counts with the failed ones
//! until the result of its job is known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_template::Away;

use crate::elapsed::Elapsed;

use super::member::{Event, Member, Rules, Standing, State};
use super::members::{List, Members};
use super::numbers::Policy;
use super::record::{Counts, Course, MemberRecord, RolloutChange, RolloutRecord};

/// Names in a reason: about one line.
const NAMED: usize = 3;
/// A batch waits this long for a node that went away after its member had started. Most servers boot
/// in less.
const GONE_AFTER: Duration = Duration::from_secs(300);
/// A member is missed once its node has been away for this long when it is to begin. Agents
/// reconnect in less, for example to confirm a network change or after a restart of the controller.
const AWAY_AFTER: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rollout {
    policy: Policy,
    record: RolloutRecord,
    members: Members,
    /// When the last member of the present batch ended, or was found well again.
    batch_ended: Option<Elapsed>,
    /// Until then nodes return after a restart of the controller, so a node that is away says nothing.
    nodes_return: Option<MonoTime>,
    unsaved: Unsaved,
}

/// Changes that the store does not have yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Unsaved {
    /// The members in the store belong to another rollout.
    anew: bool,
    /// The record of the rollout has changed.
    itself: bool,
    members: BTreeSet<Arc<str>>,
}

/// Health of a member that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// Unknown: the node is away.
    Away,
    Disturbed(String),
}

/// Decisions from a look at a rollout.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Members that begin now.
    pub begin: Vec<Arc<str>>,
    /// These members belong to the canary.
    pub of_canary: bool,
    /// Members whose nodes were away when they were to begin. They count as failed.
    pub missed: Vec<Arc<str>>,
    /// The reason, if the rollout was aborted by this look.
    pub aborted: Option<String>,
}

impl Rollout {
    pub fn new(policy: Policy, traversal: u64) -> Self {
        let record = RolloutRecord { traversal, canary: policy.canary > 0, ..RolloutRecord::default() };
        let unsaved = Unsaved { anew: true, ..Unsaved::default() };
        Self { unsaved, ..Self::load(policy, record, &BTreeMap::new(), MonoTime::default()) }
    }

    /// A rollout from the store. A pause between batches goes on.
    pub fn load(
        policy: Policy,
        mut record: RolloutRecord,
        loaded: &BTreeMap<Arc<str>, MemberRecord>,
        now: MonoTime,
    ) -> Self {
        let mut members = Members::default();
        for (name, member) in loaded {
            members.set(name, Member::load(*member));
        }
        let batch_ended = record.rested.take().map(|rested| Elapsed::load(rested, now));
        let nodes_return = batch_ended.map(|_| now + AWAY_AFTER);
        Self { policy, record, members, batch_ended, nodes_return, unsaved: Unsaved::default() }
    }

    /// The change to persist, if there is one. `row` stands for the set.
    pub fn save(&mut self, row: u64, now: MonoTime) -> Option<RolloutChange> {
        let Unsaved { anew, itself, members } = std::mem::take(&mut self.unsaved);
        if !itself && members.is_empty() {
            self.unsaved.anew = anew;
            return None;
        }
        let members = members.into_iter().map(|name| {
            let member = self.members.get(&name).record();
            (name, member)
        });
        let rested = self.batch_ended.map(|ended| ended.so_far(now));
        let record = RolloutRecord { rested, ..self.record.clone() };
        Some(RolloutChange::Kept { row, record, members: members.collect(), anew })
    }

    /// The rollout as the store has it, in one text. The batch of an aborted one does not count.
    #[cfg(test)]
    pub fn stored(&self, now: MonoTime) -> String {
        if self.is_aborted() {
            return format!("{:?}", self.record);
        }
        // A start leaves a batch whose pause is over, also if nobody waits for the next one.
        let ended = self.batch_ended.filter(|ended| ended.reaches(self.policy.pause) > now);
        let is_left = self.batch_ended.is_some() && ended.is_none();
        let stored = |(name, member): (&Arc<str>, Member)| {
            // One that failed and has left the set leaves the batch once the rollout is laid out again.
            let has_failed = member.counts == Counts::Failed && member.state == State::Idle;
            let member = Member { in_batch: member.in_batch && !is_left && !has_failed, ..member };
            Some((Arc::clone(name), member.record()?))
        };
        let members: Vec<_> = self.members.all().filter_map(stored).collect();
        format!("{:?} {:?} {members:?}", self.record, ended.map(|ended| ended.so_far(now)))
    }

    /// Marks the rollout to be saved, even if nothing has changed.
    pub fn keep(&mut self) {
        self.unsaved.itself = true;
    }

    /// The operation begins, or goes on with another tree or after a restart. The caller then
    /// reports again which members wait.
    pub fn lay_out(&mut self, policy: Policy, now: MonoTime, standing: &dyn Fn(&str) -> Standing) {
        // A percentage of no members gives no canary. The rollout gets its canary once there are members.
        let is_untouched = !self.members.has(List::Batch) && !self.members.has(List::Touched);
        self.record.canary |= is_untouched && self.policy.canary == 0 && policy.canary > 0;
        self.policy = policy;
        let names: Vec<Arc<str>> = self.members.all().map(|(name, _)| Arc::clone(name)).collect();
        for name in names {
            self.tell(&name, Event::LaidOut(standing(&name), now));
        }
    }

    /// Applies an event to a member. Returns whether the member's state changes.
    pub fn tell(&mut self, name: &Arc<str>, event: Event) -> bool {
        let before = self.members.get(name);
        let after = before.after(event, Rules { away: self.policy.away, canary: self.record.canary });
        self.unsaved.itself |= before.proves(event) && !std::mem::replace(&mut self.record.well, true);
        if before.record() != after.record() {
            self.unsaved.members.insert(Arc::clone(name));
        }
        self.members.set(name, after);
        before != after
    }

    /// The node of a member has connected or gone away. Returns whether a look at the rollout may
    /// decide something.
    pub fn tell_of_node(&mut self, name: &str, event: Event) -> bool {
        // Changes by other members may hold a member of the batch again.
        let matters = |member: Member| matches!(member.state, State::Begun { .. }) || member.in_batch;
        self.members
            .name(name)
            .is_some_and(|name| self.tell(&name, event) || matters(self.members.get(&name)))
    }

    /// Ends the rollout: its members are as wanted. Members that join later begin a new one, even
    /// if this one was paused or aborted. A set without members has proven nothing, so a stopped
    /// rollout stays stopped.
    pub fn end(&mut self, has_members: bool) {
        if self.is_stopped() && has_members {
            self.record.course = Course::Going;
        }
        self.record.canary = !has_members && self.policy.canary > 0;
        self.record.well = false;
        let unsaved = Unsaved { anew: true, itself: self.is_stopped(), ..Unsaved::default() };
        *self = Self {
            unsaved,
            ..Self::load(self.policy, self.record.clone(), &BTreeMap::new(), MonoTime::default())
        };
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn course(&self) -> &Course {
        &self.record.course
    }

    /// Whether no further member begins.
    pub fn is_stopped(&self) -> bool {
        matches!(self.record.course, Course::Paused | Course::Aborted(_))
    }

    pub fn is_aborted(&self) -> bool {
        matches!(self.record.course, Course::Aborted(_))
    }

    pub fn is_canary(&self) -> bool {
        self.record.canary
    }

    pub fn returns(&self) -> bool {
        self.record.returns
    }

    /// Notes that the rollout leads back to a COMPLETE revision.
    pub fn set_returns(&mut self) {
        self.unsaved.itself |= !std::mem::replace(&mut self.record.returns, true);
    }

    pub fn under_way(&self) -> usize {
        self.members.count(List::Begun)
    }

    /// Number of members under way whose node is away.
    pub fn gone(&self) -> usize {
        let is_gone =
            |name: &&Arc<str>| matches!(self.members.get(name).state, State::Begun { gone: Some(_) });
        self.members.names(List::Begun).filter(is_gone).count()
    }

    pub fn failed(&self) -> usize {
        self.members.count(List::Failed)
    }

    pub fn has_failed(&self, name: &str) -> bool {
        self.members.get(name).counts == Counts::Failed
    }

    /// Number of members that wait to begin and whose node is away.
    pub fn absent(&self) -> usize {
        self.members.count(List::Absent) + self.members.count(List::Missed)
    }

    /// Number of members that wait to begin.
    pub fn waiting(&self) -> usize {
        self.members.count(List::Held) + self.absent()
    }

    pub fn all_waiting(&self) -> impl Iterator<Item = &Arc<str>> {
        let lists = [List::Held, List::Absent, List::Missed];
        lists.into_iter().flat_map(|list| self.members.names(list))
    }

    /// Whether a member waits to begin.
    pub fn holds(&self, name: &str) -> bool {
        matches!(self.members.get(name).state, State::Held | State::Absent { .. } | State::Missed)
    }

    /// Whether a member has started, and has not ended.
    pub fn has_begun(&self, name: &str) -> bool {
        matches!(self.members.get(name).state, State::Begun { .. })
    }

    /// Whether some member has yet to begin or to end.
    pub fn is_open(&self) -> bool {
        self.waiting() > 0 || self.under_way() > 0
    }

    pub fn set_course(&mut self, course: Course) {
        self.unsaved.itself |= self.record.course != course;
        self.record.course = course;
    }

    /// Lets the next batch begin without waiting, and counts the canary as proven.
    pub fn promote(&mut self) {
        self.next_batch();
        self.record.well = true;
    }

    fn next_batch(&mut self) {
        let before = self.members.names(List::Batch).chain(self.members.names(List::Leaving));
        for name in before.cloned().collect::<BTreeSet<Arc<str>>>() {
            self.tell(&name, Event::NextBatch);
        }
        self.record.canary = false;
        (self.batch_ended, self.unsaved.itself) = (None, true);
    }

    /// The next time after `now` at which to look again.
    pub fn due(&self, now: MonoTime) -> Option<MonoTime> {
        if self.record.course != Course::Going {
            return None;
        }
        // With `Away::Fail` a member whose node is away does not wait: it is missed.
        let counts = self.policy.away == Away::Fail && self.members.has(List::Absent);
        let waits = counts || self.members.has(List::Held);
        let pause = self.batch_ended.filter(|_| waits).map(|ended| ended.reaches(self.policy.pause));
        let away = self.members.absent().filter(|_| counts).map(|(_, since)| since + AWAY_AFTER);
        let awaited = self.members.first_awaited().map(|(since, _)| since + GONE_AFTER);
        let gone = awaited.filter(|_| self.may_pass_over() && (waits || self.policy.away == Away::Fail));
        pause.into_iter().chain(away).chain(gone).chain(self.nodes_return).filter(|due| *due > now).min()
    }

    /// Decides which members begin now.
    pub fn look(&mut self, now: MonoTime, health: &dyn Fn(&str) -> Health) -> Look {
        debug_assert!(self.members.is_consistent());
        let went = !self.is_aborted();
        let mut look = Look::default();
        self.pass_over(now);
        self.stop_if_it_hurts(health);
        if self.record.course == Course::Going {
            self.go_on(now, health, &mut look);
        }
        self.stop_if_it_hurts(health);
        look.of_canary = self.record.canary;
        if let Course::Aborted(reason) = &self.record.course {
            look.aborted = went.then(|| reason.clone());
        }
        look
    }

    /// Passes over members whose nodes have been gone for [`GONE_AFTER`].
    fn pass_over(&mut self, now: MonoTime) {
        while self.record.course == Course::Going
            && self.may_pass_over()
            && let Some((since, name)) = self.members.first_awaited()
            && since + GONE_AFTER <= now
        {
            let name = Arc::clone(name);
            self.tell(&name, Event::PassedOver);
        }
    }

    /// Whether the batch may pass over one more member whose node is gone.
    fn may_pass_over(&self) -> bool {
        match self.policy.away {
            Away::Wait => false,
            Away::Fail => true,
            Away::Skip => {
                // Members under way of an earlier batch, or passed over in this one. The batch no longer
                // waits for them.
                let not_awaited = self.members.count(List::Begun) - self.members.count(List::Open);
                // Each of these may prove to have failed, and so may the member that is passed over now.
                // Together they must not be more than the failures that the policy bears.
                let may_have_failed = self.failed() + self.members.count(List::Lost) + not_awaited;
                !self.record.canary && may_have_failed < self.policy.max_failures
            }
        }
    }

    fn stop_if_it_hurts(&mut self, health: &dyn Fn(&str) -> Health) {
        if !self.is_aborted()
            && let Some(reason) = self.what_hurts(health)
        {
            self.set_course(Course::Aborted(reason));
        }
    }

    /// The reason to abort the rollout, if there is one.
    fn what_hurts(&self, health: &dyn Fn(&str) -> Health) -> Option<String> {
        self.what_hurts_a_canary(health).or_else(|| {
            let (lost, most) = (self.members.count(List::Lost), self.policy.max_failures);
            // The end of a lost member is unknown. Until another one fails, nothing says that the
            // revision is bad, and a selector that drops members aborts nothing. From then on each lost
            // member counts as failed.
            let count = if self.failed() == 0 { 0 } else { self.failed() + lost };
            // No member may start, and no member is left to end: the rollout would wait for ever.
            if lost > 0 && count <= most && self.is_out_of_room() {
                return Some(format!("{lost} left while under way, and nobody has ended well yet"));
            }
            (count > most).then(|| {
                let named = self.members.names(List::Failed).take(NAMED);
                let named = named.map(|name| &**name).collect::<Vec<_>>().join(", ");
                let more = if self.failed() > NAMED { ", …" } else { "" };
                let left = match lost {
                    0 => String::new(),
                    lost => format!(" and {lost} that left while under way"),
                };
                format!("{count} failed, more than its max_failures of {most}: {named}{more}{left}")
            })
        })
    }

    fn what_hurts_a_canary(&self, health: &dyn Fn(&str) -> Health) -> Option<String> {
        let mut names = self.members.names(List::Batch).filter(|_| self.record.canary);
        names.find_map(|name| {
            let Member { state, counts, .. } = self.members.get(name);
            match (state, counts) {
                (State::Begun { .. }, Counts::Failed) => {
                    Some(format!("its canary {name} went away after it had started"))
                }
                (State::Begun { .. }, Counts::Nothing | Counts::Lost) => None,
                (_, Counts::Failed) => Some(format!("its canary {name} failed")),
                (_, Counts::Nothing | Counts::Lost) => match health(name) {
                    Health::Disturbed(why) => Some(format!("its canary {name} was disturbed: {why}")),
                    Health::Well | Health::Away => None,
                },
            }
        })
    }

    fn go_on(&mut self, now: MonoTime, health: &dyn Fn(&str) -> Health, look: &mut Look) {
        if self.members.has(List::Open) || self.members.has(List::Leaving) {
            self.batch_goes_on();
            return self.fill(now, look);
        }
        let pause = self.policy.pause;
        let is_over = move |ended: Elapsed| ended.reaches(pause) <= now;
        if !self.members.has(List::Batch) {
            // All members of the batch may have left. The pause after that batch goes on.
            if self.record.canary || self.batch_ended.is_none_or(is_over) {
                self.fill(now, look);
            }
            return;
        }
        let is_away = |name: &Arc<str>| health(name) == Health::Away;
        if self.record.canary && !self.policy.pause.is_zero() && self.members.names(List::Batch).any(is_away)
        {
            if self.nodes_return.is_none_or(|until| until <= now) {
                self.batch_goes_on(); // its time begins when it is back
            }
            return;
        }
        // Some members of the canary may have waited for other resources.
        if self.record.canary && self.members.count(List::Batch) < self.size() {
            self.fill(now, look);
            if !look.begin.is_empty() {
                return;
            }
        }
        self.batch_ends(now);
        if !self.batch_ended.is_some_and(is_over) {
            return;
        }
        if !self.members.has(List::Held) && !self.members.has(List::Absent) {
            return; // nobody is left
        }
        if self.record.canary && self.members.count(List::Batch) < self.size() {
            return; // those who are left are away, and are of the canary
        }
        self.next_batch();
        self.fill(now, look);
    }

    /// Notes when the batch ended. Its pause begins.
    fn batch_ends(&mut self, now: MonoTime) {
        if self.batch_ended.is_none() {
            (self.batch_ended, self.unsaved.itself) = (Some(Elapsed::starting(now)), true);
        }
    }

    /// The batch has not ended after all, or another one has started.
    fn batch_goes_on(&mut self) {
        self.unsaved.itself |= self.batch_ended.take().is_some();
    }

    /// Whether the rollout is stuck: no member may begin before one has ended well, and none is
    /// under way.
    fn is_out_of_room(&self) -> bool {
        let rests = !self.members.has(List::Begun) && !self.members.has(List::Leaving);
        rests && self.room() == 0 && self.members.has(List::Held) && self.first_held_again().is_none()
    }

    /// The first waiting member that had started before it left the set and has returned.
    fn first_held_again(&self) -> Option<&Arc<str>> {
        self.members.names(List::Held).find(|name| self.members.get(name).counts == Counts::Lost)
    }

    /// The number of members that may begin. Until one has ended well, at most `batch` +
    /// `max_failures` members may have the revision.
    fn room(&self) -> usize {
        match self.record.well {
            true => usize::MAX,
            false => {
                let most = self.policy.batch + self.policy.max_failures;
                most.saturating_sub(self.members.count(List::Touched))
            }
        }
    }

    /// Bound on the members of the present batch.
    fn size(&self) -> usize {
        match self.record.canary {
            true => self.policy.canary.min(self.policy.batch).max(1),
            false => self.policy.batch,
        }
    }

    fn fill(&mut self, now: MonoTime, look: &mut Look) {
        while self.members.count(List::Batch) < self.size() {
            let Some(name) = self.next(now, look) else { break };
            self.tell(&name, Event::Begins);
            self.batch_goes_on();
            look.begin.push(name);
        }
    }

    /// The first waiting member by name whose node is there. Without room: the first that had started before.
    fn next(&mut self, now: MonoTime, look: &mut Look) -> Option<Arc<str>> {
        if self.room() == 0 {
            return self.first_held_again().cloned();
        }
        let first = self.members.names(List::Held).next().cloned();
        if self.policy.away == Away::Fail {
            let is_before = |name: &Arc<str>| first.as_ref().is_none_or(|first| name < first);
            let before = self.members.absent().take_while(|(name, _)| is_before(name));
            let missed = before.filter(|(_, since)| *since + AWAY_AFTER <= now);
            let missed: Vec<Arc<str>> = missed.map(|(name, _)| Arc::clone(name)).collect();
            for name in &missed {
                self.tell(name, Event::Misses);
            }
            look.missed.extend(missed);
            if self.failed() > self.policy.max_failures {
                return None;
            }
        }
        first
    }
}

#[cfg(test)]
mod tests;
