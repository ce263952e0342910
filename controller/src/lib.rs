//! The controller: driver loop, store, link, HTTP API. The engine makes the decisions.

pub mod api;
pub mod config;
pub mod data_dir;
pub mod driver;
#[cfg(debug_assertions)]
pub mod faults;
pub mod lease;
pub mod link;
pub mod pki;
pub mod pulse;
pub mod random;
pub mod site_name;
pub mod store;
