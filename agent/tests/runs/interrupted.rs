//! The fate of a run when a process is killed in the middle of it.

use std::fs;

use muster_host::run::{AGAIN_MAX, RunEnd, RunFailed, Task};
use muster_shared::Attempt;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folder::{Folder, dropped_after, id, until};

/// A task that cannot end before [`go`].
fn waits_for_go(folder: &Folder) -> Task {
    folder.script(&format!("while [ ! -e {} ]; do sleep 0.01; done; echo whole", folder.path("go").display()))
}

fn go(folder: &Folder) {
    fs::write(folder.path("go"), "").unwrap();
}

#[tokio::test]
async fn a_restarted_agent_finds_its_run_and_waits_for_the_end() {
    let folder = Folder::new();
    let task = waits_for_go(&folder);
    dropped_after(folder.runner.run(&id(1), &task), folder.until_lines(1)).await;
    let (runner, id) = (folder.another_runner(), id(1));
    let go = async { go(&folder) };
    let (ended, ()) = tokio::join!(runner.run(&id, &task), go);
    assert_eq!(ended.unwrap().stdout, "whole\n");
    assert_eq!(folder.lines(), 1);
}

#[tokio::test]
async fn a_run_that_ended_while_nobody_looked_is_not_begun_again() {
    let folder = Folder::new();
    let task = waits_for_go(&folder);
    dropped_after(folder.runner.run(&id(1), &task), folder.until_lines(1)).await;
    go(&folder);
    until(|| folder.supervisors().is_empty()).await;
    let ended = folder.another_runner().run(&id(1), &task).await.unwrap();
    assert_eq!((ended.how, ended.stdout.as_str()), (RunEnd::Exited(0), "whole\n"));
    assert_eq!(folder.lines(), 1);
}

/// The power goes: whoever runs and whoever watches is gone at once.
async fn cut(folder: &Folder) {
    for pid in folder.supervisors() {
        // One may have ended with another.
        let killed = kill(Pid::from_raw(pid), Signal::SIGKILL);
        assert!(matches!(killed, Ok(()) | Err(Errno::ESRCH)), "{killed:?}");
    }
    until(|| folder.supervisors().is_empty()).await;
}

#[tokio::test]
async fn an_interrupted_run_is_begun_again_or_fails_as_its_task_says() {
    for again in [true, false] {
        let folder = Folder::new();
        // The first one hangs with a process that outlives it, the second one ends.
        let wait = format!(
            "[ -e {0} ] && exit 0; touch {0}; setsid sleep 600 & sleep 601",
            folder.path("once").display()
        );
        let task = Task { again, ..folder.script(&wait) };
        dropped_after(folder.runner.run(&id(1), &task), folder.until_there("once")).await;
        cut(&folder).await;
        let ended = folder.another_runner().run(&id(1), &task).await;
        if again {
            assert_eq!(ended.unwrap().how, RunEnd::Exited(0));
            assert_eq!(folder.lines(), 2);
        } else {
            let failed = ended.unwrap_err();
            assert!(
                matches!(failed, RunFailed::Interrupted { times: 1 }) && failed.is_permanent(),
                "{failed}"
            );
            assert_eq!(folder.lines(), 1);
        }
        assert_eq!(folder.processes(), 0, "also what was left of the first one is gone");
    }
}

#[tokio::test]
async fn a_run_that_is_interrupted_each_time_is_given_up() {
    let folder = Folder::new();
    let task = folder.script("kill -KILL $PPID; sleep 600");
    let failed = folder.runner.run(&id(1), &task).await.unwrap_err();
    assert!(matches!(failed, RunFailed::Interrupted { times } if times == AGAIN_MAX + 1), "{failed}");
    assert_eq!(folder.lines(), AGAIN_MAX as usize + 1);
    assert_eq!(folder.processes(), 0);
}

#[tokio::test]
async fn a_server_that_goes_down_in_good_order_interrupts() {
    let folder = Folder::new();
    let task = Task { again: false, ..folder.script("trap 'exit 0' TERM; sleep 600 & wait") };
    let id = id(1);
    let down = async {
        folder.until_lines(1).await;
        // Not a moment before it hears that.
        until(|| !folder.pids().is_empty()).await;
        for pid in folder.supervisors() {
            // One may have ended with another.
            let told = kill(Pid::from_raw(pid), Signal::SIGTERM);
            assert!(matches!(told, Ok(()) | Err(Errno::ESRCH)), "{told:?}");
        }
    };
    let (ended, ()) = tokio::join!(folder.runner.run(&id, &task), down);
    assert!(matches!(ended, Err(RunFailed::Interrupted { times: 1 })), "{ended:?}");
    assert_eq!(folder.processes(), 0);
}

#[tokio::test]
async fn a_newer_run_ends_an_older_one_of_its_resource_first() {
    let folder = Folder::new();
    let task = folder.script("sleep 600 & sleep 601");
    dropped_after(folder.runner.run(&id(1), &task), folder.until_lines(1)).await;
    let mut newer = id(1);
    newer.attempt = Attempt(1);
    let ended = folder.runner.run(&newer, &folder.script("echo alone")).await.unwrap();
    assert_eq!(ended.stdout, "alone\n");
    assert_eq!((folder.lines(), folder.processes()), (2, 0));
    assert!(!folder.path("runs").join(id(1).to_string()).exists());
    assert!(folder.path("runs").join(newer.to_string()).exists());
}

#[tokio::test]
async fn what_nobody_needs_goes() {
    let folder = Folder::new();
    let task = folder.script("sleep 600");
    dropped_after(folder.runner.run(&id(1), &task), folder.until_lines(1)).await;
    let run = folder.path("runs").join(id(1).to_string());
    folder.runner.sweep(|known| *known == id(1)).unwrap();
    assert!(!folder.supervisors().is_empty());
    folder.runner.sweep(|_| false).unwrap();
    until(|| folder.supervisors().is_empty()).await;
    assert_eq!(folder.processes(), 0);
    // A process that becomes another program just now might belong to it: then another sweep is needed.
    until(|| {
        folder.runner.sweep(|_| false).unwrap();
        !run.exists()
    })
    .await;
}
