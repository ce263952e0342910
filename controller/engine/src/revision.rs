//! Revisions of stacks that are read from the store, and what goes on once each is there.

use muster_shared::StackName;

use crate::Effect;
use crate::graph::Graph;

/// An operation that waits for a revision to be loaded.
pub(crate) struct Pending {
    pub stack: u64,
    /// The traversal it was decided in; a newer one makes what the engine decided moot.
    pub traversal: u64,
    pub revision: u32,
    /// The operator's request; none: the engine decided.
    pub request: Option<u64>,
    pub purpose: Purpose,
}

/// What a loaded revision is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its content comes back.
    RollBack,
    /// The current one is walked again.
    TakeUp,
    /// What is there is compared with the current one.
    Check,
}

impl Graph {
    pub(crate) fn load_revision(&mut self, stack: StackName, revision: u32, pending: Pending) {
        let load = self.ctx.ids.load();
        self.stacks.wait(load, pending);
        self.ctx.effect(Effect::LoadRevision { load, stack, revision });
    }
}
