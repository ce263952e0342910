//! The binary as an operator meets it, without a controller.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also what stands outside a test function")]

use std::path::Path;
use std::process::{Command, Output};

fn agent(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster-agent"))
        .args(["--state-dir", state.to_str().unwrap()])
        .args(arguments)
        .env_clear()
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn help_is_as_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let output = agent(dir.path(), &["--help"]);
    assert_eq!(text(&output.stdout), include_str!("help.txt"));
    assert!(output.status.success());
}

#[test]
fn errors_give_one_line_of_advice_and_an_exit_code_by_kind() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.toml"), "[agent]\nstate_dri = 1\n").unwrap();
    std::fs::write(dir.path().join("bad.yaml"), "network_config:\n- {type: warp_drive, name: eth0}\n")
        .unwrap();
    let (toml, yaml) = (dir.path().join("bad.toml"), dir.path().join("bad.yaml"));
    let (toml, yaml) = (toml.to_str().unwrap(), yaml.to_str().unwrap());
    for (arguments, code, want) in [
        (&[][..], 1, "muster-agent join --token -"),
        (&["join"], 2, "with --token - on standard input"),
        (&["join", "--token-file", "/no/such"], 2, "cannot read the join token from /no/such"),
        (&["join", "nonsense", "--name", "web-1"], 2, "must begin with 'muster1-'"),
        (&["join", "muster1-AAAA", "--name", "web-1"], 2, "damaged"),
        (&["--config", toml, "--check-config"], 2, "state_dri"),
        (&["--config", "/no/such.toml"], 2, "/no/such.toml"),
        (&["net", "plan", "-c", yaml], 2, "warp_drive"),
        (&["net", "plan", "-c", "/no/such.yaml"], 2, "/no/such.yaml"),
    ] {
        let output = agent(dir.path(), arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{arguments:?}: {stderr}");
        assert!(stderr.contains(want), "{arguments:?}: {stderr}");
        assert_eq!(text(&output.stdout), "");
    }
    let output = agent(dir.path(), &["--check-config"]);
    assert!(output.status.success());
}

#[test]
fn an_environment_that_is_not_text_is_no_reason_to_end() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_muster-agent"))
        .args(["--state-dir", dir.path().to_str().unwrap(), "--check-config"])
        .env_clear()
        .env("LEGACY", std::ffi::OsStr::from_bytes(b"caf\xe9"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
