//! A program of the server that the agent runs as root: found, and refused where others than root could have put it
//! there or could change it.
//!
//! Absent: the programs of a path (`PATH`), which the agent's user finds as everybody does.

use std::path::{Path, PathBuf};

use nix::sys::stat::SFlag;
use thiserror::Error;

use super::directory::{Directory, LINKS_MAX};
use super::{FileError, WriteHazard};

/// The reason why a program is not run. Reads on after its path.
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error(transparent)]
    Way(#[from] FileError),
    #[error("{} is no regular file", .0.display())]
    NotRegular(PathBuf),
    #[error("{} is not executable: chmod 0755", .0.display())]
    NotExecutable(PathBuf),
    #[error("{} {}: only root may own and write what the agent runs", .0.display(), hazard(.1))]
    Writable(PathBuf, WriteHazard),
    #[error("{} leads through more than {LINKS_MAX} symbolic links", .0.display())]
    Links(PathBuf),
}

/// The program at `path`, without symbolic links; `None` if nothing is there.
///
/// # Errors
/// [`ProgramError`]: what is there is not run.
pub fn program(path: &Path) -> Result<Option<PathBuf>, ProgramError> {
    let mut at = path.to_owned();
    for _ in 0..=LINKS_MAX {
        let directory = match Directory::of(&at, None) {
            Err(FileError::NoDirectory { .. }) => return Ok(None),
            directory => directory?,
        };
        let Some(name) = at.file_name() else { return Err(ProgramError::NotRegular(at)) };
        let failed = super::io_error(path, "look at it");
        let Some(found) = directory.entry(name).map_err(&failed)? else { return Ok(None) };
        let place = directory.path().join(name);
        if let Some(hazard) = found.hazard {
            return Err(ProgramError::Writable(place, hazard));
        }
        match found.kind {
            SFlag::S_IFLNK => {
                let Some(target) = directory.read_link(name).map_err(&failed)? else { return Ok(None) };
                at = directory.path().join(target);
            }
            SFlag::S_IFREG if found.permissions & 0o111 != 0 => return Ok(Some(place)),
            SFlag::S_IFREG => return Err(ProgramError::NotExecutable(place)),
            _ => return Err(ProgramError::NotRegular(place)),
        }
    }
    Err(ProgramError::Links(path.to_owned()))
}

fn hazard(hazard: &WriteHazard) -> String {
    match hazard {
        WriteHazard::Owner(user) => format!("belongs to the user {user}"),
        WriteHazard::Group(group) => format!("can be written by the group {group}"),
        WriteHazard::Everyone => "can be written by everybody".into(),
        WriteHazard::Link => "is a symbolic link that others than root could have made".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use nix::unistd::geteuid;

    use super::*;

    fn put(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn refused(path: &Path) -> String {
        program(path).unwrap_err().to_string()
    }

    #[test]
    fn a_program_of_root_is_found_also_through_its_link() {
        let dir = tempfile::tempdir().unwrap();
        let [hook, link, far, gone] = ["hook", "link", "far", "gone"].map(|name| dir.path().join(name));
        assert_eq!(program(&hook).unwrap(), None);
        assert_eq!(program(&hook.join("below")).unwrap(), None);
        put(&hook, 0o755);
        symlink("hook", &link).unwrap();
        symlink(&link, &far).unwrap();
        symlink("nowhere/at/all", &gone).unwrap();
        for path in [&hook, &link, &far] {
            assert_eq!(program(path).unwrap(), Some(hook.clone()), "{path:?}");
        }
        assert_eq!(program(&gone).unwrap(), None);
    }

    #[test]
    fn what_others_can_change_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let hook = dir.path().join("hook");
        put(&hook, 0o757);
        assert!(refused(&hook).contains("hook can be written by everybody: only root"), "{}", refused(&hook));
        put(&hook, 0o1757);
        assert!(refused(&hook).contains("can be written by everybody"), "{}", refused(&hook));
        put(&hook, 0o644);
        assert!(refused(&hook).ends_with("hook is not executable: chmod 0755"), "{}", refused(&hook));
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        put(&open.join("hook"), 0o755);
        assert!(refused(&open.join("hook")).contains("open"), "{}", refused(&open.join("hook")));
        // A link, whoever it leads to, is as safe as its directory.
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        symlink("/bin/true", open.join("link")).unwrap();
        assert!(refused(&open.join("link")).contains("symbolic link"), "{}", refused(&open.join("link")));
        assert!(refused(dir.path()).contains("is no regular file"));
        let ring = dir.path().join("ring");
        symlink("ring", &ring).unwrap();
        assert!(refused(&ring).contains("more than 40 symbolic links"), "{}", refused(&ring));
        if geteuid().is_root() {
            put(&hook, 0o755);
            chown(&hook, Some(12), None).unwrap();
            assert!(refused(&hook).contains("belongs to the user 12"), "{}", refused(&hook));
        }
    }
}
