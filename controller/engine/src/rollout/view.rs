//! Rollouts as `stack show` draws them.

use serde::{Deserialize, Serialize};

use super::policy::Course;
use crate::engine::Engine;
use crate::stack::{Stack, Stage};

/// One rollout, in `stack show`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutView {
    /// The resource with the `for_each`.
    pub resource: String,
    /// going, paused, timed_out or aborted.
    pub state: String,
    /// canary, batch, pause or done; empty where nothing begins.
    pub stage: String,
    /// Why it was aborted.
    pub reason: String,
    /// Members.
    pub total: u64,
    /// As the revision wants them.
    pub done: u64,
    /// Begun and not ended.
    pub in_flight: u64,
    /// Of these, those whose node is away.
    #[serde(default)]
    pub in_flight_away: u64,
    /// Failed in this operation.
    pub failed: u64,
    /// Their turn is yet to come.
    pub waiting: u64,
    /// Of these, those whose node is away.
    pub away: u64,
    /// Members under way at once, at most.
    pub batch: u64,
    /// With one more that fails it is aborted.
    pub max_failures: u64,
    /// Seconds until the next batch; none where it waits for something else.
    pub next_in: Option<u64>,
}

impl Engine {
    /// For `stack show`.
    pub(crate) fn rollout_views(&self, stack: &Stack) -> Vec<RolloutView> {
        let walk = stack.walk.as_ref().filter(|walk| walk.stage != Stage::Check && !stack.is_still());
        let Some(walk) = walk else { return Vec::new() };
        let sets = walk.tree.sets().filter_map(|set| Some((walk.rollouts.waves.get(set.name())?, set)));
        sets.map(|(wave, set)| {
            let done =
                set.members().iter().filter(|at| self.rows[stack.forward[**at as usize]].ready).count();
            let in_flight = wave.under_way();
            let (state, reason) = match wave.course() {
                Course::Going => ("going", ""),
                Course::Paused => ("paused", ""),
                Course::TimedOut => ("timed_out", ""),
                Course::Aborted(reason) => ("aborted", &**reason),
            };
            let next = wave.due(self.now).filter(|_| in_flight == 0).map(|due| due.since(self.now).as_secs());
            let stage = match () {
                () if done == set.members().len() => "done",
                () if state != "going" => "",
                () if wave.is_canary() => "canary",
                () if next.is_some() => "pause",
                () => "batch",
            };
            RolloutView {
                resource: set.name().to_owned(),
                state: state.to_owned(),
                stage: stage.to_owned(),
                reason: stack.without_hidden(&walk.tree, reason),
                total: set.members().len() as u64,
                done: done as u64,
                in_flight: in_flight as u64,
                in_flight_away: wave.gone() as u64,
                failed: wave.failed() as u64,
                waiting: wave.waiting() as u64,
                away: wave.away() as u64,
                batch: wave.policy().batch as u64,
                max_failures: wave.policy().max_failures as u64,
                next_in: next,
            }
        })
        .collect()
    }
}
