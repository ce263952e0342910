//! What somebody changes behind Muster's back is put right; what is not Muster's is left alone.

use muster_tests::testbed::eventually;
use serde_json::json;

use super::bed::{Bed, rule};

#[test]
fn a_rule_deleted_by_hand_comes_back() {
    let bed = Bed::start();
    bed.apply(&[rule(1, "p1"), rule(2, "p1")]);
    let before = bed.ours();
    bed.switch.ofctl(&["--strict", "del-flows", "br0", "priority=1,dl_vlan=1"]);
    eventually("it is back", || (bed.ours() == before).then_some(()));
    bed.until_equal("the controller agrees");
}

/// The switch says what ends by its timeout, so that whatever else is gone was removed by somebody.
#[test]
fn a_rule_with_a_timeout_that_is_deleted_by_hand_comes_back() {
    let bed = Bed::start();
    let with = |mut rule: serde_json::Value, timeout: &str, seconds: u32| {
        rule[timeout] = json!(seconds);
        rule
    };
    bed.apply(&[
        with(rule(1, "p1"), "hard_timeout", 3600),
        with(rule(2, "p1"), "idle_timeout", 3600),
        with(rule(3, "p1"), "hard_timeout", 1),
        rule(4, "p1"),
    ]);
    eventually("one has ended", || bed.list().iter().any(|row| row["state"] == "EXPIRED").then_some(()));
    let before = bed.ours();
    assert_eq!(before.len(), 3);
    bed.switch.ofctl(&["del-flows", "br0"]);
    eventually("they are back", || (bed.ours() == before).then_some(()));
}

#[test]
fn a_rule_altered_by_hand_is_replaced() {
    let bed = Bed::start();
    bed.apply(&[rule(1, "p1"), rule(2, "p1")]);
    let before = bed.ours();
    bed.switch.ofctl(&["--strict", "mod-flows", "br0", "priority=1,dl_vlan=1,actions=output:p2"]);
    eventually("it is as it was", || (bed.ours() == before).then_some(()));
}

#[test]
fn a_rule_in_our_cookie_space_that_nobody_asked_for_goes() {
    let bed = Bed::start();
    bed.apply(&[rule(1, "p1")]);
    let before = bed.ours();
    bed.switch.ofctl(&["add-flow", "br0", "cookie=0x4d550000000000aa,priority=9,in_port=p1,actions=drop"]);
    eventually("it is gone", || (bed.ours() == before).then_some(()));
}

#[test]
fn foreign_rules_are_left_alone_and_shown() {
    let bed = Bed::start();
    let foreign = "cookie=0x5,priority=77,in_port=p1,actions=output:p2";
    bed.switch.ofctl(&["add-flow", "br0", foreign]);
    bed.apply(&[rule(1, "p1")]);
    bed.site.ok(&["flow", "reconcile", "web-1/br0"]);
    bed.site.ok(&["flow", "purge", "web-1/br0", "--wait"]);
    assert!(bed.all().iter().any(|flow| flow.contains("priority=77")), "{:?}", bed.all());

    let shown = bed.site.json(&["flow", "list", "web-1/br0", "--foreign"]);
    let shown = shown.as_array().unwrap();
    assert!(shown.iter().any(|row| row["priority"] == 77), "{shown:?}");
    // It takes no place of theirs.
    let place =
        json!({"device": "web-1/br0", "priority": 77, "selector": {"in_port": "p1"}, "treatment": []});
    let file = bed.site.file(&json!({ "rules": [place] }).to_string());
    bed.site.muster(&["flow", "apply", "-f", &file, "--wait"]).refused(1, &[]);
    assert!(bed.all().iter().any(|flow| flow.contains("priority=77") && flow.contains("output:p2")));
}

#[test]
fn foreign_rules_are_imported_where_that_is_asked_for() {
    let bed = Bed::start();
    bed.apply(&[rule(1, "p1")]);
    bed.switch.ofctl(&["add-flow", "br0", "cookie=0x5,priority=77,in_port=p1,actions=output:p2"]);
    bed.site.ok(&["flow", "reconcile", "web-1/br0", "--foreign", "import"]);
    eventually("it is ours", || {
        bed.list().iter().any(|row| row["priority"] == 77 && row["state"] == "ADDED").then_some(())
    });
    assert!(bed.ours().iter().any(|flow| flow.contains("priority=77,in_port=p1 actions=output:p2")));
}

#[test]
fn a_bridge_that_disappears_and_returns_is_filled_again() {
    let bed = Bed::start();
    bed.apply(&[rule(1, "p1"), rule(2, "p2")]);
    bed.switch.vsctl("del-br br0");
    eventually("it is missed", || {
        let devices = bed.site.json(&["flow", "devices"]);
        (devices[0]["switch"] == "absent").then_some(())
    });
    bed.switch.bridge("br0", &["p1", "p2"]);
    eventually("it is filled", || (bed.held().len() == 2).then_some(()));
    bed.until_equal("the controller agrees");
}

#[test]
fn a_node_that_was_away_gets_what_was_asked_meanwhile() {
    let mut bed = Bed::start();
    bed.apply(&[rule(1, "p1"), rule(2, "p1")]);
    bed.agent.daemon.kill();
    bed.site.until_node("web-1", "offline");
    let file = bed.site.file(&json!({"rules": [rule(1, "p2"), rule(3, "p2")]}).to_string());
    bed.site.ok(&["flow", "apply", "-f", &file]);
    bed.switch.ofctl(&["--strict", "del-flows", "br0", "priority=1,dl_vlan=2"]);
    bed.agent.daemon.restart();
    let held = bed.until_equal("it has caught up");
    assert_eq!(held.len(), 3);
    assert_eq!(held.iter().filter(|(_, port)| port == "p2").count(), 2);
}

#[test]
fn a_controller_that_was_killed_knows_its_tables() {
    let mut bed = Bed::start();
    bed.apply(&[rule(1, "p1"), rule(2, "p1")]);
    let before = bed.list();
    bed.site.restart();
    bed.site.until_node("web-1", "online");
    let ids = |rows: &[serde_json::Value]| {
        rows.iter().map(|row| (row["id"].clone(), row["state"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(&bed.list()), ids(&before));
    bed.apply(&[rule(3, "p1")]);
    assert_eq!(bed.until_equal("all are there").len(), 3);
}
