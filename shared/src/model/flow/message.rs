//! What controller and agent say to each other of flow tables.
//!
//! A device has at most one batch under way. Its outcome is part of the device's state ([`FlowState`]), which the agent
//! says after each greeting, with each heartbeat and whenever it changes: so no message of it needs an acknowledgement,
//! and none that is lost does harm. Equal roots mean equal tables; where they differ the controller asks for the sums of
//! the buckets, then for the entries of those that differ, and sends a batch that puts it right.

use super::{Bridge, EntryState, FlowId, Packed};
use crate::Generation;
use crate::model::Content;

/// Bytes of operations in the batch itself; more are fetched as a content.
pub const OPS_INLINE_MAX: usize = Content::INLINE_MAX;
/// States in one message, with the longest reasons half of a packet.
pub const STATES_MAX: usize = 128;
/// Entries in one page: two thirds of a packet.
pub const ENTRIES_PAGE: usize = 8192;
/// Counters in one page: two thirds of a packet.
pub const STATS_PAGE: usize = 4096;
/// Foreign rules that are told: they are for reading, or to be imported.
pub const FOREIGN_MAX: usize = 4096;
/// Of those, in one page.
pub const FOREIGN_PAGE: usize = 128;
/// Bytes of a foreign rule as text.
pub const FOREIGN_TEXT_MAX: usize = 512;
/// Bytes of a reason.
pub const FLOW_REASON_MAX: usize = 512;

/// What the controller says of flow tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowDown {
    /// Do this, all or nothing.
    Batch(FlowBatch),
    /// Say this; answered with the same number.
    Ask {
        device: Bridge,
        /// Comes back.
        number: u64,
        ask: FlowAsk,
    },
    /// The controller has no table of this device any more: what is on it is nobody's business.
    Forget {
        device: Bridge,
        /// Decides against a batch that is older.
        generation: Generation,
    },
}

/// A change of one device's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowBatch {
    pub device: Bridge,
    /// Rises with every batch of the device.
    pub generation: Generation,
    /// Where the change could cut the node off: seconds in which the controller must be reached over a new connection,
    /// else it is undone. None: not looked at.
    pub confirm_timeout: Option<u32>,
    /// The bytes of [`Ops`](super::Ops), inline or to be fetched.
    pub ops: Content,
}

/// A question about one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowAsk {
    /// The sums of all buckets.
    Buckets,
    /// The entries of these buckets.
    Entries(Vec<u16>),
    /// Counters of every rule of ours, and of the tables, from the switch.
    Stats,
    /// Rules that are not ours.
    Foreign,
    /// Compare with the switch now, and say the state afterwards.
    Look,
}

/// What an agent says of flow tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUp {
    /// How devices stand; all that the agent has a table of after a greeting, later those that changed.
    States {
        /// In the order of their names.
        states: Vec<FlowState>,
        /// Every device is among these, but for those of the messages since the last one that said so.
        complete: bool,
    },
    /// The answer to [`FlowAsk::Buckets`].
    Buckets {
        device: Bridge,
        /// As asked.
        number: u64,
        /// The sums, [`BUCKETS`](super::BUCKETS) of them.
        sums: Vec<u64>,
    },
    /// The answer to [`FlowAsk::Entries`], in pages.
    Entries {
        device: Bridge,
        /// As asked.
        number: u64,
        /// This page: id, digest of the content, state.
        entries: Vec<(FlowId, u64, EntryState)>,
        /// This is the last page.
        last: bool,
    },
    /// The answer to [`FlowAsk::Stats`], in pages.
    Stats {
        device: Bridge,
        /// As asked.
        number: u64,
        /// This page.
        entries: Vec<FlowCounters>,
        /// With the last page: of the tables that hold anything or were looked into.
        tables: Vec<TableCounters>,
        /// This is the last page.
        last: bool,
    },
    /// The answer to [`FlowAsk::Foreign`], in pages.
    Foreign {
        device: Bridge,
        /// As asked.
        number: u64,
        /// This page; of very many the first [`FOREIGN_MAX`].
        rules: Vec<ForeignRule>,
        /// This is the last page.
        last: bool,
    },
}

/// How one device stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowState {
    pub device: Bridge,
    /// Of the newest batch that has come to its end; zero before the first.
    pub decided: Generation,
    /// How that one ended, if not well: nothing of it was applied.
    pub refused: Option<FlowRefusal>,
    /// [`Buckets::root`](super::Buckets::root) of what is on the device, as last seen.
    pub root: u64,
    /// Entries in the table.
    pub entries: u32,
    /// Of those, [`EntryState::Wrong`].
    pub wrong: u32,
    /// Rules on the device that are not ours.
    pub foreign: u32,
    /// Whether there is a device.
    pub switch: SwitchState,
    /// The reason why something is wrong; empty if nothing is.
    pub reason: String,
}

/// Whether a device can be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchState {
    /// Nothing of that name, or it does not answer.
    Absent,
    /// The agent compares or fills the device.
    Filling,
    /// The agent watches the device for changes.
    Watched,
}

/// The reason why a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRefusal {
    /// The entry that caused the refusal, where there is one.
    pub id: Option<FlowId>,
    /// For the operator.
    pub reason: String,
    /// Trying again cannot help.
    pub permanent: bool,
}

/// What the switch counted of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    pub id: FlowId,
    pub packets: u64,
    pub bytes: u64,
    /// Seconds since it was put there.
    pub duration: u32,
}

/// What the switch counted of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    pub table: u8,
    /// Rules in it, anyone's.
    pub active: u32,
    /// Packets that were looked up in it.
    pub lookups: u64,
    /// Packets that matched a rule of it.
    pub matches: u64,
}

/// A rule on a device that nobody asked Muster for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRule {
    pub cookie: u64,
    /// The rule, if it can be said in our words.
    pub entry: Option<Packed>,
    /// For people, where it cannot.
    pub text: String,
}
