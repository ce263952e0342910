//! Traces: switches are asked what they would do with a packet, through their agents, and nothing changes.
//!
//! ```text
//!   operator: trace, verify ─┐              ┌─▶ Ask: Trace ─▶ agent ─▶ Traced ─┐
//!   proofs (`proof.rs`) ─────┴─▶ run ───────┤                                  ├─▶ the next switch, or the end
//!                                           └─▶ away, too old, late ───────────┘
//! ```
//!
//! A run is a request with one packet, or the packets of one intent. A node is asked few questions at a time. What
//! a run knows is in memory alone: after a restart the operator asks again.
//!
//! Absent: where a packet goes from a switch (`controller/intent/src/trace.rs`), what an operator reads of it
//! (`trace_view.rs`), and what it proves of an intent (`proof.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_intent::topology::{ConnectPoint, Topology};
use muster_intent::trace::{Question, Trace};
use muster_shared::model::Down;
use muster_shared::model::flow::{Bridge, DeviceName, FlowAsk, FlowDown, Packet, TraceStep};
use muster_shared::wire::{READS_TRACE, agent_that_reads};
use muster_shared::{MonoTime, NodeId};

use super::Intents;
use super::proof::Proving;
use crate::engine::Engine;
use crate::graph::Graph;
use crate::node::NodeKey;
use crate::request::{Answer, Refusal};
use crate::view::View;

/// Runs at a time: each may have thousands of questions. Operators that come later ask again.
const RUNS_MAX: usize = 32;
/// Questions that one node has at a time. A switch answers one after the other, and forwards meanwhile.
const NODE_QUESTIONS_MAX: usize = 4;
/// An agent gives up on its switch after 5 s. Its answer is on its way for a moment.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// No switch is asked for a run that has taken this long: agents that answer late, one after the other, hold no place for long.
const RUN_WITHIN: Duration = Duration::from_secs(60);
/// Above the numbers of questions about tables (`controller/flow/src/question.rs`), which agents answer beside these.
const FIRST_NUMBER: u64 = 1 << 62;
/// When an operator is asked to try again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The purpose of a trace.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// An operator asks where a packet goes.
    Request(u64),
    /// The packets of an intent.
    Proof(Proving),
}

/// Traces that belong together.
#[derive(Debug)]
pub(crate) struct Run {
    pub purpose: Purpose,
    pub traces: Vec<Trace>,
    pub begun: MonoTime,
}

/// A question that waits for its answer.
#[derive(Debug)]
struct Asked {
    run: u64,
    /// The place of the trace in its run.
    trace: usize,
    hop: usize,
    device: DeviceName,
    until: MonoTime,
}

/// The runs under way, and the questions of agents.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    runs: BTreeMap<u64, Run>,
    /// By number, so by time.
    asked: BTreeMap<u64, Asked>,
    /// Questions of each node that has some.
    on_nodes: BTreeMap<NodeId, usize>,
    /// Runs and questions so far.
    count: u64,
}

impl Traces {
    pub fn has_room(&self) -> bool {
        self.runs.len() < RUNS_MAX
    }

    /// Refuses an operator who asks when there is no room.
    pub fn room(&self) -> Result<(), Refusal> {
        if self.has_room() {
            return Ok(());
        }
        let why = format!("{RUNS_MAX} traces are under way, which is the limit");
        Err(Refusal::Later { why, after: TRY_AGAIN })
    }

    pub fn begin(&mut self, run: Run) {
        let number = self.number();
        self.runs.insert(number, run);
    }

    fn number(&mut self) -> u64 {
        self.count += 1;
        FIRST_NUMBER + self.count
    }

    /// State that exists only while something is traced.
    pub fn leftovers(&self) -> [(&'static str, usize); 2] {
        [("traces", self.runs.len()), ("questions of traces", self.asked.len())]
    }

    /// When to call [`Engine::traces_due`].
    pub fn next_due(&self) -> Option<MonoTime> {
        self.asked.first_key_value().map(|(_, asked)| asked.until)
    }

    /// The next question to a node that has room for it, its number, and whether it comes too late to be asked.
    fn next_question(&mut self, now: MonoTime) -> Option<(u64, Question, bool)> {
        let on_nodes = &self.on_nodes;
        let has_room = |device: &DeviceName| {
            on_nodes.get(&device.node).is_none_or(|questions| *questions < NODE_QUESTIONS_MAX)
        };
        let (run, trace, question, is_late) = self.runs.iter_mut().find_map(|(number, run)| {
            let is_late = now >= run.begun + RUN_WITHIN;
            let mut traces = run.traces.iter_mut().enumerate();
            traces.find_map(|(at, trace)| {
                trace.next_device().filter(|device| has_room(device))?;
                Some((*number, at, trace.next_question()?, is_late))
            })
        })?;
        let number = self.number();
        let device = question.device.clone();
        *self.on_nodes.entry(device.node.clone()).or_default() += 1;
        let until = now + ANSWER_WITHIN;
        self.asked.insert(number, Asked { run, trace, hop: question.hop, device, until });
        Some((number, question, is_late))
    }

    /// Takes the answer to a question, or why there is none. An answer to no question means nothing.
    fn answered(&mut self, topology: &Topology, number: u64, answer: Result<Vec<TraceStep>, String>) {
        let Some(Asked { run, trace, hop, device, .. }) = self.asked.remove(&number) else { return };
        if let Some(questions) = self.on_nodes.get_mut(&device.node) {
            *questions -= 1;
            if *questions == 0 {
                self.on_nodes.remove(&device.node);
            }
        }
        if let Some(trace) = self.runs.get_mut(&run).and_then(|run| run.traces.get_mut(trace)) {
            trace.answered(topology, hop, answer);
        }
    }

    /// The numbers of the questions of a node.
    fn of_node(&self, node: &NodeId) -> Vec<u64> {
        let is_its = |(_, asked): &(&u64, &Asked)| asked.device.node == *node;
        self.asked.iter().filter(is_its).map(|(number, _)| *number).collect()
    }

    /// A run whose traces are over.
    fn next_over(&mut self) -> Option<Run> {
        let is_over = |run: &Run| run.traces.iter().all(Trace::is_over);
        let number = self.runs.iter().find(|(_, run)| is_over(run)).map(|(number, _)| *number)?;
        self.runs.remove(&number)
    }
}

impl Engine {
    /// An operator asks where a packet goes that comes in at a port.
    ///
    /// # Errors
    /// There is no such port, or too much is traced.
    pub(crate) fn trace(&mut self, id: u64, from: ConnectPoint, packet: Packet) -> Result<(), Refusal> {
        self.view().knows_port(&from)?;
        self.intents.traces.room()?;
        let traces = vec![Trace::new(from, packet)];
        let begun = self.graph().ctx.now;
        self.intents.traces.begin(Run { purpose: Purpose::Request(id), traces, begun });
        self.run_traces();
        Ok(())
    }

    /// Asks what can be asked, and ends the runs that are over.
    pub(crate) fn run_traces(&mut self) {
        loop {
            while let Some((number, question, is_late)) =
                self.intents.traces.next_question(self.graph().ctx.now)
            {
                let Question { device: DeviceName { node, bridge }, question, .. } = question;
                let late = || format!("the trace has taken {} s", RUN_WITHIN.as_secs());
                match is_late.then(late).or_else(|| self.graph().cannot_trace(&node)) {
                    Some(why) => self.intents.take_trace(number, Err(why)),
                    None => {
                        let ask = FlowAsk::Trace(Box::new(question));
                        self.graph_mut().ask_for_trace(&node, bridge, number, ask);
                    }
                }
            }
            match self.intents.traces.next_over() {
                Some(Run { purpose: Purpose::Request(id), traces, .. }) => {
                    let answer = traces.first().map(|trace| Box::new(self.view().trace_view(trace)));
                    let answer = answer.map(Answer::Traced);
                    self.graph_mut().answer(id, answer.ok_or_else(|| Refusal::Invalid("no packet".into())));
                }
                Some(Run { purpose: Purpose::Proof(proving), traces, .. }) => self.proved(&proving, &traces),
                None => return,
            }
        }
    }

    /// An agent answers.
    pub(crate) fn traced(
        &mut self,
        node: NodeKey,
        bridge: &Bridge,
        number: u64,
        result: Result<Vec<TraceStep>, String>,
    ) {
        let asked = self.intents.traces.asked.get(&number).map(|asked| &asked.device);
        let node = &self.graph().nodes[node].name;
        // A node answers for itself alone.
        if asked.is_some_and(|asked| asked.node == *node && asked.bridge == *bridge) {
            self.intents.take_trace(number, result);
            self.run_traces();
        }
    }

    /// Agents have not answered in time.
    pub(crate) fn traces_due(&mut self) {
        let now = self.graph().ctx.now;
        while self.intents.traces.next_due().is_some_and(|due| due <= now) {
            let Some(number) = self.intents.traces.asked.first_key_value().map(|(number, _)| *number) else {
                break;
            };
            let why = format!("its agent has not answered within {} s", ANSWER_WITHIN.as_secs());
            self.intents.take_trace(number, Err(why));
        }
        self.run_traces();
    }

    /// The agent of a node is away.
    pub(crate) fn traces_away(&mut self, node: &NodeId) {
        for number in self.intents.traces.of_node(node) {
            self.intents.take_trace(number, Err("its agent was disconnected".into()));
        }
        self.run_traces();
    }
}

impl Graph {
    fn ask_for_trace(&mut self, node: &NodeId, device: Bridge, number: u64, ask: FlowAsk) {
        if let Some(key) = self.nodes.find(node) {
            self.send(key, Down::Flow(FlowDown::Ask { device, number, ask }));
        }
    }

    /// The reason why the agent of a node cannot be asked now.
    fn cannot_trace(&self, node: &NodeId) -> Option<String> {
        let found = self.nodes.find(node).map(|key| &self.nodes[key]);
        let Some(found) = found.filter(|found| found.presence.is_ready()) else {
            return Some("its agent is not connected".into());
        };
        if found.reads >= READS_TRACE {
            return None;
        }
        let has = found.joined.as_ref().map_or("an older version", |joined| &joined.agent_version);
        let needs = agent_that_reads(READS_TRACE);
        Some(format!("{node} runs muster-agent {has}, a trace needs {needs}: upgrade the agent"))
    }
}

impl Intents {
    /// Takes the answer to a question, or why there is none.
    fn take_trace(&mut self, number: u64, result: Result<Vec<TraceStep>, String>) {
        let Self { traces, manager, .. } = self;
        traces.answered(manager.topology(), number, result);
    }
}

impl View<'_> {
    /// Whether there is a switch's port that can be asked.
    fn knows_port(&self, from: &ConnectPoint) -> Result<(), Refusal> {
        let ConnectPoint { device, port } = from;
        self.graph.joined(&device.node)?;
        if device.is_nftables() {
            return Err(Refusal::Invalid(
                "nftables has no trace: give a port of a bridge, NODE/BRIDGE:PORT".into(),
            ));
        }
        let topology = self.intents.manager.topology();
        let Some(number) = topology.device(device).filter(|number| topology.is_device_up(*number)) else {
            let bridges = topology.devices().map(|it| topology.device_name(it));
            let bridges = bridges.filter(|it| it.node == device.node).map(|it| it.bridge.as_str());
            let near = muster_template::suggestion(device.bridge.as_str(), bridges);
            return Err(Refusal::NotFound(format!(
                "{} has no bridge '{}'{near}",
                device.node, device.bridge
            )));
        };
        if topology.port_on(number, port).is_some() {
            return Ok(());
        }
        let ports: Vec<_> = topology.ports(number).map(|it| topology.point(it).port).collect();
        let near = muster_template::suggestion(port, ports.iter().map(|port| &**port));
        Err(Refusal::NotFound(format!("{device} has no port '{port}'{near}: see 'muster topology show'")))
    }
}
