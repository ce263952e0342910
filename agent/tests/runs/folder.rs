//! A place for runs, whose scripts leave a line each time they start.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_host::run::{Program, RunId, Runner, Task};
use muster_shared::{Attempt, Epoch, Generation, ResourceId};
use tempfile::TempDir;
use tokio::time::sleep;
use uuid::Uuid;

pub struct Folder {
    dir: TempDir,
    pub runner: Runner,
}

/// The one resource's run of this generation.
pub fn id(generation: u64) -> RunId {
    let generation = Generation { epoch: Epoch(1), number: generation };
    RunId::new(ResourceId(Uuid::from_u128(7)), generation, Attempt(0))
}

/// A minute is more than any of them takes.
pub fn script(text: &str) -> Task {
    Task {
        description: "test".into(),
        program: Program::Script(text.as_bytes().to_vec()),
        environment: Default::default(),
        outputs: Vec::new(),
        timeout: Duration::from_secs(60),
        again: true,
    }
}

impl Folder {
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let runner = Self::runner_in(dir.path());
        Self { dir, runner }
    }

    fn runner_in(dir: &Path) -> Runner {
        Runner::new(dir.join("runs"), env!("CARGO_BIN_EXE_muster-agent").into(), None)
    }

    /// As an agent has it that restarted.
    pub fn another_runner(&self) -> Runner {
        Self::runner_in(self.dir.path())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Leaves a line when it begins.
    pub fn script(&self, text: &str) -> Task {
        script(&format!("echo begun >>{}\n{text}", self.path("lines").display()))
    }

    pub fn lines(&self) -> usize {
        fs::read_to_string(self.path("lines")).unwrap_or_default().lines().count()
    }

    pub async fn until_lines(&self, lines: usize) {
        until(|| self.lines() >= lines).await;
    }

    pub async fn until_there(&self, name: &str) {
        until(|| self.path(name).exists()).await;
    }

    /// Processes of the runs here, by their environment: what is left of them.
    pub fn processes(&self) -> usize {
        self.pids().len()
    }

    pub fn pids(&self) -> Vec<i32> {
        let mark = format!("MUSTER_RUN={}", self.dir.path().display());
        let is_ours = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
        };
        pids().filter(is_ours).collect()
    }

    /// Processes that watch over the runs here.
    pub fn supervisors(&self) -> Vec<i32> {
        let argument = self.path("runs").display().to_string();
        let is_one = |pid: &i32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains(&argument)
        };
        pids().filter(is_one).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Also a test that fails leaves nothing running.
        for pid in self.supervisors().into_iter().chain(self.pids()) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|file| file.file_name().to_str()?.parse().ok())
}

/// Looks until it is so; the test's own limit ends it.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Begins it and drops it once `then` is over, as an agent that is killed.
pub async fn dropped_after(run: impl Future, then: impl Future<Output = ()>) {
    tokio::select! {
        _ = run => panic!("it was to be dropped before its end"),
        () = then => {}
    }
}
