//! Rules that are changed behind Muster's back are corrected; rules that are not Muster's are left alone.

use muster_testbed::eventually;
use serde_json::json;

use super::server::{FlowServer, rule};

#[test]
fn a_rule_deleted_by_hand_comes_back() {
    let server = FlowServer::start();
    server.apply(&[rule(1, "p1"), rule(2, "p1")]);
    let before = server.ours();
    server.switch.ofctl(&["--strict", "del-flows", "br0", "priority=1,dl_vlan=1"]);
    eventually("it is back", || (server.ours() == before).then_some(()));
    server.until_equal("the controller agrees");
}

/// The switch says what ends by its timeout, so that whatever else is gone was removed by somebody.
#[test]
fn a_rule_with_a_timeout_that_is_deleted_by_hand_comes_back() {
    let server = FlowServer::start();
    let with = |mut rule: serde_json::Value, timeout: &str, seconds: u32| {
        rule[timeout] = json!(seconds);
        rule
    };
    server.apply_some_short(&[
        with(rule(1, "p1"), "hard_timeout", 3600),
        with(rule(2, "p1"), "idle_timeout", 3600),
        with(rule(3, "p1"), "hard_timeout", 1),
        rule(4, "p1"),
    ]);
    eventually("one has ended", || server.list().iter().any(|row| row["state"] == "EXPIRED").then_some(()));
    let before = server.ours();
    assert_eq!(before.len(), 3);
    server.switch.ofctl(&["del-flows", "br0"]);
    eventually("they are back", || (server.ours() == before).then_some(()));
}

#[test]
fn a_rule_altered_by_hand_is_replaced() {
    let server = FlowServer::start();
    server.apply(&[rule(1, "p1"), rule(2, "p1")]);
    let before = server.ours();
    server.switch.ofctl(&["--strict", "mod-flows", "br0", "priority=1,dl_vlan=1,actions=output:p2"]);
    eventually("it is as it was", || (server.ours() == before).then_some(()));
}

#[test]
fn a_rule_in_our_cookie_space_that_nobody_asked_for_goes() {
    let server = FlowServer::start();
    server.apply(&[rule(1, "p1")]);
    let before = server.ours();
    server.switch.ofctl(&["add-flow", "br0", "cookie=0x4d550000000000aa,priority=9,in_port=p1,actions=drop"]);
    eventually("it is gone", || (server.ours() == before).then_some(()));
}

#[test]
fn foreign_rules_are_left_alone_and_shown() {
    let server = FlowServer::start();
    let foreign = "cookie=0x5,priority=77,in_port=p1,actions=output:p2";
    server.switch.ofctl(&["add-flow", "br0", foreign]);
    server.apply(&[rule(1, "p1")]);
    server.site.ok(&["flow", "reconcile", "web-1/br0"]);
    server.site.ok(&["flow", "purge", "web-1/br0", "--wait"]);
    assert!(server.all().iter().any(|flow| flow.contains("priority=77")), "{:?}", server.all());

    let shown = server.site.json(&["flow", "list", "web-1/br0", "--foreign"]);
    let shown = shown.as_array().unwrap();
    assert!(shown.iter().any(|row| row["priority"] == 77), "{shown:?}");
    // It takes no place of theirs.
    let place =
        json!({"device": "web-1/br0", "priority": 77, "selector": {"in_port": "p1"}, "treatment": []});
    let file = server.site.file(&json!({ "rules": [place] }).to_string());
    server.site.muster(&["flow", "apply", "-f", &file, "--wait"]).refused(1, &[]);
    assert!(server.all().iter().any(|flow| flow.contains("priority=77") && flow.contains("output:p2")));
}

#[test]
fn foreign_rules_are_imported_where_that_is_asked_for() {
    let server = FlowServer::start();
    server.apply(&[rule(1, "p1")]);
    server.switch.ofctl(&["add-flow", "br0", "cookie=0x5,priority=77,in_port=p1,actions=output:p2"]);
    server.site.ok(&["flow", "reconcile", "web-1/br0", "--foreign", "import"]);
    eventually("it is ours", || {
        server.list().iter().any(|row| row["priority"] == 77 && row["state"] == "ADDED").then_some(())
    });
    assert!(server.ours().iter().any(|flow| flow.contains("priority=77,in_port=p1 actions=output:p2")));
}

#[test]
fn a_bridge_that_disappears_and_returns_is_filled_again() {
    let server = FlowServer::start();
    server.apply(&[rule(1, "p1"), rule(2, "p2")]);
    server.switch.vsctl("del-br br0");
    eventually("it is missed", || {
        let devices = server.site.json(&["flow", "devices"]);
        (devices[0]["switch"] == "absent").then_some(())
    });
    server.switch.bridge("br0", &["p1", "p2"]);
    eventually("it is filled", || (server.held().len() == 2).then_some(()));
    server.until_equal("the controller agrees");
}

#[test]
fn a_node_that_was_away_gets_what_was_asked_meanwhile() {
    let mut server = FlowServer::start();
    server.apply(&[rule(1, "p1"), rule(2, "p1")]);
    server.agent.daemon.kill();
    server.site.until_node("web-1", "offline");
    let file = server.site.file(&json!({"rules": [rule(1, "p2"), rule(3, "p2")]}).to_string());
    server.site.ok(&["flow", "apply", "-f", &file]);
    server.switch.ofctl(&["--strict", "del-flows", "br0", "priority=1,dl_vlan=2"]);
    server.agent.daemon.restart();
    let held = server.until_equal("it has caught up");
    assert_eq!(held.len(), 3);
    assert_eq!(held.iter().filter(|(_, port)| port == "p2").count(), 2);
}

#[test]
fn a_controller_that_was_killed_knows_its_tables() {
    let mut server = FlowServer::start();
    server.apply(&[rule(1, "p1"), rule(2, "p1")]);
    let before = server.list();
    server.site.restart();
    server.site.until_node("web-1", "online");
    let ids = |rows: &[serde_json::Value]| {
        rows.iter().map(|row| (row["id"].clone(), row["state"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(&server.list()), ids(&before));
    server.apply(&[rule(3, "p1")]);
    assert_eq!(server.until_equal("all are there").len(), 3);
}
