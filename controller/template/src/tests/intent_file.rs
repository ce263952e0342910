//! Intent files: what is read is what is printed, faults come with their places.

use serde_json::{Map, Value, json};

use crate::{IntentFile, IntentLimits, wish_json};

fn read(text: &str) -> Result<IntentFile, String> {
    IntentFile::parse("intents.yaml", text, IntentLimits::default()).map_err(|errors| errors.to_string())
}

/// The content of an intent file, as JSON again.
fn said(file: &IntentFile) -> Value {
    let one = |(key, wish): &(Box<str>, muster_intent::manager::Wish)| {
        let mut map = wish_json(&wish.intent, wish.group.as_deref());
        map.insert("key".into(), json!(key));
        Value::Object(map)
    };
    json!({"intents": file.intents.iter().map(one).collect::<Value>()})
}

const YAML: &str = "
# a comment
intents:
- {key: a-to-b, type: point_to_point, from: {device: web-1/br0, port: host0}, to: {device: web-2/br0, port: host0}}
- key: all/of.it
  type: point_to_point
  from: {device: web-1.example/br0, port: Host0}
  to: [{device: web-2/br0, port: host0}]
  selector: {ipv4_dst: 10.0.0.0/24, eth_type: 0x0800}
  treatment: [{set_eth_dst: '52:54:00:12:34:56'}, dec_ttl]
  constraints:
  - {bandwidth: 1e6}
  - {latency: 0.01}
  - {waypoints: [web-3/br0, web-4/br0]}
  - {obstacles: [web-5/br0, {from: {device: web-1/br0, port: p1}, to: {device: web-2/br0, port: p1}}]}
  - {link_type: {without: [microwave, adsl]}}
  - {annotations: {metric: 10, hops.max: '2.5'}}
  - encapsulation: vlan
  - {resource_group: backup}
  priority: 200
- key: spread
  type: single_point_to_multi_point
  from: {device: web-1/br0, port: host0}
  to: [{device: web-2/br0, port: host0}, {device: web-3/br0, port: host0}]
  constraints: [partial_failure, {protection: false}, {link_type: {only: [fibre]}}]
- key: gather
  type: multi_point_to_single_point
  from: [{device: web-2/br0, port: host0}, {device: web-3/br0, port: host0}]
  to: {device: web-1/br0, port: host0}
- key: tree
  type: link_collection
  links: [{from: {device: web-1/br0, port: p1}, to: {device: web-2/br0, port: p1}}]
  from: {device: web-1/br0, port: host0}
  to: {device: web-2/br0, port: host0}
- {key: hosts, type: host_to_host, from: {host: '52:54:00:AA:00:01'}, to: {host: '52:54:00:aa:00:02'}, selector: {eth_type: 0x0800}, constraints: [asymmetric]}
- {key: safe, type: point_to_point, from: {device: a/b, port: x}, to: {device: c/d, port: y}, constraints: [protection]}
";

#[test]
fn what_is_read_is_what_is_printed() {
    let file = read(YAML).expect("right");
    let printed = said(&file);
    for text in [printed.to_string(), format!("\n  {printed:#}\n"), serde_json::to_string(&printed).unwrap()]
    {
        assert_eq!(read(&text).expect("right"), file);
    }
    let keys: Vec<&str> = file.intents.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["a-to-b", "all/of.it", "spread", "gather", "tree", "hosts", "safe"]);
    assert_eq!(printed["intents"][5]["from"], json!({"host": "52:54:00:aa:00:01"}));
    let (_, plain) = &file.intents[0];
    assert_eq!((plain.intent.priority, &plain.group), (100, &None));
    let point = |device: &str, port: &str| json!({"device": device, "port": port});
    let wanted = json!({
        "key": "all/of.it",
        "type": "point_to_point",
        "from": point("web-1.example/br0", "Host0"),
        "to": point("web-2/br0", "host0"),
        "selector": {"eth_type": 2048, "ipv4_dst": "10.0.0.0/24"},
        "treatment": [{"set_eth_dst": "52:54:00:12:34:56"}, {"dec_ttl": true}],
        "constraints": [
            {"bandwidth": 1_000_000},
            {"latency": 0.01},
            {"waypoints": ["web-3/br0", "web-4/br0"]},
            {"obstacles": ["web-5/br0", {"from": point("web-1/br0", "p1"), "to": point("web-2/br0", "p1")}]},
            {"link_type": {"without": ["adsl", "microwave"]}},
            {"annotations": {"hops.max": 2.5, "metric": 10.0}},
            {"encapsulation": "vlan"},
            {"resource_group": "backup"},
        ],
        "priority": 200,
    });
    assert_eq!(printed["intents"][1], wanted);
    assert_eq!(file.intents[1].1.intent.constraints.latency, Some(10_000_000));
    let spread = json!([{"link_type": {"only": ["fibre"]}}, {"partial_failure": true}]);
    assert_eq!(printed["intents"][2]["constraints"], spread);
    assert_eq!(printed["intents"][5]["constraints"], json!([{"asymmetric": true}]));
    assert_eq!(printed["intents"][6]["constraints"], json!([{"protection": true}]));
}

#[test]
fn nothing_is_asked_for_by_an_empty_list() {
    for text in ["intents: []\n", "intents:\n", "{\"intents\": []}"] {
        assert_eq!(read(text).expect(text), IntentFile::default(), "{text}");
    }
}

/// The first line of what is said of a file with this one intent, which begins at 2:3; a change of null takes
/// a key away.
fn refused(change: Value) -> String {
    let mut map: Map<String, Value> = json!({
        "key": "k", "type": "point_to_point", "from": {"device": "a/br0", "port": "h"}, "to": {"device": "b/br0", "port": "h"}
    })
    .as_object()
    .unwrap()
    .clone();
    for (key, value) in change.as_object().unwrap() {
        map.remove(key);
        if !value.is_null() {
            map.insert(key.clone(), value.clone());
        }
    }
    let text = format!("intents:\n- {}\n", Value::Object(map));
    let said = read(&text).expect_err(&text);
    let line = said.lines().next().unwrap();
    let (_, said) = line.split_once(": ").unwrap();
    said.to_owned()
}

#[test]
fn faults_are_named() {
    let point = |device: &str| json!({"device": device, "port": "h"});
    let rows = [
        (json!({"key": null}), "intents[0].key: this must be given: a name of your own"),
        (json!({"key": ""}), "intents[0].key: want a key of 1 to 255 bytes without control characters"),
        (json!({"key": 5}), "intents[0].key: want a key, which is text, got a number"),
        (
            json!({"type": null}),
            "intents[0].type: this must be given: point_to_point, single_point_to_multi_point, multi_point_to_single_point, link_collection, host_to_host",
        ),
        (
            json!({"type": "point_to_pont"}),
            "intents[0].type: there is no type of intent 'point_to_pont'; did you mean 'point_to_point'?",
        ),
        (
            json!({"from": {"host": "52:54:00:00:00:01"}}),
            "intents[0].from: hosts are connected by an intent of type host_to_host; want {device: NODE/BRIDGE, port: INTERFACE}",
        ),
        (
            json!({"type": "host_to_host"}),
            "intents[0].from: hosts are wherever they are: want {host: MAC}, without a device and a port",
        ),
        (
            json!({"type": "host_to_host", "from": {"host": "web-1"}}),
            "intents[0].from.host: want the MAC address of one interface, such as 52:54:00:12:34:56",
        ),
        (
            json!({"type": "host_to_host", "from": {"host": "FF:FF:FF:FF:FF:FF"}}),
            "intents[0].from.host: want the MAC address of one interface, such as 52:54:00:12:34:56",
        ),
        (
            json!({"type": "host_to_host", "from": {"host": "52:54:00:0A:00:01"}, "to": {"host": "52:54:00:0a:00:01"}}),
            "intents[0].to: 52:54:00:0a:00:01 is both hosts: want two different hosts",
        ),
        (
            json!({"type": "host_to_host", "from": {"host": "52:54:00:00:00:01"}, "to": {"host": "52:54:00:00:00:02"},
                "selector": {"eth_dst": "52:54:00:00:00:02"}}),
            "intents[0].selector.eth_dst: the selector has an 'eth_dst', which is that of the hosts",
        ),
        (json!({"to": null}), "intents[0].to: this must be given: {device: NODE/BRIDGE, port: INTERFACE}"),
        (json!({"prioity": 1}), "intents[0].prioity: an intent has no 'prioity'; did you mean 'priority'?"),
        (json!({"priority": 65535}), "intents[0].priority: want a whole number from 0 to 65534"),
        (json!({"from": "a/br0"}), "intents[0].from: want {device: NODE/BRIDGE, port: INTERFACE}, got text"),
        (
            json!({"from": {"device": "a", "port": "h"}}),
            "intents[0].from.device: 'a' is not a device: want NODE/BRIDGE, such as web-1/br0",
        ),
        (
            json!({"from": {"device": "a/br0"}}),
            "intents[0].from.port: this must be given: the name of an interface, such as eth1",
        ),
        (
            json!({"from": {"device": "a/br0", "port": 1}}),
            "intents[0].from.port: ports are named by their interface: numbers change when a port is made again",
        ),
        (
            json!({"from": {"device": "a/br0", "port": "LOCAL"}}),
            "intents[0].from.port: the bridge's own port goes by the bridge's name here",
        ),
        (
            json!({"from": {"device": "a/br0", "prot": "h"}}),
            "intents[0].from.prot: a point has no 'prot'; did you mean 'port'?",
        ),
        (
            json!({"to": [point("b/br0"), point("c/br0")]}),
            "intents[0].to: several points to go out: that is of type single_point_to_multi_point",
        ),
        (json!({"to": []}), "intents[0].to: want one point"),
        (
            json!({"to": point("a/br0")}),
            "intents[0].to: a/br0 port h is where packets come in and where they go out",
        ),
        (
            json!({"links": [{"from": point("a/br0"), "to": point("b/br0")}]}),
            "intents[0].links: only an intent of type link_collection says which links it takes",
        ),
        (
            json!({"selector": {"in_port": "h"}}),
            "intents[0].selector.in_port: packets come in at the port of 'from': leave it out",
        ),
        (
            json!({"selector": {"ipv4_dst": "10.0.0.1"}}),
            "intents[0].selector.ipv4_dst: ipv4_dst needs eth_type: 0x0800",
        ),
        (
            json!({"selector": {"ipv4_dts": "10.0.0.1"}}),
            "intents[0].selector.ipv4_dts: there is no field 'ipv4_dts'; did you mean 'ipv4_dst'?",
        ),
        (
            json!({"treatment": [{"set_vlan_pcp": 1}, {"output": "p1"}]}),
            "intents[0].treatment[1].output: where packets go is what 'to' says: an intent's treatment only changes them",
        ),
        (
            json!({"treatment": [{"goto_table": 1}]}),
            "intents[0].treatment[0].goto_table: this is for a rule's own treatment; here stand actions only",
        ),
        (
            json!({"treatment": [{"dec_ttl": true}]}),
            "intents[0].treatment[0].dec_ttl: dec_ttl needs eth_type: 0x0800 (or 0x86dd) in the selector",
        ),
        (
            json!({"constraints": {"bandwidth": 1}}),
            "intents[0].constraints: want a list, such as [{bandwidth: 1000000}], got a map",
        ),
        (
            json!({"constraints": [{"bandwidth": 1, "latency": 1}]}),
            "intents[0].constraints[0]: want a map of one key, such as {bandwidth: 1000000}, got one of 2 keys",
        ),
        (
            json!({"constraints": [{"bandwith": 1}]}),
            "intents[0].constraints[0].bandwith: there is no constraint 'bandwith'; did you mean 'bandwidth'?",
        ),
        (
            json!({"constraints": [{"latency": 1}, {"bandwidth": 0}]}),
            "intents[0].constraints[1].bandwidth: want bits per second, a whole number from 1 to 1000000000000000",
        ),
        (
            json!({"constraints": [{"bandwidth": 1.5}]}),
            "intents[0].constraints[0].bandwidth: want bits per second, a whole number from 1 to 1000000000000000",
        ),
        (
            json!({"constraints": [{"latency": 0}]}),
            "intents[0].constraints[0].latency: want seconds, such as 0.01: more than 0, at most 3600",
        ),
        (
            json!({"constraints": [{"latency": 1}, {"protection": true}, {"latency": 1}]}),
            "intents[0].constraints[2].latency: this was asked for at constraints[0] already",
        ),
        (
            json!({"constraints": [{"waypoints": ["a/br0", "c"]}]}),
            "intents[0].constraints[0].waypoints[1]: 'c' is not a device: want NODE/BRIDGE, such as web-1/br0",
        ),
        (
            json!({"constraints": [{"latency": 1}, {"waypoints": ["c/br0", "c/br0"]}]}),
            "intents[0].constraints[1].waypoints: the waypoint c/br0 is given twice, and a path passes a device once",
        ),
        (
            json!({"constraints": [{"obstacles": ["b/br0"]}]}),
            "intents[0].constraints[0].obstacles: b/br0 is an obstacle, and the intent begins or ends there",
        ),
        (
            json!({"constraints": [{"obstacles": [{"from": point("a/br0")}]}]}),
            "intents[0].constraints[0].obstacles[0].to: this must be given: a device and its port",
        ),
        (
            json!({"constraints": [{"link_type": ["x"]}]}),
            "intents[0].constraints[0].link_type: want {only: [TYPE, …]} or {without: [TYPE, …]}, got a list",
        ),
        (
            json!({"constraints": [{"link_type": {"only": []}}]}),
            "intents[0].constraints[0].link_type.only: want 1 to 256 types",
        ),
        (
            json!({"constraints": [{"link_type": {"only": ["a"], "without": ["b"]}}]}),
            "intents[0].constraints[0].link_type: want {only: [TYPE, …]} or {without: [TYPE, …]}",
        ),
        (
            json!({"constraints": [{"annotations": 5}]}),
            "intents[0].constraints[0].annotations: want {NAME: NUMBER, …}, such as {metric: 10}, got a number",
        ),
        (
            json!({"constraints": [{"annotations": {}}]}),
            "intents[0].constraints[0].annotations: want {NAME: NUMBER, …}, such as {metric: 10}: 1 to 64 annotations",
        ),
        (
            json!({"constraints": [{"annotations": {"metric": "few"}}]}),
            "intents[0].constraints[0].annotations.metric: want the largest number, got text",
        ),
        (
            json!({"constraints": ["asymmetric"]}),
            "intents[0].constraints[0].asymmetric: 'asymmetric' means nothing for an intent of type point_to_point",
        ),
        (
            json!({"constraints": [{"encapsulation": "mpls"}]}),
            "intents[0].constraints[0].encapsulation: want vlan or none, got 'mpls'",
        ),
        (
            json!({"constraints": [{"partial_failure": true}]}),
            "intents[0].constraints[0].partial_failure: 'partial_failure' means nothing for an intent of type point_to_point",
        ),
        (
            json!({"constraints": [{"protection": true}, {"encapsulation": "vlan"}]}),
            "intents[0].constraints[1].encapsulation: 'protection' and 'encapsulation' are not possible together",
        ),
        (
            json!({"constraints": [{"resource_group": ""}]}),
            "intents[0].constraints[0].resource_group: want a name of 1 to 255 bytes",
        ),
        (
            json!({"constraints": [5]}),
            "intents[0].constraints[0]: want a map of one key, such as {bandwidth: 1000000}, got a number",
        ),
    ];
    for (change, says) in rows {
        assert_eq!(refused(change.clone()), says, "{change}");
    }
}

#[test]
fn faults_are_told_with_their_places() {
    const GOOD: &str =
        "{key: k, type: point_to_point, from: {device: a/b, port: x}, to: {device: c/d, port: y}}";
    let yaml = |text: &str| text.replace("GOOD", GOOD);
    let rows = [
        ("", "intents.yaml:1:1: the intent file is empty"),
        ("5\n", "intents.yaml:1:1: an intent file is a map of sections; this is something else"),
        ("{}\n", "intents.yaml:1:1: the intent file has no intents: give 'intents: [...]'"),
        ("intent: []\n", "intents.yaml:1:1: an intent file has no section 'intent'; did you mean 'intents'?"),
        ("intents: 5\n", "intents.yaml:1:10: intents: want a list of intents; this is something else"),
        ("intents: [5]\n", "intents.yaml:1:11: intents[0]: want an intent, which is a map, got a number"),
        (
            "intents: []\nintents: []\n",
            "intents.yaml:2:1: the section 'intents' is given twice; the first is at 1:1",
        ),
        (
            "intents:\n- GOOD\n\n- GOOD\n",
            "intents.yaml:4:4: intents[1].key: this is the key of the intent at line 2",
        ),
        (
            "intents:\n- GOOD\n- key: x\n  type: point_to_point\n  from: {device: a/b, port: x}\n  to:\n    device: c/d\n    prt: y\n",
            "intents.yaml:8:5: intents[1].to.prt: a point has no 'prt'; did you mean 'port'?",
        ),
        (
            "{\"intents\": [\n {\"key\": \"x\",\n  \"type\": \"point\"}]}",
            "intents.yaml:3:3: intents[0].type: there is no type of intent 'point'; known are point_to_point, \
             single_point_to_multi_point, multi_point_to_single_point, link_collection, host_to_host",
        ),
        (
            "intents:\n- {key: k, key: l}\n",
            "intents.yaml:2:12: intents[0]: the key 'key' is given twice; the first is at 2:4",
        ),
    ];
    for (text, says) in rows {
        let text = yaml(text);
        let got = read(&text).expect_err(&text);
        assert_eq!(got.lines().next(), Some(says), "{text}");
    }
}

#[test]
fn bounds_hold() {
    let limits = IntentLimits { text: 1024, intents: 2 };
    let one = |n: usize| {
        format!(
            "- {{key: k{n}, type: point_to_point, from: {{device: a/b, port: x}}, to: {{device: c/d, port: y}}}}\n"
        )
    };
    let many = |count: usize| format!("intents:\n{}", (0..count).map(one).collect::<String>());
    assert_eq!(IntentFile::parse("f", &many(2), limits).unwrap().intents.len(), 2);
    let errors = IntentFile::parse("f", &many(3), limits).expect_err("one too many").to_string();
    assert_eq!(errors, "f:4:3: intents: more than 2 intents; split the file");
    let errors = IntentFile::parse("f", &"#".repeat(2000), limits).expect_err("too long").to_string();
    assert!(errors.starts_with("f: the intent file has 2000 bytes"), "{errors}");
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}{}", open.repeat(50_000), close.repeat(50_000));
        assert!(read(&format!("intents: {deep}")).is_err());
        assert!(read(&format!("{{\"intents\": [{deep}]}}")).is_err());
    }
    let wrong: String = (0..100).map(|n| format!("- {{key: k{n}}}\n")).collect();
    let said = read(&format!("intents:\n{wrong}")).expect_err("wrong");
    assert_eq!(said.lines().count(), crate::Limits::ERRORS + 1);
}
