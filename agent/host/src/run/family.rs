//! Processes from `/proc`: descendants, and processes with a mark in their environment.

use std::collections::BTreeMap;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

/// The living descendants of this process. As the subreaper, it also has those whose parents have ended.
pub(super) fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in processes() {
        if let Some((parent, has_ended)) =
            fs::read_to_string(format!("/proc/{pid}/stat")).ok().as_deref().and_then(stat)
            && !has_ended
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw()];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(Pid::from_raw(child));
            parents.push(child);
        }
    }
    found
}

/// Processes that were given this `NAME=value`, and have not ended.
pub(super) fn with_variable(variable: &[u8]) -> Vec<Pid> {
    // The environment of other users' processes cannot be read, but a run's processes have the agent's user.
    // The environment of a process that has ended is empty.
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable)
    };
    processes().filter(has).map(Pid::from_raw).collect()
}

/// Signals processes; those that have ended meanwhile are no error.
pub(super) fn signal(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill(*process, signal);
    }
}

/// Reaps the children that have ended. Returns the status of `child`, if it is among them.
pub(super) fn reap(child: Pid) -> Option<WaitStatus> {
    let mut end = None;
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        match status.pid() {
            None => break,
            Some(pid) if pid == child => end = Some(status),
            Some(_) => {}
        }
    }
    end
}

fn processes() -> impl Iterator<Item = i32> {
    let files = fs::read_dir("/proc").into_iter().flatten().flatten();
    files.filter_map(|file| file.file_name().to_str()?.parse().ok())
}

/// The parent, and whether it has ended. A name may hold anything, parentheses too.
fn stat(stat: &str) -> Option<(i32, bool)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((parent, matches!(state, "Z" | "X")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pretend() {
        assert_eq!(stat("12 (sh) S 7 12"), Some((7, false)));
        assert_eq!(stat("12 (a) S 1 (b)) Z 7 12"), Some((7, true)));
        assert_eq!(stat("12"), None);
    }

    #[test]
    fn a_mark_is_the_whole_variable() {
        let mark = format!("MUSTER_RUN=/nowhere/{}", getpid());
        let mut child =
            std::process::Command::new("sleep").arg("600").env("MUSTER_RUN", &mark[11..]).spawn().unwrap();
        let own = Pid::from_raw(child.id().cast_signed());
        // The process has its environment from the moment it is another program.
        while with_variable(mark.as_bytes()) != [own] {
            std::thread::yield_now();
        }
        assert_eq!(with_variable(&mark.as_bytes()[..mark.len() - 1]), []);
        signal(&[own], Signal::SIGKILL);
        child.wait().unwrap();
        assert_eq!(with_variable(mark.as_bytes()), []);
    }
}
