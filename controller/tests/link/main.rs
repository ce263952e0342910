//! The direct link, from outside: real TLS on loopback, clients that others wrote, and clients that no one
//! should have written.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also what stands outside a test function")]

mod apart;
mod bounds;
mod hostile;
mod joining;
mod mosquitto;
mod nodes;
mod raw;
mod world;
