//! Sends frames, port by port: soon after a port came up, and then periodically.
//!
//! Sending has a thread of its own while there is a port to send on: a slow disk delays the rest of the
//! agent, and must not make every cable of this server look cut.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::write;
use tokio::net::unix::pipe;

use super::locked;

/// The interval between frames of a port. All ports send at the same moments, to save wake-ups.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);
/// The interval of the first frames after a port came up, so that a waiting neighbour learns of the
/// port soon.
const QUICK_INTERVAL: Duration = Duration::from_secs(1);
const QUICK: u8 = 3;
/// The validity of a frame: two frames may be lost, and a cable that fails silently is noticed within
/// this time.
pub const TTL: Duration = Duration::from_secs(6);
/// The validity of the last frame of an agent that ends in order. The switch goes on forwarding meanwhile,
/// and an agent that is upgraded or restarted is back within this time. A switch that fails while its agent
/// is away is noticed only after that.
pub const LAST_TTL: Duration = Duration::from_secs(120);
/// Frames are built beforehand, so that the thread only sends them.
const STACK: usize = 64 * 1024;

/// When a port speaks next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    next: Duration,
    quick: u8,
}

impl Schedule {
    /// The schedule of a port that comes up now.
    pub(super) fn new(now: Duration) -> Self {
        Self { next: now, quick: QUICK }
    }

    /// Whether the port sends now. If so, the caller sends.
    pub(super) fn speaks(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        if self.quick > 0 {
            self.quick -= 1;
            self.next = now + QUICK_INTERVAL;
        } else {
            let interval = INTERVAL.as_millis() as u64;
            let past = now.as_millis() as u64 % interval;
            self.next = Duration::from_millis(now.as_millis() as u64 - past + interval);
        }
        true
    }

    pub(super) fn next(&self) -> Duration {
        self.next
    }
}

/// Sends on the given ports, until dropped.
#[derive(Debug, Default)]
pub(super) struct Speaker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    voices: Mutex<Voices>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Voices {
    ports: BTreeMap<u32, Voice>,
    is_running: bool,
}

#[derive(Debug)]
struct Voice {
    socket: Arc<pipe::Receiver>,
    says: Announcement,
    schedule: Schedule,
}

/// The frames of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The frame sent periodically; valid for [`TTL`].
    pub frame: Vec<u8>,
    /// The frame sent when the agent ends; valid for [`LAST_TTL`].
    pub last: Vec<u8>,
}

impl Voice {
    /// Sends a frame. A socket whose port was down reports an error once, and then accepts the frame. A full
    /// socket drops it; the next frame follows.
    fn say(&self, frame: &[u8]) {
        let _ = write(&*self.socket, frame).or_else(|_| write(&*self.socket, frame));
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.hush(|_| true);
    }
}

impl Speaker {
    /// Sends this frame on this port from now on, in place of an earlier one.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn speak(
        &self,
        index: u32,
        socket: &Arc<pipe::Receiver>,
        says: Announcement,
    ) -> io::Result<()> {
        let mut voices = locked(&self.0.voices);
        if voices.ports.get(&index).is_some_and(|voice| voice.says == says) {
            return Ok(());
        }
        if !voices.is_running {
            let shared = Arc::clone(&self.0);
            std::thread::Builder::new().name("lldp".into()).stack_size(STACK).spawn(move || shared.run())?;
            voices.is_running = true;
        }
        let schedule = Schedule::new(clock());
        voices.ports.insert(index, Voice { socket: Arc::clone(socket), says, schedule });
        drop(voices);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Sends each port's last frame, and nothing after.
    pub(super) fn end(&self) {
        let ports = std::mem::take(&mut locked(&self.0.voices).ports);
        ports.values().for_each(|voice| voice.say(&voice.says.last));
        self.0.changed.notify_one();
    }

    /// Silent from now on.
    pub(super) fn hush(&self, whom: impl Fn(u32) -> bool) {
        locked(&self.0.voices).ports.retain(|index, _| !whom(*index));
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        let mut voices = locked(&self.voices);
        loop {
            let now = clock();
            for voice in voices.ports.values_mut() {
                if voice.schedule.speaks(now) {
                    voice.say(&voice.says.frame);
                }
            }
            let Some(next) = voices.ports.values().map(|voice| voice.schedule.next()).min() else {
                voices.is_running = false;
                return;
            };
            let waited = self.changed.wait_timeout(voices, next.saturating_sub(clock()));
            voices = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The time since the first call: each server sends at its own moments.
fn clock() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
