//! What becomes of a run when somebody is killed in the middle of it.

use std::fs;

use muster_host::run::{AGAIN_MAX, RunEnd, RunFailed, Task};
use muster_shared::Attempt;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::bed::{Bed, dropped_after, id, until};

/// It cannot end before somebody lets it [`go`].
fn waits_for_go(bed: &Bed) -> Task {
    bed.script(&format!("while [ ! -e {} ]; do sleep 0.01; done; echo whole", bed.path("go").display()))
}

fn go(bed: &Bed) {
    fs::write(bed.path("go"), "").unwrap();
}

#[tokio::test]
async fn an_agent_that_comes_again_finds_the_run_and_waits_for_its_end() {
    let bed = Bed::new();
    let task = waits_for_go(&bed);
    dropped_after(bed.runner.run(&id(1), &task), bed.until_lines(1)).await;
    let (runner, id) = (bed.another_runner(), id(1));
    let go = async { go(&bed) };
    let (ended, ()) = tokio::join!(runner.run(&id, &task), go);
    assert_eq!(ended.unwrap().stdout, "whole\n");
    assert_eq!(bed.lines(), 1);
}

#[tokio::test]
async fn a_run_that_ended_while_nobody_looked_is_not_begun_again() {
    let bed = Bed::new();
    let task = waits_for_go(&bed);
    dropped_after(bed.runner.run(&id(1), &task), bed.until_lines(1)).await;
    go(&bed);
    until(|| bed.supervisors().is_empty()).await;
    let ended = bed.another_runner().run(&id(1), &task).await.unwrap();
    assert_eq!((ended.how, ended.stdout.as_str()), (RunEnd::Exited(0), "whole\n"));
    assert_eq!(bed.lines(), 1);
}

/// The power goes: whoever runs and whoever watches is gone at once.
async fn cut(bed: &Bed) {
    for pid in bed.supervisors() {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    until(|| bed.supervisors().is_empty()).await;
}

#[tokio::test]
async fn an_interrupted_run_is_begun_again_or_fails_as_its_task_says() {
    for again in [true, false] {
        let bed = Bed::new();
        // The first one hangs with a process that outlives it, the second one ends.
        let wait = format!(
            "[ -e {0} ] && exit 0; touch {0}; setsid sleep 600 & sleep 601",
            bed.path("once").display()
        );
        let task = Task { again, ..bed.script(&wait) };
        dropped_after(bed.runner.run(&id(1), &task), bed.until_there("once")).await;
        cut(&bed).await;
        let ended = bed.another_runner().run(&id(1), &task).await;
        if again {
            assert_eq!(ended.unwrap().how, RunEnd::Exited(0));
            assert_eq!(bed.lines(), 2);
        } else {
            let failed = ended.unwrap_err();
            assert!(
                matches!(failed, RunFailed::Interrupted { times: 1 }) && failed.is_permanent(),
                "{failed}"
            );
            assert_eq!(bed.lines(), 1);
        }
        assert_eq!(bed.processes(), 0, "also what was left of the first one is gone");
    }
}

#[tokio::test]
async fn a_run_that_is_interrupted_each_time_is_given_up() {
    let bed = Bed::new();
    let task = bed.script("kill -KILL $PPID; sleep 600");
    let failed = bed.runner.run(&id(1), &task).await.unwrap_err();
    assert!(matches!(failed, RunFailed::Interrupted { times } if times == AGAIN_MAX + 1), "{failed}");
    assert_eq!(bed.lines(), AGAIN_MAX as usize + 1);
    assert_eq!(bed.processes(), 0);
}

#[tokio::test]
async fn a_server_that_goes_down_in_good_order_interrupts() {
    let bed = Bed::new();
    let task = Task { again: false, ..bed.script("trap 'exit 0' TERM; sleep 600 & wait") };
    let id = id(1);
    let down = async {
        bed.until_lines(1).await;
        // Not a moment before it hears that.
        until(|| !bed.pids().is_empty()).await;
        for pid in bed.supervisors() {
            // One may have ended with another.
            let told = kill(Pid::from_raw(pid), Signal::SIGTERM);
            assert!(matches!(told, Ok(()) | Err(Errno::ESRCH)), "{told:?}");
        }
    };
    let (ended, ()) = tokio::join!(bed.runner.run(&id, &task), down);
    assert!(matches!(ended, Err(RunFailed::Interrupted { times: 1 })), "{ended:?}");
    assert_eq!(bed.processes(), 0);
}

#[tokio::test]
async fn a_newer_run_ends_an_older_one_of_its_resource_first() {
    let bed = Bed::new();
    let task = bed.script("sleep 600 & sleep 601");
    dropped_after(bed.runner.run(&id(1), &task), bed.until_lines(1)).await;
    let mut newer = id(1);
    newer.attempt = Attempt(1);
    let ended = bed.runner.run(&newer, &bed.script("echo alone")).await.unwrap();
    assert_eq!(ended.stdout, "alone\n");
    assert_eq!((bed.lines(), bed.processes()), (2, 0));
    assert!(!bed.path("runs").join(id(1).to_string()).exists());
    assert!(bed.path("runs").join(newer.to_string()).exists());
}

#[tokio::test]
async fn what_nobody_needs_goes() {
    let bed = Bed::new();
    let task = bed.script("sleep 600");
    dropped_after(bed.runner.run(&id(1), &task), bed.until_lines(1)).await;
    let run = bed.path("runs").join(id(1).to_string());
    bed.runner.sweep(|known| *known == id(1)).unwrap();
    assert!(!bed.supervisors().is_empty());
    bed.runner.sweep(|_| false).unwrap();
    until(|| bed.supervisors().is_empty()).await;
    assert_eq!(bed.processes(), 0);
    bed.runner.sweep(|_| false).unwrap();
    assert!(!run.exists());
}
