//! The fourth layer lays out the traversals of stacks, takes them up after a restart, and ends
//! them. It also gives ports their addresses, and keeps the rows that wait for a server to join.

use crate::address::AddressPlan;
use crate::awaited_nodes::AwaitedNodes;
use crate::engine::Config;
use crate::jobs::Jobs;

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
