//! Effects of a call, which the engine carries out in order.

use muster_intent::manager::Token;
use muster_shared::model::flow::{DeviceName, FlowDown, FlowId};
use muster_shared::{Generation, NodeId};

use crate::owner::Owner;
use crate::restored_difference::TableDifference;

/// A job of a resource whose outcome is that of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// The row of the resource.
    pub owner: Owner,
    /// The generation of the job.
    pub generation: Generation,
    /// The attempt of that generation.
    pub attempt: u32,
}

/// The reason why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The entry at fault, if it is known.
    pub rule: Option<FlowId>,
    /// The reason, for operators.
    pub reason: String,
    /// A retry cannot help.
    pub permanent: bool,
}

impl Failure {
    /// The reason, preceded by the entry at fault.
    pub fn text(&self) -> String {
        match self.rule {
            Some(id) => format!("rule {id}: {}", self.reason),
            None => self.reason.clone(),
        }
    }
}

/// An effect to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message to a node's agent.
    Send {
        /// The node, whose agent has sent a Hello.
        node: NodeId,
        /// The message.
        message: FlowDown,
    },
    /// Answer a request that waited for an agent. Its report can be read now.
    Answer(u64),
    /// The write of a resource's job has ended.
    JobEnded(Job, Result<(), Failure>),
    /// The write that a resource's job waited for has ended. Give the job to the table again.
    JobBegins(Job),
    /// A write of an intent has ended.
    IntentEnded(Token, Result<(), Failure>),
    /// A held table was compared with its device.
    Compared {
        /// The device.
        device: DeviceName,
        difference: TableDifference,
    },
    /// Rules are on the device as in the table. Only for a table that is held or has rules left as
    /// they are.
    Applied {
        /// The device.
        device: DeviceName,
        /// The rules.
        rules: Vec<FlowId>,
    },
    /// An agent reported its tables. All tables of its node may be compared now: see
    /// [`Flows::is_compared`](crate::Flows::is_compared).
    Told(NodeId),
}
