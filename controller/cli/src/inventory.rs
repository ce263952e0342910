//! `muster inventory`: the nodes as an inventory of Ansible, as its plugin `script` reads them. Decides which groups
//! there are, and which variables a node has.
//!
//! Absent: facts and their names (`controller/template/src/fact.rs`), and the address of a node
//! (`controller/engine/src/node/clones.rs`).

use std::collections::{BTreeMap, BTreeSet};

use clap::{ArgGroup, Args};
use muster_api::node::NodeView;
use muster_shared::NodeId;
use serde_json::{Map, Value, json};

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, document, read};
use crate::pages::Pages;

/// Groups of states. The name of a label's group has a `_`, so it is none of these.
const STATES: [&str; 3] = ["online", "offline", "maintenance"];

/// `inventory`
#[derive(Args)]
#[command(group(ArgGroup::new("request").args(["list", "host"]).required(true)))]
pub struct Inventory {
    /// Print all groups, and the variables of all nodes
    #[arg(long)]
    list: bool,
    /// Print the variables of one node; {} if there is no such node
    #[arg(long, value_name = "NAME")]
    host: Option<NodeId>,
    /// Add the facts of each node, as muster_facts
    ///
    /// Facts are up to 64 KiB of each server, and Ansible reads the whole inventory at each run: so they come only where
    /// playbooks use them.
    #[arg(long)]
    facts: bool,
}

/// Does it.
pub async fn run(
    Inventory { host, facts, .. }: Inventory,
    client: &mut Client,
    format: Format,
) -> Result<(), Failure> {
    let query = if facts { "?facts=true" } else { "" };
    let inventory = match host {
        Some(name) => one(&name, query, client).await?,
        None => all(query, client).await?,
    };
    // Ansible reads JSON, so that is also what is printed without -o.
    document(format, &inventory, |inventory| format!("{inventory:#}\n"))
}

async fn one(name: &NodeId, query: &str, client: &mut Client) -> Result<Value, Failure> {
    match client.get(&format!("{}{query}", path(["nodes", name.as_str()]))).await {
        Ok(answer) => Ok(json!(variables(read(&answer)?).unwrap_or_default())),
        Err(failure) if failure.missing => Ok(json!({})),
        Err(failure) => Err(failure),
    }
}

async fn all(query: &str, client: &mut Client) -> Result<Value, Failure> {
    let mut pages = Pages::of(format!("{}{query}", path(["nodes"])), |node: &NodeView| &node.name);
    let mut groups = Groups::default();
    while let Some(page) = pages.next(client).await? {
        for node in &page {
            groups.add(read(node)?);
        }
    }
    Ok(groups.document())
}

/// The nodes of each group, and the variables of each node.
struct Groups {
    named: BTreeMap<String, BTreeSet<String>>,
    ungrouped: BTreeSet<String>,
    variables: Map<String, Value>,
}

impl Default for Groups {
    /// Groups of states are there without nodes, too: a playbook for an unknown group gets a warning.
    fn default() -> Self {
        let named = STATES.map(|state| (state.to_owned(), BTreeSet::new())).into();
        Self { named, ungrouped: BTreeSet::new(), variables: Map::new() }
    }
}

impl Groups {
    fn add(&mut self, node: NodeView) {
        let name = node.name.clone();
        let groups = groups_of(&node);
        let Some(variables) = variables(node) else { return };
        if groups.is_empty() {
            self.ungrouped.insert(name.clone());
        }
        for group in groups {
            self.named.entry(group).or_default().insert(name.clone());
        }
        self.variables.insert(name, Value::Object(variables));
    }

    fn document(self) -> Value {
        let children: Vec<&str> = self.named.keys().map(String::as_str).chain(["ungrouped"]).collect();
        let all = json!({ "children": children });
        let mut document = Map::from_iter([
            ("_meta".to_owned(), json!({ "hostvars": self.variables })),
            ("all".to_owned(), all),
            ("ungrouped".to_owned(), json!({ "hosts": self.ungrouped })),
        ]);
        document.extend(self.named.into_iter().map(|(group, hosts)| (group, json!({ "hosts": hosts }))));
        Value::Object(document)
    }
}

/// The group of a node's state, and one for each label. Labels whose groups have one name share it.
fn groups_of(node: &NodeView) -> BTreeSet<String> {
    // A full disk stops Muster's jobs, and not Ansible.
    let state = if node.state == "disk_full" { "online" } else { &node.state };
    let state = STATES.into_iter().find(|known| *known == state).map(str::to_owned);
    let labels = node.labels.iter().map(|(key, value)| group_name(&format!("{key}_{value}")));
    state.into_iter().chain(labels).collect()
}

/// A name that Ansible takes (`INVALID_VARIABLE_NAMES` in its `constants.py`): letters, digits and `_`, of which no
/// digit is the first.
fn group_name(text: &str) -> String {
    let valid = |(index, c): (usize, char)| match c {
        'a'..='z' | 'A'..='Z' | '_' => c,
        '0'..='9' if index > 0 => c,
        _ => '_',
    };
    text.chars().enumerate().map(valid).collect()
}

/// The variables of a node. `None`: the node was removed, and is listed only for what it may still have.
fn variables(node: NodeView) -> Option<Map<String, Value>> {
    let NodeView { state, labels, agent_version, address, facts, .. } = node;
    if state == "lost" {
        return None;
    }
    let variables = [
        ("ansible_host", address.map(|address| json!(address))),
        ("muster_agent_version", Some(json!(agent_version))),
        ("muster_facts", facts.map(Value::Object)),
        ("muster_labels", Some(json!(labels))),
        ("muster_state", Some(json!(state))),
    ];
    let given = variables.into_iter().filter_map(|(name, value)| Some((name.to_owned(), literal(value?))));
    Some(given.collect())
}

/// The value with no text that Ansible would evaluate as a template. Agents and neighbours on the cable write facts,
/// and a template runs commands on the host of Ansible.
fn literal(value: Value) -> Value {
    match value {
        // A text has a template's braces, or begins with a line that sets others (`#jinja2:`).
        Value::String(text) if text.contains('{') || text.starts_with('#') => {
            json!({ "__ansible_unsafe": text })
        }
        Value::Array(items) => items.into_iter().map(literal).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, literal(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests;
