//! The fourth layer: traversals of stacks. They are laid out, taken up again after a restart, and come to their end; rows
//! get their addresses and wait for servers to be known.

use crate::address::AddressPlan;
use crate::by_name::AwaitedNodes;
use crate::engine::Config;
use crate::jobs::Jobs;

/// Traversals, over jobs.
pub(crate) struct Traversals {
    pub jobs: Jobs,
    /// Rows that wait for a server to be known.
    pub awaited: AwaitedNodes,
    /// Which port has which address.
    pub addresses: AddressPlan,
}

impl Traversals {
    /// None.
    pub fn new(config: Config) -> Self {
        Self { jobs: Jobs::new(config), awaited: AwaitedNodes::default(), addresses: AddressPlan::default() }
    }
}
