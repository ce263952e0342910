//! Commands that only read, within bounds.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::{PackageFault, Result, apt};

/// A server with all of Debian, 60,000 packages, fits in.
const ANSWER_MAX: u64 = 16 * 1024 * 1024;
/// apt may have to read all of its lists first.
const TIME_MAX: Duration = Duration::from_secs(120);

/// The answer of a command.
pub(super) struct Answer {
    pub(super) is_success: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

pub(super) async fn ask(program: &'static str, arguments: &[&str]) -> Result<Answer> {
    let failed = |source| PackageFault::Ask { program, source };
    let mut command = Command::new(program);
    command.args(arguments).envs(apt::ENVIRONMENT).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let asked = async {
        let mut child = command.spawn()?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (Some(out), Some(err)) = (out, err) else { return Err(io::Error::other("no pipe")) };
        let (mut out, mut err) = (out.take(ANSWER_MAX), err.take(ANSWER_MAX));
        tokio::try_join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr))?;
        if stdout.len() as u64 == ANSWER_MAX {
            return Err(io::Error::other("its answer is too large"));
        }
        let status = child.wait().await?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer { is_success: status.success(), stdout: text(stdout), stderr: text(stderr) })
    };
    match timeout(TIME_MAX, asked).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => Err(failed(io::Error::new(io::ErrorKind::TimedOut, "no answer within two minutes"))),
    }
}
