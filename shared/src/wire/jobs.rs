//! Converts the states of jobs between version 1 and the model.

use super::convert::{at_most, id_in, id_out, key_in, key_out};
use super::{WireError, v1};
use crate::model::{JOBS_TOLD_MAX, JobState, Stage};

pub(super) fn state_out(state: &JobState) -> (v1::Key, v1::Stage) {
    let stage = match state.stage {
        Stage::Waiting { behind } => v1::Stage::Waiting { behind: behind.map(id_out) },
        Stage::Fetching => v1::Stage::Fetching,
        Stage::Running => v1::Stage::Running,
    };
    (key_out(&state.key), stage)
}

pub(super) fn states_in(states: Vec<(v1::Key, v1::Stage)>) -> Result<Vec<JobState>, WireError> {
    at_most("jobs", states.len(), JOBS_TOLD_MAX)?;
    let state = |(key, stage)| {
        let stage = match stage {
            v1::Stage::Waiting { behind } => Stage::Waiting { behind: behind.map(id_in) },
            v1::Stage::Fetching => Stage::Fetching,
            v1::Stage::Running => Stage::Running,
        };
        JobState { key: key_in(key), stage }
    };
    Ok(states.into_iter().map(state).collect())
}
