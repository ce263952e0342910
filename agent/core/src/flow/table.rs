//! The desired entries of one device, by id, with their digests. The entries themselves are in the log.
//!
//! Absent: which entries are desired. The controller's table has the same name
//! (`controller/flow/src/table.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_shared::model::flow::{Buckets, EntryState, FlowId};

use super::{Op, TableEntry};

/// The log's overhead per entry, in bytes, about.
const LOG_OVERHEAD: u64 = 16;
/// Up to this many operations change the table in place. Each may move all later entries, which still costs
/// less than copying a large table for one rule.
const FEW: usize = 16;

impl Op {
    /// The entry that the operation puts.
    fn kept(&self) -> TableEntry {
        let Self { id, digest, at, length, .. } = *self;
        TableEntry { id, digest, at, length, state: EntryState::Present }
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Table {
    kept: Arc<Vec<TableEntry>>,
    sums: Buckets,
    wrong: u32,
    /// Bytes of the log that are needed.
    live: u64,
}

impl Table {
    /// Sorts the entries by id.
    pub(crate) fn new(mut kept: Vec<TableEntry>) -> Self {
        kept.sort_unstable_by_key(|it| it.id);
        kept.dedup_by_key(|it| it.id);
        let mut table = Self::default();
        for it in &kept {
            table.sums.toggle(it.id, it.digest, it.state);
            table.live += u64::from(it.length) + LOG_OVERHEAD;
            table.wrong += u32::from(it.state == EntryState::Wrong);
        }
        table.kept = Arc::new(kept);
        table
    }

    pub(crate) fn kept(&self) -> Arc<Vec<TableEntry>> {
        Arc::clone(&self.kept)
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn sums(&self) -> &Buckets {
        &self.sums
    }

    pub(crate) fn wrong(&self) -> u32 {
        self.wrong
    }

    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    pub(crate) fn get(&self, id: FlowId) -> Option<&TableEntry> {
        self.kept.binary_search_by_key(&id, |it| it.id).ok().map(|at| &self.kept[at])
    }

    /// Entries after these operations.
    pub(crate) fn len_after(&self, ops: &[Op]) -> usize {
        let mut len = self.len();
        for op in ops {
            match (op.put, self.get(op.id).is_some()) {
                (true, false) => len += 1,
                (false, true) => len -= 1,
                (true, true) | (false, false) => {}
            }
        }
        len
    }

    /// The operations for the host, by id: a removal names the present entry, and an absent entry needs no
    /// removal. `None` if an id occurs twice.
    pub(crate) fn resolve(&self, mut ops: Vec<Op>) -> Option<Vec<Op>> {
        ops.sort_unstable_by_key(|op| op.id);
        if ops.windows(2).any(|pair| pair[0].id == pair[1].id) {
            return None;
        }
        ops.retain_mut(|op| {
            if !op.put {
                let Some(kept) = self.get(op.id) else { return false };
                (op.at, op.length) = (kept.at, kept.length);
            }
            true
        });
        Some(ops)
    }

    /// The operations that undo `ops`.
    pub(crate) fn inverse(&self, ops: &[Op]) -> Vec<Op> {
        let undo = |op: &Op| match self.get(op.id).filter(|kept| kept.state != EntryState::Expired) {
            Some(kept) => {
                let TableEntry { id, digest, at, length, .. } = *kept;
                Some(Op { id, digest, at, length, put: true })
            }
            None => op.put.then_some(Op { put: false, digest: 0, ..*op }),
        };
        ops.iter().filter_map(undo).collect()
    }

    /// The desired entries while the operations, by id, are in force and undecided.
    pub(crate) fn with(&self, ops: &[Op]) -> Vec<TableEntry> {
        let mut kept = Vec::with_capacity(self.len_after(ops));
        let mut old = self.kept.iter().copied().peekable();
        for op in ops {
            while let Some(it) = old.next_if(|it| it.id < op.id) {
                kept.push(it);
            }
            old.next_if(|it| it.id == op.id);
            kept.extend(op.put.then(|| op.kept()));
        }
        kept.extend(old);
        kept
    }

    /// The operations, by id, are in force.
    pub(crate) fn apply(&mut self, ops: &[Op]) {
        for op in ops {
            if let Some(it) = self.get(op.id).copied() {
                self.sums.toggle(it.id, it.digest, it.state);
                self.wrong -= u32::from(it.state == EntryState::Wrong);
                self.live -= u64::from(it.length) + LOG_OVERHEAD;
            }
            if op.put {
                let it = op.kept();
                self.sums.toggle(it.id, it.digest, it.state);
                self.live += u64::from(it.length) + LOG_OVERHEAD;
            }
        }
        if ops.len() > FEW {
            self.kept = Arc::new(self.with(ops));
            return;
        }
        let kept = Arc::make_mut(&mut self.kept);
        for op in ops {
            match (kept.binary_search_by_key(&op.id, |it| it.id), op.put) {
                (Ok(at), true) => kept[at] = op.kept(),
                (Ok(at), false) => {
                    kept.remove(at);
                }
                (Err(at), true) => kept.insert(at, op.kept()),
                (Err(_), false) => {}
            }
        }
    }

    /// Sets the state of `ids`; returns those whose state changed.
    pub(crate) fn set(&mut self, ids: &[FlowId], state: EntryState) -> Vec<FlowId> {
        let places = ids.iter().filter_map(|id| self.kept.binary_search_by_key(id, |it| it.id).ok());
        let places: BTreeSet<usize> = places.filter(|at| self.kept[*at].state != state).collect();
        if places.is_empty() {
            return Vec::new();
        }
        let kept = Arc::make_mut(&mut self.kept);
        for at in &places {
            let it = &mut kept[*at];
            self.sums.toggle(it.id, it.digest, it.state);
            self.wrong -= u32::from(it.state == EntryState::Wrong);
            it.state = state;
            self.wrong += u32::from(state == EntryState::Wrong);
            self.sums.toggle(it.id, it.digest, it.state);
        }
        places.into_iter().map(|at| kept[at].id).collect()
    }

    /// Marks all wrong entries but these as present.
    pub(crate) fn right_but(&mut self, still: &[FlowId]) {
        if self.wrong == 0 {
            return;
        }
        let wrong = self.kept.iter().filter(|it| it.state == EntryState::Wrong).map(|it| it.id);
        let right: Vec<_> = wrong.filter(|id| still.binary_search(id).is_err()).collect();
        self.set(&right, EntryState::Present);
    }

    /// Records the entries' new places in the log, in the entries' order.
    pub(crate) fn moved(&mut self, at: &[u32]) {
        for (it, at) in Arc::make_mut(&mut self.kept).iter_mut().zip(at) {
            it.at = *at;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn op((id, digest, put): (u64, u64, bool)) -> Op {
        Op { id: FlowId(id), digest, at: digest as u32, length: digest as u16 % 100, put }
    }

    proptest! {
        /// Operations applied in place and operations merged give the same table as the whole list.
        #[test]
        fn a_table_after_operations_is_that_of_its_entries(
            before in proptest::collection::btree_map(0..60u64, (any::<u64>(), any::<bool>()), 0..60),
            ops in proptest::collection::btree_map(0..60u64, (any::<u64>(), any::<bool>()), 0..FEW * 2),
        ) {
            let wrong = |is_wrong| if is_wrong { EntryState::Wrong } else { EntryState::Present };
            let kept = |(id, (digest, is_wrong)): (&u64, &(u64, bool))| TableEntry { state: wrong(*is_wrong), ..op((*id, *digest, true)).kept() };
            let mut table = Table::new(before.iter().map(kept).collect());
            let ops: Vec<_> = ops.iter().map(|(id, (digest, put))| op((*id, *digest, *put))).collect();
            let whole = Table::new(table.with(&ops));
            table.apply(&ops);
            let left = before.iter().map(kept).filter(|it| !ops.iter().any(|op| op.id == it.id));
            let mut wanted: Vec<_> = left.chain(ops.iter().filter(|op| op.put).map(Op::kept)).collect();
            wanted.sort_by_key(|it| it.id);
            prop_assert_eq!(&*table.kept(), &wanted);
            prop_assert_eq!(&*whole.kept(), &wanted);
            prop_assert_eq!(table.sums().all(), whole.sums().all());
            prop_assert_eq!((table.wrong(), table.live()), (whole.wrong(), whole.live()));
        }
    }
}
