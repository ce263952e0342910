//! Drift: things on nodes that differ from the desired state. Checks ask for it, agents tell of it, and
//! corrections remove it.
//!
//! Absent: drift of flow rules (`controller/flow/src/compare_with_agent.rs`).

pub(crate) mod background_rows;
pub(crate) mod breaker;
pub(crate) mod check;
pub(crate) mod check_withdrawal;
pub(crate) mod correct;
pub(crate) mod drift_digest;
pub(crate) mod drift_report;
pub(crate) mod observation;
pub(crate) mod rebuild;
pub(crate) mod unit_restart;
pub(crate) mod unit_trigger;
