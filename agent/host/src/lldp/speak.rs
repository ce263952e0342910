//! Frames as they are sent, port by port: soon after a port came up, and then again and again.
//!
//! This is a thread of its own, for as long as there is a port to speak on: a disk that is slow holds the rest of the
//! agent up, and must not make every cable of this server look cut.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::write;
use tokio::net::unix::pipe;

use super::locked;

/// How often a port speaks. Ports do so at the same moments: one wake-up for all.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);
/// After a port came up it speaks at once, and so often in this interval: whoever waits for it need not wait long.
const QUICK_INTERVAL: Duration = Duration::from_secs(1);
const QUICK: u8 = 3;
/// How long what was said is good: two frames may be lost, and a cable that dies silently is found within that.
pub const TTL: Duration = Duration::from_secs(6);
/// How long the last word of an agent that ends in order is good: what goes over its switch goes on meanwhile, and an agent
/// that is upgraded or started again is back by then. A switch that dies while its agent is away is missed after that.
pub const LAST_TTL: Duration = Duration::from_secs(120);
/// A frame is built beforehand, and nothing else is done.
const STACK: usize = 64 * 1024;

/// When a port speaks next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    next: Duration,
    quick: u8,
}

impl Schedule {
    /// For a port that comes up now.
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

/// Speaks on the ports it is given, until it is dropped.
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

/// What a port says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Again and again; good for [`TTL`].
    pub frame: Vec<u8>,
    /// When the agent ends; good for [`LAST_TTL`].
    pub last: Vec<u8>,
}

impl Voice {
    /// A socket whose port was down says so once, and then takes it. One that is full takes the next.
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
    /// From now on this frame on this port, in place of another one.
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

    /// Each port has its last word, and is silent from then on.
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

/// Since the first call: servers speak each at its own moments.
fn clock() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
