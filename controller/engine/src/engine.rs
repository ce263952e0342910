//! The machine's face and its state; what it does lies beside: operations, traversals, jobs, nodes.

use std::sync::Arc;

use muster_flow::Flows;
use muster_shared::model::{ContentDigest, Down, Up};
use muster_shared::{Epoch, NodeId, StackName};
use muster_template::Tree;

use crate::graph::Graph;
use crate::history::Starts;
use crate::intent::Intents;
use crate::job::Limits;
use crate::record::{Change, Counters};
use crate::request::{Answer, Refusal, Request, Source};
use crate::traversals::Traversals;
use crate::view::View;

pub enum Input {
    /// An operator asks; `id` comes back with the answer.
    Request {
        /// Chosen by the caller.
        id: u64,
        request: Box<Request>,
    },
    /// A node's agent is there, over a new connection.
    Connected {
        node: NodeId,
        /// Never used twice.
        connection: u64,
    },
    Disconnected {
        node: NodeId,
        /// Which; an older one than the present changes nothing.
        connection: u64,
    },
    /// An agent said something.
    Received { node: NodeId, connection: u64, message: Up },
    /// The answer to [`Effect::LoadRevision`].
    RevisionLoaded {
        /// From the effect.
        load: u64,
        /// The revision, parsed and bound again; or why it could not be had.
        source: Result<Source, String>,
    },
    /// The time of [`Engine::poll_timeout`] has come.
    Timeout,
}

/// What is to be done, in order. Nothing but `Persist` may be done before all `Persist`s so far are durable.
#[derive(Debug)]
pub enum Effect {
    Persist(Change),
    /// Send this to a node.
    Send {
        node: NodeId,
        /// Over which connection; if it is gone, the message is moot.
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
        /// From the request.
        id: u64,
        answer: Result<Answer, Refusal>,
    },
    /// Tell whoever reads the controller's log.
    Warn(String),
    /// End the node's connection: it may not speak any more.
    Close {
        node: NodeId,
    },
    /// Nobody needs this any more. To free a million resources takes a third of a second: elsewhere, if need be.
    Discard(Arc<Tree>),
    /// Read an older revision and give it back as [`Input::RevisionLoaded`].
    LoadRevision {
        /// To be given back.
        load: u64,
        stack: StackName,
        revision: u32,
    },
}

/// What the engine is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// This start's; higher than any before.
    pub epoch: Epoch,
    /// Random bits of this start, which go with its epoch: see [`EpochId`]. The same while the process runs.
    pub epoch_bits: u64,
    /// This start and those before it, as the store has them; empty where it records none.
    pub starts: Starts,
    /// Makes physical ids unique: fresh random bytes for each start (a fixed value in tests).
    pub seed: [u8; 32],
    /// Bounds on work in flight.
    pub limits: Limits,
}

/// The controller's pure machine.
///
/// It is a stack of layers. Each owns its state and the layer below, calls down only, and says what it has for a layer above
/// as a [`Todo`](crate::todo::Todo), which the engine runs in turn.
pub struct Engine {
    pub(crate) traversals: Traversals,
    pub(crate) flows: Flows,
    pub(crate) intents: Intents,
}

impl Engine {
    /// With nothing in it. [`Engine::load`] makes one from the store.
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

    /// The layer in which all is that is there.
    pub(crate) fn graph(&self) -> &Graph {
        &self.traversals.jobs.graph
    }

    /// The same, to be changed.
    pub(crate) fn graph_mut(&mut self) -> &mut Graph {
        &mut self.traversals.jobs.graph
    }

    /// The site as it stands.
    pub fn view(&self) -> View<'_> {
        let Self { traversals, flows, intents } = self;
        let jobs = &traversals.jobs;
        View { graph: &jobs.graph, jobs, traversals, flows, intents }
    }
}
