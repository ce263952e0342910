//! Entries in a log, as the host crate reads them: one after the other, never all in memory as values.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::sync::Arc;

use muster_agent_core::{DivergentForms, Op, TableEntry};
use muster_host::openflow::{Desired, Form, Op as HostOp, Ops, Wanted};
use muster_shared::model::flow::{EntryState, FlowId};

/// Read at a time where entries are read in their order.
const WINDOW: usize = 256 * 1024;
/// A log up to this size is held whole while a device is compared: entries are asked for in any order.
const WHOLE_MAX: u64 = 24 * 1024 * 1024;

/// A log, read piece by piece.
pub struct Reader {
    file: Rc<File>,
    piece: Vec<u8>,
    from: u64,
    ahead: usize,
}

impl Reader {
    /// Entries are read in their order.
    pub fn forward(file: Rc<File>) -> Self {
        Self { file, piece: Vec::new(), from: 0, ahead: WINDOW }
    }

    /// Entries are read at any place.
    fn any(file: Rc<File>) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut reader = Self { file, piece: Vec::new(), from: 0, ahead: 0 };
        if size <= WHOLE_MAX {
            reader.piece = vec![0; usize::try_from(size).unwrap_or_default()];
            reader.file.read_exact_at(&mut reader.piece, 0)?;
        }
        Ok(reader)
    }

    /// The entry there.
    pub fn read(&mut self, at: u32, length: u16) -> io::Result<&[u8]> {
        let (at, length) = (u64::from(at), usize::from(length));
        let end = self.from + self.piece.len() as u64;
        if at < self.from || at + length as u64 > end {
            self.piece.resize(length.max(self.ahead), 0);
            let mut have = 0;
            while have < self.piece.len() {
                match self.file.read_at(&mut self.piece[have..], at + have as u64)? {
                    0 => break,
                    read => have += read,
                }
            }
            self.piece.truncate(have);
            self.from = at;
        }
        let begin = usize::try_from(at - self.from).map_err(io::Error::other)?;
        self.piece.get(begin..begin + length).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// The way in which existing entries of others yield to a change.
#[derive(Clone, Copy)]
pub enum Manner {
    /// Only a rule that equals the new one may be taken over, if at all.
    Batch {
        /// The whole batch may be present already.
        again: bool,
        /// An equal rule becomes ours.
        take_over: bool,
    },
    /// Any entry in a place of ours yields.
    Repair,
}

/// A batch, its undo, or a repair: entries to put in the order of the log, then entries to remove.
pub struct Change {
    ops: Arc<Vec<Op>>,
    order: Vec<u32>,
    next: usize,
    kept: Arc<Vec<TableEntry>>,
    manner: Manner,
    reader: Reader,
}

impl Change {
    pub fn new(ops: Arc<Vec<Op>>, kept: Arc<Vec<TableEntry>>, manner: Manner, file: Rc<File>) -> Self {
        let mut order: Vec<u32> = (0..).take(ops.len()).collect();
        order.sort_unstable_by_key(|at| {
            let op = &ops[*at as usize];
            (!op.put, op.at)
        });
        Self { ops, order, next: 0, kept, manner, reader: Reader::forward(file) }
    }
}

impl Ops for Change {
    fn rewind(&mut self) -> io::Result<()> {
        self.next = 0;
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<HostOp<'_>>> {
        let Some(at) = self.order.get(self.next) else { return Ok(None) };
        self.next += 1;
        let op = self.ops[*at as usize];
        let packed = self.reader.read(op.at, op.length)?;
        if !op.put {
            return Ok(Some(HostOp::Remove { id: op.id, was: Some(packed) }));
        }
        let known = self.kept.binary_search_by_key(&op.id, |it| it.id).ok();
        let is_there = known.is_some_and(|at| self.kept[at].state != EntryState::Expired);
        Ok(Some(HostOp::Put { id: op.id, packed, held: is_there || matches!(self.manner, Manner::Repair) }))
    }

    fn takes_over(&self) -> bool {
        !matches!(self.manner, Manner::Batch { take_over: false, .. })
    }

    fn is_again(&self) -> bool {
        matches!(self.manner, Manner::Batch { again: true, .. })
    }
}

/// The desired entries of a device.
pub struct Table {
    kept: Arc<Vec<TableEntry>>,
    odd: Arc<DivergentForms>,
    reader: RefCell<Reader>,
}

impl Table {
    pub fn new(kept: Arc<Vec<TableEntry>>, odd: Arc<DivergentForms>, file: Rc<File>) -> io::Result<Self> {
        Ok(Self { kept, odd, reader: RefCell::new(Reader::any(file)?) })
    }

    pub fn kept(&self, id: FlowId) -> Option<&TableEntry> {
        self.find(id).map(|at| &self.kept[at])
    }
}

impl Desired for Table {
    fn len(&self) -> usize {
        self.kept.len()
    }

    fn get(&self, index: usize) -> Wanted {
        let TableEntry { id, state, .. } = self.kept[index];
        let odd = if self.odd.is_empty() { None } else { self.odd.get(&id).map(|form| Form(*form)) };
        Wanted { id, present: state != EntryState::Expired, odd }
    }

    fn find(&self, id: FlowId) -> Option<usize> {
        self.kept.binary_search_by_key(&id, |it| it.id).ok()
    }

    fn read(&self, index: usize, packed: &mut Vec<u8>) -> io::Result<()> {
        let TableEntry { at, length, .. } = self.kept[index];
        packed.clear();
        packed.extend_from_slice(self.reader.borrow_mut().read(at, length)?);
        Ok(())
    }
}
