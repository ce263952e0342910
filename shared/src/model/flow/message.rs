//! The messages about flow tables between controller and agent.
//!
//! A device has at most one batch under way. The batch's outcome is part of the device's state
//! ([`FlowState`]), which the agent reports after each greeting, with each heartbeat and on each change: so
//! these messages need no acknowledgement, and a lost one does no harm. Equal roots mean equal tables. If
//! roots differ, the controller asks for the sums of the buckets, then for the entries of the differing
//! buckets, and sends a batch that corrects the difference.

use super::{Bridge, EntryState, FlowId, Packed, TraceQuestion, TraceStep};
use crate::Generation;
use crate::model::Content;

/// The most bytes of operations in the batch itself; more are fetched as a content.
pub const OPS_INLINE_MAX: usize = Content::INLINE_MAX;
/// The most states in one message: with the longest reasons half of a packet.
pub const STATES_MAX: usize = 128;
/// The most entries in one page: two thirds of a packet.
pub const ENTRIES_PAGE: usize = 8192;
/// The most counters in one page: two thirds of a packet.
pub const STATS_PAGE: usize = 4096;
/// The most foreign rules that are reported: they are for reading, or for an import.
pub const FOREIGN_MAX: usize = 4096;
/// The most foreign rules in one page.
pub const FOREIGN_PAGE: usize = 128;
/// Bytes of a foreign rule as text.
pub const FOREIGN_TEXT_MAX: usize = 512;
/// Bytes of a reason.
pub const FLOW_REASON_MAX: usize = 512;

/// The controller's messages about flow tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowDown {
    /// Apply this batch, all or nothing.
    Batch(FlowBatch),
    /// Say this; answered with the same number.
    Ask {
        device: Bridge,
        /// Copied into the answer.
        number: u64,
        ask: FlowAsk,
    },
    /// The controller has no table of this device any more: nobody manages its content.
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
    /// Set if the change could cut the node off: the seconds within which the agent must reach the controller
    /// over a new connection, or else undo the change. Without it, there is no confirmation.
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
    /// Asks what the switch would do with a packet. Only agents that read [`READS_TRACE`](crate::wire::READS_TRACE)
    /// are asked.
    Trace(Box<TraceQuestion>),
}

/// The agent's messages about flow tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUp {
    /// States of devices: after a greeting of all devices with a table, later of those that changed.
    States {
        /// States in the order of the devices' names.
        states: Vec<FlowState>,
        /// Together with the messages since the last complete one, these are all devices.
        complete: bool,
    },
    /// The answer to [`FlowAsk::Buckets`].
    Buckets {
        device: Bridge,
        /// The number of the question.
        number: u64,
        /// The sums, [`BUCKETS`](super::BUCKETS) of them.
        sums: Vec<u64>,
    },
    /// The answer to [`FlowAsk::Entries`], in pages.
    Entries {
        device: Bridge,
        /// The number of the question.
        number: u64,
        /// A page of entries: id, digest of the content, state.
        entries: Vec<(FlowId, u64, EntryState)>,
        /// This is the last page.
        last: bool,
    },
    /// The answer to [`FlowAsk::Stats`], in pages.
    Stats {
        device: Bridge,
        /// The number of the question.
        number: u64,
        /// A page of counters.
        entries: Vec<FlowCounters>,
        /// Given with the last page: the tables that hold entries or had lookups.
        tables: Vec<TableCounters>,
        /// This is the last page.
        last: bool,
    },
    /// The answer to [`FlowAsk::Foreign`], in pages.
    Foreign {
        device: Bridge,
        /// The number of the question.
        number: u64,
        /// A page of rules; at most [`FOREIGN_MAX`] in all.
        rules: Vec<ForeignRule>,
        /// This is the last page.
        last: bool,
    },
    /// The answer to [`FlowAsk::Trace`].
    Traced {
        device: Bridge,
        /// The number of the question.
        number: u64,
        /// The switch's steps with the packet, in order; or the reason why it was not asked, for the operator.
        result: Result<Vec<TraceStep>, String>,
    },
}

/// The state of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowState {
    pub device: Bridge,
    /// The generation of the newest batch that has ended; zero before the first.
    pub decided: Generation,
    /// The reason of that batch's failure, if it failed: nothing of it was applied.
    pub refused: Option<FlowRefusal>,
    /// [`Buckets::root`](super::Buckets::root) of the device's entries, as last seen.
    pub root: u64,
    /// Entries in the table.
    pub entries: u32,
    /// The number of entries in the state [`EntryState::Wrong`].
    pub wrong: u32,
    /// Rules on the device that are not ours.
    pub foreign: u32,
    /// Whether there is a device.
    pub switch: SwitchState,
    /// The reason why something is wrong; empty if nothing is.
    pub reason: String,
    /// The entry that the reason is about. `None`: the device, or an entry that an older agent names
    /// in the reason.
    pub entry: Option<FlowId>,
}

impl FlowState {
    /// The reason for operators, with the entry that it is about.
    pub fn named_reason(&self) -> String {
        match self.entry {
            Some(id) => format!("{id}: {}", self.reason),
            None => self.reason.clone(),
        }
    }
}

/// Whether a device can be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchState {
    /// There is no device of that name, or it does not answer.
    Absent,
    /// The agent compares or fills the device.
    Filling,
    /// The agent watches the device for changes.
    Watched,
}

/// The reason why a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRefusal {
    /// The entry that caused the refusal, if it is known.
    pub id: Option<FlowId>,
    /// A reason for the operator.
    pub reason: String,
    /// A retry cannot help.
    pub permanent: bool,
}

/// The switch's counters of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    pub id: FlowId,
    pub packets: u64,
    pub bytes: u64,
    /// Seconds since it was put there.
    pub duration: u32,
}

/// The switch's counters of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    pub table: u8,
    /// Rules in it, anyone's.
    pub active: u32,
    /// Packets looked up in the table.
    pub lookups: u64,
    /// Packets that matched a rule of the table.
    pub matches: u64,
}

/// A rule on a device that did not come from Muster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRule {
    pub cookie: u64,
    /// The rule, if our notation can express it.
    pub entry: Option<Packed>,
    /// A text for people, for a rule that cannot be expressed.
    pub text: String,
}
