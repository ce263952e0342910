//! Requests of operators about nodes: labels, maintenance, revocation, and joins.
//!
//! Absent: their removal (`node/removal.rs`), and what maintenance holds back (`traversal/gate.rs`).

use std::collections::BTreeMap;

use muster_shared::NodeId;
use muster_template::{FACT_PREFIX, is_label};

use crate::JoinAsk;
use crate::engine::Effect;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::node::clones::Instances;
use crate::record::{Change, NodeRecord};
use crate::request::{Answer, Refusal};
use crate::todo::Todo;
use crate::traversals::Traversals;

/// Labels of a node. Selectors are matched against all of them, and every list shows them.
pub(crate) const LABELS_MAX: usize = 64;
/// Bytes of a label's key or value. This fits a column.
const LABEL_MAX: usize = 63;

impl Jobs {
    /// Sets and removes labels. Joining again starts from the labels of the token.
    pub(crate) fn label_node(
        &mut self,
        name: &NodeId,
        labels: BTreeMap<String, Option<String>>,
    ) -> Result<Answer, Refusal> {
        let key = self.graph.joined(name)?;
        for (label, value) in &labels {
            check_label(label, value.as_deref().unwrap_or_default())?;
        }
        let Some(record) = &self.graph.nodes[key].joined else { return Ok(Answer::Done) };
        let mut new = record.labels.clone();
        for (label, value) in labels {
            match value {
                Some(value) => new.insert(label, value),
                None => new.remove(&label),
            };
        }
        if new.len() > LABELS_MAX {
            return Err(Refusal::Invalid(format!(
                "node '{name}' would have {} labels: it can have {LABELS_MAX}",
                new.len()
            )));
        }
        if new != record.labels {
            self.change_node(key, |record| record.labels = new);
            self.graph.follow_node(key);
            self.graph.look_at_scopes(key);
            // Resources that match their selector again are corrected again.
            self.correct_all(|row| row.node == Some(key));
        }
        Ok(Answer::Done)
    }

    /// Starts or ends maintenance. Jobs that the agent already has go on to their end.
    pub(crate) fn maintain_node(&mut self, name: &NodeId, on: bool) -> Result<Answer, Refusal> {
        let key = self.graph.joined(name)?;
        if self.graph.is_in_maintenance(key) == on {
            return Ok(Answer::Done);
        }
        self.change_node(key, |record| record.maintenance = on);
        // The phase of these rows changed, for watchers.
        for slot in self.graph.nodes[key].in_line() {
            if self.waits_in_line(slot, key) {
                self.graph.touch(self.graph.rows[slot].stack);
            }
        }
        if !on {
            self.graph.ctx.agenda.push_back(Todo::Pump(key));
            self.correct_all(|row| row.node == Some(key));
        }
        Ok(Answer::Done)
    }

    fn change_node(&mut self, key: NodeKey, change: impl FnOnce(&mut NodeRecord)) {
        if let Some(record) = &mut self.graph.nodes[key].joined {
            change(record);
            let record = record.clone();
            self.graph.ctx.change(Change::Node(Box::new(record)));
        }
    }
}

impl Traversals {
    /// Revokes a node at once. Its jobs stay as those of a node that is away.
    pub(crate) fn revoke_node(&mut self, name: &NodeId) -> Result<Answer, Refusal> {
        let key = self.jobs.graph.joined(name)?;
        if self.jobs.graph.nodes[key].joined.as_ref().is_some_and(|record| record.revoked) {
            return Ok(Answer::Done);
        }
        self.cut_off(key);
        self.jobs.change_node(key, |record| record.revoked = true);
        self.decide_by_leaving(key);
        self.jobs.graph.nodes.leave(key);
        self.jobs.graph.unbind_tokens(name);
        Ok(Answer::Done)
    }

    /// Closes the node's connection. Messages on it no longer count.
    pub(crate) fn cut_off(&mut self, key: NodeKey) {
        self.node_away(key);
        let node = self.jobs.graph.nodes[key].name.clone();
        self.jobs.graph.ctx.effect(Effect::Close { node });
    }

    pub(crate) fn join(&mut self, ask: JoinAsk) -> Result<Answer, Refusal> {
        let secret_hash = ask.secret.digest();
        if let Some(joined) =
            self.jobs.graph.nodes.find(&ask.name).and_then(|key| self.jobs.graph.nodes[key].joined.as_ref())
            && joined.joined_with == (ask.token_id, secret_hash)
            && joined.seal_public == ask.seal_public
            && !joined.revoked
        {
            return Ok(Answer::Joined { node: ask.name }); // the first answer was lost
        }
        self.jobs.graph.nodes.tokens.admits(&ask, self.jobs.graph.is_taken(&ask.name))?;
        self.jobs.graph.nodes.check_distinct(&ask.name)?;
        if self.jobs.graph.nodes.find(&ask.name).is_none() && !self.jobs.graph.has_room_for_nodes(1) {
            let most = self.jobs.graph.ctx.limits.nodes_max;
            return Err(Refusal::Conflict(format!("the site has {most} nodes, which is its limit")));
        }
        let (labels, change) = self.jobs.graph.nodes.tokens.take(ask.token_id, self.jobs.graph.ctx.now)?;
        self.jobs.graph.ctx.change(change);
        let graph = &self.jobs.graph;
        let joined = NodeRecord {
            name: ask.name.clone(),
            labels,
            seal_public: ask.seal_public,
            agent_version: ask.agent_version,
            revoked: false,
            // An operator who put a server under maintenance also ends it.
            maintenance: graph.nodes.find(&ask.name).is_some_and(|key| graph.is_in_maintenance(key)),
            joined_with: (ask.token_id, secret_hash),
        };
        if let Some(key) = self.jobs.graph.nodes.find(&ask.name) {
            // The agent that used this name until now has other keys.
            self.node_away(key);
            // The server may be another one, or newly installed.
            self.jobs.graph.nodes[key].facts = None;
            self.jobs.graph.nodes[key].instances = Instances::default();
        }
        self.jobs.graph.nodes.join(joined.clone());
        self.jobs.graph.ctx.change(Change::Node(Box::new(joined)));
        self.jobs.graph.restored.await_node(&ask.name);
        self.place_the_unplaced();
        if let Some(key) = self.jobs.graph.nodes.find(&ask.name) {
            self.jobs.graph.nodes[key].away_since = self.jobs.graph.ctx.now;
            self.wake_those_asking(key);
            self.jobs.graph.follow_node(key);
            if !self.jobs.graph.nodes[key].rows.is_empty() {
                // With the labels of its token the node may match its selectors again.
                self.jobs.correct_all(|row| row.node == Some(key));
            }
        }
        self.name_the_unnamed(&ask.name);
        Ok(Answer::Joined { node: ask.name })
    }
}

pub(crate) fn check_label(key: &str, value: &str) -> Result<(), Refusal> {
    let fits = |text: &str| text.len() <= LABEL_MAX && is_label(text);
    if key.starts_with(FACT_PREFIX) {
        return Err(Refusal::Invalid(format!(
            "label '{FACT_PREFIX}…': what begins so in a selector is what the server itself tells; take another name"
        )));
    }
    if !key.is_empty() && fits(key) && fits(value) {
        return Ok(());
    }
    let shown: String = key.chars().take(LABEL_MAX).flat_map(char::escape_default).collect();
    Err(Refusal::Invalid(format!(
        "label '{shown}': want at most {LABEL_MAX} letters, digits, '-', '.', '_', '/' and ':' on either side"
    )))
}
