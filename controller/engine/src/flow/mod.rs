//! Flow tables are a machine of their own (`muster-flow`). The engine passes inputs to it and
//! carries out its effects.
//!
//! ```text
//!   operators, agents, rows, intents, time ─▶ with_flows(call) ─ Turn: time, generations, the site ─▶ Flows
//!                                                                                                       │
//!                                       sends, answers, ends of jobs ◀──────── effects ◀────────────────┘
//! ```
//!
//! Absent: all decisions about tables (`controller/flow/src/lib.rs`), and flow rules of stacks (`flow_row.rs`).

mod site;
mod view;

use muster_flow::{Begun, Effect, FlowAction, FlowWrite, Flows, Turn};
use muster_shared::model::Down;
use muster_shared::model::flow::{DeviceName, FlowUp};
use site::FlowSite;

use crate::engine::Engine;
use crate::graph::Graph;
use crate::node::NodeKey;
use crate::request::{Answer, Refusal};
use crate::todo::Todo;

pub use view::FlowViews;

impl From<muster_flow::Refused> for Refusal {
    fn from(refused: muster_flow::Refused) -> Self {
        match refused {
            muster_flow::Refused::NotFound(why) => Refusal::NotFound(why),
            muster_flow::Refused::Conflict(why) => Refusal::Conflict(why),
            muster_flow::Refused::Invalid(why) => Refusal::Invalid(why),
        }
    }
}

impl From<Begun> for Answer {
    fn from(begun: Begun) -> Self {
        let Begun { operation, rules, devices, warnings } = begun;
        Answer::Flows { operation, rules, devices, warnings }
    }
}

impl Engine {
    /// Calls the flow tables, and carries out their effects.
    pub(crate) fn with_flows<R>(&mut self, call: impl FnOnce(&mut Flows, &mut Turn<'_>) -> R) -> R {
        let site = FlowSite {
            now: self.graph().ctx.now,
            nodes: &self.traversals.jobs.graph.nodes,
            rows: &self.traversals.jobs.graph.rows,
            stacks: &self.traversals.jobs.graph.stacks,
            claims: &self.traversals.jobs.claims,
            intents: &self.intents,
            restored: &self.traversals.jobs.graph.restored,
            applications: self.flows.applications(),
        };
        let before = self.graph().ctx.epoch();
        let mut turn = Turn {
            now: self.graph().ctx.now,
            generations: &mut self.traversals.jobs.graph.ctx.history.generations,
            site: &site,
        };
        let result = call(&mut self.flows, &mut turn);
        self.graph_mut().ctx.epoch_rose_from(before);
        self.take_flow_effects();
        result
    }

    fn take_flow_effects(&mut self) {
        let mut ended = Vec::new();
        while let Some(effect) = self.flows.poll_effect() {
            match effect {
                Effect::Send { node, message } => {
                    if let Some(node) = self.graph().nodes.find(&node) {
                        self.graph_mut().send(node, Down::Flow(message));
                    }
                }
                Effect::Answer(request) => self.graph_mut().answer(request, Ok(Answer::Done)),
                Effect::JobEnded(job, how) => ended.push(Todo::FlowJobEnded(job, how)),
                // The job begins after all jobs that fail with the write before it: it may send a batch.
                Effect::JobBegins(job) => self.graph_mut().ctx.agenda.push_back(Todo::Begin(job)),
                Effect::IntentEnded(token, ended) => {
                    let ended = ended.map_err(|failure| failure.text().into_boxed_str());
                    self.intents.ended.push((token, ended));
                }
                Effect::Compared { device, difference } => {
                    self.graph_mut().restored.table_told(&device.node, &device.bridge, difference);
                }
                Effect::Applied { device, rules } => {
                    self.graph_mut().restored.rules_applied(&device.node, &device.bridge, rules.into_iter());
                }
                Effect::Told(node) => {
                    if let Some(node) = self.graph().nodes.find(&node) {
                        self.tables_compared(node);
                    }
                }
            }
        }
        // Ends of jobs go first: a job that has ended cannot be withdrawn.
        ended.into_iter().rev().for_each(|todo| self.graph_mut().ctx.agenda.push_front(todo));
    }

    /// Accepts rules from a file, and starts the operation.
    pub(crate) fn apply_flows(
        &mut self,
        stages: Vec<Vec<FlowWrite>>,
        confirm: Option<u32>,
        application: Option<&str>,
    ) -> Result<Answer, Refusal> {
        self.graph_mut().name_nodes(stages.iter().flatten().map(|write| &write.device))?;
        let begun = self.with_flows(|flows, turn| match application {
            None => flows.begin(turn, FlowAction::Apply, stages, confirm),
            Some(name) => flows.begin_named(turn, stages, confirm, name),
        })?;
        Ok(begun.into())
    }

    pub(crate) fn flow_up(&mut self, node: NodeKey, message: FlowUp) {
        let node = self.graph().nodes[node].name.clone();
        self.with_flows(|flows, turn| flows.received(turn, &node, message));
    }
}

impl Graph {
    /// Enters the nodes of these devices, joined or not.
    pub(crate) fn name_nodes<'a>(
        &mut self,
        devices: impl Iterator<Item = &'a DeviceName>,
    ) -> Result<(), Refusal> {
        for device in devices {
            if self.nodes.find(&device.node).is_none() && !self.has_room_for_nodes(1) {
                return Err(Refusal::Conflict("too many nodes are named that have never joined".into()));
            }
            self.nodes.key(&device.node);
        }
        Ok(())
    }
}
