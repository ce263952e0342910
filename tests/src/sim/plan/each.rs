//! Resources of a plan that each node has once: `for_each`, and the names of its members.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::record::NodeRecord;
use serde_json::{Map, Value as Json, json};

use super::{Plan, Resource, Value, What};

/// The label that selectors ask for.
pub const ROLE: &str = "role";

/// A `for_each`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Each {
    /// The selector of the nodes.
    pub nodes: Selector,
    /// Other sets, of which all members must be ready before any member of this one begins.
    pub barriers: BTreeSet<String>,
    /// The rollout by which a change goes through the members, unless it goes to all at once.
    pub rollout: Option<Rollout>,
}

/// The rollout of a change through the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The members that change at once.
    pub batch: Share,
    /// Seconds between two batches.
    pub pause: u64,
    /// More failures than this abort the rollout.
    pub max_failures: Share,
    /// The members that go first.
    pub canary: Share,
    /// The treatment of members that are away.
    pub away: &'static str,
}

/// A share of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A number of members.
    Count(usize),
    /// A number per hundred.
    Percent(usize),
}

impl Share {
    fn json(self) -> Json {
        match self {
            Share::Count(count) => json!(count),
            Share::Percent(percent) => json!(format!("{percent}%")),
        }
    }

    /// Returns the number of whole members in the share, and whether a part of one more is left.
    fn of(self, members: usize) -> (usize, bool) {
        match self {
            Share::Count(count) => (count, false),
            Share::Percent(percent) => (members * percent / 100, !(members * percent).is_multiple_of(100)),
        }
    }

    fn rounded_up(self, members: usize) -> usize {
        let (whole, part) = self.of(members);
        whole + usize::from(part)
    }
}

impl Rollout {
    /// Returns how many of the members are under way at once.
    pub fn batch_of(&self, members: usize) -> usize {
        self.batch.rounded_up(members).max(1)
    }

    /// Returns how many of the members may fail.
    pub fn failures_of(&self, members: usize) -> usize {
        self.max_failures.of(members).0
    }

    /// Returns how many of the members go first.
    pub fn canary_of(&self, members: usize) -> usize {
        self.canary.rounded_up(members)
    }

    fn json(&self) -> Json {
        let [batch, max_failures, canary] = [self.batch, self.max_failures, self.canary].map(Share::json);
        json!({"batch": batch, "pause": self.pause, "max_failures": max_failures, "canary": canary, "away": self.away})
    }
}

/// Nodes by their role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    Every,
    /// Nodes that have a role.
    Any,
    /// Nodes with this role.
    Is(u64),
    /// Nodes without this role.
    Not(u64),
}

/// A role, as labels have it.
pub fn role(number: u64) -> String {
    format!("r{number}")
}

impl Selector {
    /// Returns the selector as an operator writes it.
    pub fn text(self) -> String {
        match self {
            Selector::Every => String::new(),
            Selector::Any => ROLE.to_owned(),
            Selector::Is(number) => format!("{ROLE}={}", role(number)),
            Selector::Not(number) => format!("{ROLE}!={}", role(number)),
        }
    }

    /// Whether a node with these labels is meant.
    pub fn means(self, labels: &BTreeMap<String, String>) -> bool {
        let has = labels.get(ROLE);
        match self {
            Selector::Every => true,
            Selector::Any => has.is_some(),
            Selector::Is(number) => has == Some(&role(number)),
            Selector::Not(number) => has != Some(&role(number)),
        }
    }
}

impl Each {
    /// The nodes it is for. Who is cut off keeps what it has and gets nothing new.
    pub fn nodes<'a>(
        &self,
        all: impl Iterator<Item = &'a NodeRecord>,
        has: impl Fn(&str) -> bool,
    ) -> BTreeSet<&'a str> {
        let meant = all.filter(|node| self.nodes.means(&node.labels));
        meant
            .map(|node| (node, node.name.as_str()))
            .filter(|(node, name)| !node.revoked || has(name))
            .map(|(_, name)| name)
            .collect()
    }

    /// Beside the properties.
    pub fn json(&self, resource: &mut Map<String, Json>) {
        resource.insert("for_each".into(), json!({"nodes": self.nodes.text()}));
        if let Some(rollout) = &self.rollout {
            resource.insert("rollout".into(), rollout.json());
        }
    }
}

/// `m[node-1]`: of the resource `m`, and on that node.
pub fn split(path: &str) -> (&str, Option<&str>) {
    let member = path.strip_suffix(']').and_then(|path| path.split_once('['));
    member.map_or((path, None), |(name, node)| (name, Some(node)))
}

/// The member of a resource on a node.
pub fn member(name: &str, node: &str) -> String {
    format!("{name}[{node}]")
}

impl Resource {
    /// Returns the resource's member on a node.
    pub fn on_node(&self, node: &str) -> Self {
        let mut member = Self { each: None, node: Some(node.to_owned()), ..self.clone() };
        let own = |value: &mut Value| {
            if *value == Value::Own {
                *value = Value::Text(node.to_owned());
            }
        };
        match &mut member.what {
            What::Dummy { values, .. } => values.values_mut().for_each(own),
            What::File { content, .. } => own(content),
            What::Script(script) => own(&mut script.input),
            What::Network { .. }
            | What::Hostname { .. }
            | What::Flows { .. }
            | What::Virtual(_)
            | What::Group(_)
            | What::Nested(_) => {}
        }
        member
    }
}

impl Plan {
    /// Replaces other sets in `needs` by their member on the same node, unless the set waits for all their members.
    pub(super) fn pair(&self, each: &Each, needs: &mut BTreeSet<String>, node: &str) {
        let is_pair = |need: &String| {
            !each.barriers.contains(need)
                && self.resources.get(need).is_some_and(|other| other.each.is_some())
        };
        let pairs: Vec<String> = needs.extract_if(.., is_pair).collect();
        needs.extend(pairs.iter().map(|other| member(other, node)));
    }
}
