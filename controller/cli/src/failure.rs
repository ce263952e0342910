//! The failure of a command: an exit code and lines for stderr.
//!
//! Absent: which answer of the controller is which failure (`answer` in `client.rs`).

use std::io::Write;
use std::time::Duration;

use muster_template::Errors;

use crate::output::lines;

/// The exit codes of the command line's contract; 0 is `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The request was refused, or it failed.
    Failed = 1,
    /// Wrong usage, or a bad file or template.
    Usage = 2,
    /// The operation did not end in the given time.
    TimedOut = 3,
    /// The controller cannot be reached.
    Unreachable = 4,
}

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code for the shell.
    pub exit: Exit,
    /// The lines for stderr, each with `error:`.
    pub lines: Vec<String>,
    /// The controller's present state prevents the command: a waiting client may ask again.
    pub passing: bool,
    /// Nothing was done, and the controller wants to be asked again after this.
    pub retry_after: Option<Duration>,
    /// The requested object does not exist.
    pub missing: bool,
}

impl Failure {
    /// Exit code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::of(Exit::Failed, message)
    }

    /// Exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::of(Exit::Usage, message)
    }

    /// Exit code 3.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::of(Exit::TimedOut, message)
    }

    /// Exit code 4.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self { passing: true, ..Self::of(Exit::Unreachable, message) }
    }

    /// Exit code 3: the controller was busy for too long.
    pub fn given_up(mut self) -> Self {
        if let Some(last) = self.lines.last_mut() {
            *last += "; muster gave up waiting";
        }
        Self { exit: Exit::TimedOut, retry_after: None, ..self }
    }

    fn of(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, lines: vec![message.into()], passing: false, retry_after: None, missing: false }
    }

    /// Says what the failure is about, in front of it.
    pub fn about(mut self, what: &str) -> Self {
        self.lines.iter_mut().for_each(|line| *line = format!("{what}: {line}"));
        self
    }

    /// Writes the lines. A closed stderr is no error, since nobody reads it.
    pub fn report(&self) {
        let mut stderr = std::io::stderr().lock();
        for line in &self.lines {
            let _closed = writeln!(stderr, "error: {}", lines(line, "  "));
        }
    }
}

impl From<Errors> for Failure {
    fn from(errors: Errors) -> Self {
        Self { lines: errors.0.iter().map(ToString::to_string).collect(), ..Self::usage("") }
    }
}
