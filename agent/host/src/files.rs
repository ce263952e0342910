//! `Muster::File`: a regular file, replaced as a whole.
//!
//! A file changes by one rename: readers see the old file or the new one, also after a power cut. A symbolic
//! link at the path is never followed, and only root and the file's owner can influence where the path leads
//! (`directory.rs`). A crash leaves at most one temporary file with a known name, which the next run for the
//! resource removes.
//!
//! Absent: the file before Muster (`files/before.rs`), and anything that is neither a regular file nor, where a type
//! asks for it, a symbolic link. Absent too: which resource has a file (`agent/src/host/owners.rs`).

mod before;
mod check;
mod directory;
mod error;
mod link;
mod program;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File as Handle, Permissions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use muster_shared::ResourceId;
use muster_shared::model::{ContentDigest, File};
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid};

pub use before::{FileBefore, StoredContent};
pub use check::FileDifference;
use directory::Directory;
pub use error::{FileError, WriteHazard};
pub use program::{ProgramError, program};

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
}

async fn reach(
    resource: ResourceId,
    directory: &Directory,
    path: &Path,
    wanted: &Wanted<'_>,
) -> Result<(), FileError> {
    let temporary = temporary(path, resource);
    directory.remove(&temporary).map_err(io_error(path, LEFT_BEHIND))?;
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
    let read = io_error(path, "read it");
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
        directory.remove(name(path)).and_then(|()| directory.sync()).map_err(io_error(path, "remove it"))?;
    }
    Ok(())
}

/// Opens a regular file; `None` if the path does not exist.
fn open_regular(directory: &Directory, path: &Path) -> Result<Option<(Handle, fs::Metadata)>, FileError> {
    let not_regular = |found| Err(FileError::NotRegular { path: path.to_owned(), found });
    // A device or a pipe must not even be opened: that alone can do something.
    match directory.look(name(path)).map_err(io_error(path, "look at it"))? {
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
        Err(error) => Err(io_error(path, "read it")(error)),
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

fn io_error(path: &Path, action: &'static str) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Io { path: path.to_owned(), action, source }
}

#[cfg(test)]
mod tests;
