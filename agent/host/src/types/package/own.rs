//! The package of the agent itself: a change of it ends the agent in the middle of its job.
//!
//! Such a change is an order to another process of this program ([`OwnChange`]), which stays when the agent is
//! replaced. That process keeps the change only if the new agent reaches the controller; otherwise it brings
//! the earlier one back. Whichever agent is there in the end takes up the job, finds how the run ended, and
//! does not try again what was undone.
//!
//! Absent: what that process does (`agent/src/upgrade.rs`), and an agent that no package brought.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::last_lines;
use super::{Installed, Listing, Manager, Order, PackageFault};
use crate::run::{Ended, RunEnd};

/// The exit status of a change that was undone; no package manager has it.
pub const UNDONE: u8 = 93;
/// The begin of the line that says why, the last one on standard error.
pub const SAYS: &str = "muster-agent upgrade: ";
/// Seconds for the package manager to bring the earlier version back: as long as any other change that failed.
const BACK_TIMEOUT: u32 = muster_shared::model::PACKAGE_BACK;
/// Seconds beyond all of that: to end programs, and to write one.
const BESIDES: u32 = 60;

/// The program of this agent, and what a change of its package needs to know.
#[derive(Clone, Debug)]
pub struct OwnProgram {
    /// The path of the program.
    pub program: PathBuf,
    /// The agent's directory, with its socket.
    pub state_dir: PathBuf,
    /// Seconds within which a new agent must have reached the controller.
    pub within: u32,
}

/// A change of the agent's own package, for another process of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnChange {
    /// The package manager and its arguments.
    pub change: Vec<String>,
    /// Seconds for it.
    pub timeout: u32,
    /// The version before, and the package manager's arguments that bring it back.
    pub before: String,
    pub back: Vec<String>,
    pub back_timeout: u32,
    /// Seconds within which the new agent must have reached the controller.
    pub within: u32,
}

/// A program that had to be restored beside a package of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutBack {
    device: u64,
    inode: u64,
}

impl PutBack {
    const FILE: &str = "program-put-back";

    /// Records that the program is not its package's.
    ///
    /// # Errors
    /// Nothing is recorded.
    pub fn record(program: &Path, state_dir: &Path) -> io::Result<()> {
        let record = serde_json::to_vec(&Self::of(program)?)?;
        fs::write(state_dir.join(Self::FILE), record)
    }

    /// Whether the program is one that was restored; not if a package has replaced it since.
    pub fn is_of(program: &Path, state_dir: &Path) -> bool {
        let recorded = fs::read(state_dir.join(Self::FILE)).ok();
        let recorded = recorded.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        recorded.is_some_and(|recorded| Self::of(program).is_ok_and(|is| is == recorded))
    }

    fn of(program: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(program)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

impl OwnProgram {
    /// The process that makes the change, and its longest time.
    pub(super) fn order(
        &self,
        order: &Order,
        timeout: Duration,
        way_back: &WayBack,
    ) -> (Vec<OsString>, Duration) {
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let change = OwnChange {
            change: words(order),
            timeout: seconds,
            before: way_back.version.clone(),
            back: way_back.order.as_ref().map(words).unwrap_or_default(),
            back_timeout: BACK_TIMEOUT,
            within: self.within,
        };
        let json = serde_json::to_string(&change).expect("texts and numbers are JSON");
        let arguments = [self.program.as_os_str(), "--state-dir".as_ref(), self.state_dir.as_os_str()];
        let verb = ["upgrade".into(), OsString::from(json)];
        // The change waits for the new agent, and perhaps twice for the earlier one.
        let beyond = 3 * self.within + BACK_TIMEOUT + BESIDES;
        let all = timeout + Duration::from_secs(beyond.into());
        (arguments.into_iter().map(OsString::from).chain(verb).collect(), all)
    }

    /// Whether the package is as it should be, and the program beside it is not.
    pub(super) fn is_put_back(&self) -> bool {
        PutBack::is_of(&self.program, &self.state_dir)
    }
}

/// The version before a change, and the order that brings it back.
pub(super) struct WayBack {
    version: String,
    order: Option<Order>,
}

impl WayBack {
    pub(super) fn to(manager: Manager, was: &Listing, package: &str) -> Option<Self> {
        let (key, before) = was.0.iter().find(|(_, installed)| installed.name == package)?;
        let one = |installed: Installed| Listing([(key.clone(), installed)].into_iter().collect());
        let other = Installed { version: String::new(), broken: None, ..before.clone() };
        let whole = Installed { broken: None, ..before.clone() };
        let order = manager.back(&one(whole), &one(other), package).into_iter().next();
        Some(Self { version: before.version.clone(), order })
    }
}

/// The reason why a change of the agent's own package was undone, if it was.
pub(super) fn undone(package: &str, ended: &Ended) -> Option<PackageFault> {
    if ended.how != RunEnd::Exited(UNDONE.into()) {
        return None;
    }
    let mut lines = last_lines(&ended.stdout, &ended.stderr);
    let why = lines.iter().rposition(|line| line.starts_with(SAYS)).map(|at| lines.remove(at));
    let why = why.and_then(|line| line.strip_prefix(SAYS).map(str::to_owned));
    let why = why.unwrap_or_else(|| "it did not come up".to_owned());
    Some(PackageFault::Undone { package: package.to_owned(), why, lines })
}

fn words(order: &Order) -> Vec<String> {
    [order.program.to_owned()].into_iter().chain(order.arguments.iter().cloned()).collect()
}
