//! Processes that a test starts, and how it waits for them.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

/// Whatever a test waits for has come by then, on the slowest machine that runs it.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks at something that is waited for. A look may start a program, so a long wait leaves the processors to what
/// it waits for.
const PAUSE_LEAST: Duration = Duration::from_millis(10);
const PAUSE_MOST: Duration = Duration::from_millis(100);
/// A wait ends too late by at most one such part of its time.
const PAUSE_PART: u32 = 8;
/// The most bytes of a log that are printed.
const TAIL: usize = 6000;

/// Looks until there is something, at most for [`PATIENCE`].
pub fn eventually<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    look(found).unwrap_or_else(|| panic!("waited {} s in vain until {what}", PATIENCE.as_secs()))
}

/// [`eventually`], or none.
pub fn look<T>(found: impl FnMut() -> Option<T>) -> Option<T> {
    look_within(PATIENCE, PAUSE_MOST, found)
}

/// [`look`] without long pauses, for what may pass in a moment. A look costs little.
pub fn look_closely<T>(found: impl FnMut() -> Option<T>) -> Option<T> {
    look_within(PATIENCE, PAUSE_LEAST, found)
}

fn look_within<T>(patience: Duration, most: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return Some(found);
        }
        let waited = began.elapsed();
        if waited > patience {
            return None;
        }
        pause((waited / PAUSE_PART).clamp(PAUSE_LEAST, most));
    }
}

#[expect(clippy::disallowed_methods, reason = "the pause of a look at a condition, not a wait for time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The program, in the namespace if there is one; it ends with the test, also when the test is killed.
pub fn command(namespace: Option<&Namespace>, program: impl AsRef<OsStr>) -> Command {
    let mut command = match namespace {
        Some(namespace) => namespace.command("setpriv"),
        None => Command::new("setpriv"),
    };
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A program that is started again and again, with one log. It ends with the value.
pub struct Daemon {
    name: String,
    command: Command,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it; `NAME.log` in `dir` gets what it says.
    pub fn start(name: &str, mut command: Command, dir: &Path) -> Self {
        let log = dir.join(format!("{name}.log"));
        let child = spawn(&mut command, &log);
        Self { name: name.to_owned(), command, child, log }
    }

    /// Sets the command that [`Daemon::restart`] runs from now on.
    pub fn next(&mut self, command: Command) {
        self.command = command;
    }

    /// SIGKILL, and the wait for its end.
    pub fn kill(&mut self) {
        // It may have ended already: a test that kills it does not care.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Sends it a signal: `TERM`.
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(kill.success(), "{} is gone", self.name);
    }

    /// SIGTERM, and the wait for its end.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        eventually(&format!("{} stops", self.name), || self.child.try_wait().unwrap())
    }

    /// Starts it again after [`Daemon::kill`] or [`Daemon::stop`].
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&mut self.command, &self.log);
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The output so far.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.char_indices().rev().nth(TAIL).map_or(0, |(at, _)| at);
            eprintln!("--- the end of {}'s log:\n{}", self.name, &log[from..]);
        }
    }
}

fn spawn(command: &mut Command, log: &Path) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
    let again: File = log.try_clone().unwrap();
    command.stdin(Stdio::null()).stdout(again).stderr(log).env("NO_COLOR", "1");
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// A command that is running.
pub struct Running {
    child: Child,
    shown: String,
}

impl Running {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("NO_COLOR", "1");
        let shown = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        Self { child, shown }
    }

    /// Has it ended?
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub fn finish(self) -> Ran {
        self.finish_within(PATIENCE)
    }

    /// Waits for its end for another time than [`PATIENCE`].
    pub fn finish_within(mut self, patience: Duration) -> Ran {
        let (out, err) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        let (out, err) =
            (std::thread::spawn(move || read_all(out)), std::thread::spawn(move || read_all(err)));
        let status = look_within(patience, PAUSE_LEAST, || self.child.try_wait().unwrap());
        if status.is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        let (stdout, stderr) = (out.join().unwrap(), err.join().unwrap());
        let shown = std::mem::take(&mut self.shown);
        let Some(status) = status else { panic!("{shown} hangs\n{stdout}\n{stderr}") };
        Ran { status: status.code().unwrap_or(-1), stdout, stderr, shown }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of a command.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; -1 for a signal.
    pub status: i32,
    pub stdout: String,
    /// The text on standard error.
    pub stderr: String,
    shown: String,
}

impl Ran {
    /// Panics unless the command ended with this code.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        let Ran { status: got, stdout, stderr, shown } = &self;
        assert_eq!(*got, status, "{shown}\nstdout: {stdout}\nstderr: {stderr}");
        self
    }

    /// Panics unless the command refused with this code, in lines that begin with `error: ` and say all of `wanted`.
    #[track_caller]
    pub fn refused(self, status: i32, wanted: &[&str]) -> Self {
        let ran = self.expect(status);
        assert!(ran.stderr.lines().any(|line| line.starts_with("error: ")), "{}: {}", ran.shown, ran.stderr);
        for wanted in wanted {
            assert!(ran.stderr.contains(wanted), "{}: no '{wanted}' in: {}", ran.shown, ran.stderr);
        }
        ran
    }
}

/// Runs a command that must work; its stdout.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
