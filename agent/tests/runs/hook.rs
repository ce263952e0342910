//! Hooks: what they are given, what their answers come to, and that they run as scripts do.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::folder::{dropped_after, until};
use super::*;

const INPUT: &str = r#"{"config": "hunter2"}"#;

/// A task for the hook of this text, which leaves a line when it begins.
fn hook(folder: &Folder, text: &str) -> Task {
    let path = folder.path("hook");
    let text = format!("#!/bin/sh\necho begun >>{}\n{text}", folder.path("lines").display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let program = Program::Hook { paths: vec![folder.path("none"), path], input: INPUT.into() };
    Task { program, outputs: vec!["result".into()], ..script("") }
}

#[tokio::test]
async fn a_hook_reads_its_config_and_its_answer_counts() {
    let folder = Folder::new();
    let seen = folder.path("seen");
    let text = format!(
        "cat >{0}; tr '\\0' ' ' </proc/$$/cmdline >>{0}; env >>{0}
         echo 'a log' >&2
         printf '%s' '{{\"deploy_stdout\": \"out\", \"deploy_stderr\": \"err\", \"result\": \"blue\"}}'",
        seen.display()
    );
    let ended = folder.runner.run(&id(1), &hook(&folder, &text)).await.unwrap();
    assert_eq!((&ended.how, &*ended.stdout, &*ended.stderr), (&RunEnd::Exited(0), "out", "err"));
    assert_eq!(ended.outputs["result"], Output::Text("blue".into()));
    // Standard input alone has the config; it ends with the run.
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.starts_with(INPUT) && seen.matches("hunter2").count() == 1, "{seen}");
    assert!(!folder.path("runs").join(id(1).to_string()).join("input").exists());
    // The end is recorded: the hook does not run again, not even where it is gone.
    fs::remove_file(folder.path("hook")).unwrap();
    let task = Task {
        program: Program::Hook { paths: vec![folder.path("hook")], input: INPUT.into() },
        ..script("")
    };
    assert_eq!(folder.another_runner().run(&id(1), &task).await.unwrap(), ended);
    assert_eq!(folder.lines(), 1);
}

#[tokio::test]
async fn a_hook_that_floods_hangs_or_leaves_others_ends() {
    let folder = Folder::new();
    let flood = hook(&folder, "head -c 100000000 /dev/zero; head -c 100000000 /dev/zero >&2");
    let ended = folder.runner.run(&id(1), &flood).await.unwrap();
    assert!(matches!(&ended.how, RunEnd::BadAnswer(why) if why.contains("4194304")), "{:?}", ended.how);
    assert!(ended.stdout.len() <= OUTPUT_MAX && ended.stderr.len() <= OUTPUT_MAX);

    let hang = Task { timeout: Duration::from_millis(200), ..hook(&folder, "echo '{}'; sleep 600") };
    assert_eq!(folder.runner.run(&id(2), &hang).await.unwrap().how, RunEnd::TimedOut);

    let leaves = hook(&folder, "setsid sleep 600 & echo '{\"deploy_status_code\": 4}'");
    assert_eq!(folder.runner.run(&id(3), &leaves).await.unwrap().how, RunEnd::Exited(4));
    assert_eq!(folder.processes(), 0);
}

#[tokio::test]
async fn a_hook_outlives_its_agent_and_runs_again_once_interrupted() {
    let folder = Folder::new();
    let text = format!(
        "while ! [ -e {} ]; do sleep 0.02; done; echo '{{\"result\": \"late\"}}'",
        folder.path("go").display()
    );
    let task = hook(&folder, &text);
    dropped_after(folder.runner.run(&id(1), &task), folder.until_lines(1)).await;
    let another = folder.another_runner();
    let killed = async {
        let supervisors = folder.supervisors();
        for pid in supervisors.iter().chain(&folder.pids()) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
        }
        folder.until_lines(2).await;
        fs::write(folder.path("go"), "").unwrap();
    };
    let same = id(1);
    let (ended, ()) = tokio::join!(another.run(&same, &task), killed);
    assert_eq!(ended.unwrap().outputs["result"], Output::Text("late".into()));
    assert_eq!(folder.lines(), 2);
    until(|| folder.processes() == 0).await;
}

#[tokio::test]
async fn a_hook_that_is_missing_or_not_roots_alone_is_not_run() {
    let folder = Folder::new();
    let refused = async |paths: Vec<PathBuf>| {
        let task = Task { program: Program::Hook { paths, input: INPUT.into() }, ..script("") };
        let refused = folder.runner.run(&id(1), &task).await.unwrap_err();
        assert!(refused.is_permanent(), "{refused}");
        refused.to_string()
    };
    let (a, b) = (folder.path("a"), folder.path("b"));
    let wanted = format!("there is no hook: looked for {} and {}", a.display(), b.display());
    assert_eq!(refused(vec![a.clone(), b.clone()]).await, wanted);
    let task = hook(&folder, "");
    fs::set_permissions(folder.path("hook"), Permissions::from_mode(0o777)).unwrap();
    let Program::Hook { paths, .. } = task.program else { panic!("a hook") };
    assert!(refused(paths).await.contains("hook can be written by everybody: only root"));
    assert_eq!(folder.lines(), 0);
}
