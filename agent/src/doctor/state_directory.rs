//! The state directory: there, writable, the agent's alone, with room; and which process holds its lock.
//!
//! The lock is looked up in `/proc/locks`. Taking it, for however short a time, could keep an agent or the boot unit
//! from it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_shared::finding::Finding;
use muster_shared::finding::space::{Needs, Space};
use nix::errno::Errno;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access, geteuid};

use super::owner::Owner;

const CHECK: &str = "state_directory";
/// Fewer bytes than the reserve for removals, and no job can be recorded; a network document may need some.
const NEEDS: Needs = Needs { least: 1024 * 1024, few: 64 * 1024 * 1024 };

/// The facts that this check collects.
#[derive(Clone, Debug)]
struct Facts {
    path: PathBuf,
    own_user: u32,
    directory: Directory,
}

#[derive(Clone, Debug)]
enum Directory {
    Absent,
    Unseen(String),
    Other,
    Present {
        owner: Owner,
        /// The error with which the directory refuses to be read or written.
        refuses: Option<Errno>,
        space: Result<Space, String>,
    },
}

/// The process that holds the lock, and the findings.
pub fn look(path: &Path) -> (Option<u32>, Vec<Finding>) {
    let directory = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Directory::Absent,
        Err(error) => Directory::Unseen(error.to_string()),
        Ok(metadata) if !metadata.is_dir() => Directory::Other,
        Ok(metadata) => Directory::Present {
            owner: Owner::of(&metadata),
            refuses: access(path, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK).err(),
            space: space(path),
        },
    };
    let facts = Facts { path: path.to_owned(), own_user: geteuid().as_raw(), directory };
    (holder(path), findings(&facts))
}

fn space(path: &Path) -> Result<Space, String> {
    let said = statvfs(path).map_err(|error| error.to_string())?;
    // Some file systems make room for files as they are needed, and say 0 of 0.
    let files = (said.files() > 0).then(|| said.files_available());
    Ok(Space { bytes: said.blocks_available().saturating_mul(said.fragment_size()), files })
}

fn findings(facts: &Facts) -> Vec<Finding> {
    let path = facts.path.display().to_string();
    let (owner, refuses, space) = match &facts.directory {
        Directory::Present { owner, refuses, space } => (owner, refuses, space),
        Directory::Absent => {
            let remedy = "muster-agent join --token -, with a token of 'muster node token' at the controller";
            return vec![Finding::error(
                CHECK,
                format!("{path} is not there: no agent has run here"),
                remedy,
            )];
        }
        Directory::Unseen(why) if facts.own_user != 0 => {
            return vec![Finding::warning(CHECK, format!("{path}: {why}"), "run this command as root")];
        }
        Directory::Unseen(why) => {
            return vec![Finding::error(CHECK, format!("{path}: {why}"), format!("findmnt -T {path}"))];
        }
        Directory::Other => {
            let remedy = format!("mv {path} {path}.old, or set agent.state_dir in agent.toml");
            return vec![Finding::error(CHECK, format!("{path} is no directory"), remedy)];
        }
    };
    let mut findings = vec![own(&path, facts.own_user, *owner, *refuses)];
    findings.push(match space {
        Ok(space) => space.finding(&path, NEEDS),
        Err(why) => Finding::warning("disk_space", format!("{path}: {why}"), format!("df {path}")),
    });
    findings
}

fn own(path: &str, own_user: u32, owner: Owner, refuses: Option<Errno>) -> Finding {
    let is_root = own_user == 0;
    match refuses {
        Some(Errno::EACCES) if !is_root => {
            let found = format!("{path} can be looked at by user {} alone", owner.user);
            return Finding::warning(CHECK, found, "run this command as root");
        }
        Some(error) => {
            let remedy =
                format!("look whether its file system is read-only: 'findmnt -T {path}', 'lsattr -d {path}'");
            return Finding::error(CHECK, format!("{path} cannot be written: {}", error.desc()), remedy);
        }
        None => {}
    }
    let found = format!("{path} belongs to user {}; its mode is {:04o}", owner.user, owner.mode);
    if owner.lets_others_write() {
        Finding::error(
            CHECK,
            format!("{found}: others may replace this node's keys"),
            format!("chmod 0700 {path}"),
        )
    } else if owner.lets_others_in() {
        Finding::warning(CHECK, found, format!("chmod 0700 {path}"))
    } else if owner.user != own_user {
        Finding::warning(
            CHECK,
            format!("{found}, and this command runs as user {own_user}"),
            format!("chown root:root {path}"),
        )
    } else {
        Finding::ok(CHECK, found)
    }
}

/// The process that holds the lock of this state directory; none if no agent runs with it.
fn holder(directory: &Path) -> Option<u32> {
    let lock = fs::metadata(directory.join("lock")).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let device = (nix::sys::stat::major(lock.dev()), nix::sys::stat::minor(lock.dev()));
    let is_agent = |process: u32| {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        // The kernel keeps 15 bytes of it.
        name.trim_end() == "muster-agent"
    };
    // Some file systems show another device there than a file of theirs has.
    holders(&locks, lock.ino())
        .find(|(held_on, process)| *held_on == device || is_agent(*process))
        .map(|(_, it)| it)
}

/// The device and process of each `flock` on that file, of the lines of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF`
fn holders(locks: &str, inode: u64) -> impl Iterator<Item = ((u64, u64), u32)> + '_ {
    locks.lines().filter_map(move |line| {
        // A process that waits for a lock has an arrow first.
        let [_, "FLOCK", _, _, process, place, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let [major, minor, of_file] = place.split(':').collect::<Vec<_>>()[..] else { return None };
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let device = (hexadecimal(major)?, hexadecimal(minor)?);
        (of_file.parse() == Ok(inode)).then_some((device, process.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    const ROOM: Result<Space, String> = Ok(Space { bytes: 1 << 40, files: None });

    fn here(user: u32, mode: u32, refuses: Option<Errno>) -> Directory {
        Directory::Present { owner: Owner { user, mode }, refuses, space: ROOM }
    }

    #[test]
    fn each_state_of_the_directory_has_its_finding() {
        for (own_user, directory, state, words) in [
            (0, here(0, 0o700, None), Severity::Ok, "/s belongs to user 0; its mode is 0700"),
            (0, here(0, 0o755, None), Severity::Warning, "mode is 0755"),
            (0, here(0, 0o770, None), Severity::Error, "others may replace this node's keys"),
            (0, here(7, 0o700, None), Severity::Warning, "this command runs as user 0"),
            (7, here(0, 0o700, Some(Errno::EACCES)), Severity::Warning, "by user 0 alone"),
            (
                0,
                here(0, 0o700, Some(Errno::EROFS)),
                Severity::Error,
                "cannot be written: Read-only file system",
            ),
            (0, here(0, 0o700, Some(Errno::EACCES)), Severity::Error, "cannot be written"),
            (0, Directory::Absent, Severity::Error, "/s is not there"),
            (7, Directory::Unseen("denied".into()), Severity::Warning, "/s: denied"),
            (0, Directory::Unseen("I/O error".into()), Severity::Error, "/s: I/O error"),
            (0, Directory::Other, Severity::Error, "/s is no directory"),
        ] {
            let facts = Facts { path: "/s".into(), own_user, directory };
            let finding = &findings(&facts)[0];
            assert!(finding.state == state && finding.found.contains(words), "{facts:?}: {finding:?}");
        }
    }

    #[test]
    fn no_room_and_no_answer_are_found() {
        let with = |space| {
            let directory =
                Directory::Present { owner: Owner { user: 0, mode: 0o700 }, refuses: None, space };
            findings(&Facts { path: "/s".into(), own_user: 0, directory })[1].state
        };
        assert_eq!(with(ROOM), Severity::Ok);
        assert_eq!(with(Ok(Space { bytes: 4096, files: None })), Severity::Error);
        assert_eq!(with(Err("no".into())), Severity::Warning);
    }

    #[test]
    fn the_lock_of_a_running_agent_is_found_without_taking_it() {
        let text = "1: POSIX  ADVISORY  WRITE 12 08:01:131 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 34 fd:0a:131 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 56 fd:0a:131 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE 78 08:01:132 0 EOF\ngarbage\n";
        assert_eq!(holders(text, 131).collect::<Vec<_>>(), [((0xfd, 10), 34)]);
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()), None);
        let state = crate::state_dir::StateDir::open(dir.path()).unwrap();
        assert_eq!(holder(dir.path()), Some(std::process::id()));
        drop(state);
        assert_eq!(holder(dir.path()), None);
    }
}
