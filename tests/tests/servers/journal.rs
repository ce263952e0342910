//! The log in systemd's journal: fields and priorities of the controller, priorities of the agent.

use muster_testbed::{SystemdServer, eventually};
use muster_tests::site::binary;
use serde_json::Value;

const AGENT: &str = "web-1.example.org";

/// The entries of a unit that a match finds.
fn entries(server: &SystemdServer, found: &str) -> Vec<Value> {
    let lines = server.sh(&format!("journalctl --output json {found}"));
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lines_have_fields_and_priorities_in_the_journal() {
    let server = SystemdServer::start("journal");
    for program in ["muster-controller", "muster-agent", "muster"] {
        server.copy(&binary(program), &format!("/usr/bin/{program}"));
    }
    // Nobody listens for spans at this address, which is a warning.
    server.sh("mkdir -p /run/muster
        systemd-run --unit muster-controller --service-type notify --setenv MUSTER_TELEMETRY__OTLP=http://127.0.0.1:1 \\
            muster-controller --listen 127.0.0.1:8883");
    server.sh(&format!(
        "muster node token --name {AGENT} >/root/token
        systemd-run --unit muster-agent --service-type notify muster-agent join --name {AGENT} --token-file /root/token"
    ));
    server.until("the node is online", "muster node list -o json | grep -q '\"online\"'");
    server.sh("printf 'heat_template_version: 2018-08-31\\n' >/root/none.yaml
        muster stack create web -t /root/none.yaml --wait
        muster node label web-1.example.org rack=r1");

    let create = entries(&server, "-u muster-controller MUSTER_STACK=web");
    let [create] = &create[..] else { panic!("{create:?}") };
    assert_eq!(create["PRIORITY"], "6");
    assert_eq!(create["SYSLOG_IDENTIFIER"], "muster-controller");
    assert_eq!(create["MUSTER_TARGET"], "muster_controller::api::stack");
    assert_eq!(create["MESSAGE"], "muster_controller::api::stack: create stack=web");
    assert!(!entries(&server, &format!("-u muster-controller MUSTER_NODE={AGENT}")).is_empty());
    let audit = entries(&server, "-u muster-controller MUSTER_TARGET=muster_audit MUSTER_OF=web");
    let [audit] = &audit[..] else { panic!("{audit:?}") };
    for (field, value) in [
        ("MUSTER_ACTION", "stack create"),
        ("MUSTER_ACTOR", "root"),
        ("MUSTER_RESULT", "ok"),
        ("PRIORITY", "6"),
    ] {
        assert_eq!(audit[field], value, "{field}: {audit}");
    }
    assert!(audit["MUSTER_FROM"].as_str().unwrap().starts_with("local, process "), "{audit}");
    // A syslog daemon has the text alone.
    let text = audit["MESSAGE"].as_str().unwrap();
    for part in ["muster_audit: actor=\"root\" from=\"local, process ", "of=\"web\"", "result=\"ok\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let warnings = eventually("a warning", || {
        let found = entries(&server, "-u muster-controller -p warning");
        found.into_iter().find(|entry| entry["MESSAGE"].to_string().contains("spans are dropped"))
    });
    assert_eq!(warnings["PRIORITY"], "4");

    // The priority is no part of the agent's line.
    let started = entries(&server, "-u muster-agent -g 'agent started'");
    let [started] = &started[..] else { panic!("{started:?}") };
    assert_eq!(started["PRIORITY"], "6");
    assert!(!started["MESSAGE"].as_str().unwrap().contains('<'), "{started}");
    server.sh("systemctl stop muster-agent muster-controller");
}
