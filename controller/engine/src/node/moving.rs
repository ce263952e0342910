//! Moves of nodes to other sites.
//!
//! ```text
//!   move ─▶ refused: nothing has happened
//!     └───▶ Move is sent; the node gets no jobs ─┬─ Moved: Left ───▶ removed here, without a job
//!                                                ├─ Moved: Stays ──▶ the agent says why
//!                                                ├─ disconnected ──▶ the operator looks where it is
//!                                                └─ no word for long ─▶ the same; a later word counts
//! ```
//!
//! The agent joins the other site and changes over by itself (`agent/core/src/moving.rs`). Its last word here, `Left`,
//! comes after that is on its disk. Where that word is lost, the node is offline here and online there, and an
//! operator removes it: this site cannot know better. So a move is in memory alone, and the token is passed on and
//! not kept.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::join::JoinToken;
use muster_shared::model::{Down, MoveOutcome};
use muster_shared::wire::{READS_MOVE, agent_that_reads};
use muster_shared::{MonoTime, NodeId, SiteId};

use crate::engine::{Effect, Engine};
use crate::node::NodeKey;
use crate::node::removal::named;
use crate::request::{Answer, Refusal};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversals::Traversals;
use crate::view::View;

/// An agent gives up after a minute. Its answer is on its way for a moment.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// A move that an agent was asked for on its present connection.
#[derive(Debug)]
pub(crate) struct Move {
    to: SiteId,
    /// The operator's request, and until when it waits.
    waits: Option<(u64, MonoTime)>,
}

impl Engine {
    /// Asks the agent to join another site. The answer comes when it has, or has not.
    pub(crate) fn move_node(
        &mut self,
        name: &NodeId,
        token: Box<JoinToken>,
        request: u64,
    ) -> Result<(), Refusal> {
        let key = self.view().may_move(name)?;
        let graph = self.graph_mut();
        let until = graph.ctx.now + ANSWER_WITHIN;
        graph.nodes[key].moving = Some(Move { to: token.site.clone(), waits: Some((request, until)) });
        graph.ctx.timers.set(until, TimerKey::Move(key));
        graph.send(key, Down::Move(token));
        Ok(())
    }

    /// The agent's answer.
    pub(crate) fn moved(&mut self, key: NodeKey, outcome: MoveOutcome) {
        // An answer that nobody asked for means nothing: it would remove a node that an operator wants.
        let Some(Move { to, waits }) = self.graph_mut().nodes[key].moving.take() else { return };
        let name = self.graph().nodes[key].name.clone();
        let answer = match outcome {
            MoveOutcome::Left => {
                self.graph_mut().unbind_tokens(&name);
                let removed = self.traversals.remove_node(&name);
                self.graph_mut().ctx.effect(Effect::Warn(format!(
                    "node {name} has moved to site '{to}': it is removed here"
                )));
                removed.map(|_| Answer::Done)
            }
            MoveOutcome::Stays { reason } => {
                self.graph_mut().ctx.effect(Effect::Warn(format!(
                    "node {name} stays, and does not move to site '{to}': {reason}"
                )));
                self.graph_mut().ctx.agenda.push_back(Todo::Pump(key));
                Err(Refusal::Conflict(format!("node '{name}' stays in this site: {reason}")))
            }
        };
        self.traversals.answer_move(key, waits, answer);
    }
}

impl View<'_> {
    /// Whether nothing of this site is on the node, and its agent can move.
    ///
    /// # Errors
    /// Says what prevents the move, and what to do.
    fn may_move(&self, name: &NodeId) -> Result<NodeKey, Refusal> {
        let graph = self.graph;
        let key = graph.joined(name)?;
        let node = &graph.nodes[key];
        let refuse = |why: String| Err(Refusal::Conflict(format!("node '{name}' {why}")));
        if !node.presence.is_ready() {
            return refuse(format!(
                "is not connected, and its agent moves it: see 'muster node show {name}' for its state"
            ));
        }
        if let Some(Move { to, .. }) = &node.moving {
            return refuse(format!("moves to site '{to}' already: wait for the end of that move"));
        }
        if node.reads < READS_MOVE {
            let has = node.joined.as_ref().map_or("an older version", |joined| &joined.agent_version);
            let needs = agent_that_reads(READS_MOVE);
            return Err(Refusal::Conflict(format!(
                "{name} runs muster-agent {has}, a move needs {needs}: upgrade the agent"
            )));
        }
        if !node.lost.is_empty() {
            return refuse(format!(
                "is being cleaned up ({} resources, see 'muster node show {name}'): move it when that has ended",
                node.lost.len()
            ));
        }
        let stacks: BTreeSet<u64> = node.rows.iter().map(|slot| graph.rows[*slot].stack).collect();
        let stacks = stacks.iter().filter_map(|id| graph.stacks.get(id));
        let stacks: Vec<String> = stacks.map(|stack| stack.name.to_string()).collect();
        if !stacks.is_empty() {
            return refuse(format!(
                "has resources of these stacks: {}. Delete the stacks, or take the node out of them, and move it then; \
                 'deletion_policy: retain' leaves what they made on the server",
                named(&stacks)
            ));
        }
        let rules: Vec<String> = self
            .flows
            .rules_on(name)
            .map(|(bridge, rules)| format!("{name}/{bridge} ({rules} rules)"))
            .collect();
        if !rules.is_empty() {
            return refuse(format!(
                "has flow rules on {}. Delete the stacks and withdraw the intents that own them; 'muster flow purge DEVICE' \
                 deletes those of operators, and with --forget leaves them on the device",
                named(&rules)
            ));
        }
        Ok(key)
    }
}

impl Traversals {
    /// The connection on which the agent was asked has ended.
    pub(crate) fn move_cut_off(&mut self, key: NodeKey) {
        if let Some(Move { to, waits }) = self.jobs.graph.nodes[key].moving.take() {
            let why = self.unknown_outcome(key, &to, "was disconnected during its move");
            self.answer_move(key, waits, Err(why));
        }
    }

    /// The operator has waited long enough.
    pub(crate) fn move_due(&mut self, key: NodeKey) {
        let Some(moving) = &mut self.jobs.graph.nodes[key].moving else { return };
        let (to, waits) = (moving.to.clone(), moving.waits.take());
        let why = self.unknown_outcome(key, &to, "has not said how its move ended");
        self.answer_move(key, waits, Err(why));
    }

    fn unknown_outcome(&self, key: NodeKey, to: &SiteId, what: &str) -> Refusal {
        let name = &self.jobs.graph.nodes[key].name;
        Refusal::Conflict(format!(
            "node '{name}' {what}: look at 'muster node list' here and in site '{to}'. If it is online there, remove it \
             here: muster node remove {name}. If it is online here, remove it there before you try again"
        ))
    }

    pub(crate) fn answer_move(
        &mut self,
        key: NodeKey,
        waits: Option<(u64, MonoTime)>,
        answer: Result<Answer, Refusal>,
    ) {
        if let Some((request, until)) = waits {
            self.jobs.graph.ctx.timers.clear(until, TimerKey::Move(key));
            self.jobs.graph.answer(request, answer);
        }
    }
}
