//! `stack preview`: what an update would do, and does not.

use std::fmt::Write as _;
use std::io::Write as _;

use hyper::Method;
use serde_json::{Value, json};

use super::Preview;
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, cell, count, document, printable};
use crate::source::{Source, parameters};

/// Characters of a value on a line; JSON has all of it.
const SHOWN: usize = 120;
/// Unchanged resources that are named.
const NAMED: usize = 10;

/// What becomes of a resource, and how it is counted.
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
    let mut body = json!({"parameters": parameters(&asked.given.parameters), "existing": asked.existing});
    Source::read(asked.template.as_deref(), &asked.given.environments)?.into_body(&mut body);
    let at = path(["stacks", asked.name.as_str(), "preview"]);
    let answer = client.send(Method::POST, &at, Some(&body)).await?;
    if format == Format::Table {
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            let text = printable(warning.as_str().unwrap_or_default());
            let _closed = writeln!(std::io::stderr(), "warning: {text}");
        }
    }
    document(format, &answer, table)
}

fn table(answer: &Value) -> String {
    let resources = answer["resources"].as_array().map_or(&[][..], Vec::as_slice);
    let mut out = String::new();
    let (unchanged, changed): (Vec<&Value>, Vec<&Value>) =
        resources.iter().partition(|resource| resource["change"] == "unchanged");
    for resource in &changed {
        out.push_str(&paragraph(resource));
    }
    let unlisted = total(answer, |change| change != "unchanged").saturating_sub(changed.len() as u64);
    if unlisted > 0 {
        writeln!(out, "and {} more that would change", count(unlisted, "resource"))
            .expect("writing to a String does not fail");
    }
    if !unchanged.is_empty() {
        let mut names: Vec<String> =
            unchanged.iter().take(NAMED).map(|resource| cell(&resource["name"])).collect();
        let unnamed = total(answer, |change| change == "unchanged").saturating_sub(names.len() as u64);
        if unnamed > 0 {
            names.push(format!("{unnamed} more"));
        }
        writeln!(out, "unchanged: {}", names.join(", ")).expect("writing to a String does not fail");
    }
    let counts: Vec<String> = CHANGES
        .iter()
        .map(|(change, text)| (total(answer, |counted| counted == *change), text))
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{count} {text}"))
        .collect();
    let summary = if counts.is_empty() { "no resources".to_owned() } else { counts.join(", ") };
    writeln!(out, "{summary}").expect("writing to a String does not fail");
    out
}

/// All of these changes, also where not all are listed.
fn total(answer: &Value, wanted: impl Fn(&str) -> bool) -> u64 {
    let counts = answer["counts"].as_object().into_iter().flatten();
    counts.filter(|(change, _)| wanted(change)).filter_map(|(_, count)| count.as_u64()).sum()
}

/// The resource, then a line for each property.
fn paragraph(resource: &Value) -> String {
    let text = |key: &str| cell(&resource[key]);
    let on = if text("node") == "-" { String::new() } else { format!(" on {}", text("node")) };
    let mut out = format!("{} ({}){on}: {}", text("name"), text("type"), text("change"));
    let goes = resource["change"] == "delete" || resource["change"] == "replace";
    if goes && resource["deletion_policy"] == "retain" {
        out.push_str(", and what is there is left (deletion_policy: retain)");
    }
    if resource["restricted"] == true {
        out.push_str(", which the environment restricts: it would fail");
    }
    out.push('\n');
    for property in resource["properties"].as_array().into_iter().flatten() {
        let new =
            if property["unknown"] == true { "(known later)".to_owned() } else { value(&property["new"]) };
        let shown = match resource["change"].as_str() {
            Some("create" | "adopt") => new,
            Some("delete") => value(&property["old"]),
            _ => format!("{} → {new}", value(&property["old"])),
        };
        writeln!(out, "  {}: {shown}", cell(&property["path"])).expect("writing to a String does not fail");
    }
    out
}

/// On one line, texts in quotes.
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
            table(&answer),
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
        assert_eq!(table(&json!({"resources": []})), "no resources\n");
    }
}
