//! Says which resources may have changed: by inotify on the directories of their files, and by
//! systemd's signals.
//!
//! A hint only wakes: the receiver looks at the resource. A slow look finds changes that give no hint or
//! cannot be watched (a missing directory, a process that writes into an open file, a limit of the kernel).
//! Directories are watched instead of files, since files are replaced by others of the same name. While
//! nothing happens there is no wake-up.
//!
//! Absent: when the agent looks after a hint (`agent/core/src/watch.rs`), and hints of the network
//! (`net/monitor.rs`). Absent too: the change and its author, which the kernel tells only through `fanotify`,
//! for a whole file system.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_shared::ResourceId;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::systemd::{Systemd, SystemdError};

/// Directories watched at a time, each of which takes a kilobyte of the kernel's memory: files of more are
/// found by a slow look.
const DIRECTORIES_MAX: usize = 4096;
/// Units watched at a time: each is a rule of the bus's daemon, which allows a connection some hundred.
const UNITS_MAX: usize = 256;
/// The most changed units that wait to be taken; a slow look finds any others.
const UNITS_QUEUED: usize = 1024;
/// Bytes of events read at once.
const BUFFER: usize = 4096;
/// The pause after events, before the next are read; doubled while events keep coming, as in a directory
/// with logs.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// A change of many units reports them one after the other.
const UNITS_SETTLE: Duration = Duration::from_millis(200);
/// The pause before systemd's bus is tried again; doubled each time.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(300);

/// The places of a resource's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Files, existing or not.
    pub files: Vec<PathBuf>,
    /// A unit of systemd.
    pub unit: Option<String>,
}

/// Watches places of resources.
#[derive(Debug)]
pub struct Watcher {
    systemd: Systemd,
    inotify: Option<Open>,
    directories: BTreeMap<PathBuf, Directory>,
    /// A directory may be reached by several paths.
    by_watch: BTreeMap<i32, BTreeSet<PathBuf>>,
    places: BTreeMap<ResourceId, Places>,
    units: BTreeMap<String, BTreeSet<ResourceId>>,
    said: (mpsc::Sender<String>, mpsc::Receiver<String>),
    following: Option<AbortHandle>,
    rung: BTreeSet<ResourceId>,
    not_before: Instant,
    pause: Duration,
}

#[derive(Debug)]
struct Open {
    inotify: Inotify,
    events: pipe::Receiver,
}

#[derive(Debug, Default)]
struct Directory {
    watch: Option<WatchDescriptor>,
    names: BTreeMap<OsString, BTreeSet<ResourceId>>,
}

/// An event of inotify for a directory.
struct Event<'a> {
    watch: i32,
    mask: AddWatchFlags,
    name: &'a OsStr,
}

impl Watcher {
    /// Needs a tokio runtime with I/O and time.
    pub fn new(systemd: Systemd) -> Self {
        Self {
            systemd,
            inotify: None,
            directories: BTreeMap::new(),
            by_watch: BTreeMap::new(),
            places: BTreeMap::new(),
            units: BTreeMap::new(),
            said: mpsc::channel(UNITS_QUEUED),
            following: None,
            rung: BTreeSet::new(),
            not_before: Instant::now(),
            pause: PAUSE,
        }
    }

    /// These are the resource's places from now on; without any it is not watched.
    pub fn set(&mut self, resource: ResourceId, places: Places) {
        let empty = Places::default();
        let was = self.places.remove(&resource).unwrap_or_default();
        for file in was.files.iter().filter(|file| !places.files.contains(file)) {
            self.leave(resource, file);
        }
        for file in &places.files {
            self.enter(resource, file);
        }
        if was.unit != places.unit {
            if let Some(unit) = was.unit {
                let of_unit = self.units.entry(unit.clone()).or_default();
                of_unit.remove(&resource);
                if of_unit.is_empty() {
                    self.units.remove(&unit);
                }
            }
            if let Some(unit) = places.unit.clone() {
                self.units.entry(unit).or_default().insert(resource);
            }
            self.follow_units();
        }
        if places != empty {
            self.places.insert(resource, places);
        }
    }

    /// Tries again what could not be watched: a directory may be there by now.
    pub fn renew(&mut self) {
        let unwatched = self.directories.iter().filter(|(_, directory)| directory.watch.is_none());
        let paths: Vec<PathBuf> = unwatched.map(|(path, _)| path.clone()).collect();
        paths.iter().for_each(|path| self.watch(path));
    }

    /// Waits for resources that may have changed; those since the last call are joined. Dropping the future
    /// loses nothing.
    pub async fn changed(&mut self) -> BTreeSet<ResourceId> {
        while self.rung.is_empty() {
            tokio::select! {
                () = readable(self.inotify.as_ref(), self.not_before) => self.read(),
                unit = self.said.1.recv() => {
                    let of_unit = unit.and_then(|unit| self.units.get(&unit));
                    self.rung.extend(of_unit.into_iter().flatten());
                }
            }
        }
        std::mem::take(&mut self.rung)
    }

    fn enter(&mut self, resource: ResourceId, file: &Path) {
        let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else { return };
        if !self.directories.contains_key(parent) && self.directories.len() >= DIRECTORIES_MAX {
            return;
        }
        let directory = self.directories.entry(parent.to_owned()).or_default();
        directory.names.entry(name.to_owned()).or_default().insert(resource);
        if directory.watch.is_none() {
            self.watch(parent);
        }
    }

    fn leave(&mut self, resource: ResourceId, file: &Path) {
        let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else { return };
        let Some(directory) = self.directories.get_mut(parent) else { return };
        if let Some(resources) = directory.names.get_mut(name) {
            resources.remove(&resource);
            if resources.is_empty() {
                directory.names.remove(name);
            }
        }
        if !directory.names.is_empty() {
            return;
        }
        let watch = directory.watch;
        self.directories.remove(parent);
        let Some(watch) = watch else { return };
        let paths = self.by_watch.entry(watch.as_raw()).or_default();
        paths.remove(parent);
        if paths.is_empty() {
            self.by_watch.remove(&watch.as_raw());
            if let Some(open) = &self.inotify {
                // The watch may have ended by itself.
                let _ = open.inotify.rm_watch(watch);
            }
        }
    }

    fn watch(&mut self, path: &Path) {
        if self.inotify.is_none() {
            self.inotify = Open::new().ok();
        }
        let Some(open) = &self.inotify else { return };
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let Ok(watch) = open.inotify.add_watch(path, flags) else { return };
        self.by_watch.entry(watch.as_raw()).or_default().insert(path.to_owned());
        if let Some(directory) = self.directories.get_mut(path) {
            directory.watch = Some(watch);
            // Covers changes from before the watch.
            self.rung.extend(directory.names.values().flatten());
        }
    }

    /// Reads the waiting events.
    fn read(&mut self) {
        let Some(open) = &self.inotify else { return };
        let mut buffer = [0; BUFFER];
        let read = match open.events.try_read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return self.lost(),
        };
        let now = Instant::now();
        let is_storm = now < self.not_before + self.pause;
        self.pause = if is_storm { (self.pause * 2).min(PAUSE_MAX) } else { PAUSE };
        self.not_before = now + self.pause;
        for event in events(&buffer[..read]) {
            self.heard(&event);
        }
    }

    fn heard(&mut self, event: &Event<'_>) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            let all = self.directories.values().flat_map(|directory| directory.names.values());
            self.rung.extend(all.flatten());
            return;
        }
        let gone = AddWatchFlags::IN_IGNORED
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_UNMOUNT;
        if !event.mask.intersects(gone) {
            let paths = self.by_watch.get(&event.watch).into_iter().flatten();
            let named = paths.filter_map(|path| self.directories.get(path)?.names.get(event.name));
            self.rung.extend(named.flatten());
            return;
        }
        for path in self.by_watch.remove(&event.watch).unwrap_or_default() {
            let Some(directory) = self.directories.get_mut(&path) else { continue };
            self.rung.extend(directory.names.values().flatten());
            let watch = directory.watch.take();
            if let (Some(watch), Some(open)) = (watch, &self.inotify) {
                // A directory that was moved may now serve another purpose.
                let _ = open.inotify.rm_watch(watch);
            }
            // Another directory may have taken the path already.
            self.watch(&path);
        }
    }

    /// Watches everything again.
    fn lost(&mut self) {
        self.inotify = None;
        self.not_before = Instant::now() + PAUSE_MAX;
        self.by_watch.clear();
        self.directories.values_mut().for_each(|directory| directory.watch = None);
        self.renew();
    }

    fn follow_units(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
        if self.units.is_empty() {
            return;
        }
        let units: Vec<String> = self.units.keys().take(UNITS_MAX).cloned().collect();
        let follow = follow(self.systemd.clone(), units, self.said.0.clone());
        self.following = Some(tokio::spawn(follow).abort_handle());
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(following) = &self.following {
            following.abort();
        }
    }
}

impl Open {
    fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        // Tokio's type for a descriptor that is read when it is ready.
        let events = File::from(inotify.as_fd().try_clone_to_owned()?);
        Ok(Self { events: pipe::Receiver::from_file_unchecked(events)?, inotify })
    }
}

async fn readable(open: Option<&Open>, not_before: Instant) {
    let Some(open) = open else { return pending().await };
    sleep_until(not_before).await;
    // An error shows at the next read.
    let _ = open.events.readable().await;
}

/// Parses `struct inotify_event`s; a truncated one ends the list.
fn events(mut bytes: &[u8]) -> impl Iterator<Item = Event<'_>> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<16>()?;
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let length = usize::try_from(u32::from_ne_bytes(word(12))).ok()?;
        let (name, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Event {
            watch: i32::from_ne_bytes(word(0)),
            mask: AddWatchFlags::from_bits_truncate(u32::from_ne_bytes(word(4))),
            name: OsStr::from_bytes(name),
        })
    })
}

/// Sends the names of units that change, for ever.
async fn follow(systemd: Systemd, units: Vec<String>, said: mpsc::Sender<String>) {
    sleep(UNITS_SETTLE).await;
    let mut retry = RETRY;
    loop {
        let begun = Instant::now();
        if let Err(SystemdError::Absent) = listen(&systemd, &units, &said).await {
            retry = RETRY_MAX;
        }
        if begun.elapsed() > RETRY_MAX {
            retry = RETRY;
        }
        sleep(retry).await;
        retry = (retry * 2).min(RETRY_MAX);
    }
}

async fn listen(
    systemd: &Systemd,
    units: &[String],
    said: &mpsc::Sender<String>,
) -> Result<(), SystemdError> {
    let bus = systemd.connect().await?;
    let mut watch = bus.watch_all(units).await?;
    for unit in units {
        // Covers earlier changes; a slow look finds those that do not fit.
        let _ = said.try_send(unit.clone());
    }
    while let Some(unit) = watch.changed().await {
        let _ = said.try_send(unit);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
