//! The directory of a file, held open: operations act on this directory, even if its path leads
//! elsewhere meanwhile.
//!
//! The path is opened name by name from `/`, each name below the previous directory and never through a
//! symbolic link. `openat` with `O_NOFOLLOW` and a single name equals `openat2` with `RESOLVE_BENEATH |
//! RESOLVE_NO_SYMLINKS`, and works on older kernels too. Each directory on the way must belong to root, to
//! the agent's user or to the file's owner, and nobody else may write it. Otherwise another user could
//! replace a directory by a link, and the agent, which is root, would write where only root may. A sticky
//! directory such as `/tmp` is accepted, since nobody else can move entries of these users in it. A symbolic
//! link is followed, by its text, only if root alone can have made it: it belongs to root and is in a
//! directory that nobody else can write (`/var/run`, `/bin`). A link in procfs is the kernel's own, and its
//! text need not say where it leads (`/proc/1/root`): if it belongs to root, the kernel resolves it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File as Handle};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, getegid, geteuid, symlinkat, unlinkat};

use super::{FileError, PERMISSION_BITS, WriteHazard};

/// The most symbolic links followed for one path, as in the kernel.
pub(super) const LINKS_MAX: usize = 40;
/// The mode of a directory that is made.
const MADE: Mode = Mode::S_IRWXU;
const ROOT: u32 = 0;

/// The directory that a file is in.
#[derive(Debug)]
pub(super) struct Directory {
    handle: OwnedFd,
    /// The path without symbolic links.
    path: PathBuf,
    is_shared: bool,
}

/// An entry of a directory.
#[derive(Debug)]
pub(super) struct Entry {
    pub kind: SFlag,
    pub permissions: u32,
    /// Others than root and the agent's user can change it.
    pub hazard: Option<WriteHazard>,
}

/// The treatment of a directory that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Refuse,
    Make,
}

impl Directory {
    /// Opens the directory of the file at `path`, which may be `owner`'s.
    ///
    /// # Errors
    /// [`FileError::NoDirectory`], or others than root and `owner` could lead the way elsewhere.
    pub fn of(path: &Path, owner: Option<u32>) -> Result<Self, FileError> {
        Self::walk(path, owner, Missing::Refuse)
    }

    /// As [`Directory::of`], but makes directories that do not exist; only the agent's user may enter them.
    ///
    /// # Errors
    /// As [`Directory::of`].
    pub fn make(path: &Path, owner: Option<u32>) -> Result<Self, FileError> {
        Self::walk(path, owner, Missing::Make)
    }

    /// The path without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn walk(path: &Path, owner: Option<u32>, missing: Missing) -> Result<Self, FileError> {
        let failed = super::io_error(path, "look at its directory");
        let absolute = std::path::absolute(path).map_err(&failed)?;
        let directory = absolute.parent().unwrap_or(Path::new("/"));
        let refused =
            |place: &Path, way| FileError::Led { path: path.to_owned(), place: place.to_owned(), way };
        let mut at = Self::root().map_err(&failed)?;
        let mut links = 0;
        let mut left = names(directory);
        while let Some(name) = left.pop() {
            if name == "/" {
                at = Self::root().map_err(&failed)?;
                continue;
            }
            let opened = match at.open(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound && missing == Missing::Make => {
                    at.make_one(&name).and_then(|()| at.open(&name))
                }
                opened => opened,
            };
            let place = at.place(&name);
            let handle = match opened {
                Ok(handle) => handle,
                Err(error) if error.kind() == ErrorKind::NotADirectory => match at.link(&name) {
                    Ok(Some(link)) if !at.is_shared && is_own(link.owner) => {
                        links += 1;
                        if links > LINKS_MAX {
                            return Err(failed(Errno::ELOOP.into()));
                        }
                        match link.leads {
                            Leads::To(text) => {
                                left.extend(names(Path::new(&text)));
                                continue;
                            }
                            Leads::WhereTheKernelSays => at.follow(&name).map_err(&failed)?,
                        }
                    }
                    Ok(Some(_)) => return Err(refused(&place, WriteHazard::Link)),
                    Ok(None) => return Err(no_directory(path, directory)),
                    Err(error) => return Err(failed(error)),
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(no_directory(path, directory));
                }
                Err(error) => return Err(failed(error)),
            };
            let stat = fstat(&handle).map_err(|error| failed(error.into()))?;
            at = Self { handle, path: place, is_shared: is_shared(&stat) };
            if let Some(way) = way_in(&stat, owner) {
                return Err(refused(&at.path, way));
            }
        }
        Ok(at)
    }

    fn root() -> io::Result<Self> {
        // Only root can replace this directory.
        let handle = Handle::open("/")?.into();
        Ok(Self { handle, path: "/".into(), is_shared: false })
    }

    fn open(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.handle, name, flags, Mode::empty())?)
    }

    /// Opens the target of a link of the kernel's own.
    fn follow(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(openat(&self.handle, name, flags, Mode::empty())?)
    }

    fn place(&self, name: &OsStr) -> PathBuf {
        if name == ".." {
            self.path.parent().unwrap_or(Path::new("/")).to_owned()
        } else {
            self.path.join(name)
        }
    }

    /// The symbolic link of that name; `None` if the name is anything else.
    fn link(&self, name: &OsStr) -> io::Result<Option<Link>> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let handle = openat(&self.handle, name, flags, Mode::empty())?;
        let stat = fstat(&handle)?;
        if kind(&stat) != SFlag::S_IFLNK {
            return Ok(None);
        }
        let leads = match fstatfs(&handle)?.filesystem_type() {
            PROC_SUPER_MAGIC => Leads::WhereTheKernelSays,
            _ => Leads::To(readlinkat(&handle, "")?),
        };
        Ok(Some(Link { owner: stat.st_uid, leads }))
    }

    fn make_one(&self, name: &OsStr) -> io::Result<()> {
        match mkdirat(&self.handle, name, MADE) {
            Err(error) if error != Errno::EEXIST => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The type of the entry of this name, not following links; `None` if there is no entry.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<SFlag>> {
        match fstatat(&self.handle, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(kind(&stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The entry of this name as root has it, not following links; `None` if there is no entry.
    pub fn entry(&self, name: &OsStr) -> io::Result<Option<Entry>> {
        let mut stat = match fstatat(&self.handle, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (kind, permissions) = (kind(&stat), stat.st_mode & PERMISSION_BITS);
        let hazard = if kind == SFlag::S_IFLNK {
            (self.is_shared || !is_own(stat.st_uid)).then_some(WriteHazard::Link)
        } else {
            // Sticky protects the entries of a directory, and no file.
            stat.st_mode &= !Mode::S_ISVTX.bits();
            way_in(&stat, None)
        };
        Ok(Some(Entry { kind, permissions, hazard }))
    }

    /// Opens an entry for reading, without waiting for a writer and not through a symbolic link.
    pub fn read(&self, name: &OsStr) -> io::Result<(Handle, fs::Metadata)> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let handle = Handle::from(openat(&self.handle, name, flags, Mode::empty())?);
        let meta = handle.metadata()?;
        Ok((handle, meta))
    }

    /// Makes a file that was not there, for the agent's user alone.
    pub fn create(&self, name: &OsStr) -> io::Result<Handle> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.handle, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?.into())
    }

    /// The target of the symbolic link of that name; `None` if there is no entry.
    pub fn read_link(&self, name: &OsStr) -> io::Result<Option<OsString>> {
        match readlinkat(&self.handle, name) {
            Ok(target) => Ok(Some(target)),
            Err(Errno::ENOENT | Errno::EINVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a symbolic link where nothing was.
    pub fn make_link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(symlinkat(target, &self.handle, name)?)
    }

    /// Renames within the directory, and replaces an existing entry.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    /// Removes a file, if it exists.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.handle, name, UnlinkatFlags::NoRemoveDir) {
            Err(error) if error != Errno::ENOENT => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The names survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Handle::from(openat(self.handle.as_fd(), ".", flags, Mode::empty())?).sync_all()
    }
}

struct Link {
    owner: u32,
    leads: Leads,
}

enum Leads {
    To(OsString),
    WhereTheKernelSays,
}

/// The components of a path, the last one first; `/` starts over.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter(|part| *part != Component::CurDir);
    names.map(|part| part.as_os_str().to_owned()).rev().collect()
}

/// The way in which users other than root, the agent's user and `owner` could redirect paths below
/// the directory.
fn way_in(stat: &FileStat, owner: Option<u32>) -> Option<WriteHazard> {
    let mode = Mode::from_bits_truncate(stat.st_mode);
    if !is_own(stat.st_uid) && owner != Some(stat.st_uid) {
        Some(WriteHazard::Owner(stat.st_uid))
    } else if mode.contains(Mode::S_ISVTX) {
        None
    } else if mode.contains(Mode::S_IWOTH) {
        Some(WriteHazard::Everyone)
    } else if mode.contains(Mode::S_IWGRP) && ![ROOT, getegid().as_raw()].contains(&stat.st_gid) {
        Some(WriteHazard::Group(stat.st_gid))
    } else {
        None
    }
}

/// Others can make links in it.
fn is_shared(stat: &FileStat) -> bool {
    !is_own(stat.st_uid) || stat.st_mode & PERMISSION_BITS & 0o022 != 0
}

fn is_own(user: u32) -> bool {
    user == ROOT || user == geteuid().as_raw()
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

fn no_directory(path: &Path, directory: &Path) -> FileError {
    FileError::NoDirectory { path: path.to_owned(), directory: directory.to_owned() }
}
