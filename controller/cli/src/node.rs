//! `muster node …`: its verbs and flags, and the tables of nodes, drift and tokens. Sets how long a join token is valid
//! where no flag says it.
//!
//! Absent: the state of a node (`controller/engine/src/view/site.rs`), and what a request changes
//! (`controller/engine/src/node/requests.rs`).

mod facts;
mod moving;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use hyper::Method;
use muster_api::node::{
    ChangeLabels, CreateToken, DriftView, LostView, Maintenance, NodeRemoved, NodeView, TokenCreated,
    TokenRow,
};
use muster_shared::time::clock_off;
use muster_shared::{NodeId, Rate};
use muster_template::Selector;
use serde_json::{Value, json};

use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::output::{
    Column, Format, cell, count, document, fields, key, object, print, read, table, view, word, written,
};
use crate::pages::{List, Pages};
use crate::span::{YEAR, seconds, within};
use crate::status;
use moving::Move;

#[derive(Subcommand)]
pub enum NodeVerb {
    /// Make a join token and print it on stdout
    ///
    /// The token decides the server's name, or a pattern for the name, and its labels. With --any-name the
    /// server chooses its name.
    #[command(after_help = "Example:\n  muster node token --name web-1.example.org --label role=web\n  \
                      muster node token --ttl 1d --uses 40 --rate 10/s --name 'web-*.example.org' --label role=web")]
    Token(Token),
    /// List the valid join tokens
    #[command(after_help = "Example:\n  muster node tokens")]
    Tokens,
    /// Revoke a join token
    #[command(after_help = "Example:\n  muster node token-revoke 1f0c6a2e9b3d4f57")]
    TokenRevoke {
        /// Token id, as 'muster node tokens' shows it
        id: String,
    },
    /// List the nodes
    #[command(after_help = "Example:\n  muster node list -l role=web,zone!=b\n  \
                      muster node list -l 'fact.os.id=debian,fact.memory>=16G,fact.links.*.speed>=10000'")]
    List {
        /// Select nodes by labels and facts: k=v, k!=v, k, !k, k>=4, joined by commas. Names of facts begin
        /// with 'fact.'
        #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true, value_parser = selector)]
        selector: String,
    },
    /// Show a node, and the resources that may be left on it after 'node remove'
    #[command(after_help = "Example:\n  muster node show web-1.example.org")]
    Show {
        /// Name of the node
        node: NodeId,
    },
    /// Show the facts of a node: system, disks, interfaces with counters, LLDP neighbours
    ///
    /// The command asks the agent for current counters. For an offline node it shows the last facts and their
    /// age.
    #[command(after_help = "Example:\n  muster node facts web-1.example.org -o json")]
    Facts {
        /// Name of the node
        node: NodeId,
    },
    /// List drift: resources that differ from their desired state
    #[command(after_help = "Example:\n  muster node drift web-1.example.org")]
    Drift {
        /// List this node only
        node: Option<NodeId>,
    },
    /// Wait until a number of nodes is online
    ///
    /// Nodes in maintenance do not count. After --timeout the command ends with exit code 3.
    #[command(after_help = "Example:\n  muster node wait -l role=web --count 40 --timeout 600")]
    Wait {
        /// Select nodes by labels and facts, as in 'muster node list'
        #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true, value_parser = selector)]
        selector: String,
        /// Number of nodes to wait for
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
        /// Stop waiting after this time [default: never]
        #[arg(long, value_name = "SECONDS", value_parser = within(1..=YEAR))]
        timeout: Option<u64>,
    },
    /// Set and remove labels
    #[command(after_help = "Example:\n  muster node label web-1.example.org role=web zone=b old-")]
    Label {
        /// Name of the node
        node: NodeId,
        /// Label to set, or key of a label to remove, followed by '-'
        #[arg(required = true, value_name = "KEY=VALUE|KEY-", value_parser = label)]
        labels: Vec<(String, Option<String>)>,
    },
    /// Hold back the jobs of a node, or release them
    ///
    /// Jobs that the agent already has run to their end. New jobs and corrections wait until maintenance is
    /// off; drift is still reported. The state survives restarts of controller and agent.
    #[command(after_help = "Example:\n  muster node maintenance web-1.example.org on")]
    Maintenance {
        /// Name of the node
        node: NodeId,
        /// New state
        #[arg(value_parser = ["on", "off"])]
        state: String,
    },
    /// Disconnect a node and refuse it
    ///
    /// The node's resources stay, and their jobs wait, as for an offline node. The node joins again only with
    /// a token for exactly its name.
    #[command(after_help = "Example:\n  muster node revoke web-1.example.org")]
    Revoke {
        /// Name of the node
        node: NodeId,
    },
    /// Remove a node that does not come back
    ///
    /// The command lists what may be left on the server. If a node of that name joins again, its agent cleans
    /// that up first. Resources bound to the name wait for such a node; other resources move.
    #[command(after_help = "Example:\n  muster node remove web-1.example.org")]
    Remove {
        /// Name of the node
        node: NodeId,
    },
    /// Move a node to another site; nothing on its server changes
    ///
    /// The agent joins the other site, and this one forgets the node once it has. A node with resources of
    /// stacks, or with flow rules, is refused: delete those first. 'deletion_policy: retain' leaves what a stack
    /// made on the server, where a stack of the other site takes it over. A node that cannot join the other
    /// site stays as it is.
    #[command(after_help = "Example:\n  muster node move web-1.example.org --site lab-b\n  \
                      muster node move web-1.example.org --token -")]
    Move(Move),
}

/// `node token`
#[derive(Args)]
pub struct Token {
    /// Lifetime: a number with s, m, h or d
    #[arg(long, default_value = "1h", value_parser = seconds)]
    ttl: u64,
    /// Number of nodes that may join with the token
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    uses: u32,
    /// Rate at which nodes may join, such as 10/s, 30/m or 100/h; nodes that come too early wait
    #[arg(long, value_name = "N/s|N/m|N/h")]
    rate: Option<Rate>,
    /// Name of the node, or a pattern: '*' stands for any characters up to a dot
    #[arg(long, value_name = "FQDN|PATTERN")]
    name: Option<String>,
    /// Allow any name that no other node has
    #[arg(long, conflicts_with = "name")]
    any_name: bool,
    /// Label for nodes that join with the token. Repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = crate::source::parameter)]
    labels: Vec<(String, String)>,
}

const NODES: [Column<NodeView>; 7] = [
    ("NAME", |node| cell(&node.name)),
    ("STATE", |node| word(&state(node))),
    ("LABELS", |node| cell(&node.labels)),
    ("AGENT", |node| cell(&node.agent_version)),
    ("LAST SEEN", |node| cell(&node.last_seen)),
    ("RESOURCES", |node| cell(&node.resources)),
    ("DRIFTED", |node| cell(&node.drifted)),
];

/// The first keys of a single node.
const FIELDS: [&str; 8] = [
    key!(NodeView.name),
    key!(NodeView.state),
    key!(NodeView.labels),
    key!(NodeView.agent_version),
    key!(NodeView.address),
    key!(NodeView.last_seen),
    key!(NodeView.resources),
    key!(NodeView.drifted),
];

const DRIFTS: [Column<DriftView>; 9] = [
    ("NODE", |drift| cell(&drift.node)),
    ("STACK", |drift| cell(&drift.stack)),
    ("RESOURCE", |drift| cell(&drift.resource)),
    ("OBSERVED", |drift| cell(&drift.observed)),
    ("POLICY", |drift| cell(&drift.policy)),
    ("PHASE", |drift| cell(&drift.phase)),
    ("CORRECTED", |drift| cell(&drift.corrections)),
    ("BREAKER", |drift| cell(&drift.breaker)),
    ("REASON", |drift| cell(&drift.reason)),
];

const TOKENS: [Column<TokenRow>; 6] = [
    ("ID", |token| cell(&token.id)),
    ("EXPIRES", |token| cell(&token.expires)),
    ("USES LEFT", |token| cell(&token.uses_left)),
    ("RATE", |token| cell(&token.rate)),
    ("NAME", |token| cell(&token.name)),
    ("LABELS", |token| cell(&token.labels)),
];

const LOST: [Column<LostView>; 5] = [
    ("STACK", |lost| cell(&lost.stack)),
    ("RESOURCE", |lost| cell(&lost.resource)),
    ("TYPE", |lost| cell(&lost.kind)),
    ("PHYSICAL ID", |lost| cell(&lost.physical_id)),
    ("REASON", |lost| cell(&lost.reason)),
];

/// Does it.
pub async fn run(verb: NodeVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        NodeVerb::Token(Token { ttl, uses, rate, name, any_name, labels }) => {
            if name.is_none() && !any_name {
                return Err(Failure::usage(
                    "a join token needs --name FQDN, such as --name web-1.example.org or --name 'web-*.example.org', or \
                     --any-name, which lets a server join under any name",
                ));
            }
            let labels: BTreeMap<String, String> = labels.into_iter().collect();
            let rate = rate.map(|rate| rate.to_string());
            let body = json!(CreateToken { ttl, uses, name, labels, rate });
            let answer = client.send(Method::POST, &path(["tokens"]), Some(&body)).await?;
            view(format, &answer, |created: &TokenCreated| format!("{}\n", created.token))
        }
        NodeVerb::Tokens => {
            let list = client.get(&path(["tokens"])).await?;
            view(format, &list, |list: &Vec<TokenRow>| table(&TOKENS, list))
        }
        NodeVerb::TokenRevoke { id } => {
            let answer = client.send(Method::DELETE, &path(["tokens", &id]), None).await?;
            if format == Format::Table {
                return print(&format!("token {id} is revoked\n"));
            }
            document(format, &answer, |_| String::new())
        }
        NodeVerb::List { selector } => list(&selector, client, format).await,
        NodeVerb::Wait { selector, count, timeout } => {
            wait::wait(&selector, count, timeout, client, format).await
        }
        NodeVerb::Show { node } => {
            let answer = client.get(&path(["nodes", node.as_str()])).await?;
            written(format, &answer, shown)
        }
        NodeVerb::Facts { node } => {
            let answer = client.get(&path(["nodes", node.as_str(), "facts"])).await?;
            written(format, &answer, facts::shown)
        }
        NodeVerb::Drift { node } => {
            let of = node.map(|node| format!("?node={node}")).unwrap_or_default();
            let list = client.get(&format!("{}{of}", path(["drift"]))).await?;
            view(format, &list, |list: &Vec<DriftView>| table(&DRIFTS, list))
        }
        NodeVerb::Label { node, labels } => {
            let labels: BTreeMap<String, Option<String>> = labels.into_iter().collect();
            let at = path(["nodes", node.as_str()]);
            let answer = client.send(Method::PATCH, &at, Some(&json!(ChangeLabels { labels }))).await?;
            view(format, &answer, |view: &NodeView| format!("{node}: {}\n", cell(&view.labels)))
        }
        NodeVerb::Maintenance { node, state } => {
            let at = path(["nodes", node.as_str(), "maintenance"]);
            let answer =
                client.send(Method::POST, &at, Some(&json!(Maintenance { on: state == "on" }))).await?;
            view(format, &answer, |view: &NodeView| format!("{node}: {}\n", word(&view.state)))
        }
        NodeVerb::Revoke { node } => {
            let at = path(["nodes", node.as_str(), "revoke"]);
            let answer = client.send(Method::POST, &at, None).await?;
            let text = format!(
                "{node} is cut off; it joins again with a token for its name: muster node token --name {node}\n"
            );
            document(format, &answer, |_| text)
        }
        NodeVerb::Move(change) => moving::run(change, client, format).await,
        NodeVerb::Remove { node } => {
            let answer = client.send(Method::DELETE, &path(["nodes", node.as_str()]), None).await?;
            view(format, &answer, |removed| left_behind(&node, removed))
        }
    }
}

/// A hint about a node that holds resources unknown to a restored store.
fn held(node: &NodeView) -> Option<String> {
    let name = word(&node.name);
    let wait = if node.held == 1 { "waits" } else { "wait" };
    (node.held > 0).then(|| {
        let things = count(node.held, "thing");
        format!("undecided: {things} on {name} {wait}: muster restore list --node {name}\n")
    })
}

/// The state for people: with the addresses if two agents of the node run, and with the disk if one is full.
fn state(node: &NodeView) -> String {
    match &*node.state {
        "conflict" => format!("conflict: {}", node.conflict.join(", ")),
        "disk_full" => format!("disk full: {}", word(node.state_reason.as_deref().unwrap_or_default())),
        state => state.to_owned(),
    }
}

/// Page after page, then what deserves attention.
async fn list(selector: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    // Facts are with the controller.
    let of = if selector.is_empty() { String::new() } else { format!("?selector={}", escaped(selector)) };
    let mut nodes = Pages::of(format!("{}{of}", path(["nodes"])), |node: &NodeView| &node.name);
    let mut list = List::new(format, &NODES);
    let mut remarks = BTreeSet::new();
    while let Some(page) = nodes.next(client).await? {
        if format == Format::Table {
            for node in &page {
                remarks.extend(remarks_on(&read(node)?));
            }
        }
        list.print(&page)?;
    }
    list.end()?;
    print(&remarks.into_iter().collect::<String>())?;
    status::warn_if_read_only(client).await;
    Ok(())
}

fn remarks_on(node: &NodeView) -> Vec<String> {
    let conflict = |claim: &String| format!("conflict: {}\n", word(claim));
    let clock = |ahead: i64| format!("clock: {} is {}\n", word(&node.name), clock_off(ahead));
    let conflicts = node.mac_conflicts.iter().map(conflict);
    conflicts.chain(held(node)).chain(node.clock_off_s.map(clock)).collect()
}

fn shown(answer: &Value) -> Result<String, Failure> {
    let node: NodeView = read(answer)?;
    let mut own = object(answer);
    own.insert(key!(NodeView.state).to_owned(), Value::from(state(&node)));
    own.remove(key!(NodeView.lost));
    own.remove(key!(NodeView.clock_off_s));
    if node.held == 0 {
        own.remove(key!(NodeView.held));
    }
    if let Some(ahead) = node.clock_off_s {
        own.insert("clock".to_owned(), Value::from(clock_off(ahead)));
    }
    let mut out = fields(&FIELDS, &own);
    out.push_str(&held(&node).unwrap_or_default());
    if !node.lost.is_empty() {
        out.push_str("\nMay be left on it; cleaned up first when it comes again:\n");
        out.push_str(&table(&LOST, &node.lost));
        out.push_str(&more(&node.lost, node.lost_total));
    }
    Ok(out)
}

fn left_behind(node: &NodeId, removed: &NodeRemoved) -> String {
    let NodeRemoved { lost, lost_total, .. } = removed;
    match *lost_total {
        0 => format!("{node} is removed; nothing was left behind on it\n"),
        total => format!(
            "{node} is removed; {} may be left on it, cleaned up first should it join again:\n{}{}",
            count(total, "resource"),
            table(&LOST, lost),
            more(lost, *lost_total)
        ),
    }
}

/// If there are very many lost resources, only the first are listed.
fn more(told: &[LostView], total: u64) -> String {
    let told = told.len() as u64;
    if total > told { format!("and {} more\n", total - told) } else { String::new() }
}

/// Accepts a valid selector, unchanged.
fn selector(text: &str) -> Result<String, String> {
    text.parse::<Selector>().map(|_| text.trim().to_owned())
}

/// `KEY=VALUE`, or `KEY-`.
fn label(text: &str) -> Result<(String, Option<String>), String> {
    let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => (key, Some(value.to_owned())),
        (None, Some(key)) => (key, None),
        (None, None) => ("", None),
    };
    if key.is_empty() {
        Err("want KEY=VALUE, or KEY- to remove it".to_owned())
    } else {
        Ok((key.to_owned(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        for (text, wanted) in [
            ("role=web", Some(("role", Some("web")))),
            ("role=", Some(("role", Some("")))),
            ("role=a-", Some(("role", Some("a-")))),
            ("role-", Some(("role", None))),
            ("a-b-", Some(("a-b", None))),
            ("role", None),
            ("-", None),
            ("=web", None),
            ("", None),
        ] {
            let wanted = wanted.map(|(key, value)| (key.to_owned(), value.map(ToOwned::to_owned)));
            assert_eq!(label(text).ok(), wanted, "{text}");
        }
    }
}
