//! The test bed: network namespaces with cables and switches, servers with systemd, virtual machines, and processes
//! that a test starts.
//!
//! Everything is made for one test and ends with its value. Tests wait for what they can see (an exit, a file, an
//! answer), never for time to pass; whatever is waited for longer than [`PATIENCE`] has failed, and the ends of all
//! logs are printed.
//!
//! Absent: Muster. `muster_tests::site` has a controller and its agents that run on this.
#![allow(clippy::unwrap_used, reason = "only tests are made of this; what fails here fails the test")]

mod namespace;
mod port;
mod postgres;
mod process;
mod server;
mod switch;
mod way;

pub use namespace::{Namespace, OwnName};
pub use port::port;
pub use postgres::{Postgres, TableLock};
pub use process::{Daemon, PATIENCE, Ran, Running, command, eventually, look, look_closely};
pub use server::{Server, SystemdServer, Vm};
pub use switch::Switch;
pub use way::{PortWay, Way};
