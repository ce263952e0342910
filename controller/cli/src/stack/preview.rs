//! `stack preview`: what an update would do, and does not.
//!
//! Absent: the comparison itself (`controller/engine/src/operation/preview.rs`).

use std::fmt::Write as _;
use std::io::Write as _;

use hyper::Method;
use muster_api::preview::{PreviewRow, PreviewView};
use muster_api::stack::Options;
use serde_json::Value;

use super::Preview;
use super::operation::changed;
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, count, printable, read, view, word};

/// Characters of a value on a line; JSON has all of it.
const SHOWN: usize = 120;
/// Unchanged resources that are named.
const NAMED: usize = 10;

/// The kinds of changes, and the words for their counts.
const CHANGES: [(&str, &str); 6] = [
    ("create", "to create"),
    ("adopt", "to adopt"),
    ("update", "to update"),
    ("replace", "to replace"),
    ("delete", "to delete"),
    ("unchanged", "unchanged"),
];

/// Does it.
pub async fn run(asked: Preview, client: &mut Client, format: Format) -> Result<(), Failure> {
    let options = Options { adopt: asked.adopt, ..Options::default() };
    let body = changed(asked.template.as_deref(), &asked.given, &asked.kept, options)?;
    let at = path(["stacks", asked.name.as_str(), "preview"]);
    let answer = client.send(Method::POST, &at, Some(&body)).await?;
    if format == Format::Table {
        for warning in read::<PreviewView>(&answer)?.warnings {
            let _closed = writeln!(std::io::stderr(), "warning: {}", printable(&warning));
        }
    }
    view(format, &answer, table)
}

fn table(preview: &PreviewView) -> String {
    let mut out = String::new();
    let (unchanged, changed): (Vec<&PreviewRow>, Vec<&PreviewRow>) =
        preview.resources.iter().partition(|resource| resource.change == "unchanged");
    for resource in &changed {
        out.push_str(&paragraph(resource));
    }
    let unlisted = total(preview, |change| change != "unchanged").saturating_sub(changed.len() as u64);
    if unlisted > 0 {
        writeln!(out, "and {} more that would change", count(unlisted, "resource"))
            .expect("writing to a String does not fail");
    }
    if !unchanged.is_empty() {
        let mut names: Vec<String> =
            unchanged.iter().take(NAMED).map(|resource| word(&resource.name)).collect();
        let unnamed = total(preview, |change| change == "unchanged").saturating_sub(names.len() as u64);
        if unnamed > 0 {
            names.push(format!("{unnamed} more"));
        }
        writeln!(out, "unchanged: {}", names.join(", ")).expect("writing to a String does not fail");
    }
    let counts: Vec<String> = CHANGES
        .iter()
        .map(|(change, text)| (total(preview, |counted| counted == *change), text))
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{count} {text}"))
        .collect();
    let summary = if counts.is_empty() { "no resources".to_owned() } else { counts.join(", ") };
    writeln!(out, "{summary}").expect("writing to a String does not fail");
    out
}

/// The number of all such changes, including those that are not listed.
fn total(preview: &PreviewView, wanted: impl Fn(&str) -> bool) -> u64 {
    preview.counts.iter().filter(|(change, _)| wanted(change)).map(|(_, count)| count).sum()
}

/// The resource, then a line for each property.
fn paragraph(resource: &PreviewRow) -> String {
    let PreviewRow { name, kind, node, change, restricted, deletion_policy, properties } = resource;
    let on = if node.is_empty() { String::new() } else { format!(" on {}", printable(node)) };
    let mut out = format!("{} ({}){on}: {}", word(name), word(kind), word(change));
    if (change == "delete" || change == "replace") && deletion_policy == "retain" {
        out.push_str(", and what is there is left (deletion_policy: retain)");
    }
    if *restricted {
        out.push_str(", which the environment restricts: it would fail");
    }
    out.push('\n');
    for property in properties {
        let new = if property.unknown { "(known later)".to_owned() } else { value(&property.new) };
        let shown = match &**change {
            "create" | "adopt" => new,
            "delete" => value(&property.old),
            _ => format!("{} → {new}", value(&property.old)),
        };
        writeln!(out, "  {}: {shown}", word(&property.path)).expect("writing to a String does not fail");
    }
    out
}

/// A value on one line, texts in quotes.
fn value(value: &Value) -> String {
    if value.is_null() {
        return "(none)".to_owned();
    }
    let text = printable(&value.to_string());
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_change_and_each_property() {
        let row = |name: &str, change: &str, properties: Value| {
            json!({"name": name, "type": "Muster::File", "node": "web-1", "change": change, "restricted": name == "c",
                "deletion_policy": if name == "d" { "retain" } else { "delete" },
                "properties": properties})
        };
        let long = "x".repeat(200);
        let counts = json!({"create": 1, "update": 4, "replace": 1, "delete": 1, "unchanged": 2});
        let answer = json!({"warnings": [], "counts": counts, "resources": [
            row("a", "create", json!([{"path": "path", "old": null, "new": "/etc/a\u{1b}"},
                {"path": "content", "old": null, "new": null, "unknown": true}])),
            row("b", "update", json!([{"path": "content", "old": "1", "new": long},
                {"path": "mode", "old": null, "new": 420}])),
            row("c", "replace", json!([{"path": "path", "old": "/c", "new": "/d"}])),
            row("d", "delete", json!([])),
            row("e", "unchanged", json!([])),
            row("f", "unchanged", json!([])),
        ]});
        let cut = format!("\"{}…", "x".repeat(118));
        assert_eq!(
            table(&read(&answer).unwrap()),
            format!(
                "a (Muster::File) on web-1: create\n  path: \"/etc/a\\u001b\"\n  content: (known later)\n\
                 b (Muster::File) on web-1: update\n  content: \"1\" → {cut}\n  mode: (none) → 420\n\
                 c (Muster::File) on web-1: replace, which the environment restricts: it would fail\n  path: \"/c\" → \"/d\"\n\
                 d (Muster::File) on web-1: delete, and what is there is left (deletion_policy: retain)\n\
                 and 3 resources more that would change\n\
                 unchanged: e, f\n\
                 1 to create, 4 to update, 1 to replace, 1 to delete, 2 unchanged\n"
            )
        );
        assert_eq!(table(&PreviewView::default()), "no resources\n");
    }
}
