//! Hands each packet from the broker to the connection of its node or to a joiner, and bounds how many of these there
//! are.
//!
//! Absent: when a node's connection over a broker begins and ends (`talk.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use muster_broker::Message;
use muster_shared::join::relayed::RELAYED_MAX;
use muster_shared::segment::{ConnectionId, Content, ResetReason, Segment, WINDOW};
use muster_shared::topic::{self, ToController};
use muster_shared::{NodeId, SiteId};
use rumqttc::v5::AsyncClient;
use rumqttc::v5::mqttbytes::QoS;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::talk::{self, Heard, Voice};
use crate::link::joining::answer;
use crate::link::nodes::Nodes;
use crate::random::random;

/// KiB of packets that wait for the driver, of all nodes: one node's window is 4 MiB at most.
const WAITING_KIB: usize = 64 * 1024;
/// Segments that wait for one talk: its window, and acknowledgements.
const INBOX: usize = 4 * WINDOW as usize;
/// Talks of one node at a time. A node that greets again and again takes no room from the others; an agent that lost its
/// broker may have left some behind that wait for their end.
const OF_ONE_NODE: usize = 4;
/// Joiners answered at a time; more are dropped, and ask again.
const JOINERS: usize = 64;

/// The connections of nodes over one connection to a broker. Dropping it ends them.
pub(super) struct Router {
    nodes: Arc<Nodes>,
    sender: AsyncClient,
    talks: Arc<Talks>,
    tasks: JoinSet<()>,
    room: Arc<Semaphore>,
    joiners: Arc<Semaphore>,
}

/// The talks that are running.
#[derive(Default)]
struct Talks(Mutex<BTreeMap<(NodeId, ConnectionId), mpsc::Sender<Heard>>>);

impl Talks {
    /// The table is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(NodeId, ConnectionId), mpsc::Sender<Heard>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a node has all the talks that it may have.
fn has_many<T>(talks: &BTreeMap<(NodeId, ConnectionId), T>, node: &NodeId) -> bool {
    let first = (node.clone(), ConnectionId([0; 16]));
    talks.range(first..).take_while(|((of, _), _)| of == node).count() >= OF_ONE_NODE
}

/// A talk's place in the table.
struct Place {
    talks: Arc<Talks>,
    key: (NodeId, ConnectionId),
}

impl Drop for Place {
    fn drop(&mut self) {
        self.talks.lock().remove(&self.key);
    }
}

impl Router {
    pub fn new(nodes: Arc<Nodes>, sender: AsyncClient) -> Self {
        Self {
            nodes,
            sender,
            talks: Arc::default(),
            tasks: JoinSet::new(),
            room: Arc::new(Semaphore::new(WAITING_KIB)),
            joiners: Arc::new(Semaphore::new(JOINERS)),
        }
    }

    /// Tells all nodes that their connections from before are over.
    pub fn begin(&self) {
        let notice = Segment { connection: ConnectionId([0; 16]), content: Content::Begin };
        self.put(topic::notices(self.site()), notice.encode());
    }

    /// Whether a node's or a joiner's task is running.
    pub fn has_talks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Waits until a task has ended.
    pub async fn one_ended(&mut self) {
        note(self.tasks.join_next().await);
    }

    /// Says goodbye to the broker, behind everything that waits.
    pub async fn leave(&self) {
        // A broker that is gone needs none.
        drop(self.sender.disconnect().await);
    }

    /// Never waits.
    pub fn incoming(&mut self, Message { topic, payload }: Message) {
        while let Some(ended) = self.tasks.try_join_next() {
            note(Some(ended));
        }
        match topic::to_controller(self.nodes.pki.site(), &topic) {
            Some(ToController::Up(node)) => match Segment::decode(&payload) {
                Ok(segment) => self.segment(node, segment),
                Err(error) => self.refused(node.as_str(), &error),
            },
            Some(ToController::JoinRequest(nonce)) => self.join(nonce, payload),
            // The broker may say what it likes.
            None => self.refused(&topic, &"a topic that was not asked for"),
        }
    }

    fn segment(&mut self, node: NodeId, Segment { connection, content }: Segment<'_>) {
        let (heard, begins) = match content {
            Content::Data { number, taken, packet } => {
                let kib = u32::try_from(packet.len().div_ceil(1024)).unwrap_or(u32::MAX);
                let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(kib) else {
                    return self.cut(&node, connection, ResetReason::Busy);
                };
                let packet = Bytes::copy_from_slice(packet);
                (Heard::Data { number, taken, packet, room }, number == 0)
            }
            Content::Ack { taken } => (Heard::Ack { taken }, false),
            Content::Reset(reason) => (Heard::Reset(reason), false),
            // Only this side says it.
            Content::Begin => return,
        };
        let key = (node, connection);
        let known = self.talks.lock().get(&key).cloned();
        match known {
            Some(talk) => {
                let is_data = matches!(heard, Heard::Data { .. });
                if talk.try_send(heard).is_err() && is_data {
                    self.cut(&key.0, connection, ResetReason::Protocol);
                }
            }
            None if begins => self.enter(key, heard),
            // It is over on both sides.
            None if matches!(heard, Heard::Reset(_)) => {}
            None => self.cut(&key.0, connection, ResetReason::Unknown),
        }
    }

    fn enter(&mut self, key: (NodeId, ConnectionId), first: Heard) {
        let voice = self.voice(&key.0, key.1);
        let (tell, heard) = mpsc::channel(INBOX);
        // A connection is one of a node only when its first packet has opened. As many may wait for that as there may be.
        let mut talks = self.talks.lock();
        if talks.len() >= self.nodes.registry.max().saturating_mul(2) || has_many(&talks, &key.0) {
            drop(talks);
            return voice.reset_at_once(ResetReason::Busy);
        }
        talks.insert(key.clone(), tell);
        drop(talks);
        let place = Place { talks: Arc::clone(&self.talks), key };
        let nodes = Arc::clone(&self.nodes);
        self.tasks.spawn(async move {
            talk::run(nodes, place.key.0.clone(), voice, first, heard).await;
            drop(place);
        });
    }

    /// Ends a connection, or tells a node that there is none.
    fn cut(&self, node: &NodeId, connection: ConnectionId, reason: ResetReason) {
        self.talks.lock().remove(&(node.clone(), connection));
        self.voice(node, connection).reset_at_once(reason);
    }

    fn voice(&self, node: &NodeId, connection: ConnectionId) -> Voice {
        Voice::new(self.sender.clone(), topic::down(self.site(), node), connection)
    }

    fn join(&mut self, nonce: &str, payload: Vec<u8>) {
        let Ok(place) = Arc::clone(&self.joiners).try_acquire_owned() else {
            return self.refused("a joiner", &"too many join at once");
        };
        if payload.len() > RELAYED_MAX {
            return self.refused("a joiner", &"its request is too large");
        }
        let (nodes, sender, nonce) = (Arc::clone(&self.nodes), self.sender.clone(), nonce.to_owned());
        self.tasks.spawn(async move {
            let _place = place;
            // Whoever does not know this controller's key is not answered.
            let Ok(request) = nodes.pki.open_join(&nonce, &payload) else {
                if let Some(missed) = nodes.refusals.tell() {
                    tracing::warn!(missed, "a join request that is not for this controller");
                }
                return;
            };
            let answer = answer(&nodes, request.body()).await;
            let Ok(fresh) = random::<24>() else { return };
            if let Ok(answer) = request.answer(&answer, fresh) {
                let topic = topic::join_answer(nodes.pki.site(), &nonce);
                // A broker that is gone is asked again by the joiner.
                drop(sender.publish(topic, QoS::AtLeastOnce, false, answer).await);
            }
        });
    }

    /// Without waiting; what finds no room is lost, as on any way through a broker.
    fn put(&self, topic: String, payload: Vec<u8>) {
        drop(self.sender.try_publish(topic, QoS::AtLeastOnce, false, payload));
    }

    fn refused(&self, from: &str, why: &dyn std::fmt::Display) {
        if let Some(missed) = self.nodes.refusals.tell() {
            let from: String = from.chars().take(300).flat_map(char::escape_default).collect();
            tracing::warn!(from, %why, missed, "a message that is not taken");
        }
    }

    fn site(&self) -> &SiteId {
        self.nodes.pki.site()
    }
}

fn note(ended: Option<Result<(), tokio::task::JoinError>>) {
    if let Some(Err(error)) = ended
        && !error.is_cancelled()
    {
        tracing::error!(%error, "a connection's task failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_greets_again_and_again_takes_no_room_from_others() {
        let node = |name: &str| name.parse::<NodeId>().unwrap();
        let mut talks = BTreeMap::new();
        for number in 0..OF_ONE_NODE {
            assert!(!has_many(&talks, &node("web-1")), "{number}");
            talks.insert((node("web-1"), ConnectionId([u8::try_from(number).unwrap(); 16])), ());
        }
        assert!(has_many(&talks, &node("web-1")));
        for other in ["web-0", "web-10", "web-2"] {
            assert!(!has_many(&talks, &node(other)), "{other}");
        }
    }
}
