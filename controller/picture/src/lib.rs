//! Pictures of graphs and charts that the API tells of, for command line and console: as SVG documents, and for Graphviz.
//!
//! Absent: the answers themselves (`controller/api`).

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod chart;
#[cfg(test)]
mod contrast;
pub mod drawing;
pub mod network;
pub mod stack;
#[cfg(test)]
mod testing;
pub mod words;
