//! What nodes say they are. In memory alone: it is told again after every greeting.
//!
//! Counters go on by themselves: who asks waits a moment until the agent has said them as they are now.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::{Claim, ClaimKind, Down, Facts};
use muster_shared::{MonoTime, NodeId};

use crate::engine::Engine;
use crate::node::NodeKey;
use crate::request::{Answer, Refusal};
use crate::timer::TimerKey;

/// An agent answers in milliseconds; after this, whoever asked gets what is known.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Requests that wait for one agent: later ones get what is known.
const ASKING_MAX: usize = 64;

/// What a node said.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub facts: Box<Facts>,
    pub at: MonoTime,
}

/// Who waits for a node's facts.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    requests: Vec<u64>,
    until: MonoTime,
}

impl Told {
    /// Whether somebody is at the other end of this link; none if there is no such link.
    pub fn carrier(&self, link: &str) -> Option<bool> {
        self.facts.links.iter().find(|facts| facts.name == link).map(|facts| facts.carrier)
    }
}

impl Engine {
    /// Answered when the agent has, or when that takes too long.
    pub(crate) fn ask_facts(&mut self, name: &NodeId, request: u64) -> Result<Option<Answer>, Refusal> {
        let key = self.joined(name)?;
        let node = &mut self.nodes[key];
        if !node.ready || node.asking.requests.len() >= ASKING_MAX {
            return self.known_facts(key).map(Some);
        }
        if node.asking.requests.is_empty() {
            node.asking.until = self.now + ANSWER_WITHIN;
            let until = node.asking.until;
            self.timers.set(until, TimerKey::Facts(key));
            self.send(key, Down::AskFacts);
        }
        self.nodes[key].asking.requests.push(request);
        Ok(None)
    }

    fn known_facts(&self, key: NodeKey) -> Result<Answer, Refusal> {
        let node = &self.nodes[key];
        let Some(told) = &node.facts else {
            let name = &node.name;
            return Err(Refusal::Conflict(format!(
                "node '{name}' has told nothing of itself since the controller started: it does when its agent is connected"
            )));
        };
        let age = self.now.since(told.at);
        Ok(Answer::Facts { node: node.name.clone(), age, facts: told.facts.clone() })
    }

    /// From an agent that is there.
    pub(crate) fn facts(&mut self, key: NodeKey, facts: Box<Facts>) {
        if !self.nodes[key].ready {
            return;
        }
        let before = self.nodes[key].facts.replace(Told { facts, at: self.now });
        self.answer_facts(key);
        if let (Some(before), Some(now)) = (before, self.nodes[key].facts.clone()) {
            self.compare_carriers(key, &before.facts, &now.facts);
        }
    }

    /// What is in one of the lists alone has come or gone and has no carrier to lose.
    fn compare_carriers(&mut self, key: NodeKey, before: &Facts, now: &Facts) {
        let was: BTreeMap<&str, bool> =
            before.links.iter().map(|link| (link.name.as_str(), link.carrier)).collect();
        for link in &now.links {
            let Some(was) = was.get(link.name.as_str()).copied().filter(|was| *was != link.carrier) else {
                continue;
            };
            // A mapping may name it by its MAC address.
            let mac = link.mac.map(|mac| mac.map(|octet| format!("{octet:02x}")).join(":"));
            let mut names = [Some(link.name.clone()), mac].into_iter().flatten();
            let owner = |name| self.claims.owner(key, &Claim { kind: ClaimKind::Link, key: name });
            if let Some(slot) = names.find_map(owner) {
                self.carrier_changed(slot, &link.name, was);
            }
        }
    }

    /// Whoever asked gets what is known now.
    pub(crate) fn answer_facts(&mut self, key: NodeKey) {
        let asking = std::mem::take(&mut self.nodes[key].asking);
        if asking.requests.is_empty() {
            return;
        }
        self.timers.clear(asking.until, TimerKey::Facts(key));
        for request in asking.requests {
            let answer = self.known_facts(key);
            self.answer(request, answer);
        }
    }
}
