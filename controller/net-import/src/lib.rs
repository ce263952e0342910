//! Network documents made from the files of other tools: netplan and nmstate. Pure.
//!
//! ```text
//!   file ─▶ Part: a map that knows which of its keys were read ─▶ Link: an object ─▶ assemble: members in their owner
//!                 └─▶ keys that nobody read: left out, by name
//! ```
//! A document says what the file says, or the import names what it leaves out. Each document parses as a network
//! document of Muster.
//!
//! Absent: reading the files, and the command (`controller/cli/src/net.rs`).

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod assemble;
#[cfg(test)]
mod examples;
mod layer3;
mod netplan;
mod nmstate;
mod ovs;
mod part;

use serde_json::Value;
use thiserror::Error;

pub use netplan::netplan;
pub use nmstate::nmstate;

/// A document, and what of the file it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Sections as in os-net-config's format: `network_config`, `remove_config`.
    pub document: Value,
    /// Parts of the file that are not in the document: `PLACE: why`, a line each.
    pub left_out: Vec<String>,
}

/// A file that is not of its format.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{path}: {problem}")]
pub struct Malformed {
    path: String,
    problem: String,
}

impl Malformed {
    fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}
