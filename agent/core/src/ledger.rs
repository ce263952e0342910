//! The agent's memory of its jobs and of the resources it made, one entry per resource.
//!
//! An entry holds at most one job that may be running and one that follows. The entry of a deleted resource
//! stays as a **tombstone**, so that a late duplicate of an old job makes nothing again. The ledger keeps the
//! newest [`TOMBSTONES_MAX`] tombstones.
//!
//! Absent: whether a job that comes again runs again (`jobs/accept.rs`; after a restart `jobs/begin.rs`), the
//! files (`agent/src/state_dir.rs`), and the comparison with the controller's rows
//! (`controller/engine/src/node/ledger_compare.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use muster_shared::model::{
    Action, Claim, ContentDigest, Job, Lane, LedgerEntry, Outcome, Report, ReportKey, Spec,
};
use muster_shared::{Generation, ResourceId};
use serde::{Deserialize, Serialize};

mod holding;
mod records;

pub use holding::Holding;
pub(crate) use records::After;
use records::Records;

/// The most tombstones: a duplicate arrives within minutes, and 4,096 deletions on one node take longer than
/// that. Each tombstone is a file of some 200 bytes.
pub const TOMBSTONES_MAX: usize = 4096;

/// The most unacknowledged reports of one resource; the oldest go first, since the controller asks only for
/// the newest job's outcome.
const UNACKNOWLEDGED_MAX: usize = 8;

/// Counts arrivals and takings-over; restores the order of jobs after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Order(pub u64);

/// The host's record of the state before Muster. The record may hold content, so its debug output hides it.
///
/// The record of a large network is long, and the many copies of an entry share it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before(Arc<[u8]>);

impl Before {
    /// Wraps the bytes that the host wrote.
    pub fn new(written: Vec<u8>) -> Self {
        Self(written.into())
    }

    /// The bytes that the host wrote.
    pub fn written(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Before<{} bytes>", self.0.len())
    }
}

/// The state, before a change, of all that the change may touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The job that makes the change.
    pub key: ReportKey,
    /// The host's record of the state.
    pub state: Before,
    /// The resource's holding before the change.
    pub holding: Option<Holding>,
}

/// A job that was accepted and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub order: Order,
    pub job: Job,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Generation of the state.
    pub generation: Generation,
    /// The state, its content named by digest.
    pub spec: Spec,
}

/// The newest job that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub order: Order,
    pub key: ReportKey,
    /// The job's [`digest`]; `None` if the job was withdrawn before it arrived.
    pub digest: Option<ContentDigest>,
    pub outcome: Outcome,
}

/// The agent's knowledge of one resource: one record on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub resource: ResourceId,
    /// The holding of the resource, kept until the resource is gone. If present, the host may have started to
    /// change it.
    pub holding: Option<Holding>,
    /// Holdings of others that are gone with this resource, until their own records say so.
    pub gone: BTreeMap<ResourceId, Order>,
    /// The undo record of a change that is not kept yet, or not restored yet.
    pub undo: Option<Undo>,
    pub applied: Option<Applied>,
    /// The job that may be running.
    pub current: Option<Accepted>,
    pub next: Option<Accepted>,
    /// The newest job that ended.
    pub last: Option<Ended>,
    /// Outcomes the controller has not confirmed.
    pub unacknowledged: Vec<Report>,
}

impl Entry {
    /// The entry of an unknown resource.
    pub fn new(resource: ResourceId) -> Self {
        Self {
            resource,
            holding: None,
            gone: BTreeMap::new(),
            undo: None,
            applied: None,
            current: None,
            next: None,
            last: None,
            unacknowledged: Vec::new(),
        }
    }

    /// Whether this node may hold anything of the resource.
    pub fn exists(&self) -> bool {
        self.holding.is_some()
    }

    /// Nothing of the resource is here, and there is nothing to do or to report.
    pub fn is_tombstone(&self) -> bool {
        let is_idle = self.undo.is_none() && self.current.is_none() && self.next.is_none();
        !self.exists() && is_idle && self.unacknowledged.is_empty()
    }

    /// The fetched content that its job needs.
    pub fn content(&self) -> Option<ContentDigest> {
        let accepted = self.current.as_ref()?;
        stored(&accepted.job).map(|(digest, _)| digest)
    }

    /// The entry in the form that the controller compares.
    pub fn listed(&self) -> Option<LedgerEntry> {
        let applied = self.applied.as_ref().filter(|_| !self.resource.is_local())?;
        Some(LedgerEntry { resource: self.resource, generation: applied.generation })
    }

    /// The newest job heard of, running or not, with its digest.
    pub fn newest(&self) -> Option<(ReportKey, Option<ContentDigest>)> {
        let jobs = [&self.next, &self.current];
        let jobs = jobs.into_iter().flatten().map(|a| (a.job.key(), Some(digest(&a.job))));
        let last = self.last.as_ref().map(|ended| (ended.key, ended.digest));
        jobs.chain(last).max_by_key(|(key, _)| (key.generation, key.attempt))
    }

    /// Records an outcome.
    pub fn end(&mut self, ended: Ended) {
        // The controller does not know a local document, and would never confirm it.
        if !self.resource.is_local() {
            self.unacknowledged.push(Report { key: ended.key, outcome: ended.outcome.clone() });
        }
        if self.unacknowledged.len() > UNACKNOWLEDGED_MAX {
            self.unacknowledged.remove(0);
        }
        let rank = |key: ReportKey| (key.generation, key.attempt);
        if self.last.as_ref().is_none_or(|last| rank(last.key) <= rank(ended.key)) {
            self.last = Some(ended);
        }
    }

    fn lane(&self) -> Option<Lane> {
        self.applied.as_ref().map(|applied| applied.spec.lane())
    }

    fn jobs(&self) -> impl Iterator<Item = &Job> {
        [&self.current, &self.next].into_iter().flatten().map(|accepted| &accepted.job)
    }
}

/// The identity of a job within one generation: its action and its desired state. Stored on disk.
pub fn digest(job: &Job) -> ContentDigest {
    let purpose: u8 = match job.action {
        Action::Create | Action::Update => 0,
        Action::Delete => 1,
        Action::Check => 2,
        Action::Retain => 3,
        Action::Adopt => 4,
    };
    let bytes = postcard::to_stdvec(&(purpose, &job.spec))
        .expect("a spec is plain data, which postcard always writes");
    ContentDigest::of(&bytes)
}

/// The state without its content, which the host does not need once the state is applied.
pub fn without_content(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    spec.strip();
    spec
}

/// The content that must be fetched before the job can run.
pub(crate) fn stored(job: &Job) -> Option<(ContentDigest, u64)> {
    job.spec.content().filter(|_| job.action.applies())?.stored()
}

/// About how much memory a job takes.
pub fn weight(job: &Job) -> usize {
    const FIXED: usize = 256;
    FIXED + job.spec.weight()
}

/// The entries, with running counts. `ledger/records.rs` writes them to disk.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<ResourceId, Entry>,
    owners: BTreeMap<Claim, Vec<ResourceId>>,
    /// By resource: the resources whose records name it as taken over or gone.
    naming: BTreeMap<ResourceId, BTreeSet<ResourceId>>,
    tombstones: BTreeMap<Order, ResourceId>,
    by_lane: BTreeMap<Lane, BTreeSet<ResourceId>>,
    /// Resources whose last good state may differ from what [`Ledger::take_changed`] last returned.
    changed: BTreeSet<ResourceId>,
    records: Records,
    digest: u128,
    jobs: usize,
    weight: usize,
    order: u64,
}

impl Ledger {
    /// Starts from the entries on disk.
    pub fn new(entries: Vec<Entry>) -> Self {
        let with_undo = entries.iter().filter(|entry| entry.undo.is_some()).map(|entry| entry.resource);
        let mut ledger = Self { records: Records::new(with_undo.collect()), ..Self::default() };
        for entry in entries {
            ledger.edit(entry.resource, |slot| *slot = entry);
        }
        ledger
    }

    /// The entry of a resource.
    pub fn get(&self, resource: ResourceId) -> Option<&Entry> {
        self.entries.get(&resource)
    }

    /// The job of a resource that may be running.
    pub(crate) fn current(&self, resource: ResourceId) -> Option<&Accepted> {
        self.get(resource)?.current.as_ref()
    }

    /// The entries, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The only way to change an entry; an entry that is empty afterwards is dropped.
    pub fn edit<R>(&mut self, resource: ResourceId, change: impl FnOnce(&mut Entry) -> R) -> R {
        let mut entry = self.entries.remove(&resource).unwrap_or_else(|| Entry::new(resource));
        self.uncount(&entry);
        let was = entry.applied.as_ref().map(|applied| applied.generation);
        let result = change(&mut entry);
        if was != entry.applied.as_ref().map(|applied| applied.generation) {
            self.changed.insert(resource);
        }
        self.count(&entry);
        if entry != Entry::new(resource) {
            self.entries.insert(resource, entry);
        }
        result
    }

    /// A place in the order of arrival.
    pub fn next_order(&mut self) -> Order {
        self.order += 1;
        Order(self.order)
    }

    /// The oldest tombstone, if there are too many.
    pub fn excess_tombstone(&self) -> Option<ResourceId> {
        let (_, &oldest) = self.tombstones.first_key_value()?;
        (self.tombstones.len() > TOMBSTONES_MAX).then_some(oldest)
    }

    /// Resources whose last good state belongs to this lane.
    pub(crate) fn in_lane(&self, lane: Lane) -> &BTreeSet<ResourceId> {
        static NONE: BTreeSet<ResourceId> = BTreeSet::new();
        self.by_lane.get(&lane).unwrap_or(&NONE)
    }

    /// Resources whose last good state changed, came or went since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<ResourceId> {
        std::mem::take(&mut self.changed)
    }

    /// Another resource that holds one of these claims, or is about to.
    pub(crate) fn owners_of(&self, claims: &[Claim], resource: ResourceId) -> Option<(ResourceId, Claim)> {
        let held = self.holders(claims, resource).into_iter().find_map(|(other, holding)| {
            Some((other, claims.iter().find(|claim| holding.claims.contains(claim))?.clone()))
        });
        held.or_else(|| {
            let others = self.iter().filter(|entry| entry.resource != resource);
            let mut jobs = others.flat_map(Entry::jobs).filter(|job| job.action.applies());
            jobs.find_map(|job| {
                let wanted = job.spec.claims();
                let claim = claims.iter().find(|claim| wanted.contains(claim))?;
                Some((job.resource, claim.clone()))
            })
        })
    }

    /// Exclusive or over what [`Entry::listed`] gives.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Jobs that have not ended, and about how much memory they take.
    pub fn load(&self) -> (usize, usize) {
        (self.jobs, self.weight)
    }

    fn count(&mut self, entry: &Entry) {
        self.digest ^= entry.listed().map_or(0, |listed| listed.digest());
        for job in entry.jobs() {
            self.jobs += 1;
            self.weight += weight(job);
        }
        for claim in entry.claims() {
            self.owners.entry(claim.clone()).or_default().push(entry.resource);
        }
        for named in entry.named() {
            self.naming.entry(named).or_default().insert(entry.resource);
        }
        if let Some(lane) = entry.lane() {
            self.by_lane.entry(lane).or_default().insert(entry.resource);
        }
        if let (true, Some(last)) = (entry.is_tombstone(), &entry.last) {
            self.tombstones.insert(last.order, entry.resource);
        }
        let orders = [&entry.current, &entry.next].into_iter().flatten().map(|accepted| accepted.order);
        let held = [entry.holding.as_ref(), entry.undo.as_ref().and_then(|undo| undo.holding.as_ref())];
        // An order that a record names is never reused.
        let since =
            held.into_iter().flatten().map(|holding| holding.since).chain(entry.gone.values().copied());
        let newest = orders.chain(since).chain(entry.last.as_ref().map(|last| last.order)).max();
        self.order = self.order.max(newest.map_or(0, |order| order.0));
    }

    fn uncount(&mut self, entry: &Entry) {
        self.digest ^= entry.listed().map_or(0, |listed| listed.digest());
        for job in entry.jobs() {
            self.jobs -= 1;
            self.weight -= weight(job);
        }
        for claim in entry.claims() {
            if let Some(owners) = self.owners.get_mut(claim) {
                owners.retain(|&owner| owner != entry.resource);
                if owners.is_empty() {
                    self.owners.remove(claim);
                }
            }
        }
        for named in entry.named() {
            if let Some(naming) = self.naming.get_mut(&named) {
                naming.remove(&entry.resource);
                if naming.is_empty() {
                    self.naming.remove(&named);
                }
            }
        }
        if let Some(in_lane) = entry.lane().and_then(|lane| self.by_lane.get_mut(&lane)) {
            in_lane.remove(&entry.resource);
        }
        if let (true, Some(last)) = (entry.is_tombstone(), &entry.last) {
            self.tombstones.remove(&last.order);
        }
    }
}
