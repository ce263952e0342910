//! Room on the file system of a directory that must be written.
//!
//! Absent: how it is asked for, and what a full disk leads to (`agent/core/src/disk_full.rs`,
//! `controller/src/driver/turn/read_only.rs`).

use super::Finding;

const CHECK: &str = "disk_space";
/// Files that can still be made: with fewer, the next job may fail, …
const FILES_LEAST: u64 = 64;
/// … and with fewer than this it is time to look.
const FILES_FEW: u64 = 2048;

/// The room of a file system, as it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub bytes: u64,
    /// Files that can still be made; none if the file system has no such bound.
    pub files: Option<u64>,
}

/// The bytes that its user needs.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// With fewer, nothing can be written.
    pub least: u64,
    /// With fewer, the disk is full soon.
    pub few: u64,
}

impl Space {
    /// Whether that is enough for what is in `path`.
    pub fn finding(self, path: &str, needs: Needs) -> Finding {
        let Space { bytes, files } = self;
        let remedy = format!("free space on the file system of {path}: 'df -h {path}', 'df -i {path}'");
        let left = match files {
            Some(files) => format!("{} and {files} files are left on the file system of {path}", size(bytes)),
            None => format!("{} are left on the file system of {path}", size(bytes)),
        };
        let files = files.unwrap_or(u64::MAX);
        if bytes < needs.least || files < FILES_LEAST {
            Finding::error(CHECK, left, remedy)
        } else if bytes < needs.few || files < FILES_FEW {
            Finding::warning(CHECK, left, remedy)
        } else {
            Finding::ok(CHECK, left)
        }
    }
}

/// In the largest unit of which there is at least one.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >> shift > 0);
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, shift)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn bytes_and_files_may_both_run_out() {
        let needs = Needs { least: 1 << 20, few: 1 << 30 };
        for (bytes, files, state) in [
            (1 << 31, None, Severity::Ok),
            (1 << 31, Some(1 << 20), Severity::Ok),
            (1 << 30, Some(FILES_FEW), Severity::Ok),
            ((1 << 30) - 1, None, Severity::Warning),
            (1 << 31, Some(FILES_FEW - 1), Severity::Warning),
            ((1 << 20) - 1, None, Severity::Error),
            (0, Some(1 << 20), Severity::Error),
            (1 << 31, Some(0), Severity::Error),
        ] {
            let finding = Space { bytes, files }.finding("/x", needs);
            assert_eq!(finding.state, state, "{finding:?}");
            assert_eq!(finding.remedy.is_some(), state > Severity::Ok, "{finding:?}");
        }
        let found = Space { bytes: 5 << 20, files: Some(7) }.finding("/x", needs).found;
        assert_eq!(found, "5 MiB and 7 files are left on the file system of /x");
        assert_eq!(
            (size(0), size(1023), size(1024)),
            ("0 bytes".into(), "1023 bytes".into(), "1 KiB".into())
        );
    }
}
