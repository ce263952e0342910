//! `upgrade`: a change of the agent's own package, by a process of the earlier program that outlives the agent.
//!
//! ```text
//!  package manager ─▶ program replaced? ─▶ new agent greeted? ─▶ kept
//!                        └─no─▶ its status       └─no─▶ package manager back ─▶ greeted? ─no─▶ program back ─▶ undone
//! ```
//!
//! The agent starts this with a description of the change, takes its job up after its restart, and reads how
//! this ended (`agent/host/src/types/package/own.rs`). An agent that its package does not restart, because no
//! unit runs it, goes on with its earlier program: there is nothing to wait for.
//!
//! Absent: a power cut meanwhile. The new program is started at boot, and nothing brings the earlier one back.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use muster_host::package::{OwnChange, PutBack, SAYS, UNDONE};
use muster_host::systemd::{Systemd, Verb};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::runtime;
use tokio::time::{Instant, sleep, timeout};

use crate::link_state::LinkState;
use crate::local_socket;

/// The program of this process, as it was started.
const PROGRAM: &str = "/proc/self/exe";
/// The unit of the agent.
const UNIT: &str = "muster-agent.service";
/// The pause between two looks at the agent.
const LOOK: Duration = Duration::from_millis(250);
/// The time between SIGTERM and SIGKILL to a package manager that takes too long: it ends what it writes.
const GRACE: Duration = Duration::from_secs(10);
/// systemd waits for an agent that does not come up as long as a service may take by default.
const START_WITHIN: Duration = Duration::from_secs(90);
/// The most bytes of the log that are told, from its last lines.
const LOG_MAX: usize = 300;
/// The exit status where nothing was started.
const FAILED: u8 = 1;

/// Carries out the change. Exits with the package manager's status, or with [`UNDONE`].
pub fn run(state_dir: Option<&Path>, change: &str) -> ExitCode {
    let (Some(state_dir), Ok(change)) = (state_dir, serde_json::from_str::<OwnChange>(change)) else {
        eprintln!("error: the agent itself starts 'upgrade', with its state directory and a description");
        return ExitCode::from(FAILED);
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.and_then(|runtime| {
        let upgrade = Upgrade { state_dir, program: std::env::current_exe()?, change };
        runtime.block_on(upgrade.carry_out())
    });
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(FAILED)
        }
    }
}

struct Upgrade<'a> {
    state_dir: &'a Path,
    /// The path of the program, which the package replaces.
    program: PathBuf,
    change: OwnChange,
}

impl Upgrade<'_> {
    /// # Errors
    /// The package manager cannot be started.
    async fn carry_out(&self) -> io::Result<u8> {
        let change = &self.change;
        let file = file_of(&self.program);
        let agent = self.agent().await.map(|(process, _)| process);
        let status = command(&change.change, change.timeout).await?;
        if file.is_some() && file_of(&self.program) == file {
            // Nothing was replaced: the agent that runs hears what the package manager says.
            return Ok(status);
        }
        let within = Duration::from_secs(change.within.into());
        let why = match status {
            0 if self.is_greeted_within(within, agent).await => return Ok(0),
            0 => format!("it did not reach the controller within {} s{}", change.within, log().await),
            status => format!("'{}' ended with status {status}", shown(&change.change)),
        };
        let back = self.go_back(within, agent).await;
        eprintln!("{SAYS}{why}; {back}");
        Ok(UNDONE)
    }

    /// Brings the earlier version back, and says how far that came.
    async fn go_back(&self, within: Duration, agent: Option<i32>) -> String {
        let OwnChange { before, back, back_timeout, .. } = &self.change;
        let ran = if back.is_empty() { Ok(FAILED) } else { command(back, *back_timeout).await };
        // The package's scripts start what ran before; an agent that had given up does not count for them.
        let _ = tell(Verb::Start).await;
        if matches!(ran, Ok(0)) && self.is_greeted_within(within, agent).await {
            return format!("{before} is back");
        }
        match self.put_program_back().await {
            Ok(()) => format!("the program of {before} is back, without its package"),
            Err(error) => format!("{before} is not back: {error}"),
        }
    }

    async fn put_program_back(&self) -> io::Result<()> {
        let beside = self.program.with_extension("muster-back");
        let mut from = fs::File::open(PROGRAM)?;
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&beside)?;
        io::copy(&mut from, &mut file)?;
        file.flush()?;
        file.sync_all()?;
        fs::rename(&beside, &self.program)?;
        PutBack::record(&self.program, self.state_dir)?;
        tell(Verb::Restart).await
    }

    /// Waits until the controller has greeted the agent. One that was there before all of this has been, too.
    async fn is_greeted_within(&self, within: Duration, before: Option<i32>) -> bool {
        let until = Instant::now() + within;
        loop {
            match self.agent().await {
                Some((process, _)) if Some(process) == before => {
                    eprintln!("the agent was not restarted: it has its earlier program until it is");
                    return true;
                }
                Some((_, LinkState::Connected { greeted: true, .. })) => return true,
                Some((_, LinkState::Connecting | LinkState::Connected { .. } | LinkState::Away { .. }))
                | None => {}
            }
            if Instant::now() >= until {
                return false;
            }
            sleep(LOOK).await;
        }
    }

    /// The process of the agent, and how it stands with the controller, if one answers.
    async fn agent(&self) -> Option<(i32, LinkState)> {
        local_socket::agent_link_state(self.state_dir).await.ok()
    }
}

/// Device and inode.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Runs a command to its end; one that takes longer is ended, and has failed.
async fn command(words: &[String], seconds: u32) -> io::Result<u8> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program).args(arguments).stdin(Stdio::null()).process_group(0).spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let status = match timeout(Duration::from_secs(seconds.into()), child.wait()).await {
        Ok(status) => status?,
        Err(_) => {
            eprintln!("'{}' took longer than {seconds} s and is ended", shown(words));
            let signal = |signal: Signal| group.map(|group| killpg(group, signal));
            signal(Signal::SIGTERM);
            if timeout(GRACE, child.wait()).await.is_err() {
                signal(Signal::SIGKILL);
            }
            child.wait().await?;
            return Ok(FAILED);
        }
    };
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

/// The command as an operator would type it, without options.
fn shown(words: &[String]) -> String {
    let program = words.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let mut shown = program.to_string_lossy().into_owned();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-o" => drop(rest.next()),
            option if option.starts_with('-') => {}
            word => shown.extend([" ", word]),
        }
    }
    shown
}

async fn tell(verb: Verb) -> io::Result<()> {
    let bus = Systemd::default().connect().await.map_err(io::Error::other)?;
    bus.tell(verb, UNIT, START_WITHIN).await.map(drop).map_err(io::Error::other)
}

/// The last lines of the unit's log, as far as they can be read.
async fn log() -> String {
    let mut journal = Command::new("journalctl");
    journal.args(["-q", "--no-pager", "-o", "cat", "-n", "3", "-t", "muster-agent"]);
    journal.stdin(Stdio::null()).kill_on_drop(true);
    let Ok(Ok(output)) = timeout(GRACE, journal.output()).await else { return String::new() };
    let text = String::from_utf8_lossy(&output.stdout).trim().replace('\n', " | ");
    let from = text.len().saturating_sub(LOG_MAX);
    let text = &text[text.ceil_char_boundary(from)..];
    if text.is_empty() { String::new() } else { format!(" (its log ends: {text})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn a_command_ends_by_itself_or_when_its_time_is_over() {
        assert_eq!(command(&words("sh -c true"), 60).await.unwrap(), 0);
        let exits = ["sh", "-c", "exit 100"].map(str::to_owned);
        assert_eq!(command(&exits, 60).await.unwrap(), 100);
        let hangs = ["sh", "-c", "while :; do read line </dev/zero; done"].map(str::to_owned);
        assert_eq!(command(&hangs, 1).await.unwrap(), FAILED);
        assert!(command(&words("/nowhere/at-all x"), 1).await.is_err());
        assert!(command(&[], 1).await.is_err());
    }

    #[test]
    fn a_command_is_shown_without_its_options() {
        let given = words("/usr/bin/apt-get -y -o A=b install --no-remove muster-agent=2");
        assert_eq!(shown(&given), "apt-get install muster-agent=2");
    }
}
