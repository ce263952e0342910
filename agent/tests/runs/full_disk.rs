//! The disk is full, before a run or by it.

use muster_host::run::{RunEnd, RunFailed};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::folder::{Folder, id};

/// The runs' own disk, seen by this thread and its children alone. Needs root.
fn on_a_small_disk(folder: &Folder) {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let runs = folder.path("runs");
    std::fs::create_dir(&runs).unwrap();
    mount(Some("tmpfs"), &runs, Some("tmpfs"), MsFlags::empty(), Some("size=2m")).unwrap();
}

fn fill(folder: &Folder) -> String {
    format!("cat /dev/zero >{} 2>/dev/null; true", folder.path("runs/full").display())
}

#[tokio::test]
async fn the_end_of_a_run_that_fills_the_disk_is_recorded() {
    let folder = Folder::new();
    on_a_small_disk(&folder);
    let task = folder.script(&format!("{}; head -c 20000 /dev/zero | tr '\\0' a; exit 4", fill(&folder)));
    let ended = folder.runner.run(&id(1), &task).await.unwrap();
    assert_eq!((ended.how, ended.stdout.len()), (RunEnd::Exited(4), 20_000));
    assert_eq!(folder.another_runner().run(&id(1), &task).await.unwrap().how, RunEnd::Exited(4));
    assert_eq!(folder.lines(), 1);
}

#[tokio::test]
async fn nothing_begins_whose_end_could_not_be_recorded() {
    let folder = Folder::new();
    on_a_small_disk(&folder);
    let filled = std::process::Command::new("sh").arg("-c").arg(fill(&folder)).status().unwrap();
    assert!(filled.success());
    let task = folder.script("");
    let failed = folder.runner.run(&id(1), &task).await.unwrap_err();
    assert!(matches!(failed, RunFailed::Disk { .. }) && !failed.is_permanent(), "{failed}");
    assert!(failed.to_string().contains("No space left on device"), "{failed}");
    assert_eq!(folder.lines(), 0);
    std::fs::remove_file(folder.path("runs/full")).unwrap();
    assert_eq!(folder.runner.run(&id(1), &task).await.unwrap().how, RunEnd::Exited(0));
    assert_eq!(folder.lines(), 1);
}
