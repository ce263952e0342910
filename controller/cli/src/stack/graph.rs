//! `stack graph`: the dependencies, as a table, a document, Graphviz's language or a drawing.
//!
//! Absent: how dependencies arise (`controller/template/src/resolve/walk.rs`), and the drawing itself
//! (`controller/cli/src/drawing.rs`).

use std::collections::HashMap;

use muster_api::resource::{GraphNodeView, GraphView};

use super::Graph;
use crate::client::{Client, path};
use crate::drawing::layout::layers;
use crate::drawing::{Drawing, Line, Look, Shape};
use crate::failure::Failure;
use crate::output::{Output, count, print, printable, read, rows, view};
use crate::resource::phase_since;

pub mod dot;

/// The most names in one cell of the table.
const NAMED: usize = 8;

/// The graph to draw: the controller's answer, with edges as indices.
struct Picture {
    title: String,
    nodes: Vec<Node>,
    /// `(from, to)`: `to` needs `from`.
    edges: Vec<(usize, usize)>,
}

/// A row of the stack; no text of it drives a terminal.
#[derive(Clone, Default)]
struct Node {
    id: String,
    name: String,
    kind: String,
    node: String,
    action: String,
    status: String,
    reason: String,
    phase: String,
    /// The phase with its hook, and how long it has been so.
    since: String,
    physical_id: String,
    cleanup: bool,
    ready: bool,
    replaces: Option<String>,
}

/// Does it.
pub async fn run(asked: Graph, client: &mut Client) -> Result<(), Failure> {
    let answer = client.get(&path(["stacks", asked.name.as_str(), "graph"])).await?;
    match asked.output {
        Output::Document(format) => view(format, &answer, |graph| table(&Picture::of(graph))),
        Output::Dot => print(&dot::document(&Picture::of(&read(&answer)?))),
        Output::Svg => print(&drawing(&Picture::of(&read(&answer)?)).svg()),
    }
}

impl Picture {
    fn of(graph: &GraphView) -> Self {
        let nodes: Vec<Node> = graph.nodes.iter().map(Node::of).collect();
        let index: HashMap<&str, usize> =
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

    fn state_with(&self, phase: &str) -> String {
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

    fn label(&self) -> String {
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

/// The drawing of the graph: failed resources and those under way take precedence.
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

/// A line for each row, after those of its dependencies.
fn table(picture: &Picture) -> String {
    let nodes = &picture.nodes;
    let layers = layers(nodes.len(), &picture.edges);
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    picture.edges.iter().for_each(|(from, to)| needs[*to].push(*from));
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|index| layers[*index]);
    let heading = ["RESOURCE", "NODE", "STATE", "NEEDS"].map(ToOwned::to_owned).to_vec();
    let filled = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let line = |index: usize| {
        let node = &nodes[index];
        let mut named: Vec<String> =
            needs[index].iter().take(NAMED).map(|needed| nodes[*needed].label()).collect();
        named.sort();
        if needs[index].len() > NAMED {
            named.push(format!("{} more", needs[index].len() - NAMED));
        }
        vec![node.label(), filled(&node.node), node.state_with(&node.since), filled(&named.join(", "))]
    };
    rows(std::iter::once(heading).chain(order.into_iter().map(line)))
}

#[cfg(test)]
mod tests;
