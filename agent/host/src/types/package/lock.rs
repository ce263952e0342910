//! Waits while another program changes packages.
//!
//! dpkg and rpm lock files with fcntl(2), which tells the holder. apt and dnf also wait for the locks, but
//! not in all of their work, and without naming the holder.
//!
//! Absent: how long it waits, which is the resource's `timeout` (`shared/src/model/types/package.rs`).

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tokio::time::{Instant, sleep};

use super::{PackageFault, Result};

/// Between two looks: others take seconds to minutes.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until all locks are free. `seconds`: the longest wait, for people.
pub(super) async fn wait(files: &[&str], seconds: u32, until: Instant) -> Result<()> {
    loop {
        let Some(holder) = files.iter().find_map(|file| holder(file).transpose()).transpose()? else {
            return Ok(());
        };
        if Instant::now() >= until {
            return Err(PackageFault::Locked { holder: named(holder), seconds });
        }
        sleep(LOOK).await;
    }
}

/// The process that holds the lock.
fn holder(file: &str) -> Result<Option<i32>> {
    let failed = |source| PackageFault::Lock { file: file.to_owned(), source };
    let opened = match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut lock = libc::flock {
        l_type: i16::try_from(libc::F_WRLCK).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&opened, FcntlArg::F_GETLK(&mut lock)).map_err(|errno| failed(io::Error::from(errno)))?;
    Ok((i32::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_pid))
}

fn named(process: i32) -> String {
    match fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(name) => format!("process {process} ({})", name.trim_end()),
        Err(_) => format!("process {process}"),
    }
}
