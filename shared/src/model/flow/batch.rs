//! The operations of a batch, as bytes: made by the controller, sent whole or fetched, kept in the
//! agent's log.
//!
//! ```text
//!   op  = 0 · id (8, LE) · length (2, LE) · packed entry      the device is to hold it, in place of what has its id
//!       | 1 · id (8, LE)                                      the device is not to hold it any more
//! ```
//!
//! Absent: which entries make a batch (`controller/flow/src/batch.rs`), and whether an agent takes it
//! (`agent/core/src/flow/batch.rs`).

use thiserror::Error;

use super::{ENTRY_MAX, FlowId, Packed};

const PUT: u8 = 0;
const REMOVE: u8 = 1;
const PUT_HEAD: usize = 1 + 8 + 2;
const REMOVE_HEAD: usize = 1 + 8;

/// A list of operations on one device, under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops {
    bytes: Vec<u8>,
    count: usize,
}

/// An operation within the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsRef<'a> {
    /// The device must hold this entry.
    Put {
        id: FlowId,
        /// The place of the packed entry in the bytes.
        at: usize,
        /// The packed entry, not decoded.
        packed: &'a [u8],
    },
    /// The device is not to hold this any more.
    Remove(FlowId),
}

/// Bytes that are no operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a batch of flow rules: malformed at byte {0}")]
pub struct BadOps(pub usize);

impl Ops {
    /// The device must hold this entry.
    pub fn put(&mut self, id: FlowId, packed: &Packed) {
        let length = u16::try_from(packed.bytes().len()).expect("at most ENTRY_MAX");
        self.bytes.push(PUT);
        self.bytes.extend_from_slice(&id.0.to_le_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(packed.bytes());
        self.count += 1;
    }

    /// The device is not to hold this any more.
    pub fn remove(&mut self, id: FlowId) {
        self.bytes.push(REMOVE);
        self.bytes.extend_from_slice(&id.0.to_le_bytes());
        self.count += 1;
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes in their form on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes in their form on the wire.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The operations in these bytes, in order; after an error nothing follows. The entries in them are not
/// looked into: [`Packed::read`] does that.
pub fn read_ops(bytes: &[u8]) -> impl Iterator<Item = Result<OpsRef<'_>, BadOps>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let read = read_op(bytes, at);
        match read {
            Some((op, next)) => {
                at = next;
                Some(Ok(op))
            }
            None => {
                let bad = BadOps(at);
                at = bytes.len();
                Some(Err(bad))
            }
        }
    })
}

fn read_op(bytes: &[u8], at: usize) -> Option<(OpsRef<'_>, usize)> {
    let rest = &bytes[at..];
    let id = FlowId(u64::from_le_bytes(rest.get(1..9)?.try_into().ok()?));
    if !FlowId::is_ours(id.0) {
        return None;
    }
    match rest[0] {
        PUT => {
            let length = usize::from(u16::from_le_bytes(rest.get(9..PUT_HEAD)?.try_into().ok()?));
            if length > ENTRY_MAX {
                return None;
            }
            let packed = rest.get(PUT_HEAD..PUT_HEAD + length)?;
            Some((OpsRef::Put { id, at: at + PUT_HEAD, packed }, at + PUT_HEAD + length))
        }
        REMOVE => Some((OpsRef::Remove(id), at + REMOVE_HEAD)),
        _ => None,
    }
}
