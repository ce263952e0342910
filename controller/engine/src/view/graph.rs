//! The graph of a stack as operators see it: its rows and their needs, as in the view `resource_graph`.
//!
//! Absent: the graph of a large stack (`graph_by_type.rs`).

use muster_api::resource::{GraphEdgeView, GraphNodeView, GraphView};
use muster_shared::StackName;

use crate::row::Slot;
use crate::view::{ResourceView, View};

impl View<'_> {
    pub fn graph_view(&self, name: &StackName) -> Option<GraphView> {
        let stack = self.graph.stacks.named(name)?;
        let slots = || stack.forward.iter().chain(&stack.extras);
        let needed = self.traversals.still_needed(stack);
        let forward = stack.forward.iter().map(|slot| (slot, "forward"));
        let extras = stack.extras.iter().map(|slot| (slot, "clean-up"));
        Some(GraphView {
            name: stack.name.to_string(),
            action: stack.action.as_str().into(),
            status: stack.status.as_str().into(),
            revision: stack.revision,
            by_type: false,
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
            ready: self.graph.rows[slot].ready,
            replaces: row.replaces,
            replaced_by: row.replaced_by,
        }
    }

    fn graph_edges(&self, slot: Slot) -> impl Iterator<Item = GraphEdgeView> {
        let row = &self.graph.rows[slot];
        let needed = row.requires.iter().filter_map(|required| self.graph.rows.get(*required));
        needed
            .map(|needed| GraphEdgeView { resource_id: needed.id.to_string(), needed_by: row.id.to_string() })
    }
}
