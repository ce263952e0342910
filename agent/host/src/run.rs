//! Runs of commands: outside the agent, found again after its restart, ended completely, and never run twice
//! by mistake.
//!
//! A run has a directory named by its resource, generation and attempt, and a **supervisor**: another process
//! of this program, in a transient unit of systemd if there is one, otherwise in a session of its own. The
//! supervisor records that the run began before it starts the command, and records the end once no process of
//! the run is left; both records are durable. So the directory tells which of these is true, whatever was
//! killed when:
//!
//! ```text
//!   ended?   it is over: that is the answer, also if nobody heard of it yet
//!   alive?   it is under way: its end is waited for
//!   began?   it was interrupted: again, or a failure, as its task says
//!   ordered? nobody began: it is started
//! ```
//!
//! Secrets (script, inputs, a hook's config) are in files of mode 0600 or stricter, never in arguments or properties of a
//! unit, which every user may read. Only root may read the command's own environment.
//!
//! Absent: the commands and their purpose, such as a deployment's script (`agent/src/host/deployment.rs`), and
//! output during the run. Absent too: cgroups without systemd. There the supervisor ends all of its
//! descendants, and processes that outlive a killed supervisor are recognised by their environment.

mod answer;
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

use directory::{Directory, Leftovers, end_leftovers_of};
pub use directory::{RunId, RunState};
pub use error::RunFailed;
pub use output::OUTPUT_MAX;
pub use record::{Ended, Output, RunEnd};
pub use supervise::supervise;
use unit::{Unit, UnitStands};

use crate::systemd::Systemd;

/// The most starts of an interrupted run: a script that takes the server down each time must not do so
/// for ever.
pub const AGAIN_MAX: u32 = 3;
/// The pause between two looks for a supervisor that is not there yet, or whose unit is not gone yet. Both
/// take milliseconds.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_AT_LAST: Duration = Duration::from_millis(500);
/// The most looks in a row that do not see all processes. One that becomes another program is seen microseconds
/// later, or once the disk has given it the program.
const UNCLEAR_MAX: u32 = 20;
/// The most looks of one sweep for what is left of runs.
const SWEEP_LOOKS: u32 = 3;

#[derive(Clone)]
pub struct Task {
    /// A description for people who look at the server's units; all users can read it.
    pub description: String,
    pub program: Program,
    /// Variables in addition to those of every run, over which they take precedence.
    pub environment: BTreeMap<String, String>,
    /// Names of outputs: the run writes them to `$heat_outputs_path.NAME`.
    pub outputs: Vec<String>,
    /// The longest duration of the run.
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
    /// A program in the form of heat-agents: it reads its config from standard input, and answers with JSON.
    Hook {
        /// The possible paths of the program: the first that exists is taken.
        paths: Vec<PathBuf>,
        /// The config.
        input: Vec<u8>,
    },
}

/// The next step towards the end of a run.
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

/// The next step for a run in this state. `again`: from the task; `starts`: supervisors started for
/// this order.
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
    /// `directory` exists, private, on a disk. `supervisor` is a program that calls [`supervise`] with the
    /// arguments after its argument `run`. `systemd` gives each run a unit.
    pub fn new(directory: PathBuf, supervisor: PathBuf, systemd: Option<Systemd>) -> Self {
        Self { directory, supervisor, systemd }
    }

    /// Waits for the end of the run: one that is over, one under way, or a new one. Older runs of the same
    /// resource are ended first. The future may be dropped and the function called again.
    ///
    /// # Errors
    /// [`RunFailed`]: the end is unknown, or the run did not begin.
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
                    // The supervisor may have run between the two looks.
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

    /// Ends a run: its processes are asked to end, and killed after a while. The waiting caller sees that the
    /// run was stopped.
    pub fn stop(&self, id: &RunId) {
        Directory::new(&self.directory, id).stop();
    }

    /// Ends all runs of a resource except `but`, and forgets them.
    ///
    /// # Errors
    /// A run may still be active.
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

    /// Waits until no run of the same resource is under way, and forgets its runs, before the caller inspects
    /// their results. Returns the end of the run itself, if it is recorded.
    ///
    /// # Errors
    /// A run may still be active.
    pub async fn wait_out(&self, own: &RunId) -> Result<Option<Ended>, RunFailed> {
        let mut ended = None;
        for id in self.known()?.into_iter().filter(|id| id.resource == own.resource) {
            let directory = Directory::new(&self.directory, &id);
            if directory.stands()? == RunState::Ordered {
                // The supervisor may be about to start.
                self.until_seen(&id, &directory).await?;
            }
            while directory.stands()? == RunState::Alive {
                directory.until_dead().await?;
            }
            self.gone(&id, &directory).await?;
            if id == *own && directory.stands()? == RunState::Ended {
                // A damaged record says nothing: the caller looks at what is there.
                ended = directory.ended().ok();
            }
            directory.remove()?;
        }
        Ok(ended)
    }

    /// Forgets a run whose end is recorded elsewhere.
    pub fn forget(&self, id: &RunId) {
        let directory = Directory::new(&self.directory, id);
        if matches!(directory.stands(), Ok(RunState::Ended)) {
            // If this fails, the next sweep forgets the run.
            let _ = directory.remove();
        }
    }

    /// Forgets the runs that are not needed, and ends those of them that are under way.
    ///
    /// # Errors
    /// Some runs remain.
    pub fn sweep(&self, is_needed: impl Fn(&RunId) -> bool) -> Result<(), RunFailed> {
        let mut over = Vec::new();
        for id in self.known()?.into_iter().filter(|id| !is_needed(id)) {
            let directory = Directory::new(&self.directory, &id);
            match directory.stands()? {
                RunState::Alive => directory.stop(),
                RunState::Nothing => directory.remove()?,
                RunState::Ended | RunState::Began { .. } | RunState::Ordered => over.push(directory),
            }
        }
        for _ in 0..SWEEP_LOOKS {
            if over.is_empty() {
                break;
            }
            let mut left = Vec::new();
            for (leftovers, directory) in end_leftovers_of(&over).into_iter().zip(over) {
                match leftovers {
                    Leftovers::None => directory.remove()?,
                    Leftovers::Killed | Leftovers::Unclear => left.push(directory),
                }
            }
            over = left;
        }
        // A run that may still have processes is left to the next sweep.
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
        // From now on the run counts as alive: the supervisor's stdin shows it before the supervisor
        // itself can.
        let alive = directory.hold_alive()?;
        let mut command = tokio::process::Command::new(&self.supervisor);
        command.arg("run").arg(directory.path()).current_dir("/").env_clear();
        command.stdin(Stdio::from(alive)).stdout(Stdio::null()).stderr(Stdio::inherit());
        // Dropping the child leaves the reaping to tokio.
        drop(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Waits while the run's unit is active and its supervisor cannot be seen yet.
    async fn until_seen(&self, id: &RunId, directory: &Directory) -> Result<(), RunFailed> {
        let Some(unit) = self.unit(id) else { return Ok(()) };
        let mut wait = LOOK_FIRST;
        while directory.stands()? == RunState::Ordered && unit.stands().await? == UnitStands::Runs {
            sleep(wait).await;
            wait = (wait * 2).min(LOOK_AT_LAST);
        }
        Ok(())
    }

    /// Waits until no process is left of a run whose supervisor is dead.
    async fn gone(&self, id: &RunId, directory: &Directory) -> Result<(), RunFailed> {
        let mut wait = LOOK_FIRST;
        let mut unclear = 0;
        loop {
            let is_unit_left = match self.unit(id) {
                Some(unit) => unit.stands().await? != UnitStands::Gone,
                None => false,
            };
            let are_left = match directory.end_leftovers() {
                Leftovers::None => {
                    unclear = 0;
                    false
                }
                Leftovers::Killed => {
                    unclear = 0;
                    true
                }
                Leftovers::Unclear => {
                    unclear += 1;
                    unclear < UNCLEAR_MAX
                }
            };
            if !are_left && !is_unit_left {
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
