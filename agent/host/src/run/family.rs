//! Processes from `/proc`: descendants, and processes with a mark in their environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

/// The number of the first field after the name, in proc_pid_stat(5).
const FIRST_FIELD: usize = 3;
/// The most lists of processes for one look: two are the rule.
const LISTS_MAX: u32 = 16;
/// As many bytes as the kernel lets a new process have for arguments and environment together, in
/// `bprm_stack_limits` of its `fs/exec.c`. A process can pretend to have more.
const ENVIRONMENT_MAX: usize = 6 * 1024 * 1024;
/// The most looks in a row at one environment that has bytes and shows none. It is another program's by the
/// next one, unless the process does not let its memory be read.
const READS_MAX: u32 = 3;
/// Flags of a task, from the kernel's `include/linux/sched.h`.
const PF_EXITING: u64 = 0x4;
const PF_KTHREAD: u64 = 0x0020_0000;

/// The living descendants of this process, and whether they are all. As the subreaper, it also has those whose
/// parents have ended.
pub(super) fn descendants() -> (Vec<Pid>, bool) {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    let are_all = each_process(|pid| {
        let Some(stat) = Stat::of(pid) else { return Looked::TooLate };
        children.entry(stat.parent).or_default().push((pid, stat.has_ended));
        if stat.has_ended { Looked::TooLate } else { Looked::AtIt }
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
    (found, are_all)
}

/// Calls `each` for every process that was given the variable `name`, with the value, at once. Returns whether
/// these are all: nobody can see, for a moment, what a process was given that is becoming another program.
pub(super) fn each_with_variable(name: &str, mut each: impl FnMut(Pid, &[u8])) -> bool {
    let (mut buffer, mark) = (vec![0; ENVIRONMENT_MAX], [name.as_bytes(), b"="].concat());
    let mut is_one_hidden = false;
    let are_all = each_process(|pid| match environment(pid, &mut buffer) {
        Environment::Is(entries) => {
            let mut entries = entries.split(|byte| *byte == 0);
            if let Some(value) = entries.find_map(|entry| entry.strip_prefix(&*mark)) {
                each(Pid::from_raw(pid), value);
            }
            Looked::AtIt
        }
        Environment::Hidden => {
            is_one_hidden = true;
            Looked::AtIt
        }
        Environment::Ended => Looked::TooLate,
    });
    are_all && !is_one_hidden
}

/// The environment of a process, as far as it can be seen.
enum Environment<'b> {
    /// The entries, each with a zero byte after it.
    Is(&'b [u8]),
    /// The process is becoming another program.
    Hidden,
    /// The process has ended, or is about to.
    Ended,
}

fn environment(pid: i32, buffer: &mut [u8]) -> Environment<'_> {
    let mut reads = 1;
    let length = loop {
        // The kernel serves one read whole, or not at all.
        let read = File::open(format!("/proc/{pid}/environ")).and_then(|mut file| file.read(buffer));
        match read {
            Ok(length) if length > 0 => break length,
            Ok(_) => {}
            Err(error) if is_gone(&error) => return Environment::Ended,
            // The agent could not end such a process either.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => break 0,
            Err(_) => return Environment::Hidden,
        }
        let Some(stat) = Stat::of(pid) else { return Environment::Ended };
        match stat.environment {
            None => return Environment::Hidden,
            Some(length) if !stat.is_ending && length > 0 && reads < READS_MAX => reads += 1,
            Some(_) if stat.is_ending => return Environment::Ended,
            Some(_) => break 0,
        }
    };
    Environment::Is(&buffer[..length])
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
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

/// How a look at a process that was listed went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    AtIt,
    /// The process had ended, and may have started another one since the list was made.
    TooLate,
}

/// Calls `look` once for each process, also for those that start meanwhile: where a look comes too late, another
/// list is made. Returns whether these are all.
fn each_process(mut look: impl FnMut(i32) -> Looked) -> bool {
    let mut known = BTreeSet::new();
    for _ in 0..LISTS_MAX {
        let Ok(files) = fs::read_dir("/proc") else { return false };
        let mut are_all = true;
        for file in files {
            let Ok(file) = file else { return false };
            let pid = file.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.filter(|pid| known.insert(*pid)) {
                are_all &= look(pid) == Looked::AtIt;
            }
        }
        if are_all {
            return true;
        }
    }
    false
}

/// A process as proc_pid_stat(5) describes it.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    has_ended: bool,
    /// Whether it has ended, or is about to, or is a thread of the kernel: it has no environment.
    is_ending: bool,
    /// The length of its environment in bytes; `None` while the process is becoming another program. The kernel
    /// names the place of the code last: from then on the environment is as it says.
    environment: Option<u64>,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::read(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn read(stat: &[u8]) -> Option<Self> {
        // A name may hold anything, parentheses and halves of letters too.
        let stat = String::from_utf8_lossy(stat);
        let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace())?.collect();
        let field = |number: usize| fields.get(number - FIRST_FIELD).copied();
        let number = |at: usize| field(at)?.parse::<u64>().ok();
        // The first thread may have ended, and others go on.
        let has_ended = matches!(field(3)?, "Z" | "X") && number(20)? <= 1;
        let is_ending = has_ended || number(9)? & (PF_EXITING | PF_KTHREAD) != 0;
        let (code, start, end) = (number(26)?, number(50)?, number(51)?);
        let environment = (code != 0 || is_ending).then(|| end.saturating_sub(start));
        Some(Self { parent: field(4)?.parse().ok()?, has_ended, is_ending, environment })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Some of so many looks fall into the moment in which a process has no environment.
    const LOOKS: usize = 300;

    /// A process with these fields of proc_pid_stat(5).
    fn stat(state: &str, flags: u64, [threads, code, start, end]: [u64; 4]) -> String {
        let mut fields = vec!["0".to_owned(); 52];
        for (field, value) in [(1, "12"), (2, "(a) b)"), (3, state), (4, "7")] {
            fields[field - 1] = value.to_owned();
        }
        for (field, value) in [(9, flags), (20, threads), (26, code), (50, start), (51, end)] {
            fields[field - 1] = value.to_string();
        }
        fields.join(" ")
    }

    #[test]
    fn a_process_is_what_its_stat_says() {
        let (code, start, end) = (94_000_000_000_000, 140_722_000_000_000, 140_722_000_000_900);
        for (stat, has_ended, is_ending, environment) in [
            (stat("R", 0x40_0000, [1, code, start, end]), false, false, Some(900)),
            (stat("S", 0x40_0000, [1, code, start, start]), false, false, Some(0)),
            (stat("R", 0x40_0000, [1, 0, 0, 0]), false, false, None),
            (stat("R", 0x40_0000, [1, 0, start, start]), false, false, None),
            // A kernel that does not permit a look gives these numbers.
            (stat("R", 0x40_0000, [1, 1, 0, 0]), false, false, Some(0)),
            (stat("I", PF_KTHREAD, [1, 0, 0, 0]), false, true, Some(0)),
            (stat("R", PF_EXITING, [1, 0, 0, 0]), false, true, Some(0)),
            (stat("Z", 0x40_0000, [1, 0, 0, 0]), true, true, Some(0)),
            (stat("Z", PF_EXITING, [2, 0, 0, 0]), false, true, Some(0)),
        ] {
            let read = Stat::read(stat.as_bytes());
            assert_eq!(read, Some(Stat { parent: 7, has_ended, is_ending, environment }), "{stat}");
        }
        assert_eq!(Stat::read(b"12 (sh) S 7"), None);
        assert_eq!(Stat::read(b""), None);
    }

    #[test]
    fn a_name_need_not_be_text() {
        let line = stat("R", 0, [1, 1, 0, 0]).replace("b)", "b?)").into_bytes();
        let line: Vec<u8> = line.into_iter().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
        assert_eq!(Stat::read(&line).map(|stat| stat.parent), Some(7));
    }

    /// The processes with this value of the variable, and whether these are all.
    fn look(name: &str, value: &str) -> (Vec<Pid>, bool) {
        let mut found = Vec::new();
        let are_all =
            each_with_variable(name, |pid, is| found.extend((is == value.as_bytes()).then_some(pid)));
        (found, are_all)
    }

    #[test]
    fn a_mark_is_the_whole_variable() {
        let value = format!("/nowhere/{}", getpid());
        let mut child = Command::new("sleep").arg("600").env("MUSTER_RUN", &value).spawn().unwrap();
        let own = Pid::from_raw(child.id().cast_signed());
        // The process has its environment from the moment it is another program.
        while look("MUSTER_RUN", &value).0 != [own] {
            std::thread::yield_now();
        }
        assert_eq!(look("MUSTER_RUN", &value[..value.len() - 1]).0, []);
        assert_eq!(look("MUSTER_RU", &value).0, []);
        signal(&[own], Signal::SIGKILL);
        child.wait().unwrap();
        assert_eq!(look("MUSTER_RUN", &value).0, []);
    }

    /// The process becomes another program again and again: a look finds it, or says that these are not all.
    #[test]
    fn a_process_that_becomes_another_program_is_not_missed() {
        let value = format!("/again/{}", getpid());
        let again = r#"exec sh -c "$0" "$0""#;
        let mut child =
            Command::new("sh").args(["-c", again, again]).env("MUSTER_RUN", &value).spawn().unwrap();
        let own = Pid::from_raw(child.id().cast_signed());
        while look("MUSTER_RUN", &value).0 != [own] {
            std::thread::yield_now();
        }
        let looks: Vec<_> = (0..LOOKS).map(|_| look("MUSTER_RUN", &value)).collect();
        signal(&[own], Signal::SIGKILL);
        child.wait().unwrap();
        for (found, are_all) in looks {
            assert!(found == [own] || !are_all, "{found:?}");
        }
    }

    /// Each process starts the next one and ends: a look finds one of them, or says that these are not all.
    #[test]
    fn a_process_that_hands_over_to_another_one_is_not_missed() {
        let value = format!("/next/{}", getpid());
        let go_on = tempfile::NamedTempFile::new().unwrap();
        let next = r#"[ ! -e "$1" ] || sh -c "$0" "$0" "$1" &"#;
        let mut command = Command::new("sh");
        command.args(["-c", next, next]).arg(go_on.path()).env("MUSTER_RUN", &value);
        command.spawn().unwrap().wait().unwrap();
        let looks: Vec<_> = (0..LOOKS).map(|_| look("MUSTER_RUN", &value)).collect();
        drop(go_on);
        while look("MUSTER_RUN", &value) != (Vec::new(), true) {
            std::thread::yield_now();
        }
        for (found, are_all) in looks {
            assert!(!found.is_empty() || !are_all, "{found:?}");
        }
    }

    /// Any user can have such a process, and it must delay nobody: a look says that it has seen all.
    #[test]
    fn a_process_that_shows_no_memory_holds_up_no_look() {
        let hides = "import ctypes, os\n\
            start = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[47])\n\
            page = os.sysconf('SC_PAGE_SIZE')\n\
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start // page * page), page, 0) == 0\n\
            os.write(1, b'x')\n\
            os.read(0, 1)\n";
        let value = format!("/hidden/{}", getpid());
        let mut command = Command::new("python3");
        // Before the environment lie the arguments. A long one keeps the stack out of the page that is hidden.
        command.args(["-c", hides]).arg("x".repeat(64 * 1024)).env("MUSTER_RUN", &value);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(fs::read(format!("/proc/{}/environ", child.id())).unwrap(), b"");
        let is_one_whole = (0..LOOKS).any(|_| look("MUSTER_RUN", &value).1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_one_whole);
    }
}
