//! Rollouts as `stack show` draws them.

use muster_api::stack::RolloutView;
use muster_shared::MonoTime;

use super::machine::Rollout;
use super::record::Course;
use crate::stack::Stack;
use crate::traversal::walk::Stage;
use crate::view::View;

impl View<'_> {
    /// Number of rollouts of operations in progress, by the name of their state.
    pub fn rollout_counts(&self) -> Vec<(&'static str, u64)> {
        let in_state = |name: &&str| {
            self.jobs.rollouts.all().filter(|rollout| rollout.course().as_str() == *name).count() as u64
        };
        Course::NAMES.into_iter().map(|name| (name, in_state(&name))).collect()
    }

    /// For `stack show`.
    pub(crate) fn rollout_views(&self, stack: &Stack) -> Vec<RolloutView> {
        let walk = stack.walk.as_ref().filter(|walk| walk.stage != Stage::Check && !stack.is_still());
        let Some(walk) = walk else { return Vec::new() };
        let sets =
            walk.tree.sets().filter_map(|set| Some((self.jobs.rollouts.get(stack.id, set.name())?, set)));
        sets.map(|(rollout, set)| {
            let ready = set.members().iter().filter(|at| self.graph.rows[stack.forward[**at as usize]].ready);
            let view = rollout.view(set.members().len(), ready.count(), self.graph.ctx.now);
            let reason = stack.without_hidden(&walk.tree, &view.reason);
            RolloutView { resource: set.name().to_owned(), reason, ..view }
        })
        .collect()
    }
}

impl Rollout {
    /// A view of the rollout without its name: `total` members, of which `done` are as the revision
    /// wants them.
    fn view(&self, total: usize, done: usize, now: MonoTime) -> RolloutView {
        let next_in = self.due(now).filter(|_| self.under_way() == 0).map(|due| due.since(now).as_secs());
        let stage = match () {
            () if done == total => "done",
            () if *self.course() != Course::Going => "",
            () if self.is_canary() => "canary",
            () if next_in.is_some() => "pause",
            () => "batch",
        };
        RolloutView {
            resource: String::new(),
            state: self.course().as_str().to_owned(),
            stage: stage.to_owned(),
            reason: self.course().reason().to_owned(),
            total: total as u64,
            done: done as u64,
            in_flight: self.under_way() as u64,
            in_flight_away: self.gone() as u64,
            failed: self.failed() as u64,
            waiting: self.waiting() as u64,
            away: self.absent() as u64,
            batch: self.policy().batch as u64,
            max_failures: self.policy().max_failures as u64,
            next_in,
        }
    }
}
