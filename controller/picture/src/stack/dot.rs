//! A graph in Graphviz's language: `muster stack graph web -o dot | dot -Tpdf`.

use std::fmt::Write;

use super::{Node, Picture, colours};

/// The whole document.
pub(super) fn document(picture: &Picture) -> String {
    let mut out =
        String::from("// An arrow leads from a resource to one that needs it. Dashed: to be cleaned up.\n");
    let mut line = |text: String| writeln!(out, "{text}").expect("writing to a String does not fail");
    line("digraph stack {".to_owned());
    line(format!(
        "  graph [rankdir=LR, label={}, labelloc=t, fontname=\"sans-serif\"];",
        quoted(&picture.title)
    ));
    line("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];".to_owned());
    line("  edge [color=\"#78909c\"];".to_owned());
    for node in &picture.nodes {
        line(format!("  {} [{}];", quoted(&node.id), attributes(node)));
    }
    for (from, to) in &picture.edges {
        line(format!("  {} -> {};", quoted(&picture.nodes[*from].id), quoted(&picture.nodes[*to].id)));
    }
    for node in &picture.nodes {
        let replaced = |other: &&Node| Some(&other.physical_id) == node.replaces.as_ref();
        if node.replaces.is_some()
            && let Some(old) = picture.nodes.iter().find(replaced)
        {
            line(format!(
                "  {} -> {} [style=dotted, constraint=false, label=\"replaces\", fontsize=9];",
                quoted(&node.id),
                quoted(&old.id)
            ));
        }
    }
    line("}".to_owned());
    out
}

fn attributes(node: &Node) -> String {
    let (fill, line) = colours(&node.status);
    let parts = [node.label(), format!("{} {}", node.kind, node.node), node.state()];
    let label = parts.map(|part| escaped(part.trim())).join("\\n");
    let dashed = if node.cleanup { ", style=\"rounded,filled,dashed\"" } else { "" };
    let tooltip = if node.reason.is_empty() { node.state() } else { node.reason.clone() };
    format!("label=\"{label}\", tooltip={}, fillcolor=\"{fill}\", color=\"{line}\"{dashed}", quoted(&tooltip))
}

/// The text as a quoted string.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes quotes and backslashes for a quoted string; every other character stands for itself. Control
/// characters are gone already.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
