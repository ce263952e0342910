//! Runs of commands with the real supervisor and no systemd: how they end, what is left, and what whoever comes after an
//! agent that was killed makes of them.
#![allow(clippy::unwrap_used, reason = "all of this is test code, also what stands outside a test function")]

mod folder;
mod full_disk;
mod hook;
mod interrupted;

use std::fs;
use std::time::Duration;

use muster_host::run::{OUTPUT_MAX, Output, Program, RunEnd, RunFailed, Task};

use folder::{Folder, id, script};

#[tokio::test]
async fn a_script_gets_its_inputs_and_what_it_tells_comes_back() {
    let folder = Folder::new();
    let mut task = script(
        "#!/bin/bash
         [[ -v colour && ! -v CARGO ]] || exit 9
         echo \"$colour $PWD\"; echo problem >&2; cat
         printf '%s' blue >$heat_outputs_path.result; printf '\\xff' >$heat_outputs_path.odd; echo x >$heat_outputs_path.undeclared
         exit 3",
    );
    task.environment.insert("colour".into(), "it's \"red\"\n$(touch /tmp)".into());
    task.outputs = ["result", "odd", "absent"].map(str::to_owned).into();
    let ended = folder.runner.run(&id(1), &task).await.unwrap();
    assert_eq!(ended.how, RunEnd::Exited(3));
    assert!(ended.stdout.starts_with("it's \"red\"\n$(touch /tmp) "), "{ended:?}");
    assert_eq!(ended.stderr, "problem\n");
    let text = |text: &str| Output::Text(text.into());
    assert_eq!(ended.outputs, [("odd".into(), text("\u{fffd}")), ("result".into(), text("blue"))].into());
}

#[tokio::test]
async fn the_shell_runs_a_plain_script_and_arguments_stay_literal() {
    // A script without a `#!` line runs in the shell.
    let folder = Folder::new();
    let ended = folder.runner.run(&id(1), &script("echo $0-$((1 + 1))")).await.unwrap();
    assert!(ended.stdout.ends_with("script-2\n"), "{ended:?}");
    let program = Program::Arguments(["printf", "%s", "$HOME *"].map(Into::into).into());
    let ended = folder.runner.run(&id(2), &Task { program, ..script("") }).await.unwrap();
    assert_eq!((ended.how, ended.stdout.as_str()), (RunEnd::Exited(0), "$HOME *"));
    for (nothing, word) in [("#!/no/such/shell", "/no/such/shell"), ("#!/etc/passwd", "/etc/passwd")] {
        let ended = folder.runner.run(&id(3), &script(nothing)).await.unwrap();
        assert!(matches!(&ended.how, RunEnd::NotStarted(why) if why.starts_with(word)), "{ended:?}");
        folder.runner.forget(&id(3));
    }
}

#[tokio::test]
async fn a_name_that_no_variable_can_have_is_refused() {
    let folder = Folder::new();
    for (name, value) in [("", "x"), ("a=b", "x"), ("a\0", "x"), ("a", "x\0")] {
        let mut task = script("touch $line");
        task.environment.insert(name.into(), value.into());
        let refused = folder.runner.run(&id(1), &task).await.unwrap_err();
        assert!(matches!(refused, RunFailed::Task(_)) && refused.is_permanent(), "{refused}");
    }
    assert_eq!(folder.lines(), 0);
}

#[tokio::test]
async fn long_output_keeps_its_end_and_too_large_outputs_are_reported() {
    let folder = Folder::new();
    let mut task = script(
        "head -c 10000000 /dev/zero | tr '\\0' a; echo end
         head -c 40000 /dev/zero | tr '\\0' b >$heat_outputs_path.large; mkfifo $heat_outputs_path.pipe
         for n in 1 2 3 4 5; do head -c 30000 /dev/zero | tr '\\0' c >$heat_outputs_path.n$n; done",
    );
    task.outputs = ["large", "pipe", "n1", "n2", "n3", "n4", "n5"].map(str::to_owned).into();
    let ended = folder.runner.run(&id(1), &task).await.unwrap();
    assert!(ended.stdout.len() <= OUTPUT_MAX && ended.stdout.ends_with("aend\n"));
    assert!(ended.stdout.starts_with("[99"), "{}", &ended.stdout[..80]);
    assert_eq!(ended.outputs["large"], Output::TooLarge(40_000));
    assert!(!ended.outputs.contains_key("pipe"));
    assert!(matches!(ended.outputs["n3"], Output::Text(_)));
    assert_eq!(ended.outputs["n5"], Output::TooLarge(30_000), "more than a report carries");
}

#[tokio::test]
async fn a_run_that_takes_too_long_ends_with_all_that_it_started() {
    let folder = Folder::new();
    // One in a session of its own, one whose parent has gone, one that is deaf to being asked, and one in the way.
    let task = Task {
        // Time enough to begin them all.
        timeout: Duration::from_secs(5),
        ..folder.script(
            "setsid sleep 600 & (sleep 601 &) ; (trap '' TERM; exec sleep 602) & echo begun; sleep 603",
        )
    };
    let ended = folder.runner.run(&id(1), &task).await.unwrap();
    assert_eq!((ended.how, ended.stdout.as_str()), (RunEnd::TimedOut, "begun\n"));
    assert_eq!(folder.processes(), 0);
    assert_eq!(folder.lines(), 1);
}

#[tokio::test]
async fn what_a_script_leaves_running_ends_with_it() {
    let folder = Folder::new();
    let task = folder.script("trap '' HUP; setsid sleep 600 & nohup sleep 601 >/dev/null 2>&1 & echo done");
    let ended = folder.runner.run(&id(1), &task).await.unwrap();
    assert_eq!((ended.how, ended.stdout.as_str()), (RunEnd::Exited(0), "done\n"));
    assert_eq!(folder.processes(), 0);
}

#[tokio::test]
async fn a_signal_of_somebody_else_is_no_exit_status() {
    let folder = Folder::new();
    let ended = folder.runner.run(&id(1), &script("kill -ILL $$")).await.unwrap();
    assert_eq!(ended.how, RunEnd::Killed(4));
}

#[tokio::test]
async fn a_run_is_stopped_and_says_so() {
    let folder = Folder::new();
    let task = folder.script("sleep 600 & sleep 601");
    let id = id(1);
    let stop = async {
        folder.until_lines(1).await;
        folder.runner.stop(&id);
    };
    let (ended, ()) = tokio::join!(folder.runner.run(&id, &task), stop);
    assert_eq!(ended.unwrap().how, RunEnd::Stopped);
    assert_eq!(folder.processes(), 0);
    assert_eq!(folder.runner.run(&id, &task).await.unwrap().how, RunEnd::Stopped, "it is not begun again");
}

#[tokio::test]
async fn a_run_hides_secrets_from_other_users_and_leaves_none_behind() {
    let folder = Folder::new();
    let mut task = folder.script(&format!(
        "stat -c %a $0 . .. >{0}; tr '\\0' ' ' </proc/$PPID/cmdline >>{0}; tr '\\0' ' ' </proc/$PPID/environ >>{0}",
        folder.path("seen").display()
    ));
    task.environment.insert("password".into(), "hunter2".into());
    folder.runner.run(&id(1), &task).await.unwrap();
    let seen = fs::read_to_string(folder.path("seen")).unwrap();
    assert!(
        seen.starts_with("700\n700\n700\n") && seen.contains(" run ") && !seen.contains("hunter2"),
        "{seen}"
    );
    let run = folder.path("runs").join(id(1).to_string());
    let mut left: Vec<_> = fs::read_dir(&run).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["alive", "began", "began.new", "ended", "stop"]);
    folder.runner.forget(&id(1));
    assert!(!run.exists());
}
