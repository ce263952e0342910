//! What follows from a call, for the engine to carry out in order.

use muster_intent::manager::Token;
use muster_shared::model::flow::{DeviceName, FlowDown, FlowId};
use muster_shared::{Generation, NodeId};

use crate::difference::TableDifference;
use crate::entry::Owner;

/// A resource's job whose outcome is that of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// The row of the resource.
    pub owner: Owner,
    /// The generation of the job.
    pub generation: Generation,
    /// The attempt of that generation.
    pub attempt: u32,
}

/// The reason why a write came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The entry that is to blame, where one is known.
    pub rule: Option<FlowId>,
    /// The reason, for operators.
    pub reason: String,
    /// Another attempt cannot help.
    pub permanent: bool,
}

impl Failure {
    /// The reason, with the entry that is to blame in front.
    pub fn text(&self) -> String {
        match self.rule {
            Some(id) => format!("rule {id}: {}", self.reason),
            None => self.reason.clone(),
        }
    }
}

/// A thing for the engine to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message to a node's agent.
    Send {
        /// The node; its agent has greeted.
        node: NodeId,
        /// The message.
        message: FlowDown,
    },
    /// Answer a request that waited for an agent: what the agent told can be read now.
    Answer(u64),
    /// A write that carries a resource's job came to its end.
    JobEnded(Job, Result<(), Failure>),
    /// The write that a resource's job waited for is decided: the job is to be given to the table again.
    JobBegins(Job),
    /// A write of an intent came to its end.
    IntentEnded(Token, Result<(), Failure>),
    /// A held table was compared with its device.
    Compared {
        /// The device.
        device: DeviceName,
        difference: TableDifference,
    },
    /// Rules of a table that is held, or of which some are left as they are, are on the device as the table has them.
    Applied {
        /// The device.
        device: DeviceName,
        /// The rules.
        rules: Vec<FlowId>,
    },
    /// An agent told of its tables: perhaps all of its node's tables are compared now, see
    /// [`Flows::is_compared`](crate::Flows::is_compared).
    Told(NodeId),
}
