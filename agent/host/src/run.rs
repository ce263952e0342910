//! Runs of commands: outside of the agent, found again after its restart, ended whole, and never twice by mistake.
//!
//! A run has a directory named by its resource, generation and attempt, and a **supervisor**: this program once more, in a
//! transient unit of systemd where there is one, else in a session of its own. The supervisor records that the run
//! began before the command is there, and how it ended once nothing of it is left; both are durable. So whoever looks
//! at the directory knows which of these is true, whatever was killed when:
//!
//! ```text
//!   ended?   it is over: that is the answer, also if nobody heard of it yet
//!   alive?   it is under way: its end is waited for
//!   began?   it was interrupted: again, or a failure, as its task says
//!   ordered? nobody began: it is started
//! ```
//!
//! What is secret (script, inputs) is in files of mode 0600 or stricter, never in arguments or properties of a unit,
//! which every user may read. The command's own environment is root's to read alone.
//!
//! Absent: what is run and why (the callers know), output while it runs, and cgroups where there is no systemd: there
//! the supervisor ends all of its descendants, and what outlives a killed supervisor is known by its environment.

mod directory;
mod error;
mod family;
mod output;
mod record;
mod supervise;
mod unit;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use muster_shared::ResourceId;
use tokio::time::sleep;

use directory::Directory;
pub use directory::{RunId, RunState};
pub use error::RunFailed;
pub use output::OUTPUT_MAX;
pub use record::{Ended, Output, RunEnd};
pub use supervise::supervise;
use unit::{Unit, UnitStands};

use crate::systemd::Systemd;

/// How often an interrupted run starts again: a script that takes the server down each time must
/// not do so for ever.
pub const AGAIN_MAX: u32 = 3;
/// Between two looks at a supervisor that is not there yet, or whose unit is not gone yet. Both take milliseconds.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_AT_LAST: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct Task {
    /// For people who look at the server's units, all of its users.
    pub description: String,
    pub program: Program,
    /// Variables beside those that every run has; they count more.
    pub environment: BTreeMap<String, String>,
    /// Names of outputs: what the run writes to `$heat_outputs_path.NAME`.
    pub outputs: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether an interrupted run starts again.
    pub again: bool,
}

#[derive(Clone)]
pub enum Program {
    /// A script's text, for the interpreter that its first line names; the shell's, if it names none.
    Script(Vec<u8>),
    /// A program with its arguments, which everybody may read.
    Arguments(Vec<OsString>),
}

/// What is done next for whoever wants the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The recorded end is the answer.
    Take,
    /// The run is under way.
    Wait,
    /// The run was interrupted this often, and does not start again.
    Interrupted { times: u32 },
    /// Order the run; it was interrupted this often before.
    Prepare { again: u32 },
    /// The supervisor is started.
    Start,
    /// A was started, and is not there.
    NeverBegan,
}

/// What follows from how a run stands. `again`: as its task says; `starts`: supervisors that were started for this order.
pub fn next(stands: RunState, again: bool, starts: u32) -> Next {
    match stands {
        RunState::Ended => Next::Take,
        RunState::Alive => Next::Wait,
        RunState::Began { again: before } if !again || before >= AGAIN_MAX => {
            Next::Interrupted { times: before + 1 }
        }
        RunState::Began { again: before } => Next::Prepare { again: before + 1 },
        RunState::Ordered if starts > 0 => Next::NeverBegan,
        RunState::Ordered => Next::Start,
        RunState::Nothing => Next::Prepare { again: 0 },
    }
}

/// Runs of this server.
#[derive(Clone, Debug)]
pub struct Runner {
    directory: PathBuf,
    supervisor: PathBuf,
    systemd: Option<Systemd>,
}

impl Runner {
    /// `directory` is there, private, and on a disk; `supervisor` is a program that calls [`supervise`] with what
    /// follows its argument `run`; `systemd` gives each run a unit.
    pub fn new(directory: PathBuf, supervisor: PathBuf, systemd: Option<Systemd>) -> Self {
        Self { directory, supervisor, systemd }
    }

    /// The end of the run: of one that is over, of one that is under way, or of a new one. Older runs of the same
    /// resource are ended first. It may be dropped and called again.
    ///
    /// # Errors
    /// [`RunFailed`]: how it ended is not known, or it did not begin.
    pub async fn run(&self, id: &RunId, task: &Task) -> Result<Ended, RunFailed> {
        self.end_all(id.resource, Some(id)).await?;
        let directory = Directory::new(&self.directory, id);
        let mut starts = 0;
        loop {
            match next(directory.stands()?, task.again, starts) {
                Next::Take => {
                    self.gone(id, &directory).await?;
                    return directory.ended();
                }
                Next::Wait => directory.until_dead().await?,
                Next::Interrupted { times } => {
                    self.gone(id, &directory).await?;
                    return Err(RunFailed::Interrupted { times });
                }
                Next::Prepare { again } => {
                    if again > 0 {
                        self.gone(id, &directory).await?;
                    }
                    directory.prepare(task, again)?;
                    starts = 0;
                }
                Next::NeverBegan => {
                    self.gone(id, &directory).await?;
                    // Between the two looks it may have been there.
                    if directory.stands()? == RunState::Ordered {
                        return Err(RunFailed::NeverBegan);
                    }
                }
                Next::Start => {
                    starts += 1;
                    self.start(id, &directory).await?;
                    self.until_seen(id, &directory).await?;
                }
            }
        }
    }

    /// Has a run ended: its processes are asked to, and made to after a while. Whoever waits for it is told so.
    pub fn stop(&self, id: &RunId) {
        Directory::new(&self.directory, id).stop();
    }

    /// Ends all runs of a resource but that one, and forgets them.
    ///
    /// # Errors
    /// One may still run.
    pub async fn end_all(&self, resource: ResourceId, but: Option<&RunId>) -> Result<(), RunFailed> {
        for id in self.known()? {
            if id.resource != resource || Some(&id) == but {
                continue;
            }
            let directory = Directory::new(&self.directory, &id);
            directory.stop();
            if directory.stands()? == RunState::Ordered {
                // A supervisor may be starting, and must see that the run is stopped.
                self.until_seen(&id, &directory).await?;
            }
            while directory.stands()? == RunState::Alive {
                directory.until_dead().await?;
            }
            self.gone(&id, &directory).await?;
            directory.remove()?;
        }
        Ok(())
    }

    /// Waits until no run of a resource is under way, and forgets them: for whoever looks at what they did.
    ///
    /// # Errors
    /// One may still run.
    pub async fn wait_out(&self, resource: ResourceId) -> Result<(), RunFailed> {
        for id in self.known()?.into_iter().filter(|id| id.resource == resource) {
            let directory = Directory::new(&self.directory, &id);
            if directory.stands()? == RunState::Ordered {
                // Its supervisor may be on the way.
                self.until_seen(&id, &directory).await?;
            }
            while directory.stands()? == RunState::Alive {
                directory.until_dead().await?;
            }
            self.gone(&id, &directory).await?;
            directory.remove()?;
        }
        Ok(())
    }

    /// Forgets a run whose end is recorded elsewhere.
    pub fn forget(&self, id: &RunId) {
        let directory = Directory::new(&self.directory, id);
        if matches!(directory.stands(), Ok(RunState::Ended)) {
            // Forgotten with the next sweep, else.
            let _ = directory.remove();
        }
    }

    /// Forgets the runs that nobody needs, and has those ended that are under way.
    ///
    /// # Errors
    /// Some are still there.
    pub fn sweep(&self, is_needed: impl Fn(&RunId) -> bool) -> Result<(), RunFailed> {
        for id in self.known()?.into_iter().filter(|id| !is_needed(id)) {
            let directory = Directory::new(&self.directory, &id);
            match directory.stands()? {
                RunState::Alive => directory.stop(),
                RunState::Ended | RunState::Began { .. } | RunState::Ordered | RunState::Nothing => {
                    directory.end_leftovers();
                    directory.remove()?;
                }
            }
        }
        Ok(())
    }

    fn known(&self) -> Result<Vec<RunId>, RunFailed> {
        let failed = |source| RunFailed::Disk { doing: "read the runs", source };
        let files = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(failed)?,
        };
        let mut known = Vec::new();
        for file in files {
            known.extend(file.map_err(failed)?.file_name().to_str().and_then(|name| name.parse().ok()));
        }
        known.sort_unstable();
        Ok(known)
    }

    async fn start(&self, id: &RunId, directory: &Directory) -> Result<(), RunFailed> {
        if let Some(unit) = self.unit(id) {
            return Ok(unit.start(&self.supervisor, directory.path(), &directory.ordered()?).await?);
        }
        let failed = |source| RunFailed::Start { source };
        // From now on the run counts as alive: the supervisor's stdin says so before the supervisor
        // itself can.
        let alive = directory.hold_alive()?;
        let mut command = tokio::process::Command::new(&self.supervisor);
        command.arg("run").arg(directory.path()).current_dir("/").env_clear();
        command.stdin(Stdio::from(alive)).stdout(Stdio::null()).stderr(Stdio::inherit());
        // Whoever drops this leaves the reaping to tokio.
        drop(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Waits while its unit runs and its supervisor has not come so far as to be seen.
    async fn until_seen(&self, id: &RunId, directory: &Directory) -> Result<(), RunFailed> {
        let Some(unit) = self.unit(id) else { return Ok(()) };
        let mut wait = LOOK_FIRST;
        while directory.stands()? == RunState::Ordered && unit.stands().await? == UnitStands::Runs {
            sleep(wait).await;
            wait = (wait * 2).min(LOOK_AT_LAST);
        }
        Ok(())
    }

    /// Nothing of a run whose supervisor is dead is left.
    async fn gone(&self, id: &RunId, directory: &Directory) -> Result<(), RunFailed> {
        let mut wait = LOOK_FIRST;
        loop {
            let is_left = match self.unit(id) {
                Some(unit) => unit.stands().await? != UnitStands::Gone,
                None => false,
            };
            if !directory.end_leftovers() && !is_left {
                return Ok(());
            }
            sleep(wait).await;
            wait = (wait * 2).min(LOOK_AT_LAST);
        }
    }

    fn unit(&self, id: &RunId) -> Option<Unit<'_>> {
        let systemd = self.systemd.as_ref()?;
        Some(Unit { systemd, name: format!("muster-run-{id}.service") })
    }
}
