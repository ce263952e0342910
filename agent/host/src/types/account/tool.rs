//! Runs the commands of shadow-utils, and commands as a user.
//!
//! Absent: the options that they are given (`account.rs`).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::{AccountFault, Keys, Result};

/// The paths of distributions. The search path is not used: a user who can write there could run code
/// as root.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The time limit of a command: commands wait for each other's locks for 15 s.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The time limit of work in a home, which may be on a file server that does not answer.
const HOME_TIME_MAX: Duration = Duration::from_secs(20);
/// The most bytes of a command's output: twice the keys that a user may be given.
const OUTPUT_MAX: u64 = 128 * 1024;

// Scripts for sh, run as the user. The agent itself never looks into a home, where a user may have laid a
// trap, and where a dead file server hangs. $1: the home.

/// Opens regular files only: a pipe has no end. If there is no file, cat gives the best error.
const READ: &str = r#"
f=$1/.ssh/authorized_keys
[ ! -e "$f" ] || [ -f "$f" ] || exit 4
exec cat -- "$f"
"#;
/// Writes keys from standard input, completely or not at all. $2: `aside`, to keep the existing file.
const WRITE: &str = r#"
set -eu
[ -d "$1" ] || exit 3
d=$1/.ssh f=$1/.ssh/authorized_keys
is_there() { [ -e "$1" ] || [ -L "$1" ]; }
if [ ! -d "$d" ]; then
  ! is_there "$d" || mv --backup=numbered -T -- "$d" "$d.muster-aside"
  mkdir -m 700 -- "$d"
fi
[ -w "$d" ] && [ -x "$d" ] || chmod u+rwx -- "$d" 2>/dev/null || :
rm -f -- "$f.muster" 2>/dev/null || mv --backup=numbered -T -- "$f.muster" "$f.muster-was"
trap 'rm -f -- "$f.muster"' EXIT
dd status=none conv=excl,fsync of="$f.muster"
chmod 600 -- "$f.muster"
if is_there "$f" && { [ "$2" = aside ] || [ ! -f "$f" ]; }; then
  mv --backup=numbered -T -- "$f" "$f.muster-aside"
fi
mv -f -T -- "$f.muster" "$f"
"#;
/// Removes the keys, or restores the file that [`WRITE`] moved aside. $2: `aside`, if there was one.
const REMOVE: &str = r#"
set -eu
f=$1/.ssh/authorized_keys
if [ -d "$f" ] && [ ! -L "$f" ]; then
  mv --backup=numbered -T -- "$f" "$f.muster-was"
else
  rm -f -- "$f"
fi
if [ "$2" = aside ] && { [ -e "$f.muster-aside" ] || [ -L "$f.muster-aside" ]; }; then
  mv -T -- "$f.muster-aside" "$f"
fi
"#;

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

/// The user that a command runs as.
#[derive(Clone, Copy)]
struct RunAs {
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

/// The user's keys, as far as the user can read them.
pub(super) async fn read_keys(uid: u32, gid: u32, home: &str) -> Keys {
    match as_user(READ, &[home], None, RunAs { uid, gid }).await {
        Ok(bytes) => Keys::Are(bytes),
        Err(AccountFault::Tool { status: Some(1), said, .. })
            if said.ends_with("No such file or directory") =>
        {
            Keys::Absent
        }
        Err(_) => Keys::Unknown,
    }
}

/// Whole or not at all.
pub(super) async fn write_keys(
    user: &str,
    uid: u32,
    gid: u32,
    home: &str,
    keys: &[u8],
    aside: bool,
) -> Result<()> {
    let aside = if aside { "aside" } else { "" };
    match as_user(WRITE, &[home, aside], Some(keys), RunAs { uid, gid }).await {
        Ok(_) => Ok(()),
        Err(AccountFault::Tool { status: Some(3), .. }) => {
            Err(AccountFault::NoHome { user: user.to_owned(), home: home.to_owned() })
        }
        Err(fault) => Err(fault.of_keys(user)),
    }
}

/// Restores the keys from before [`write_keys`].
pub(super) async fn restore_keys(user: &str, uid: u32, gid: u32, home: &str, keys: &Keys) -> Result<()> {
    let aside = match keys {
        Keys::Are(keys) => return write_keys(user, uid, gid, home, keys, false).await,
        Keys::Unknown => "aside",
        Keys::Absent => "",
    };
    let removed = as_user(REMOVE, &[home, aside], None, RunAs { uid, gid }).await;
    removed.map(drop).map_err(|fault| fault.of_keys(user))
}

async fn as_user(script: &str, words: &[&str], input: Option<&[u8]>, who: RunAs) -> Result<Vec<u8>> {
    let words: Vec<String> =
        ["-c", script, "sh"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    command("sh", &words, input, Some(who)).await
}

/// Fails if one of the user's processes runs: number and home would change under the process.
pub(super) fn nobody_runs(user: &str, uid: u32) -> Result<()> {
    let failed = |source| AccountFault::File { path: "/proc".into(), source };
    for entry in fs::read_dir("/proc").map_err(failed)?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process that has ended meanwhile has no owner.
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
    who: Option<RunAs>,
) -> Result<Vec<u8>> {
    let program = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let program = program.ok_or(AccountFault::NoTool(name))?;
    let failed = |source| AccountFault::Run { tool: name, source };
    let mut command = Command::new(program);
    command.args(words).env_clear().env("LC_ALL", "C").env("PATH", FOLDERS.join(":")).current_dir("/");
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(RunAs { uid, gid }) = who {
        // Also without root's supplementary groups: std drops them with the uid.
        command.uid(uid).gid(gid);
    }
    let ran = async {
        let mut child = command.spawn()?;
        let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(out), Some(err)) = (out, err) else { return Err(io::Error::other("no pipe")) };
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A command that does not read its input reports the reason itself.
                let _ = stdin.write_all(input).await;
            }
            Ok(())
        };
        let ((), stdout, stderr) = tokio::try_join!(feed, output(out), output(err))?;
        Ok((child.wait().await?, stdout, stderr))
    };
    let ended = timeout(if who.is_some() { HOME_TIME_MAX } else { TIME_MAX }, ran).await;
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

/// The whole output. Longer output is an error, and ends the command, since its pipe closes.
async fn output(pipe: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(OUTPUT_MAX).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 == OUTPUT_MAX {
        return Err(io::Error::other("it writes more than 128 KiB"));
    }
    Ok(bytes)
}
