//! The messages between the machine and the host for one device's table.
//!
//! Absent: those of jobs (`agent/core/src/face.rs`), and how the driver executes these (`agent/src/flows.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::Generation;
use muster_shared::model::Content;
use muster_shared::model::flow::{
    Bridge, EntryState, FlowCounters, FlowId, FlowRefusal, ForeignRule, TableCounters, TraceQuestion,
    TraceStep,
};

/// An entry of a device's table; the log holds its content. 24 bytes, since there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEntry {
    pub id: FlowId,
    /// The digest of the entry's content.
    pub digest: u64,
    /// The host's place of the packed bytes in the log; opaque to this machine.
    pub at: u32,
    /// The number of packed bytes.
    pub length: u16,
    /// The entry's state on the device, as last seen.
    pub state: EntryState,
}

/// An operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub id: FlowId,
    /// The digest of the entry's content; 0 for a removal.
    pub digest: u64,
    /// Offset in the log of the packed bytes, of the entry to put or to remove.
    pub at: u32,
    /// The number of packed bytes.
    pub length: u16,
    /// True: put the entry; false: remove it.
    pub put: bool,
}

/// Entries that the switch reads back in another form than written, and that are accepted in that form: the
/// digest of the form by id.
pub type DivergentForms = BTreeMap<FlowId, u64>;

/// A rule within our cookie space that no entry of the table accounts for, as the host names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extraneous(pub Box<[u8]>);

/// A device's table as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub device: Bridge,
    /// The table's entries, by id; none is [`EntryState::Wrong`].
    pub kept: Vec<TableEntry>,
    /// The generation of the newest batch that has ended, or of the order to forget.
    pub decided: Generation,
    /// The reason of that batch's failure; `None` if it succeeded.
    pub refused: Option<FlowRefusal>,
    /// The batch that follows the decided one.
    pub undecided: Option<Undecided>,
    /// The table is forgotten; batches older than `decided` stay refused.
    pub forgotten: bool,
    /// Bytes of the log.
    pub log: u64,
}

/// A batch that was appended to the log, and not decided before the agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    pub generation: Generation,
    /// The batch's operations, in any order.
    pub ops: Vec<Op>,
    /// The batch must be confirmed.
    pub guarded: bool,
}

/// Requests to the host for one device, in order. The module's head lists the host's duties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEffect {
    /// Watch the device from now on: report [`FlowInput::Back`] or [`FlowInput::Gone`], then changes.
    Watch,
    /// End the watch, and touch nothing of the device.
    Leave,
    /// Append the batch to the device's log, durably. The answer: [`FlowInput::Appended`].
    Append {
        generation: Generation,
        /// The operations; a fetched content is complete and verified.
        ops: Content,
        /// The batch must be confirmed if the device carries the path to the controller: then say
        /// so in the log and give a challenge.
        guard: bool,
    },
    /// Record durably how the batch ended. The answer: [`FlowInput::Decided`].
    Decide {
        generation: Generation,
        /// The reason of the batch's failure; `None` if it succeeded.
        refused: Option<FlowRefusal>,
    },
    /// Record durably that these ended by themselves. The answer: [`FlowInput::Expired`].
    Expire { ids: Vec<FlowId> },
    /// Durably rewrite the log with only this in it. The answer: [`FlowInput::Compacted`].
    Compact {
        /// The desired entries, by id.
        kept: Arc<Vec<TableEntry>>,
        /// The newest batch that ended.
        decided: Generation,
        /// The reason of the batch's failure; `None` if it succeeded.
        refused: Option<FlowRefusal>,
    },
    /// Durably rewrite the log so that it says only that the table is forgotten. The answer:
    /// [`FlowInput::Forgotten`].
    Forget {
        /// Batches older than this stay refused.
        generation: Generation,
    },
    /// Remove the rest of a forgotten log; need not be durable, and has no answer.
    Drop,
    /// Apply these operations to the device, all or none, and read them back. The
    /// answer: [`FlowInput::Applied`].
    Apply {
        number: u64,
        /// By id. The host puts meters and groups before the entries that use them, and removes them after.
        ops: Arc<Vec<Op>>,
        /// Take over entries of others that equal ours; without this, refuse the batch if such an
        /// entry exists.
        take_over: bool,
    },
    /// Compare the device with this. The answer: [`FlowInput::Compared`].
    Compare {
        number: u64,
        /// The desired entries, by id; those in [`EntryState::Expired`] must be absent.
        kept: Arc<Vec<TableEntry>>,
        /// Forms that are right.
        odd: Arc<DivergentForms>,
    },
    /// Put and remove the entries one by one, as far as possible. The answer: [`FlowInput::Repaired`].
    Repair {
        number: u64,
        /// Entries to put, by id, in place of the present ones.
        put: Vec<TableEntry>,
        remove: Vec<Extraneous>,
    },
    /// Stop this [`FlowEffect::Apply`], [`FlowEffect::Compare`] or [`FlowEffect::Repair`], or do not begin
    /// it. It must end before the next one begins. An answer that was already on its way is recognised by
    /// its number.
    Cancel {
        /// Number of the work to stop.
        number: u64,
    },
    /// The device holds as much of its table as it can: packets may pass.
    Filled,
    /// Read the device's counters. The answers: [`FlowInput::Counted`].
    Count { number: u64 },
    /// Rules that are not ours. The answers: [`FlowInput::Foreigners`].
    Foreign { number: u64 },
    /// Asks what the switch would do with a packet. Nothing changes. The answer: [`FlowInput::Traced`].
    Trace { number: u64, question: Box<TraceQuestion> },
}

/// An event of one device, or of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowInput {
    /// The switch answers, whatever rules it holds now.
    Back,
    /// The device does not answer.
    Gone { reason: String },
    /// Others may have changed the device. Many hints at once have the effect of one.
    Hint,
    /// The switch reports that these entries ended by their timeouts.
    Ended { ids: Vec<FlowId> },
    /// The answer to [`FlowEffect::Append`].
    Appended {
        generation: Generation,
        /// The batch's operations, in any order; or why the log is unchanged.
        result: Result<Appended, FlowRefusal>,
    },
    /// The answer to [`FlowEffect::Decide`].
    Decided {
        generation: Generation,
        /// Bytes of the log, or why it may not be on disk.
        result: Result<u64, String>,
    },
    /// The answer to [`FlowEffect::Expire`].
    Expired {
        ids: Vec<FlowId>,
        /// Bytes of the log, or why it may not be on disk.
        result: Result<u64, String>,
    },
    /// The answer to [`FlowEffect::Compact`].
    Compacted(Result<Compacted, String>),
    /// The answer to [`FlowEffect::Forget`].
    Forgotten(Result<(), String>),
    /// The answer to [`FlowEffect::Apply`]: applied and read back, with the forms that differ; or nothing is.
    Applied {
        /// The number of the effect; an answer to work that is no longer under way is dropped.
        number: u64,
        /// The result of the work.
        result: Result<DivergentForms, NotApplied>,
    },
    /// The answer to [`FlowEffect::Compare`].
    Compared {
        /// The number of the effect; an answer to work that is no longer under way is dropped.
        number: u64,
        /// The result of the work.
        result: Result<Compared, String>,
    },
    /// The answer to [`FlowEffect::Repair`].
    Repaired {
        /// The number of the effect; an answer to work that is no longer under way is dropped.
        number: u64,
        /// The result of the work.
        result: Result<Repaired, String>,
    },
    /// A page of the answer to [`FlowEffect::Count`]; a device that does not answer gives one empty page.
    Counted {
        number: u64,
        /// The entries' counters, at most [`STATS_PAGE`](muster_shared::model::flow::STATS_PAGE).
        entries: Vec<FlowCounters>,
        /// The table counters, given with the last page.
        tables: Vec<TableCounters>,
        /// This is the last page.
        last: bool,
    },
    /// A page of the answer to [`FlowEffect::Foreign`]; a device that does not answer gives one empty page.
    Foreigners {
        number: u64,
        /// Foreign rules, at most [`FOREIGN_PAGE`](muster_shared::model::flow::FOREIGN_PAGE).
        rules: Vec<ForeignRule>,
        /// This is the last page.
        last: bool,
    },
    /// The answer to [`FlowEffect::Trace`].
    Traced {
        number: u64,
        /// The switch's steps with the packet, or the reason why it was not asked.
        result: Result<Vec<TraceStep>, String>,
    },
}

/// A batch in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The batch's operations, in any order. A removal has no known place or length.
    pub ops: Vec<Op>,
    /// [`CHALLENGE_BYTES`](muster_shared::model::CHALLENGE_BYTES) random bytes: the change must be confirmed.
    pub challenge: Option<Vec<u8>>,
}

/// A log that was rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The new place of each entry, in the order of the effect.
    pub at: Vec<u32>,
    /// Bytes of the log.
    pub log: u64,
}

/// The reason why the device holds nothing of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotApplied {
    /// The batch was refused, before it reached the switch or by the switch.
    Refused(FlowRefusal),
    /// The switch went away; also if it is unknown whether the switch took the batch before.
    Gone { reason: String },
}

/// The differences between a device and its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Ids of entries that are absent, in order.
    pub missing: Vec<FlowId>,
    /// Ids of entries that are absent because their own timeout ended them, in order. Either the timeout has
    /// passed since the entry was put, or only the timeout can have removed the entry, as on a switch that
    /// has not restarted since.
    pub ended: Vec<FlowId>,
    /// Ids of entries that are present with another content, in order.
    pub altered: Vec<FlowId>,
    /// Our rules that are not in the table; at most the first [`EXTRANEOUS_MAX`](super::EXTRANEOUS_MAX).
    pub extraneous: Vec<Extraneous>,
    /// More such rules exist.
    pub more: bool,
    /// Rules that are not ours.
    pub foreign: u32,
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Entries that could not be put, and why.
    pub failed: Vec<(FlowId, String)>,
    /// Entries that were put and read back in another form.
    pub odd: DivergentForms,
}
