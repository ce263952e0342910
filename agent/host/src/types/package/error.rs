//! The reasons why a package is not as desired, and whether a further attempt can help.
//!
//! Absent: when that attempt comes (`controller/engine/src/job/next_attempt.rs`).

use std::io;

use thiserror::Error;

use super::{Order, dnf};
use crate::resource::Fault;
use crate::run::{RunEnd, RunFailed};

/// The most lines of a command's output: enough to see the failure; a reason is shown together with
/// many others.
const LINES: usize = 8;
/// The most bytes of those lines.
const TEXT_MAX: usize = 1500;
/// The most versions listed where the wanted one is not available.
const OFFERED_SHOWN: usize = 5;

/// The reason why a package is not as desired.
#[derive(Debug, Error)]
pub enum PackageFault {
    #[error("there is neither apt nor dnf on this server: packages cannot be installed")]
    NoManager,
    /// The program does not answer.
    #[error("cannot ask {program}: {source}")]
    Ask { program: &'static str, source: io::Error },
    /// The program's answer makes no sense.
    #[error("{program} cannot say what is installed: {said}")]
    Answer { program: &'static str, said: String },
    /// The lock itself cannot be read.
    #[error("cannot look at the lock {file}: {source}")]
    Lock { file: String, source: io::Error },
    /// Another program changes packages.
    #[error("packages were locked by {holder} for all of {seconds} s: wait for it or end it")]
    Locked {
        holder: String,
        /// The time waited for the lock.
        seconds: u32,
    },
    /// No repository offers the package.
    #[error("no repository of this server has a package {package}{}: look at its name and at the server's repositories", refreshed(.refresh.as_ref()))]
    NoPackage {
        package: String,
        /// The reason why the lists may be old.
        refresh: Option<String>,
    },
    /// No repository offers that version.
    #[error("no repository of this server has version {version} of {package}{}; there is {}", refreshed(.refresh.as_ref()), listed(.offered))]
    NoVersion {
        package: String,
        version: String,
        offered: Vec<String>,
        /// The reason why the lists may be old.
        refresh: Option<String>,
    },
    #[error("to {what} would remove {} as well: if that is right, make them packages that are absent, and this one depend on them", .others.join(", "))]
    Others { what: String, others: Vec<String> },
    #[error("{package} is held at {version} on this server: give 'held: false', or unhold it there")]
    Held { package: String, version: String },
    /// The agent would remove itself.
    #[error(
        "{package} is the package of the agent that runs here, which does not remove itself: take this resource out of the template with 'on_delete: keep', and remove it on the server by hand"
    )]
    Own { package: String },
    /// The new agent did not come up.
    #[error("{package} is the package of the agent that runs here, and was not kept: {why}{}", quoted(.lines))]
    Undone { package: String, why: String, lines: Vec<String> },
    /// An earlier change was undone without the package manager.
    #[error(
        "{package} is installed, and the agent that runs here is of an earlier version, because this one did not reach the controller: give another version, or install it again on the server"
    )]
    PutBack { package: String },
    #[error("'{command}' {how}{}", quoted(.lines))]
    Command {
        /// The command as an operator would type it.
        command: String,
        how: String,
        /// The last lines of output.
        lines: Vec<String>,
        /// A retry cannot help.
        permanent: bool,
    },
    /// The end of a command is unknown.
    #[error(transparent)]
    Run(#[from] RunFailed),
    /// The command succeeded, but the state differs.
    #[error("{package} after the change: {differ}")]
    Differs { package: String, differ: String },
    /// The change failed after a part of it was done.
    #[error("{fault} ({})", if .left.is_empty() { "what was there before this job is back".to_owned() } else { format!("what was there before this job could not all be restored: {}", .left.join(", ")) })]
    After {
        fault: Box<PackageFault>,
        /// The remaining differences from the state before; empty if all was undone.
        left: Vec<String>,
    },
}

impl Fault for PackageFault {
    fn is_permanent(&self) -> bool {
        match self {
            Self::NoManager | Self::Others { .. } | Self::Held { .. } | Self::Own { .. } => true,
            Self::Undone { .. } | Self::PutBack { .. } => true,
            Self::NoPackage { refresh, .. } | Self::NoVersion { refresh, .. } => refresh.is_none(),
            Self::Command { permanent, .. } => *permanent,
            Self::After { fault, .. } => fault.is_permanent(),
            // The next run repairs an interrupted one.
            Self::Run(_)
            | Self::Ask { .. }
            | Self::Answer { .. }
            | Self::Lock { .. }
            | Self::Locked { .. }
            | Self::Differs { .. } => false,
        }
    }
}

impl PackageFault {
    /// Whether a file to fetch is no longer in the repository.
    pub(super) fn is_of_old_lists(&self) -> bool {
        let is_so = |line: &String| line.starts_with("E: Failed to fetch");
        matches!(self, Self::Command { lines, .. } if lines.iter().any(is_so))
    }

    pub(super) fn after(self, left: Vec<String>) -> Self {
        Self::After { fault: Box::new(self), left }
    }

    pub(super) fn of_command(order: &Order, how: &RunEnd, stdout: &str, stderr: &str) -> Self {
        let command = order.to_string();
        let how = match how {
            RunEnd::Exited(status) => format!("ended with status {status}"),
            RunEnd::Killed(signal) => format!("was ended by signal {signal}"),
            RunEnd::TimedOut => "took longer than its time and was ended".to_owned(),
            RunEnd::Stopped => "was ended: its job was withdrawn".to_owned(),
            RunEnd::NotStarted(why) => format!("cannot be started: {why}"),
            RunEnd::BadAnswer(why) => why.clone(),
        };
        // A package's own script fails alike each time; networks, mirrors and disks do not.
        let of_script = ["installed dpkg", "maintainer script", "scriptlet in rpm package"];
        let permanent = of_script.iter().any(|word| stderr.contains(word));
        let lines = match order.program {
            dnf::DNF => last_lines(&dnf::of_scripts(stdout), stderr),
            _ => last_lines(stdout, stderr),
        };
        Self::Command { command, how, lines, permanent }
    }
}

/// The output of a package's script is in the one, the messages of apt and dpkg about it in the other.
pub(super) fn last_lines(stdout: &str, stderr: &str) -> Vec<String> {
    let of = |text: &str, most: usize| -> Vec<String> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|line| (*line).to_owned()).collect()
    };
    let errors = of(stderr, LINES);
    let mut lines = of(stdout, LINES / 2);
    lines.extend(errors);
    // The end matters most.
    while lines.len() > 1 && lines.iter().map(String::len).sum::<usize>() > TEXT_MAX {
        lines.remove(0);
    }
    if let [line] = lines.as_mut_slice() {
        line.truncate(line.floor_char_boundary(TEXT_MAX));
    }
    lines
}

fn quoted(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; it ends: {}", lines.join(" | ")) }
}

fn refreshed(refresh: Option<&String>) -> String {
    refresh.map(|why| format!(" (its lists could not be made new: {why})")).unwrap_or_default()
}

fn listed(offered: &[String]) -> String {
    let more = offered.len().saturating_sub(OFFERED_SHOWN);
    let shown = offered[..offered.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
