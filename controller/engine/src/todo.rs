//! What follows from an input, to be run in turn: so nothing recurses, and a lower layer of the machine can say something
//! to a higher one without knowing it.

use muster_flow::{Failure, Job, Owner};
use muster_shared::NodeId;
use muster_shared::model::Action;
use muster_template::Kind;

use crate::node::NodeKey;
use crate::record::PackedSpec;
use crate::row::Slot;

/// A step that follows from another; taken in turn so that nothing recurses.
#[derive(Debug)]
pub(crate) enum Todo {
    /// All this graph node needs is ready.
    Visit(Slot),
    /// Has the traversal come to an end?
    CheckEnd(u64),
    /// There may be room for more jobs.
    Pump(NodeKey),
    /// The same, for a stack.
    PumpStack(u64),
    /// A stack follows the nodes that its selectors mean.
    Fit(u64),
    /// It may be somebody's turn in a rollout of this stack.
    Turn(u64),
    /// It is not as it should be, and nothing may be in the way of putting it right.
    Correct(Slot),
    /// Something of this stack was put right, for which units are restarted.
    Restart(u64),
    /// The job of this generation and attempt waited for another's write, and begins.
    Begin(Job),
    /// The flow rules of a row's job are for its table, which gets them or is asked to leave them out.
    Write(Slot),
    /// The write that carries a row's job has come to its end.
    FlowJobEnded(Job, Result<(), Failure>),
    /// The job of a row has nothing that could be sent to its agent.
    Unsendable(Slot),
    /// A stack has FAILED and is rolled back.
    RollBack(u64),
    /// A resource of the controller itself is made or changed.
    Settle { slot: Slot, kind: Kind, action: Action, spec: PackedSpec },
    /// A resource of the controller itself is taken away.
    Unmake(Slot),
    /// What a row is decided on has come to be known: the tree of its stack is made anew.
    Expand(Slot),
    /// The flow rules of a row are made of something hidden; `applied`: so are those that its device may have.
    HideFlows { node: NodeId, owner: Owner, applied: bool },
    /// The flow rules of a row are made of nothing hidden any more.
    RevealFlows { node: NodeId, owner: Owner },
    /// The connection of a node has ended.
    Away(NodeId),
    /// A node is cut off or gone: its flow tables are compared anew when a server comes under its name.
    CompareAnew(NodeId),
    /// A node is no more: nor are its devices.
    Left(NodeId),
}
