//! A table as an agent would have it, in memory.

use std::collections::BTreeMap;
use std::io;

use muster_host::openflow::{
    Applied, Compared, Desired, Form, Lost, Op, Ops, Outcome, Refusal, Switch, Wanted,
};
use muster_shared::model::flow::{Entry, FlowId, Packed};

use crate::device;

/// The entries that the bridge must hold.
#[derive(Default)]
pub struct Table {
    /// With its packed bytes, whether it must be there, and its odd form.
    pub entries: BTreeMap<FlowId, (Packed, bool, Option<Form>)>,
}

#[derive(Default)]
pub struct Batch {
    pub ops: Vec<(FlowId, Option<Packed>, bool)>,
    /// Whether the change may be undone.
    pub guarded: bool,
    next: usize,
}

impl Ops for Batch {
    fn rewind(&mut self) -> io::Result<()> {
        self.next = 0;
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Op<'_>>> {
        let Some((id, packed, flag)) = self.ops.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(match (packed, flag) {
            (Some(packed), false) => Op::Put { id: *id, packed: packed.bytes(), held: false },
            (Some(packed), true) => Op::Remove { id: *id, was: Some(packed.bytes()) },
            (None, _) => Op::Remove { id: *id, was: None },
        }))
    }

    fn takes_over(&self) -> bool {
        !self.guarded
    }
}

/// The same, of entries that are held.
pub struct Held<'a>(pub Batch, pub &'a Table);

impl Ops for Held<'_> {
    fn rewind(&mut self) -> io::Result<()> {
        self.0.rewind()
    }

    fn next(&mut self) -> io::Result<Option<Op<'_>>> {
        let table = self.1;
        Ok(self.0.next()?.map(|op| match op {
            Op::Put { id, packed, .. } => Op::Put { id, packed, held: table.entries.contains_key(&id) },
            remove @ Op::Remove { .. } => remove,
        }))
    }
}

impl Desired for Table {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, index: usize) -> Wanted {
        let (id, (_, present, odd)) = self.entries.iter().nth(index).unwrap();
        Wanted { id: *id, present: *present, odd: *odd }
    }

    fn find(&self, id: FlowId) -> Option<usize> {
        self.entries.keys().position(|other| *other == id)
    }

    fn read(&self, index: usize, packed: &mut Vec<u8>) -> io::Result<()> {
        packed.clear();
        packed.extend_from_slice(self.entries.values().nth(index).unwrap().0.bytes());
        Ok(())
    }
}

pub fn id(entry: &Entry) -> FlowId {
    entry.id(&device())
}

pub fn put(entries: &[Entry]) -> Batch {
    let op = |entry: &Entry| (id(entry), Some(Packed::new(entry).unwrap()), false);
    Batch { ops: entries.iter().map(op).collect(), ..Batch::default() }
}

impl Table {
    /// Puts and removes, as an agent does; the table is what the bridge is to hold afterwards.
    pub async fn apply(
        &mut self,
        switch: &mut Switch,
        puts: &[Entry],
        removes: &[Entry],
    ) -> Result<Applied, Refusal> {
        let mut batch = put(puts);
        batch.ops.extend(removes.iter().map(|entry| (id(entry), Some(Packed::new(entry).unwrap()), true)));
        let outcome = switch.apply(&mut Held(batch, self), async { Ok(()) }).await.unwrap();
        let applied = match outcome {
            Outcome::Applied(applied) => applied,
            Outcome::Refused(refusal) => return Err(refusal),
        };
        for entry in removes {
            self.entries.remove(&id(entry));
        }
        for entry in puts {
            self.entries.insert(id(entry), (Packed::new(entry).unwrap(), true, None));
        }
        for (id, form) in &applied.odd {
            self.entries.get_mut(id).unwrap().2 = Some(*form);
        }
        Ok(applied)
    }

    /// Repairs until nothing differs. Returns the first findings.
    pub async fn repair(&mut self, switch: &mut Switch) -> Result<Compared, Lost> {
        let found = switch.compare(self).await?;
        switch.strip(&found.extraneous).await?;
        let wrong = found.missing.iter().copied().chain(found.altered.iter().map(|(id, _)| *id));
        let ops = wrong.map(|id| (id, Some(self.entries[&id].0.clone()), false)).collect();
        let mut batch = Held(Batch { ops, ..Batch::default() }, self);
        let outcome = switch.apply(&mut batch, async { Ok(()) }).await?;
        assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
        Ok(found)
    }
}
