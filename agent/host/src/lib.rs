//! What the agent does to Linux: the network, flow tables, files, the host name, commands. Everything but what a
//! command does is read back after it was changed.
//!
//! Absent on purpose: jobs, the ledger, MQTT. The callers decide when; this crate knows how.

pub mod account;
pub mod documents;
mod durable;
pub mod facts;
pub mod files;
pub mod hostname;
pub mod lldp;
pub mod net;
pub mod nftables;
pub mod nics;
pub mod openflow;
pub mod package;
pub mod packed;
pub mod ports;
pub mod run;
pub mod sys;
pub mod sysctl;
pub mod systemd;
pub mod unit;
pub mod watch;
