//! Muster from outside: the simulator's parts, and what tests with real processes share.

pub mod fleet;
pub mod fuzz;
pub mod node;
pub mod page;
pub mod scale;
pub mod scaling;
pub mod scenario;
pub mod sim;
pub mod site;
pub mod topology;
