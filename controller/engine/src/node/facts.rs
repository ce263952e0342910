//! Facts of nodes. They are in memory only: an agent sends them after every Hello.
//!
//! Facts have counters that change all the time, so a request waits a moment for fresh ones.
//!
//! Absent: which facts there are (`shared/src/model/facts.rs`), and when an agent sends them
//! (`agent/core/src/facts.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_shared::id::IdError;
use muster_shared::model::{Down, Facts};
use muster_shared::{MonoTime, NodeId};
use muster_template::{FACTS, fact, fact_at};
use serde_json::{Value, json};

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::request::{Answer, Refusal};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversals::Traversals;

/// An agent answers within milliseconds. After this time a request gets the known facts.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Requests that wait for one agent. Later ones get the known facts.
const ASKING_MAX: usize = 64;

/// Facts of a node, and when they arrived.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    pub facts: Arc<Facts>,
    pub at: MonoTime,
}

/// Requests that wait for a node's facts.
#[derive(Debug, Default)]
pub(crate) struct FactsRequests {
    requests: Vec<u64>,
    until: MonoTime,
}

impl FactsRequests {
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

impl NodeFacts {
    /// Whether the link has a carrier. `None`: there is no such link.
    pub fn carrier(&self, link: &str) -> Option<bool> {
        self.facts.links.iter().find(|facts| facts.name == link).map(|facts| facts.carrier)
    }
}

impl Traversals {
    /// Asks for facts. The answer comes when the agent has sent them, or after a bound.
    pub(crate) fn ask_facts(&mut self, name: &NodeId, request: u64) -> Result<Option<Answer>, Refusal> {
        let key = self.jobs.graph.joined(name)?;
        let node = &mut self.jobs.graph.nodes[key];
        if !node.presence.is_ready() || node.asking.requests.len() >= ASKING_MAX {
            return self.known_facts(key).map(Some);
        }
        if node.asking.requests.is_empty() {
            node.asking.until = self.jobs.graph.ctx.now + ANSWER_WITHIN;
            let until = node.asking.until;
            self.jobs.graph.ctx.timers.set(until, TimerKey::Facts(key));
            self.jobs.graph.send(key, Down::AskFacts);
        }
        self.jobs.graph.nodes[key].asking.requests.push(request);
        Ok(None)
    }

    fn known_facts(&self, key: NodeKey) -> Result<Answer, Refusal> {
        let node = &self.jobs.graph.nodes[key];
        let Some(told) = &node.facts else {
            let name = &node.name;
            return Err(Refusal::Conflict(format!(
                "node '{name}' has told nothing of itself since the controller started: it does when its agent is connected"
            )));
        };
        let age = self.jobs.graph.ctx.now.since(told.at);
        Ok(Answer::Facts { node: node.name.clone(), age, facts: Arc::clone(&told.facts) })
    }

    /// A node has joined or sent its first facts. Visits rows that wait for that.
    pub(crate) fn wake_those_asking(&mut self, key: NodeKey) {
        let meant = self.awaited.for_facts(&self.jobs.graph.nodes[key].name);
        self.jobs.graph.ctx.agenda.extend(meant.into_iter().map(Todo::Visit));
    }

    /// Answers waiting requests with the known facts.
    pub(crate) fn answer_facts(&mut self, key: NodeKey) {
        let asking = std::mem::take(&mut self.jobs.graph.nodes[key].asking);
        if asking.requests.is_empty() {
            return;
        }
        self.jobs.graph.ctx.timers.clear(asking.until, TimerKey::Facts(key));
        for request in asking.requests {
            let answer = self.known_facts(key);
            self.jobs.graph.answer(request, answer);
        }
    }
}

impl Graph {
    /// A value of a node for templates, by its full or short name. `None`: it is not known yet.
    ///
    /// # Errors
    /// The name is invalid, several nodes have it, or the node has no such value.
    pub(crate) fn of_node(&self, node: &str, path: &[String]) -> Result<Option<Value>, String> {
        let id: NodeId = node.parse().map_err(|error: IdError| error.to_string())?;
        let Some(full) = self.nodes.full_name(&id)? else { return Ok(None) };
        let Some(node) = self.nodes.find(&full).map(|key| &self.nodes[key]) else { return Ok(None) };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let found = match path.first().copied() {
            Some("name") => Some(Value::from(full.as_str())),
            Some("labels") => node.joined.as_ref().map(|joined| json!(joined.labels)),
            Some(name) if FACTS.contains(&name) => {
                let Some(told) = &node.facts else { return Ok(None) };
                fact(&told.facts, name)
            }
            Some(_) | None => None,
        };
        let found = found.and_then(|value| fact_at(&value, &path[1..]).cloned());
        let missing = || {
            format!("the node '{full}' has no '{}': 'muster node facts' shows what it has", path.join("."))
        };
        found.ok_or_else(missing).map(Some)
    }
}
