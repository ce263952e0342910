//! Flow tables: one for each device, here and on the device the same.
//!
//! ```text
//!   operators ── stages ──▶ Operation ─┐                  ┌─ one batch in flight per device ─▶ agent
//!   rows ── "exactly these" ───────────┼─▶ Table (writes) ─┤
//!   agent ── State, Entries ───────────┘                  └─ settle / fail ◀─ its next State
//! ```
//!
//! **Invariants.** No entry of ours is on a device without one in its table: entries are durable before their batch
//! leaves, and go only when their removal was decided. A write is all or nothing per device. At most one batch of a
//! device is with its agent; what is written meanwhile goes into the next, the last writer of an entry wins. An entry has
//! one owner. Nothing is purged because a node is away: its table waits for it.
//!
//! Absent: how a device is spoken to, and what a selector means.

mod ask;
mod batch;
mod device;
mod entry;
mod forget;
mod hidden;
mod load;
mod operation;
mod purge;
mod reconcile;
pub mod record;
mod row;
mod session;
mod table;
mod view;

pub use entry::{FlowStanding, Owner};
pub use hidden::HIDES_FLOWS;
pub use operation::{FlowAction, FlowError, FlowOp, FlowStages, FlowWrite};
pub use view::{DeviceView, FlowOperationView, FlowRow, FlowRows, OwnerCounters, StatsView};

pub(crate) use device::{DeviceKey, Flows, Target};
pub(crate) use table::Table;
