//! `muster stack …`: its verbs and flags, and the tables of stacks and outputs.
//!
//! Absent: sending and waiting (`stack/operation.rs`), and the default of an operation's timeout (`Options` in
//! `controller/engine/src/request.rs`).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_api::stack::{OutputView, ProgressView, RevisionRow, StackRow, StackView, TemplateView};
use muster_shared::StackName;
use serde_json::Value;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{
    Column, Format, Output, cell, document, fields, key, object, print, read, table, view, word,
};
use crate::pages::Pages;
use crate::span::{YEAR, within};

mod events;
pub mod graph;
mod history;
mod operation;
mod preview;
mod rollout;
mod validate;

#[derive(Subcommand)]
pub enum StackVerb {
    /// Create a stack from a template
    ///
    /// The command also sends the files that the template and the environments name: 'get_file', nested
    /// templates, and the files these name. A path is relative to the file that names it.
    #[command(after_help = "Example:\n  muster stack create web -t web.yaml -P greeting=hello --wait\n  \
                            muster stack create web-1 -t web-1.yaml --adopt --wait")]
    Create(Create),
    /// Update a stack to a changed template or changed parameters
    ///
    /// Without --template the stack keeps its current template. Parameters that are not given get their
    /// defaults. With --existing they keep their values, and the stack keeps its environments.
    #[command(after_help = "Example:\n  muster stack update web -t web.yaml --wait\n  \
                            muster stack update web --existing -P greeting=hi --wait\n  \
                            muster stack update web --existing --clear-parameter greeting --wait\n  \
                            muster stack update web -t web.yaml -e site.yaml --delete-first\n  \
                            muster stack update web --existing --converge --wait")]
    Update(Update),
    /// Show what an update would create, change, replace and remove
    ///
    /// A preview changes nothing. It takes the same template and values as an update, and also works for a
    /// stack that does not exist. Secrets are masked.
    #[command(
        after_help = "Example:\n  muster stack preview web -t web.yaml -e site.yaml -P greeting=hi\n  \
                            muster stack preview web --existing -P greeting=hi -o json"
    )]
    Preview(Preview),
    /// Delete a stack and all its resources
    #[command(after_help = "Example:\n  muster stack delete web --wait")]
    Delete(Delete),
    /// Return a stack to an older revision
    #[command(after_help = "Example:\n  muster stack rollback web --to 3 --wait")]
    Rollback(Rollback),
    /// Stop the operation in progress
    ///
    /// No further job starts. Running jobs end, or are interrupted where their type allows it. The stack is
    /// FAILED with the reason 'cancelled' and is not rolled back. The next operation continues from there.
    #[command(after_help = "Example:\n  muster stack cancel web")]
    Cancel(Name),
    /// Pause, resume, promote or abort a rollout of a 'for_each'
    ///
    /// 'muster stack show' draws the state of a rollout. 'muster stack rollback' returns the members that
    /// have the new revision.
    #[command(
        after_help = "Example:\n  muster stack rollout web pause\n  muster stack rollout web promote motd"
    )]
    Rollout(rollout::Rollout),
    /// Compare every resource of a stack with its node; changes nothing
    ///
    /// A resource that differs is FAILED until the next update repairs it.
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
    /// List the stored revisions of a stack
    #[command(after_help = "Example:\n  muster stack revisions web")]
    Revisions(Name),
    /// List the failures of a stack's last operation, with the cause of each attempt
    #[command(after_help = "Example:\n  muster stack failures web")]
    Failures(Name),
    /// List the events of a stack
    ///
    /// With --follow the command prints new events until the stack is gone, across restarts of the
    /// controller. Each event is one line; with -o json each line is a JSON document.
    #[command(after_help = "Example:\n  muster stack events web\n  muster stack events web --follow -o json")]
    Events(Events),
    /// Show which resource needs which: as a table, JSON, Graphviz's language or a picture
    ///
    /// Boxes have the colour of their status. The picture draws up to 1,000 resources, those first that
    /// failed or are under way, and says what it leaves out.
    #[command(
        after_help = "Example:\n  muster stack graph web\n  muster stack graph web -o svg > web.svg\n  \
                            muster stack graph web -o dot > web.dot"
    )]
    Graph(Graph),
    /// Validate a template; needs no controller
    ///
    /// The command lists required parameters that were not given. They are no error.
    #[command(after_help = "Example:\n  muster stack validate -t web.yaml -P greeting=hello")]
    Validate(Validate),
}

/// A stack.
#[derive(Args)]
pub struct Name {
    /// Name of the stack
    name: StackName,
}

/// `-e` and `-P`
#[derive(Args)]
pub struct EnvironmentArgs {
    /// Environment file (parameters, resource registry, hooks). Repeatable; later files win
    #[arg(short = 'e', long = "environment", value_name = "FILE")]
    environments: Vec<PathBuf>,
    /// Value of a parameter. Repeatable
    #[arg(short = 'P', long = "parameter", value_name = "KEY=VALUE", value_parser = crate::source::parameter)]
    parameters: Vec<(String, String)>,
}

/// The options of an operation.
#[derive(Args)]
pub struct OperationArgs {
    /// Roll back if the operation fails
    #[arg(long)]
    rollback: bool,
    /// Remove obsolete resources before new ones are made, where there is no room for both
    #[arg(long)]
    delete_first: bool,
    /// Refuse nodes that never joined or are revoked, instead of waiting for them
    #[arg(long)]
    require_nodes: bool,
    /// Take over what would be created as it is on its server: compare it, fail where it differs, change nothing
    #[arg(long)]
    adopt: bool,
    /// Refuse a 'for_each' whose selector matches more nodes than this
    #[arg(long, value_name = "N")]
    max_nodes: Option<u32>,
    /// Fail the operation after this many seconds; also limits --wait
    #[arg(long, value_name = "SECONDS", value_parser = within(1..=YEAR))]
    timeout: Option<u64>,
    /// Wait for the end of the operation, and show progress
    #[arg(long)]
    wait: bool,
}

/// Whether to wait.
#[derive(Args)]
pub struct Wait {
    /// Wait for the end of the operation, and show progress
    #[arg(long)]
    wait: bool,
    /// Stop waiting after this time
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = within(1..=YEAR))]
    timeout: Option<u64>,
}

/// `stack create`
#[derive(Args)]
pub struct Create {
    /// Name of the new stack
    name: StackName,
    /// Template file; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    template: PathBuf,
    #[command(flatten)]
    given: EnvironmentArgs,
    #[command(flatten)]
    how: OperationArgs,
}

/// The values that a changed stack keeps.
#[derive(Args)]
pub struct KeptArgs {
    /// Keep current parameters and environments that are not given
    #[arg(long)]
    existing: bool,
    /// Return a parameter to its default all the same; may be repeated
    #[arg(long, value_name = "NAME", requires = "existing")]
    clear_parameter: Vec<String>,
}

/// `stack update`
#[derive(Args)]
pub struct Update {
    /// Name of the stack
    name: StackName,
    /// Template file; - reads stdin [default: the current template]
    #[arg(short, long, value_name = "FILE")]
    template: Option<PathBuf>,
    #[command(flatten)]
    kept: KeptArgs,
    /// Compare every resource with its node and repair it, also if the template is unchanged
    #[arg(long)]
    converge: bool,
    #[command(flatten)]
    given: EnvironmentArgs,
    #[command(flatten)]
    how: OperationArgs,
}

/// `stack preview`
#[derive(Args)]
pub struct Preview {
    /// Name of the stack
    name: StackName,
    /// Template file; - reads stdin [default: the current template]
    #[arg(short, long, value_name = "FILE")]
    template: Option<PathBuf>,
    #[command(flatten)]
    kept: KeptArgs,
    /// Show what 'create --adopt' and 'update --adopt' would take over; servers are not asked
    #[arg(long)]
    adopt: bool,
    #[command(flatten)]
    given: EnvironmentArgs,
}

/// `stack delete`
#[derive(Args)]
pub struct Delete {
    /// Name of the stack
    name: StackName,
    #[command(flatten)]
    wait: Wait,
}

/// `stack rollback`
#[derive(Args)]
pub struct Rollback {
    /// Name of the stack
    name: StackName,
    /// Revision to return to; 0 empties the stack [default: the last good one before the current]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    to: Option<u32>,
    #[command(flatten)]
    wait: Wait,
}

/// `stack check`
#[derive(Args)]
pub struct Check {
    /// Name of the stack
    name: StackName,
    #[command(flatten)]
    wait: Wait,
}

/// `stack template`
#[derive(Args)]
pub struct Template {
    /// Name of the stack
    name: StackName,
    /// Revision to print [default: the current one]
    #[arg(long)]
    revision: Option<u32>,
}

/// `stack events`
#[derive(Args)]
pub struct Events {
    /// Name of the stack
    name: StackName,
    /// Print new events until the stack is gone
    #[arg(short, long)]
    follow: bool,
}

/// `stack graph`
#[derive(Args)]
pub struct Graph {
    /// Name of the stack
    name: StackName,
    /// Output format
    // The same as everywhere, with two more values.
    #[arg(short, long, value_parser = Output::of_graphs(), default_value = "table")]
    output: Output,
}

/// `stack validate`
#[derive(Args)]
pub struct Validate {
    /// Template file; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    template: PathBuf,
    #[command(flatten)]
    given: EnvironmentArgs,
}

const STACKS: [Column<StackRow>; 5] = [
    ("NAME", |stack| cell(&stack.name)),
    ("ACTION", |stack| cell(&stack.action)),
    ("STATUS", |stack| cell(&stack.status)),
    ("REVISION", |stack| cell(&stack.revision)),
    ("UPDATED", |stack| cell(&stack.updated_at)),
];

const REVISIONS: [Column<RevisionRow>; 6] = [
    ("NUMBER", |revision| cell(&revision.number)),
    ("CREATED", |revision| cell(&revision.created_at)),
    ("MADE BY", |revision| cell(&revision.made_by)),
    ("COMPLETE", |revision| history::yes_or_no(revision.complete)),
    ("CURRENT", |revision| history::yes_or_no(revision.current)),
    ("TEMPLATE", |revision| cell(&revision.source_name)),
];

const OUTPUTS: [Column<OutputView>; 3] = [
    ("KEY", |output| cell(&output.key)),
    ("VALUE", |output| match &*output.output_error {
        "" => cell(&output.value),
        error => cell(&format!("cannot be computed: {error}")),
    }),
    ("DESCRIPTION", |output| cell(&output.description)),
];

const PROGRESS: &str = key!(StackView.progress);
const ROLLOUTS: &str = key!(StackView.rollouts);
const OUTPUTS_KEY: &str = key!(StackView.outputs);

/// The keys shown of a stack. The others are for watches.
const FIELDS: [&str; 13] = [
    key!(StackView.name),
    key!(StackView.id),
    key!(StackView.action),
    key!(StackView.status),
    key!(StackView.status_reason),
    key!(StackView.revision),
    key!(StackView.traversal),
    key!(StackView.created_at),
    key!(StackView.updated_at),
    PROGRESS,
    ROLLOUTS,
    key!(StackView.parameters),
    OUTPUTS_KEY,
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
            let stacks = Pages::of(path(["stacks"]), |stack: &StackRow| &stack.name);
            stacks.print(client, format, &STACKS).await
        }
        StackVerb::Show(Name { name }) => show(&client.get(&path(["stacks", name.as_str()])).await?, format),
        StackVerb::Template(template) => print_template(template, client, format).await,
        StackVerb::Outputs(Name { name }) => {
            let list = client.get(&path(["stacks", name.as_str(), "outputs"])).await?;
            view(format, &list, |list: &Vec<OutputView>| table(&OUTPUTS, list))
        }
        StackVerb::Graph(graph) => graph::run(graph, client).await,
        StackVerb::Revisions(Name { name }) => {
            let list = client.get(&path(["stacks", name.as_str(), "revisions"])).await?;
            view(format, &list, |list: &Vec<RevisionRow>| table(&REVISIONS, list))
        }
        StackVerb::Failures(Name { name }) => {
            let list = client.get(&path(["stacks", name.as_str(), "failures"])).await?;
            view(format, &list, history::failures)
        }
        StackVerb::Events(events) => events::run(events, client, format).await,
        StackVerb::Validate(validate) => validate::run(&validate, format),
    }
}

/// The number of a revision.
fn revision(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "takes a revision's number, as 'muster stack revisions' lists them")
}

/// A stack without what only a watch needs.
fn show(answer: &Value, format: Format) -> Result<(), Failure> {
    let mut shown = object(answer);
    shown.retain(|key, _| FIELDS.contains(&key.as_str()));
    if format != Format::Table {
        return document(format, &Value::Object(shown), |_| String::new());
    }
    let stack: StackView = read(answer)?;
    let mut put = |key: &str, value: Value| shown.insert(key.to_owned(), value);
    let ProgressView { done, total, in_flight, failed } = stack.progress;
    put(PROGRESS, Value::from(format!("{done}/{total}, {in_flight} in flight, {failed} failed")));
    put(ROLLOUTS, Value::from(rollout::drawn(&stack.rollouts).join("; ")));
    let shown_output = |output: OutputView| match output.output_error.is_empty() {
        true => (word(&output.key), output.value),
        false => (word(&output.key), Value::from(format!("cannot be computed: {}", output.output_error))),
    };
    put(OUTPUTS_KEY, stack.outputs.into_iter().map(shown_output).collect());
    if stack.rollouts.is_empty() {
        shown.remove(ROLLOUTS);
    }
    print(&fields(&FIELDS, &shown))
}

async fn print_template(asked: Template, client: &mut Client, format: Format) -> Result<(), Failure> {
    let at = path(["stacks", asked.name.as_str(), "template"]);
    let at = asked.revision.map_or_else(|| at.clone(), |revision| format!("{at}?revision={revision}"));
    let answer = client.get(&at).await?;
    view(format, &answer, |template: &TemplateView| template.template.clone())
}
