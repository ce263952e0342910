//! The controller: driver loop, store, link, lease, HTTP API. The engine (`controller/engine`) makes the decisions.
//!
//! Absent: the start of these parts, and the roles active and standby (`run.rs`), which belong to the program.

pub mod api;
mod audit_journal;
pub mod audit_of_commands;
pub mod config;
pub mod data_dir;
#[cfg(debug_assertions)]
pub mod debug_signals;
pub mod driver;
pub mod durations;
pub mod history;
pub mod journal;
pub mod lease;
pub mod link;
pub mod oidc;
pub mod pki;
pub mod pulse;
pub mod random;
pub mod site_name;
pub mod store;
pub mod telemetry;
mod this_host;
