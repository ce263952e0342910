//! The queue of what is sent on one connection, and the order to end it. The driver loop fills the queue and never
//! waits; the connection's task empties it, and seals what it takes. The connection ends when more waits than the queue
//! takes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_shared::seal::Body;
use tokio::sync::{Notify, Semaphore};

use super::contents::{CHUNKS_OF_ONE, Room};
use super::reason::{Reason, Refusal};

/// A bounded queue.
#[derive(Debug)]
pub struct Outbound<P> {
    queue: Mutex<Queue<P>>,
    /// A packet was queued, or the end was ordered. This only wakes: look at the queue.
    pub changed: Notify,
    /// Room for chunks of contents.
    pub chunks: Arc<Semaphore>,
    max_packets: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Queue<P> {
    packets: VecDeque<(P, Option<Room>)>,
    bytes: usize,
    end: Option<Refusal>,
}

/// The length of a packet in a queue.
pub trait PacketLen {
    /// Bytes of the packet that it becomes.
    fn packet_len(&self) -> usize;
}

impl PacketLen for Body {
    fn packet_len(&self) -> usize {
        Body::packet_len(self)
    }
}

/// An answer to a client that joins.
impl PacketLen for Vec<u8> {
    fn packet_len(&self) -> usize {
        self.len()
    }
}

impl<P> Queue<P> {
    fn with_end(end: Option<Refusal>) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, end }
    }
}

impl<P: PacketLen> Outbound<P> {
    pub fn new(max_packets: usize, max_bytes: usize) -> Self {
        Self {
            queue: Mutex::new(Queue::with_end(None)),
            changed: Notify::new(),
            chunks: Arc::new(Semaphore::new(CHUNKS_OF_ONE)),
            max_packets,
            max_bytes,
        }
    }

    /// Appends packets. Without room the connection is ended: the resync of the next one repairs this.
    pub fn push(&self, packets: Vec<P>) {
        self.append(packets, None);
    }

    /// The same for a chunk, which keeps its room until it is written.
    pub fn push_chunk(&self, packets: Vec<P>, room: Room) {
        self.append(packets, Some(room));
    }

    fn append(&self, packets: Vec<P>, mut room: Option<Room>) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        queue.bytes += packets.iter().map(P::packet_len).sum::<usize>();
        queue.packets.extend(packets.into_iter().map(|packet| (packet, room.take())));
        if queue.packets.len() > self.max_packets || queue.bytes > self.max_bytes {
            let refusal = Refusal::new(Reason::QuotaExceeded, "too much waits to be read");
            *queue = Queue::with_end(Some(refusal));
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Orders the end; the first order counts. Queued packets are dropped.
    pub fn end(&self, refusal: Refusal) {
        let mut queue = self.lock();
        if queue.end.is_none() {
            *queue = Queue::with_end(Some(refusal));
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Takes the next packet.
    pub fn pop(&self) -> Option<(P, Option<Room>)> {
        let mut queue = self.lock();
        let (packet, room) = queue.packets.pop_front()?;
        queue.bytes -= packet.packet_len();
        Some((packet, room))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lock().packets.is_empty()
    }

    /// The order to end the connection, if there is one.
    pub fn ended(&self) -> Option<Refusal> {
        self.lock().end.clone()
    }

    /// A panic elsewhere does not damage a queue: every change of it is complete at each point that
    /// can panic.
    fn lock(&self) -> MutexGuard<'_, Queue<P>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
