//! Topology, and what an intent compiles to. Pure: no clock, no I/O, no order of a hash.

pub mod compile;
pub mod intent;
pub mod ledger;
pub mod path;
pub mod phase;
pub mod stages;
pub mod topology;

#[cfg(test)]
mod tests;
