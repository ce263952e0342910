//! Flow tables: one for each device, equal here and on the device.
//!
//! ```text
//!   operators ── stages ──▶ Operation ─┐                   ┌─ one batch in flight per device ─▶ agent
//!   resources ── "exactly these" ──────┼─▶ Table (writes) ─┤
//!   intents ── puts and removals ──────┤                   └─ settle / fail ◀─ its next State
//!   agent ── State, Entries ───────────┘
//! ```
//!
//! [`Flows`] is a machine of its own. The controller's engine calls its methods with a [`Turn`]
//! (the time, the source of generations, and the rest of the site) and carries out the effects of
//! [`Flows::poll_effect`].
//!
//! **Invariants.** No entry of ours is on a device without one in its table. Entries are durable
//! before their batch leaves, and go only once their removal has ended. A write is all or nothing
//! per device. At most one batch of a device is at its agent. Later writes go into the next batch,
//! and the last writer of an entry wins. An entry has one owner. Nothing is purged because a node
//! is away: its table waits for it.
//!
//! Absent: the protocol of a device, the meaning of a selector, stacks, and the compilation of intents.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod application;
mod assert_counts;
mod batch;
mod compare_with_agent;
mod device;
mod device_report;
mod effect;
mod entry;
mod forget;
mod intent;
mod load;
mod operation;
mod owner;
mod purge;
mod question;
pub mod record;
mod resource;
mod restored_difference;
mod secret;
mod site;
mod table;
mod undone;
mod view;

pub use application::Applications;
pub use device::{DeviceKey, Flows, Limits};
pub use effect::{Effect, Failure, Job};
pub use entry::FlowStanding;
pub use intent::IntentWrites;
pub use muster_api::flow::{DeviceView, FlowError, FlowOperationView, OwnerCounters};
pub use operation::{Begun, FlowAction, FlowOp, FlowStages, FlowWrite, OperationStatus};
pub use owner::Owner;
pub use question::Asked;
pub use resource::{Differs, ResourceWrite, Want};
pub use restored_difference::TableDifference;
pub use site::{Refused, Site, Turn};
pub use view::{FlowRow, FlowRows, StatsView};

#[cfg(test)]
mod tests;
