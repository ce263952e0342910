//! What goes between the machine and the host for one device's table.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::Generation;
use muster_shared::model::Content;
use muster_shared::model::flow::{
    Bridge, EntryState, FlowCounters, FlowId, FlowRefusal, ForeignRule, TableCounters,
};

/// One entry of a device's table: the entry itself lies in the log. 24 bytes, for there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEntry {
    pub id: FlowId,
    /// Of its content.
    pub digest: u64,
    /// Where its packed bytes begin in the log; a number without a meaning here.
    pub at: u32,
    /// How many bytes it has there.
    pub length: u16,
    /// How the device holds it, as last seen.
    pub state: EntryState,
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub id: FlowId,
    /// Of its content; 0 if it is removed.
    pub digest: u64,
    /// Offset in the log of the packed bytes, of the entry to put or to remove.
    pub at: u32,
    /// How many bytes it has there.
    pub length: u16,
    /// True: put the entry; false: remove it.
    pub put: bool,
}

/// Forms of entries that the switch gives back otherwise than they were written, and that are taken as they are: id to
/// a digest of the form.
pub type DivergentForms = BTreeMap<FlowId, u64>;

/// A rule within our cookie space that no entry of the table accounts for, as the host names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extraneous(pub Box<[u8]>);

/// A device's table as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub device: Bridge,
    /// By id; none is [`EntryState::Wrong`].
    pub kept: Vec<TableEntry>,
    /// Of the newest batch that has come to its end, or of the order to forget.
    pub decided: Generation,
    /// How that one ended, if not well.
    pub refused: Option<FlowRefusal>,
    /// The batch after that one.
    pub undecided: Option<Undecided>,
    /// There is no table any more; what is older than `decided` stays refused.
    pub forgotten: bool,
    /// Bytes of the log.
    pub log: u64,
}

/// A batch that was appended to the log, and not decided before the agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    pub generation: Generation,
    /// What it does, in any order.
    pub ops: Vec<Op>,
    /// The batch must be confirmed.
    pub guarded: bool,
}

/// What to do with one device, in order. See the head of the module for what the host owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEffect {
    /// Watch the device from now on: say [`FlowInput::Back`] or [`FlowInput::Gone`], then what changes.
    Watch,
    /// Do not watch it any more, and touch nothing of it.
    Leave,
    /// Append the batch to the device's log, durably. The answer: [`FlowInput::Appended`].
    Append {
        generation: Generation,
        /// The operations; what is stored is there, verified.
        ops: Content,
        /// The batch must be confirmed if the device carries the path to the controller: then say
        /// so in the log and give a challenge.
        guard: bool,
    },
    /// Record durably how the batch ended. The answer: [`FlowInput::Decided`].
    Decide {
        generation: Generation,
        /// None: well.
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
        /// How, if not well.
        refused: Option<FlowRefusal>,
    },
    /// Durably rewrite the log so that it says only that the table is forgotten. The answer:
    /// [`FlowInput::Forgotten`].
    Forget {
        /// What is older stays refused.
        generation: Generation,
    },
    /// Remove what is left of a log that was forgotten; need not be durable, is not answered.
    Drop,
    /// Do this on the device, all or nothing, and read it back. The answer: [`FlowInput::Applied`].
    Apply {
        number: u64,
        /// By id: the host puts meters and groups before what uses them, and removes them after.
        ops: Arc<Vec<Op>>,
        /// What others put there becomes ours where it is the same; else it refuses the whole.
        take_over: bool,
    },
    /// Compare the device with this. The answer: [`FlowInput::Compared`].
    Compare {
        number: u64,
        /// The desired entries, by id; those in [`EntryState::Expired`] must be gone.
        kept: Arc<Vec<TableEntry>>,
        /// Forms that are right.
        odd: Arc<DivergentForms>,
    },
    /// Put and remove what can be, each by itself. The answer: [`FlowInput::Repaired`].
    Repair {
        number: u64,
        /// To be put, by id, in place of what is there.
        put: Vec<TableEntry>,
        remove: Vec<Extraneous>,
    },
    /// Stop this one of [`FlowEffect::Apply`], [`FlowEffect::Compare`] and [`FlowEffect::Repair`], or do not begin it; it is
    /// over before the next one begins. If it is answered all the same, for its answer was on its way, its number says so.
    Cancel {
        /// Number of the work to stop.
        number: u64,
    },
    /// The device holds what it can hold of its table: packets may pass.
    Filled,
    /// Counters of the device. The answers: [`FlowInput::Counted`].
    Count { number: u64 },
    /// Rules that are not ours. The answers: [`FlowInput::Foreigners`].
    Foreign { number: u64 },
}

/// What happened to one device, or to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowInput {
    /// The device answers, whatever is on it now.
    Back,
    /// The device does not answer.
    Gone { reason: String },
    /// Others may have changed the device. Many hints at once are as good as one.
    Hint,
    /// The switch says that these ended by their timeouts.
    Ended { ids: Vec<FlowId> },
    /// The answer to [`FlowEffect::Append`].
    Appended {
        generation: Generation,
        /// Its operations, in any order; or why the log is as if it had never come.
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
        /// From the effect; of what is not under way any more it is dropped.
        number: u64,
        /// What came of it.
        result: Result<DivergentForms, NotApplied>,
    },
    /// The answer to [`FlowEffect::Compare`].
    Compared {
        /// From the effect; of what is not under way any more it is dropped.
        number: u64,
        /// What came of it.
        result: Result<Compared, String>,
    },
    /// The answer to [`FlowEffect::Repair`].
    Repaired {
        /// From the effect; of what is not under way any more it is dropped.
        number: u64,
        /// What came of it.
        result: Result<Repaired, String>,
    },
    /// A page of the answer to [`FlowEffect::Count`]; a device that does not answer has one, empty.
    Counted {
        number: u64,
        /// At most [`STATS_PAGE`](muster_shared::model::flow::STATS_PAGE).
        entries: Vec<FlowCounters>,
        /// With the last page.
        tables: Vec<TableCounters>,
        /// This is the last page.
        last: bool,
    },
    /// A page of the answer to [`FlowEffect::Foreign`]; a device that does not answer has one, empty.
    Foreigners {
        number: u64,
        /// At most [`FOREIGN_PAGE`](muster_shared::model::flow::FOREIGN_PAGE).
        rules: Vec<ForeignRule>,
        /// This is the last page.
        last: bool,
    },
}

/// A batch in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its operations, in any order; where and how long is not known of what is removed.
    pub ops: Vec<Op>,
    /// [`CHALLENGE_BYTES`](muster_shared::model::CHALLENGE_BYTES) random bytes: the change must be confirmed.
    pub challenge: Option<Vec<u8>>,
}

/// A log that was rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Where each entry begins now, in the order of the effect.
    pub at: Vec<u32>,
    /// Bytes of the log.
    pub log: u64,
}

/// Why nothing of a batch is on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotApplied {
    /// The batch was refused, before it reached the switch or by the switch.
    Refused(FlowRefusal),
    /// The switch went away; also if nobody knows whether it took it before.
    Gone { reason: String },
}

/// How a device differs from its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Not there, by id.
    pub missing: Vec<FlowId>,
    /// Not there, for it ended by its own timeout, by id: it has run out since the entry was put, or nothing but the
    /// timeout takes an entry away, as on a switch that has not restarted since.
    pub ended: Vec<FlowId>,
    /// There, with another content, by id.
    pub altered: Vec<FlowId>,
    /// Ours, and not in the table; of very many the first [`EXTRANEOUS_MAX`](super::EXTRANEOUS_MAX).
    pub extraneous: Vec<Extraneous>,
    /// There are more of those.
    pub more: bool,
    /// Rules that are not ours.
    pub foreign: u32,
}

/// What came of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What could not be put, and why.
    pub failed: Vec<(FlowId, String)>,
    /// What was put and reads back in another form.
    pub odd: DivergentForms,
}
