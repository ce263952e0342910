//! A row: one physical thing, and where a traversal is with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use muster_shared::model::Action;
use muster_shared::{Attempt, Generation, MonoTime, NodeId, ResourceId, StackName};
use muster_template::{DriftPolicy, Hook, Kind};

use crate::breaker::Breaker;
use crate::cause::Cause;
use crate::drift::DriftEvent;
use crate::node::NodeKey;
use crate::notes::Notes;
use crate::pause::Pause;
use crate::progress::Phase;
use crate::record::{Observation, PackedSpec, ProgressRecord, ResourceRecord, Status};

/// Where a row lies in memory; reused after the row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub u32);

#[derive(Debug)]
pub(crate) struct Row {
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

/// What few rows have: kept apart, for there may be a million rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowDetails {
    /// As operators see its type, where that is not the kind's name.
    pub type_name: Option<Arc<str>>,
    pub external_id: Option<Box<str>>,
    pub lost_from: Option<StackName>,
    pub unhealthy: bool,
    pub hook: Option<Hook>,
    /// Since when it waits there.
    pub hook_since: Option<MonoTime>,
    pub hooks_cleared: u8,
    pub causes: Vec<Box<str>>,
    pub pause: Option<Pause>,
    pub drift_event: Option<DriftEvent>,
    pub drift_policy: Option<DriftPolicy>,
    pub breaker: Option<Breaker>,
    /// See [`Notes`].
    pub notes: Option<Notes>,
}

static NO_DETAILS: RowDetails = RowDetails {
    type_name: None,
    external_id: None,
    lost_from: None,
    unhealthy: false,
    hook: None,
    hook_since: None,
    hooks_cleared: 0,
    causes: Vec::new(),
    pause: None,
    drift_event: None,
    drift_policy: None,
    breaker: None,
    notes: None,
};

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
        Self {
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
        }
    }

    pub fn details(&self) -> &RowDetails {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }

    pub fn details_mut(&mut self) -> &mut RowDetails {
        self.details.get_or_insert_default()
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

    pub fn record(&self, node: Option<NodeId>, now: MonoTime) -> ResourceRecord {
        ResourceRecord {
            id: self.id,
            physical: self.physical,
            stack: self.stack,
            name: self.name.clone(),
            kind: self.kind,
            node,
            definition: self.definition,
            revision: self.revision,
            dropped: self.dropped,
            spec: self.spec.clone(),
            handed_over: self.handed_over,
            replaces: self.replaces,
            replaced_by: self.replaced_by,
            retain: self.retain,
            drift_policy: self.details().drift_policy,
            external_id: self.details().external_id.clone(),
            type_name: self.details().type_name.clone(),
            lost_from: self.details().lost_from.clone(),
            progress: self.progress_record(now),
        }
    }

    pub fn progress_record(&self, now: MonoTime) -> ProgressRecord {
        ProgressRecord {
            id: self.id,
            action: self.action,
            cause: self.cause,
            status: self.status,
            reason: self.reason.clone(),
            applied: self.applied,
            held: self.held,
            generation: self.generation,
            attempt: self.attempt,
            in_flight: self.is_sent(),
            retry_count: self.retry_count,
            observed_ready: self.ready,
            attributes: self.attributes.clone(),
            notes: self.details().notes.clone(),
            observed: self.observed,
            unhealthy: self.details().unhealthy,
            hook: self.details().hook,
            hooks_cleared: self.details().hooks_cleared,
            causes: self.details().causes.clone(),
            waited: self.details().pause.map(|pause| pause.waited(now)),
            corrections: self.details().breaker.map(|breaker| breaker.record(now)),
        }
    }
}

/// All rows, by slot.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    slots: Vec<Option<Box<Row>>>,
    free: Vec<Slot>,
    by_id: BTreeMap<u64, Slot>,
    /// Looked up alone: its order says nothing.
    by_thing: IndexMap<ResourceId, Slot>,
    /// How often one was looked at.
    #[cfg(any(test, feature = "visits"))]
    pub visits: std::cell::Cell<usize>,
}

impl Rows {
    pub fn insert(&mut self, row: Row) -> Slot {
        let (id, thing) = (row.id, row.physical);
        let row = Some(Box::new(row));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot.0 as usize] = row;
                slot
            }
            None => {
                self.slots.push(row);
                Slot(u32::try_from(self.slots.len() - 1).expect("fewer than four billion rows"))
            }
        };
        self.by_id.insert(id, slot);
        self.by_thing.insert(thing, slot);
        slot
    }

    pub fn remove(&mut self, slot: Slot) -> Option<Box<Row>> {
        let row = self.slots.get_mut(slot.0 as usize)?.take();
        if let Some(row) = &row {
            self.free.push(slot);
            self.by_id.remove(&row.id);
            self.by_thing.swap_remove(&row.physical);
        }
        row
    }

    /// Another takes its place; it is to be inserted elsewhere.
    pub fn replace(&mut self, slot: Slot, row: Row) -> Row {
        self.by_id.insert(row.id, slot);
        self.by_thing.insert(row.physical, slot);
        let old = std::mem::replace(&mut self[slot], row);
        self.by_id.remove(&old.id);
        self.by_thing.swap_remove(&old.physical);
        old
    }

    /// The row stands for a thing with another id from now on.
    pub fn rename(&mut self, slot: Slot, thing: ResourceId) {
        let before = std::mem::replace(&mut self[slot].physical, thing);
        self.by_thing.swap_remove(&before);
        self.by_thing.insert(thing, slot);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All, in the order of their numbers in the store.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.by_id.values().copied()
    }

    /// The row that stands for a thing.
    pub fn of_thing(&self, thing: &ResourceId) -> Option<Slot> {
        self.by_thing.get(thing).copied()
    }

    /// By its number in the store.
    pub fn of_id(&self, id: u64) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub fn get(&self, slot: Slot) -> Option<&Row> {
        #[cfg(any(test, feature = "visits"))]
        self.visits.update(|visits| visits + 1);
        self.slots.get(slot.0 as usize)?.as_deref()
    }

    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Row> {
        #[cfg(any(test, feature = "visits"))]
        self.visits.update(|visits| visits + 1);
        self.slots.get_mut(slot.0 as usize)?.as_deref_mut()
    }
}

impl std::ops::Index<Slot> for Rows {
    type Output = Row;

    fn index(&self, slot: Slot) -> &Row {
        self.get(slot).expect("a slot is dropped with its row")
    }
}

impl std::ops::IndexMut<Slot> for Rows {
    fn index_mut(&mut self, slot: Slot) -> &mut Row {
        self.get_mut(slot).expect("a slot is dropped with its row")
    }
}
