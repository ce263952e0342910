//! Flow files: both forms read to the same, faults come with their places.

use std::fmt::Write;

use muster_shared::model::flow::Entry;
use serde_json::{Value, json};

use crate::{FlowFile, FlowLimits};

fn read(text: &str) -> Result<FlowFile, String> {
    FlowFile::parse("flows.yaml", text, FlowLimits::default()).map_err(|errors| errors.to_string())
}

fn refused(text: &str) -> String {
    read(text).expect_err(text)
}

/// The content of a flow file, as JSON again.
fn said(file: &FlowFile) -> Value {
    let part = |part: &crate::FlowPart| {
        let entries: Vec<Value> = part
            .entries
            .iter()
            .map(|(id, packed)| {
                let entry = packed.unpack();
                assert_eq!(entry.id(&part.device), *id);
                Value::Object(entry.to_json())
            })
            .collect();
        json!({"device": part.device.to_string(), "entries": entries})
    };
    file.stages.iter().map(|stage| stage.iter().map(part).collect::<Value>()).collect()
}

const YAML: &str = "
# a comment
confirm_timeout: 30
rules:
- {device: web-1/br0, priority: 100, selector: {eth_type: 0x0800, ipv4_dst: 10.0.0.0/24}, treatment: [{group: 1}]}
- device: web-2/br0
  priority: 5
  treatment: []
- device: web-1/br0
  priority: 100
  selector: {eth_type: 0x0806}
  treatment:
  - output: NORMAL
groups:
- {device: web-1/br0, group: 1, type: all, buckets: [{treatment: [{output: p1}]}]}
meters:
- {device: web-1/br0, meter: 1, bands: [{rate: 1000}]}
";

#[test]
fn yaml_and_json_read_to_the_same() {
    let file = read(YAML).expect("right");
    assert_eq!(file.confirm_timeout, Some(30));
    assert_eq!(file.len(), 5);
    let [stage] = &file.stages[..] else { panic!("one stage") };
    assert_eq!(stage[0].device.to_string(), "web-1/br0");
    let kinds: Vec<bool> =
        stage[0].entries.iter().map(|(_, packed)| matches!(packed.unpack(), Entry::Rule(_))).collect();
    assert_eq!(kinds, [false, false, true, true], "the meter and the group come before the rules");

    let sections = json!({
        "meters": [{"device": "web-1/br0", "meter": 1, "bands": [{"rate": 1000}]}],
        "rules": [
            {"device": "web-1/br0", "priority": 100, "selector": {"eth_type": "0x0800", "ipv4_dst": "10.0.0.0/24"},
                "treatment": [{"group": 1}]},
            {"device": "web-2/br0", "priority": 5, "treatment": []},
            {"device": "web-1/br0", "priority": 100, "selector": {"eth_type": 0x0806}, "treatment": [{"output": "NORMAL"}]},
        ],
        "groups": [{"device": "web-1/br0", "group": 1, "type": "all", "buckets": [{"treatment": [{"output": "p1"}]}]}],
        "confirm_timeout": 30,
    });
    for text in [sections.to_string(), format!("\n  {sections:#}\n")] {
        let again = read(&text).expect("right");
        assert_eq!(said(&again), said(&file));
        assert_eq!(again, file);
    }
}

#[test]
fn stages_keep_their_order() {
    let file = read(
        "stages:
- - {device: b/br0, priority: 1}
  - {device: a/br0, group: 1, type: all, buckets: []}
- - {device: a/br0, priority: 1, treatment: [{group: 1}]}
",
    )
    .expect("right");
    let devices =
        |stage: usize| file.stages[stage].iter().map(|part| part.device.to_string()).collect::<Vec<_>>();
    assert_eq!((devices(0), devices(1)), (vec!["a/br0".into(), "b/br0".into()], vec!["a/br0".to_owned()]));
}

#[test]
fn faults_are_told_with_line_and_path_in_yaml() {
    let rows = [
        (
            "rules:\n- device: a/br0\n  priority: 1\n  selector: {ip_proto: 6, tcp_dst: 80}\n",
            "flows.yaml:4:14: rules[0].selector.ip_proto: ip_proto needs eth_type: 0x0800 (or 0x86dd)",
        ),
        (
            "rules:\n- {device: a/br0, priority: 1}\n- {device: a/br0,\n   priority: 1}\n",
            "flows.yaml:3:3: rules[1]: this has the same device, table, priority and selector as the rule at line 2",
        ),
        (
            "rules:\n- {priority: 1}\n",
            "flows.yaml:2:3: rules[0].device: this must be given: NODE/BRIDGE, such as web-1/br0",
        ),
        (
            "rules:\n- {device: a, priority: 1}\n",
            "flows.yaml:2:4: rules[0].device: 'a' is not a device: want NODE/BRIDGE, such as web-1/br0",
        ),
        (
            "rules:\n- {device: a/b, priorty: 1}\n",
            "flows.yaml:2:17: rules[0].priorty: a flow rule has no 'priorty'; did you mean 'priority'?",
        ),
        ("rule: []\n", "flows.yaml:1:1: a flow file has no section 'rule'; did you mean 'rules'?"),
        ("rules: []\nstages: []\n", "flows.yaml:2:1: give either rules or stages: rules are one stage"),
        ("rules: []\nrules: []\n", "flows.yaml:2:1: the section 'rules' is given twice; the first is at 1:1"),
        ("rules: 5\n", "flows.yaml:1:8: rules: want a list; this is something else"),
        ("stages: [5]\n", "flows.yaml:1:10: stages[0]: a stage is a list of rules; this is something else"),
        (
            "stages: [[5]]\n",
            "flows.yaml:1:11: stages[0][0]: want a flow rule, which is a map, got the number 5",
        ),
        ("", "flows.yaml:1:1: the flow file is empty"),
        (
            "confirm_timeout: 5\n",
            "flows.yaml:1:1: the flow file has no rules: give 'rules: [...]' or 'stages: [[...], ...]'",
        ),
        (
            "rules: []\nconfirm_timeout: 0\n",
            "flows.yaml:2:18: confirm_timeout: want a whole number from 1 to 3600",
        ),
        (
            "groups:\n- {device: a/b, priority: 1}\n",
            "flows.yaml:2:3: groups[0]: this is a flow rule: it belongs into 'rules'",
        ),
        (
            "rules:\n- {device: a/b, priority: 1, priority: 2}\n",
            "flows.yaml:2:30: rules[0]: the key 'priority' is given twice; the first is at 2:17",
        ),
    ];
    for (text, says) in rows {
        let got = refused(text);
        assert_eq!(got.lines().next(), Some(says), "{text}");
    }
}

#[test]
fn faults_are_told_with_line_and_path_in_json() {
    let rows = [
        (
            "{\"rules\": [\n {\"device\": \"a/br0\", \"priority\": 1,\n  \"selector\": {\"tcp_dst\": 80}}]}",
            "flows.yaml:3:16: rules[0].selector.tcp_dst: tcp_dst needs eth_type: 0x0800 (or 0x86dd) and ip_proto: 6",
        ),
        (
            "{\"stages\": [[], [\n {\"device\": \"a/br0\", \"priority\": 1}, {\"device\": \"a/br0\", \"priority\": 1}]]}",
            "flows.yaml:2:38: stages[1][1]: this has the same device, table, priority and selector as the rule at line 2",
        ),
        (
            "{\"rules\": [{\"device\": \"a/b\", \"priority\": 1, \"priority\": 2}]}",
            "flows.yaml:1:58: rules[0]: the key 'priority' is given twice",
        ),
        (
            "{\"rules\": [\n5]}",
            "flows.yaml:2:1: rules[0]: want a flow rule, which is a map, got the number 5",
        ),
        ("{\"rules\": [", "flows.yaml:1:11: not valid JSON: EOF while parsing a list"),
        ("{\"rules\": []} x", "flows.yaml:1:15: not valid JSON: trailing characters"),
        ("{\"rule\": []}", "flows.yaml:1:3: a flow file has no section 'rule'; did you mean 'rules'?"),
    ];
    for (text, says) in rows {
        let got = refused(text);
        assert_eq!(got.lines().next(), Some(says), "{text}");
    }
}

#[test]
fn lines_are_found_again() {
    let yaml = "rules:\n- {device: a/b, priority: 1}\n\n- {device: a/b, priority: 2}\n";
    let json =
        "{\"rules\": [{\"device\": \"a/b\", \"priority\": 1},\n\n\n{\"device\": \"a/b\", \"priority\": 2}]}";
    for (text, lines) in [(yaml, [Some(2), Some(4), None]), (json, [Some(1), Some(4), None])] {
        let file = FlowFile::parse("f", text, FlowLimits::default()).unwrap();
        let mut ids: Vec<_> = file.stages[0][0].entries.iter().map(|(id, _)| *id).collect();
        ids.push(muster_shared::model::flow::FlowId(0x4d55_0000_0000_0000));
        assert_eq!(FlowFile::lines_of(text, &ids), lines);
    }
}

#[test]
fn bounds_hold() {
    let limits = FlowLimits { text: 1024, entries: 2 };
    let three =
        "rules:\n- {device: a/b, priority: 1}\n- {device: a/b, priority: 2}\n- {device: a/b, priority: 3}\n";
    let json = r#"{"rules":[{"device":"a/b","priority":1},{"device":"a/b","priority":2},{"device":"a/b","priority":3}]}"#;
    for text in [three, json] {
        let errors = FlowFile::parse("f", text, limits).expect_err("one too many");
        let says = "rules[2]: more than 2 rules, groups and meters (limits.flow_rules); split the file";
        assert!(errors.to_string().ends_with(says), "{errors}");
        assert_eq!(errors.0.len(), 1);
    }
    let long = "#".repeat(2000);
    assert!(FlowFile::parse("f", &long, limits).is_err());
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = |start: &str| format!("{start}{}{}", open.repeat(50_000), close.repeat(50_000));
        assert!(read(&deep("rules: ")).is_err());
        assert!(read(&format!("{}}}", deep("{\"rules\": ["))).is_err());
    }
    let many: String = (0..100).map(|n| format!("- {{device: a/b, priority: {n}, table: 300}}\n")).collect();
    assert_eq!(refused(&format!("rules:\n{many}")).lines().count(), crate::Limits::ERRORS + 1);
}

/// Prints what 100,000 rules take; what is asserted is the result.
#[test]
fn a_hundred_thousand_rules() {
    let (mut yaml, mut json) = ("rules:\n".to_owned(), "{\"rules\":[".to_owned());
    let count: u32 = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
    for n in 0..count {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + n);
        writeln!(
            yaml,
            "- {{device: web-1/br0, priority: 100, selector: {{eth_type: 0x0800, ipv4_dst: {address}}}, treatment: [{{output: eth1}}]}}"
        )
        .expect("writing to a String");
        let comma = if n == 0 { "" } else { ",\n" };
        write!(
            json,
            "{comma}{{\"device\":\"web-1/br0\",\"priority\":100,\"selector\":{{\"eth_type\":2048,\"ipv4_dst\":\"{address}\"}},\"treatment\":[{{\"output\":\"eth1\"}}]}}"
        )
        .expect("writing to a String");
    }
    json.push_str("]}");
    let mut files = Vec::new();
    for text in [&yaml, &json] {
        files.push(read(text).expect("right"));
    }
    assert_eq!(files[0].len(), count as usize);
    assert_eq!(files[0], files[1]);
}
