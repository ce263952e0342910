//! Processes from `/proc`: descendants, and processes with a mark in their environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::str::SplitWhitespace;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

/// The number of the first field after the name, in proc_pid_stat(5).
const FIRST_FIELD: usize = 3;
/// The most lists of processes for one look. After the first one only processes that started since are looked
/// at, which takes less time with each list.
const LISTS_MAX: u32 = 16;
/// Flags of a task, from the kernel's `include/linux/sched.h`.
const PF_EXITING: u64 = 0x4;
const PF_KTHREAD: u64 = 0x0020_0000;

/// The living descendants of this process. As the subreaper, it also has those whose parents have ended.
pub(super) fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    // Whoever calls this looks until nobody is left: one that started at the very last is found then.
    each_process(|pid| {
        if let Some((parent, has_ended)) =
            fs::read_to_string(format!("/proc/{pid}/stat")).ok().as_deref().and_then(stat)
        {
            children.entry(parent).or_default().push((pid, has_ended));
        }
    });
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw()];
    while let Some(parent) = parents.pop() {
        for (child, has_ended) in children.remove(&parent).unwrap_or_default() {
            if !has_ended {
                found.push(Pid::from_raw(child));
            }
            // A child may have been seen before its parent ended, and so have that one as its parent.
            parents.push(child);
        }
    }
    found
}

/// The result of a look for processes with a mark.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) found: Vec<Pid>,
    /// Whether another look may show more: a process was just becoming another program, and the kernel shows
    /// its environment a moment later; or new processes start all the time.
    pub(super) is_unclear: bool,
}

/// Processes that were given this `NAME=value`, and have not ended.
pub(super) fn with_variable(variable: &[u8]) -> Marked {
    let mut marked = Marked::default();
    let is_whole = each_process(|pid| {
        // The environment of other users' processes cannot be read, but a run's processes have the agent's
        // user.
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return };
        if environment.split(|byte| *byte == 0).any(|entry| entry == variable) {
            marked.found.push(Pid::from_raw(pid));
        } else {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            marked.is_unclear |= is_environment_hidden(&stat, environment.len() as u64);
        }
    });
    marked.is_unclear |= !is_whole;
    marked
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

/// Calls `look` for each process, also for those that start meanwhile: a process that was listed may start
/// another and end before anybody looks at it. Returns whether at last no new process was listed.
fn each_process(mut look: impl FnMut(i32)) -> bool {
    let mut known = BTreeSet::new();
    for _ in 0..LISTS_MAX {
        let mut is_whole = true;
        let files = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in files.filter_map(|file| file.file_name().to_str()?.parse().ok()) {
            if known.insert(pid) {
                is_whole = false;
                look(pid);
            }
        }
        if is_whole {
            return true;
        }
    }
    false
}

/// The parent, and whether it has ended.
fn stat(stat: &str) -> Option<(i32, bool)> {
    let mut fields = fields(stat)?;
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((parent, has_ended(state)))
}

/// Whether a process may have another environment than the `length` bytes that were read: an `execve` that is
/// under way shows neither the old one nor the new one, or only the beginning of the old one. A process that
/// ends and a kernel thread have none. The kernel names the place of the code last: from then on the
/// environment is as long as it says. The fields are those of proc_pid_stat(5).
fn is_environment_hidden(stat: &str, length: u64) -> bool {
    let fields: Vec<&str> = fields(stat).into_iter().flatten().collect();
    let number = |field: usize| fields.get(field - FIRST_FIELD)?.parse::<u64>().ok();
    let (Some(flags), Some(code)) = (number(9), number(26)) else { return false };
    let (Some(start), Some(end)) = (number(50), number(51)) else { return false };
    let is_process = flags & (PF_EXITING | PF_KTHREAD) == 0 && !has_ended(fields[0]);
    is_process && (code == 0 || end.checked_sub(start) != Some(length))
}

/// The fields from the third one on. A name may hold anything, parentheses too.
fn fields(stat: &str) -> Option<SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

fn has_ended(state: &str) -> bool {
    matches!(state, "Z" | "X")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some of so many looks fall into the moment in which a process has no environment.
    const LOOKS: usize = 300;

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
        while with_variable(mark.as_bytes()).found != [own] {
            std::thread::yield_now();
        }
        assert_eq!(with_variable(&mark.as_bytes()[..mark.len() - 1]).found, []);
        signal(&[own], Signal::SIGKILL);
        child.wait().unwrap();
        assert_eq!(with_variable(mark.as_bytes()).found, []);
    }

    /// A process with these fields of proc_pid_stat(5).
    fn process(state: &str, flags: u64, code: u64, start: u64, end: u64) -> String {
        let mut fields = vec!["0".to_owned(); 52];
        for (field, value) in [(1, "12"), (2, "(a) b)"), (3, state)] {
            fields[field - 1] = value.to_owned();
        }
        for (field, value) in [(9, flags), (26, code), (50, start), (51, end)] {
            fields[field - 1] = value.to_string();
        }
        fields.join(" ")
    }

    #[test]
    fn an_environment_that_was_not_read_whole_is_hidden() {
        let (code, start, end) = (94_000_000_000_000, 140_722_000_000_000, 140_722_000_000_900);
        for (stat, read, is_hidden) in [
            (process("R", 0x40_0000, 0, 0, 0), 0, true),
            (process("R", 0x40_0000, 0, start, start), 0, true),
            (process("R", 0x40_0000, code, start, end), 0, true),
            (process("R", 0x40_0000, code, start, end), 32, true),
            (process("R", 0x40_0000, code, end, start), 0, true),
            (process("S", 0x40_0000, code, start, end), 900, false),
            (process("S", 0x40_0000, code, start, start), 0, false),
            (process("I", PF_KTHREAD, 0, 0, 0), 0, false),
            (process("R", PF_EXITING, 0, 0, 0), 0, false),
            (process("Z", 0x40_0000, 0, 0, 0), 0, false),
            ("12 (a) R 1".to_owned(), 0, false),
            (String::new(), 0, false),
        ] {
            assert_eq!(is_environment_hidden(&stat, read), is_hidden, "{stat}, {read} bytes");
        }
    }

    /// The process becomes another program again and again: a look finds it, or says that one is hidden.
    #[test]
    fn a_process_that_becomes_another_program_is_not_missed() {
        let mark = format!("MUSTER_RUN=/again/{}", getpid());
        let again = r#"exec sh -c "$0" "$0""#;
        let mut command = std::process::Command::new("sh");
        let mut child = command.args(["-c", again, again]).env("MUSTER_RUN", &mark[11..]).spawn().unwrap();
        let own = Pid::from_raw(child.id().cast_signed());
        while with_variable(mark.as_bytes()).found != [own] {
            std::thread::yield_now();
        }
        let looks: Vec<Marked> = (0..LOOKS).map(|_| with_variable(mark.as_bytes())).collect();
        signal(&[own], Signal::SIGKILL);
        child.wait().unwrap();
        for marked in looks {
            assert!(marked.found == [own] || marked.is_unclear, "{marked:?}");
        }
    }

    /// Each process starts the next one and ends: a look finds one of them, or says that there may be one.
    #[test]
    fn a_process_that_hands_over_to_another_one_is_not_missed() {
        let mark = format!("MUSTER_RUN=/next/{}", getpid());
        let go_on = tempfile::NamedTempFile::new().unwrap();
        let next = r#"[ ! -e "$1" ] || sh -c "$0" "$0" "$1" &"#;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", next, next]).arg(go_on.path()).env("MUSTER_RUN", &mark[11..]);
        command.spawn().unwrap().wait().unwrap();
        let looks: Vec<Marked> = (0..LOOKS).map(|_| with_variable(mark.as_bytes())).collect();
        drop(go_on);
        while with_variable(mark.as_bytes()) != Marked::default() {
            std::thread::yield_now();
        }
        for marked in looks {
            assert!(!marked.found.is_empty() || marked.is_unclear, "{marked:?}");
        }
    }
}
