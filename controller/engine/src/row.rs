//! A row: one physical thing, and where a traversal is with it.
//!
//! What a job does to a row is in [`job`], what an operation does in [`operation`], what few rows have in [`details`],
//! and what the store keeps in [`record`].

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
use crate::progress::Phase;
use crate::record::{Observation, PackedSpec, Status};

pub(crate) use self::details::RowDetails;
pub(crate) use self::operation::{Ownership, Replaced};

/// Where a row lies in memory; reused after the row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub u32);

/// A resource. Every module reads the columns of a row. The methods in this module and in those below it write them, so
/// that all ways in which a row changes stand in one place, each with a name.
#[derive(Debug)]
pub(crate) struct Row(Columns);

impl Deref for Row {
    type Target = Columns;

    fn deref(&self) -> &Columns {
        &self.0
    }
}

/// What is known of a resource.
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
    /// What the thing as it is needs; while a job is out, also what it will need.
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
    /// Counted among the failed ones of the present traversal.
    pub failed: bool,
    /// The present traversal found something to do for it, or may have before the controller was started.
    pub changed: bool,
    /// Those that do not follow from the spec.
    pub attributes: BTreeMap<String, String>,
    pub observed: Observation,
    /// When it is cleaned up, its thing is left.
    pub retain: bool,
    /// What few rows have; see [`Row::details`].
    pub details: Option<Box<RowDetails>>,
    pub role: Role,
    /// Of the resource in the stack's template.
    pub index: u32,
    /// How many of those it waits for are not done.
    pub blocked: u32,
    /// The present operation is to give it a job, also if it is as it was asked for.
    pub converges: bool,
    pub work: Option<Box<Work>>,
    pub dirty: Dirty,
}

/// What the current traversal wants of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Unchanged, or without a traversal: nothing.
    Steady,
    /// To be brought to the definition of the new revision.
    Forward,
    /// To be taken away.
    Cleanup,
}

/// A job that was decided on and whose outcome is not known.
#[derive(Debug)]
pub(crate) struct Work {
    pub state: WorkState,
    /// Since when it is in this state.
    pub since: MonoTime,
    /// When the present state is over at the latest; the key of its timer.
    pub due: Option<MonoTime>,
    /// The row whose job runs in its lane on the server, while it waits there.
    pub behind: Option<Slot>,
    /// The row before the job; absent after a restart of the controller.
    pub previous: Option<PriorState>,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkState {
    /// Its node is away, or there is none.
    NodeAway,
    /// Held back: enough is in flight.
    Queued,
    /// With the agent.
    Sent,
    /// The agent says it runs.
    Running,
    /// The agent says it waits for the observed to equal the desired.
    Settling,
    /// With the agent, which was asked not to start it.
    Withdrawing,
    /// Failed; tried again when due.
    Backoff,
}

/// What is put back when a job turns out never to have started.
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

/// What of a row is to be persisted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub full: bool,
    pub progress: bool,
    pub edges: bool,
}

impl WorkState {
    /// Whether the agent may have it.
    pub fn is_sent(self) -> bool {
        match self {
            WorkState::Sent | WorkState::Running | WorkState::Settling | WorkState::Withdrawing => true,
            WorkState::NodeAway | WorkState::Queued | WorkState::Backoff => false,
        }
    }

    /// As operators see it.
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
    pub fn any(self) -> bool {
        self.full || self.progress || self.edges
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

    /// As operators see its type.
    pub fn type_name(&self) -> &str {
        self.details().type_name.as_deref().unwrap_or(self.kind.name())
    }

    /// It is no stack's: its node was removed, or the store was restored and never knew it.
    pub fn is_lost(&self) -> bool {
        self.stack == 0
    }

    /// After a restart: it has failed, and nobody is asked for it.
    pub fn failed_before(&self) -> bool {
        let waits = self.details().hook.is_some() || self.details().pause.is_some();
        self.status == Some(Status::Failed) && !self.ready && !waits && !self.failed_after_drift()
    }

    /// It failed, but without a job: its agent holds what the last job made, or has found it as it is to be since.
    pub fn is_intact(&self) -> bool {
        let holds = self.held == Some(self.generation) || self.observed == Observation::InSync;
        self.status == Some(Status::Failed) && holds && !self.details().unhealthy
    }

    /// The row has failed of something else than its last job, for that ended well and its answer was heard.
    pub fn failed_since(&self) -> bool {
        let ended_well = self.held == Some(self.generation) && self.details().causes.is_empty();
        self.status == Some(Status::Failed) && ended_well
    }

    /// Its thing is gone, or being taken away, or half gone.
    pub fn is_past(&self) -> bool {
        // What the controller itself sees to goes at once or not at all: refused, it is as it was.
        let stands = self.kind.is_virtual() && self.applied;
        self.is_going() && self.work.is_none() && !stands
    }

    /// Its last job, or the present one, takes it away.
    pub fn is_going(&self) -> bool {
        self.action.is_some_and(Action::removes)
    }

    /// A check asks about it; the row itself is as it was before. Who adopts a thing asks too, until it is ready.
    pub fn is_asked(&self) -> bool {
        self.action == Some(Action::Check) && self.work.is_some() && (self.ready || !self.is_adopted())
    }

    pub fn is_sent(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.state.is_sent())
    }

    /// Nothing of its job has left.
    pub fn is_unsent(&self) -> bool {
        let waits = |work: &Work| matches!(work.state, WorkState::NodeAway | WorkState::Queued);
        self.attempt == 0 && self.work.as_deref().is_some_and(waits)
    }

    /// Of a row whose job is not with its agent: an attempt of that job is over.
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
