//! Checks each correction as it leaves the controller, each event about a fight, and the record of corrections that the
//! store keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_engine::cause::Cause;
use muster_engine::record::{EventRecord, ProgressRecord, ResourceRecord, Status};
use muster_shared::model::{Action, Job};
use muster_shared::{MonoTime, ResourceId};
use muster_template::DriftPolicy;

use super::super::shared::Shared;
use super::super::store::brief;

/// The corrections after which a breaker opens, and the time in which they count, as operators are told.
const AT_MOST: usize = 5;
const WITHIN: Duration = Duration::from_secs(3600);

/// Corrections that left the controller, and what it says of fights.
#[derive(Clone, Default)]
pub struct Sent {
    /// The times of corrections, under the revision that their stack had then.
    corrections: BTreeMap<ResourceId, (u32, Vec<MonoTime>)>,
    /// Resources of whose fight an event has told in this commit, with its words.
    told: BTreeMap<ResourceId, String>,
    /// The resources whose breaker opened in it, with their numbers of corrections.
    opened: BTreeMap<ResourceId, u32>,
}

impl Shared {
    /// A correction that leaves for the first time, and should not.
    pub fn corrects_wrongly(&mut self, job: &Job) -> Option<String> {
        let row = self.tables.physical.get(&job.resource).and_then(|id| self.tables.rows.get(id))?;
        let is_correction = row.progress.cause == Cause::Correction;
        let stack = self.tables.stacks.get(&row.stack)?;
        if !is_correction || job.action != Action::Update || stack.status == Status::InProgress {
            return None;
        }
        let now = self.now;
        let (revision, times) = self.fights.corrections.entry(job.resource).or_default();
        if *revision != stack.revision {
            (*revision, *times) = (stack.revision, Vec::new());
        }
        times.retain(|at| now.since(*at) < WITHIN);
        times.push(now);
        if times.len() > AT_MOST {
            return Some(format!("{} is corrected {} times within an hour", row.name, times.len()));
        }
        let plan = self.plans.get(&self.tables.revisions.get(&(stack.id, stack.revision))?.name)?;
        let policy = plan.drift_policy(&row.name, row.kind);
        let policy = (policy != DriftPolicy::Correct).then(|| policy.as_str());
        policy.map(|policy| format!("{} is corrected, and its drift_policy is {policy}", row.name))
    }

    /// Checks and counts a change of the corrections that are kept of a row.
    pub fn fight_went(&mut self, was: Option<&ProgressRecord>, row: &ResourceRecord) {
        let before = was.and_then(|was| was.corrections);
        let after = row.progress.corrections;
        let is_corrected = |progress: &ProgressRecord| progress.cause == Cause::Correction;
        let is = |it: Option<muster_engine::record::Corrections>,
                  what: fn(&muster_engine::record::Corrections) -> bool| {
            it.as_ref().is_some_and(what)
        };
        let (was_under_way, is_under_way) = (was.is_some_and(is_corrected), is_corrected(&row.progress));
        let kind = row.kind.name();
        if is_under_way && before.map(|it| it.count) != after.map(|it| it.count) {
            self.counts.add(format!("drift of {kind} is to be corrected"));
        }
        let status = row.progress.status;
        if was_under_way && !is_under_way && after.is_some() && status == Some(Status::Complete) {
            self.counts.add(format!("drift of {kind} is corrected"));
        }
        let was_failed = was.is_some_and(|was| was.status == Some(Status::Failed));
        if is_under_way && status == Some(Status::Failed) && !was_failed {
            self.counts.add("drift correction fails");
        }
        match (is(before, |it| it.open), is(after, |it| it.open)) {
            (false, true) => {
                let count = after.map_or(0, |it| it.count);
                self.counts.add("drift breaker opens");
                self.fights.opened.insert(row.physical, count);
            }
            (true, false) if after.is_none() => self.counts.add("drift breaker is closed by an operation"),
            (true, false) => self.counts.add("drift breaker lets one more try through"),
            (true, true) | (false, false) => {}
        }
        if after.is_some_and(|it| it.count as usize > AT_MOST || it.open && (it.count as usize) < AT_MOST) {
            self.violate(format!("the fight over {} stands at {after:?}", brief(row)));
        }
    }

    /// An event was written.
    pub fn fight_is_told(&mut self, event: &EventRecord) {
        if let Some((_, physical)) = &event.resource
            && ["changes it again and again", "has lost it again and again"]
                .iter()
                .any(|it| event.reason.contains(it))
        {
            self.fights.told.insert(*physical, event.reason.to_string());
        }
    }

    /// Checks at the end of a commit that an event tells of each open breaker, and how often it corrected before.
    pub fn fights_are_told(&mut self) {
        let told = std::mem::take(&mut self.fights.told);
        for (resource, count) in std::mem::take(&mut self.fights.opened) {
            // By others, or by an agent that does not know it any more.
            let words = [format!("corrected {count} times"), format!("it was made {count} times")];
            if !told.get(&resource).is_some_and(|told| words.iter().any(|word| told.contains(word))) {
                let told = told.get(&resource);
                self.violate(format!("the breaker of {resource} opened after {count} corrections: {told:?}"));
            }
        }
    }

    /// Counts that a controller starts with open breakers.
    pub fn fights_are_loaded(&mut self) {
        let open: BTreeSet<u64> = self
            .tables
            .rows
            .values()
            .filter(|row| row.progress.corrections.is_some_and(|corrections| corrections.open))
            .map(|row| row.id)
            .collect();
        if !open.is_empty() {
            self.counts.add("drift breaker stays open over a restart");
        }
    }
}
