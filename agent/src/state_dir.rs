//! The agent's files on disk.
//!
//! ```text
//!   lock              held while an agent runs        epoch            the highest one seen
//!   identity          keys and certificates (0600)    ledger/<id>      one record per resource
//!   before/<digest>   large files that were there     fetch/<digest>   contents on their way
//!   reserve           room for records of removals
//!   net-local         what 'net apply' restores       local.sock       where documents are handed over
//!   flows/<bridge>    the log of a flow table         runs/<id>        a command that runs, or has ended
//!   next-identity     the identity at the site that the node moves to, until it has replaced the other
//!   program-put-back  the program that an upgrade which failed left beside its package
//!   apply-config/, json-files/                        what deployments left: see the host's documents
//!   corrupt/          records that could not be read, for whoever wants to know why
//! ```
//!
//! The directory belongs to the agent's user alone. A record that cannot be read is moved aside: the controller
//! finds out by the ledger's digest and sends the job again. `forget_site` decides what a node forgets when it
//! goes to another site.
//!
//! Absent: what a full disk leads to (`agent/core/src/disk_full.rs`).

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_agent_core::Entry;
use muster_agent_link::Identity;
use muster_shared::{Epoch, EpochId, ResourceId};
use thiserror::Error;

use crate::disk_calls::{Call, before};
use crate::record::{self, Read};

/// The reason why the state directory cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// Two agents must never share one.
    #[error("{}: another agent runs with this state directory", path.display())]
    Locked { path: PathBuf },
    /// The keys are unreadable.
    #[error("{}: damaged; join again with a token for this node", path.display())]
    Damaged { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
}

/// The directory, locked.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

/// The decision for another site.
const NEXT_IDENTITY: &str = "next-identity";

/// Reserved space, so that even a full disk can record the removal of the data that fills it.
const RESERVE: &str = "reserve";
const RESERVE_BYTES: usize = 1024 * 1024;

impl StateDir {
    /// Makes missing directories and takes the lock.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for directory in ["", "ledger", "before", "fetch", "flows", "runs", "corrupt"] {
            let directory = path.join(directory);
            builder.create(&directory).map_err(at(&directory))?;
        }
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(at(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {
                let state = Self { path: path.to_owned(), _lock: lock };
                state.end_change()?;
                // Without the reserve, removals wait for room as well.
                if !path.join(RESERVE).exists() {
                    let _ = state.find_room();
                }
                Ok(state)
            }
            Err(TryLockError::WouldBlock) => Err(StateError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(at(&lock_path)(source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of large former contents.
    pub fn before(&self) -> PathBuf {
        self.path.join("before")
    }

    /// The directory of flow table logs.
    pub fn flows(&self) -> PathBuf {
        self.path.join("flows")
    }

    /// The directory of runs.
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The directory of contents being fetched.
    pub fn fetch(&self) -> PathBuf {
        self.path.join("fetch")
    }

    /// Nothing, if this server has not joined.
    ///
    /// # Errors
    /// [`StateError::Damaged`] if the keys are unreadable.
    pub fn identity(&self) -> Result<Option<Identity>, StateError> {
        identity_unlocked(&self.path)
    }

    /// Writes the identity durably.
    ///
    /// # Errors
    /// The file is unchanged.
    pub fn write_identity(&self, identity: &Identity) -> Result<(), StateError> {
        let path = self.path.join("identity");
        record::write(&path, identity)
            .and_then(|()| record::sync_directory(&self.path))
            .map_err(|source| StateError::Io { path, source })
    }

    /// The highest epoch seen. An unreadable record counts as none: the agent accepts the controller's
    /// epoch again.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn epoch(&self) -> Result<EpochId, StateError> {
        let path = self.path.join("epoch");
        match record::read(&path) {
            Ok(Read::Whole(epoch)) => Ok(epoch),
            Ok(Read::Absent) => Ok(EpochId::default()),
            // A record without bits was written by an older agent.
            Ok(Read::Corrupt) => match record::read::<Epoch>(&path) {
                Ok(Read::Whole(number)) => Ok(number.into()),
                Ok(Read::Absent | Read::Corrupt) | Err(_) => {
                    self.move_aside(&path)?;
                    Ok(EpochId::default())
                }
            },
            Err(source) => Err(StateError::Io { path, source }),
        }
    }

    /// Writes the epoch durably.
    ///
    /// # Errors
    /// The file is unchanged.
    pub fn write_epoch(&self, epoch: EpochId) -> io::Result<()> {
        record::write(&self.path.join("epoch"), &epoch)?;
        record::sync_directory(&self.path)
    }

    /// Decides, in one step, that this node belongs to another site. What belongs to the present site goes when the
    /// directory is opened next. The ledger stays: the server has those things at either site.
    ///
    /// # Errors
    /// The node belongs to the present site, unless the disk lost the removal as well.
    pub fn change_site(&self, identity: &Identity) -> Result<(), StateError> {
        let path = self.path.join(NEXT_IDENTITY);
        let written = record::write(&path, identity).and_then(|()| record::sync_directory(&self.path));
        written.map_err(|source| {
            // The file's name may be on disk although the call failed.
            let _ = before(Call::Remove(&path)).and_then(|()| fs::remove_file(&path));
            let _ = record::sync_directory(&self.path);
            StateError::Io { path, source }
        })
    }

    /// Ends a change to another site. Each step may be the last one before a crash: the next start does all again, and
    /// the last step makes the new identity the only one.
    fn end_change(&self) -> Result<(), StateError> {
        let path = self.path.join(NEXT_IDENTITY);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        match record::read::<Identity>(&path).map_err(at(&path))? {
            Read::Absent => return Ok(()),
            // The other site knows the node; its operator removes it there.
            Read::Corrupt => return self.move_aside(&path),
            Read::Whole(_) => {}
        }
        self.forget_site()?;
        let identity = self.path.join("identity");
        before(Call::Rename(&path, &identity))
            .and_then(|()| fs::rename(&path, &identity))
            .and_then(|()| record::sync_directory(&self.path))
            .map_err(at(&identity))
    }

    /// Removes what would be taken for the next site's: the highest epoch, and generations of flow tables.
    fn forget_site(&self) -> Result<(), StateError> {
        let flows = self.flows();
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        let tables =
            fs::read_dir(&flows).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(at(&flows))?;
        let tables = tables.iter().map(fs::DirEntry::path);
        for path in tables.chain([self.path.join("epoch")]) {
            match before(Call::Remove(&path)).and_then(|()| fs::remove_file(&path)) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(at(&path)(source)),
                _ => {}
            }
        }
        record::sync_directory(&flows).map_err(at(&flows))?;
        record::sync_directory(&self.path).map_err(at(&self.path))
    }

    /// Forgets the epoch and every entry of the controller's: they mean nothing to another site.
    ///
    /// # Errors
    /// Some of it is still there.
    pub fn leave_site(&self) -> Result<(), StateError> {
        let ledger = self.path.join("ledger");
        let entries = fs::read_dir(&ledger).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(|source| StateError::Io { path: ledger.clone(), source })?;
        self.forget_site()?;
        let own = self.entry_path(ResourceId::LOCAL);
        let entries = entries.iter().map(fs::DirEntry::path).filter(|path| *path != own);
        for path in entries {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(StateError::Io { path, source });
                }
                _ => {}
            }
        }
        self.sync_ledger().map_err(|source| StateError::Io { path: ledger, source })
    }

    /// Every readable entry; the others are moved aside.
    ///
    /// # Errors
    /// [`StateError::Io`]: the content is unknown, so the directory must not be used.
    pub fn ledger(&self) -> Result<Vec<Entry>, StateError> {
        let directory = self.path.join("ledger");
        let at = |source| StateError::Io { path: directory.clone(), source };
        let mut entries = Vec::new();
        for file in fs::read_dir(&directory).map_err(at)? {
            let path = file.map_err(at)?.path();
            if path.extension().is_some_and(|extension| extension == "new") {
                // A crash came before the file got its name.
                fs::remove_file(&path).map_err(at)?;
                continue;
            }
            match record::read::<Entry>(&path) {
                Ok(Read::Whole(entry)) if path == self.entry_path(entry.resource) => entries.push(entry),
                Ok(Read::Whole(_) | Read::Corrupt) => self.move_aside(&path)?,
                Ok(Read::Absent) => {}
                Err(source) => return Err(StateError::Io { path, source }),
            }
        }
        Ok(entries)
    }

    /// Writes an entry; durable after [`StateDir::sync_ledger`].
    ///
    /// # Errors
    /// The entry is unchanged.
    pub fn write_entry(&self, entry: &Entry) -> io::Result<()> {
        record::write(&self.entry_path(entry.resource), entry)
    }

    /// Gives up the reserve for removals. Returns whether there was one.
    pub fn spend_reserve(&self) -> bool {
        fs::remove_file(self.path.join(RESERVE)).is_ok()
    }

    /// Recreates the reserve for removals, if there is enough room.
    ///
    /// # Errors
    /// There is not enough room.
    pub fn find_room(&self) -> io::Result<()> {
        let new = self.path.join(RESERVE).with_added_extension("new");
        let kept = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        // Zeros would take no space on some file systems.
        let kept = kept.and_then(|mut file| {
            file.write_all(&vec![0xa5; RESERVE_BYTES])?;
            file.sync_all()?;
            fs::rename(&new, self.path.join(RESERVE))
        });
        if kept.is_err() {
            let _ = fs::remove_file(&new);
        }
        kept
    }

    /// Makes the entries written before durable.
    ///
    /// # Errors
    /// The entries may not be durable.
    pub fn sync_ledger(&self) -> io::Result<()> {
        record::sync_directory(&self.path.join("ledger"))
    }

    /// Forgets an entry; should this be lost, it is forgotten later.
    pub fn remove_entry(&self, resource: ResourceId) {
        // An absent file counts as removed, and any other error shows with the next write.
        let path = self.entry_path(resource);
        let _ = before(Call::Remove(&path)).and_then(|()| fs::remove_file(&path));
    }

    fn entry_path(&self, resource: ResourceId) -> PathBuf {
        self.path.join("ledger").join(resource.to_string())
    }

    fn move_aside(&self, path: &Path) -> Result<(), StateError> {
        tracing::error!(record = %path.display(), "unreadable record moved aside to corrupt/");
        let name = path.file_name().unwrap_or_default();
        fs::rename(path, self.path.join("corrupt").join(name))
            .map_err(|source| StateError::Io { path: path.to_owned(), source })
    }
}

/// [`StateDir::identity`] without the lock: an agent may be replacing it.
///
/// # Errors
/// [`StateError::Damaged`] if the keys are unreadable.
pub fn identity_unlocked(state_dir: &Path) -> Result<Option<Identity>, StateError> {
    let path = state_dir.join("identity");
    match record::read(&path) {
        Ok(Read::Whole(identity)) => Ok(Some(identity)),
        Ok(Read::Absent) => Ok(None),
        Ok(Read::Corrupt) => Err(StateError::Damaged { path }),
        Err(source) => Err(StateError::Io { path, source }),
    }
}

/// The entries of the ledger that can be read, without the lock: an agent may be writing others.
pub fn entries_unlocked(state_dir: &Path) -> Vec<Entry> {
    let files = fs::read_dir(state_dir.join("ledger")).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path()).filter(|path| path.extension().is_none());
    let entries = paths.map(|path| record::read(&path));
    entries.filter_map(|read| if let Ok(Read::Whole(entry)) = read { Some(entry) } else { None }).collect()
}

#[cfg(test)]
mod tests;
