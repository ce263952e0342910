//! Why a package is not what it should be.

use std::io;

use thiserror::Error;

use super::{Order, dnf};
use crate::resource::Fault;
use crate::run::{RunEnd, RunFailed};

/// Lines of what a command wrote: enough to see why it failed; a reason is shown in one place with many others.
const LINES: usize = 8;
/// Bytes of them.
const TEXT_MAX: usize = 1500;
/// Versions that are named where the wanted one is none of them.
const OFFERED_SHOWN: usize = 5;

/// The reason why a package is not what it should be.
#[derive(Debug, Error)]
pub enum PackageFault {
    #[error("there is neither apt nor dnf on this server: packages cannot be installed")]
    NoManager,
    /// It does not answer.
    #[error("cannot ask {program}: {source}")]
    Ask { program: &'static str, source: io::Error },
    /// It answers, and it is no answer.
    #[error("{program} cannot say what is installed: {said}")]
    Answer { program: &'static str, said: String },
    /// The lock itself cannot be looked at.
    #[error("cannot look at the lock {file}: {source}")]
    Lock { file: String, source: io::Error },
    /// Somebody else changes packages.
    #[error("packages were locked by {holder} for all of {seconds} s: wait for it or end it")]
    Locked {
        holder: String,
        /// How long it was waited for.
        seconds: u32,
    },
    /// Nobody offers it.
    #[error("no repository of this server has a package {package}{}: look at its name and at the server's repositories", refreshed(.refresh.as_ref()))]
    NoPackage {
        package: String,
        /// The reason why the lists may be old.
        refresh: Option<String>,
    },
    /// Nobody offers that version.
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
    #[error("'{command}' {how}{}", quoted(.lines))]
    Command {
        /// As somebody would type it.
        command: String,
        how: String,
        /// The last that it wrote.
        lines: Vec<String>,
        /// Trying again cannot help.
        permanent: bool,
    },
    /// Nobody knows how a command ended.
    #[error(transparent)]
    Run(#[from] RunFailed),
    /// It worked, and it is not so.
    #[error("{package} after the change: {differ}")]
    Differs { package: String, differ: String },
    /// Something was changed before it failed.
    #[error("{fault} ({})", if .left.is_empty() { "what was there before this job is back".to_owned() } else { format!("what was there before this job could not all be put back: {}", .left.join(", ")) })]
    After {
        fault: Box<PackageFault>,
        /// What is not as before; empty if all is.
        left: Vec<String>,
    },
}

impl Fault for PackageFault {
    fn is_permanent(&self) -> bool {
        match self {
            Self::NoManager | Self::Others { .. } | Self::Held { .. } | Self::Own { .. } => true,
            Self::NoPackage { refresh, .. } | Self::NoVersion { refresh, .. } => refresh.is_none(),
            Self::Command { permanent, .. } => *permanent,
            Self::After { fault, .. } => fault.is_permanent(),
            // One that was interrupted is mended by the next.
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
    /// What it was to fetch is not there any more.
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
            RunEnd::Stopped => "was ended: its job was taken back".to_owned(),
            RunEnd::NotStarted(why) => format!("cannot be started: {why}"),
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

/// What a package's script wrote is in the one, what apt and dpkg say of it in the other.
pub(super) fn last_lines(stdout: &str, stderr: &str) -> Vec<String> {
    let of = |text: &str, most: usize| -> Vec<String> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|line| (*line).to_owned()).collect()
    };
    let errors = of(stderr, LINES);
    let mut lines = of(stdout, LINES / 2);
    lines.extend(errors);
    // The end counts.
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
