//! lib

pub mod link;
pub mod pki;
