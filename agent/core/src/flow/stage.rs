//! The stages of a batch, from its arrival to its end, and the deadline of each. `flow.rs` has the diagram.
//! Decides after a restart whether a batch is applied again or undone.
//!
//! Absent: how a batch gets from stage to stage (`batch.rs`, `guard.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::FlowRefusal;
use muster_shared::model::{Content, ContentDigest};
use muster_shared::{Generation, MonoTime};

use super::{Device, Op, Switch, Table, Undecided};
use crate::challenge::Challenge;

const CRASHED: &str = "the agent ended before the change was confirmed (a crash, a stop or a reboot)";

/// The batch that a device is at.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) generation: Generation,
    /// The time limit of the confirmation; `None` if the batch needs none.
    pub(super) confirm: Option<Duration>,
    /// The batch can cut the node off, and is on its way to the log or beyond.
    pub(super) guards: bool,
    /// The device is waited for until then.
    pub(super) wait_until: MonoTime,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    Fetching {
        ops: Content,
    },
    Ready {
        ops: Content,
    },
    Appending {
        stored: Option<ContentDigest>,
    },
    Logged {
        ops: Arc<Vec<Op>>,
        challenge: Option<Vec<u8>>,
        /// The batch waits until the device is filled. Either the switch refused it earlier, when entries of
        /// the table may have been missing, or the batch needs confirmation, which requires the whole table.
        after_filling: bool,
    },
    Applying {
        ops: Arc<Vec<Op>>,
        challenge: Option<Vec<u8>>,
        /// Deadline of the confirmation, for a batch that needs one.
        deadline: Option<MonoTime>,
    },
    Confirming {
        ops: Arc<Vec<Op>>,
        challenge: Challenge,
    },
    Undoing {
        ops: Arc<Vec<Op>>,
        why: String,
        /// The agent must not retry the batch by itself.
        is_final: bool,
        tries: u32,
        at: MonoTime,
    },
    Deciding {
        ops: Arc<Vec<Op>>,
        refused: Option<FlowRefusal>,
    },
}

impl Stage {
    /// Whether it is too late to replace the batch.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self, Stage::Fetching { .. } | Stage::Ready { .. })
    }

    /// The content that is fetched for the batch and not in the log yet.
    pub(super) fn unbegun_content(&self) -> Option<ContentDigest> {
        let (Stage::Fetching { ops } | Stage::Ready { ops }) = self else { return None };
        ops.stored().map(|(digest, _)| digest)
    }

    /// The batch's operations, from when the device may hold them until the table has them.
    pub(super) fn in_force(&self) -> Option<&Arc<Vec<Op>>> {
        match self {
            Stage::Applying { ops, .. }
            | Stage::Confirming { ops, .. }
            | Stage::Undoing { ops, .. }
            | Stage::Deciding { ops, .. } => Some(ops),
            Stage::Fetching { .. } | Stage::Ready { .. } | Stage::Appending { .. } | Stage::Logged { .. } => {
                None
            }
        }
    }
}

impl Batch {
    /// The stage after a restart: a batch that may have been applied is applied again, or undone.
    pub(super) fn recovered(undecided: Undecided, table: &Table) -> Option<Self> {
        let ops = Arc::new(table.resolve(undecided.ops)?);
        let stage = match undecided.guarded {
            true => {
                let at = MonoTime::default();
                Stage::Undoing { ops, why: CRASHED.into(), is_final: true, tries: 0, at }
            }
            false => Stage::Logged { ops, challenge: None, after_filling: false },
        };
        let Undecided { generation, guarded: guards, .. } = undecided;
        Some(Self { generation, confirm: None, guards, wait_until: MonoTime::default(), stage })
    }
}

impl Device {
    pub(super) fn batch_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let batch = self.batch.as_ref()?;
        match &batch.stage {
            Stage::Ready { .. } | Stage::Logged { after_filling: false, .. } => {
                (!self.is_back()).then_some((batch.wait_until, "a batch waits for its switch"))
            }
            Stage::Logged { after_filling: true, .. } => {
                (!self.is_filled()).then_some((batch.wait_until, "a batch waits for its switch to be filled"))
            }
            Stage::Applying { deadline, .. } => deadline.map(|at| (at, "deadline of a batch")),
            Stage::Confirming { challenge, .. } => challenge.timeouts().min_by_key(|(at, _)| *at),
            Stage::Undoing { at, .. } => match (&self.work, &self.switch) {
                (None, Switch::Back { .. }) => Some((*at, "undoing a batch")),
                (None, Switch::Unknown) => Some((batch.wait_until, "undoing a batch")),
                (None | Some(_), _) => None,
            },
            Stage::Fetching { .. } | Stage::Appending { .. } | Stage::Deciding { .. } => None,
        }
    }
}
