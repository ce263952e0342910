//! The HTTP API as both sides see it: its routes, and the bodies of requests and answers as serde types with the JSON
//! keys that operators know. The controller serves them, the command line asks for them, and `openapi` describes them.
//!
//! Absent: what the names in a body stand for, and what may be in a template or a file, which is text here.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod error;
pub mod flow;
pub mod history;
pub mod intent;
pub mod login;
pub mod node;
pub mod openapi;
pub mod preview;
pub mod query;
pub mod resource;
pub mod route;
pub mod site;
pub mod stack;
pub mod trace;
pub mod user;
