//! The command line as its users meet it: output, exit codes, messages. Where a controller is needed, one that
//! answers from a script listens on a socket of the test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod controller;
mod intents;
mod offline;
mod operating;
mod talking;

use assert_cmd::Command;

/// `muster` with arguments, without what the environment says of controllers.
fn muster(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .env_remove("MUSTER_URL")
        .env_remove("MUSTER_TOKEN")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .args(arguments.split_whitespace());
    command
}

/// Exit code, stdout and stderr.
fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("muster runs");
    let text = |bytes| String::from_utf8(bytes).expect("muster writes UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}
