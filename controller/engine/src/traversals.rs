//! The fourth layer's state: the layers below it, the rows that wait for a server to join, and the addresses of ports.
//!
//! Absent: its methods. An operation begins, and supersedes one that runs, in `operation.rs`; `traversal/layout.rs`
//! lays its traversal out, `traversal/derive.rs` takes one up again, and `traversal/end.rs` ends it. What a report of
//! an older operation means is in `row/report_meaning.rs`.

use crate::address::AddressPlan;
use crate::engine::Config;
use crate::jobs::Jobs;
use crate::node::awaited::AwaitedNodes;

pub(crate) struct Traversals {
    pub jobs: Jobs,
    /// Rows that wait for a server to join or to tell its facts.
    pub awaited: AwaitedNodes,
    /// The address of each port.
    pub addresses: AddressPlan,
}

impl Traversals {
    pub fn new(config: Config) -> Self {
        Self { jobs: Jobs::new(config), awaited: AwaitedNodes::default(), addresses: AddressPlan::default() }
    }
}
