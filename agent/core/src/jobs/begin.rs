//! Decides when a job begins: after its record and its content, and in its turn. Runs jobs again after a
//! restart. The diagram has the phases of the whole way; `run.rs` and `end.rs` have the rest of it.
//!
//! ```text
//!   Accepting ─Written─▶ Fetching ─▶ Queued ─turn─▶ Capturing ─▶ Recording ─Written─▶ Running ─▶ Ending
//!        └──────────────────────────────▲ (both are left out where they are not needed) ▲
//!                                       └────────────── after a restart                 └ delete
//! ```
//!
//! Absent: the order within a lane (`lanes.rs`), and which restore must come first (`restore.rs`).

use muster_shared::ResourceId;
use muster_shared::model::{Action, Claim, Lane, Observed, Outcome, ReportKey};

use super::phase::{Phase, Run};
use super::{Jobs, Turn};
use crate::face::RunError;
use crate::ledger::{Accepted, Entry, Order, stored};

impl Jobs {
    /// Runs accepted jobs that have not ended again, after a restart.
    pub(crate) fn recover(&mut self, turn: &mut Turn) {
        let ended: Vec<ResourceId> = self.ledger.iter().map(|entry| entry.resource).collect();
        ended.into_iter().for_each(|resource| self.ledger.drop_ended_with(resource, turn.effects));
        let accepted: Vec<(ReportKey, bool)> = self
            .ledger
            .iter()
            .filter_map(|entry| Some((entry, &entry.current.as_ref()?.job)))
            // A check leaves nothing behind, and a retain ends as it begins.
            .map(|(entry, job)| {
                let is_whole = matches!(job.action, Action::Check | Action::Retain);
                (job.key(), entry.exists() && !is_whole)
            })
            .collect();
        self.recover_undo(turn);
        for (key, recovered) in accepted {
            let resource = key.resource;
            if self.is_half_done(resource) {
                self.runs.insert(resource, Run { phase: Phase::Guarded, recovered });
                continue;
            }
            self.runs.insert(resource, Run { phase: Phase::Accepting, recovered });
            if resource.is_local() {
                let reason = "the agent restarted before the change began".into();
                self.end(key, Outcome::Failed { reason, permanent: true }, turn);
            } else {
                self.admit(resource, turn);
            }
        }
        let following = |entry: &&Entry| entry.current.is_none() && entry.next.is_some();
        let following: Vec<_> = self.ledger.iter().filter(following).map(|e| e.resource).collect();
        for resource in following {
            self.promote(resource);
            self.admit(resource, turn);
        }
    }

    /// The record is on disk.
    pub(super) fn accepted(&mut self, key: ReportKey, turn: &mut Turn) {
        if self.current(key, |phase| phase == Phase::Accepting).is_some() {
            self.admit(key.resource, turn);
        }
    }

    /// Queues the job in its lane, after its content has been fetched.
    pub(super) fn admit(&mut self, resource: ResourceId, turn: &mut Turn) {
        let Some(accepted) = self.ledger.current(resource) else { return };
        let (key, order) = (accepted.job.key(), accepted.order);
        let Some((digest, size)) = stored(&accepted.job) else { return self.enqueue(resource) };
        match turn.fetch.want(resource, order, digest, size) {
            Ok(true) => self.enqueue(resource),
            Ok(false) => {
                self.set_phase(resource, Phase::Fetching);
                turn.fetch.pump(turn.now, turn.effects);
            }
            Err(reason) => self.end(key, Outcome::Failed { reason, permanent: true }, turn),
        }
    }

    fn enqueue(&mut self, resource: ResourceId) {
        if let Some(accepted) = self.ledger.current(resource) {
            self.lanes.enqueue(accepted.job.spec.lane(), accepted.order, resource);
            self.set_phase(resource, Phase::Queued);
        }
    }

    fn is_fetching(&self, resource: ResourceId) -> bool {
        self.runs.get(&resource).is_some_and(Run::is_fetching)
    }

    pub(crate) fn fetched(&mut self, resource: ResourceId) {
        if self.is_fetching(resource) {
            self.enqueue(resource);
        }
    }

    pub(crate) fn not_fetched(&mut self, resource: ResourceId, error: &RunError, turn: &mut Turn) {
        let key = self.ledger.current(resource).map(|accepted| accepted.job.key());
        if let (Some(key), true) = (key, self.is_fetching(resource)) {
            self.end(key, error.clone().into(), turn);
        }
    }

    /// Begins what has its turn.
    pub(crate) fn begin_all(&mut self, turn: &mut Turn) {
        while let Some(resource) = self.next_in_lane(turn) {
            let Some(Accepted { job, .. }) = self.ledger.current(resource) else {
                self.lanes.release(resource);
                continue;
            };
            let (key, action) = (job.key(), job.action);
            if let Some(reason) = self.must_be_put_back(resource) {
                self.end(key, Outcome::Failed { reason, permanent: false }, turn);
                continue;
            }
            match action {
                Action::Create | Action::Update => self.capture(key, turn),
                Action::Delete | Action::Retain if self.ledger.is_held_up(resource, turn.effects) => {
                    self.end(
                        key,
                        turn.disk.failed(
                            "an older record of what this resource claims was refused and is written again",
                        ),
                        turn,
                    );
                }
                Action::Delete => self.begin_delete(key, turn),
                Action::Check | Action::Adopt => self.check(key, turn),
                // The host keeps its state. As after a delete, what others held under this resource is gone
                // with it.
                Action::Retain => self.end(key, Outcome::Done(Observed::default()), turn),
            }
        }
    }

    /// The next job of the lane. No change begins while another may still be undone. No job begins before an
    /// older job that has the same claim and waits for its content: the older job would take the claim over.
    fn next_in_lane(&mut self, turn: &mut Turn) -> Option<ResourceId> {
        if turn.is_stopping {
            return None;
        }
        let held = self.is_guarding(turn).then_some(Lane::Network);
        let current = |resource| self.ledger.current(resource);
        // Also covers jobs that wait for these: a job that overtakes them overtakes the first one as well.
        let mut awaited: Vec<(Order, Vec<Claim>)> = turn
            .fetch
            .awaiting()
            .filter_map(current)
            .map(|accepted| (accepted.order, accepted.job.spec.claims()))
            .collect();
        self.lanes.next(held, |order, resource| {
            let Some(job) = current(resource).map(|accepted| &accepted.job).filter(|_| !awaited.is_empty())
            else {
                return false;
            };
            let claims = job.spec.claims();
            let waits = job.action.applies()
                && awaited
                    .iter()
                    .any(|(older, held)| *older < order && claims.iter().any(|c| held.contains(c)));
            if waits {
                awaited.push((order, claims));
            }
            waits
        })
    }

    fn begin_delete(&mut self, key: ReportKey, turn: &mut Turn) {
        let is_half_done = self.ledger.get(key.resource).is_some_and(|entry| entry.undo.is_some());
        if self.ledger.leaves_alone(key.resource) && !is_half_done {
            self.end(key, Outcome::Done(Observed::default()), turn);
        } else {
            self.run(key, turn);
        }
    }
}
