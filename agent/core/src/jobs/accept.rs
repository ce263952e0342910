//! Decides what becomes of the controller's messages about jobs. A job is accepted, refused, or answered from
//! the ledger; a job that has not started is replaced.
//!
//! Absent: withdrawals (`withdraw.rs`), and whether this controller is obeyed
//! (`connection.rs` of the crate).

use muster_shared::model::{ContentDigest, Job, Outcome, Report, ReportKey, Spec};
use muster_shared::{Generation, ResourceId};

use super::phase::{Phase, Run};
use super::{Jobs, Turn};
use crate::ledger::{self, Accepted, After, Ended, Entry, Order, stored};

/// The most jobs that wait at one time. A controller keeps far fewer in flight for one node; each takes 64
/// KiB at most.
const JOBS_MAX: usize = 100_000;
/// The most memory of waiting jobs: the agent must stay small whatever the controller sends.
const JOBS_WEIGHT_MAX: usize = 64 * 1024 * 1024;

/// The relation of a received job to the ledger.
#[derive(Debug, PartialEq, Eq)]
enum JobRelation {
    New,
    /// A newer generation is known.
    Older(Generation),
    /// A newer attempt of the same job is known. If that attempt has ended, its report is the answer. A
    /// controller with a restored store starts to count attempts again.
    OlderAttempt(Option<Report>),
    /// The job is known and has not ended.
    Pending,
    /// Known, and ended so.
    Ended(Outcome),
    /// The job has the same generation and other content.
    Contradiction,
}

fn standing(entry: Option<&Entry>, job: &Job) -> JobRelation {
    let Some((newest, digest)) = entry.and_then(Entry::newest) else { return JobRelation::New };
    let last = entry.and_then(|entry| entry.last.as_ref()).filter(|last| last.key == newest);
    if job.generation < newest.generation {
        return JobRelation::Older(newest.generation);
    }
    if job.generation > newest.generation {
        return JobRelation::New;
    }
    if let Some(Ended { outcome: Outcome::Withdrawn, .. }) = last {
        return JobRelation::Ended(Outcome::Withdrawn);
    }
    if digest != Some(ledger::digest(job)) {
        return JobRelation::Contradiction;
    }
    match (job.attempt.cmp(&newest.attempt), last) {
        (std::cmp::Ordering::Less, last) => {
            let ended = last.map(|last| Report { key: last.key, outcome: last.outcome.clone() });
            JobRelation::OlderAttempt(ended)
        }
        // The controller missed the outcome. The agent reports it and does not run the job again.
        (std::cmp::Ordering::Greater, Some(Ended { outcome: outcome @ Outcome::Done(_), .. }))
            if matches!(job.spec, Spec::Deployment(_)) =>
        {
            JobRelation::Ended(outcome.clone())
        }
        (std::cmp::Ordering::Greater, _) => JobRelation::New,
        (std::cmp::Ordering::Equal, None) => JobRelation::Pending,
        (std::cmp::Ordering::Equal, Some(last)) => JobRelation::Ended(last.outcome.clone()),
    }
}

impl Jobs {
    /// Handles a job. An agent that could not record the controller's epoch accepts no new job, but answers
    /// known jobs as usual. Otherwise the controller would acknowledge "no room" in place of the outcome, and
    /// the job would run again.
    pub(crate) fn job(&mut self, job: Job, turn: &mut Turn) {
        let key = job.key();
        let outcome = match standing(self.ledger.get(job.resource), &job) {
            JobRelation::New | JobRelation::Contradiction if turn.connection.is_only_heard() => {
                turn.disk.failed("there is no room to record the controller's epoch")
            }
            JobRelation::New => return self.accept(job, turn),
            JobRelation::Older(by) => Outcome::Superseded { by },
            JobRelation::Ended(outcome) if !self.ledger.is_about_to_tell(key) => outcome,
            JobRelation::OlderAttempt(Some(ended)) if !self.ledger.is_about_to_tell(ended.key) => {
                return self.report(ended, turn);
            }
            JobRelation::OlderAttempt(_) | JobRelation::Pending | JobRelation::Ended(_) => return,
            JobRelation::Contradiction => {
                let reason = format!(
                    "generation {} of {} came before with another content: a bug of the controller, please \
                     report it",
                    key.generation, key.resource
                );
                turn.effects.warn(reason.clone());
                Outcome::Failed { reason, permanent: true }
            }
        };
        self.report(Report { key, outcome }, turn);
    }

    pub(super) fn accept(&mut self, job: Job, turn: &mut Turn) {
        let (key, resource) = (job.key(), job.resource);
        let (jobs, weight) = self.ledger.load();
        if jobs >= JOBS_MAX || weight + ledger::weight(&job) > JOBS_WEIGHT_MAX {
            let reason = format!("{jobs} jobs with {weight} bytes wait on this node already: too many");
            return self.report(Report { key, outcome: Outcome::Failed { reason, permanent: false } }, turn);
        }
        let follows = self.runs.get(&resource).is_some_and(|run| run.may_have_begun());
        let order = self.place(&job, follows).unwrap_or_else(|| self.ledger.next_order());
        let content = stored(&job);
        let accepted = Accepted { order, job };
        let older = if follows {
            [self.ledger.edit(resource, |entry| entry.next.replace(accepted)), None]
        } else {
            self.leave_queue(resource, content, turn);
            self.runs.insert(resource, Run::new(Phase::Accepting));
            // After a restart a job may wait behind one that had started and would start again: neither runs any more.
            self.ledger.edit(resource, |entry| [entry.next.take(), entry.current.replace(accepted)])
        };
        // Needs no record: if this is lost, the older job's next delivery gets the same answer.
        let older = older.into_iter().flatten().map(|older| older.job.key());
        for older in older.filter(|older| older.generation != key.generation) {
            self.report(Report { key: older, outcome: Outcome::Superseded { by: key.generation } }, turn);
        }
        self.ledger.write(resource, After::Accepted(key), turn.effects);
    }

    /// The place in the lane of a further attempt. It is that of the earlier attempt, as long as that one has not started. After
    /// that it is the end of the lane. So a job that never ends in time holds up the jobs behind it for one deadline, and not
    /// for those of all its tries.
    fn place(&self, job: &Job, follows: bool) -> Option<Order> {
        let entry = self.ledger.get(job.resource)?;
        let earlier = entry.next.as_ref().or(entry.current.as_ref().filter(|_| !follows));
        let earlier = earlier.filter(|accepted| accepted.job.generation == job.generation);
        earlier.map(|accepted| accepted.order)
    }

    /// The disk refused the job: the agent acts as if it had never arrived.
    pub(super) fn not_accepted(&mut self, key: ReportKey, reason: &str, turn: &mut Turn) {
        let is_it = |accepted: &mut Accepted| accepted.job.key() == key;
        let was_current = self.ledger.edit(key.resource, |entry| {
            entry.next.take_if(is_it);
            entry.current.take_if(is_it).is_some()
        });
        if was_current && self.runs.get(&key.resource).is_some_and(Run::is_accepting) {
            self.runs.remove(&key.resource);
        }
        // The disk may still hold the job that this one replaced.
        self.ledger.write_through(key.resource, turn.effects);
        turn.effects.warn(format!("cannot record a job: {reason}"));
        let outcome = turn.disk.failed(reason);
        self.report(Report { key, outcome }, turn);
    }

    pub(crate) fn acknowledge(&mut self, key: ReportKey, turn: &mut Turn) {
        let known = self
            .ledger
            .get(key.resource)
            .is_some_and(|entry| entry.unacknowledged.iter().any(|report| report.key == key));
        if known {
            self.ledger.edit(key.resource, |entry| entry.unacknowledged.retain(|report| report.key != key));
            // May be lost: then it is reported and acknowledged again.
            self.ledger.write_through(key.resource, turn.effects);
        }
    }

    pub(super) fn report(&mut self, report: Report, turn: &mut Turn) {
        turn.connection.report(report, turn.effects);
    }

    /// Removes a job that has not started from its lane and from fetching. The fetched content stays if the
    /// replacing job has this `content`.
    pub(super) fn leave_queue(
        &mut self,
        resource: ResourceId,
        content: Option<(ContentDigest, u64)>,
        turn: &mut Turn,
    ) {
        let Some(accepted) = self.ledger.current(resource) else { return };
        let (lane, order) = (accepted.job.spec.lane(), accepted.order);
        let fetched = stored(&accepted.job).filter(|fetched| content != Some(*fetched));
        self.lanes.withdraw(lane, order);
        if let Some((digest, _)) = fetched {
            turn.fetch.release(resource, digest, turn.now, turn.effects);
        }
    }
}
