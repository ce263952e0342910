//! Flow tables in the simulator: a fake switch, the agent's logs, operators of flow tables, and what must hold of them.
//!
//! Absent: OpenFlow and nftables. What a switch holds is data here, and what it does to packets is one rule that cuts
//! its server off.

mod act;
mod answer;
mod check;
mod durable;
mod entries;
mod equal;
mod harm;
mod host;
mod log;
mod model;
mod switch;
mod trace;

pub use check::number_of;
pub use entries::{Manner, cutting, device, packed, rule};
pub use equal::{differ, has_ended};
pub use harm::furnish;
pub use host::{FlowWork, Hands};
pub use log::Log;
pub use model::{FOR_GOOD, Left, Model};
pub use switch::{MANAGEMENT, OTHER, Plane, Switch, cuts, is_bad, timeouts};
