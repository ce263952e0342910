//! Strays, and how much an agent reads, between version 1 and the model.
//!
//! Absent: what an older agent is not sent (`controller/engine/src/node/older_agent.rs`).

use super::convert::{at_most, generation_in, generation_out, id_in, id_out};
use super::{WireError, v1};
use crate::ResourceId;
use crate::model::{DESCRIBED_MAX, STRAY_NAME_MAX, Stray};

/// A type's name.
const TYPE_MAX: usize = 64;
/// Separates an agent's version from its `reads` number: build metadata of a version, which an earlier
/// controller shows but does not interpret.
const READS_MARK: char = '+';

pub(super) fn asked_out(resources: &[ResourceId]) -> Vec<v1::Id> {
    resources.iter().copied().map(id_out).collect()
}

pub(super) fn asked_in(resources: Vec<v1::Id>) -> Result<Vec<ResourceId>, WireError> {
    at_most("things to describe", resources.len(), DESCRIBED_MAX)?;
    Ok(resources.into_iter().map(id_in).collect())
}

pub(super) fn stray_out(stray: &Stray) -> v1::Stray {
    v1::Stray {
        resource: id_out(stray.resource),
        generation: generation_out(stray.generation),
        kind: stray.kind.clone(),
        name: stray.name.clone(),
        removable: stray.is_removable,
    }
}

pub(super) fn strays_in(strays: Vec<v1::Stray>) -> Result<Vec<Stray>, WireError> {
    at_most("strays", strays.len(), DESCRIBED_MAX)?;
    let stray = |stray: v1::Stray| {
        at_most("a stray's type", stray.kind.len(), TYPE_MAX)?;
        at_most("a stray's name", stray.name.len(), STRAY_NAME_MAX)?;
        Ok(Stray {
            resource: id_in(stray.resource),
            generation: generation_in(stray.generation),
            kind: stray.kind,
            name: stray.name,
            is_removable: stray.removable,
        })
    };
    strays.into_iter().map(stray).collect()
}

pub(super) fn version_out(version: &str, reads: u32) -> String {
    if reads == 0 { version.to_owned() } else { format!("{version}{READS_MARK}{reads}") }
}

pub(super) fn version_in(version: String) -> (String, u32) {
    match version.rsplit_once(READS_MARK).map(|(version, reads)| (version, reads.parse())) {
        Some((version, Ok(reads))) => (version.to_owned(), reads),
        Some((_, Err(_))) | None => (version, 0),
    }
}
