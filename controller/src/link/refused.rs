//! Counts the packets of nodes that were not taken, by reason, since the controller started.
//!
//! Absent: the reasons (`PacketError` in `shared/src/seal.rs`), and how many end a connection (`inbox.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use muster_shared::seal::PacketError;

/// The link counts, and the API shows the counts. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RefusedPackets(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl RefusedPackets {
    /// Counts a refusal. There are as many counts as reasons.
    pub fn count(&self, error: PacketError) {
        // A single statement changes the table: a panic elsewhere leaves it whole.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(error.label()).or_default() += 1;
    }

    /// The counts, by [`PacketError::label`]; those that are 0 as well.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts: BTreeMap<_, _> = PacketError::LABELS.into_iter().map(|label| (label, 0)).collect();
        counts.extend(self.0.lock().unwrap_or_else(PoisonError::into_inner).iter());
        counts
    }
}
