//! A traversal of a stack, from its derivation to its end: each row is visited once those that it needs
//! are ready, and what is no longer wanted is removed after all that need it.
//!
//! ```text
//!   plan ─▶ layout ─▶ derive ─▶ walk: visit ─▶ gate ─▶ a job ─▶ readiness ─▶ remove_unwanted ─▶ stage_end ─▶ end
//! ```
//!
//! Absent: what operators ask for (`operation.rs`), and jobs (`job.rs`).

pub(crate) mod begin_in_slices;
pub(crate) mod delete_first;
pub(crate) mod derive;
pub(crate) mod end;
pub(crate) mod expand_tree;
pub(crate) mod gate;
pub(crate) mod hook;
pub(crate) mod layout;
pub(crate) mod plan;
pub(crate) mod progress_check;
pub(crate) mod readiness;
pub(crate) mod rebuild_tree;
pub(crate) mod remove_unwanted;
pub(crate) mod signal;
pub(crate) mod stage_end;
pub(crate) mod timeout;
pub(crate) mod virtual_resource;
pub(crate) mod visit;
pub(crate) mod waiting_rows;
pub(crate) mod walk;
