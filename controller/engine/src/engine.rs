//! The face of the engine and its state. Files beside this one have operations, traversals, jobs
//! and nodes.
//!
//! Absent: which part handles an input (`router.rs`).

use std::sync::Arc;

use muster_flow::Flows;
use muster_shared::model::{ContentDigest, Down, Up};
use muster_shared::{Epoch, NodeId, StackName};
use muster_template::Tree;

use crate::graph::Graph;
use crate::intent::Intents;
use crate::limits::Limits;
use crate::node::epoch_check::Starts;
use crate::record::{Change, Counters};
use crate::request::{Answer, Refusal, Request, Source};
use crate::traversals::Traversals;
use crate::view::View;

pub enum Input {
    /// A request of an operator. The answer has the same `id`.
    Request {
        /// Chosen by the caller.
        id: u64,
        request: Box<Request>,
    },
    /// An agent has connected.
    Connected {
        node: NodeId,
        /// Never used twice.
        connection: u64,
    },
    Disconnected {
        node: NodeId,
        /// The connection that ended. An older one than the present changes nothing.
        connection: u64,
    },
    /// A message from an agent.
    Received { node: NodeId, connection: u64, message: Up },
    /// The answer to [`Effect::LoadRevision`].
    RevisionLoaded {
        /// The number in the effect.
        load: u64,
        /// The revision, parsed and bound again; or why it cannot be read.
        source: Result<Source, String>,
    },
    /// The time of [`Engine::poll_timeout`] is reached.
    Timeout,
}

/// An effect to carry out, in order. Only `Persist` may be done before all `Persist`s so far are durable.
#[derive(Debug)]
pub enum Effect {
    Persist(Change),
    /// Send a message to a node.
    Send {
        node: NodeId,
        /// The connection to use. If it is closed, drop the message.
        connection: u64,
        message: Down,
    },
    /// Send a part of a content as [`Down::Chunk`].
    SendChunk {
        node: NodeId,
        connection: u64,
        digest: ContentDigest,
        offset: u64,
    },
    Answer {
        /// The number of the request.
        id: u64,
        answer: Result<Answer, Refusal>,
    },
    /// Write a warning to the controller's log.
    Warn(String),
    /// Close the node's connection.
    Close {
        node: NodeId,
    },
    /// Free a tree. A million resources take a third of a second, so the driver may do that elsewhere.
    Discard(Arc<Tree>),
    /// Read a revision and return it as [`Input::RevisionLoaded`].
    LoadRevision {
        /// A number to return.
        load: u64,
        stack: StackName,
        revision: u32,
    },
}

/// Settings of a start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The epoch of this start, higher than any before.
    pub epoch: Epoch,
    /// Random bits of this start, which belong to its epoch: see [`EpochId`]. They are constant
    /// while the process runs.
    pub epoch_bits: u64,
    /// This start and those before it, from the store. Empty if the store records none.
    pub starts: Starts,
    /// Makes physical ids unique: fresh random bytes for each start, a fixed value in tests.
    pub seed: [u8; 32],
    /// Bounds on work in flight.
    pub limits: Limits,
}

/// The controller's pure machine.
///
/// The engine is a stack of layers. Each owns its state and the layer below, and calls down only.
/// For a layer above it queues a [`Todo`](crate::todo::Todo), which the engine runs in turn.
pub struct Engine {
    pub(crate) traversals: Traversals,
    pub(crate) flows: Flows,
    pub(crate) intents: Intents,
}

impl Engine {
    /// An empty engine. [`Engine::load`] builds one from the store.
    pub fn new(config: Config) -> Self {
        let (limits, epoch) = (config.limits, config.epoch);
        let flows =
            muster_flow::Limits { retries: limits.retries, operations_kept: limits.flow_operations_kept };
        let mut engine = Self {
            traversals: Traversals::new(config),
            flows: Flows::new(flows),
            intents: Intents::default(),
        };
        engine.traversals.jobs.graph.ctx.change(Change::Counters(Counters { epoch }));
        engine
    }

    /// The second layer: nodes, stacks and rows.
    pub(crate) fn graph(&self) -> &Graph {
        &self.traversals.jobs.graph
    }

    /// The second layer, mutable.
    pub(crate) fn graph_mut(&mut self) -> &mut Graph {
        &mut self.traversals.jobs.graph
    }

    /// A view of the site that changes nothing.
    pub fn view(&self) -> View<'_> {
        let Self { traversals, flows, intents } = self;
        let jobs = &traversals.jobs;
        View { graph: &jobs.graph, jobs, traversals, flows, intents }
    }
}
