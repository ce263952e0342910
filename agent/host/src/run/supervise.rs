//! The supervisor of one run: a separate process, which outlives the agent.
//!
//! ```text
//!   began ─▶ Runs ──exit──▶ Lingers ──nothing is left─▶ ended
//!              └─timeout, stop─▶ Ends ──┘   (asked to end, and killed after a while)
//! ```
//!
//! SIGTERM to the supervisor means that the server shuts down: the supervisor ends the run without recording
//! an end, so that the run counts as interrupted.
//!
//! Absent: whether an exit code or a timeout is a failure (`agent/src/host/deployment.rs`), and whether an interrupted run begins
//! again (`run.rs`).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, setsid};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::answer::{self, ANSWER_MAX};
use super::directory::{Directory, INPUT, disk};
use super::output::{self, OUTPUT_MAX, Tail};
use super::record::{self, Ended, Order, Output, RunEnd};
use super::{RunFailed, family};
use crate::sys;

/// The time that processes may outlive the command before they are ended, such as the `tee` at the end of
/// a pipe.
const LINGER: Duration = Duration::from_secs(1);
/// The time between SIGTERM and SIGKILL, as the shortest of systemd's own services.
const GRACE: Duration = Duration::from_secs(10);
/// The time that killed processes may take to vanish: only those that wait for a device take long.
const KILLED: Duration = Duration::from_secs(5);
/// The pause between two looks at processes that have not ended.
const LOOK: Duration = Duration::from_millis(20);
/// A disk that refuses the end of a run although its room was taken gets so many tries, this far apart:
/// five minutes.
const TRIES: u32 = 150;
const TRY_EVERY: Duration = Duration::from_secs(2);
/// The most bytes of all outputs, both streams and the names: the size of the report that carries them.
const OUTPUTS_MAX: usize = 4 * OUTPUT_MAX;

const PIECE: usize = 8 * 1024;
/// The kernel's largest pipe with default settings; at this point nothing fills the pipe again.
const DRAIN_MAX: usize = 1024 * 1024;

/// The reason why the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    TimedOut,
    Stopped,
    /// The server goes down.
    Down,
}

/// Carries out the order in `directory`, and records how that ended.
///
/// # Errors
/// Nothing began, or its end could not be recorded.
pub async fn supervise(directory: &Path) -> Result<(), RunFailed> {
    let directory = Directory::at(directory.to_owned());
    let failed = disk("watch over a run");
    // Needed where the starter did not hold it for this process, or ends.
    let _alive = directory.hold_alive()?;
    apart().map_err(&failed)?;
    let order = directory.ordered()?;
    let stop =
        pipe::OpenOptions::new().read_write(true).open_receiver(directory.file("stop")).map_err(&failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(&failed)?;
    // A link never replaces a file: a second supervisor does not start a run that another has started.
    fs::hard_link(directory.file("began.new"), directory.file("began")).map_err(&failed)?;
    record::sync_parent(&directory.file("began")).map_err(&failed)?;

    if directory.is_stopped() {
        return finish(&directory, &Ended::without_output(RunEnd::Stopped)).await;
    }
    let mut child = match Child::start(&order, &directory) {
        Ok(child) => child,
        Err(error) => {
            let how = RunEnd::NotStarted(format!("{}: {error}", order.arguments()[0].display()));
            return finish(&directory, &Ended::without_output(how)).await;
        }
    };
    let time = sleep(order.timeout);
    // A shutdown may tell the command as well: that it then ends is not its own end.
    let why = tokio::select! {
        biased;
        _ = terminate.recv() => Some(StopReason::Down),
        _ = stop.readable() => Some(StopReason::Stopped),
        () = child.ends() => None,
        () = time => Some(StopReason::TimedOut),
    };
    drop(stop);
    let status = child.end_all(why).await;
    if why == Some(StopReason::Down) {
        return Ok(());
    }
    let how = match (why, status) {
        (Some(StopReason::TimedOut), _) => RunEnd::TimedOut,
        (Some(StopReason::Stopped | StopReason::Down), _) => RunEnd::Stopped,
        (None, Some(WaitStatus::Exited(_, status))) => RunEnd::Exited(status),
        (None, Some(WaitStatus::Signaled(_, signal, _))) => RunEnd::Killed(signal as i32),
        // The process has ended, without a known status.
        (None, _) => RunEnd::Killed(0),
    };
    if child.is_hook {
        let ended = answer::taken(how, child.stdout.tail, child.stderr.tail, &order.outputs);
        let room = OUTPUTS_MAX.saturating_sub(ended.stdout.len() + ended.stderr.len());
        let outputs = within(room, ended.outputs.into_iter());
        return finish(&directory, &Ended { outputs, ..ended }).await;
    }
    let outputs =
        order.outputs.iter().filter_map(|name| Some((name.clone(), read_output(&directory, name)?)));
    let (stdout, stderr) = (child.stdout.tail.text(), child.stderr.tail.text());
    let room = OUTPUTS_MAX.saturating_sub(stdout.len() + stderr.len());
    finish(&directory, &Ended { how, stdout, stderr, outputs: within(room, outputs) }).await
}

/// Starts a session of its own, and becomes the parent of orphaned descendants.
fn apart() -> io::Result<()> {
    // A service of systemd leads its session already.
    let _ = setsid();
    umask(Mode::from_bits_truncate(0o022));
    set_child_subreaper(true)?;
    // The agent's own protection against the OOM killer must not extend to the command.
    let _ = fs::write("/proc/self/oom_score_adj", "0");
    Ok(())
}

fn read_output(directory: &Directory, name: &str) -> Option<Output> {
    let mut path = directory.outputs().into_os_string();
    path.push(".");
    path.push(name);
    // An output that cannot be read counts as absent.
    output::read(&PathBuf::from(path)).ok()?
}

/// Marks outputs beyond the common bound as too large.
fn within(
    mut room: usize,
    outputs: impl Iterator<Item = (String, Output)>,
) -> std::collections::BTreeMap<String, Output> {
    let bounded = outputs.map(|(name, output)| {
        let output = match output {
            Output::Text(text) if text.len() > room => Output::TooLarge(text.len() as u64),
            Output::Text(text) => {
                room -= text.len();
                Output::Text(text)
            }
            Output::TooLarge(size) => Output::TooLarge(size),
        };
        (name, output)
    });
    bounded.collect()
}

/// Records the end, and removes secrets that are no longer needed.
async fn finish(directory: &Directory, ended: &Ended) -> Result<(), RunFailed> {
    let record = || {
        record::fill(&directory.file("ended.new"), &record::encode(ended)?)?;
        record::rename(&directory.file("ended.new"), &directory.file("ended"))
    };
    let mut tries = 1;
    while let Err(error) = record() {
        if tries == TRIES {
            return Err(disk("record the end of a run")(error));
        }
        tries += 1;
        sleep(TRY_EVERY).await;
    }
    // A failure is harmless: the files go with the directory.
    let _ = fs::remove_file(directory.file("order"));
    let _ = fs::remove_file(directory.file("script"));
    let _ = fs::remove_file(directory.file(INPUT));
    let _ = fs::remove_dir_all(directory.file("work"));
    Ok(())
}

/// The command and all processes that it started.
struct Child {
    pid: Pid,
    status: Option<WaitStatus>,
    ended: tokio::signal::unix::Signal,
    stdout: Stream,
    stderr: Stream,
    /// Whether its standard output is an answer.
    is_hook: bool,
}

struct Stream {
    pipe: Option<pipe::Receiver>,
    tail: Tail,
}

impl Child {
    fn start(order: &Order, directory: &Directory) -> io::Result<Self> {
        let ended = signal(SignalKind::child())?;
        let arguments = order.arguments();
        let (program, arguments) = arguments.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&order.environment).current_dir(directory.file("work"));
        let input = match File::open(directory.file(INPUT)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            input => Some(input?),
        };
        let is_hook = input.is_some();
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        sys::end_with_parent(&mut command);
        let mut child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let most = if is_hook { ANSWER_MAX } else { OUTPUT_MAX };
        let stdout = Stream::new(child.stdout.take().map(OwnedFd::from), most)?;
        let stderr = Stream::new(child.stderr.take().map(OwnedFd::from), OUTPUT_MAX)?;
        Ok(Self { pid, status: None, ended, stdout, stderr, is_hook })
    }

    /// Returns when the command has ended. Processes that it started may still run.
    async fn ends(&mut self) {
        while !self.has_ended() {
            tokio::select! {
                _ = self.ended.recv() => {}
                () = self.stdout.read() => {}
                () = self.stderr.read() => {}
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        self.status = family::reap(self.pid).or(self.status);
        self.status.is_some()
    }

    /// Ends all processes. Only those that not even the kernel can end are left.
    async fn end_all(&mut self, why: Option<StopReason>) -> Option<WaitStatus> {
        let linger = if why.is_none() { LINGER } else { Duration::ZERO };
        for (asked, within) in
            [(None, linger), (Some(Signal::SIGTERM), GRACE), (Some(Signal::SIGKILL), KILLED)]
        {
            if self.is_gone_within(asked, Instant::now() + within).await {
                break;
            }
        }
        // The pipes hold the last output of the ended processes.
        self.stdout.drain();
        self.stderr.drain();
        self.status
    }

    async fn is_gone_within(&mut self, asked: Option<Signal>, until: Instant) -> bool {
        let mut is_asked = false;
        loop {
            self.has_ended();
            let (left, are_all) = family::descendants();
            if left.is_empty() && are_all {
                return true;
            }
            // Kills the processes until no new ones appear.
            if let Some(asked) = asked
                && (!is_asked || asked == Signal::SIGKILL)
            {
                family::signal(&left, asked);
                is_asked = true;
            }
            if Instant::now() >= until {
                return false;
            }
            let look = (Instant::now() + LOOK).min(until);
            let read = async {
                loop {
                    tokio::select! {
                        () = self.stdout.read() => {}
                        () = self.stderr.read() => {}
                        _ = self.ended.recv() => break,
                        () = sleep_until(look) => break,
                    }
                }
            };
            // An endless stream does not delay the look.
            let _ = timeout_at(look, read).await;
        }
    }
}

impl Stream {
    /// Keeps the last `most` bytes.
    fn new(fd: Option<OwnedFd>, most: usize) -> io::Result<Self> {
        let pipe = fd.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok(Self { pipe, tail: Tail::of(most) })
    }

    /// Reads the available output, or waits for some; waits for ever once the pipe is closed.
    async fn read(&mut self) {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        let mut piece = [0; PIECE];
        let read = match pipe.readable().await {
            Ok(()) => pipe.try_read(&mut piece),
            Err(error) => Err(error),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => self.pipe = None,
            Ok(length) => self.tail.push(&piece[..length]),
        }
    }

    /// Reads all that is in the pipe, including data that the reactor has not announced yet, and closes
    /// the pipe.
    fn drain(&mut self) {
        let Some(Ok(fd)) = self.pipe.take().map(pipe::Receiver::into_nonblocking_fd) else { return };
        let (mut pipe, mut piece) = (File::from(fd), [0; PIECE]);
        for _ in 0..DRAIN_MAX / PIECE {
            match pipe.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(length) => self.tail.push(&piece[..length]),
            }
        }
    }
}

impl Ended {
    fn without_output(how: RunEnd) -> Self {
        Self { how, stdout: String::new(), stderr: String::new(), outputs: Default::default() }
    }
}
