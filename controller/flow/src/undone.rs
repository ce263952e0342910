//! Repairs of one device that its agent undoes, because they cut the server off or for another
//! lasting reason.
//!
//! The refusal names no entry. So batches of repairs become smaller until one entry is left. That
//! entry is to blame, and is held. All other repairs go on. When no other repair is left, one held
//! entry is tried again at a time. The pause before that doubles with each try that the agent
//! undoes. The removal of a stray (an entry that no table has) is a repair like any other.
//!
//! Absent: how much smaller a batch becomes (`repairs_undone` in `batch.rs`), and how the agent undoes a batch
//! (`agent/core/src/flow/guard.rs`).

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::FlowId;

/// Pauses between tries of held entries: the first, doubled each time, up to the longest. Each try
/// may cut the server off for as long as the agent's guard waits.
const PAUSE_FIRST: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Pauses in the search for an entry to blame: the first, doubled each time, up to the longest.
const SEARCH_FIRST: Duration = Duration::from_secs(1);
const SEARCH_MAX: Duration = Duration::from_secs(60);
/// Batches of a search undone in a row, after which the pauses may grow to those of held entries.
/// Halving a million entries takes 20.
const SEARCH_STEPS: u32 = 24;

#[derive(Debug, Default)]
pub(crate) struct Undone {
    held: BTreeSet<FlowId>,
    /// Undone tries of held entries since one succeeded.
    tries: u32,
    /// Undone batches of the search since one was applied.
    steps: u32,
    /// The held entry that was tried last.
    last: Option<FlowId>,
    /// When a held entry may be tried again. `None`: no entry is held.
    next: Option<MonoTime>,
    /// A held entry was due and let other repairs go first. It does so once.
    gave_way: bool,
}

impl Undone {
    /// The agent undid these repairs. Returns whether their single entry is held now, and the pause
    /// before other repairs go on.
    pub fn undo(&mut self, now: MonoTime, repairs: &[FlowId]) -> (bool, Duration) {
        let [entry] = *repairs else {
            self.steps = self.steps.saturating_add(1);
            return (false, self.search_pause());
        };
        if self.held.insert(entry) {
            self.steps = self.steps.saturating_add(1);
        }
        self.tries = self.tries.saturating_add(1);
        self.next = Some(now + self.pause());
        (true, self.search_pause())
    }

    fn pause(&self) -> Duration {
        doubled(PAUSE_FIRST, self.tries, PAUSE_MAX)
    }

    fn search_pause(&self) -> Duration {
        doubled(SEARCH_FIRST, self.steps, if self.steps > SEARCH_STEPS { PAUSE_MAX } else { SEARCH_MAX })
    }

    /// These repairs are on the device. Returns whether one of them was held.
    pub fn applied(&mut self, now: MonoTime, repairs: &[FlowId]) -> bool {
        self.steps = 0;
        let before = self.held.len();
        repairs.iter().filter(|_| before > 0).for_each(|id| {
            self.held.remove(id);
        });
        let was_held = self.held.len() < before;
        if was_held {
            (self.tries, self.next) = (0, Some(now).filter(|_| !self.held.is_empty()));
        }
        was_held
    }

    /// Whether no entry is held. Then a comparison need not call [`Self::release`].
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// A comparison found these repairs. Returns those that go now: all that are not held, or a
    /// single held one. A due entry lets others go first once, because a comparison may find some
    /// of them each time.
    pub fn release(&mut self, now: MonoTime, found: &BTreeSet<FlowId>) -> BTreeSet<FlowId> {
        self.held.retain(|id| found.contains(id));
        if self.held.is_empty() {
            self.next = None;
        }
        let others: BTreeSet<FlowId> = found.difference(&self.held).copied().collect();
        if !self.is_due(now) {
            return others;
        }
        self.gave_way = !others.is_empty() && !self.gave_way;
        if self.gave_way {
            return others;
        }
        self.last = self.after_last();
        self.next = Some(now + self.pause());
        self.last.into_iter().collect()
    }

    fn after_last(&self) -> Option<FlowId> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        self.held.range((after, Bound::Unbounded)).next().or_else(|| self.held.first()).copied()
    }

    /// The time to try the next held entry.
    pub fn next(&self) -> Option<MonoTime> {
        self.next
    }

    pub fn is_due(&self, now: MonoTime) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// An operator asks for a comparison: a held entry is tried at once.
    pub fn hurry(&mut self, now: MonoTime) {
        self.next = self.next.map(|next| next.min(now));
    }
}

/// The pause after `tries` tries.
fn doubled(first: Duration, tries: u32, most: Duration) -> Duration {
    first.saturating_mul(1 << tries.saturating_sub(1).min(20)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime(Duration::from_secs(seconds))
    }

    fn ids(range: std::ops::RangeInclusive<u64>) -> Vec<FlowId> {
        range.map(FlowId).collect()
    }

    fn found(range: std::ops::RangeInclusive<u64>) -> BTreeSet<FlowId> {
        range.map(FlowId).collect()
    }

    #[test]
    fn the_search_goes_on_until_one_entry_is_left() {
        let mut undone = Undone::default();
        for (batch, is_held) in [(ids(1..=4), false), (ids(1..=2), false), (ids(1..=1), true)] {
            assert_eq!(undone.undo(at(0), &batch).0, is_held, "{batch:?}");
        }
        assert_eq!(undone.release(at(1), &found(1..=4)), found(2..=4), "the others go");
        assert_eq!(undone.release(at(60), &found(1..=4)), found(2..=4), "without the held one");
        assert_eq!(undone.release(at(60), &found(1..=4)), found(1..=1), "which goes alone in the end");
    }

    #[test]
    fn a_search_is_paced_until_something_is_applied() {
        let mut undone = Undone::default();
        let pauses: Vec<u64> = (0..30).map(|_| undone.undo(at(0), &ids(1..=2)).1.as_secs()).collect();
        assert!(pauses.is_sorted());
        assert_eq!((pauses[0], pauses[20], pauses[29]), (1, 60, 3600));
        assert!(!undone.applied(at(0), &ids(3..=3)), "none was held");
        assert_eq!(undone.undo(at(0), &ids(1..=2)).1, SEARCH_FIRST);
    }

    #[test]
    fn one_held_entry_is_tried_at_a_time_after_pauses_that_grow() {
        let (mut undone, mut now) = (Undone::default(), at(0));
        let (mut tried, mut pauses) = (Vec::new(), Vec::new());
        undone.undo(now, &ids(1..=1));
        undone.undo(now, &ids(2..=2));
        for _ in 0..8 {
            assert_eq!(undone.release(now, &found(1..=2)), BTreeSet::new(), "not yet");
            let next = undone.next().expect("two are held");
            pauses.push(next.since(now).as_secs());
            now = next;
            let released: Vec<FlowId> = undone.release(now, &found(1..=2)).into_iter().collect();
            assert_eq!(released.len(), 1);
            undone.undo(now, &released);
            tried.extend(released);
        }
        assert!(pauses.is_sorted() && pauses.last() == Some(&PAUSE_MAX.as_secs()), "{pauses:?}");
        assert!(tried.windows(2).all(|two| two[0] != two[1]), "in turn: {tried:?}");
    }

    #[test]
    fn tries_of_a_held_entry_do_not_slow_a_later_search() {
        let mut undone = Undone::default();
        for day in 0..100 {
            undone.undo(at(day * 86_400), &ids(1..=1));
        }
        assert_eq!(undone.undo(at(100 * 86_400), &ids(2..=9)), (false, Duration::from_secs(2)));
    }

    #[test]
    fn after_one_that_is_well_the_next_is_tried_at_once() {
        let mut undone = Undone::default();
        undone.undo(at(0), &ids(1..=1));
        undone.undo(at(0), &ids(2..=2));
        assert!(undone.applied(at(2), &ids(1..=1)));
        assert_eq!(undone.release(at(2), &found(2..=2)), found(2..=2));
    }

    #[test]
    fn what_is_well_for_another_reason_is_held_no_longer() {
        let mut undone = Undone::default();
        undone.undo(at(0), &ids(1..=1));
        assert_eq!(undone.release(at(1), &found(2..=2)), found(2..=2));
        assert!(undone.is_idle() && undone.next().is_none());
    }
}
