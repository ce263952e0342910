//! One file for each resource of ONOS's REST.

pub mod devices;
pub mod flows;
pub mod groups;
pub mod hosts;
pub mod intents;
pub mod links;
pub mod meters;
pub mod paths;
pub mod statistics;
pub mod topology;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;

use crate::answer::{Answer, Refused};

/// The names in a path.
pub type Named<T> = Result<Path<T>, PathRejection>;

/// The names in a path.
pub fn named<T>(path: Named<T>) -> Answer<T> {
    path.map(|Path(names)| names).map_err(|rejection| Refused::bad(rejection.body_text()))
}
