//! `muster stack …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_shared::StackName;
use serde_json::Value;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, Output, cell, document, fields, print, table};
use crate::pages::Pages;
use crate::span::{YEAR, within};

mod events;
pub mod graph;
mod history;
mod operation;
mod preview;
mod rollout;
mod validate;

/// Verbs.
#[derive(Subcommand)]
pub enum StackVerb {
    /// Create a stack from a template
    ///
    /// What the template and the environments name is sent along: files of 'get_file', nested templates, and what these
    /// name. A name is relative to the file that it stands in.
    #[command(after_help = "Example:\n  muster stack create web -t web.yaml -P greeting=hello --wait")]
    Create(Create),
    /// Bring a stack to a changed template or changed parameters
    ///
    /// Without --template the current one is used. Parameters that are not given get their defaults, with
    /// --existing their current values; environments likewise.
    #[command(after_help = "Example:\n  muster stack update web -t web.yaml --wait\n  \
                            muster stack update web --existing -P greeting=hi --wait\n  \
                            muster stack update web -t web.yaml -e site.yaml --delete-first\n  \
                            muster stack update web --existing --converge --wait")]
    Update(Update),
    /// Show what an update would create, change, replace and take away; changes nothing
    ///
    /// Takes the template and the values as an update does. A stack that does not exist would be created. Secrets are masked.
    #[command(
        after_help = "Example:\n  muster stack preview web -t web.yaml -e site.yaml -P greeting=hi\n  \
                            muster stack preview web --existing -P greeting=hi -o json"
    )]
    Preview(Preview),
    /// Take everything of a stack away, then the stack
    #[command(after_help = "Example:\n  muster stack delete web --wait")]
    Delete(Delete),
    /// Bring a stack back to an older revision
    #[command(after_help = "Example:\n  muster stack rollback web --to 3 --wait")]
    Rollback(Rollback),
    /// Stop the operation that is in progress
    ///
    /// Nothing more of it begins; what runs on nodes ends, or is interrupted where its type allows that, and is
    /// recorded. The stack is FAILED with the reason 'cancelled' and is not rolled back. The next operation goes on from
    /// what is there.
    #[command(after_help = "Example:\n  muster stack cancel web")]
    Cancel(Name),
    /// Pause a rollout of a 'for_each', have it go on, hurry it, or stop it for good
    ///
    /// 'muster stack show' draws where it is; 'muster stack rollback' brings those back that have the new revision.
    #[command(
        after_help = "Example:\n  muster stack rollout web pause\n  muster stack rollout web promote motd"
    )]
    Rollout(rollout::Rollout),
    /// Look at every resource of a stack on its node, and change nothing
    ///
    /// Those that differ from what was asked for are FAILED until the next update puts them right.
    #[command(after_help = "Example:\n  muster stack check web --wait")]
    Check(Check),
    /// List the stacks
    #[command(after_help = "Example:\n  muster stack list -o json")]
    List,
    /// Show a stack
    #[command(after_help = "Example:\n  muster stack show web -o json")]
    Show(Name),
    /// Print a stack's template
    #[command(after_help = "Example:\n  muster stack template web --revision 2")]
    Template(Template),
    /// List a stack's outputs
    #[command(after_help = "Example:\n  muster stack outputs web")]
    Outputs(Name),
    /// List a stack's revisions that are kept
    #[command(after_help = "Example:\n  muster stack revisions web")]
    Revisions(Name),
    /// List what failed in a stack's last operation, with the cause of each attempt
    #[command(after_help = "Example:\n  muster stack failures web")]
    Failures(Name),
    /// List what happened to a stack
    ///
    /// With --follow it goes on with what happens next, across restarts of the controller, until the stack is gone; one
    /// line for each event, which with -o json is a JSON document of its own.
    #[command(after_help = "Example:\n  muster stack events web\n  muster stack events web --follow -o json")]
    Events(Events),
    /// Show which resource needs which: as a table, JSON, Graphviz's language or a picture
    ///
    /// Boxes have the colour of their status. The picture draws up to 1,000 resources, those first that failed or
    /// are under way, and says what it leaves out.
    #[command(
        after_help = "Example:\n  muster stack graph web\n  muster stack graph web -o svg > web.svg\n  \
                            muster stack graph web -o dot > web.dot"
    )]
    Graph(Graph),
    /// Check a template; needs no controller
    ///
    /// Parameters that must be given and were not are listed; they are no error.
    #[command(after_help = "Example:\n  muster stack validate -t web.yaml -P greeting=hello")]
    Validate(Validate),
}

/// A stack.
#[derive(Args)]
pub struct Name {
    /// The stack
    name: StackName,
}

/// `-e` and `-P`
#[derive(Args)]
pub struct Given {
    /// An environment: values for parameters, what types stand for, hooks; may be repeated, the last one counts
    #[arg(short = 'e', long = "environment", value_name = "FILE")]
    environments: Vec<PathBuf>,
    /// A parameter's value; may be repeated
    #[arg(short = 'P', long = "parameter", value_name = "KEY=VALUE", value_parser = crate::source::parameter)]
    parameters: Vec<(String, String)>,
}

/// How an operation is to be carried out.
#[derive(Args)]
pub struct How {
    /// Roll back when it fails
    #[arg(long)]
    rollback: bool,
    /// Take away what is no longer wanted before anything new is made, where there is no room for both
    #[arg(long)]
    delete_first: bool,
    /// Refuse nodes that have never joined or are revoked, rather than wait for them
    #[arg(long)]
    require_nodes: bool,
    /// Refuse a 'for_each' whose selector means more nodes than this
    #[arg(long, value_name = "N")]
    max_nodes: Option<u32>,
    /// The stack is FAILED when it has not ended by then; with --wait, also how long to wait
    #[arg(long, value_name = "SECONDS", value_parser = within(1..=YEAR))]
    timeout: Option<u64>,
    /// Wait until it has ended, and show progress
    #[arg(long)]
    wait: bool,
}

/// Whether to wait.
#[derive(Args)]
pub struct Wait {
    /// Wait until it has ended, and show progress
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = within(1..=YEAR))]
    timeout: Option<u64>,
}

/// `stack create`
#[derive(Args)]
pub struct Create {
    /// The new stack
    name: StackName,
    /// The template's file; - for stdin
    #[arg(short, long, value_name = "FILE")]
    template: PathBuf,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    how: How,
}

/// `stack update`
#[derive(Args)]
pub struct Update {
    /// The stack
    name: StackName,
    /// The template's file, - for stdin; the current template if left out
    #[arg(short, long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Keep the values of parameters, and the environments, that are not given
    #[arg(long)]
    existing: bool,
    /// Have every resource looked at on its node, and put right where it differs, also if nothing is changed
    #[arg(long)]
    converge: bool,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    how: How,
}

/// `stack preview`
#[derive(Args)]
pub struct Preview {
    /// The stack
    name: StackName,
    /// The template's file, - for stdin; the current template if left out
    #[arg(short, long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Keep the values of parameters, and the environments, that are not given
    #[arg(long)]
    existing: bool,
    #[command(flatten)]
    given: Given,
}

/// `stack delete`
#[derive(Args)]
pub struct Delete {
    /// The stack
    name: StackName,
    #[command(flatten)]
    wait: Wait,
}

/// `stack rollback`
#[derive(Args)]
pub struct Rollback {
    /// The stack
    name: StackName,
    /// The revision to go back to (default: the last good one before this). 0 empties the stack
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    to: Option<u32>,
    #[command(flatten)]
    wait: Wait,
}

/// `stack check`
#[derive(Args)]
pub struct Check {
    /// The stack
    name: StackName,
    #[command(flatten)]
    wait: Wait,
}

/// `stack template`
#[derive(Args)]
pub struct Template {
    /// The stack
    name: StackName,
    /// An older one
    #[arg(long)]
    revision: Option<u32>,
}

/// `stack events`
#[derive(Args)]
pub struct Events {
    /// The stack
    name: StackName,
    /// Go on with what happens next, until the stack is gone
    #[arg(short, long)]
    follow: bool,
}

/// `stack graph`
#[derive(Args)]
pub struct Graph {
    /// The stack
    name: StackName,
    /// How to print it
    // The same as everywhere, with two more values.
    #[arg(short, long, value_parser = Output::of_graphs(), default_value = "table")]
    output: Output,
}

/// `stack validate`
#[derive(Args)]
pub struct Validate {
    /// The template's file; - for stdin
    #[arg(short, long, value_name = "FILE")]
    template: PathBuf,
    #[command(flatten)]
    given: Given,
}

const STACKS: [Column; 5] = [
    ("NAME", "name"),
    ("ACTION", "action"),
    ("STATUS", "status"),
    ("REVISION", "revision"),
    ("UPDATED", "updated_at"),
];

const REVISIONS: [Column; 6] = [
    ("NUMBER", "number"),
    ("CREATED", "created_at"),
    ("MADE BY", "made_by"),
    ("COMPLETE", "complete"),
    ("CURRENT", "current"),
    ("TEMPLATE", "source_name"),
];

const OUTPUTS: [Column; 3] = [("KEY", "key"), ("VALUE", "value"), ("DESCRIPTION", "description")];

const FIELDS: [&str; 13] = [
    "name",
    "id",
    "action",
    "status",
    "status_reason",
    "revision",
    "traversal",
    "created_at",
    "updated_at",
    "progress",
    "rollouts",
    "parameters",
    "outputs",
];

/// Does it.
pub async fn run(verb: StackVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        StackVerb::Create(create) => operation::create(create, client, format).await,
        StackVerb::Update(update) => operation::update(update, client, format).await,
        StackVerb::Preview(preview) => preview::run(preview, client, format).await,
        StackVerb::Delete(delete) => operation::delete(delete, client, format).await,
        StackVerb::Rollback(rollback) => operation::rollback(rollback, client, format).await,
        StackVerb::Cancel(Name { name }) => operation::cancel(name.as_str(), client, format).await,
        StackVerb::Rollout(rollout) => rollout::run(rollout, client, format).await,
        StackVerb::Check(check) => operation::check(check, client, format).await,
        StackVerb::List => {
            Pages::of(path(["stacks"]), "name").print(client, format, &STACKS, |stack| stack).await
        }
        StackVerb::Show(Name { name }) => show(client.get(&path(["stacks", name.as_str()])).await?, format),
        StackVerb::Template(template) => print_template(template, client, format).await,
        StackVerb::Outputs(Name { name }) => {
            let list = client.get(&path(["stacks", name.as_str(), "outputs"])).await?;
            document(format, &list, |list| table(&OUTPUTS, list))
        }
        StackVerb::Graph(graph) => graph::run(graph, client).await,
        StackVerb::Revisions(Name { name }) => {
            let list = client.get(&path(["stacks", name.as_str(), "revisions"])).await?;
            document(format, &list, |list| table(&REVISIONS, &history::plain(list)))
        }
        StackVerb::Failures(Name { name }) => {
            let list = client.get(&path(["stacks", name.as_str(), "failures"])).await?;
            document(format, &list, history::failures)
        }
        StackVerb::Events(events) => events::run(events, client, format).await,
        StackVerb::Validate(validate) => validate::run(&validate, format),
    }
}

/// A stack without what only a watch needs.
/// The number of a revision.
fn revision(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "takes a revision's number, as 'muster stack revisions' lists them")
}

fn show(mut view: Value, format: Format) -> Result<(), Failure> {
    if let Value::Object(map) = &mut view {
        map.retain(|key, _| FIELDS.contains(&key.as_str()));
    }
    document(format, &view, |view| {
        let mut shown = view.clone();
        let progress = &view["progress"];
        shown["progress"] = Value::from(format!(
            "{}/{}, {} in flight, {} failed",
            cell(&progress["done"]),
            cell(&progress["total"]),
            cell(&progress["in_flight"]),
            cell(&progress["failed"])
        ));
        match rollout::drawn(&view["rollouts"]).join("; ") {
            lines if lines.is_empty() => {
                shown.as_object_mut().map(|map| map.remove("rollouts"));
            }
            lines => shown["rollouts"] = Value::from(lines),
        }
        shown["outputs"] = view["outputs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|output| (cell(&output["key"]), output["value"].clone()))
            .collect();
        fields(&FIELDS, &shown)
    })
}

async fn print_template(asked: Template, client: &mut Client, format: Format) -> Result<(), Failure> {
    let at = path(["stacks", asked.name.as_str(), "template"]);
    let at = asked.revision.map_or_else(|| at.clone(), |revision| format!("{at}?revision={revision}"));
    let answer = client.get(&at).await?;
    if format == Format::Table {
        return print(answer["template"].as_str().unwrap_or_default());
    }
    document(format, &answer, |_| String::new())
}
