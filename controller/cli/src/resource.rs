//! `muster resource …`

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hyper::Method;
use muster_api::resource::{self, ResourceView, Signalled};
use muster_shared::StackName;
use muster_template::Hook;
use serde_json::{Value, json};

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, fields, lines, printable, read, view, word};
use crate::pages::Pages;
use crate::source::named;

/// Verbs.
#[derive(Subcommand)]
pub enum ResourceVerb {
    /// List the resources of a stack
    #[command(after_help = "Example:\n  muster resource list web -o json")]
    List(List),
    /// Show one resource
    #[command(after_help = "Example:\n  muster resource show web motd")]
    Show(Which),
    /// Mark a resource as unhealthy: the next update replaces it
    #[command(after_help = "Example:\n  muster resource unhealthy web motd")]
    Unhealthy(Which),
    /// Send a signal to the handle of a wait condition
    #[command(after_help = "Example:\n  muster resource signal web ready --data '{\"status\":\"SUCCESS\"}'")]
    Signal(Signal),
    /// Release a resource that waits at a hook of an environment
    #[command(after_help = "Example:\n  muster resource clear-hook web motd pre-update")]
    ClearHook(ClearHook),
}

/// `resource list`
#[derive(Args)]
pub struct List {
    /// Name of the stack
    stack: StackName,
    /// Also list resources that are being replaced or cleaned up
    #[arg(long)]
    all: bool,
}

/// One resource.
#[derive(Args)]
pub struct Which {
    /// Name of the stack
    stack: StackName,
    /// Name in the template, or physical id
    resource: String,
}

/// `resource signal`
#[derive(Args)]
pub struct Signal {
    /// Name of the stack
    stack: StackName,
    /// Name of the handle in the template, or its path
    resource: String,
    /// JSON map of id, status (SUCCESS or FAILURE), reason and data, all optional
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    data: Option<String>,
    /// File with that map; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// `resource clear-hook`
#[derive(Args)]
pub struct ClearHook {
    /// Name of the stack
    stack: StackName,
    /// Name in the template
    resource: String,
    /// Hook to release
    #[arg(value_parser = PossibleValuesParser::new(Hook::ALL.map(Hook::as_str)))]
    hook: String,
}

const COLUMNS: [Column; 7] = [
    ("NAME", "name"),
    ("TYPE", "type"),
    ("NODE", "node"),
    ("ACTION", "action"),
    ("STATUS", "status"),
    ("PHASE", "phase"),
    ("OBSERVED", "observed"),
];

const FIELDS: [&str; 19] = [
    "name",
    "type",
    "node",
    "id",
    "physical_id",
    "action",
    "status",
    "status_reason",
    "phase",
    "waits_for",
    "requires",
    "observed",
    "drift_policy",
    "corrections",
    "breaker",
    "generation",
    "retry_count",
    "replaces",
    "replaced_by",
];

/// `node_away 35 s`, `hook pre-update 2 min 5 s`: what a row waits for, and how long it has. Empty: for nothing.
pub fn phase_since(phase: &str, hook: Option<&str>, seconds: u64) -> String {
    if phase.is_empty() {
        return String::new();
    }
    let hook = hook.filter(|_| phase == "hook").map(printable);
    [Some(printable(phase)), hook, Some(span(seconds))].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A row of the table.
fn listed(mut row: Value) -> Value {
    if let Ok(ResourceView { phase, hook, phase_seconds, .. }) = read(&row) {
        row["phase"] = phase_since(&phase, hook.as_deref(), phase_seconds).into();
    }
    row
}

/// One line for each field, then one for each attempt that failed.
fn shown(row: &Value) -> String {
    let mut row = row.clone();
    let mut causes = Value::Null;
    if let Some(row) = row.as_object_mut() {
        causes = row.remove("causes").unwrap_or_default();
        if let Some(seconds) = row.remove("phase_seconds").and_then(|seconds| seconds.as_u64())
            && let Some(phase) = row.get("phase").and_then(Value::as_str).filter(|phase| !phase.is_empty())
        {
            let phase = format!("{phase} for {}", span(seconds));
            row.insert("phase".to_owned(), Value::from(phase));
        }
    }
    let mut out = fields(&FIELDS, &row);
    for (index, cause) in causes.as_array().into_iter().flatten().enumerate() {
        let cause = cause.as_str().map_or_else(|| cell(cause), |text| lines(text, "  "));
        out.push_str(&format!("attempt {}: {cause}\n", index + 1));
    }
    out
}

/// `5 s`, `2 min 5 s`, `3 h 2 min`, `2 d 3 h`: as exact as anyone asks.
fn span(seconds: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    let first = UNITS.iter().position(|(_, size)| seconds >= *size).unwrap_or(3);
    let parts = UNITS[first..].iter().take(2).scan(seconds, |rest, (unit, size)| {
        let count = *rest / size;
        *rest %= size;
        Some((count, unit))
    });
    let parts = parts.enumerate().filter(|(index, (count, _))| *index == 0 || *count > 0);
    parts.map(|(_, (count, unit))| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

/// Does it.
pub async fn run(verb: ResourceVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        ResourceVerb::List(List { stack, all }) => {
            let at = format!("{}?all={all}", path(["stacks", stack.as_str(), "resources"]));
            Pages::of(at, "name").print(client, format, &COLUMNS, listed).await
        }
        ResourceVerb::Show(Which { stack, resource }) => {
            let at = path(["stacks", stack.as_str(), "resources", &resource]);
            document(format, &client.get(&at).await?, shown)
        }
        ResourceVerb::Unhealthy(Which { stack, resource }) => {
            let at = path(["stacks", stack.as_str(), "resources", &resource, "unhealthy"]);
            let answer = client.send(Method::POST, &at, None).await?;
            view(format, &answer, |row: &ResourceView| {
                format!("{} of {stack} is marked unhealthy: the next update replaces it\n", word(&row.name))
            })
        }
        ResourceVerb::Signal(signal) => {
            let at = path(["stacks", signal.stack.as_str(), "resources", &signal.resource, "signal"]);
            let answer = client.send(Method::POST, &at, Some(&signal.body()?)).await?;
            view(format, &answer, |Signalled { id, again, signals, .. }| {
                let again = if *again { ", in the place of an earlier one" } else { "" };
                let (resource, stack) = (printable(&signal.resource), &signal.stack);
                format!("{resource} of {stack} has signal {}{again}; {signals} in all\n", word(id))
            })
        }
        ResourceVerb::ClearHook(ClearHook { stack, resource, hook }) => {
            let at = path(["stacks", stack.as_str(), "resources", &resource, "clear-hook"]);
            let answer =
                client.send(Method::POST, &at, Some(&json!(resource::ClearHook { hook: &hook }))).await?;
            let text = format!("{} of {stack}: hook {hook} is cleared\n", printable(&resource));
            document(format, &answer, |_| text)
        }
    }
}

impl Signal {
    /// What is sent; the controller says what is wrong with it.
    fn body(&self) -> Result<Value, Failure> {
        let (text, of) = match (&self.data, &self.file) {
            (Some(text), _) => (text.clone(), "--data".to_owned()),
            (None, Some(file)) => {
                let (name, text) = named(file)?;
                (text, printable(&name))
            }
            (None, None) => return Ok(json!({})),
        };
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{of} is no JSON: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (seconds, wanted) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (125, "2 min 5 s"),
            (3600, "1 h"),
            (10_925, "3 h 2 min"),
            (86_400, "1 d"),
            (90_061, "1 d 1 h"),
            (u64::MAX, "213503982334601 d 7 h"),
        ] {
            assert_eq!(span(seconds), wanted);
        }
    }

    #[test]
    fn a_list_says_what_each_waits_for_and_since_when() {
        let row = |name: &str, phase: &str, hook: Value| json!({"name": name, "phase": phase, "phase_seconds": 125, "hook": hook});
        let rows = json!([
            row("a", "node_away", Value::Null),
            row("b", "hook", json!("pre-update")),
            row("c", "", Value::Null)
        ]);
        let listed = rows.as_array().unwrap().iter().cloned().map(listed);
        let phases: Vec<Value> = listed.map(|row| row["phase"].clone()).collect();
        assert_eq!(phases, ["node_away 2 min 5 s", "hook pre-update 2 min 5 s", ""]);
    }

    #[test]
    fn a_resource_says_how_long_it_has_been_where_it_is() {
        let row = json!({"name": "motd", "phase": "backoff", "phase_seconds": 61, "causes": ["no\nroom", "no disk"]});
        assert_eq!(
            shown(&row),
            "name   motd\nphase  backoff for 1 min 1 s\nattempt 1: no\n  room\nattempt 2: no disk\n"
        );
        let row = json!({"name": "motd", "phase": "", "phase_seconds": 61, "causes": []});
        assert_eq!(shown(&row), "name   motd\nphase  -\n");
    }
}
