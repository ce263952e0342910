//! Flow rules in a node's own packet filter, on a node without Open vSwitch.

use muster_testbed::{Namespace, eventually};
use muster_tests::site::{OneServer, Site};
use serde_json::{Value, json};

/// Our table on the node, as nft shows it; nothing if it is not there.
fn shown(server: &Namespace) -> String {
    match server.run("nft list tables").contains("inet muster") {
        true => server.run("nft list table inet muster"),
        false => String::new(),
    }
}

fn states(site: &Site) -> Vec<String> {
    let list = site.json(&["flow", "list", "web-1/nftables"]);
    let state = |row: &Value| row["state"].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(state).collect()
}

fn rule(priority: u16, selector: &Value, treatment: &Value) -> Value {
    json!({"device": "web-1/nftables", "priority": priority, "selector": selector, "treatment": treatment})
}

#[test]
fn rules_are_applied_repaired_and_taken_away() {
    let one = OneServer::new();
    let _web1 = one.join();
    let OneServer { site, server } = &one;
    let web = json!({"eth_type": 0x800, "ip_proto": 6, "tcp_dst": 80});
    let rules =
        [rule(100, &web, &json!([])), rule(90, &json!({"in_port": "up9"}), &json!([{"goto_table": 2}]))];
    let file = site.file(&json!({ "rules": rules }).to_string());
    site.ok(&["flow", "apply", "-f", &file, "--wait"]);
    assert_eq!(states(site), ["ADDED", "ADDED"]);
    let applied = shown(server);
    assert!(applied.contains("tcp dport 80 counter") && applied.contains("goto t2"), "{applied}");
    assert!(applied.contains("muster:4d55"), "{applied}");

    server.run("nft flush chain inet muster t0");
    let is_back = || shown(server).contains("tcp dport 80 counter").then_some(());
    eventually("the rules are back", is_back);
    server.run("nft flush ruleset");
    eventually("the table is back", is_back);

    let group = rule(5, &json!({}), &json!([{"output": "up0"}]));
    let file = site.file(&json!({ "rules": [group] }).to_string());
    let ran = site.muster(&["flow", "apply", "-f", &file, "--wait"]).expect(1);
    assert!(ran.stderr.contains("NORMAL only"), "{}", ran.stderr);
    site.ok(&["flow", "purge", "web-1/nftables", "--wait"]);
    assert_eq!(shown(server), "");
}

/// A rule of the highest priority that drops everything that comes in.
#[test]
fn an_nftables_rule_that_cuts_off_its_node_is_undone() {
    let one = OneServer::new();
    let _web1 = one.join();
    let OneServer { site, server } = &one;
    let kept = rule(3, &json!({"in_port": "up9"}), &json!([]));
    let file = site.file(&json!({ "rules": [kept] }).to_string());
    site.ok(&["flow", "apply", "-f", &file, "--wait"]);
    let drop = json!({"confirm_timeout": 3, "rules": [rule(65535, &json!({}), &json!([]))]});
    let file = site.file(&drop.to_string());
    let ran = site.muster(&["flow", "apply", "-f", &file, "--wait"]).expect(1);
    assert!(ran.stderr.contains("4d55"), "{}", ran.stderr);
    let left = shown(server);
    assert!(left.contains("up9") && !left.contains(" 65535\""), "{left}");
    eventually("the node is online", || (site.node_state("web-1")? == "online").then_some(()));
    let failed = site.json(&["flow", "list", "web-1/nftables", "--state", "failed"]);
    assert_eq!(failed[0]["priority"], 65535, "{failed}");
    let next = rule(4, &json!({"in_port": "up8"}), &json!([]));
    let file = site.file(&json!({ "rules": [next] }).to_string());
    site.ok(&["flow", "apply", "-f", &file, "--wait"]);
}
