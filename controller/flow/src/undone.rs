//! Repairs of one device that its agent undoes, because they cut the server off or for another lasting reason.
//!
//! The refusal names no entry, so the batches become smaller until one entry is left: that one is to blame, and is held.
//! The search is bounded: after so many batches all entries of a batch are held. One held entry is tried again at a time,
//! after a pause that doubles with every batch that the agent undoes. All other repairs go on.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::FlowId;

/// Pauses between tries: the first, doubled each time, up to the longest. Each try may cut the server off for as long as
/// the guard of the agent waits.
const PAUSE_FIRST: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Batches that may be undone while the entry to blame is searched for. Halving 65,536 entries takes 16.
const SEARCH_MAX: u32 = 16;

/// **Invariant.** Nothing is held before a batch was undone.
#[derive(Debug, Default)]
pub(crate) struct Undone {
    /// Batches that were undone since the table and the device were equal.
    batches: u32,
    held: BTreeSet<FlowId>,
    /// The removal of entries that no table has is held.
    holds_strays: bool,
    /// The entry that was tried last.
    last: Option<FlowId>,
    /// When one entry is tried again.
    next: Option<MonoTime>,
}

impl Undone {
    /// The agent undid a batch of these repairs. Returns whether they are held from now on, or the search goes on.
    pub fn undo(&mut self, now: MonoTime, repairs: &[FlowId], with_strays: bool) -> bool {
        self.batches = self.batches.saturating_add(1);
        if repairs.len() > 1 && self.batches <= SEARCH_MAX {
            return false;
        }
        self.held.extend(repairs);
        self.holds_strays |= with_strays;
        self.next = Some(now + self.pause());
        true
    }

    fn pause(&self) -> Duration {
        PAUSE_FIRST.saturating_mul(1 << self.batches.saturating_sub(1).min(16)).min(PAUSE_MAX)
    }

    /// These are on the device after all.
    pub fn applied(&mut self, now: MonoTime, ids: &[FlowId]) {
        if self.held.is_empty() {
            return;
        }
        for id in ids {
            if self.held.remove(id) {
                self.next = Some(now);
            }
        }
    }

    /// Of these repairs, found by a comparison, returns those that may go now.
    pub fn release(&mut self, now: MonoTime, mut repairs: Vec<FlowId>) -> Vec<FlowId> {
        if self.held.is_empty() {
            return repairs;
        }
        let found: BTreeSet<FlowId> = repairs.iter().copied().collect();
        self.held.retain(|id| found.contains(id));
        let released = if self.is_due(now) { self.after_last() } else { None };
        if released.is_some() {
            (self.last, self.next) = (released, Some(now + self.pause()));
        }
        repairs.retain(|id| !self.held.contains(id) || Some(*id) == released);
        repairs
    }

    fn after_last(&self) -> Option<FlowId> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        self.held.range((after, Bound::Unbounded)).next().or_else(|| self.held.first()).copied()
    }

    /// Whether entries that no table has may be taken off the device now.
    pub fn releases_strays(&mut self, now: MonoTime) -> bool {
        self.holds_strays &= !self.is_due(now);
        !self.holds_strays
    }

    /// When the next entry is tried.
    pub fn next(&self) -> Option<MonoTime> {
        self.next
    }

    pub fn is_due(&self, now: MonoTime) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Whether an entry is tried again, alone.
    pub fn is_held(&self, id: FlowId) -> bool {
        self.held.contains(&id)
    }

    /// An operator asks for a comparison: the next entry is tried at once.
    pub fn hurry(&mut self, now: MonoTime) {
        self.next = self.next.map(|next| next.min(now));
    }
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

    #[test]
    fn the_search_goes_on_while_a_batch_can_be_halved() {
        let mut undone = Undone::default();
        for (batch, is_held) in [(ids(1..=4), false), (ids(1..=2), false), (ids(1..=1), true)] {
            assert_eq!(undone.undo(at(0), &batch, false), is_held, "{batch:?}");
        }
        assert_eq!(undone.release(at(1), ids(1..=4)), ids(2..=4), "the others go");
    }

    #[test]
    fn a_search_without_an_end_holds_all() {
        let mut undone = Undone::default();
        let searched = (0..100).take_while(|_| !undone.undo(at(0), &ids(1..=2), false)).count();
        assert_eq!(searched, SEARCH_MAX as usize);
        assert_eq!(undone.release(at(1), ids(1..=3)), ids(3..=3));
    }

    #[test]
    fn one_held_entry_is_tried_at_a_time_after_pauses_that_grow() {
        let (mut undone, mut now) = (Undone::default(), at(0));
        let (mut tried, mut pauses) = (Vec::new(), Vec::new());
        undone.undo(now, &ids(1..=1), false);
        undone.undo(now, &ids(2..=2), false);
        for _ in 0..8 {
            assert_eq!(undone.release(now, ids(1..=2)), [], "not yet");
            let next = undone.next().expect("two are held");
            pauses.push(next.since(now).as_secs());
            now = next;
            let released = undone.release(now, ids(1..=2));
            assert_eq!(released.len(), 1);
            undone.undo(now, &released, false);
            tried.extend(released);
        }
        assert!(pauses.is_sorted() && pauses.last() == Some(&PAUSE_MAX.as_secs()), "{pauses:?}");
        assert!(tried.windows(2).all(|two| two[0] != two[1]), "in turn: {tried:?}");
    }

    #[test]
    fn after_one_that_is_well_the_next_is_tried_at_once() {
        let mut undone = Undone::default();
        undone.undo(at(0), &ids(1..=1), false);
        undone.undo(at(0), &ids(2..=2), true);
        assert!(!undone.releases_strays(at(1)));
        undone.applied(at(2), &ids(1..=1));
        assert!(undone.releases_strays(at(2)));
        assert_eq!(undone.release(at(2), ids(2..=2)), ids(2..=2));
    }
}
