//! Scripts of deployments on a real systemd: each in a unit of its own, that outlives the agent and ends whole.

use muster_testbed::SystemdServer;

use crate::one_server::Installed;

/// Leaves a line and a process in a session of its own, and waits for the test.
const TEMPLATE: &str = "
heat_template_version: 2018-08-31
parameters: {policy: {type: string}}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: colour}]
      config: |
        #!/bin/sh
        echo begun >>/root/lines
        setsid sleep 600 &
        touch /root/there
        while [ ! -e /root/go ]; do sleep 0.05; done
  run:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: pack, input_values: {colour: hunter2}, on_interrupt: {get_param: policy}}
";

#[test]
fn a_run_outlives_its_agent_and_is_found_or_known_interrupted() {
    let server = Installed::start("deploy");
    server.sh(&format!("cat >/root/run.yaml <<'END'\n{TEMPLATE}END\n"));

    // The agent ends, and the script does before there is another one.
    begin(&server, "found", "fail");
    let unit = server.sh("systemctl list-units 'muster-run-*' --no-legend --plain | cut -d ' ' -f 1");
    assert!(!server.sh(&format!("systemctl show {unit}")).contains("hunter2"), "every user may read that");
    server.sh("systemctl mask --runtime --now muster-agent; touch /root/go");
    server.until("the run has ended", &format!("! systemctl is-active {unit}"));
    server.until("what it began has ended", "! pgrep -x sleep");
    server.sh("systemctl unmask --runtime muster-agent; systemctl start muster-agent");
    ends(&server, "found", "COMPLETE", 1);

    // All of it is killed, as by a power cut; then by systemd, as when the server goes down.
    for (stack, policy, status, lines) in [("again", "rerun", "COMPLETE", 2), ("cut", "fail", "FAILED", 1)] {
        begin(&server, stack, policy);
        let verb = if policy == "rerun" { "kill --signal=KILL" } else { "stop" };
        server.sh(&format!("systemctl {verb} 'muster-run-*'; touch /root/go"));
        ends(&server, stack, status, lines);
    }
}

fn begin(server: &SystemdServer, stack: &str, policy: &str) {
    server.sh(&format!(
        "rm -f /root/lines /root/there /root/go; muster stack create {stack} -t /root/run.yaml -P policy={policy}"
    ));
    server.until("the script runs", "test -e /root/there");
}

/// The agent tells how a run ended before systemd has forgotten its unit.
pub fn no_run_is_left(server: &SystemdServer) {
    server.until("no run is left", "[ -z \"$(systemctl list-units 'muster-run-*' --all --no-legend)\" ]");
}

/// Nothing of it is left.
fn ends(server: &SystemdServer, stack: &str, status: &str, lines: usize) {
    let is_so = format!("muster stack show {stack} -o json | grep -q '\"status\": *\"{status}\"'");
    server.until(&format!("{stack} is {status}"), &is_so);
    assert_eq!(server.sh("cat /root/lines"), "begun\n".repeat(lines), "{stack}");
    server.until("what it began has ended", "! pgrep -x sleep");
    no_run_is_left(server);
}
