//! Commands of shadow-utils, and what is done as a user.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::{AccountFault, Result};

/// Where distributions have them. The search path is not asked: who can write there could be run as root.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// They wait for each other's locks for 15 s.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Of what a command writes.
const OUTPUT_MAX: u64 = 128 * 1024;
/// Below a home.
const KEYS: &str = ".ssh/authorized_keys";

#[derive(Clone, Copy)]
pub(super) enum Tool {
    UserAdd,
    UserMod,
    UserDel,
    GroupAdd,
    GroupMod,
    GroupDel,
    GPasswd,
}

/// Whom a command runs as.
#[derive(Clone, Copy)]
struct Who {
    uid: u32,
    gid: u32,
}

pub(super) async fn run(tool: Tool, words: impl IntoIterator<Item = String>) -> Result<()> {
    let name = match tool {
        Tool::UserAdd => "useradd",
        Tool::UserMod => "usermod",
        Tool::UserDel => "userdel",
        Tool::GroupAdd => "groupadd",
        Tool::GroupMod => "groupmod",
        Tool::GroupDel => "groupdel",
        Tool::GPasswd => "gpasswd",
    };
    let words: Vec<String> = words.into_iter().collect();
    command(name, &words, None, None).await.map(drop)
}

/// The field of `/etc/shadow`, by standard input: arguments are everybody's to read.
pub(super) async fn set_password(user: &str, field: &str) -> Result<()> {
    let line = format!("{user}:{field}\n");
    command("chpasswd", &["-e".to_owned()], Some(line.as_bytes()), None).await.map(drop)
}

/// None: there is no such file.
pub(super) async fn read_keys(user: &str, uid: u32, gid: u32, home: &str) -> Result<Option<Vec<u8>>> {
    if !Path::new(home).is_dir() {
        return Ok(None);
    }
    let path = format!("{home}/{KEYS}");
    let who = Some(Who { uid, gid });
    // As the user: what they may not see is not there to them.
    match command("cat", &["--".into(), path], None, who).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(AccountFault::Tool { status: Some(1), said, .. }) if said.contains("No such file") => Ok(None),
        Err(fault) => Err(fault.of_keys(user)),
    }
}

/// Whole or not at all.
pub(super) async fn write_keys(
    user: &str,
    uid: u32,
    gid: u32,
    home: &str,
    keys: Option<&[u8]>,
) -> Result<()> {
    if keys.is_some() && !Path::new(home).is_dir() {
        return Err(AccountFault::NoHome { user: user.to_owned(), home: home.to_owned() });
    }
    let who = Some(Who { uid, gid });
    let path = format!("{home}/{KEYS}");
    let Some(keys) = keys else {
        return command("rm", &["-f".into(), "--".into(), path], None, who).await.map(drop);
    };
    let new = format!("{path}.muster");
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let written = async {
        command("mkdir", &words(&["-p", "-m", "700", "--", &format!("{home}/.ssh")]), None, who).await?;
        // Not into a link that is there under this name.
        command("rm", &words(&["-f", "--", &new]), None, who).await?;
        command("dd", &words(&["status=none", "conv=excl,fsync", &format!("of={new}")]), Some(keys), who)
            .await?;
        command("chmod", &words(&["600", "--", &new]), None, who).await?;
        command("mv", &words(&["-f", "-T", "--", &new, &path]), None, who).await
    };
    match written.await {
        Ok(_) => Ok(()),
        Err(fault) => {
            let _ = command("rm", &words(&["-f", "--", &new]), None, who).await;
            Err(fault.of_keys(user))
        }
    }
}

/// None of the user's processes runs: their number and their home would change under them.
pub(super) fn nobody_runs(user: &str, uid: u32) -> Result<()> {
    let failed = |source| AccountFault::File { path: "/proc".into(), source };
    for entry in fs::read_dir("/proc").map_err(failed)?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // One that has ended meanwhile is nobody's.
        if entry.metadata().is_ok_and(|meta| meta.uid() == uid) {
            let command = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let command = command.trim_end().to_owned();
            return Err(AccountFault::Busy { user: user.to_owned(), process, command });
        }
    }
    Ok(())
}

async fn command(
    name: &'static str,
    words: &[String],
    input: Option<&[u8]>,
    who: Option<Who>,
) -> Result<Vec<u8>> {
    let program = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let program = program.ok_or(AccountFault::NoTool(name))?;
    let failed = |source| AccountFault::Run { tool: name, source };
    let mut command = Command::new(program);
    command.args(words).env_clear().env("LC_ALL", "C").env("PATH", FOLDERS.join(":")).current_dir("/");
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(Who { uid, gid }) = who {
        // Without root's other groups, too: std drops them with the number.
        command.uid(uid).gid(gid);
    }
    let ran = async {
        let mut child = command.spawn()?;
        let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(out), Some(err)) = (out, err) else { return Err(io::Error::other("no pipe")) };
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // One that does not read it says why by itself.
                let _ = stdin.write_all(input).await;
            }
            Ok(())
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (mut out, mut err) = (out.take(OUTPUT_MAX), err.take(OUTPUT_MAX));
        tokio::try_join!(feed, out.read_to_end(&mut stdout), err.read_to_end(&mut stderr))?;
        Ok((child.wait().await?, stdout, stderr))
    };
    let ended = timeout(TIME_MAX, ran).await;
    let ended = ended.map_err(|_| failed(io::Error::new(io::ErrorKind::TimedOut, "it does not end")))?;
    let (status, stdout, stderr) = ended.map_err(failed)?;
    if status.success() {
        return Ok(stdout);
    }
    let lines = String::from_utf8_lossy(&stderr).into_owned();
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = lines[lines.len().saturating_sub(4)..].join(" | ");
    Err(AccountFault::Tool { tool: name, status: status.code(), said })
}
