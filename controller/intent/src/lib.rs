//! The topology, and the rules that an intent compiles to. Pure: no clock, no I/O, no hash order.
//!
//! ```text
//!   agents, templates ──▶ Topology ──▶ Change ──▶ Tracker: which intents it concerns
//!                             │                       │
//!   Intent ──────────────▶ Compiler ◀── Ledger        ▼
//!                             └──▶ Compiled ──▶ stages(old, new): what to put where, and when
//! ```
//!
//! `manager` has all of this for a site. `links_from_reports` builds the topology from reports of agents.
//! Absent: who may ask for an intent, and how its rules reach their devices. That is the engine's part.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod affected_intents;
pub mod compile;
mod damping;
pub mod host;
pub mod intent;
pub mod links_from_reports;
pub mod manager;
mod packed_intent;
pub mod phase;
pub mod proof;
pub mod record;
pub mod stages;
pub mod topology;
pub mod trace;

pub mod path_search;
pub mod reservations;
#[cfg(test)]
mod tests;
