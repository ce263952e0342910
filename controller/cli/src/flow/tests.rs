use serde_json::{Value, json};

use super::*;

fn row() -> Value {
    json!({"id": "4d55000000000001", "device": "web-1/br0", "kind": "rule", "table": 0, "priority": 5,
        "selector": {"in_port": "p1"}, "treatment": [{"push_vlan": 33024}, {"output": "p2"}], "idle_timeout": 0,
        "hard_timeout": 0, "state": "ADDED", "owner": "operator", "packets": 1, "bytes": 60, "duration": 3, "error": null})
}

fn rows(list: &Value) -> Vec<FlowView> {
    read(list).unwrap()
}

#[test]
fn a_list_for_machines_has_the_keys_of_the_contract() {
    let list = told(json!([row(), {"id": "x", "kind": "group", "group": 1}])).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut wanted = KEYS.map(str::to_owned).to_vec();
    wanted.sort();
    assert_eq!(keys(&list[0]), wanted);
    assert_eq!(list[0]["treatment"], row()["treatment"]);
    assert_eq!(keys(&list[1]), ["group", "id", "kind"]);
}

#[test]
fn a_list_for_people() {
    let mut drop = row();
    drop["treatment"] = json!([]);
    drop["selector"] = json!({});
    let group =
        json!({"id": "4d55000000000002", "kind": "group", "group": 1, "type": "all", "state": "ADDED"});
    let text = table(&FLOWS, &rows(&json!([row(), drop, group])));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[1],
        ["4d55000000000001", "0", "5", "in_port=p1", "push_vlan=33024,output=p2", "ADDED", "1", "60", "-"]
    );
    assert_eq!(lines[2][3..5], ["all", "drop"]);
    assert_eq!(lines[3], ["4d55000000000002", "-", "-", "-", "group=1,type=all", "ADDED", "-", "-", "-"]);
}

#[test]
fn a_rule_that_is_not_ours_is_told_as_the_device_has_it() {
    let foreign = json!({"id": null, "kind": "rule", "cookie": "0000000000000078", "text": "priority=6 learn",
        "device": "web-1/br0", "state": "FOREIGN", "owner": null});
    let list = told(json!([foreign])).unwrap();
    assert_eq!([&list[0]["cookie"], &list[0]["text"]], ["0000000000000078", "priority=6 learn"]);
    assert_eq!(treatment(&read(&foreign).unwrap()), "priority=6 learn");
}

#[test]
fn a_device_list_shows_pending_rules_and_every_problem() {
    let row = json!({"device": "web-1/br0", "node_state": "online", "switch": "watched", "rules": 9, "added": 6,
        "pending_add": 2, "pending_remove": 1, "failed": 0, "foreign": 4, "reason": "no such port", "import_error": "not imported"});
    let text = table(&DEVICES, &[read(&row).unwrap()]);
    let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        line,
        ["web-1/br0", "online", "watched", "9", "6", "3", "0", "4", "no", "such", "port;", "not", "imported"]
    );
    assert_eq!(reasons(&DeviceView::default()), "");
}

#[test]
fn an_explanation_comes_first() {
    let text = explained(
        &json!({"id": "4d55000000000001", "state": "ADDED", "explanation": ["It is there.", "a\u{1b}b"]}),
    )
    .unwrap();
    assert_eq!(text, "It is there.\na\\u{1b}b\n\nid     4d55000000000001\nstate  ADDED\n");
}
