//! A stack's graph as operators see it: its rows, and which of them needs which, as in the view `resource_graph`.

use muster_shared::StackName;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::resource::Slot;
use crate::view::ResourceView;

/// `stack graph -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphView {
    /// The stack's name.
    pub name: String,
    /// CREATE, UPDATE, …
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED.
    pub status: String,
    /// The current revision.
    pub revision: u32,
    /// Rows of the current revision by name, then those that are cleaned up.
    pub nodes: Vec<GraphNodeView>,
    /// In the order of the nodes that need.
    pub edges: Vec<GraphEdgeView>,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphNodeView {
    /// The row, as in [`GraphEdgeView`].
    pub id: String,
    /// Its name in the template.
    pub name: String,
    /// The one thing it stands for.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is; empty until known.
    pub node: String,
    /// forward or clean-up.
    pub role: String,
    /// INIT, CREATE, UPDATE or DELETE.
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED; INIT before anything was done.
    pub status: String,
    /// Why.
    pub status_reason: String,
    /// As in [`super::ResourceView`].
    pub phase: String,
    /// As in [`super::ResourceView`].
    #[serde(default)]
    pub phase_seconds: u64,
    /// Where it waits for an operator.
    #[serde(default)]
    pub hook: Option<String>,
    /// The graph node is done: those that need it may go.
    pub ready: bool,
    /// Physical id of the row it replaces.
    pub replaces: Option<String>,
    /// Physical id of the row that replaces it.
    pub replaced_by: Option<String>,
}

/// One row needs another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEdgeView {
    /// The row that is needed.
    pub resource_id: String,
    /// The row that needs it.
    pub needed_by: String,
}

impl Engine {
    /// The graph of a stack.
    pub fn graph_view(&self, name: &StackName) -> Option<GraphView> {
        let stack = self.stacks.named(name)?;
        let slots = || stack.forward.iter().chain(&stack.extras);
        let needed = self.still_needed(stack);
        let forward = stack.forward.iter().map(|slot| (slot, "forward"));
        let extras = stack.extras.iter().map(|slot| (slot, "clean-up"));
        Some(GraphView {
            name: stack.name.to_string(),
            action: stack.action.as_str().into(),
            status: stack.status.as_str().into(),
            revision: stack.revision,
            nodes: forward
                .chain(extras)
                .map(|(slot, role)| self.graph_node(role, self.resource_view(stack, *slot, &needed), *slot))
                .collect(),
            edges: slots().flat_map(|slot| self.graph_edges(*slot)).collect(),
        })
    }

    fn graph_node(&self, role: &str, row: ResourceView, slot: Slot) -> GraphNodeView {
        GraphNodeView {
            id: row.id,
            name: row.name,
            physical_id: row.physical_id,
            kind: row.kind,
            node: row.node,
            role: role.into(),
            action: row.action,
            status: row.status,
            status_reason: row.status_reason,
            phase: row.phase,
            phase_seconds: row.phase_seconds,
            hook: row.hook,
            ready: self.rows[slot].ready,
            replaces: row.replaces,
            replaced_by: row.replaced_by,
        }
    }

    fn graph_edges(&self, slot: Slot) -> impl Iterator<Item = GraphEdgeView> {
        let row = &self.rows[slot];
        let needed = row.requires.iter().filter_map(|required| self.rows.get(*required));
        needed
            .map(|needed| GraphEdgeView { resource_id: needed.id.to_string(), needed_by: row.id.to_string() })
    }
}
