//! A table's entries to and from records of the store.

use muster_shared::model::flow::FlowId;

use super::Table;
use crate::entry::{Kept, Past, record};
use crate::record::{FlowEntryRecord, FlowMark, FlowPast};

impl Table {
    /// The next records to save, at most `most`, and the ids of removed entries.
    pub fn next_unsaved(&mut self, most: usize) -> (Vec<FlowEntryRecord>, Vec<FlowId>) {
        let (mut records, mut gone) = (Vec::new(), Vec::new());
        for _ in 0..most {
            let Some(id) = self.unsaved.pop() else { break };
            match self.entries.get_mut(&id) {
                None => gone.push(id),
                Some(kept) if kept.unsaved => {
                    kept.unsaved = false;
                    records.push(record(id, kept, self.reasons.get(&id)));
                }
                Some(_) => {} // removed and put again since
            }
        }
        (records, gone)
    }

    pub fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// Loads an entry from the store.
    pub fn load(&mut self, record: FlowEntryRecord) {
        let mut past = None;
        for older in record.past.into_iter().rev() {
            let FlowPast { packed, serial, owner, removing, mark, hidden } = older;
            let digest = packed.digest();
            past =
                Some(Box::new(Past { packed, digest, serial, before: past, owner, removing, mark, hidden }));
        }
        let FlowEntryRecord { id, packed, serial, owner, removing, mark, hidden, reason, .. } = record;
        let digest = packed.digest();
        let kept = Kept {
            packed,
            digest,
            serial,
            past,
            owner,
            removing,
            mark,
            hidden,
            queued: false,
            unsaved: false,
        };
        if let Some(seen) = kept.seen() {
            self.sums.toggle(id, digest, seen);
        }
        self.marked[mark as usize] += 1;
        self.specials += usize::from(kept.is_special());
        self.versions += kept.versions();
        if !owner.is_unnamed_operator() {
            self.owned.insert((owner, id));
        }
        self.reasons.extend(reason.map(|reason| (id, reason)));
        if kept.serial > self.settled || mark == FlowMark::Failed {
            self.perhaps_present.insert(id);
        }
        self.entries.insert(id, kept);
        self.wait_again(&[id]);
    }

    /// Sets the serials, before any entry is loaded.
    pub fn load_numbers(&mut self, serial: u64, settled: u64) {
        (self.serial, self.settled) = (serial, settled);
    }
}
