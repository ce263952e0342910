//! A program of this machine that is asked something, for a bounded time and with a bounded answer.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// Such programs answer in milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The program's output; none if it is missing, fails, or does not end.
pub async fn ask(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(ANSWER_WITHIN, command.output()).await.ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
