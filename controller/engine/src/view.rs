//! A view of all layers that changes nothing. Views for operators, previews, and the checks before
//! an operation are its methods.

pub(crate) mod hidden;
pub(crate) mod phase;
pub mod site;

use muster_flow::Flows;
use muster_shared::{Epoch, StackName};

use crate::graph::Graph;
use crate::intent::Intents;
use crate::jobs::Jobs;
use crate::request::Refusal;
use crate::traversals::Traversals;

mod graph;
mod graph_by_type;
mod held;
mod node;
mod page;
mod stack;

pub use node::{KnownNode, TokenView};
pub use page::RowFilter;
pub use stack::{
    ActiveView, FailureView, GraphEdgeView, GraphNodeView, GraphView, JobView, OutputView, ProgressView,
    ResourceView, StackView,
};

/// See [`Engine::view`](crate::Engine::view).
#[derive(Clone, Copy)]
pub struct View<'e> {
    pub(crate) graph: &'e Graph,
    pub(crate) jobs: &'e Jobs,
    pub(crate) traversals: &'e Traversals,
    pub(crate) flows: &'e Flows,
    pub(crate) intents: &'e Intents,
}

impl View<'_> {
    /// The epoch in force.
    pub fn epoch(&self) -> Epoch {
        self.graph.ctx.epoch()
    }

    /// The refusal for a name that no stack has.
    pub fn no_stack(&self, name: &StackName) -> Refusal {
        self.graph.no_stack(name)
    }
}
