//! The agent's pure machine: decides when each job runs, what to record before, and what to report after.
//!
//! ```text
//!   Received(Job) ─▶ Write ─Written─▶ (fetch) ─▶ lane ─▶ (Capture ─▶ Write) ─▶ Run ─Ran─▶ Write ─Written─▶ Send(Report)
//! ```
//!
//! **Invariants.** A job is in the ledger on disk before it runs, and its outcome is on disk before the
//! report. The state before Muster is on disk before the first change. One job of a lane runs at a time,
//! hence one of a resource. A change that can cut the node off is undone unless the agent reached the
//! controller over a new connection. A generation never follows a newer one. An outcome is sent until it
//! is acknowledged.
//!
//! Absent on purpose: clocks, files, sockets, randomness without a seed. The driver executes the effects in
//! their order and answers with inputs.

#![allow(missing_docs)] // Not published: a doc comment says what a name cannot.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod agent;
mod backoff;
mod boot;
mod challenge;
mod connection;
mod disk_full;
mod effects;
mod face;
mod facts;
mod fetch;
mod flow;
mod jobs;
mod lanes;
mod ledger;
mod moving;
mod ports;
mod random;
mod reconnect;
mod survey;
mod watch;

pub use agent::Agent;
pub use backoff::Backoff;
pub use boot::{AtBoot, at_boot};
pub use face::{Config, ContentState, ContentStep, Effect, Found, Input, Retry, RunError, WriteId};
pub use face::{Hint, Look, Looked};
pub use flow::{
    Appended, BATCH_BYTES_MAX, Compacted, Compared, DEVICES_MAX, DivergentForms, ENDED_MAX, ENTRIES_MAX,
    EXTRANEOUS_MAX, Extraneous, FlowEffect, FlowInput, Loaded, NotApplied, Op, Repaired, TableEntry,
    Undecided, resource_id,
};
pub use ledger::{Accepted, Applied, Before, Ended, Entry, Holding, Order, TOMBSTONES_MAX, Undo};

#[cfg(test)]
mod tests;
