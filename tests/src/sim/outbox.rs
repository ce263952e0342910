//! The way from the controller to its nodes: each message is checked at the very moment at which it leaves.

use std::cell::RefCell;
use std::rc::Rc;

use muster_controller::driver::Outbox;
use muster_controller::link::Grant;
use muster_shared::model::Down;
use muster_shared::{NodeId, wire};

use super::invariant;
use super::shared::Shared;

/// The way to the nodes that the driver has.
pub struct SimOutbox {
    pub shared: Rc<RefCell<Shared>>,
    /// The lease's term in which its controller started.
    pub term: u32,
}

impl SimOutbox {
    /// Whether the lease is over: then nothing leaves.
    fn is_deposed(&self) -> bool {
        let mut shared = self.shared.borrow_mut();
        let is_deposed = shared.term != self.term;
        if is_deposed {
            shared.counts.add("standby a message of a controller that was replaced is held");
        }
        is_deposed
    }
}

impl Outbox for SimOutbox {
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]) {
        if self.is_deposed() {
            return;
        }
        let mut shared = self.shared.borrow_mut();
        for message in messages {
            if !shared.step() {
                return;
            }
            if let Some(wrong) = invariant::leaves(&mut shared, node, connection, message) {
                shared.violate(wrong);
            }
            match shared.leaving.last_mut() {
                Some(Leaving::Send { node: to, connection: over, messages })
                    if to == node && *over == connection =>
                {
                    messages.push(message.clone());
                }
                _ => {
                    let (node, messages) = (node.clone(), vec![message.clone()]);
                    shared.leaving.push(Leaving::Send { node, connection, messages });
                }
            }
        }
    }

    fn send_chunk(&self, grant: Grant) {
        let Grant { node, connection, digest, offset } = grant;
        let bytes = {
            let shared = self.shared.borrow();
            // What cannot be read is not sent.
            let Some(content) = shared.tables.contents.get(&digest).filter(|_| !shared.broken) else {
                return;
            };
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            content[from..content.len().min(from + wire::CHUNK_MAX)].to_vec()
        };
        self.send(&node, connection, &[Down::Chunk { digest, offset, bytes }]);
    }

    fn close(&self, node: &NodeId) {
        if self.is_deposed() {
            return;
        }
        let mut shared = self.shared.borrow_mut();
        if shared.step() {
            shared.leaving.push(Leaving::Close(node.clone()));
        }
    }
}

/// Something that left the controller.
pub enum Leaving {
    /// Messages to a node.
    Send { node: NodeId, connection: u64, messages: Vec<Down> },
    /// The node's connection is ended.
    Close(NodeId),
}
