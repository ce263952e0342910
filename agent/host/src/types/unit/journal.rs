//! The last lines that a unit wrote to its log.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// The paths of distributions. The search path is not used: a user who can write there could run code
/// as root.
const PROGRAMS: [&str; 2] = ["/usr/bin/journalctl", "/bin/journalctl"];
/// Enough to see why a program ended; a reason is shown together with many others.
const LINES: &str = "8";
/// The most bytes of those lines.
const TEXT_MAX: usize = 1500;
/// The log of a busy server is large, and its end is read first.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The command that reads the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(Option<Vec<String>>);

impl Journal {
    /// Reads the log with another command.
    pub fn by(command: Vec<String>) -> Self {
        Self(Some(command))
    }

    /// The last lines of a unit's log; empty if there are none or they cannot be read.
    pub async fn last(&self, unit: &str) -> Vec<String> {
        let found =
            || PROGRAMS.into_iter().find(|path| Path::new(path).is_file()).map(|path| vec![path.into()]);
        let Some(command) = self.0.clone().or_else(found) else { return Vec::new() };
        let [program, arguments @ ..] = command.as_slice() else { return Vec::new() };
        let mut asked = Command::new(program);
        asked.args(arguments).args([
            "--quiet",
            "--no-pager",
            "--output=cat",
            "--lines",
            LINES,
            "--unit",
            unit,
        ]);
        asked.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).env("LC_ALL", "C");
        let Ok(Ok(output)) = timeout(TIME_MAX, asked.output()).await else { return Vec::new() };
        let text = String::from_utf8_lossy(&output.stdout);
        // The end matters most.
        let mut from = text.len().saturating_sub(TEXT_MAX);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text[from..].lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
    }
}

/// The lines in a form to append to a reason.
pub(super) fn quoted(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; its log ends: {}", lines.join(" | ")) }
}
