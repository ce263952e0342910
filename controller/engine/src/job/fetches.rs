//! Limits how many nodes fetch contents at a time. Each fetches to the end, then the next one starts.
//!
//! ```text
//!   ask ─▶ waits in line ─place free─▶ served ─asks─▶ served … ─last piece, silence, gone─▶ the place is free
//!              ▲                                 │ its slice is over, and others wait
//!              └─────────────────────────────────┘
//! ```
//!
//! If all nodes shared the link evenly, the nodes of a large site would all finish together, and
//! late. A node keeps what it has fetched, so it loses nothing when it goes back into the line.
//!
//! Absent: which contents are kept (`content.rs`), and how an agent fetches (`agent/core/src/fetch.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::ContentDigest;

/// Nodes that fetch at a time. Each has one piece of 128 KiB in transit. The 8 MiB in all keep a
/// link of 10 Gbit/s busy at a round trip of 6 ms.
pub(crate) const SERVED_MAX: usize = 64;
/// If others wait, a node that does not ask for its next piece within this time loses its place.
/// The node is gone, or its link is slower than 100 kbit/s.
const IDLE: Duration = Duration::from_secs(10);
/// If others wait, a slow node loses its place after this time, and goes on when the others had theirs.
const SLICE: Duration = Duration::from_secs(60);

/// A piece of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub digest: ContentDigest,
    pub offset: u64,
    /// The last piece of its content.
    pub is_last: bool,
}

#[derive(Debug)]
struct Place {
    since: MonoTime,
    asked: MonoTime,
}

/// See the module's diagram. `K` identifies a node.
#[derive(Debug)]
pub(crate) struct Fetches<K> {
    served: BTreeMap<K, Place>,
    line: VecDeque<K>,
    /// The last piece that each waiting node asked for.
    wanted: BTreeMap<K, Piece>,
}

impl<K> Default for Fetches<K> {
    fn default() -> Self {
        Self { served: BTreeMap::new(), line: VecDeque::new(), wanted: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Fetches<K> {
    /// Number of nodes that wait. A served node keeps its place until another one waits.
    pub fn waiting(&self) -> usize {
        self.line.len().max(self.wanted.len())
    }

    /// A node asks for a piece. [`Fetches::next`] returns it when it may be sent.
    pub fn ask(&mut self, now: MonoTime, node: K, piece: Piece) {
        let slice_is_over =
            self.served.get(&node).is_some_and(|place| place.since + SLICE <= now) && !self.line.is_empty();
        if slice_is_over {
            self.served.remove(&node);
        }
        if let Some(place) = self.served.get_mut(&node) {
            place.asked = now;
            if self.wanted.insert(node, piece).is_none() {
                // The node has a place, so it waits for no other.
                self.line.push_front(node);
            }
        } else if self.wanted.insert(node, piece).is_none() {
            self.line.push_back(node);
        }
    }

    /// The next piece to send.
    pub fn next(&mut self, now: MonoTime) -> Option<(K, Piece)> {
        let first = *self.line.front()?;
        if !self.served.contains_key(&first) {
            if self.served.len() >= SERVED_MAX {
                self.served.retain(|_, place| now < place.asked + IDLE);
            }
            if self.served.len() >= SERVED_MAX {
                return None;
            }
            self.served.insert(first, Place { since: now, asked: now });
        }
        self.line.pop_front();
        let piece = self.wanted.remove(&first)?;
        if piece.is_last {
            self.served.remove(&first);
        }
        Some((first, piece))
    }

    /// The node is gone.
    pub fn gone(&mut self, node: K) {
        self.served.remove(&node);
        if self.wanted.remove(&node).is_some() {
            self.line.retain(|other| *other != node);
        }
    }

    /// When a place may be free, if a node waits for one.
    pub fn timeout(&self) -> Option<MonoTime> {
        let idle = self.served.values().map(|place| place.asked + IDLE).min();
        idle.filter(|_| !self.line.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> MonoTime {
        MonoTime(SECOND * u32::try_from(seconds).unwrap())
    }

    fn piece(offset: u64, is_last: bool) -> Piece {
        Piece { digest: ContentDigest([1; 32]), offset, is_last }
    }

    fn served(fetches: &mut Fetches<usize>, now: MonoTime) -> Vec<usize> {
        std::iter::from_fn(|| fetches.next(now)).map(|(node, _)| node).collect()
    }

    /// Nodes 0 to [`SERVED_MAX`] - 1 are served, and `more` nodes wait in the order in which they asked.
    fn full(more: usize) -> Fetches<usize> {
        let mut fetches = Fetches::default();
        for node in 0..SERVED_MAX + more {
            fetches.ask(at(0), node, piece(0, false));
        }
        assert_eq!(served(&mut fetches, at(0)), (0..SERVED_MAX).collect::<Vec<_>>());
        fetches
    }

    #[test]
    fn who_has_a_place_is_served_to_the_end_then_the_next() {
        let mut fetches = full(2);
        fetches.ask(at(1), 5, piece(1, false));
        assert_eq!(served(&mut fetches, at(1)), [5], "not those who wait");
        fetches.ask(at(2), 5, piece(2, true));
        assert_eq!(served(&mut fetches, at(2)), [5, SERVED_MAX]);
        fetches.gone(7);
        assert_eq!(served(&mut fetches, at(2)), [SERVED_MAX + 1]);
        assert_eq!(fetches.timeout(), None, "nobody waits");
    }

    #[test]
    fn a_question_asked_again_keeps_its_place_in_the_line() {
        let mut fetches = full(2);
        fetches.ask(at(30), SERVED_MAX, piece(3, false));
        fetches.gone(0);
        assert_eq!(fetches.next(at(1)), Some((SERVED_MAX, piece(3, false))), "with what it asked for last");
        assert_eq!(fetches.next(at(1)), None);
    }

    #[test]
    fn who_is_silent_or_slow_makes_room_where_others_wait() {
        let mut fetches = full(0);
        assert_eq!(fetches.timeout(), None);
        fetches.ask(at(9), 1, piece(1, false));
        assert_eq!(served(&mut fetches, at(9)), [1], "nobody waits");
        fetches.ask(at(9), 100, piece(0, false));
        assert_eq!((served(&mut fetches, at(9)), fetches.timeout()), (vec![], Some(at(10))));
        assert_eq!(served(&mut fetches, at(10)), [100]);
        let mut fetches = full(1);
        for now in (5..60).step_by(5) {
            for node in 0..SERVED_MAX {
                fetches.ask(at(now), node, piece(now, false));
            }
            assert_eq!(served(&mut fetches, at(now)).len(), SERVED_MAX);
        }
        fetches.ask(at(60), 3, piece(60, false));
        assert_eq!(served(&mut fetches, at(60)), [SERVED_MAX], "its slice is over");
        fetches.gone(4);
        assert_eq!(served(&mut fetches, at(60)), [3], "it goes on where it was");
    }

    /// 10,000 nodes fetch 4.4 MB each, at 100 pieces a second for all: each piece leaves once, and
    /// the first nodes are done early.
    #[test]
    fn a_large_site_ends_one_after_the_other() {
        let (nodes, pieces, per_second) = (10_000_usize, 34_u64, 1_000);
        let mut fetches = Fetches::default();
        let mut have = vec![0; nodes];
        for node in 0..nodes {
            fetches.ask(at(0), node, piece(0, false));
        }
        let (mut now, mut done_at) = (0, Vec::new());
        while done_at.len() < nodes {
            now += 1;
            for _ in 0..per_second {
                let Some((node, told)) = fetches.next(at(now)) else { break };
                assert_eq!(told.offset, have[node], "nothing leaves twice");
                have[node] += 1;
                if have[node] == pieces {
                    done_at.push(now);
                } else {
                    fetches.ask(at(now), node, piece(have[node], have[node] + 1 == pieces));
                }
            }
        }
        assert_eq!(now, 340, "as fast as the link is");
        assert!(done_at[nodes / 2] <= 171, "half of them at half time: {}", done_at[nodes / 2]);
    }
}
