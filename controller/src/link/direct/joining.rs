//! A client without a certificate: one request and one answer for each connection.
//!
//! Absent: the answer itself (`link/joining.rs`).

use std::sync::Arc;

use bytes::Bytes;

use crate::link::contents::Room;
use crate::link::inbox::{Inbox, Pending};
use crate::link::joining::answer;
use crate::link::nodes::Nodes;
use crate::link::outbound::Outbound;
use crate::link::reason::{Reason, Refusal};

/// Takes one request and answers it.
pub(super) struct JoinInbox {
    pub nodes: Arc<Nodes>,
    pub outbound: Arc<Outbound<Vec<u8>>>,
    pub asked: bool,
}

impl Inbox for JoinInbox {
    type Queued = Vec<u8>;

    fn receive(&mut self, payload: Bytes) -> Result<Option<Pending>, Refusal> {
        if std::mem::replace(&mut self.asked, true) {
            return Err(Refusal::new(Reason::QuotaExceeded, "one request per connection"));
        }
        let (nodes, outbound) = (Arc::clone(&self.nodes), Arc::clone(&self.outbound));
        Ok(Some(Box::pin(async move {
            outbound.push(vec![answer(&nodes, &payload).await.encode()]);
            Ok(())
        })))
    }

    fn next(&mut self, queue: &Outbound<Vec<u8>>) -> Option<(Bytes, Option<Room>)> {
        queue.pop().map(|(answer, room)| (answer.into(), room))
    }
}
