//! Says that something of the network may have changed: by the kernel's multicast groups, by the monitor of
//! Open vSwitch's database, and by the kernel's host name, which is looked at with the network.
//!
//! A hint only wakes: the receiver looks at the whole state. So hints are joined, never queued; messages lost
//! by the kernel also count as a hint; and while hints keep coming, they are read ever less often. Nothing is
//! polled: without a change there is no wake-up, also where Open vSwitch is not installed.
//!
//! Absent: the changes themselves, when the agent looks after a hint (`agent/core/src/watch.rs`), and hints of
//! files and units (`watch.rs` of the crate).

use std::ffi::OsStr;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, SocketAddr, TokioSocket};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Network;
use super::ovsdb::Changes;
use crate::hostname::Renames;

/// `RTMGRP_`: links, then addresses, routes and rules of IPv4 and of IPv6.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 0x4_0000;
/// `RTM_NEWLINK`, `RTM_DELLINK`, `RTM_NEWADDR`, `RTM_DELADDR`.
const LINK_MESSAGES: [u16; 4] = [16, 17, 20, 21];
/// Only a message's header is read; the rest may be cut.
const HEAD: usize = 4096;
/// Messages read in one go, before the rest of the agent has its turn: as many route messages as the kernel's
/// buffer holds.
const READ_AT_ONCE: usize = 1024;
/// The pause after a hint, before the next is read; doubled while hints keep coming. If the kernel's buffer
/// overflows meanwhile, that counts as a hint.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// A socket that was lost is opened again after this.
const REOPEN: Duration = Duration::from_millis(100);
/// The pause before a database that has a socket but does not answer is tried again; doubled each time.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// The longest pause, and the interval of looking for a database where its arrival gives no event.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(300);

/// The part of the network that may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Routes, rules, bridges of Open vSwitch.
    Other,
    /// Links or their addresses, the host name.
    Links,
}

/// Watches the network of the namespace in which it was opened, until dropped.
#[derive(Debug)]
pub struct Monitor {
    bell: Arc<Bell>,
    _tasks: JoinSet<()>,
}

/// Hints that were not taken yet, joined into one.
#[derive(Debug, Default)]
struct Bell {
    rung: AtomicU8,
    wake: Notify,
}

impl Bell {
    fn ring(&self, change: Change) {
        self.rung.fetch_max(change as u8 + 1, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

impl Monitor {
    /// Needs a tokio runtime with I/O and time. Sources that cannot be watched yet are watched as soon
    /// as possible.
    pub fn open(network: &Network) -> Self {
        let bell = Arc::new(Bell::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(watch_kernel(Arc::clone(&bell)));
        tasks.spawn(watch_name(Arc::clone(&bell)));
        tasks.spawn(watch_ovs(network.ovs_db.clone(), Arc::clone(&bell)));
        Self { bell, _tasks: tasks }
    }

    /// Watches only Open vSwitch's database: bridges come and go.
    pub fn of_switch(network: &Network) -> Self {
        let bell = Arc::new(Bell::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(watch_ovs(network.ovs_db.clone(), Arc::clone(&bell)));
        Self { bell, _tasks: tasks }
    }

    /// Waits for the next hint; hints since the last call are joined. Dropping the future loses nothing.
    pub async fn change(&mut self) -> Change {
        loop {
            match self.bell.rung.swap(0, Ordering::Relaxed) {
                0 => self.bell.wake.notified().await,
                rung if rung == Change::Other as u8 + 1 => return Change::Other,
                _ => return Change::Links,
            }
        }
    }
}

async fn watch_kernel(bell: Arc<Bell>) {
    loop {
        // Ends when messages were lost: a new socket starts with an empty buffer.
        let _ = follow_kernel(&bell).await;
        sleep(REOPEN).await;
    }
}

async fn follow_kernel(bell: &Bell) -> io::Result<()> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind(&SocketAddr::new(0, GROUPS))?;
    // Covers changes from before the socket listened.
    bell.ring(Change::Links);
    let (mut buffer, mut pause) = (Vec::with_capacity(HEAD), PAUSE);
    loop {
        let idle = Instant::now();
        let read = poll_fn(|context| {
            let first = socket.poll_recv(context, &mut buffer);
            if first.is_pending() {
                return first;
            }
            let mut read = first;
            for _ in 0..READ_AT_ONCE {
                match read {
                    Poll::Ready(Ok(())) => bell.ring(change_in(&buffer)),
                    Poll::Ready(Err(_)) => return read,
                    Poll::Pending => break,
                }
                buffer.clear();
                read = socket.poll_recv(context, &mut buffer);
            }
            Poll::Ready(Ok(()))
        });
        read.await.inspect_err(|_| bell.ring(Change::Links))?;
        pause = if idle.elapsed() > pause { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
        sleep(pause).await;
    }
}

/// If the name cannot be watched, a periodic look finds changes.
async fn watch_name(bell: Arc<Bell>) {
    let Ok(mut renames) = Renames::open() else { return };
    while renames.next().await.is_ok() {
        bell.ring(Change::Links);
        sleep(PAUSE_MAX).await;
    }
}

/// The kind of change that a datagram of `nlmsghdr`s reports.
fn change_in(mut datagram: &[u8]) -> Change {
    while let [l0, l1, l2, l3, t0, t1, ..] = *datagram {
        if LINK_MESSAGES.contains(&u16::from_ne_bytes([t0, t1])) {
            return Change::Links;
        }
        let length = u64::from(u32::from_ne_bytes([l0, l1, l2, l3])).max(16).next_multiple_of(4);
        datagram = usize::try_from(length).ok().and_then(|length| datagram.get(length..)).unwrap_or_default();
    }
    Change::Other
}

async fn watch_ovs(socket: PathBuf, bell: Arc<Bell>) {
    let mut retry = RETRY;
    loop {
        if let Ok(mut changes) = Changes::open(&socket).await {
            retry = RETRY;
            let mut pause = PAUSE;
            loop {
                // The file has appeared, or changed.
                bell.ring(Change::Other);
                sleep(pause).await;
                let idle = Instant::now();
                if changes.next().await.is_err() {
                    break;
                }
                pause = if idle.elapsed() > pause { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
            }
            bell.ring(Change::Other);
        }
        appears(&socket, retry).await;
        // The switch listens a moment after the socket exists.
        sleep(PAUSE).await;
        retry = (retry * 2).min(RETRY_MAX);
    }
}

/// Waits until a file of that name appears; an existing file has `retry` to be replaced.
pub(crate) async fn appears(path: &Path, retry: Duration) {
    let within = if path.exists() { retry } else { RETRY_MAX };
    // Where watching fails or comes too late, a periodic look finds the file.
    let _ = timeout(within, async {
        if made_below(path).await.is_err() {
            sleep(within).await;
        }
    })
    .await;
}

/// Waits until the next missing directory on the way to `path`, or `path` itself, is made.
async fn made_below(path: &Path) -> io::Result<()> {
    let (directory, name) = nearest(path).ok_or(io::ErrorKind::NotFound)?;
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    let flags = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    inotify.add_watch(directory, flags)?;
    if nearest(path) != Some((directory, name)) {
        return Ok(()); // made meanwhile
    }
    // Tokio's type for a descriptor that is read when it is ready.
    let events = pipe::Receiver::from_file_unchecked(File::from(inotify.as_fd().try_clone_to_owned()?))?;
    let mut buffer = [0; HEAD];
    loop {
        events.readable().await?;
        let is_read = match events.try_read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            read => read? > 0,
        };
        // Files of other names also come and go there. A socket that is replaced exists before and after.
        if is_read && (nearest(path) != Some((directory, name)) || path.exists()) {
            return Ok(());
        }
    }
}

/// The last existing directory on the way to `path`, and the next name.
fn nearest(path: &Path) -> Option<(&Path, &OsStr)> {
    let mut at = path;
    while let (Some(directory), Some(name)) = (at.parent(), at.file_name()) {
        if directory.is_dir() {
            return Some((directory, name));
        }
        at = directory;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, length: u32) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(length.max(16).next_multiple_of(4) as usize, 0);
        bytes
    }

    #[test]
    fn a_datagram_about_links_says_so() {
        let route = message(24, 61);
        assert_eq!(change_in(&route), Change::Other);
        for kind in LINK_MESSAGES {
            assert_eq!(change_in(&message(kind, 32)), Change::Links);
            assert_eq!(change_in(&[route.clone(), message(kind, 32)].concat()), Change::Links);
        }
        for length in [0, 3, u32::MAX] {
            let mut bad = message(24, 16);
            bad[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(change_in(&bad), Change::Other);
        }
        assert_eq!(change_in(&[1, 2, 3]), Change::Other);
    }

    #[tokio::test]
    async fn a_file_and_the_directories_above_it_are_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/sock");
        assert_eq!(nearest(&path), Some((root.path(), OsStr::new("a"))));
        for step in ["a", "a/b"] {
            let waits = made_below(&path);
            tokio::pin!(waits);
            let other = root.path().join(step).with_file_name("other");
            std::fs::write(&other, "").unwrap();
            assert!(futures_util::poll!(&mut waits).is_pending());
            std::fs::create_dir(root.path().join(step)).unwrap();
            waits.await.unwrap();
            std::fs::remove_file(other).unwrap();
        }
        let waits = made_below(&path);
        tokio::pin!(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
        std::fs::write(&path, "").unwrap();
        waits.await.unwrap();
    }
}
