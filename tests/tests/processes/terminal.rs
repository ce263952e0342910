//! A terminal on which `muster` runs: a pseudo terminal that `script` of util-linux makes.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use muster_testbed::{eventually, look};
use muster_tests::site::{Site, binary};

/// A command on a terminal of 40 lines.
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Runs `muster` with these arguments, which need no quotation marks. The shell says first which process it is, and at the
    /// end what became of the terminal.
    pub fn start(site: &Site, arguments: &str) -> Self {
        Self::with(site, arguments, &[])
    }

    /// The same with these variables.
    pub fn with(site: &Site, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let muster = format!("{} --url {} {arguments}", binary("muster").display(), site.url());
        let line = format!(
            "stty rows 40 cols 120; sh -c 'echo process $$.; exec {muster}'; code=$?; \
             stty -a | grep -o '.icanon'; exit $code"
        );
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        command.env("TERM", "xterm").env("SHELL", "/bin/sh").env_remove("MUSTER_SITE");
        command.env_remove("NO_COLOR").envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let kept = shown.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut bytes) {
                kept.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        Self { child, keys, shown }
    }

    /// The output to the terminal so far, with its control sequences.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until this has been written to it.
    pub fn until_shown(&self, text: &str) {
        let is_shown = look(|| self.shown().contains(text).then_some(())).is_some();
        assert!(is_shown, "no '{text}' in: {:?}", self.shown());
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Sends the command a signal: `TERM`.
    pub fn signal(&self, name: &str) {
        let id = eventually("the command says its id", || {
            let shown = self.shown();
            let (id, _) = shown.split_once("process ")?.1.split_once('.')?;
            id.parse::<u32>().ok()
        });
        assert!(Command::new("kill").args(["-s", name, &id.to_string()]).status().unwrap().success());
    }

    /// The exit code of the command, and all that was shown.
    pub fn finish(mut self) -> (i32, String) {
        let status = eventually("the command ends", || self.child.try_wait().unwrap());
        let end = || self.shown().lines().any(|line| line.trim().ends_with("icanon")).then_some(());
        eventually("the terminal's mode is shown", end);
        (status.code().unwrap_or_else(|| -status.signal().unwrap_or(1)), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ended already if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
