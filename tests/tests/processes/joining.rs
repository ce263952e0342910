//! The ways in which a server gets its token.

use std::fs;
use std::path::Path;
use std::process::Command;

use muster_testbed::Daemon;
use muster_tests::site::{Site, binary};

/// The last argument is given to a shell that runs the agent with the others.
fn started(site: &Site, name: &str, script: &str, file: &Path) -> Daemon {
    let at = |what: &str| site.path().join(format!("{name}.{what}"));
    let config = site.path().join("agent.toml");
    fs::write(&config, "").unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", script]).arg(file).arg(binary("muster-agent"));
    command.args(["join", "--name", name, "--config"]).arg(config).arg("--state-dir").arg(at("state"));
    // Never this machine's own.
    command.env("MUSTER_HOST__ETC_HOSTNAME", at("hostname")).env("MUSTER_HOST__RUN_DIR", at("run"));
    Daemon::start(name, command, site.path())
}

#[test]
fn a_token_comes_from_stdin_a_file_or_a_credential() {
    let site = Site::start();
    for (name, file, script) in [
        ("a", "token", r#"exec "$@" --token - <"$0""#),
        ("b", "token", r#"exec "$@" --token-file "$0""#),
        ("c", "muster.token", r#"CREDENTIALS_DIRECTORY=$(dirname "$0") exec "$@""#),
    ] {
        let folder = site.path().join(format!("{name}.told"));
        fs::create_dir(&folder).unwrap();
        let file = folder.join(file);
        fs::write(&file, site.ok(&["node", "token", "--name", name])).unwrap();
        let agent = started(&site, name, script, &file);
        site.until_node(name, "online");
        let seen = fs::read(format!("/proc/{}/cmdline", agent.id())).unwrap();
        let seen = String::from_utf8_lossy(&seen);
        assert!(seen.contains("muster-agent") && !seen.contains("muster1-"), "{seen}");
    }
}

/// Also by processes: what the engine's tests have in tables.
#[test]
fn a_server_does_not_join_under_what_is_short_for_another() {
    use muster_testbed::eventually;
    use muster_tests::site::Place;

    let site = Site::start();
    let _there = site.join("web-7.example.org");
    site.muster(&["node", "token", "--name", "web-7"])
        .refused(1, &["is short for web-7.example.org", "muster node remove web-7.example.org"]);
    for (name, pattern, words) in [
        ("web-7", "web-*", "is short for web-7.example.org"),
        ("web-7.attacker.net", "web-*", "'*' stops at dots"),
    ] {
        let token = site.ok(&["node", "token", "--name", pattern]);
        let mut agent = site.agent(name, token.trim(), Place::default());
        let status = eventually("the agent gives up", || agent.daemon.ended());
        let log = agent.daemon.log();
        assert!(!status.success() && log.contains(words), "{status}: {log}");
        assert_eq!(site.node_state(name), None);
    }
}
