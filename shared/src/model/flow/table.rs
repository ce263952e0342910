//! Compares two tables without sending them: digests of 1,024 buckets, and one digest of those.
//!
//! The digest of a bucket is the exclusive or, over its entries, of a mix of id, content and state.
//! Each change updates it, in any order. The digests find differences; they are no protection,
//! since both sides are authenticated.
//!
//! Absent: what follows from a difference (`controller/flow/src/compare_with_agent.rs`), and the comparison of a table
//! with its device (`agent/core/src/flow/repair_switch.rs`).

use serde::{Deserialize, Serialize};

use super::FlowId;

/// Buckets of a table: of 100,000 rules each holds about a hundred.
pub const BUCKETS: usize = 1024;

/// The state of an entry on its device, as the agent reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EntryState {
    /// The device holds the entry as desired.
    Present,
    /// The entry ended by its idle or hard timeout, and stays gone.
    Expired,
    /// The entry is absent or different, and cannot be corrected at present.
    Wrong,
}

/// The digests of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets(Box<[u64; BUCKETS]>);

impl Default for Buckets {
    fn default() -> Self {
        Self(Box::new([0; BUCKETS]))
    }
}

/// The bucket of an entry.
pub fn bucket_of(id: FlowId) -> usize {
    (id.0 % BUCKETS as u64) as usize
}

impl Buckets {
    /// Adds an entry, or removes it: the same call does both.
    pub fn toggle(&mut self, id: FlowId, digest: u64, state: EntryState) {
        self.0[bucket_of(id)] ^= mix(id.0 ^ mix(digest ^ mix(1 + state as u64)));
    }

    /// The digest of one bucket.
    pub fn get(&self, bucket: usize) -> u64 {
        self.0[bucket]
    }

    /// The digests of all buckets.
    pub fn all(&self) -> &[u64] {
        &self.0[..]
    }

    /// A digest for the whole table; 0 for an empty one.
    pub fn root(&self) -> u64 {
        (0..)
            .zip(self.0.iter())
            .filter(|(_, sum)| **sum != 0)
            .fold(0, |root, (n, sum)| root ^ mix(sum ^ mix(n + 1)))
    }
}

/// SplitMix64's finalizer: one changed bit of the input changes half of the output.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
