//! The needs of a stack's resources, as a picture: an SVG document, or one for Graphviz.
//!
//! Absent: how dependencies arise (`controller/template/src/resolve/walk.rs`), which resources of a large stack are drawn as
//! one (`controller/engine/src/view/graph_by_type.rs`), and the drawing itself (`drawing.rs`).

use std::collections::BTreeMap;

use muster_api::resource::{GraphNodeView, GraphView};

use crate::drawing::{Drawing, Line, Look, Shape};
use crate::words::{count, phase_since, printable};

pub(crate) mod dot;

/// The graph to draw: the controller's answer, with edges as indices.
#[derive(Debug)]
pub struct Picture {
    pub title: String,
    pub nodes: Vec<Node>,
    /// `(from, to)`: `to` needs `from`.
    pub edges: Vec<(usize, usize)>,
}

/// A row of the stack; no text of it drives a terminal.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub id: String,
    pub name: String,
    pub kind: String,
    pub node: String,
    pub action: String,
    pub status: String,
    pub reason: String,
    pub phase: String,
    /// The phase with its hook, and how long it has been so.
    pub since: String,
    pub physical_id: String,
    pub cleanup: bool,
    pub ready: bool,
    pub replaces: Option<String>,
}

impl Picture {
    /// The picture of an answer; the answer may be of any controller.
    pub fn of(graph: &GraphView) -> Self {
        let nodes: Vec<Node> = graph.nodes.iter().map(Node::of).collect();
        let index: BTreeMap<&str, usize> =
            graph.nodes.iter().enumerate().map(|(index, node)| (&*node.id, index)).collect();
        let end = |id: &String| index.get(id.as_str()).copied();
        let edges: Vec<(usize, usize)> = graph
            .edges
            .iter()
            .filter_map(|edge| Some((end(&edge.resource_id)?, end(&edge.needed_by)?)))
            .collect();
        let title = format!(
            "{}: {} {}, revision {}, {}, {}",
            printable(&graph.name),
            printable(&graph.action),
            printable(&graph.status),
            graph.revision,
            count(nodes.len() as u64, "resource"),
            count(edges.len() as u64, "edge")
        );
        Self { title, nodes, edges }
    }

    /// An SVG document. Failed resources and those under way are drawn first.
    pub fn svg(&self) -> String {
        drawing(self).svg()
    }

    /// A document in Graphviz's language.
    pub fn dot(&self) -> String {
        dot::document(self)
    }
}

impl Node {
    fn of(row: &GraphNodeView) -> Self {
        Self {
            id: printable(&row.id),
            name: printable(&row.name),
            kind: printable(&row.kind),
            node: printable(&row.node),
            action: printable(&row.action),
            status: printable(&row.status),
            reason: printable(&row.status_reason),
            phase: printable(&row.phase),
            since: phase_since(&row.phase, row.hook.as_deref(), row.phase_seconds),
            physical_id: printable(&row.physical_id),
            cleanup: row.role == "clean-up",
            ready: row.ready,
            replaces: row.replaces.as_deref().map(printable),
        }
    }

    /// `CREATE IN_PROGRESS, running`
    fn state(&self) -> String {
        self.state_with(&self.phase)
    }

    /// With these words for the phase.
    pub fn state_with(&self, phase: &str) -> String {
        let mut state = match self.action.as_str() {
            "INIT" => self.status.clone(),
            action => format!("{action} {}", self.status),
        };
        if !phase.is_empty() {
            state = format!("{state}, {phase}");
        }
        state
    }

    /// `File on web-1`
    fn place(&self) -> String {
        let kind = self.kind.rsplit("::").next().unwrap_or_default();
        if self.node.is_empty() { kind.to_owned() } else { format!("{kind} on {}", self.node) }
    }

    fn urgency(&self) -> u8 {
        match self.status.as_str() {
            "FAILED" => 0,
            "IN_PROGRESS" => 1,
            _ if self.cleanup || !self.ready => 2,
            _ => 3,
        }
    }

    fn tooltip(&self) -> String {
        let mut lines = vec![
            self.label(),
            format!("{} {}", self.kind, self.node).trim_end().to_owned(),
            self.state() + if self.ready { ", ready" } else { "" },
            format!("row {}, {}", self.id, self.physical_id),
        ];
        lines.extend(self.replaces.as_ref().map(|old| format!("replaces {old}")));
        lines.extend((!self.reason.is_empty()).then(|| self.reason.clone()));
        lines.join("\n")
    }

    /// The name of the node; a row that is cleaned up may have that of another.
    pub fn label(&self) -> String {
        if self.cleanup { format!("{} (clean-up)", self.name) } else { self.name.clone() }
    }
}

/// Fill and line of a box; in any two of them the lightness differs, too.
fn colours(status: &str) -> (&'static str, &'static str) {
    match status {
        "COMPLETE" => ("#d7efd6", "#2e7d32"),
        "IN_PROGRESS" => ("#cfe4fb", "#1565c0"),
        "FAILED" => ("#f6c4c1", "#b71c1c"),
        _ => ("#f2f2f2", "#757575"),
    }
}

fn drawing(picture: &Picture) -> Drawing {
    let look = |status: &str, is_dashed: bool| {
        let (fill, stroke) = colours(status);
        Look { fill, stroke, is_dashed, ..Look::default() }
    };
    let arrow = Look { stroke: "#78909c", has_arrow: true, ..Look::default() };
    let shape = |node: &Node| Shape {
        text: vec![node.name.clone(), node.place(), node.state()],
        tooltip: node.tooltip(),
        look: look(&node.status, node.cleanup),
        urgency: node.urgency(),
    };
    let line = |&(from, to): &(usize, usize)| {
        let names = (picture.nodes[to].label(), picture.nodes[from].label());
        Line { from, to, tooltip: format!("{} needs {}", names.0, names.1), look: arrow }
    };
    let legend = [
        (look("COMPLETE", false), "COMPLETE"),
        (look("IN_PROGRESS", false), "IN_PROGRESS"),
        (look("FAILED", false), "FAILED"),
        (look("INIT", false), "not begun"),
        (look("COMPLETE", true), "to be cleaned up"),
        (arrow, "is needed by"),
    ];
    Drawing {
        title: picture.title.clone(),
        nouns: ["resources", "arrows"],
        boxes: picture.nodes.iter().map(shape).collect(),
        lines: picture.edges.iter().map(line).collect(),
        legend: legend.map(|(look, text)| (look, text.to_owned())).to_vec(),
    }
}

#[cfg(test)]
mod tests;
