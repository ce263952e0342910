//! Surveys between version 1 and the model.

use super::convert::at_most;
use super::{WireError, v1};
use crate::model::{LEFT_OUT_LINE_MAX, LEFT_OUT_MAX, SURVEYED_MAX, Spec, SpecV1, Survey};

pub(super) fn survey_out(survey: &Survey) -> v1::Up {
    v1::Up::Surveyed {
        specs: survey.specs.iter().map(SpecV1::from).collect(),
        left_out: survey.left_out.clone(),
    }
}

pub(super) fn survey_in(specs: Vec<SpecV1>, left_out: Vec<String>) -> Result<Survey, WireError> {
    at_most("states of a survey", specs.len(), SURVEYED_MAX)?;
    at_most("lines of a survey", left_out.len(), LEFT_OUT_MAX)?;
    left_out.iter().try_for_each(|line| at_most("a line of a survey", line.len(), LEFT_OUT_LINE_MAX))?;
    let specs = specs.into_iter().map(Spec::try_from).collect::<Result<_, _>>();
    Ok(Survey { specs: specs.map_err(|field| WireError::Bounds { field })?, left_out })
}
