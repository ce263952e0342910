//! One hostile node, or whoever reaches the controller's port: what it costs honest agents. Each attack is bounded by what
//! it sends, runs beside honest work, and prints what was measured as a line of JSON (`tests/bench/attack.sh`). Judged
//! is what a slow machine does not change: honest work ends, memory stays, the attacker is sent away. And those who reach the
//! API and the console: what they send is refused, changes nothing, and leaves a controller that answers (`api.rs`,
//! `console.rs`, and `doors.rs` for the APIs of Heat and ONOS).
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

mod api;
mod console;
mod doors;
mod figures;
mod half_open;
mod hostile;
mod https;
mod packets;
mod target;
