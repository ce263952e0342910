//! The parts that every front of the HTTP API needs: a client of its router in this process, and bodies of requests
//! within bounds.
//!
//! Absent: what a front answers, and to whom (the console, Heat's API, ONOS's REST).

mod body;
mod client;
mod path;

pub use body::{Bounds, Collected, NotCollected, Place, Room};
pub use client::{Client, Failure, Refused, bearer};
pub use path::{escaped, path};
