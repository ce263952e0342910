//! A node with a good certificate that says what it likes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use muster_agent_link::connection::{Mqtt, Peer, begin, greet};
use muster_agent_link::{Identity, join};
use muster_shared::model::Up;
use muster_shared::wire;
use muster_tests::site::Site;

/// Connections that it makes before it gives up.
const CONNECTIONS: usize = 2000;

/// See the module's head. It attacks until this is dropped.
pub struct Hostile {
    stop: Arc<AtomicBool>,
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Told {
    packets: AtomicU64,
    ended: AtomicU64,
}

impl Hostile {
    /// Joins, and sends packets of this, one after the other, over as many connections as it needs.
    pub fn start(site: &Site, messages: Vec<Up>) -> Self {
        let token = site.ok(&["node", "token", "--name", "evil"]).trim().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let identity = runtime.block_on(join::join(&token, "evil".parse().unwrap(), |_, _| ())).unwrap();
        let (stop, told) = (Arc::new(AtomicBool::new(false)), Arc::new(Told::default()));
        let (stops, tells) = (Arc::clone(&stop), Arc::clone(&told));
        let thread =
            std::thread::spawn(move || runtime.block_on(attack(&identity, &messages, &stops, &tells)));
        Self { stop, told, thread: Some(thread) }
    }

    /// Packets that left it so far.
    pub fn sent(&self) -> u64 {
        self.told.packets.load(Ordering::Relaxed)
    }

    /// Connections of it that the controller ended.
    pub fn ended(&self) -> u64 {
        self.told.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // If it panicked that shows in what it did.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

async fn attack(identity: &Identity, messages: &[Up], stop: &AtomicBool, told: &Told) {
    let tls = identity.tls().unwrap();
    for _ in 0..CONNECTIONS {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let peer = Peer::node(identity, Arc::clone(&tls));
        if let Ok((mqtt, _)) = greet(&peer).await
            && flood(mqtt, &peer, identity, messages, stop, told).await
        {
            told.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// True if the controller ended the connection.
async fn flood(
    mut mqtt: Mqtt,
    peer: &Peer,
    identity: &Identity,
    messages: &[Up],
    stop: &AtomicBool,
    told: &Told,
) -> bool {
    let Ok(mut session) = begin(&mut mqtt, peer, &identity.seal().into()).await else { return false };
    let bodies = wire::pack(messages).unwrap();
    let mut bodies = bodies.iter().cycle().cloned();
    // A packet that was sealed must leave before the next one.
    let mut waiting = None;
    while !stop.load(Ordering::Relaxed) {
        while let Some(packet) = waiting.take().or_else(|| bodies.next().map(|body| session.seal(body))) {
            if !mqtt.publish(&peer.up, packet.clone()) {
                waiting = Some(packet);
                break;
            }
            told.packets.fetch_add(1, Ordering::Relaxed);
        }
        // Drives what was published, and reads what comes; a moment without anything goes on as well.
        let moment = std::time::Duration::from_millis(1);
        if let Ok(Err(_)) = tokio::time::timeout(moment, mqtt.payload()).await {
            return true;
        }
    }
    false
}
