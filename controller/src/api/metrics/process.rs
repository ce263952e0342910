//! Memory and open files of this process, as Linux tells them.
//!
//! Absent: a bound on them (systemd's `MemoryMax=`, `LimitNOFILE=`).

use std::fs;

/// Each is `None` where `/proc` does not say.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// The resident memory in bytes.
    pub resident: Option<u64>,
    pub open_files: Option<u64>,
    pub open_files_max: Option<u64>,
}

impl Process {
    /// Reads the figures of this moment.
    pub fn read() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        Self {
            resident: resident(&read("/proc/self/status")),
            open_files: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
            open_files_max: open_files_max(&read("/proc/self/limits")),
        }
    }
}

/// The line is `VmRSS: 10000 kB`, with a tab and spaces before the number.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The line has the soft limit, then the hard one: `Max open files            1024                 524288 …`.
fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read() {
        assert_eq!(resident("VmHWM:\t   20 kB\nVmRSS:\t   12 kB\n"), Some(12_288));
        assert_eq!(resident("VmRSS:\t   12 mB\n"), None);
        let limits =
            "Max processes 5 6 processes\nMax open files            1024                 524288   files\n";
        assert_eq!(open_files_max(limits), Some(1024));
        let process = Process::read();
        assert!(process.resident > Some(1 << 20) && process.open_files > Some(2), "{process:?}");
        assert!(process.open_files_max > process.open_files, "{process:?}");
    }
}
