//! The controller's pure machine: stacks, revisions, traversals, resources, graph, jobs, nodes, tokens.
//!
//! ```text
//!   operators ── Request ─┐                      ┌─▶ Persist(Change)   durable before anything below leaves
//!   agents ───── Up ──────┼─▶ Engine::handle ────┼─▶ Send(Down)
//!   time ────── Timeout ──┘   Engine::poll_effect└─▶ Answer
//! ```
//!
//! **Invariants.** A row exists before its job is sent and goes only after its removal was
//! observed. A job is sent only when all resources that it needs are observed ready. A resource has
//! at most one job in flight. The same inputs give the same effects.
//!
//! Absent on purpose: MQTT, HTTP, SQL, threads, clocks, randomness other than the seed.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod address;
mod claim;
mod content;
mod context;
mod deployment;
mod drift;
mod elapsed;
mod engine;
mod event;
mod failure;
mod flow;
mod flow_row;
mod generation;
mod graph;
mod ids;
mod intent;
mod job;
mod jobs;
mod journal;
mod leak_counts;
mod limits;
mod load;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
mod node;
mod operation;
mod ownership;
pub mod record;
mod request;
pub mod restored;
mod rollout;
mod router;
mod row;
mod stack;
#[cfg(test)]
mod tests;
mod timer;
mod todo;
mod traversal;
mod traversals;
mod unhealthy;
mod user;
pub mod view;

pub use drift::breaker::{CALM, CORRECTIONS_MAX, SPACING_TOTAL};
pub use engine::{Config, Effect, Engine, Input};
pub use flow::FlowViews;
pub use intent::IntentSummary;
pub use limits::Limits;
pub use load::Snapshot;
pub use muster_api::preview::{PreviewRow, PreviewView, PropertyView};
pub use muster_api::site::{HeldView, Verdict};
pub use muster_api::stack::{RolloutAction, RolloutView};
pub use muster_template::Hook;
pub use node::epoch_check::Starts;
pub use request::{
    Answer, EnvironmentText, JoinAsk, NewLogin, NewToken, Options, Refusal, Request, Source, SourceText,
};
pub use row::{cause, notes};
pub use traversal::signal::{Signal, StoredSignal};
pub use user::Shown;
pub use user::scope::beyond;
pub use view::View;
