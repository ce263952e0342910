//! `muster-sim fleet` against a controller: its agents join, run what an operator asks for, and come back after a storm.

use std::process::Command;

use muster_testbed::Running;
use muster_tests::site::{Site, binary};
use serde_json::Value;

const AGENTS: usize = 30;

fn fleet(site: &Site, more: &[&str]) -> Running {
    let token = site.ok(&["node", "token", "--name", "fleet-*", "--uses", &AGENTS.to_string()]);
    let mut command = Command::new(binary("muster-sim"));
    let connect = format!("mqtts://{}", site.address());
    let agents = AGENTS.to_string();
    command.args(["fleet", "--agents", &agents, "--connect", &connect, "--token", token.trim()]).args(more);
    Running::start(command)
}

#[test]
fn a_fleet_runs_jobs_and_comes_back_after_a_storm() {
    let site = Site::start();
    let jobs = (2 * AGENTS).to_string();
    let running = fleet(&site, &["--jobs", &jobs, "--storm", "--within", "120"]);
    site.until_node("fleet-29", "online");
    let resources: String = (0..AGENTS)
        .map(|n| {
            format!(
                "  d{n}: {{type: Muster::Dummy, properties: {{node: fleet-{n}, values: {{k: v}}}}}}\n  f{n}: {{type: Muster::File, \
                 properties: {{node: fleet-{n}, path: /etc/motd, content: hello}}}}\n"
            )
        })
        .collect();
    let source = site.file(&format!("heat_template_version: 2018-08-31\nresources:\n{resources}"));
    site.ok(&["stack", "create", "all", "-t", &source, "--wait"]);
    let ran = running.finish().expect(0);
    let figures: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&figures["agents"], &figures["jobs"], &figures["jobs_failed"]),
        (&30.into(), &60.into(), &0.into())
    );
    for (figure, least) in [("joins_per_s", 0.1), ("jobs_per_s", 0.1), ("storm_s", 0.001)] {
        assert!(figures[figure].as_f64().is_some_and(|it| it >= least), "{figure}: {figures}");
    }
    assert!(figures["back"]["max_ms"].as_f64().is_some_and(|it| it > 0.0), "{figures}");
}

#[test]
fn those_who_come_too_fast_join_in_their_turn() {
    let site = Site::start();
    let token = site.ok(&["node", "token", "--any-name", "--uses", "4", "--rate", "1/s"]);
    assert_eq!(site.json(&["node", "tokens"])[0]["rate"], "1/s");
    let mut command = Command::new(binary("muster-sim"));
    let connect = format!("mqtts://{}", site.address());
    command.args([
        "fleet",
        "--agents",
        "3",
        "--connect",
        &connect,
        "--token",
        token.trim(),
        "--within",
        "120",
    ]);
    let figures: Value = serde_json::from_str(&Running::start(command).finish().expect(0).stdout).unwrap();
    assert_eq!(figures["agents"], 3);
    assert_eq!(site.json(&["node", "tokens"])[0]["uses_left"], 1);
}

#[test]
fn a_fleet_that_cannot_join_says_why() {
    let site = Site::start();
    let token = site.ok(&["node", "token", "--name", "web-1"]);
    let with = |connect: &str| {
        let mut command = Command::new(binary("muster-sim"));
        command.args(["fleet", "--agents", "2", "--connect", connect, "--token", token.trim()]);
        Running::start(command).finish()
    };
    let address = site.address();
    with(&format!("https://{address}")).refused(2, &["--connect", "mqtts://HOST:PORT"]);
    with(address).refused(1, &["fleet-0 cannot join", "web-1"]);
}
