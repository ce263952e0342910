//! The agent's changes to Linux: network, flow tables, files, and one file for each further type (`types.rs`): units,
//! packages, accounts, sysctls, the time zone. Every change but that of a command is read back. This crate also reads facts
//! and LLDP, and watches for changes by others.
//!
//! Absent on purpose: jobs, the ledger, MQTT. The callers decide when; this crate knows how.

pub mod documents;
mod durable;
pub mod facts;
pub mod files;
pub mod hostname;
pub mod lldp;
pub mod net;
pub mod nftables;
pub mod nic_aliases;
pub mod openflow;
pub mod packed;
pub mod ports;
pub mod resource;
pub mod run;
pub mod sys;
pub mod systemd;
pub mod types;
pub mod watch;

pub use types::{account, package, sysctl, unit};
