//! `muster node …`

mod wait;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use hyper::Method;
use muster_api::node::{
    ChangeLabels, CreateToken, LostView, Maintenance, NodeRemoved, NodeView, TokenCreated,
};
use muster_shared::time::clock_off;
use muster_shared::{NodeId, Rate};
use muster_template::Selector;
use serde_json::{Value, json};

use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, count, document, fields, print, read, table, view, word};
use crate::pages::Pages;
use crate::span::{YEAR, seconds, within};
use crate::status;

/// Verbs.
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

const NODES: [Column; 7] = [
    ("NAME", "name"),
    ("STATE", "state"),
    ("LABELS", "labels"),
    ("AGENT", "agent_version"),
    ("LAST SEEN", "last_seen"),
    ("RESOURCES", "resources"),
    ("DRIFTED", "drifted"),
];

const DISKS: [Column; 4] =
    [("DISK", "name"), ("SIZE", "size"), ("MODEL", "model"), ("ROTATIONAL", "rotational")];

const NEIGHBOURS: [Column; 7] = [
    ("LINK", "link"),
    ("NEIGHBOUR", "system_name"),
    ("PORT", "port_id"),
    ("DESCRIPTION", "port_description"),
    ("VLAN", "vlan"),
    ("CHASSIS", "chassis_id"),
    ("MANAGEMENT", "management_addresses"),
];

const LINKS: [Column; 12] = [
    ("LINK", "name"),
    ("KIND", "kind"),
    ("DRIVER", "driver"),
    ("PCI", "pci_address"),
    ("UP", "up"),
    ("CARRIER", "carrier"),
    ("SPEED", "speed"),
    ("MTU", "mtu"),
    ("MAC", "mac"),
    ("ADDRESSES", "addresses"),
    ("RX", "rx"),
    ("TX", "tx"),
];

const DRIFTS: [Column; 9] = [
    ("NODE", "node"),
    ("STACK", "stack"),
    ("RESOURCE", "resource"),
    ("OBSERVED", "observed"),
    ("POLICY", "policy"),
    ("PHASE", "phase"),
    ("CORRECTED", "corrections"),
    ("BREAKER", "breaker"),
    ("REASON", "reason"),
];

const TOKENS: [Column; 6] = [
    ("ID", "id"),
    ("EXPIRES", "expires"),
    ("USES LEFT", "uses_left"),
    ("RATE", "rate"),
    ("NAME", "name"),
    ("LABELS", "labels"),
];

const LOST: [Column; 5] = [
    ("STACK", "stack"),
    ("RESOURCE", "resource"),
    ("TYPE", "type"),
    ("PHYSICAL ID", "physical_id"),
    ("REASON", "reason"),
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
            document(format, &client.get(&path(["tokens"])).await?, |list| table(&TOKENS, list))
        }
        NodeVerb::TokenRevoke { id } => {
            let answer = client.send(Method::DELETE, &path(["tokens", &id]), None).await?;
            if format == Format::Table {
                return print(&format!("token {id} is revoked\n"));
            }
            document(format, &answer, |_| String::new())
        }
        NodeVerb::List { selector } => {
            // Facts are with the controller.
            let of = match selector.is_empty() {
                true => String::new(),
                false => format!("?selector={}", escaped(&selector)),
            };
            let nodes = Pages::of(format!("{}{of}", path(["nodes"])), "name");
            let remarks = RefCell::new(BTreeSet::new());
            let row = |row: Value| {
                let Ok(node) = read::<NodeView>(&row) else { return row };
                let mut remarks = remarks.borrow_mut();
                remarks.extend(node.mac_conflicts.iter().map(|claim| format!("conflict: {}\n", word(claim))));
                remarks.extend(held(&node));
                let ahead = node.clock_off_s;
                remarks.extend(
                    ahead.map(|ahead| format!("clock: {} is {}\n", word(&node.name), clock_off(ahead))),
                );
                with_reason(row, &node)
            };
            nodes.print(client, format, &NODES, row).await?;
            print(&remarks.into_inner().into_iter().collect::<String>())?;
            status::warn_if_read_only(client).await;
            Ok(())
        }
        NodeVerb::Wait { selector, count, timeout } => {
            wait::wait(&selector, count, timeout, client, format).await
        }
        NodeVerb::Show { node } => {
            let answer = client.get(&path(["nodes", node.as_str()])).await?;
            match format {
                Format::Table => print(&shown(&answer)?),
                Format::Json | Format::Yaml => document(format, &answer, |_| String::new()),
            }
        }
        NodeVerb::Facts { node } => {
            document(format, &client.get(&path(["nodes", node.as_str(), "facts"])).await?, facts)
        }
        NodeVerb::Drift { node } => {
            let of = node.map(|node| format!("?node={node}")).unwrap_or_default();
            let list = client.get(&format!("{}{of}", path(["drift"]))).await?;
            document(format, &list, |list| table(&DRIFTS, list))
        }
        NodeVerb::Label { node, labels } => {
            let labels: BTreeMap<String, Option<String>> = labels.into_iter().collect();
            let at = path(["nodes", node.as_str()]);
            let answer = client.send(Method::PATCH, &at, Some(&json!(ChangeLabels { labels }))).await?;
            document(format, &answer, |view| format!("{node}: {}\n", cell(&view["labels"])))
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
        NodeVerb::Remove { node } => {
            let answer = client.send(Method::DELETE, &path(["nodes", node.as_str()]), None).await?;
            view(format, &answer, |removed| left_behind(&node, removed))
        }
    }
}

/// Of a node that holds what a restored store does not know.
fn held(node: &NodeView) -> Option<String> {
    let name = word(&node.name);
    let wait = if node.held == 1 { "waits" } else { "wait" };
    (node.held > 0).then(|| {
        let things = count(node.held, "thing");
        format!("undecided: {things} on {name} {wait}: muster restore list --node {name}\n")
    })
}

/// For eyes: a node of which two agents run, with where they are; one whose disk is full, with which; a clock that is off.
fn with_reason(mut row: Value, node: &NodeView) -> Value {
    match &*node.state {
        "conflict" => row["state"] = json!(format!("conflict: {}", node.conflict.join(", "))),
        "disk_full" => {
            let disk = word(node.state_reason.as_deref().unwrap_or_default());
            row["state"] = json!(format!("disk full: {disk}"));
        }
        _ => {}
    }
    row.as_object_mut().map(|row| row.remove("clock_off_s"));
    if let Some(ahead) = node.clock_off_s {
        row["clock"] = json!(clock_off(ahead));
    }
    row
}

fn shown(answer: &Value) -> Result<String, Failure> {
    let node: NodeView = read(answer)?;
    let mut own = with_reason(answer.clone(), &node);
    if let Some(own) = own.as_object_mut() {
        own.retain(|key, value| key != "lost" && (key != "held" || *value != 0));
    }
    let mut out = fields(&NODES.map(|(_, key)| key), &own);
    out.push_str(&held(&node).unwrap_or_default());
    if !node.lost.is_empty() {
        out.push_str("\nMay be left on it; cleaned up first when it comes again:\n");
        out.push_str(&table(&LOST, &json!(node.lost)));
        out.push_str(&more(&node.lost, node.lost_total));
    }
    Ok(out)
}

fn facts(node: &Value) -> String {
    let mut own = node.clone();
    let mut take = |key| own.as_object_mut().and_then(|node| node.remove(key)).unwrap_or_default();
    let (mut links, disks) = (take("links"), take("disks"));
    let mut neighbours = Vec::new();
    for link in links.as_array_mut().into_iter().flatten() {
        let heard = link.as_object_mut().and_then(|link| link.remove("neighbours")).unwrap_or_default();
        for mut neighbour in heard.as_array().cloned().unwrap_or_default() {
            neighbour["link"] = link["name"].clone();
            neighbours.push(neighbour);
        }
    }
    let order = [
        "name",
        "told_at",
        "age",
        "hostname",
        "os",
        "kernel",
        "architecture",
        "cpus",
        "cpu_model",
        "memory",
        "booted_at",
        "agent_version",
    ];
    let mut out = fields(&order, &own);
    for (columns, list) in [(&DISKS[..], disks), (&LINKS, links), (&NEIGHBOURS, Value::Array(neighbours))] {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            out.push('\n');
            out.push_str(&table(columns, &list));
        }
    }
    out
}

fn left_behind(node: &NodeId, removed: &NodeRemoved) -> String {
    let NodeRemoved { lost, lost_total, .. } = removed;
    match *lost_total {
        0 => format!("{node} is removed; nothing was left behind on it\n"),
        total => format!(
            "{node} is removed; {} may be left on it, cleaned up first should it join again:\n{}{}",
            count(total, "resource"),
            table(&LOST, &json!(lost)),
            more(lost, *lost_total)
        ),
    }
}

/// Of very many lost resources only the first are told.
fn more(told: &[LostView], total: u64) -> String {
    let told = told.len() as u64;
    if total > told { format!("and {} more\n", total - told) } else { String::new() }
}

/// As it is, once it can be read.
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
