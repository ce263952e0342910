//! A table as an agent would have it, in memory.

use std::io;

use muster_host::nftables::{Extraneous, Nftables};
use muster_host::openflow::{Applied, Compared, Desired, Form, Lost, Op, Ops, Outcome, Refusal, Wanted};
use muster_shared::model::flow::{Entry, FlowId, Packed};

use crate::id;

/// The rules that the filter is to hold, in the order of ids.
#[derive(Default)]
pub struct Table {
    pub entries: Vec<(FlowId, Packed, Option<Form>)>,
}

/// Operations: put, or remove.
pub struct Batch {
    ops: Vec<(FlowId, Packed, bool)>,
    next: usize,
}

impl Ops for Batch {
    fn rewind(&mut self) -> io::Result<()> {
        self.next = 0;
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Op<'_>>> {
        let Some((id, packed, put)) = self.ops.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(match put {
            true => Op::Put { id: *id, packed: packed.bytes(), held: false },
            false => Op::Remove { id: *id, was: Some(packed.bytes()) },
        }))
    }
}

impl Desired for Table {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, index: usize) -> Wanted {
        let (id, _, odd) = &self.entries[index];
        Wanted { id: *id, present: true, odd: *odd }
    }

    fn find(&self, id: FlowId) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.0).ok()
    }

    fn read(&self, index: usize, packed: &mut Vec<u8>) -> io::Result<()> {
        packed.clear();
        packed.extend_from_slice(self.entries[index].1.bytes());
        Ok(())
    }
}

impl Table {
    /// Puts and removes; the table is what the filter is to hold afterwards.
    pub async fn apply(
        &mut self,
        filter: &mut Nftables,
        puts: &[Entry],
        removes: &[Entry],
    ) -> Result<Applied, Refusal> {
        let op = |put| move |entry: &Entry| (id(entry), Packed::new(entry).unwrap(), put);
        let ops = puts.iter().map(op(true)).chain(removes.iter().map(op(false))).collect();
        match filter.apply(&mut Batch { ops, next: 0 }, async { Ok(()) }).await.unwrap() {
            Outcome::Refused(refusal) => Err(refusal),
            Outcome::Applied(applied) => {
                let touched: std::collections::BTreeSet<FlowId> =
                    puts.iter().chain(removes).map(id).collect();
                self.entries.retain(|entry| !touched.contains(&entry.0));
                let odd = |id| applied.odd.iter().find(|odd| odd.0 == id).map(|odd| odd.1);
                let new = puts.iter().map(|entry| (id(entry), Packed::new(entry).unwrap(), odd(id(entry))));
                self.entries.extend(new);
                self.entries.sort_by_key(|entry| entry.0);
                Ok(applied)
            }
        }
    }

    /// Compares and repairs the filter. Returns the findings.
    pub async fn repair(&mut self, filter: &mut Nftables) -> Result<Compared<Extraneous>, Lost> {
        let found = filter.compare(self).await?;
        assert_eq!(filter.strip(&found.extraneous).await?, None);
        let wrong = found.missing.iter().copied().chain(found.altered.iter().map(|(id, _)| *id));
        let packed = |id| self.entries[self.find(id).unwrap()].1.clone();
        let ops = wrong.map(|id| (id, packed(id), true)).collect();
        let outcome = filter.apply(&mut Batch { ops, next: 0 }, async { Ok(()) }).await?;
        assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
        Ok(found)
    }
}
