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

mod acceptance;
mod address;
mod attribute;
mod awaited_nodes;
mod breaker;
mod cancel;
pub mod cause;
mod check;
mod claim;
mod cleanup;
mod clock;
mod clones;
mod content;
mod context;
mod correct;
mod datapath;
mod delete_first;
mod deployment;
mod derive_traversal;
mod difference;

mod background_rows;
mod check_withdrawal;
mod drift_report;
mod elapsed;
mod engine;
mod entering;
mod epoch_check;
mod event;
mod expand_tree;
mod facts;
mod failure;
mod fetches;
mod flow;
mod flow_row;
mod gate;
mod generation;
mod graph;
mod heartbeat;
mod hidden;
mod hook;
mod ids;
mod intent;
mod job;
mod job_deadline;
mod job_end_counts;
mod job_queue;
mod job_timer;
mod jobs;
mod journal;
mod layout;
mod limits;
mod load;
mod lost;
mod lost_row;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
mod moving;
mod node;
mod node_away;
mod node_disk_full;
pub mod notes;
mod observation;
mod older_agent;
mod operation;
mod phase;
mod placed;
mod plan;
mod presence;
mod preview;
mod progress_check;
mod readiness;
mod rebuild;
mod rebuild_tree;
pub mod record;
mod report;
mod reported_drift;
mod request;
pub mod restored;
mod restored_compare;
mod restored_decide;
mod restored_detect;
mod restored_stray;
mod retry;
mod returned;
mod revision;
mod rollback;
mod rollout;
mod rollout_rows;
mod router;
mod row;
mod rows;
mod scope;
mod server;
mod session;
mod settle;
mod signal;
pub mod site;
mod stack;
mod stacks;
mod stage_end;
mod survey;
mod timer;
mod todo;
mod token;
mod traversal_end;
mod traversals;
mod unhealthy;
mod unit_restart;
mod unit_trigger;
mod user;
pub mod view;
mod virtual_resource;
mod visit;
mod waiting_rows;
mod walk;
mod withdraw;

pub use breaker::{CALM, CORRECTIONS_MAX, SPACING_TOTAL};
pub use engine::{Config, Effect, Engine, Input};
pub use epoch_check::Starts;
pub use flow::FlowViews;
pub use intent::IntentSummary;
pub use limits::Limits;
pub use load::Snapshot;
pub use muster_api::preview::{PreviewRow, PreviewView, PropertyView};
pub use muster_api::site::{HeldView, Verdict};
pub use muster_api::stack::{RolloutAction, RolloutView};
pub use muster_template::Hook;
pub use request::{
    Answer, EnvironmentText, JoinAsk, NewLogin, NewToken, Options, Refusal, Request, Source, SourceText,
};
pub use scope::beyond;
pub use signal::{Signal, StoredSignal};
pub use user::Shown;
pub use view::View;

mod follow;
mod ledger_compare;
mod leftovers;
mod node_request;
mod ownership;
#[cfg(test)]
mod tests;
