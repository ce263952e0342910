//! The graph of a large stack: one row stands for all resources of a type.
//!
//! Absent: from how many resources on (each caller of `graph_within` says that).

use std::collections::{BTreeMap, BTreeSet};

use muster_api::resource::{GraphEdgeView, GraphNodeView, GraphView};
use muster_shared::StackName;

use crate::view::View;
use crate::view::stack::status_of;

impl View<'_> {
    /// The graph, or with more resources than `most` that of their types.
    pub fn graph_within(&self, name: &StackName, most: usize) -> Option<GraphView> {
        let stack = self.graph.stacks.named(name)?;
        if stack.forward.len() + stack.extras.len() > most {
            self.graph_by_type(name)
        } else {
            self.graph_view(name)
        }
    }

    /// A row for each type of the stack's resources, which needs the types that they need. Its reason says how many there are,
    /// and its status is that of the resources which most deserve attention.
    fn graph_by_type(&self, name: &StackName) -> Option<GraphView> {
        let stack = self.graph.stacks.named(name)?;
        let mut groups: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        let mut edges = BTreeSet::new();
        for slot in &stack.forward {
            let row = &self.graph.rows[*slot];
            *groups.entry(row.type_name()).or_default().entry(status_of(row)).or_default() += 1;
            let needed = row.requires.iter().filter_map(|required| self.graph.rows.get(*required));
            edges.extend(needed.map(|needed| (needed.type_name(), row.type_name())));
        }
        edges.retain(|(needed, by)| needed != by);
        Some(GraphView {
            name: stack.name.to_string(),
            action: stack.action.as_str().into(),
            status: stack.status.as_str().into(),
            revision: stack.revision,
            by_type: true,
            nodes: groups.into_iter().map(|(kind, counts)| group(kind, &counts)).collect(),
            edges: edges
                .into_iter()
                .map(|(needed, by)| GraphEdgeView { resource_id: needed.into(), needed_by: by.into() })
                .collect(),
        })
    }
}

/// The resources of one type, with how many are in each status.
fn group(kind: &str, counts: &BTreeMap<&str, u64>) -> GraphNodeView {
    let status =
        ["FAILED", "IN_PROGRESS", "INIT", "COMPLETE"].into_iter().find(|status| counts.contains_key(status));
    let parts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    GraphNodeView {
        id: kind.into(),
        name: format!("{} × {}", counts.values().sum::<u64>(), kind.rsplit("::").next().unwrap_or(kind)),
        kind: kind.into(),
        role: "forward".into(),
        action: "INIT".into(),
        status: status.unwrap_or("COMPLETE").into(),
        status_reason: parts.join(", "),
        ready: counts.len() == 1 && counts.contains_key("COMPLETE"),
        ..GraphNodeView::default()
    }
}
