//! The packets to send on one connection, and the order to end it. The driver loop fills the queue
//! and never waits; the connection's task empties it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};

use super::contents::{CHUNKS_OF_ONE, Room};
use super::reason::{Reason, Refusal};

/// A bounded queue of packets.
#[derive(Debug)]
pub struct Outbound {
    queue: Mutex<Queue>,
    /// A packet was queued, or the end was ordered. This only wakes: look at the queue.
    pub changed: Notify,
    /// Room for chunks of contents.
    pub chunks: Arc<Semaphore>,
    max_packets: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<(Bytes, Option<Room>)>,
    bytes: usize,
    end: Option<Refusal>,
}

impl Outbound {
    pub fn new(max_packets: usize, max_bytes: usize) -> Self {
        Self {
            queue: Mutex::default(),
            changed: Notify::new(),
            chunks: Arc::new(Semaphore::new(CHUNKS_OF_ONE)),
            max_packets,
            max_bytes,
        }
    }

    /// Appends packets. Without room the connection is ended: the resync of the next one repairs this.
    pub fn push(&self, packets: Vec<Vec<u8>>) {
        self.append(packets, None);
    }

    /// The same for a chunk, which keeps its room until it is written.
    pub fn push_chunk(&self, packets: Vec<Vec<u8>>, room: Room) {
        self.append(packets, Some(room));
    }

    fn append(&self, packets: Vec<Vec<u8>>, mut room: Option<Room>) {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return;
        }
        queue.bytes += packets.iter().map(Vec::len).sum::<usize>();
        queue.packets.extend(packets.into_iter().map(|packet| (Bytes::from(packet), room.take())));
        if queue.packets.len() > self.max_packets || queue.bytes > self.max_bytes {
            let refusal = Refusal::new(Reason::QuotaExceeded, "too much waits to be read");
            *queue = Queue { end: Some(refusal), ..Queue::default() };
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Orders the end; the first order counts. Queued packets are dropped.
    pub fn end(&self, refusal: Refusal) {
        let mut queue = self.lock();
        if queue.end.is_none() {
            *queue = Queue { end: Some(refusal), ..Queue::default() };
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Takes the next packet.
    pub fn pop(&self) -> Option<(Bytes, Option<Room>)> {
        let mut queue = self.lock();
        let (packet, room) = queue.packets.pop_front()?;
        queue.bytes -= packet.len();
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
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
