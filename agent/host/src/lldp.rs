//! Who is at the other end of the cables: LLDP (IEEE 802.1AB) as it is heard. Nothing is sent.
//!
//! ```text
//!   socket of a port ─▶ frame (pure) ─▶ table of the port (pure) ─▶ facts of the link
//! ```
//!
//! A port is a network card; in a namespace that has none, as a container, it is a veth. Each has a packet socket of its
//! own that takes frames before a bridge, a bond or Open vSwitch does; the kernel drops all others by a filter. What
//! stands in a frame was written by anybody on that cable: it is told to people, and nothing follows from it.
//!
//! Absent: when to look which ports there are (with the facts), how often a change is told (the agent's core).

mod frame;
mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::{LinkFacts, NeighbourFacts};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

pub use frame::{ETHERTYPE, Frame, FrameError, GROUPS, Id};
pub use table::Table;

use crate::sys;

/// Ports that are listened to: more are no server's.
const PORTS_MAX: usize = 128;
/// The longest frame of Ethernet with room for a tag; an LLDPDU fills one at most.
const FRAME_MAX: usize = 1600;
/// Frames read in one go; then others have their turn. What comes faster the kernel drops.
const READ_AT_ONCE: usize = 32;
/// A switch speaks every few seconds: nobody misses what comes in between.
const PAUSE: Duration = Duration::from_millis(100);
/// After an error, such as that of an interface that is set down.
const PAUSE_BROKEN: Duration = Duration::from_secs(1);

/// Listens on the ports it is given, until it is dropped.
#[derive(Debug, Default)]
pub struct Listener {
    ports: Mutex<BTreeMap<u32, Port>>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Port {
    heard: Arc<Mutex<Table>>,
    /// None: it cannot be listened to.
    task: Option<JoinHandle<()>>,
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Listener {
    /// Listens to the ports among `links` (by the kernel's index) from now on, and says with each who was heard there.
    /// A port without a carrier has no neighbours. Gives what cannot be listened to, once, for the log.
    pub fn follow(&self, links: &mut BTreeMap<u32, LinkFacts>) -> Vec<String> {
        let mut ports = locked(&self.ports);
        let wanted = ports_of(links);
        ports.retain(|index, _| wanted.contains(index));
        let mut warnings = Vec::new();
        for index in wanted {
            let Some(link) = links.get_mut(&index) else { continue };
            let port = ports.entry(index).or_insert_with(|| {
                let heard = Arc::<Mutex<Table>>::default();
                let task = match listen(index) {
                    Ok(socket) => {
                        let (heard, changed) = (Arc::clone(&heard), Arc::clone(&self.changed));
                        Some(tokio::spawn(hear(socket, heard, changed)))
                    }
                    Err(error) => {
                        warnings.push(format!("cannot listen for LLDP on {}: {error}", link.name));
                        None
                    }
                };
                Port { heard, task }
            });
            let mut heard = locked(&port.heard);
            if !link.carrier {
                *heard = Table::default();
            }
            link.neighbours = heard.neighbours().map(NeighbourFacts::from).collect();
        }
        warnings
    }

    /// Somebody came, went or says something else since this was asked last. Nothing is lost when it is dropped.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Cards; where there is none, veths.
fn ports_of(links: &BTreeMap<u32, LinkFacts>) -> Vec<u32> {
    let of_kind = |kind: &str| -> Vec<u32> {
        let is_port = |link: &LinkFacts| link.kind == kind && link.mac.is_some_and(|mac| mac != [0; 6]);
        links.iter().filter(|(_, link)| is_port(link)).map(|(index, _)| *index).take(PORTS_MAX).collect()
    };
    let cards = of_kind("");
    if cards.is_empty() { of_kind("veth") } else { cards }
}

/// Tokio's name for a descriptor that is read when it is ready.
fn listen(index: u32) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_file_unchecked(File::from(sys::packet_socket(index, &GROUPS, &filter())?))
}

/// Frames of LLDP that came in: Ethernet type, one of the groups, and not sent by ourselves. The kernel runs it for every
/// frame of the port.
fn filter() -> [libc::sock_filter; 12] {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_ABS) as u16;
    const WORD: u16 = LOAD | libc::BPF_W as u16;
    const HALF: u16 = LOAD | libc::BPF_H as u16;
    const BYTE: u16 = LOAD | libc::BPF_B as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const END: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    // Where to go on if it is equal, and if not: so many steps further.
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

async fn hear(socket: pipe::Receiver, heard: Arc<Mutex<Table>>, changed: Arc<Notify>) {
    let start = Instant::now();
    let now = || MonoTime(start.elapsed());
    let mut buffer = [0; FRAME_MAX];
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
        let mut is_news = locked(&heard).expire(now());
        for _ in 0..READ_AT_ONCE {
            match socket.try_read(&mut buffer) {
                Ok(length) => {
                    if let Ok(frame) = Frame::read(&buffer[..length]) {
                        is_news |= locked(&heard).hear(now(), frame);
                    }
                }
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        pause = PAUSE_BROKEN;
                    }
                    break;
                }
            }
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
