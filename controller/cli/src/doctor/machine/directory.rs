//! The data directory: there, the controller's alone, with room.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use muster_shared::finding::Finding;
use muster_shared::finding::space::{Needs, Space};
use nix::sys::statvfs::statvfs;

const CHECK: &str = "data_directory";
/// Commits on their way take 64 MiB at most; a site of a million resources has a database of some GiB.
const NEEDS: Needs = Needs { least: 64 * 1024 * 1024, few: 1024 * 1024 * 1024 };

pub fn check(path: &Path) -> Vec<Finding> {
    let shown = path.display().to_string();
    let seen =
        fs::metadata(path).map(|metadata| (metadata.is_dir(), metadata.uid(), metadata.mode() & 0o7777));
    let mut findings = vec![finding(&shown, seen.map_err(|error| error.to_string()))];
    if let Ok(said) = statvfs(path) {
        // Some file systems make room for files as they are needed, and say 0 of 0.
        let files = (said.files() > 0).then(|| said.files_available());
        let bytes = said.blocks_available().saturating_mul(said.fragment_size());
        findings.push(Space { bytes, files }.finding(&shown, NEEDS));
    }
    findings
}

/// Whether it is a directory, its owner and its mode.
fn finding(path: &str, seen: Result<(bool, u32, u32), String>) -> Finding {
    match seen {
        Err(why) => Finding::error(
            CHECK,
            format!("{path}: {why}"),
            "set controller.data_dir in controller.toml; start the controller once: it makes the directory",
        ),
        Ok((false, ..)) => {
            Finding::error(CHECK, format!("{path} is no directory"), format!("mv {path} {path}.old"))
        }
        Ok((true, owner, mode)) => {
            let found = format!("{path} belongs to user {owner}; its mode is {mode:04o}");
            match mode & 0o077 {
                0 => Finding::ok(CHECK, found),
                _ => {
                    let found = format!("{found}: others may read the site's keys");
                    Finding::error(CHECK, found, format!("chmod 0700 {path}"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Error, Ok};

    use super::*;

    #[test]
    fn each_state_of_the_directory_has_its_finding() {
        for (seen, state, words) in [
            (Result::Ok((true, 7, 0o700)), Ok, "/d belongs to user 7; its mode is 0700"),
            (Result::Ok((true, 7, 0o750)), Error, "others may read"),
            (Result::Ok((false, 0, 0o600)), Error, "is no directory"),
            (Err("No such file".to_owned()), Error, "/d: No such file"),
        ] {
            let finding = finding("/d", seen);
            assert!(finding.state == state && finding.found.contains(words), "{finding:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(dir.path()).len(), 2);
        assert_eq!(check(&dir.path().join("nowhere")).len(), 1);
    }
}
