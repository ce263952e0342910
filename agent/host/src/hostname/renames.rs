//! Says when the kernel's host name has changed.
//!
//! The kernel wakes all watchers when the name of any UTS namespace changes (a container starts): only a
//! change in this namespace counts. Absent: changes of the file.

use std::fs::File;
use std::io;

use nix::unistd::gethostname;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const NAME: &str = "/proc/sys/kernel/hostname";

/// Reports changes from the time it was opened.
pub(crate) struct Renames {
    watched: AsyncFd<File>,
    name: std::ffi::OsString,
}

impl Renames {
    #[expect(deprecated, reason = "a file keeps its descriptor, and what takes its place is unsafe code")]
    pub(crate) fn open() -> io::Result<Self> {
        let watched = AsyncFd::with_interest(File::open(NAME)?, Interest::PRIORITY)?;
        Ok(Self { watched, name: gethostname()? })
    }

    pub(crate) async fn next(&mut self) -> io::Result<()> {
        loop {
            // The kernel reports a change once per wait.
            self.watched.ready(Interest::PRIORITY).await?.clear_ready();
            let name = gethostname()?;
            if name != self.name {
                self.name = name;
                return Ok(());
            }
        }
    }
}
