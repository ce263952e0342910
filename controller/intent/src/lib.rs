//! Topology, and what an intent compiles to. Pure: no clock, no I/O, no order of a hash.
//!
//! ```text
//!   agents, templates ──▶ Topology ──▶ Change ──▶ Tracker: who is concerned
//!                             │                       │
//!   Intent ──────────────▶ Compiler ◀── Ledger        ▼
//!                             └──▶ Compiled ──▶ stages(old, new): what is put where, in which order
//! ```
//!
//! `manager` has all of it for a site; `ports` makes the topology of what agents tell. Absent: who may ask for an intent, and
//! its rules' way to their devices: the engine's.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod compile;
pub mod host;
pub mod intent;
mod kept;
pub mod ledger;
pub mod manager;
pub mod path;
pub mod phase;
pub mod ports;
pub mod record;
pub mod stages;
pub mod topology;
pub mod track;

#[cfg(test)]
mod tests;
