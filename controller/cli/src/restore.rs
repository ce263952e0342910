//! `muster restore …`: what servers hold and a restored store does not know.
//!
//! Absent: what differs and waits (`controller/engine/src/restored/compare.rs`), and restoring a backup, which is
//! `muster-controller restore` (`controller/src/store/backup.rs`).

use clap::{ArgGroup, Args, Subcommand};
use hyper::Method;
use muster_api::site::{Decide, Decided, HeldView, Verdict};
use muster_shared::NodeId;
use serde_json::json;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, count, table, view};

#[derive(Subcommand)]
pub enum RestoreVerb {
    /// List what waits for a decision
    ///
    /// States: 'unknown', the database has no record of it; 'newer', changed since the backup; 'deleted',
    /// gone since the backup; 'table', rules of a device differ.
    #[command(after_help = "Example:\n  muster restore list --node web-1.example.org")]
    List {
        /// List this node only
        #[arg(long)]
        node: Option<NodeId>,
    },
    /// Keep what the servers have
    ///
    /// Unknown resources stay on their servers and leave Muster. Newer resources stay until the next update
    /// of their stack. Deleted resources are not made again before that update. The rules of a device stay.
    #[command(
        after_help = "Example:\n  muster restore adopt web-1.example.org/br0\n  muster restore adopt --all"
    )]
    Adopt(Selection),
    /// Make the servers what the database says
    ///
    /// Newer resources return to the database's state, deleted ones are made again, and unknown rules of a
    /// device are removed. Unknown resources are deleted, and the earlier state is restored. An offline node
    /// does that when it connects.
    #[command(
        after_help = "Example:\n  muster restore remove web-1.example.org/br0\n  muster restore remove --all --node web-1.example.org"
    )]
    Remove(Selection),
}

/// The things to decide about: all or none of them.
#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("which").required(true).args(["ids", "all"])))]
pub struct Selection {
    /// Name, as 'muster restore list' shows it
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Everything in the list; an offline node adds to the list when it connects
    #[arg(long)]
    all: bool,
    /// With --all: this node only
    #[arg(long, requires = "all")]
    node: Option<NodeId>,
}

const HELD: [Column<HeldView>; 9] = [
    ("ID", |held| cell(&held.id)),
    ("NODE", |held| cell(&held.node)),
    ("STATE", |held| cell(&held.state)),
    ("TYPE", |held| cell(&held.kind)),
    ("THING", |held| cell(&held.thing)),
    ("STACK", |held| cell(&held.stack)),
    ("RESOURCE", |held| cell(&held.resource)),
    ("RULES", |held| cell(&held.rules)),
    ("REASON", |held| cell(&held.reason)),
];

/// Does it.
pub async fn run(verb: RestoreVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    let (verdict, which) = match verb {
        RestoreVerb::List { node } => {
            let of = node.map(|node| format!("?node={node}")).unwrap_or_default();
            let list = client.get(&format!("{}{of}", path(["restore"]))).await?;
            return view(format, &list, |list: &Vec<HeldView>| table(&HELD, list));
        }
        RestoreVerb::Adopt(which) => (Verdict::Adopt, which),
        RestoreVerb::Remove(which) => (Verdict::Remove, which),
    };
    let ids = (!which.all).then_some(which.ids);
    let body = json!(Decide { verdict, ids, node: which.node });
    let answer = client.send(Method::POST, &path(["restore"]), Some(&body)).await?;
    view(format, &answer, still_waiting)
}

fn still_waiting(left: &Decided) -> String {
    match (left.restored, left.waiting) {
        (false, 0) => "all is decided: the site is not restored any more\n".to_owned(),
        (_, 0) => "nothing waits; nodes that have not come since the restore are waited for\n".to_owned(),
        (_, waiting) => format!("{} left: muster restore list\n", count(waiting, "thing")),
    }
}
