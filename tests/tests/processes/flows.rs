//! Flow rules on a real Open vSwitch: what the controller's table says and what the switch holds are the same, whatever
//! happens between them. `MUSTER_SOAK=N` repeats the restarts of the switch N times.

mod killed;
mod repair;
mod restart;
mod server;
mod waiting;

use muster_testbed::eventually;
use serde_json::{Value, json};
pub use server::FlowServer;
use server::rule;

#[test]
fn rules_are_applied_listed_explained_and_deleted() {
    let server = FlowServer::start();
    let file = server.site.file(
        "rules:\n- {device: web-1/br0, priority: 100, selector: {eth_type: 0x0800, ipv4_dst: 10.0.0.0/24}, treatment: \
         [{output: p2}]}\n- {device: web-1/br0, table: 1, priority: 7, selector: {in_port: p1, vlan_vid: 10}, \
         treatment: [pop_vlan, {output: LOCAL}]}\n",
    );
    let said = server.site.ok(&["flow", "apply", "-f", &file, "--wait"]);
    assert!(said.contains("COMPLETE") && said.contains("2 rules on 1 device"), "{said}");
    let ours = server.ours();
    assert_eq!(ours.len(), 2, "{ours:?}");
    assert!(
        ours.iter().any(|flow| flow.contains("priority=100,ip,nw_dst=10.0.0.0/24 actions=output:p2")),
        "{ours:?}"
    );
    assert!(
        ours.iter().any(|flow| flow.contains("table=1") && flow.contains("actions=pop_vlan,output:br0")
            || flow.contains("actions=pop_vlan,LOCAL")),
        "{ours:?}"
    );

    let list = server.list();
    assert_eq!(list.len(), 2);
    let mut keys: Vec<&str> = list[0].as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let wanted = "bytes device duration error id packets priority selector state table treatment";
    assert_eq!(keys.join(" "), wanted);
    let first = list.iter().find(|row| row["table"] == 0).unwrap();
    assert_eq!(first["state"], "ADDED");
    assert_eq!(first["selector"], json!({"eth_type": 2048, "ipv4_dst": "10.0.0.0/24"}));
    assert_eq!(first["treatment"], json!([{"output": "p2"}]));
    assert!(ours.iter().any(|flow| flow.contains(first["id"].as_str().unwrap())), "{ours:?}");
    let of_table = server.site.json(&["flow", "list", "web-1/br0", "--table", "1"]);
    assert_eq!(of_table.as_array().unwrap().len(), 1);
    let failed = server.site.json(&["flow", "list", "web-1/br0", "--state", "failed"]);
    assert_eq!(failed, json!([]));

    let id = first["id"].as_str().unwrap();
    let shown = server.site.ok(&["flow", "show", "web-1/br0", id]);
    assert!(shown.contains("ADDED") && shown.to_lowercase().contains("operator"), "{shown}");
    server.site.ok(&["flow", "delete", "web-1/br0", id, "--wait"]);
    assert_eq!(server.ours().len(), 1);
    assert_eq!(server.list().len(), 1);
    server.site.ok(&["flow", "purge", "web-1/br0", "--wait"]);
    assert_eq!(server.ours(), [""; 0]);
}

#[test]
fn the_same_place_with_another_treatment_keeps_id_and_counters() {
    let server = FlowServer::start();
    server.apply(&[rule(5, "p1")]);
    let before = server.list();
    server.apply(&[rule(5, "p2")]);
    let after = server.list();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0]["id"], before[0]["id"]);
    assert!(server.ours()[0].contains("actions=output:p2"), "{:?}", server.ours());
}

#[test]
fn a_batch_of_ten_thousand_with_one_bad_rule_leaves_nothing() {
    let server = FlowServer::start();
    for (bad, named) in [
        (
            json!({"device": "web-1/br0", "priority": 9, "selector": {"vlan_vid": 4000}, "treatment": [{"output": "nowhere9"}]}),
            "nowhere9",
        ),
        (
            json!({"device": "web-1/br0", "priority": 9, "selector": {"vlan_vid": 4000}, "treatment": [{"group": 77}]}),
            "group",
        ),
    ] {
        let mut rules: Vec<Value> = (0..10_000).map(|n| rule(n, "p1")).collect();
        rules[6000] = bad;
        let file = server.site.file(&json!({ "rules": rules }).to_string());
        let ran = server.site.muster(&["flow", "apply", "-f", &file, "--wait"]).expect(1);
        let error = ran.stderr;
        assert!(error.to_lowercase().contains(named), "{error}");
        assert_eq!(server.ours(), [""; 0]);
        let blamed = server.site.json(&["flow", "list", "web-1/br0", "--state", "failed"]);
        let blamed = blamed.as_array().unwrap().iter().find(|row| row["priority"] == 9);
        let id = blamed.expect("the bad rule is listed")["id"].as_str().unwrap();
        assert!(error.contains(id), "{id} is not named in: {error}");
    }
}

#[test]
fn a_bad_file_is_refused_with_its_line_and_nothing_is_sent() {
    let server = FlowServer::start();
    let good = "- {device: web-1/br0, priority: 1, selector: {in_port: p1}, treatment: []}\n";
    for (bad, wanted) in [
        ("- {device: web-1/br0, priority: 65536}\n", "priority: want a whole number from 0 to 65535"),
        ("- {device: web-1/br0, priority: 1, selector: {tcp_dst: 80}}\n", "tcp_dst needs"),
        (
            "- {device: web-1/br0, priority: 1, selector: {eth_type: 0x0800, ipv4_dst: 10.0.0.1/24}}\n",
            "10.0.0.0/24",
        ),
        ("- {device: web-1/br0, priority: 1, treatment: [{output: 1}]}\n", "named by their interface"),
        (good, "the same device, table, priority and selector as the rule at line 2"),
    ] {
        let file = server.site.file(&format!("rules:\n{good}{bad}"));
        server.site.muster(&["flow", "apply", "-f", &file]).refused(2, &[":3:", "rules[1]", wanted]);
    }
    assert_eq!(server.ours(), [""; 0]);
    server.site.muster(&["flow", "show", "web-1/br0", "4d55000000000000"]).refused(1, &[]);
    server.site.muster(&["flow", "show", "web-1/br0", "12"]).expect(2);
    server.site.muster(&["flow", "list", "web-1"]).expect(2);
}

#[test]
fn stages_follow_one_another_and_stop_at_a_failure() {
    let server = FlowServer::start();
    let bad = json!({"device": "web-1/br0", "priority": 9, "treatment": [{"output": "nowhere9"}]});
    let file = server
        .site
        .file(&json!({"stages": [[rule(1, "p1")], [rule(2, "p1"), bad], [rule(3, "p1")]]}).to_string());
    server.site.muster(&["flow", "apply", "-f", &file, "--wait"]).refused(1, &["stage 2 of 3", "nowhere9"]);
    let ours = server.ours();
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert!(ours[0].contains("dl_vlan=1 "), "{ours:?}");

    let file =
        server.site.file(&json!({"stages": [[rule(1, "p2")], [rule(2, "p2")], [rule(3, "p2")]]}).to_string());
    server.site.ok(&["flow", "apply", "-f", &file, "--wait"]);
    assert_eq!(server.ours().iter().filter(|flow| flow.contains("output:p2")).count(), 3);
}

#[test]
fn groups_and_meters_come_before_the_rules_that_need_them() {
    let server = FlowServer::start();
    let file = json!({
        "rules": [{"device": "web-1/br0", "priority": 1, "treatment": [{"group": 7}]}],
        "groups": [{"device": "web-1/br0", "group": 7, "type": "select",
            "buckets": [{"treatment": [{"output": "p1"}]}, {"weight": 2, "treatment": [{"output": "p2"}]}]}],
    });
    server.site.ok(&["flow", "apply", "-f", &server.site.file(&file.to_string()), "--wait"]);
    assert!(server.ours()[0].contains("actions=group:7"), "{:?}", server.ours());
    assert!(server.switch.ofctl(&["dump-groups", "br0"]).contains("group_id=7,type=select"));
    server.site.ok(&["flow", "purge", "web-1/br0", "--wait"]);
    assert_eq!(server.ours(), [""; 0]);
    assert!(!server.switch.ofctl(&["dump-groups", "br0"]).contains("group_id"));
}

#[test]
fn a_purge_that_only_forgets_leaves_the_switch_alone() {
    let server = FlowServer::start();
    server.apply(&[rule(1, "p1")]);
    server.site.ok(&["flow", "purge", "web-1/br0", "--forget", "--wait"]);
    // What the agent said before it was told to forget may come afterwards.
    eventually("there is no list", || {
        let list = server.site.muster(&["flow", "list", "web-1/br0"]);
        (list.status == 1 && list.stderr.contains("no flow rules of device 'web-1/br0'")).then_some(())
    });
    assert_eq!(server.ours().len(), 1);
}

#[test]
fn a_rule_that_ended_by_its_hard_timeout_stays_gone() {
    let server = FlowServer::start();
    let mut short = rule(1, "p1");
    short["hard_timeout"] = json!(1);
    server.apply_some_short(&[short.clone(), rule(2, "p1")]);
    eventually("it has ended", || (server.ours().len() == 1).then_some(()));
    eventually("it is known to have ended", || {
        let list = server.list();
        list.iter().any(|row| row["state"].as_str().unwrap().eq_ignore_ascii_case("expired")).then_some(())
    });
    server.site.ok(&["flow", "reconcile", "web-1/br0"]);
    assert_eq!(server.ours().len(), 1);
    server.apply_some_short(&[short]);
    eventually("it ends again", || (server.ours().len() == 1).then_some(()));
}

/// A rule of the highest priority that drops everything on the bridge that the node is managed over.
#[test]
fn a_rule_that_cuts_the_node_off_is_taken_back_and_failed() {
    let server = FlowServer::managed_over_a_bridge();
    server.apply_to("br-mgmt", &[json!({"device": "web-1/br-mgmt", "priority": 3, "selector": {"in_port": "up0"}, "treatment": [{"output": "NORMAL"}]})]);
    let drop = json!({"confirm_timeout": 3, "rules": [{"device": "web-1/br-mgmt", "priority": 65535, "treatment": []}]});
    let file = server.site.file(&drop.to_string());
    let ran = server.site.muster(&["flow", "apply", "-f", &file, "--wait"]).expect(1);
    assert!(ran.stderr.contains("restored"), "{}", ran.stderr);
    assert!(
        !server.dump("br-mgmt").iter().any(|flow| flow.contains("priority=65535")),
        "{:?}",
        server.dump("br-mgmt")
    );
    eventually("the node is online", || (server.site.node_state("web-1")? == "online").then_some(()));
    let list = server.site.json(&["flow", "list", "web-1/br-mgmt", "--state", "failed"]);
    assert_eq!(list[0]["priority"], 65535, "{list}");
    server.apply_to(
        "br-mgmt",
        &[json!({"device": "web-1/br-mgmt", "priority": 4, "selector": {"vlan_vid": 9}, "treatment": []})],
    );
}

#[test]
fn a_stack_orders_bridge_rules_and_what_follows() {
    let server = FlowServer::start();
    let template = |port: &str| {
        server.site.file(&format!(
            "heat_template_version: 2018-08-31
resources:
  group:
    type: Muster::FlowGroup
    properties: {{device: web-1/br0, group: 5, type: indirect, buckets: [{{treatment: [{{output: {port}}}]}}]}}
  table:
    type: Muster::FlowTable
    depends_on: group
    properties:
      device: web-1/br0
      table: 2
      rules:
      - {{priority: 1, selector: {{in_port: p1}}, treatment: [{{group: 5}}]}}
      - {{priority: 2, selector: {{in_port: p2}}, treatment: []}}
  rule:
    type: Muster::FlowRule
    depends_on: table
    properties: {{device: {{get_attr: [table, device]}}, priority: 100, treatment: [{{goto_table: 2}}]}}
  service:
    type: Muster::Dummy
    properties: {{node: web-1, values: {{rule: {{get_attr: [rule, id]}}}}}}
outputs:
  served: {{value: {{get_attr: [service, rule]}}}}
"
        ))
    };
    server.site.ok(&["stack", "create", "flows", "-t", &template("p1"), "--wait"]);
    assert_eq!(server.ours().len(), 3);
    let id = server.list().iter().find(|row| row["priority"] == 100).unwrap()["id"].clone();
    let outputs = server.site.json(&["stack", "outputs", "flows"]);
    assert_eq!(outputs[0]["value"], id, "{outputs}");
    let taken = server
        .site
        .file(&json!({"rules": [{"device": "web-1/br0", "priority": 100, "treatment": []}]}).to_string());
    server.site.muster(&["flow", "apply", "-f", &taken, "--wait"]).refused(1, &["flows"]);
    server.site.ok(&["stack", "update", "flows", "-t", &template("p2"), "--wait"]);
    assert!(server.switch.ofctl(&["dump-groups", "br0"]).contains("output:p2"));
    server.site.ok(&["stack", "delete", "flows", "--wait"]);
    assert_eq!(server.ours(), [""; 0]);
}

#[test]
fn a_stack_whose_rule_names_no_port_fails_and_says_which() {
    let server = FlowServer::start();
    let template = server.site.file(
        "heat_template_version: 2018-08-31\nresources:\n  rule:\n    type: Muster::FlowRule\n    properties: {device: \
         web-1/br0, priority: 1, treatment: [{output: nowhere9}]}\n",
    );
    server
        .site
        .muster(&["stack", "create", "flows", "-t", &template, "--wait"])
        .refused(1, &["rule", "nowhere9"]);
    assert_eq!(server.ours(), [""; 0]);
    server.site.ok(&["stack", "delete", "flows", "--wait"]);
}

#[test]
fn counters_are_told_by_rule_table_and_owner() {
    let server = FlowServer::start();
    server.apply(&[rule(1, "p1"), rule(2, "p1")]);
    let stats = server.site.json(&["flow", "stats", "web-1/br0"]);
    let table = stats["tables"].as_array().unwrap().iter().find(|table| table["table"] == 0).unwrap();
    assert!(table["active"].as_u64().unwrap() >= 2, "{stats}");
    let owner = &stats["owners"][0];
    assert_eq!(owner["rules"], 2, "{stats}");
    let list = server.list();
    assert!(list.iter().all(|row| row["packets"] == 0), "{list:?}");
}
