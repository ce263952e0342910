//! The agent's way to its controller: who it is, joining a site, one connection at a time.
//!
//! Absent: when to connect, and what is said. The machine decides that (`agent/core/src/reconnect.rs`). Nothing
//! is written to disk here.

mod broker;
mod clock;
pub mod connection;
mod identity;
pub mod join;
pub mod probe_controller;
mod referral;
mod seal;
pub mod tls;

pub use identity::Identity;
pub use seal::NodeSeal;
