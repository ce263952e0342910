//! The log of one device's flow table: its desired entries, and the outcomes of its batches.
//!
//! ```text
//!   log    = "mflows1\n" · record …
//!   record = length of the rest (4, LE) · BLAKE3 of the rest (8 bytes) · kind · body
//! ```
//!
//! The log grows by appending, and is durable when a call returns. It is rewritten once most of it is dead.
//! An incomplete record at the end, from a power cut, is cut off. A failed call leaves the log unchanged, or
//! broken until it is rewritten. The entries stay in the file: memory holds only their places (in the
//! machine), and the times at which entries with timeouts were put.
//!
//! Absent: what is recorded, and when a log is rewritten (`agent/core/src/flow/log.rs`).

mod read;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use muster_agent_core::{Compacted, Loaded, Op, TableEntry};
use muster_shared::model::flow::{Bridge, Entry, EntryState, FlowId, FlowRefusal, OpsRef, Packed, read_ops};
use muster_shared::{Epoch, Generation};
use serde::{Deserialize, Serialize};

use crate::record;

const MAGIC: &[u8] = b"mflows1\n";
const HEAD: usize = 4 + 8;
/// Places in the log have 32 bits; a log is rewritten long before this size.
const LOG_MAX: u64 = u32::MAX as u64;
/// Entries of one record when the log is rewritten: about a hundred kilobytes.
const SNAPSHOT_RECORD: usize = 1024;

/// A record without its entries, which follow it in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Head {
    /// The bytes of operations follow.
    Batch {
        generation: Stamp,
        guarded: bool,
        at: u64,
    },
    Decided {
        generation: Stamp,
        refused: Option<Refusal>,
    },
    Expired {
        ids: Vec<u64>,
    },
    /// From rewriting a log: entries follow as operations, with their states.
    Snapshot {
        stamps: Vec<(u64, u64)>,
        expired: Vec<u64>,
    },
    Forgotten {
        generation: Stamp,
    },
    /// The start of the switch in which all of this was put.
    Instance(u64),
}

/// When entries with timeouts were put; `None` for entries without.
type Stamps = Vec<(FlowId, Option<u64>)>;
type Stamp = (u32, u64);
type Refusal = (Option<u64>, String, bool);

#[derive(Debug)]
pub struct FlowLog {
    path: PathBuf,
    file: Rc<File>,
    size: u64,
    /// Bytes behind `size` could not be cut off.
    is_broken: bool,
    /// The rename that replaced the earlier log may not be on disk: nothing is appended before it is.
    is_unnamed: bool,
    /// When entries with timeouts were put, in seconds since 1970.
    stamps: Rc<BTreeMap<FlowId, u64>>,
    instance: Option<u64>,
    /// The undecided batch, with the stamps that its entries would get.
    undecided: Option<(Generation, Stamps)>,
}

/// Seconds since 1970.
pub fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}

fn stamp(generation: Generation) -> Stamp {
    (generation.epoch.0, generation.number)
}

fn generation((epoch, number): Stamp) -> Generation {
    Generation { epoch: Epoch(epoch), number }
}

impl FlowLog {
    /// Opens the log, or makes an empty one.
    ///
    /// # Errors
    /// The content is unknown, so the log must not be used.
    pub fn open(path: &Path, device: &Bridge) -> io::Result<(Self, Loaded)> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if file.metadata()?.len() < MAGIC.len() as u64 {
            file.set_len(0)?;
            file.write_all_at(MAGIC, 0)?;
        }
        // Data that a killed agent has written is read here, and may not be on disk yet; nor may the rename
        // of a rewritten log. The log is reported as durable and appended to, so it must be on disk.
        file.sync_all()?;
        if let Some(directory) = path.parent() {
            record::sync_directory(directory)?;
        }
        read::load(path, file, device)
    }

    /// The file for reading entries; it keeps its content when the log is rewritten.
    pub fn file(&self) -> Rc<File> {
        Rc::clone(&self.file)
    }

    /// When entries with timeouts were put.
    pub fn stamps(&self) -> Rc<BTreeMap<FlowId, u64>> {
        Rc::clone(&self.stamps)
    }

    /// The start of the switch that was filled last.
    pub fn instance(&self) -> Option<u64> {
        self.instance
    }

    /// Appends a batch. Returns its operations, with their places.
    ///
    /// # Errors
    /// The log is unchanged.
    pub fn append(&mut self, batch: Generation, ops: &[u8], guarded: bool) -> Result<Vec<Op>, FlowRefusal> {
        let now = wall_clock();
        let head = Head::Batch { generation: stamp(batch), guarded, at: now };
        let head = packed_head(&head);
        let base = self.size + (HEAD + head.len()) as u64;
        if base + ops.len() as u64 > LOG_MAX {
            return Err(refusal(None, "the log of the flow table is full".into(), false));
        }
        let mut stamps = Vec::new();
        let parsed = parse(ops, base, now, &mut stamps)?;
        self.write(&head, ops).map_err(|error| {
            let path = self.path.display();
            refusal(None, format!("cannot write on the node's disk: {path}: {error}"), false)
        })?;
        self.undecided = Some((batch, stamps));
        Ok(parsed)
    }

    /// Records the outcome of a batch.
    ///
    /// # Errors
    /// The record may not be on disk.
    pub fn decide(&mut self, batch: Generation, refused: Option<&FlowRefusal>) -> io::Result<u64> {
        let refused = refused.map(|it| (it.id.map(|id| id.0), it.reason.clone(), it.permanent));
        let is_kept = refused.is_none();
        self.write(&packed_head(&Head::Decided { generation: stamp(batch), refused }), &[])?;
        if let Some((_, stamps)) = self.undecided.take_if(|(undecided, _)| *undecided == batch)
            && is_kept
        {
            stamp_all(Rc::make_mut(&mut self.stamps), stamps);
        }
        Ok(self.size)
    }

    /// Records that these entries ended by themselves.
    ///
    /// # Errors
    /// The record may not be on disk.
    pub fn expire(&mut self, ids: &[FlowId]) -> io::Result<u64> {
        let ids = ids.iter().map(|id| id.0).collect();
        self.write(&packed_head(&Head::Expired { ids }), &[])?;
        Ok(self.size)
    }

    /// Records that the switch was filled after this start.
    ///
    /// # Errors
    /// The record may not be on disk.
    pub fn filled(&mut self, instance: u64) -> io::Result<()> {
        if self.instance != Some(instance) {
            self.write(&packed_head(&Head::Instance(instance)), &[])?;
            self.instance = Some(instance);
        }
        Ok(())
    }

    /// Rewrites the log with this content.
    ///
    /// # Errors
    /// The log is unchanged.
    pub fn compact(
        &mut self,
        kept: &[TableEntry],
        decided: Generation,
        refused: Option<&FlowRefusal>,
    ) -> io::Result<Compacted> {
        let (stamps, instance) = (Rc::clone(&self.stamps), self.instance);
        let source = self.file();
        let mut at = Vec::with_capacity(kept.len());
        self.replace(|out, size| {
            for piece in kept.chunks(SNAPSHOT_RECORD) {
                let stamped = piece.iter().filter_map(|it| Some((it.id.0, *stamps.get(&it.id)?)));
                let expired = piece.iter().filter(|it| it.state == EntryState::Expired).map(|it| it.id.0);
                let head =
                    packed_head(&Head::Snapshot { stamps: stamped.collect(), expired: expired.collect() });
                let base = *size + (HEAD + head.len()) as u64;
                let mut ops = Vec::new();
                for it in piece {
                    ops.push(0);
                    ops.extend_from_slice(&it.id.0.to_le_bytes());
                    ops.extend_from_slice(&it.length.to_le_bytes());
                    let begin = ops.len();
                    ops.resize(begin + usize::from(it.length), 0);
                    source.read_exact_at(&mut ops[begin..], u64::from(it.at))?;
                    at.push(u32::try_from(base + begin as u64).map_err(io::Error::other)?);
                }
                *size += put(out, &head, &ops)?;
            }
            let refused = refused.map(|it| (it.id.map(|id| id.0), it.reason.clone(), it.permanent));
            let head = packed_head(&Head::Decided { generation: stamp(decided), refused });
            *size += put(out, &head, &[])?;
            if let Some(instance) = instance {
                *size += put(out, &packed_head(&Head::Instance(instance)), &[])?;
            }
            Ok(())
        })?;
        let mut stamps = (*stamps).clone();
        stamps.retain(|id, _| kept.binary_search_by_key(id, |it| it.id).is_ok());
        self.stamps = Rc::new(stamps);
        Ok(Compacted { at, log: self.size })
    }

    /// Rewrites the log with nothing but the order to forget.
    ///
    /// # Errors
    /// The log is unchanged.
    pub fn forget(&mut self, order: Generation) -> io::Result<()> {
        self.replace(|out, size| {
            *size += put(out, &packed_head(&Head::Forgotten { generation: stamp(order) }), &[])?;
            Ok(())
        })?;
        (self.stamps, self.instance, self.undecided) = (Rc::default(), None, None);
        Ok(())
    }

    fn write(&mut self, head: &[u8], rest: &[u8]) -> io::Result<()> {
        if self.is_broken {
            self.cut()?;
        }
        self.sync_name()?;
        let mut bytes = Vec::with_capacity(HEAD + head.len());
        begin(&mut bytes, head, rest)?;
        let written = (|| {
            self.file.write_all_at(&bytes, self.size)?;
            self.file.write_all_at(rest, self.size + bytes.len() as u64)?;
            self.file.sync_data()
        })();
        if let Err(error) = written {
            self.is_broken = true;
            // A failure here is tried again before the next record.
            let _ = self.cut();
            return Err(error);
        }
        self.size += (bytes.len() + rest.len()) as u64;
        Ok(())
    }

    /// Cuts off the remains of a failed call.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.size)?;
        self.file.sync_data()?;
        self.is_broken = false;
        Ok(())
    }

    fn replace(
        &mut self,
        fill: impl FnOnce(&mut BufWriter<File>, &mut u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let temporary = record::temporary(&self.path);
        let written = (|| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true).mode(0o600);
            let mut out = BufWriter::new(options.open(&temporary)?);
            let mut size = MAGIC.len() as u64;
            out.write_all(MAGIC)?;
            fill(&mut out, &mut size)?;
            let file = out.into_inner()?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            Ok((file, size))
        })();
        let (file, size) = written.inspect_err(|_: &io::Error| {
            // The next rewrite replaces the file anyway.
            let _ = fs::remove_file(&temporary);
        })?;
        (self.file, self.size, self.is_broken, self.is_unnamed) = (Rc::new(file), size, false, true);
        // The entries have new places now, whatever comes of this. After a power cut, the earlier log
        // is there.
        let _ = self.sync_name();
        Ok(())
    }

    fn sync_name(&mut self) -> io::Result<()> {
        if let Some(directory) = self.path.parent().filter(|_| self.is_unnamed) {
            record::sync_directory(directory)?;
        }
        self.is_unnamed = false;
        Ok(())
    }
}

fn stamp_all(stamps: &mut BTreeMap<FlowId, u64>, new: Stamps) {
    for (id, at) in new {
        match at {
            Some(at) => stamps.insert(id, at),
            None => stamps.remove(&id),
        };
    }
}

fn refusal(id: Option<FlowId>, reason: String, permanent: bool) -> FlowRefusal {
    FlowRefusal { id, reason, permanent }
}

/// The operations in these bytes, which begin there in the log.
fn parse(ops: &[u8], base: u64, now: u64, stamps: &mut Stamps) -> Result<Vec<Op>, FlowRefusal> {
    let mut parsed = Vec::new();
    for op in read_ops(ops) {
        let op = op.map_err(|error| refusal(None, error.to_string(), true))?;
        parsed.push(match op {
            OpsRef::Remove(id) => {
                stamps.push((id, None));
                Op { id, digest: 0, at: 0, length: 0, put: false }
            }
            OpsRef::Put { id, at, packed } => {
                let length = u16::try_from(packed.len()).expect("read_ops() bounds it");
                stamps.push((id, has_timeout(packed).then_some(now)));
                let at = u32::try_from(base + at as u64).unwrap_or(u32::MAX);
                Op { id, digest: digest(packed), at, length, put: true }
            }
        });
    }
    Ok(parsed)
}

/// As [`Packed::digest`], for bytes that are not decoded.
fn digest(packed: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(packed).as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Whether an entry has a timeout. A rule ends with its timeouts, each a zero byte if there is none.
pub fn has_timeout(packed: &[u8]) -> bool {
    !packed.ends_with(&[0, 0]) && matches!(Packed::read(packed), Ok(Entry::Rule(rule)) if rule.has_timeout())
}

fn packed_head(head: &Head) -> Vec<u8> {
    postcard::to_stdvec(head).unwrap_or_default()
}

/// Writes the start of a record: lengths, checksum, and the head itself.
fn begin(bytes: &mut Vec<u8>, head: &[u8], rest: &[u8]) -> io::Result<()> {
    let length = u32::try_from(head.len() + rest.len()).map_err(io::Error::other)?;
    let mut sum = blake3::Hasher::new();
    sum.update(head);
    sum.update(rest);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&sum.finalize().as_bytes()[..8]);
    bytes.extend_from_slice(head);
    Ok(())
}

fn put(out: &mut BufWriter<File>, head: &[u8], rest: &[u8]) -> io::Result<u64> {
    let mut bytes = Vec::with_capacity(HEAD + head.len());
    begin(&mut bytes, head, rest)?;
    out.write_all(&bytes)?;
    out.write_all(rest)?;
    Ok((bytes.len() + rest.len()) as u64)
}

#[cfg(test)]
mod tests;
