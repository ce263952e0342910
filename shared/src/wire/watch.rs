//! Drifts between version 1 and the model.

use super::convert::{generation_in, generation_out, id_in, id_out};
use super::v1;
use crate::model::{Drift, DriftState};

/// Bytes of a drift's reason: a line or two for each of very many. Longer ones are cut.
pub const DRIFT_REASON_MAX: usize = 512;

pub(super) fn drift_out(drift: &Drift) -> (v1::Id, v1::Generation, v1::DriftState, String) {
    let state = match drift.state {
        DriftState::InSync => v1::DriftState::InSync,
        DriftState::Drifted => v1::DriftState::Drifted,
        DriftState::Missing => v1::DriftState::Missing,
    };
    (id_out(drift.resource), generation_out(drift.generation), state, drift.reason.clone())
}

pub(super) fn drift_in(
    (id, generation, state, mut reason): (v1::Id, v1::Generation, v1::DriftState, String),
) -> Drift {
    reason.truncate(reason.floor_char_boundary(DRIFT_REASON_MAX));
    let state = match state {
        v1::DriftState::InSync => DriftState::InSync,
        v1::DriftState::Drifted => DriftState::Drifted,
        v1::DriftState::Missing => DriftState::Missing,
    };
    Drift { resource: id_in(id), generation: generation_in(generation), state, reason }
}
