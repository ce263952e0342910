//! The canonical form of a switch's entries, whatever their origin: two rules are equal if their forms are.
//!
//! The form has the criteria in the order of their keys, without full masks; then numbers, then the unchanged
//! instructions. Its hash is kept on disk, so the form must never change.

use super::Form;
use super::oxm::{self, Item};
use super::wire::Take;

/// Criteria of a rule: Open vSwitch has fewer fields.
const CRITERIA_MAX: usize = 128;

/// A rule as sent and as read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RuleParts<'a> {
    pub table: u8,
    pub priority: u16,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub flags: u16,
    pub importance: u16,
    pub matched: &'a [u8],
    pub instructions: &'a [u8],
}

/// Hashes of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forms {
    /// The hash of table, priority and criteria: one rule can be in this place.
    pub place: u64,
    /// The hash of the whole rule.
    pub form: Form,
}

/// Makes forms; keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Former {
    bytes: Vec<u8>,
    order: Vec<(u32, u32)>,
}

impl Former {
    /// `None` if the criteria are malformed.
    pub fn rule(&mut self, parts: &RuleParts<'_>) -> Option<Forms> {
        self.place_bytes(parts.table, parts.priority, parts.matched)?;
        let place = hash(&self.bytes);
        for number in [parts.idle_timeout, parts.hard_timeout, parts.flags, parts.importance] {
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.bytes.extend_from_slice(parts.instructions);
        Some(Forms { place, form: form(&self.bytes) })
    }

    /// [`Forms::place`] alone.
    pub fn place(&mut self, table: u8, priority: u16, matched: &[u8]) -> Option<u64> {
        self.place_bytes(table, priority, matched)?;
        Some(hash(&self.bytes))
    }

    fn place_bytes(&mut self, table: u8, priority: u16, matched: &[u8]) -> Option<()> {
        self.order.clear();
        let mut rest = Take(matched);
        while !rest.is_empty() {
            let at = u32::try_from(matched.len() - rest.0.len()).ok()?;
            let Item { key, .. } = oxm::take(&mut rest)?;
            self.order.push((u32::from(key.class) << 8 | u32::from(key.number), at));
        }
        if self.order.len() > CRITERIA_MAX {
            return None;
        }
        self.order.sort_unstable();
        self.bytes.clear();
        self.bytes.extend_from_slice(&[b'r', table]);
        self.bytes.extend_from_slice(&priority.to_be_bytes());
        for (_, at) in &self.order {
            let item = oxm::take(&mut Take(matched.get(*at as usize..)?))?;
            self.bytes.extend_from_slice(&item.key.class.to_be_bytes());
            self.bytes.extend_from_slice(&[item.key.number, u8::from(item.mask.is_some())]);
            self.bytes.extend_from_slice(item.value);
            self.bytes.extend_from_slice(item.mask.unwrap_or_default());
        }
        Some(())
    }
}

/// The form of a meter, from its flags on. Without a requested burst, the switch chooses one, which does
/// not count.
pub(super) fn of_meter(body: &[u8]) -> Form {
    const BURST: u8 = 4;
    const HEAD: usize = 6;
    const BAND: usize = 16;
    let mut bytes = body.to_vec();
    if body.get(1).is_some_and(|flags| flags & BURST == 0) {
        for band in bytes.get_mut(HEAD..).unwrap_or_default().chunks_exact_mut(BAND) {
            band[8..12].fill(0);
        }
    }
    form(&bytes)
}

/// The form of a group: the bytes after its length are the same everywhere.
pub(super) fn form(bytes: &[u8]) -> Form {
    Form(hash(bytes))
}

/// Eight bytes at a time, folded by multiplication; never 0.
fn hash(bytes: &[u8]) -> u64 {
    const A: u64 = 0x9e37_79b9_7f4a_7c15;
    const B: u64 = 0xd6e8_feb8_6659_fd93;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ (product >> 64) as u64
    };
    let mut state = A ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), B).wrapping_add(A).rotate_left(23);
    }
    fold(state ^ A, B | 1).max(1)
}
