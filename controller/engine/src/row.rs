//! A row: one thing, and its part in a traversal.
//!
//! ```text
//!   goal   what the newest traversal wants      Be | Gone
//!   held   what the agent is known to have      Nothing | Unlisted | Listed
//!   seen   how the thing was found              Unknown | InSync | Drifted | Missing
//!   task   the job without a known outcome      at most one
//!   last   how the job before ended             status, action, cause, reason
//! ```
//!
//! While a job is out, the row keeps what it was before. Only the outcome changes it, so a job that never began leaves
//! nothing behind.
//!
//! [`view`] says what follows from these, [`task`] has the life of a job, [`outcome`] what follows from its outcome,
//! [`needed`] which job a row needs, [`operation`] what an operation changes, [`details`] what few rows
//! have, and [`record`] what the store keeps.

pub(crate) mod attribute;
pub(crate) mod by_node;
pub mod cause;
pub mod notes;
pub(crate) mod rows;

mod details;
pub(crate) mod needed;
mod operation;
pub(crate) mod outcome;
mod realised;
mod record;
pub(crate) mod report_meaning;
mod task;
mod view;
mod without_job;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use muster_shared::model::Action;
use muster_shared::{Generation, ResourceId};
use muster_template::Kind;

use crate::node::NodeKey;
use crate::record::{Observation, PackedSpec, Status};
use crate::row::cause::Cause;

pub(crate) use self::details::RowDetails;
pub(crate) use self::operation::{Ownership, Replaced};
pub(crate) use self::task::{NewTask, Task, TaskState};

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

/// State of a resource. What follows from its private columns is in `row/view.rs`.
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
    goal: Goal,
    /// Another row has taken over a claim of this one.
    pub handed_over: bool,
    pub replaces: Option<u64>,
    /// Rows that the thing as it is needs. While a job is out, also rows that it will need.
    pub requires: Box<[Slot]>,
    /// The desired state of the last job that ended; of a virtual resource, as it is.
    spec: Option<PackedSpec>,
    held: Held,
    seen: Observation,
    task: Option<Box<Task>>,
    last: Last,
    /// The generation of the newest job.
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
    /// The row had a job that was not sent yet when the controller stopped: its batch has begun.
    pub had_begun: bool,
    pub dirty: Dirty,
}

/// The state that the newest traversal wants a thing to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The thing as its definition says.
    Be,
    /// No thing. This revision was the first without it.
    Gone { since: u32, replaced_by: Option<u64> },
}

/// The state that the agent is known to have of a thing; of a virtual resource, what the controller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// No job has ended that could have made the thing, or the thing is gone.
    Nothing,
    /// The thing may be there, and no ledger lists it: how its job ended is not known, the ledger was lost, or it is a flow
    /// table or a virtual resource.
    Unlisted,
    /// The agent's ledger lists the thing with this generation. A newer job may have changed it since.
    Listed(Generation),
}

/// The end of the last job of a thing. A virtual resource that waits for signals or time is in progress here.
#[derive(Debug, Default)]
struct Last {
    action: Option<Action>,
    cause: Cause,
    status: Option<Status>,
    /// The reason of a failure. Of a complete thing, how it differs.
    reason: Option<Box<str>>,
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

/// The parts of a row to persist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub full: bool,
    pub progress: bool,
    pub edges: bool,
    /// Their writing is left to a later turn.
    pub is_left: bool,
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
            goal: Goal::Be,
            handed_over: false,
            replaces: None,
            requires: Box::default(),
            spec: None,
            held: Held::Nothing,
            seen: Observation::Unknown,
            task: None,
            last: Last::default(),
            generation: Generation::default(),
            attempt: 0,
            retry_count: 0,
            ready: false,
            failed: false,
            changed: false,
            attributes: BTreeMap::new(),
            retain: false,
            details: None,
            role: Role::Steady,
            index: u32::MAX,
            blocked: 0,
            converges: false,
            had_begun: false,
            dirty: Dirty::default(),
        })
    }
}
