//! `Muster::File`: a regular file, replaced as a whole, and the state before it.
//!
//! A file changes by one rename: readers see the old file or the new one, also after a power cut. A symbolic
//! link at the path is never followed, and only root and the file's owner can influence where the path leads
//! (`directory.rs`). A crash leaves at most one temporary file with a known name, which the next run for the
//! resource removes.
//!
//! Absent: anything that is neither a regular file nor, where a type asks for it, a symbolic link. Absent too:
//! which resource has a file (`agent/src/host/owners.rs`).

mod before;
mod check;
mod directory;
mod error;
mod link;
mod program;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File as Handle, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use muster_shared::ResourceId;
use muster_shared::model::{ContentDigest, File, OnDelete};
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid};

pub use before::{FileBefore, StoredContent};
pub use check::FileDifference;
use directory::Directory;
pub use error::{FileError, WriteHazard};
pub use program::{ProgramError, program};

/// Previous content up to this size is kept in the ledger's record, larger content in a file of its own.
const INLINE_MAX: u64 = 64 * 1024;
/// The most previous content that is copied aside: more would fill the ledger's disk.
const KEPT_MAX: u64 = 256 * 1024 * 1024;
/// Bytes read and written at a time; the agent's one thread does other work in between.
const PIECE: usize = 256 * 1024;
const LEFT_BEHIND: &str = "remove what a crash left behind";
/// `NAME_MAX` of Linux's file systems.
const NAME_MAX: usize = 255;
const PERMISSION_BITS: u32 = 0o7777;

/// The source of a content.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    Bytes(&'a [u8]),
    File(&'a Path),
}

/// The desired state of a file.
struct Wanted<'a> {
    content: Source<'a>,
    mode: u32,
    uid: u32,
    gid: u32,
}

/// Regular files of this node, and a directory for their former contents.
#[derive(Clone, Debug)]
pub struct Files {
    aside: PathBuf,
}

impl Files {
    /// `aside` must exist and be readable by the agent's user alone.
    pub fn new(aside: PathBuf) -> Self {
        Self { aside }
    }

    /// Reads the present file; a content too large for the ledger is copied aside, durably.
    ///
    /// # Errors
    /// [`FileError`]; nothing was changed.
    pub async fn capture(&self, file: &File) -> Result<FileBefore, FileError> {
        let path = Path::new(&file.path);
        let directory = Directory::of(path, named_owner(file))?;
        let Some((mut handle, meta)) = open_regular(&directory, path)? else { return Ok(FileBefore::Absent) };
        let content = if meta.len() > KEPT_MAX {
            return Err(FileError::TooLarge { path: path.to_owned() });
        } else if meta.len() <= INLINE_MAX {
            let mut bytes = Vec::new();
            (&mut handle).take(INLINE_MAX + 1).read_to_end(&mut bytes).map_err(io(path, "read it"))?;
            StoredContent::Inline(bytes)
        } else {
            StoredContent::File(self.keep_aside(path, &mut handle).await?)
        };
        let mode = meta.mode() & PERMISSION_BITS;
        Ok(FileBefore::Present { mode, uid: meta.uid(), gid: meta.gid(), content })
    }

    /// Makes the file as desired, if it differs, and reads it back. `content` is the file's content.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged, unless the error says otherwise.
    pub async fn apply(
        &self,
        resource: ResourceId,
        file: &File,
        content: Source<'_>,
    ) -> Result<(), FileError> {
        let path = Path::new(&file.path);
        let (uid, gid) = owners(path, file)?;
        let directory = Directory::of(path, Some(uid))?;
        let wanted = Wanted { content, mode: file.mode & PERMISSION_BITS, uid, gid };
        reach(resource, &directory, path, &wanted).await
    }

    /// The path without symbolic links, whether or not the file exists.
    ///
    /// # Errors
    /// [`FileError`]: the directory does not exist, or others could change where it leads.
    pub fn real_path(&self, file: &File) -> Result<PathBuf, FileError> {
        let path = Path::new(&file.path);
        Ok(Directory::of(path, named_owner(file))?.path().join(name(path)))
    }

    /// Makes the directory of a file, and those above it, where they do not exist; only the agent's user may
    /// enter them.
    ///
    /// # Errors
    /// [`FileError`]; some directories may be made.
    pub fn make_directory_of(&self, file: &File) -> Result<(), FileError> {
        Directory::make(Path::new(&file.path), named_owner(file)).map(drop)
    }

    /// Restores the file before Muster, or leaves the file if the desired state asks for that.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn restore(
        &self,
        resource: ResourceId,
        file: &File,
        before: &FileBefore,
    ) -> Result<(), FileError> {
        let path = Path::new(&file.path);
        let opened = Directory::of(path, named_owner(file));
        let directory = match (opened, before) {
            (Ok(directory), _) => directory,
            // The file must stay as it is.
            (Err(_), _) if file.on_delete == OnDelete::Keep => return Ok(()),
            (Err(FileError::NoDirectory { .. }), FileBefore::Absent) => return Ok(()),
            (Err(error), _) => return Err(error),
        };
        let temporary = temporary(path, resource);
        directory.remove(&temporary).map_err(io(path, LEFT_BEHIND))?;
        match before {
            _ if file.on_delete == OnDelete::Keep => Ok(()),
            FileBefore::Absent => remove(&directory, path),
            FileBefore::Present { mode, uid, gid, content } => {
                let aside;
                let content = match content {
                    StoredContent::Inline(bytes) => Source::Bytes(bytes),
                    StoredContent::File(digest) => {
                        aside = self.verified_aside(path, *digest).await?;
                        Source::File(&aside)
                    }
                };
                let wanted = Wanted { content, mode: *mode, uid: *uid, gid: *gid };
                reach(resource, &directory, path, &wanted).await
            }
        }
    }

    /// Removes contents kept aside, except these.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn keep_only(&self, digests: &[ContentDigest]) -> io::Result<()> {
        let names: Vec<String> = digests.iter().map(ToString::to_string).collect();
        for entry in fs::read_dir(&self.aside)? {
            let entry = entry?;
            if !names.iter().any(|name| entry.file_name() == name.as_str()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    async fn keep_aside(&self, path: &Path, from: &mut impl Read) -> Result<ContentDigest, FileError> {
        let temporary = self.aside.join("new");
        let kept = async {
            let mut copy =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            // The file may grow meanwhile, without end.
            let digest = copy_pieces(&mut from.take(KEPT_MAX + 1), &mut copy).await?;
            if copy.metadata()?.len() > KEPT_MAX {
                return Err(ErrorKind::FileTooLarge.into());
            }
            copy.sync_all()?;
            fs::rename(&temporary, self.aside.join(digest.to_string()))?;
            Handle::open(&self.aside)?.sync_all()?;
            Ok(digest)
        };
        let kept = kept.await;
        if kept.is_err() {
            // The ledger is on the same disk and needs the room.
            let _ = remove_if_there(&temporary);
        }
        kept.map_err(io(path, "keep what is there aside"))
    }

    async fn verified_aside(&self, path: &Path, digest: ContentDigest) -> Result<PathBuf, FileError> {
        let aside = self.aside.join(digest.to_string());
        let lost = |why: String| FileError::BeforeLost { path: path.to_owned(), why };
        let mut handle =
            Handle::open(&aside).map_err(|error| lost(format!("{}: {error}", aside.display())))?;
        match copy_pieces(&mut handle, &mut io::sink()).await {
            Ok(read) if read == digest => Ok(aside),
            Ok(_) => Err(lost(format!("{} is damaged", aside.display()))),
            Err(error) => Err(lost(format!("{}: {error}", aside.display()))),
        }
    }
}

async fn reach(
    resource: ResourceId,
    directory: &Directory,
    path: &Path,
    wanted: &Wanted<'_>,
) -> Result<(), FileError> {
    let temporary = temporary(path, resource);
    directory.remove(&temporary).map_err(io(path, LEFT_BEHIND))?;
    let is_there = difference(directory, path, wanted).await?.is_none();
    let written = async {
        if !is_there {
            write_new(directory.create(&temporary)?, wanted).await?;
            directory.rename(&temporary, name(path))?;
        }
        // Also syncs a file that is already right: it may stem from a run that was killed between rename
        // and sync.
        directory.sync()
    };
    if let Err(source) = written.await {
        // The first error is the useful one; the next run knows the temporary file's name.
        let _ = directory.remove(&temporary);
        return Err(FileError::Io { path: path.to_owned(), action: "write it", source });
    }
    if is_there {
        return Ok(());
    }
    match difference(directory, path, wanted).await? {
        None => Ok(()),
        Some(what) => Err(FileError::Differs { path: path.to_owned(), what }),
    }
}

async fn write_new(mut handle: Handle, wanted: &Wanted<'_>) -> io::Result<()> {
    match wanted.content {
        Source::Bytes(bytes) => handle.write_all(bytes)?,
        Source::File(path) => {
            copy_pieces(&mut Handle::open(path)?, &mut handle).await?;
        }
    }
    // The order matters: a change of owner clears set-user-id.
    fchown(&handle, Some(wanted.uid), Some(wanted.gid))?;
    handle.set_permissions(Permissions::from_mode(wanted.mode))?;
    handle.sync_all()
}

/// The difference from the wanted file; `None` if there is none.
async fn difference(
    directory: &Directory,
    path: &Path,
    wanted: &Wanted<'_>,
) -> Result<Option<&'static str>, FileError> {
    let Some((mut handle, meta)) = open_regular(directory, path)? else { return Ok(Some("existence")) };
    if meta.mode() & PERMISSION_BITS != wanted.mode {
        return Ok(Some("mode"));
    }
    if (meta.uid(), meta.gid()) != (wanted.uid, wanted.gid) {
        return Ok(Some("owner"));
    }
    let read = io(path, "read it");
    let same = match wanted.content {
        Source::Bytes(bytes) => meta.len() == bytes.len() as u64 && same(&mut handle, &mut &*bytes).await,
        Source::File(source) => match Handle::open(source) {
            Ok(mut source) => same(&mut handle, &mut source).await,
            Err(error) => return Err(read(error)),
        },
    };
    Ok((!same).then_some("content"))
}

async fn same(left: &mut impl Read, right: &mut impl Read) -> bool {
    let pair = async { Ok::<_, io::Error>((digest(left).await?, digest(right).await?)) };
    pair.await.is_ok_and(|(left, right)| left == right)
}

async fn digest(from: &mut impl Read) -> io::Result<ContentDigest> {
    copy_pieces(from, &mut io::sink()).await
}

async fn copy_pieces(from: &mut impl Read, to: &mut impl io::Write) -> io::Result<ContentDigest> {
    let mut hasher = blake3::Hasher::new();
    let mut piece = Vec::new();
    loop {
        piece.clear();
        if from.take(PIECE as u64).read_to_end(&mut piece)? == 0 {
            return Ok(ContentDigest(*hasher.finalize().as_bytes()));
        }
        hasher.update(&piece);
        to.write_all(&piece)?;
        tokio::task::yield_now().await;
    }
}

fn remove(directory: &Directory, path: &Path) -> Result<(), FileError> {
    if open_regular(directory, path)?.is_some() {
        directory.remove(name(path)).and_then(|()| directory.sync()).map_err(io(path, "remove it"))?;
    }
    Ok(())
}

/// Opens a regular file; `None` if the path does not exist.
fn open_regular(directory: &Directory, path: &Path) -> Result<Option<(Handle, fs::Metadata)>, FileError> {
    let not_regular = |found| Err(FileError::NotRegular { path: path.to_owned(), found });
    // A device or a pipe must not even be opened: that alone can do something.
    match directory.look(name(path)).map_err(io(path, "look at it"))? {
        None => return Ok(None),
        Some(SFlag::S_IFLNK) => return not_regular("a symbolic link"),
        Some(SFlag::S_IFDIR) => return not_regular("a directory"),
        Some(SFlag::S_IFREG) => {}
        Some(_) => return not_regular("a device, pipe or socket"),
    }
    match directory.read(name(path)) {
        Ok((_, meta)) if !meta.is_file() => not_regular("something that changed meanwhile"),
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => not_regular("a symbolic link"),
        Err(error) => Err(io(path, "read it")(error)),
    }
}

fn name(path: &Path) -> &OsStr {
    // Only `/` has no name, and that is a directory.
    path.file_name().unwrap_or(OsStr::new("."))
}

/// A path in the file's directory, so that a rename is enough; the same for every run of the resource.
fn temporary(path: &Path, resource: ResourceId) -> OsString {
    let suffix = format!(".muster-{resource}");
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let room = NAME_MAX - 1 - suffix.len();
    format!(".{}{suffix}", &name[..name.floor_char_boundary(room)]).into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The user and the group that must own the file.
fn owners(path: &Path, file: &File) -> Result<(u32, u32), FileError> {
    let uid = match &file.owner {
        None => geteuid().as_raw(),
        Some(name) => user(name).ok_or_else(|| no_owner(path, "user", name))?,
    };
    let gid = match &file.group {
        None => getegid().as_raw(),
        Some(name) => group(name).ok_or_else(|| no_owner(path, "group", name))?,
    };
    Ok((uid, gid))
}

/// The user that a template names for the file, if that user exists.
fn named_owner(file: &File) -> Option<u32> {
    file.owner.as_deref().and_then(user)
}

fn user(name: &str) -> Option<u32> {
    let named = User::from_name(name).ok().flatten().map(|user| user.uid);
    named.or_else(|| name.parse().ok().map(Uid::from_raw)).map(Uid::as_raw)
}

fn group(name: &str) -> Option<u32> {
    let named = Group::from_name(name).ok().flatten().map(|group| group.gid);
    named.or_else(|| name.parse().ok().map(Gid::from_raw)).map(Gid::as_raw)
}

fn no_owner(path: &Path, kind: &'static str, name: &str) -> FileError {
    FileError::NoOwner { path: path.to_owned(), kind, name: name.escape_default().to_string() }
}

fn io(path: &Path, action: &'static str) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Io { path: path.to_owned(), action, source }
}

#[cfg(test)]
mod tests;
