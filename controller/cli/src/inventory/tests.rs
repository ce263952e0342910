use muster_api::node::NodeView;
use serde_json::json;

use super::*;

fn node(name: &str, state: &str, labels: &[(&str, &str)]) -> NodeView {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    NodeView {
        name: name.to_owned(),
        state: state.to_owned(),
        agent_version: "0.2.0".to_owned(),
        labels,
        ..NodeView::default()
    }
}

fn inventory(nodes: impl IntoIterator<Item = NodeView>) -> Value {
    let mut groups = Groups::default();
    nodes.into_iter().for_each(|node| groups.add(node));
    groups.document()
}

#[test]
fn a_small_inventory() {
    let facts = json!({
        "hostname": "web-1",
        "links": [{"name": "eth0", "neighbours": [{"system_name": "{{ lookup('pipe', 'id') }}"}]}],
    });
    let web1 = NodeView {
        address: Some([192, 0, 2, 10].into()),
        facts: facts.as_object().cloned(),
        ..node("web-1.example.org", "online", &[("role", "web"), ("zone", "a")])
    };
    let inventory = inventory([
        web1,
        node("web-2.example.org", "maintenance", &[("role", "web")]),
        node("db-1.example.org", "revoked", &[]),
        node("old.example.org", "lost", &[("role", "web")]),
    ]);
    insta::assert_snapshot!(format!("{inventory:#}"));
}

#[test]
fn without_nodes_there_are_the_groups_of_states() {
    let none = json!({"hosts": []});
    assert_eq!(
        inventory([]),
        json!({
            "_meta": {"hostvars": {}}, "all": {"children": ["maintenance", "offline", "online", "ungrouped"]},
            "online": none, "offline": none, "maintenance": none, "ungrouped": none,
        })
    );
}

#[test]
fn labels_that_share_a_group_lose_no_node() {
    let inventory = inventory([
        node("a", "online", &[("app.kubernetes.io/name", "x"), ("app-kubernetes-io:name", "x")]),
        node("b", "online", &[("app-kubernetes-io:name", "x")]),
        node("c", "online", &[("app.kubernetes.io/name", "x")]),
    ]);
    assert_eq!(inventory["app_kubernetes_io_name_x"], json!({"hosts": ["a", "b", "c"]}));
}

#[test]
fn names_of_groups() {
    for (label, wanted) in [
        (("role", "web"), "role_web"),
        (("role", ""), "role_"),
        (("rack", "7"), "rack_7"),
        (("7", "a"), "__a"),
        (("-a", "b.c/d:e"), "_a_b_c_d_e"),
        (("Rolle", "bär"), "Rolle_b_r"),
    ] {
        let found = groups_of(&node("a", "revoked", &[label]));
        assert_eq!(found, [wanted.to_owned()].into(), "{label:?}");
    }
}

#[test]
fn each_state_has_its_group() {
    for (state, wanted) in [
        ("online", Some("online")),
        ("disk_full", Some("online")),
        ("offline", Some("offline")),
        ("maintenance", Some("maintenance")),
        ("conflict", None),
        ("revoked", None),
        ("a later state", None),
    ] {
        let found = groups_of(&node("a", state, &[]));
        assert_eq!(found, wanted.map(str::to_owned).into_iter().collect(), "{state}");
        let inventory = inventory([node("a", state, &[])]);
        let ungrouped = if wanted.is_none() { json!(["a"]) } else { json!([]) };
        assert_eq!(inventory["ungrouped"]["hosts"], ungrouped, "{state}");
        assert_eq!(inventory["_meta"]["hostvars"]["a"]["muster_state"], state);
    }
}

#[test]
fn no_text_of_an_agent_is_a_template() {
    for (text, is_marked) in [
        ("Debian GNU/Linux 12 (bookworm)", false),
        ("a # b", false),
        ("{{ 7 * 7 }}", true),
        ("x{% if a %}", true),
        ("{# a #}", true),
        ("#jinja2: variable_start_string: '['\n[ 7 ]", true),
    ] {
        let wanted = if is_marked { json!({ "__ansible_unsafe": text }) } else { json!(text) };
        assert_eq!(literal(json!({"a": [text, 1, null]})), json!({"a": [wanted, 1, null]}));
    }
}
