//! `muster resource …`: list, show, mark unhealthy, signal, clear a hook.
//!
//! Absent: what a resource waits for (`controller/engine/src/view/phase.rs`), and attempts and their failures
//! (`controller/engine/src/job/next_attempt.rs`).

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hyper::Method;
use muster_api::resource::{self, ResourceView, Signalled};
use muster_shared::StackName;
use muster_template::Hook;
use serde_json::{Map, Value, json};

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{
    Column, Format, cell, document, fields, key, lines, object, printable, read, view, word, written,
};
use crate::pages::Pages;
use crate::source::named;
use muster_picture::words::{phase_since, span};

#[derive(Subcommand)]
pub enum ResourceVerb {
    /// List the resources of a stack
    #[command(after_help = "Example:\n  muster resource list web -o json")]
    List(List),
    /// Show one resource
    #[command(after_help = "Example:\n  muster resource show web motd")]
    Show(ResourceArgs),
    /// Mark a resource as unhealthy: the next update replaces it
    #[command(after_help = "Example:\n  muster resource unhealthy web motd")]
    Unhealthy(ResourceArgs),
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

/// The resource that a command is about.
#[derive(Args)]
pub struct ResourceArgs {
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

const COLUMNS: [Column<ResourceView>; 7] = [
    ("NAME", |row| cell(&row.name)),
    ("TYPE", |row| cell(&row.kind)),
    ("NODE", |row| cell(&row.node)),
    ("ACTION", |row| cell(&row.action)),
    ("STATUS", |row| cell(&row.status)),
    ("PHASE", |row| word(&phase_since(&row.phase, row.hook.as_deref(), row.phase_seconds))),
    ("OBSERVED", |row| cell(&row.observed)),
];

const PHASE: &str = key!(ResourceView.phase);

const FIELDS: [&str; 19] = [
    key!(ResourceView.name),
    key!(ResourceView.kind as "type"),
    key!(ResourceView.node),
    key!(ResourceView.id),
    key!(ResourceView.physical_id),
    key!(ResourceView.action),
    key!(ResourceView.status),
    key!(ResourceView.status_reason),
    PHASE,
    key!(ResourceView.waits_for),
    key!(ResourceView.requires),
    key!(ResourceView.observed),
    key!(ResourceView.drift_policy),
    key!(ResourceView.corrections),
    key!(ResourceView.breaker),
    key!(ResourceView.generation),
    key!(ResourceView.retry_count),
    key!(ResourceView.replaces),
    key!(ResourceView.replaced_by),
];

/// A line for each field, then one for each failed attempt.
fn shown(answer: &Value) -> Result<String, Failure> {
    let row: ResourceView = read(answer)?;
    let mut shown = object(answer);
    shown.remove(key!(ResourceView.causes));
    shown.remove(key!(ResourceView.phase_seconds));
    if !row.phase.is_empty() {
        let phase = format!("{} for {}", row.phase, span(row.phase_seconds));
        shown.insert(PHASE.to_owned(), Value::from(phase));
    }
    let mut out = fields(&FIELDS, &shown);
    for (index, cause) in row.causes.iter().enumerate() {
        out.push_str(&format!("attempt {}: {}\n", index + 1, lines(cause, "  ")));
    }
    Ok(out)
}

/// Does it.
pub async fn run(verb: ResourceVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        ResourceVerb::List(List { stack, all }) => {
            let at = format!("{}?all={all}", path(["stacks", stack.as_str(), "resources"]));
            Pages::of(at, |row: &ResourceView| &row.name).print(client, format, &COLUMNS).await
        }
        ResourceVerb::Show(ResourceArgs { stack, resource }) => {
            let at = path(["stacks", stack.as_str(), "resources", &resource]);
            let answer = client.get(&at).await?;
            written(format, &answer, shown)
        }
        ResourceVerb::Unhealthy(ResourceArgs { stack, resource }) => {
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
    /// The body to send; the controller reports its errors.
    fn body(&self) -> Result<Value, Failure> {
        let (text, of) = match (&self.data, &self.file) {
            (Some(text), _) => (text.clone(), "--data".to_owned()),
            (None, Some(file)) => {
                let (name, text) = named(file)?;
                (text, printable(&name))
            }
            (None, None) => return Ok(Value::Object(Map::new())),
        };
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{of} is no JSON: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_each_waits_for_and_since_when() {
        let row = |name: &str, phase: &str, hook: Value| json!({"name": name, "phase": phase, "phase_seconds": 125, "hook": hook});
        let rows = json!([
            row("a", "node_away", Value::Null),
            row("b", "hook", json!("pre-update")),
            row("c", "", Value::Null)
        ]);
        let rows: Vec<ResourceView> = read(&rows).unwrap();
        let (_, phase) = COLUMNS[5];
        let phases: Vec<String> = rows.iter().map(phase).collect();
        assert_eq!(phases, ["node_away 2 min 5 s", "hook pre-update 2 min 5 s", "-"]);
    }

    #[test]
    fn a_resource_says_how_long_it_has_been_where_it_is() {
        let row = json!({"name": "motd", "phase": "backoff", "phase_seconds": 61, "causes": ["no\nroom", "no disk"]});
        assert_eq!(
            shown(&row).unwrap(),
            "name   motd\nphase  backoff for 1 min 1 s\nattempt 1: no\n  room\nattempt 2: no disk\n"
        );
        let row = json!({"name": "motd", "phase": "", "phase_seconds": 61, "causes": []});
        assert_eq!(shown(&row).unwrap(), "name   motd\nphase  -\n");
    }
}
