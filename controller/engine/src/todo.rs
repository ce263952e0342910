//! Todos: steps that follow from an input. The router runs them in turn, so nothing recurses, and a
//! lower layer can call for a higher one without knowing it.

use muster_flow::{Failure, Job, Owner};
use muster_shared::NodeId;
use muster_shared::model::Action;
use muster_template::Kind;

use crate::node::NodeKey;
use crate::record::PackedSpec;
use crate::row::Slot;

/// A step that follows from another one.
#[derive(Debug)]
pub(crate) enum Todo {
    /// Visit a row: all that it needs may be ready.
    Visit(Slot),
    /// Check whether the traversal has ended.
    CheckEnd(u64),
    /// Send jobs to a node, because there may be room.
    Pump(NodeKey),
    /// Send jobs of a stack, because there may be room.
    PumpStack(u64),
    /// Let a stack follow changes of the nodes.
    Fit(u64),
    /// Look at the stack's rollouts: members may begin.
    Rollouts(u64),
    /// Correct a row that differs, if nothing prevents that.
    Correct(Slot),
    /// Restart units of the stack after corrections.
    Restart(u64),
    /// Start a flow job that waited for another one's write.
    Begin(Job),
    /// Write the flow rules of a row's job to their table, or withdraw that.
    Write(Slot),
    /// The write of a flow job has ended.
    FlowJobEnded(Job, Result<(), Failure>),
    /// End a job for which there is nothing to send.
    Unsendable(Slot),
    /// Roll back a stack that has FAILED.
    RollBack(u64),
    /// Make or change a virtual resource.
    Realise { slot: Slot, kind: Kind, action: Action, spec: PackedSpec },
    /// Remove a virtual resource.
    Unmake(Slot),
    /// Build the tree of the row's stack again: a value that it depends on became known.
    Expand(Slot),
    /// Mark flow rules of a row as hidden. With `applied`, also those that its device may have.
    HideFlows { node: NodeId, owner: Owner, applied: bool },
    /// Unmark flow rules of a row as hidden.
    RevealFlows { node: NodeId, owner: Owner },
    /// The connection of a node has ended.
    Away(NodeId),
    /// Compare the flow tables of a node that was revoked or removed, when a server joins under its name.
    CompareAnew(NodeId),
    /// A node was removed, with its devices.
    Left(NodeId),
}
