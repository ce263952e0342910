//! The log of one device on its server's disk: records in the order they were written, of which a power cut leaves
//! those that were synced, and some of the others.

use std::collections::BTreeMap;

use muster_agent_core::{Loaded, Op, TableEntry, Undecided};
use muster_shared::Generation;
use muster_shared::model::flow::{Bridge, EntryState, FlowId, FlowRefusal, Packed};

use super::super::dice::Dice;

/// A record, which was written at once.
#[derive(Clone, Debug)]
pub enum Record {
    /// A batch.
    Batch {
        generation: Generation,
        ops: Vec<Op>,
        guarded: bool,
    },
    Decided {
        generation: Generation,
        refused: Option<FlowRefusal>,
    },
    /// Entries that ended by their timeouts.
    Expired(Vec<FlowId>),
    /// The whole table, rewritten.
    Base {
        kept: Vec<TableEntry>,
        decided: Generation,
        refused: Option<FlowRefusal>,
    },
    /// The table was forgotten.
    Forgotten(Generation),
}

/// A log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    records: Vec<Record>,
    /// The number of records that survive a power cut.
    synced: usize,
    /// The last of them was refused by a full disk, and may be there all the same until the next one is written.
    doubtful: bool,
    bytes: BTreeMap<u32, Packed>,
    end: u32,
}

/// A device as a log has it.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// The entries by id.
    pub kept: BTreeMap<FlowId, TableEntry>,
    /// The newest batch that ended.
    pub decided: Generation,
    pub refused: Option<FlowRefusal>,
    /// The one after it.
    pub open: Option<Undecided>,
    /// There is no table.
    pub forgotten: bool,
}

/// The bytes of a record besides its entries.
const OVERHEAD: u32 = 16;

impl Log {
    /// Room for what is appended; where it begins.
    pub fn place(&mut self, packed: &Packed) -> u32 {
        let at = self.end;
        let length = u32::try_from(packed.bytes().len()).unwrap_or(u32::MAX);
        self.bytes.insert(at, packed.clone());
        self.end += length + OVERHEAD;
        at
    }

    pub fn read(&self, at: u32) -> Option<Packed> {
        self.bytes.get(&at).cloned()
    }

    /// Written, and not durable.
    pub fn append(&mut self, record: Record) {
        self.drop_doubtful();
        self.end += OVERHEAD;
        self.records.push(record);
    }

    /// The disk is full, and has taken it all the same.
    pub fn append_in_doubt(&mut self, record: Record) {
        self.append(record);
        self.doubtful = true;
    }

    fn drop_doubtful(&mut self) {
        if std::mem::take(&mut self.doubtful) {
            self.records.pop();
        }
    }

    /// Makes all records durable.
    pub fn sync(&mut self) {
        self.synced = self.records.len() - usize::from(self.doubtful);
    }

    /// An agent reads it: what is there is there from then on.
    pub fn open(&mut self) {
        self.doubtful = false;
        self.sync();
    }

    /// Rewritten, and durable, in one step.
    pub fn rewrite(&mut self, record: Record, bytes: Vec<Packed>) -> Vec<u32> {
        *self = Self { end: self.end, ..Self::default() };
        let at = bytes.iter().map(|packed| self.place(packed)).collect();
        self.records.push(record);
        self.sync();
        at
    }

    /// Moves the entries to their places after a rewrite.
    pub fn moved(&mut self, at: &[u32]) {
        if let Some(Record::Base { kept, .. }) = self.records.first_mut() {
            kept.iter_mut().zip(at).for_each(|(kept, at)| kept.at = *at);
        }
    }

    /// Keeps only a beginning of the records that were not synced. Returns whether a record is lost.
    pub fn power_cut(&mut self, dice: &mut Dice) -> bool {
        let (all, unsynced) = (self.records.len(), self.records.len() - self.synced);
        self.records.truncate(self.synced + dice.index(unsynced + 1));
        (self.synced, self.doubtful) = (self.records.len(), false);
        self.records.len() < all
    }

    /// Nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn len(&self) -> u64 {
        u64::from(self.end) - self.bytes.keys().next().map_or(u64::from(self.end), |at| u64::from(*at))
    }

    /// The contents of the log; `synced`: after a power cut at the worst moment.
    pub fn fold(&self, synced: bool) -> Folded {
        let mut folded = Folded::default();
        let count = if synced { self.synced } else { self.records.len() };
        for record in &self.records[..count] {
            folded.goes_on(record);
        }
        folded
    }

    /// Returns the log as an agent that starts reads it; none if nothing was ever written.
    pub fn load(&self, device: &Bridge) -> Option<Loaded> {
        if self.records.is_empty() {
            return None;
        }
        let Folded { kept, decided, refused, open, forgotten } = self.fold(false);
        let kept = kept.into_values().collect();
        let log = self.len();
        Some(Loaded { device: device.clone(), kept, decided, refused, undecided: open, forgotten, log })
    }
}

impl Folded {
    fn goes_on(&mut self, record: &Record) {
        match record {
            Record::Batch { generation, ops, guarded } => {
                let (generation, ops, guarded) = (*generation, ops.clone(), *guarded);
                self.forgotten = false;
                self.open = Some(Undecided { generation, ops, guarded });
            }
            Record::Decided { generation, refused } => {
                let open = self.open.take_if(|open| open.generation == *generation);
                if let (Some(open), None) = (open, refused) {
                    self.apply(&open.ops);
                }
                (self.decided, self.refused) = (*generation, refused.clone());
            }
            Record::Expired(ids) => {
                for id in ids {
                    if let Some(kept) = self.kept.get_mut(id) {
                        kept.state = EntryState::Expired;
                    }
                }
            }
            Record::Base { kept, decided, refused } => {
                *self = Self { decided: *decided, refused: refused.clone(), ..Self::default() };
                self.kept = kept.iter().map(|kept| (kept.id, *kept)).collect();
            }
            Record::Forgotten(generation) => {
                *self = Self { decided: *generation, forgotten: true, ..Self::default() };
            }
        }
    }

    fn apply(&mut self, ops: &[Op]) {
        for op in ops {
            let Op { id, digest, at, length, put } = *op;
            if put {
                self.kept.insert(id, TableEntry { id, digest, at, length, state: EntryState::Present });
            } else {
                self.kept.remove(&id);
            }
        }
    }
}
