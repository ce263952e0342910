//! The neighbours at the other end of the cables: receives LLDP (IEEE 802.1AB), and sends it on ports of
//! Open vSwitch.
//!
//! ```text
//!   socket of a port ─▶ frame (pure) ─▶ table of the port (pure) ─┬▶ facts of the link
//!          ▲                                                      └▶ beacons: the topology (`ports.rs`)
//!          └── speaker: this port's own frame, on ports that are given one
//! ```
//!
//! A port is a network card, or a veth in a namespace without cards such as a container, or a port of Open
//! vSwitch with an Ethernet cable. Each port has its own packet socket, which receives frames before a
//! bridge, a bond or Open vSwitch does; a filter in the kernel drops all other frames. Anybody on the cable
//! can write a frame, so its content is shown to people, and decides nothing but the place of an undeclared
//! host. A beacon affects only a controller that can attribute it to a port.
//!
//! Absent: finding the ports (done with the facts; `ports.rs`), and how often a change is reported
//! (`agent/core/src/facts.rs`, `agent/core/src/ports.rs`).

mod frame;
mod speak;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::topology::Beacon;
use muster_shared::model::{LinkFacts, NeighbourFacts};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

pub use frame::{ETHERTYPE, Frame, FrameError, GROUPS, Id};
use speak::Speaker;
pub use speak::{Announcement, LAST_TTL, TTL};
pub use table::Table;

use crate::sys;

/// Ports that are listened to: more are no server's.
const PORTS_MAX: usize = 128;
/// The longest Ethernet frame, with room for a tag; an LLDPDU fills at most one frame.
const FRAME_MAX: usize = 1600;
/// Frames read in one go, before other work has its turn. The kernel drops frames that come faster.
const READ_AT_ONCE: usize = 32;
/// The pause between reads. A switch sends every few seconds, so nothing of interest is lost in between.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause after successive errors; a single error means that an interface was set down.
const PAUSE_BROKEN: Duration = Duration::from_secs(1);

/// Listens on the given ports, and sends on some of them, until dropped.
#[derive(Debug, Default)]
pub struct Listener {
    listened: Mutex<ListenedPorts>,
    changed: Arc<Notify>,
    heard: Arc<Notify>,
    speaker: Speaker,
}

#[derive(Debug, Default)]
struct ListenedPorts {
    ports: BTreeMap<u32, Port>,
    /// Ports that the facts list.
    cards: BTreeSet<u32>,
    of_devices: BTreeSet<u32>,
}

#[derive(Debug)]
struct Port {
    heard: Arc<Mutex<Table>>,
    /// `None` if the port cannot be listened to.
    listener: Option<PortListener>,
}

#[derive(Debug)]
struct PortListener {
    socket: Arc<pipe::Receiver>,
    task: JoinHandle<()>,
}

impl Drop for PortListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    /// Listens to the ports among `links` (by the kernel's index) from now on, and adds the neighbours heard
    /// to each. A port without a carrier has no neighbours. Returns the ports that cannot be listened to,
    /// once each, for the log.
    pub fn follow(&self, links: &mut BTreeMap<u32, LinkFacts>) -> Vec<String> {
        let mut listened = locked(&self.listened);
        listened.cards = ports_of(links);
        let failed = self.listen(&mut listened);
        for (index, port) in &listened.ports {
            let Some(link) = links.get_mut(index) else { continue };
            let mut heard = locked(&port.heard);
            if !link.carrier {
                *heard = Table::default();
            }
            link.neighbours = heard.neighbours().map(NeighbourFacts::from).collect();
        }
        let named = |(index, error)| {
            let name = links.get(&index).map_or("a link that is gone", |link| &link.name);
            format!("cannot listen for LLDP on {name}: {error}")
        };
        failed.into_iter().map(named).collect()
    }

    /// Listens to these ports of devices from now on. Returns those that cannot be listened to, once each.
    pub fn follow_devices(&self, ports: BTreeSet<u32>) -> Vec<(u32, io::Error)> {
        let mut listened = locked(&self.listened);
        if listened.of_devices == ports {
            return Vec::new();
        }
        listened.of_devices = ports;
        self.speaker.hush(|index| !listened.of_devices.contains(&index));
        self.listen(&mut listened)
    }

    /// Listens to the ports of cards and devices, and to no others.
    fn listen(&self, listened: &mut ListenedPorts) -> Vec<(u32, io::Error)> {
        let ListenedPorts { ports, cards, of_devices } = listened;
        ports.retain(|index, _| cards.contains(index) || of_devices.contains(index));
        let mut failed = Vec::new();
        for index in cards.union(of_devices) {
            ports.entry(*index).or_insert_with(|| {
                let heard = Arc::<Mutex<Table>>::default();
                let listener = self.open(*index, &heard).map_err(|error| failed.push((*index, error))).ok();
                Port { heard, listener }
            });
        }
        failed
    }

    fn open(&self, index: u32, heard: &Arc<Mutex<Table>>) -> io::Result<PortListener> {
        // Tokio's type for a descriptor that is read when it is ready.
        let socket = File::from(sys::packet_socket(index, &GROUPS, &filter())?);
        let socket = Arc::new(pipe::Receiver::from_file_unchecked(socket)?);
        let (changed, beacons) = (Arc::clone(&self.changed), Arc::clone(&self.heard));
        let task = tokio::spawn(hear(Arc::clone(&socket), Arc::clone(heard), changed, beacons));
        Ok(PortListener { socket, task })
    }

    /// The Muster ports that were heard on a port, in order, at most
    /// [`HEARD_MAX`](muster_shared::model::topology::HEARD_MAX).
    pub fn beacons(&self, index: u32) -> Vec<Beacon> {
        let listened = locked(&self.listened);
        listened.ports.get(&index).map(|port| locked(&port.heard).beacons()).unwrap_or_default()
    }

    /// Whether it can be listened to, and spoken on.
    pub fn is_open(&self, index: u32) -> bool {
        locked(&self.listened).ports.get(&index).is_some_and(|port| port.listener.is_some())
    }

    /// The cable is unplugged: forgets the port's neighbours, and frames that came before.
    pub fn forget(&self, index: u32) {
        let listened = locked(&self.listened);
        let Some(port) = listened.ports.get(&index) else { return };
        if let Some(listener) = &port.listener {
            let mut buffer = [0; FRAME_MAX];
            // An earlier frame could name a neighbour that has been replaced by now.
            for _ in 0..READ_AT_ONCE {
                if listener.socket.try_read(&mut buffer).is_err() {
                    break;
                }
            }
        }
        *locked(&port.heard) = Table::default();
    }

    /// Sends this announcement on a port of a device from now on, again and again.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn speak(&self, index: u32, says: Announcement) -> io::Result<()> {
        let listened = locked(&self.listened);
        let listener = listened.ports.get(&index).and_then(|port| port.listener.as_ref());
        listener.map_or(Ok(()), |listener| self.speaker.speak(index, &listener.socket, says))
    }

    /// The agent ends while its switch goes on: tells neighbours for how long to expect no further frame.
    pub fn end(&self) {
        self.speaker.end();
    }

    /// Nothing goes out of it any more.
    pub fn hush(&self, index: u32) {
        self.speaker.hush(|other| other == index);
    }

    /// Returns once a neighbour came, went or changed since the last call. Dropping it loses nothing.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The same, of beacons.
    pub async fn heard(&self) {
        self.heard.notified().await;
    }
}

/// Network cards; without any, veths.
fn ports_of(links: &BTreeMap<u32, LinkFacts>) -> BTreeSet<u32> {
    let of_kind = |kind: &str| -> BTreeSet<u32> {
        let is_port = |link: &LinkFacts| link.kind == kind && link.mac.is_some_and(|mac| mac != [0; 6]);
        links.iter().filter(|(_, link)| is_port(link)).map(|(index, _)| *index).take(PORTS_MAX).collect()
    };
    let cards = of_kind("");
    if cards.is_empty() { of_kind("veth") } else { cards }
}

/// Passes LLDP frames that came in: the Ethernet type, one of the groups, and not sent by this host. The
/// kernel runs the filter for every frame of the port.
fn filter() -> [libc::sock_filter; 12] {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_ABS) as u16;
    const WORD: u16 = LOAD | libc::BPF_W as u16;
    const HALF: u16 = LOAD | libc::BPF_H as u16;
    const BYTE: u16 = LOAD | libc::BPF_B as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const END: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    // `jt` and `jf`: how many steps to skip if equal, and if not.
    let is = |k, jt, jf| libc::sock_filter { code: IS, jt, jf, k };
    let [first, others @ ..] = GROUPS.map(|[_, _, _, _, high, low]| u32::from(high) << 8 | u32::from(low));
    [
        step(HALF, 12),
        is(u32::from(ETHERTYPE), 0, 9),
        step(WORD, 0),
        is(0x0180_c200, 0, 7),
        step(HALF, 4),
        is(first, 2, 0),
        is(others[0], 1, 0),
        is(others[1], 0, 3),
        step(BYTE, (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned()),
        is(u32::from(libc::PACKET_OUTGOING), 1, 0),
        step(END, FRAME_MAX as u32),
        step(END, 0),
    ]
}

async fn hear(
    socket: Arc<pipe::Receiver>,
    heard: Arc<Mutex<Table>>,
    changed: Arc<Notify>,
    beacons: Arc<Notify>,
) {
    let start = Instant::now();
    let now = || MonoTime(start.elapsed());
    let (mut buffer, mut is_broken) = ([0; FRAME_MAX], false);
    loop {
        let expiry = locked(&heard).next_expiry().map(|at| start + at.0);
        let is_over = async {
            match expiry {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let mut pause = PAUSE;
        tokio::select! {
            () = is_over => pause = Duration::ZERO,
            ready = socket.readable() => {
                if ready.is_err() {
                    return; // the runtime ends
                }
            }
        }
        let (is_news, is_heard) = {
            let mut heard = locked(&heard);
            let before = heard.beacons();
            let mut is_news = false;
            for _ in 0..READ_AT_ONCE {
                match socket.try_read(&mut buffer) {
                    Ok(length) => {
                        if let Ok(frame) = Frame::read(&buffer[..length]) {
                            is_news |= heard.hear(now(), frame);
                        }
                    }
                    Err(error) => {
                        let was_broken = is_broken;
                        is_broken = error.kind() != io::ErrorKind::WouldBlock;
                        if was_broken && is_broken {
                            pause = PAUSE_BROKEN;
                        }
                        break;
                    }
                }
            }
            // Runs after reading waiting frames, which an agent that was held up has not read in time.
            is_news |= heard.expire(now());
            (is_news, heard.beacons() != before)
        };
        if is_heard {
            beacons.notify_one();
        }
        if is_news {
            changed.notify_one();
        }
        sleep(pause).await;
    }
}

/// Nothing that panics is done under these locks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
