//! Says when the kernel's host name has changed.
//!
//! The kernel wakes everybody when the name of any UTS namespace changes (a container starts): only a change of this
//! one's counts. Absent: the file, which nothing is told of.

use std::fs::File;
use std::io;

use nix::unistd::gethostname;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const NAME: &str = "/proc/sys/kernel/hostname";

/// From when it was opened.
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
            // The kernel says it once for each time that it is asked.
            self.watched.ready(Interest::PRIORITY).await?.clear_ready();
            let name = gethostname()?;
            if name != self.name {
                self.name = name;
                return Ok(());
            }
        }
    }
}
