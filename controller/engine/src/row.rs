//! A row: one thing, and its part in a traversal.
//!
//! [`job`] has what a job does to a row, [`operation`] what an operation does, [`details`] what few
//! rows have, and [`record`] what the store keeps.

mod details;
pub(crate) mod heard;
mod job;
pub(crate) mod needed;
mod operation;
mod record;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use muster_shared::model::Action;
use muster_shared::{Attempt, Generation, MonoTime, ResourceId};
use muster_template::Kind;

use crate::cause::Cause;
use crate::node::NodeKey;
use crate::phase::Phase;
use crate::record::{Observation, PackedSpec, Status};

pub(crate) use self::details::RowDetails;
pub(crate) use self::operation::{Ownership, Replaced};

/// Index of a row in memory. Another row may use it after the row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub u32);

/// A resource. Every module reads the columns of a row. Only the methods in this module and below
/// write them, so all changes of a row stand in one place, each with a name.
#[derive(Debug)]
pub(crate) struct Row(Columns);

impl Deref for Row {
    type Target = Columns;

    fn deref(&self) -> &Columns {
        &self.0
    }
}

/// State of a resource.
#[derive(Debug)]
pub(crate) struct Columns {
    pub id: u64,
    pub physical: ResourceId,
    pub stack: u64,
    pub name: Arc<str>,
    pub kind: Kind,
    pub node: Option<NodeKey>,
    pub definition: u128,
    pub revision: u32,
    pub dropped: Option<u32>,
    pub spec: Option<PackedSpec>,
    pub handed_over: bool,
    pub replaces: Option<u64>,
    pub replaced_by: Option<u64>,
    /// Rows that the thing as it is needs. While a job is out, also rows that it will need.
    pub requires: Box<[Slot]>,
    pub action: Option<Action>,
    pub cause: Cause,
    pub status: Option<Status>,
    pub reason: Option<Box<str>>,
    pub applied: bool,
    /// The generation the agent's ledger is known to hold.
    pub held: Option<Generation>,
    pub generation: Generation,
    pub attempt: u32,
    pub retry_count: u32,
    pub ready: bool,
    /// The row counts as failed in the present traversal.
    pub failed: bool,
    /// The present traversal found something to do for the row, or may have before a restart.
    pub changed: bool,
    /// Attributes that do not follow from the spec.
    pub attributes: BTreeMap<String, String>,
    pub observed: Observation,
    /// Clean-up leaves the thing in place.
    pub retain: bool,
    /// State that few rows have; see [`Row::details`].
    pub details: Option<Box<RowDetails>>,
    pub role: Role,
    /// Index of the resource in the stack's template.
    pub index: u32,
    /// The number of needed rows that have not ended.
    pub blocked: u32,
    /// The present operation gives the row a job even if it is unchanged.
    pub converges: bool,
    pub work: Option<Box<Work>>,
    pub dirty: Dirty,
}

/// The role of a row in the current traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The row is unchanged, or there is no traversal: nothing.
    Steady,
    /// The row becomes as the new revision defines it.
    Forward,
    /// The thing of the row is removed.
    Cleanup,
}

/// A job without a known outcome.
#[derive(Debug)]
pub(crate) struct Work {
    pub state: WorkState,
    /// When the job entered this state.
    pub since: MonoTime,
    /// The latest end of this state; the key of its timer.
    pub due: Option<MonoTime>,
    /// The row whose job this one waits for in the agent's lane.
    pub behind: Option<Slot>,
    /// The row before the job. `None` after a controller restart.
    pub previous: Option<PriorState>,
}

/// State of a job that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkState {
    /// The node is away, or has never joined.
    NodeAway,
    /// The job waits for room in flight.
    Queued,
    /// The agent may have the job.
    Sent,
    /// The agent reports that the job runs.
    Running,
    /// The agent reports that it waits for the observed state to equal the desired state.
    Settling,
    /// The agent may have the job, and was asked not to start it.
    Withdrawing,
    /// An attempt failed; the next one starts when due.
    Backoff,
}

/// State of the row to restore if the job never started.
#[derive(Debug)]
pub(crate) struct PriorState {
    pub action: Option<Action>,
    pub status: Option<Status>,
    pub reason: Option<Box<str>>,
    pub spec: Option<PackedSpec>,
    pub applied: bool,
    pub observed: Observation,
    pub cause: Cause,
}

/// The parts of a row to persist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub full: bool,
    pub progress: bool,
    pub edges: bool,
    /// Their writing is left to a later turn.
    pub is_left: bool,
}

impl WorkState {
    /// Whether the agent may have the job.
    pub fn is_sent(self) -> bool {
        match self {
            WorkState::Sent | WorkState::Running | WorkState::Settling | WorkState::Withdrawing => true,
            WorkState::NodeAway | WorkState::Queued | WorkState::Backoff => false,
        }
    }

    /// The phase that operators see.
    pub fn phase(self) -> Phase {
        match self {
            WorkState::NodeAway => Phase::NodeAway,
            WorkState::Queued | WorkState::Sent | WorkState::Withdrawing => Phase::Queued,
            WorkState::Running => Phase::Running,
            WorkState::Settling => Phase::Settling,
            WorkState::Backoff => Phase::Backoff,
        }
    }
}

impl Dirty {
    /// Whether something of the row is written in this turn.
    pub fn is_queued(self) -> bool {
        !self.is_left && (self.full || self.progress || self.edges)
    }
}

impl Row {
    pub fn new(id: u64, physical: ResourceId, stack: u64, name: Arc<str>, kind: Kind) -> Self {
        Self(Columns {
            id,
            physical,
            stack,
            name,
            kind,
            node: None,
            definition: 0,
            revision: 0,
            dropped: None,
            spec: None,
            handed_over: false,
            replaces: None,
            replaced_by: None,
            requires: Box::default(),
            action: None,
            cause: Cause::default(),
            status: None,
            reason: None,
            applied: false,
            held: None,
            generation: Generation::default(),
            attempt: 0,
            retry_count: 0,
            ready: false,
            failed: false,
            changed: false,
            attributes: BTreeMap::new(),
            observed: Observation::Unknown,
            retain: false,
            details: None,
            role: Role::Steady,
            index: u32::MAX,
            blocked: 0,
            converges: false,
            work: None,
            dirty: Dirty::default(),
        })
    }

    /// The type that operators see.
    pub fn type_name(&self) -> &str {
        self.details().type_name.as_deref().unwrap_or(self.kind.name())
    }

    /// Whether the row belongs to no stack: its node was removed, or the restored store did not
    /// know the thing.
    pub fn is_lost(&self) -> bool {
        self.stack == 0
    }

    /// Whether a loaded row has failed and waits for nothing.
    pub fn failed_before(&self) -> bool {
        let waits = self.details().hook.is_some() || self.details().pause.is_some();
        self.status == Some(Status::Failed) && !self.ready && !waits && !self.failed_after_drift()
    }

    /// Whether the row failed without a job. The agent holds what the last job made, or has found
    /// the thing as desired since.
    pub fn is_intact(&self) -> bool {
        let holds = self.held == Some(self.generation) || self.observed == Observation::InSync;
        self.status == Some(Status::Failed) && holds && !self.details().unhealthy
    }

    /// Whether the row failed after its last job had ended well and its report had arrived.
    pub fn failed_since(&self) -> bool {
        let ended_well = self.held == Some(self.generation) && self.details().causes.is_empty();
        self.status == Some(Status::Failed) && ended_well
    }

    /// Whether the thing is gone or half gone.
    pub fn is_past(&self) -> bool {
        // The controller removes a virtual resource at once or not at all: one that stays is whole.
        let stands = self.kind.is_virtual() && self.applied;
        self.is_going() && self.work.is_none() && !stands
    }

    /// Whether the last or present job removes the thing.
    pub fn is_going(&self) -> bool {
        self.action.is_some_and(Action::removes)
    }

    /// Whether a check asks about the row, which stays as it was. An external row asks too,
    /// until it is ready.
    pub fn is_asked(&self) -> bool {
        self.action == Some(Action::Check) && self.work.is_some() && (self.ready || !self.is_external())
    }

    pub fn is_sent(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.state.is_sent())
    }

    /// Whether the row has a job that was never sent.
    pub fn is_unsent(&self) -> bool {
        let waits = |work: &Work| matches!(work.state, WorkState::NodeAway | WorkState::Queued);
        self.attempt == 0 && self.work.as_deref().is_some_and(waits)
    }

    /// For a row whose job is not at its agent: whether an attempt of that job has ended.
    pub fn was_tried(&self) -> bool {
        self.node.is_some() && (self.attempt > 0 || self.retry_count > 0 || !self.details().causes.is_empty())
    }

    pub fn key(&self) -> muster_shared::model::ReportKey {
        muster_shared::model::ReportKey {
            resource: self.physical,
            generation: self.generation,
            attempt: Attempt(self.attempt),
        }
    }
}
