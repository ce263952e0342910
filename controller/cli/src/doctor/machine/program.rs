//! A program of this machine that is asked something, for a bounded time and with a bounded answer.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// Such programs answer in milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The longest answer that is read: the rules of a packet filter may have megabytes.
const ANSWER_MAX: u64 = 16 * 1024 * 1024;

/// The program's output; none if it is missing, fails, says too much, or does not end.
pub async fn ask(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut stdout = child.stdout.take()?.take(ANSWER_MAX);
    let mut said = Vec::new();
    let ended = async {
        stdout.read_to_end(&mut said).await.ok()?;
        // A program that has more to say fails now.
        drop(stdout);
        child.wait().await.ok()
    };
    let status = timeout(ANSWER_WITHIN, ended).await.ok()??;
    status.success().then(|| String::from_utf8_lossy(&said).into_owned())
}
