//! Types shared by controller and agent: ids, generations, the model of jobs and reports, the wire format,
//! topics and sealing.
//!
//! Absent on purpose: tokio, files, sockets, clocks, randomness. A nonce or a time comes from the caller.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod finding;
pub mod generation;
pub mod id;
pub mod join;
pub mod mac;
pub mod model;
pub mod near;
pub mod pattern;
pub mod property;
pub mod rate;
pub mod seal;
pub mod segment;
pub mod time;
pub mod topic;
pub mod user_token;
pub mod wire;

pub use generation::{Attempt, Epoch, EpochId, Generation, Generations};
pub use id::{NodeId, ResourceId, SiteId, StackName};
pub use rate::Rate;
pub use time::MonoTime;
