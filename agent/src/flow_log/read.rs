//! Reads a log when the agent starts, and cuts off an incomplete end.
//!
//! Absent: whether a batch without an end is applied again or undone (`agent/core/src/flow/stage.rs`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use muster_agent_core::{Loaded, Op, TableEntry, Undecided};
use muster_shared::Generation;
use muster_shared::model::flow::{Bridge, EntryState, FlowId, FlowRefusal};

use super::{FlowLog, HEAD, Head, LOG_MAX, MAGIC, Stamps, generation, parse, stamp_all};

/// The result of the records so far.
#[derive(Default)]
struct Found {
    kept: BTreeMap<FlowId, TableEntry>,
    stamps: BTreeMap<FlowId, u64>,
    decided: Generation,
    refused: Option<FlowRefusal>,
    undecided: Option<(Undecided, Stamps)>,
    forgotten: bool,
    instance: Option<u64>,
}

pub(super) fn load(path: &Path, file: File, device: &Bridge) -> io::Result<(FlowLog, Loaded)> {
    let length = file.metadata()?.len();
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0)?;
    if magic != MAGIC || length > LOG_MAX {
        return Err(io::Error::other("not a log of a flow table"));
    }
    let mut found = Found::default();
    let mut at = MAGIC.len() as u64;
    while let Some(body) = read_record(&file, at, length)? {
        if found.take(at + HEAD as u64, &body).is_none() {
            break;
        }
        at += (HEAD + body.len()) as u64;
    }
    if at < length {
        tracing::warn!(log = %path.display(), cut = length - at, "the end of the log is torn and cut off");
        file.set_len(at)?;
        file.sync_all()?;
    }
    let Found { kept, stamps, decided, refused, undecided, forgotten, instance } = found;
    let (undecided, pending) = undecided.unzip();
    let log = FlowLog {
        path: path.to_owned(),
        file: Rc::new(file),
        size: at,
        is_broken: false,
        is_unnamed: false,
        stamps: Rc::new(stamps),
        instance,
        undecided: undecided.as_ref().map(|it: &Undecided| it.generation).zip(pending),
    };
    let kept = kept.into_values().collect();
    let loaded = Loaded { device: device.clone(), kept, decided, refused, undecided, forgotten, log: at };
    Ok((log, loaded))
}

/// The record at this place; `None` if it is incomplete.
fn read_record(file: &File, at: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
    if at + HEAD as u64 > length {
        return Ok(None);
    }
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, at)?;
    let [a, b, c, d, sum @ ..] = head;
    let size = u32::from_le_bytes([a, b, c, d]);
    if at + HEAD as u64 + u64::from(size) > length {
        return Ok(None);
    }
    let mut body = vec![0; size as usize];
    file.read_exact_at(&mut body, at + HEAD as u64)?;
    Ok((blake3::hash(&body).as_bytes()[..8] == sum).then_some(body))
}

impl Found {
    /// Takes the next record, whose body begins there; `None` if it makes no sense.
    fn take(&mut self, begins: u64, body: &[u8]) -> Option<()> {
        let (head, ops) = postcard::take_from_bytes::<Head>(body).ok()?;
        let base = begins + (body.len() - ops.len()) as u64;
        match head {
            Head::Batch { generation: batch, guarded, at } => {
                let mut stamps = Vec::new();
                let ops = parse(ops, base, at, &mut stamps).ok()?;
                self.forgotten = false;
                self.undecided = Some((Undecided { generation: generation(batch), ops, guarded }, stamps));
            }
            Head::Decided { generation: batch, refused } => self.decide(generation(batch), refused),
            Head::Expired { ids } => self.expire(&ids),
            Head::Snapshot { stamps, expired } => {
                self.put(parse(ops, base, 0, &mut Vec::new()).ok()?);
                self.stamps.extend(stamps.into_iter().map(|(id, at)| (FlowId(id), at)));
                self.expire(&expired);
            }
            Head::Forgotten { generation: order } => {
                *self = Self { decided: generation(order), forgotten: true, ..Self::default() };
            }
            Head::Instance(instance) => self.instance = Some(instance),
        }
        Some(())
    }

    fn decide(&mut self, batch: Generation, refused: Option<super::Refusal>) {
        if batch < self.decided {
            return;
        }
        let undecided = self.undecided.take_if(|(it, _)| it.generation <= batch);
        if let Some((it, stamps)) = undecided
            && it.generation == batch
            && refused.is_none()
        {
            self.put(it.ops);
            stamp_all(&mut self.stamps, stamps);
        }
        let refused =
            refused.map(|(id, reason, permanent)| FlowRefusal { id: id.map(FlowId), reason, permanent });
        (self.decided, self.refused) = (batch, refused);
    }

    fn put(&mut self, ops: Vec<Op>) {
        for Op { id, digest, at, length, put } in ops {
            match put {
                true => {
                    self.kept.insert(id, TableEntry { id, digest, at, length, state: EntryState::Present })
                }
                false => self.kept.remove(&id),
            };
        }
    }

    fn expire(&mut self, ids: &[u64]) {
        for id in ids {
            if let Some(kept) = self.kept.get_mut(&FlowId(*id)) {
                kept.state = EntryState::Expired;
            }
        }
    }
}
