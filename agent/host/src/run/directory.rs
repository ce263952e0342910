//! The directory of one run: its files, and the run's state that they imply.
//!
//! ```text
//!   order     what to do (0600)                   script    the script, if it is one (0700)
//!   alive     FIFO: held open by the supervisor   stop      FIFO: a byte in it stops the run
//!   began     it began; how often before          stopped   it is to be stopped
//!   ended     how it ended                        work/     the command's directory; outputs are in it
//!   input     a hook's standard input (0600)
//! ```
//!
//! `order`, `began` and `ended` come by a rename or a link each, so a crash at any point leaves the step
//! before or the step after. With `ended` there, script, input and order are gone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use muster_shared::{Attempt, Epoch, Generation, ResourceId};
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::net::unix::pipe;
use uuid::Uuid;

use super::record::{self, ENDED_ROOM, Ended, Order};
use super::{Program, RunFailed, Task, family};
use crate::files::program;

/// The mode of a run's directory, and of the directory above.
const PRIVATE: u32 = 0o700;
/// A variable in the environment of all processes of a run, unless they remove it: the run's directory.
const MARK: &str = "MUSTER_RUN";
/// The variable that Heat's scripts expect.
const OUTPUTS_PATH: &str = "heat_outputs_path";
/// The environment of every run, as that of a systemd service.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/root"),
    ("USER", "root"),
    ("LOGNAME", "root"),
    ("SHELL", "/bin/sh"),
    ("LANG", "C.UTF-8"),
];
/// The file with a hook's standard input; without it there is none.
pub(super) const INPUT: &str = "input";
/// The kernel's own limit for the first line is 255 bytes.
const FIRST_LINE_MAX: usize = 255;
const SHELL: &str = "/bin/sh";

/// Names a run. The same run never starts twice, unless it was interrupted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId {
    pub resource: ResourceId,
    pub generation: Generation,
    pub attempt: Attempt,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// There is no order.
    Nothing,
    /// The run is ordered and has not started.
    Ordered,
    /// The supervisor is running.
    Alive,
    /// The run is not alive, and its end is not recorded.
    Began {
        /// The number of earlier interruptions.
        again: u32,
    },
    /// The end is recorded.
    Ended,
}

/// The processes that were left of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftovers {
    None,
    /// Some were killed. Others may have started meanwhile.
    Killed,
    /// None was seen, and not all processes could be looked at.
    Unclear,
}

#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(super) fn new(runs: &Path, id: &RunId) -> Self {
        Self { path: runs.join(id.to_string()) }
    }

    /// The directory at the path that the supervisor was given.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn stands(&self) -> Result<RunState, RunFailed> {
        // The order matters: a supervisor is alive before it begins, and records the end before it dies.
        if self.has("ended")? {
            return Ok(RunState::Ended);
        }
        let began = match fs::read(self.file("began")) {
            Ok(again) => Some(again.try_into().map_or(0, u32::from_le_bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(disk("read a run")(error)),
        };
        Ok(match began {
            _ if self.is_alive()? => RunState::Alive,
            _ if self.has("ended")? => RunState::Ended,
            Some(again) => RunState::Began { again },
            None if self.has("order")? => RunState::Ordered,
            None => RunState::Nothing,
        })
    }

    fn has(&self, name: &str) -> Result<bool, RunFailed> {
        self.file(name).try_exists().map_err(disk("read a run"))
    }

    /// Writes all files that a run needs, replacing any earlier ones.
    pub(super) fn prepare(&self, task: &Task, again: u32) -> Result<(), RunFailed> {
        let order = self.order(task)?;
        let prepared = (|| {
            DirBuilder::new().recursive(true).mode(PRIVATE).create(&self.path)?;
            self.clear()?;
            for fifo in ["alive", "stop"] {
                mkfifo(&self.file(fifo), Mode::S_IRUSR | Mode::S_IWUSR)?;
            }
            DirBuilder::new().mode(PRIVATE).create(self.file("work"))?;
            match &task.program {
                Program::Script(text) => record::write(&self.file("script"), PRIVATE, text)?,
                Program::Hook { input, .. } => record::write(&self.file(INPUT), 0o600, input)?,
                Program::Arguments(_) => {}
            }
            record::write(&self.file("began.new"), 0o600, &again.to_le_bytes())?;
            record::reserve(&self.file("ended.new"), ENDED_ROOM)?;
            record::write(&self.file("order.new"), 0o600, &record::encode(&order)?)?;
            record::sync_parent(&self.path)?;
            record::rename(&self.file("order.new"), &self.file("order"))
        })();
        prepared.map_err(disk("record a run"))
    }

    /// Removes the order first: without it nothing begins, and while `began` exists the run is known to
    /// have started.
    fn clear(&self) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.file("order")))?;
        for file in fs::read_dir(&self.path)? {
            let file = file?;
            if file.file_name() == "began" {
                continue;
            }
            if file.file_type()?.is_dir() {
                fs::remove_dir_all(file.path())?;
            } else {
                fs::remove_file(file.path())?;
            }
        }
        absent_is_fine(fs::remove_file(self.file("began")))
    }

    fn order(&self, task: &Task) -> Result<Order, RunFailed> {
        let wrong = |name: &str| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = task.environment.keys().find(|name| wrong(name)) {
            return Err(RunFailed::Task(format!("'{}' is no name of a variable", name.escape_default())));
        }
        if let Some((name, _)) = task.environment.iter().find(|(_, value)| value.contains('\0')) {
            return Err(RunFailed::Task(format!("the value of {name} has a NUL in it")));
        }
        let arguments = match &task.program {
            Program::Script(text) => interpreter(text, &self.file("script")),
            Program::Arguments(arguments) => arguments.clone(),
            Program::Hook { paths, .. } => vec![hook(paths)?.into()],
        };
        let text = |path: PathBuf| {
            let text = path.into_os_string().into_string();
            text.map_err(|_| RunFailed::Task("the state directory's name is not text".into()))
        };
        let mut environment: BTreeMap<String, String> =
            ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        environment.extend(task.environment.clone());
        environment.insert(OUTPUTS_PATH.to_owned(), text(self.outputs())?);
        environment.insert(MARK.to_owned(), text(self.path.clone())?);
        Ok(Order::new(task.description.clone(), &arguments, environment, task.outputs.clone(), task.timeout))
    }

    /// `.NAME` follows.
    pub(super) fn outputs(&self) -> PathBuf {
        self.file("work").join("output")
    }

    pub(super) fn ordered(&self) -> Result<Order, RunFailed> {
        record::read(&self.file("order")).map_err(disk("read a run's order"))?.ok_or(RunFailed::Damaged)
    }

    pub(super) fn ended(&self) -> Result<Ended, RunFailed> {
        record::read(&self.file("ended")).map_err(disk("read a run's end"))?.ok_or(RunFailed::Damaged)
    }

    /// Marks the run, then wakes its supervisor. A supervisor that is not there yet sees the mark
    /// when it starts.
    pub(super) fn stop(&self) {
        let marked = File::create(self.file("stopped")).and_then(|_| {
            let mut open = OpenOptions::new();
            open.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
            open.open(self.file("stop"))?.write_all(b"s")
        });
        drop(marked);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.file("stopped").exists()
    }

    /// Held open for as long as the run must count as alive.
    pub(super) fn hold_alive(&self) -> Result<File, RunFailed> {
        // Opened for reading too, since opening would otherwise wait for a reader.
        OpenOptions::new().read(true).write(true).open(self.file("alive")).map_err(disk("open a run"))
    }

    fn open_alive(&self) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(self.file("alive"))
    }

    fn is_alive(&self) -> Result<bool, RunFailed> {
        let look = || match self.open_alive()?.read(&mut [0]) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        };
        match look() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            looked => looked.map_err(disk("read a run")),
        }
    }

    /// Waits for the supervisor's end, however long that takes.
    pub(super) async fn until_dead(&self) -> Result<(), RunFailed> {
        let wait = async {
            let mut file = self.open_alive()?;
            // The kernel reports an end only to readers that saw a writer.
            match file.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
            let alive = pipe::Receiver::from_file(file)?;
            loop {
                alive.readable().await?;
                match alive.try_read(&mut [0]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read.map(drop),
                }
            }
        };
        wait.await.map_err(disk("wait for a run"))
    }

    /// Kills the remaining processes of a run whose supervisor was killed.
    pub(super) fn end_leftovers(&self) -> Leftovers {
        end_leftovers_of(std::slice::from_ref(self))[0]
    }

    pub(super) fn remove(&self) -> Result<(), RunFailed> {
        let removed = self.clear().and_then(|()| fs::remove_dir(&self.path));
        absent_is_fine(removed).map_err(disk("remove a run"))
    }
}

/// Kills the remaining processes of these runs, whose supervisors were killed: in one look at all processes.
pub(super) fn end_leftovers_of(runs: &[Directory]) -> Vec<Leftovers> {
    let mut left = vec![Leftovers::None; runs.len()];
    let are_all = family::each_with_variable(MARK, |pid, path| {
        if let Some(at) = runs.iter().position(|run| run.path.as_os_str().as_bytes() == path) {
            family::signal(&[pid], Signal::SIGKILL);
            left[at] = Leftovers::Killed;
        }
    });
    for left in left.iter_mut().filter(|left| !are_all && **left == Leftovers::None) {
        *left = Leftovers::Unclear;
    }
    left
}

/// The first of these programs that exists.
fn hook(paths: &[PathBuf]) -> Result<PathBuf, RunFailed> {
    for path in paths {
        match program(path) {
            Ok(Some(program)) => return Ok(program),
            Ok(None) => {}
            Err(error) => return Err(RunFailed::Task(format!("the hook is not run: {error}"))),
        }
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Err(RunFailed::Task(format!("there is no hook: looked for {}", paths.join(" and "))))
}

/// The interpreter in the first line, as the kernel reads it, but also for directories that forbid execution.
fn interpreter(text: &[u8], script: &Path) -> Vec<OsString> {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let named = line.strip_prefix(b"#!").filter(|line| line.len() <= FIRST_LINE_MAX);
    let named = named.map(|line| String::from_utf8_lossy(line).trim().to_owned()).unwrap_or_default();
    let (program, argument) = named.split_once([' ', '\t']).unwrap_or((named.as_str(), ""));
    let program = if program.is_empty() { SHELL } else { program };
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    [Some(program), argument].into_iter().flatten().map(OsString::from).chain([script.into()]).collect()
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

pub(super) fn disk(doing: &'static str) -> impl Fn(io::Error) -> RunFailed {
    move |source| RunFailed::Disk { doing, source }
}

impl RunId {
    /// The run of a job.
    pub fn new(resource: ResourceId, generation: Generation, attempt: Attempt) -> Self {
        Self { resource, generation, attempt }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Generation { epoch, number } = self.generation;
        write!(f, "{}_{}_{number}_{}", self.resource, epoch.0, self.attempt.0)
    }
}

impl FromStr for RunId {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let mut parts = name.split('_');
        let mut part = || parts.next().ok_or(());
        let resource = ResourceId(Uuid::from_str(part()?).map_err(drop)?);
        let epoch = Epoch(part()?.parse().map_err(drop)?);
        let generation = Generation { epoch, number: part()?.parse().map_err(drop)? };
        let attempt = Attempt(part()?.parse().map_err(drop)?);
        let id = Self { resource, generation, attempt };
        if id.to_string() == name { Ok(id) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_run_or_of_none() {
        let generation = Generation { epoch: Epoch(3), number: 12 };
        let id = RunId::new(ResourceId(Uuid::from_u128(7)), generation, Attempt(1));
        assert_eq!(id.to_string(), "00000000-0000-0000-0000-000000000007_3_12_1");
        assert_eq!(id.to_string().parse(), Ok(id));
        for name in ["", "lost+found", "00000000-0000-0000-0000-000000000007_3_12_01", "a_1_2_3"] {
            assert_eq!(name.parse::<RunId>(), Err(()), "{name}");
        }
    }

    #[test]
    fn a_script_is_for_whom_its_first_line_names() {
        for (text, program) in [
            ("#!/bin/bash\necho", "/bin/bash,s"),
            ("#! /usr/bin/env python3\n", "/usr/bin/env,python3,s"),
            ("#!/bin/sh -e -u\r\n", "/bin/sh,-e -u,s"),
            ("echo\n#!/bin/bash", "/bin/sh,s"),
            ("#!\n", "/bin/sh,s"),
            ("", "/bin/sh,s"),
        ] {
            let words = interpreter(text.as_bytes(), Path::new("s"));
            assert_eq!(words.join(std::ffi::OsStr::new(",")), program, "{text}");
        }
    }
}
