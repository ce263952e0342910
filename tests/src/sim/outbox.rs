//! The way from the controller to its nodes: each message is checked at the very moment at which it leaves.

use std::cell::RefCell;
use std::rc::Rc;

use muster_controller::driver::Outbox;
use muster_controller::link::Grant;
use muster_shared::model::Down;
use muster_shared::{NodeId, wire};

use super::invariant;
use super::shared::Shared;
use super::standbys::Seat;

/// The way to the nodes that the driver has.
pub struct SimOutbox {
    pub shared: Rc<RefCell<Shared>>,
    /// The lease, as the controller has it; none: the site has one controller.
    pub seat: Option<Seat>,
}

impl SimOutbox {
    /// Whether its controller holds the lease, as the real link asks before anything leaves.
    fn may_speak(&self) -> bool {
        let Some(seat) = &self.seat else { return true };
        let mut shared = self.shared.borrow_mut();
        let may = seat.may_speak(shared.now);
        if !may {
            shared.lease.is_silent = true;
            shared.counts.add("standby a message of a controller without the lease is held");
        } else if !shared.lease.is_of(seat) {
            shared.violate(format!("a controller speaks in epoch {}, which is over", seat.term.epoch.0));
        }
        may
    }
}

impl Outbox for SimOutbox {
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]) {
        let may_speak = self.may_speak();
        let mut shared = self.shared.borrow_mut();
        if !may_speak && self.seat.as_ref().is_some_and(|seat| !shared.lease.is_of(seat)) {
            return;
        }
        for message in messages {
            if !shared.step() {
                return;
            }
            if let Some(wrong) = invariant::leaves(&mut shared, node, connection, message) {
                shared.violate(wrong);
            }
            if !may_speak {
                continue; // as if its connection was gone
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
            // A content that cannot be read is not sent.
            let Some(content) = shared.tables.contents.get(&digest).filter(|_| !shared.broken) else {
                return;
            };
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            content[from..content.len().min(from + wire::CHUNK_MAX)].to_vec()
        };
        self.send(&node, connection, &[Down::Chunk { digest, offset, bytes }]);
    }

    fn close(&self, node: &NodeId) {
        if !self.may_speak() {
            return;
        }
        let mut shared = self.shared.borrow_mut();
        if shared.step() {
            shared.leaving.push(Leaving::Close(node.clone()));
        }
    }
}

/// A message or a close that leaves the controller.
pub enum Leaving {
    /// Messages to a node.
    Send { node: NodeId, connection: u64, messages: Vec<Down> },
    /// The node's connection is ended.
    Close(NodeId),
}
