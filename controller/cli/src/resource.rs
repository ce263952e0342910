//! `muster resource …`

use clap::{Args, Subcommand};
use muster_shared::StackName;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, document, fields, table};

/// Verbs.
#[derive(Subcommand)]
pub enum ResourceVerb {
    /// List the resources of a stack
    #[command(after_help = "Example:\n  muster resource list web -o json")]
    List(List),
    /// Show one resource
    #[command(after_help = "Example:\n  muster resource show web motd")]
    Show(Show),
}

/// `resource list`
#[derive(Args)]
pub struct List {
    /// The stack
    stack: StackName,
    /// Rows that are being replaced or cleaned up, too
    #[arg(long)]
    all: bool,
}

/// `resource show`
#[derive(Args)]
pub struct Show {
    /// The stack
    stack: StackName,
    /// Its name in the template, or its physical id
    resource: String,
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

const FIELDS: [&str; 16] = [
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
    "generation",
    "retry_count",
    "replaces",
    "replaced_by",
];

/// Does it.
pub async fn run(verb: ResourceVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        ResourceVerb::List(List { stack, all }) => {
            let at = format!("{}?all={all}", path(["stacks", stack.as_str(), "resources"]));
            document(format, &client.get(&at).await?, |list| table(&COLUMNS, list))
        }
        ResourceVerb::Show(Show { stack, resource }) => {
            let at = path(["stacks", stack.as_str(), "resources", &resource]);
            document(format, &client.get(&at).await?, |row| fields(&FIELDS, row))
        }
    }
}
