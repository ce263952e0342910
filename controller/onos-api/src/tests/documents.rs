//! Documents of each kind: what they become, what is shown of that, and what is wrong with which.

use muster_api::flow::{FlowView, FlowWords};
use muster_shared::model::flow::Entry;
use serde_json::{Value, json};

use super::{network, numbers};
use crate::criterion::{CRITERIA, Form, Meaning, criteria, selector};
use crate::document::Part;
use crate::instruction::{instructions, treatment};
use crate::network::Network;
use crate::{constraint, group, intent, meter, rule};

fn decoded(document: &Value) -> Result<Value, String> {
    let network = network();
    rule::decoded(&Part::whole(document), &network, None, None)
        .map(|asked| asked.rule)
        .map_err(|wrong| wrong.to_string())
}

fn flow(criteria: &Value, steps: &Value) -> Value {
    json!({"priority": 5, "isPermanent": true, "deviceId": "of:0000000000000001",
        "selector": {"criteria": criteria}, "treatment": {"instructions": steps}})
}

/// A criterion with a value that fits it.
fn sample(name: &str) -> Value {
    let meaning = CRITERIA.iter().find(|(known, _)| *known == name).expect("it is in the table").1;
    let Meaning::Field { form, key, mask, .. } = meaning else {
        return json!({"type": name, "port": numbers()["p1"]});
    };
    let value = match form {
        Form::Number => json!(3),
        Form::EthType => json!("0x800"),
        Form::Mac => json!("52:54:00:12:34:56"),
        Form::Prefix if name.starts_with("IPV6") => json!("fd00::/64"),
        Form::Prefix => json!("10.1.0.0/16"),
        Form::Address => json!("fd00::1"),
        Form::Vlan => json!(7),
        Form::Bit => json!(true),
    };
    let mut criterion = json!({"type": name, key: value});
    if let Some(mask) = mask {
        criterion[mask] = if form == Form::Mac { json!("FF:FF:FF:FF:FF:FF") } else { json!(0xffff) };
        if form == Form::Mac {
            criterion[mask] = json!("FF:FF:FF:00:00:00");
            criterion[key] = json!("52:54:00:00:00:00");
        } else {
            criterion[mask] = json!(0xfff0);
            criterion[key] = json!(0x1230);
        }
    }
    criterion
}

/// The criteria that a criterion needs beside it.
fn beside(name: &str) -> Vec<Value> {
    let ether = |kind: &str| json!({"type": "ETH_TYPE", "ethType": kind});
    let proto = |number: u8| json!({"type": "IP_PROTO", "protocol": number});
    match name {
        "VLAN_PCP" => vec![json!({"type": "VLAN_VID", "vlanId": 7})],
        "IP_DSCP" | "IP_ECN" | "IP_PROTO" | "IPV4_SRC" | "IPV4_DST" => vec![ether("0x800")],
        "MPLS_LABEL" | "MPLS_BOS" => vec![ether("0x8847")],
        "ICMPV4_TYPE" | "ICMPV4_CODE" => vec![ether("0x800"), proto(1)],
        "IPV6_ND_SLL" | "IPV6_ND_TARGET" => {
            vec![ether("0x86dd"), proto(58), json!({"type": "ICMPV6_TYPE", "icmpv6Type": 135})]
        }
        "IPV6_ND_TLL" => vec![ether("0x86dd"), proto(58), json!({"type": "ICMPV6_TYPE", "icmpv6Type": 136})],
        "ICMPV6_TYPE" | "ICMPV6_CODE" => vec![ether("0x86dd"), proto(58)],
        name if name.starts_with("IPV6") => vec![ether("0x86dd")],
        name if name.starts_with("TCP") => vec![ether("0x800"), proto(6)],
        name if name.starts_with("UDP") => vec![ether("0x800"), proto(17)],
        name if name.starts_with("SCTP") => vec![ether("0x800"), proto(132)],
        _ => Vec::new(),
    }
}

#[test]
fn each_criterion_becomes_a_rule_and_is_shown_as_it_came() {
    let network = network();
    let (mut said, mut refused) = (0, 0);
    for (name, meaning) in CRITERIA {
        let one = match meaning {
            Meaning::Refused(why) => {
                let error = decoded(&flow(&json!([{"type": name}]), &json!([]))).unwrap_err();
                assert_eq!(error, format!("selector.criteria[0]: {name} is not supported: {why}"));
                refused += 1;
                continue;
            }
            Meaning::InPort | Meaning::Field { .. } => sample(name),
        };
        said += 1;
        let all: Vec<Value> = beside(name).into_iter().chain([one.clone()]).collect();
        let own = decoded(&flow(&json!(all), &json!([]))).unwrap_or_else(|why| panic!("{name}: {why}"));
        // As the controller shows it.
        let Entry::Rule(kept) = Entry::from_json(&own).unwrap() else { panic!("a rule") };
        let shown = criteria(Some(&kept.selector_json()), &network.bridges[0]);
        let shown = shown["criteria"].as_array().unwrap();
        assert_eq!(shown.len(), all.len(), "{name}: {shown:?}");
        assert!(shown.contains(&one), "{one} is not in {shown:?}");
    }
    assert_eq!((said, refused), (39, 10), "of ONOS's 49");
}

#[test]
fn vlans_have_onoss_numbers_for_none_and_any() {
    for (onos, own) in
        [(json!(-1), json!("none")), (json!(65535), json!("none")), (json!(4096), json!("any"))]
    {
        let document = json!({"criteria": [{"type": "VLAN_VID", "vlanId": onos}]});
        let (words, _) = selector(Some(Part::whole(&document)), None).unwrap();
        assert_eq!(words["vlan_vid"], own);
    }
    let shown = criteria(Some(&json!({"vlan_vid": "none"})), &network().bridges[0]);
    assert_eq!(shown["criteria"][0], json!({"type": "VLAN_VID", "vlanId": -1}));
    // What ONOS has no words for is there nevertheless.
    let shown = criteria(Some(&json!({"ct_state": "+trk", "arp_op": 1})), &network().bridges[0]);
    assert_eq!(
        shown["criteria"],
        json!([{"type": "ARP_OP", "arp_op": 1}, {"type": "EXTENSION", "extension": {"ct_state": "+trk"}}])
    );
    let hidden = criteria(Some(&json!("******")), &network().bridges[0]);
    assert_eq!(hidden["criteria"][0]["extension"]["selector"], "******");
}

#[test]
fn each_instruction_becomes_a_step_and_is_shown_as_it_came() {
    let (network, numbers) = (network(), numbers());
    let p1 = numbers["p1"].to_string();
    let l2 = |subtype: &str, key: &str, value: Value| json!({"type": "L2MODIFICATION", "subtype": subtype, key: value});
    let l3 = |subtype: &str, key: &str, value: Value| json!({"type": "L3MODIFICATION", "subtype": subtype, key: value});
    let l4 = |subtype: &str, key: &str| json!({"type": "L4MODIFICATION", "subtype": subtype, key: 80});
    let rows = [
        (json!({"type": "OUTPUT", "port": p1}), json!({"output": "p1"})),
        (json!({"type": "OUTPUT", "port": "NORMAL"}), json!({"output": "NORMAL"})),
        (json!({"type": "OUTPUT", "port": "IN_PORT"}), json!({"output": "IN_PORT"})),
        (json!({"type": "OUTPUT", "port": "LOCAL"}), json!({"output": "LOCAL"})),
        (json!({"type": "GROUP", "groupId": 7}), json!({"group": 7})),
        (json!({"type": "METER", "meterId": "3"}), json!({"meter": 3})),
        (json!({"type": "TABLE", "tableId": "9"}), json!({"goto_table": 9})),
        (json!({"type": "QUEUE", "queueId": 2}), json!({"set_queue": 2})),
        (l2("ETH_SRC", "mac", json!("52:54:00:AB:CD:EF")), json!({"set_eth_src": "52:54:00:ab:cd:ef"})),
        (l2("ETH_DST", "mac", json!("52:54:00:AB:CD:EF")), json!({"set_eth_dst": "52:54:00:ab:cd:ef"})),
        (l2("VLAN_ID", "vlanId", json!(12)), json!({"set_vlan_vid": 12})),
        (l2("VLAN_PCP", "vlanPcp", json!(3)), json!({"set_vlan_pcp": 3})),
        (l2("VLAN_PUSH", "ethernetType", json!("0x8100")), json!({"push_vlan": 0x8100})),
        (json!({"type": "L2MODIFICATION", "subtype": "VLAN_POP"}), json!({"pop_vlan": true})),
        (l2("MPLS_LABEL", "label", json!(16)), json!({"set_mpls_label": 16})),
        (l2("MPLS_PUSH", "ethernetType", json!("0x8847")), json!({"push_mpls": 0x8847})),
        (l2("MPLS_POP", "ethernetType", json!("0x0800")), json!({"pop_mpls": 0x0800})),
        (json!({"type": "L2MODIFICATION", "subtype": "DEC_MPLS_TTL"}), json!({"dec_mpls_ttl": true})),
        (l2("TUNNEL_ID", "tunnelId", json!(5000)), json!({"set_tunnel_id": 5000})),
        (l3("IPV4_SRC", "ip", json!("10.0.0.1")), json!({"set_ipv4_src": "10.0.0.1"})),
        (l3("IPV4_DST", "ip", json!("10.0.0.1")), json!({"set_ipv4_dst": "10.0.0.1"})),
        (l3("IPV6_SRC", "ip", json!("fd00::1")), json!({"set_ipv6_src": "fd00::1"})),
        (l3("IPV6_DST", "ip", json!("fd00::1")), json!({"set_ipv6_dst": "fd00::1"})),
        (l3("IPV6_FLABEL", "flowLabel", json!(4)), json!({"set_ipv6_flabel": 4})),
        (l3("IP_DSCP", "ipDscp", json!(46)), json!({"set_ip_dscp": 46})),
        (json!({"type": "L3MODIFICATION", "subtype": "DEC_TTL"}), json!({"dec_ttl": true})),
        (l4("TCP_SRC", "tcpPort"), json!({"set_tcp_src": 80})),
        (l4("TCP_DST", "tcpPort"), json!({"set_tcp_dst": 80})),
        (l4("UDP_SRC", "udpPort"), json!({"set_udp_src": 80})),
        (l4("UDP_DST", "udpPort"), json!({"set_udp_dst": 80})),
    ];
    let bridge = &network.bridges[0];
    for (onos, own) in rows {
        let document = json!({"instructions": [onos], "deferred": []});
        let (steps, _) = treatment(Some(Part::whole(&document)), bridge).unwrap();
        assert_eq!(steps, [own], "{onos}");
        assert_eq!(instructions(Some(&json!(steps)), bridge), document, "{onos}");
    }
}

#[test]
fn a_treatment_is_put_in_order_and_keeps_what_is_deferred() {
    let (network, numbers) = (network(), numbers());
    let document = json!({
        "instructions": [{"type": "TABLE", "tableId": 2}, {"type": "OUTPUT", "port": numbers["p1"]}, {"type": "METER", "meterId": 1}],
        "deferred": [{"type": "OUTPUT", "port": "ALL"}], "clearDeferred": true,
    });
    let (steps, _) = treatment(Some(Part::whole(&document)), &network.bridges[0]).unwrap();
    assert_eq!(
        json!(steps),
        json!([{"meter": 1}, {"output": "p1"}, {"clear_actions": true}, {"write_actions": [{"output": "ALL"}]}, {"goto_table": 2}])
    );
    let shown = instructions(Some(&json!(steps)), &network.bridges[0]);
    assert_eq!((&shown["clearDeferred"], &shown["deferred"][0]["port"]), (&json!(true), &json!("ALL")));

    // A queue with its port: packets leave there once.
    let queue = |more: &[Value]| {
        let mut all = vec![json!({"type": "QUEUE", "queueId": 4, "port": numbers["p1"]})];
        all.extend_from_slice(more);
        let document = json!({ "instructions": all });
        json!(treatment(Some(Part::whole(&document)), &network.bridges[0]).unwrap().0)
    };
    let once = json!([{"set_queue": 4}, {"output": "p1"}]);
    assert_eq!(queue(&[]), once);
    assert_eq!(queue(&[json!({"type": "OUTPUT", "port": numbers["p1"].to_string()})]), once);
    assert_eq!(decoded(&flow(&json!([]), &json!([{"type": "NOACTION"}]))).unwrap()["treatment"], json!([]));
}

#[test]
fn ports_have_numbers_names_and_onoss_own_notation() {
    let (network, numbers) = (network(), numbers());
    let out = |port: Value| decoded(&flow(&json!([]), &json!([{"type": "OUTPUT", "port": port}])));
    let number = numbers["p2"];
    for port in [json!(number), json!(number.to_string()), json!("p2"), json!(format!("[p2]({number})"))] {
        assert_eq!(out(port).unwrap()["treatment"], json!([{"output": "p2"}]));
    }
    for port in [json!(-6), json!(0xffff_fffa_u32), json!("normal")] {
        assert_eq!(out(port).unwrap()["treatment"], json!([{"output": "NORMAL"}]));
    }
    assert!(number > 0xffff, "no switch gives such a number to a port of its own");
    let error = out(json!(1)).unwrap_err();
    assert!(
        error.starts_with("treatment.instructions[0].port: web-1/br0 has no port 1: ")
            && error.contains("(p1)"),
        "{error}"
    );
    for controller in [json!("CONTROLLER"), json!(-3), json!("4294967293")] {
        assert_eq!(out(controller).unwrap()["treatment"], json!([{"output": "CONTROLLER"}]));
    }
    assert_eq!(network.bridges[0].port("LOCAL"), "LOCAL");
    let local = criteria(Some(&json!({"in_port": "LOCAL"})), &network.bridges[0]);
    assert_eq!(local["criteria"][0]["port"], json!(0xffff_fffe_u32));
}

#[test]
fn what_is_wrong_with_a_rule_is_named_with_its_place() {
    let good = |key: &str, value: Value| {
        let mut all = flow(&json!([]), &json!([]));
        all[key] = value;
        all
    };
    let rows = [
        (
            good("priority", json!(70000)),
            "priority: want a whole number from 0 to 65535, got the number 70000",
        ),
        (good("isPermanent", json!(false)), "'timeout' must be given"),
        (good("tableId", json!("x")), "tableId: want a whole number from 0 to 254, got 'x'"),
        (
            good("deviceId", json!("of:00000000000000ff")),
            "deviceId: there is no device 'of:00000000000000ff'",
        ),
        (good("prioritty", json!(1)), "ONOS has no 'prioritty' here; it has "),
        (good("selector", json!([])), "selector: want a map, got a list"),
        (good("appId", json!("a b")), "appId: 'a b' is no application: want 1 to 100 letters"),
        (
            flow(&json!([{"type": "TYPO"}]), &json!([])),
            "selector.criteria[0]: ONOS reads no criterion 'TYPO'",
        ),
        (
            flow(&json!([{"type": "IP_PROTO", "protocol": 300}]), &json!([])),
            "selector.criteria[0].protocol: want a whole number from 0 to 255",
        ),
        (
            flow(
                &json!([{"type": "VLAN_VID", "vlanId": 1}, {"type": "VLAN_PCP", "priority": 1, "vlan": 2}]),
                &json!([]),
            ),
            "selector.criteria[1]: ONOS has no 'vlan' here",
        ),
        (
            flow(&json!([{"type": "IP_ECN", "ipEcn": 1}]), &json!([])),
            "selector.criteria[0]: selector.ip_ecn: ip_ecn needs eth_type",
        ),
        (
            flow(
                &json!([]),
                &json!([{"type": "OUTPUT", "port": "ALL"}, {"type": "L2MODIFICATION", "subtype": "VLAN_POP"}]),
            ),
            "treatment.instructions[1]: treatment[1].pop_vlan: there may be no tag",
        ),
        (
            flow(&json!([]), &json!([{"type": "L0MODIFICATION", "subtype": "OCH"}])),
            "treatment.instructions[0]: L0MODIFICATION OCH is not supported: it is for optical networks",
        ),
        (
            flow(&json!([]), &json!([{"type": "L3MODIFICATION", "subtype": "TTL_IN"}])),
            "treatment.instructions[0]: L3MODIFICATION TTL_IN is not supported",
        ),
    ];
    for (document, says) in rows {
        let error = decoded(&document).unwrap_err();
        assert!(error.starts_with(says), "{error:?} does not begin with {says:?}");
    }
    let shared =
        json!([{"type": "TCP_SRC", "tcpPort": 1}, {"type": "TCP_SRC_MASKED", "tcpPort": 2, "tcpMask": 2}]);
    assert_eq!(
        decoded(&flow(&shared, &json!([]))).unwrap_err(),
        "selector.criteria[1]: a second criterion for tcp_src"
    );
}

#[test]
fn a_rule_is_shown_as_onos_shows_one() {
    let network = network();
    let words = FlowWords {
        table: Some(json!(1)),
        priority: Some(json!(40000)),
        idle_timeout: Some(json!(30)),
        hard_timeout: Some(json!(0)),
        selector: Some(json!({"eth_type": 0x88cc})),
        treatment: Some(json!([{"output": "LOCAL"}])),
        ..FlowWords::default()
    };
    let view = FlowView {
        id: Some("4d55000000000001".into()),
        kind: "rule".into(),
        state: "ADDED".into(),
        owner: Some("the operator".into()),
        packets: Some(7),
        bytes: Some(700),
        duration: Some(12),
        entry: words,
        ..FlowView::default()
    };
    assert_eq!(
        rule::encoded(&view, &network.bridges[0], 99),
        json!({
            "groupId": 0, "state": "ADDED", "life": 12, "liveType": "UNKNOWN", "lastSeen": 99, "packets": 7, "bytes": 700,
            "id": 0x4d55_0000_0000_0001_u64.to_string(), "appId": "org.onosproject.rest", "priority": 40000, "timeout": 30,
            "isPermanent": false, "deviceId": "of:0000000000000001", "tableId": 1, "tableName": "1",
            "treatment": {"instructions": [{"type": "OUTPUT", "port": "LOCAL"}], "deferred": []},
            "selector": {"criteria": [{"type": "ETH_TYPE", "ethType": "0x88cc"}]},
        })
    );
    assert_eq!(rule::own_id(&rule::id(&view)).unwrap(), "4d55000000000001");
}

#[test]
fn groups_and_meters_become_those_of_flow_files() {
    let (network, numbers) = (network(), numbers());
    let bridge = &network.bridges[0];
    let bucket = json!({"weight": 3, "treatment": {"instructions": [{"type": "OUTPUT", "port": numbers["p1"].to_string()}]}});
    let document = json!({"type": "SELECT", "appCookie": "0x1234", "groupId": "1", "buckets": [bucket]});
    let (own, number) = group::decoded(&Part::whole(&document), &network, bridge).unwrap();
    let wanted = json!({"device": "web-1/br0", "group": 1, "type": "select",
        "buckets": [{"weight": 3, "treatment": [{"output": "p1"}]}]});
    assert_eq!((own.clone(), number), (wanted, 1));
    assert!(Entry::from_json(&own).is_ok());
    let without = json!({"type": "ALL", "appCookie": "0x12", "buckets": []});
    assert_eq!(group::decoded(&Part::whole(&without), &network, bridge).unwrap().1, 0x12);
    let failover = json!({"type": "FAILOVER", "groupId": 2, "buckets": [{"watchPort": numbers["p2"].to_string(), "treatment": {"instructions": []}}]});
    assert_eq!(
        group::decoded(&Part::whole(&failover), &network, bridge).unwrap().0["buckets"][0]["watch_port"],
        "p2"
    );
    let clone = json!({"type": "CLONE", "groupId": 2, "buckets": []});
    assert!(
        group::decoded(&Part::whole(&clone), &network, bridge)
            .unwrap_err()
            .to_string()
            .starts_with("type: CLONE is not supported")
    );

    let document = json!({"deviceId": "of:0000000000000001", "unit": "KB_PER_SEC", "burst": true,
        "bands": [{"type": "DROP", "rate": 1000, "burstSize": 100, "prec": 0}]});
    let own = meter::decoded(&Part::whole(&document), &network, bridge).unwrap();
    assert_eq!(
        own,
        json!({"device": "web-1/br0", "unit": "kilobits", "bands": [{"rate": 1000, "burst": 100}]})
    );
    let of = |number: u64| FlowView {
        entry: FlowWords { meter: Some(json!(number)), ..FlowWords::default() },
        ..FlowView::default()
    };
    assert_eq!(meter::free(&[of(1), of(2), of(5)]), 3);
    let unit = json!({"unit": "BYTES_PER_SEC", "bands": []});
    assert!(
        meter::decoded(&Part::whole(&unit), &network, bridge)
            .unwrap_err()
            .to_string()
            .starts_with("unit: there is no unit")
    );
}

#[test]
fn intents_of_onoss_four_types_become_ours() {
    let (network, numbers) = (network(), numbers());
    let point = |device: &str, port: &str| json!({"device": device, "port": numbers[port].to_string()});
    let (one, two) = (point("of:0000000000000001", "p1"), point("of:0000000000000002", "p2"));
    let own = |device: &str, port: &str| json!({"device": device, "port": port});
    let (own_one, own_two) = (own("web-1/br0", "p1"), own("web-2/br0", "p2"));
    let rows = [
        (
            json!({"type": "PointToPointIntent", "ingressPoint": one, "egressPoint": two}),
            "point_to_point",
            own_one.clone(),
            own_two.clone(),
        ),
        (
            json!({"type": "SinglePointToMultiPointIntent", "ingressPoint": one, "egressPoint": [two]}),
            "single_point_to_multi_point",
            own_one.clone(),
            json!([own_two]),
        ),
        (
            json!({"type": "MultiPointToSinglePointIntent", "ingressPoint": [one], "egressPoint": two}),
            "multi_point_to_single_point",
            json!([own_one]),
            own_two,
        ),
        (
            json!({"type": "HostToHostIntent", "one": "52:54:00:00:00:0A/None", "two": "52:54:00:00:00:0B/-1"}),
            "host_to_host",
            json!({"host": "52:54:00:00:00:0a"}),
            json!({"host": "52:54:00:00:00:0b"}),
        ),
    ];
    for (mut document, kind, from, to) in rows {
        document["appId"] = json!("org.onosproject.ovsdb");
        document["priority"] = json!(55);
        let asked = intent::decoded(&Part::whole(&document), &network).unwrap();
        assert_eq!(
            (&asked.intent["type"], &asked.intent["from"], &asked.intent["to"]),
            (&json!(kind), &from, &to)
        );
        let again = intent::decoded(&Part::whole(&document), &network).unwrap();
        assert_eq!(asked.key, again.key, "without a key, the same document is the same intent");
        document["priority"] = json!(56);
        assert_ne!(intent::decoded(&Part::whole(&document), &network).unwrap().key, asked.key);
        document["key"] = json!("named");
        assert_eq!(
            intent::decoded(&Part::whole(&document), &network).unwrap().key,
            "org.onosproject.ovsdb/named"
        );
    }
    // What was read can be sent again: ONOS has a constraint for each annotation.
    let bound = |key: &str, most: f64| json!({"type": "AnnotationConstraint", "key": key, "threshold": most});
    let document = json!({"type": "PointToPointIntent", "appId": "a", "ingressPoint": one, "egressPoint": two,
        "constraints": [bound("metric", 5.0), {"type": "NonDisruptiveConstraint"}, bound("hops", 2.0), bound("metric", 9.0)]});
    let asked = intent::decoded(&Part::whole(&document), &network).unwrap();
    assert_eq!(asked.intent["constraints"], json!([{"annotations": {"hops": 2.0, "metric": 5.0}}]));
    let refused = |document: Value, says: &str| {
        let error = intent::decoded(&Part::whole(&document), &network).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    };
    refused(
        json!({"type": "OpticalCircuitIntent", "appId": "a"}),
        "an intent of type 'OpticalCircuitIntent' is not supported",
    );
    refused(json!({"type": "PointToPointIntent"}), "'appId' must be given");
    let with = |key: &str, value: Value| json!({"type": "PointToPointIntent", "appId": "a", "ingressPoint": one, "egressPoint": two, key: value});
    refused(
        with("selector", json!({"criteria": [{"type": "IN_PORT", "port": 1}]})),
        "selector.criteria[0]: IN_PORT has no place here",
    );
    refused(
        with("treatment", json!({"instructions": [{"type": "OUTPUT", "port": "ALL"}]})),
        "treatment.instructions[0]: an intent has no OUTPUT",
    );
    refused(
        with("treatment", json!({"instructions": [{"type": "OUTPUT", "port": 3}]})),
        "treatment.instructions[0]: an intent has no OUTPUT",
    );
    refused(
        json!({"type": "HostToHostIntent", "appId": "a", "one": "52:54:00:00:00:0A/7", "two": "x"}),
        "one: '52:54:00:00:00:0A/7' is no host",
    );
}

#[test]
fn constraints_are_said_or_refused_by_name() {
    let network = network();
    let of = |document: Value| constraint::decoded(&Part::at(&document, "constraints[0]"), &network);
    let devices = json!(["of:0000000000000001", "of:0000000000000002"]);
    let rows = [
        (
            json!({"type": "AnnotationConstraint", "key": "metric", "threshold": 123.5}),
            json!({"annotations": {"metric": 123.5}}),
        ),
        (json!({"type": "AsymmetricPathConstraint"}), json!({"asymmetric": true})),
        (json!({"type": "BandwidthConstraint", "bandwidth": 345.0}), json!({"bandwidth": 345})),
        (json!({"type": "LatencyConstraint", "latencyMillis": 111}), json!({"latency": 0.111})),
        (
            json!({"type": "ObstacleConstraint", "obstacles": devices}),
            json!({"obstacles": ["web-1/br0", "web-2/br0"]}),
        ),
        (
            json!({"type": "WaypointConstraint", "waypoints": devices}),
            json!({"waypoints": ["web-1/br0", "web-2/br0"]}),
        ),
        (
            json!({"type": "LinkTypeConstraint", "inclusive": true, "types": ["OPTICAL"]}),
            json!({"link_type": {"only": ["OPTICAL"]}}),
        ),
        (
            json!({"type": "LinkTypeConstraint", "inclusive": false, "types": ["TUNNEL", "OPTICAL"]}),
            json!({"link_type": {"without": ["TUNNEL", "OPTICAL"]}}),
        ),
    ];
    for (onos, own) in rows {
        assert_eq!(of(onos.clone()).unwrap(), Some(own.clone()));
        assert_eq!(constraint::encoded(&own, &network), [onos]);
    }
    assert_eq!(of(json!({"type": constraint::ALWAYS})).unwrap(), None);
    assert_eq!(constraint::encoded(&json!({"annotations": {"a": 1, "b": 2}}), &network).len(), 2);
    // Each link without a type of ONOS is DIRECT.
    let direct = |inclusive: bool| {
        of(json!({"type": "LinkTypeConstraint", "inclusive": inclusive, "types": ["DIRECT"]})).unwrap()
    };
    let others = json!(["INDIRECT", "EDGE", "TUNNEL", "OPTICAL", "VIRTUAL"]);
    assert_eq!(direct(true), Some(json!({"link_type": {"without": others}})));
    assert_eq!(direct(false), Some(json!({"link_type": {"only": others}})));
    for (name, why) in constraint::REFUSED {
        let error = of(json!({"type": name})).unwrap_err().to_string();
        assert_eq!(error, format!("constraints[0]: {name} is not supported: {why}"));
    }
    assert_eq!(constraint::SAID.len() + 1 + constraint::REFUSED.len(), 11, "as many as ONOS reads");
}

#[test]
fn a_document_names_the_device_of_its_path() {
    let network = network();
    let bridge = &network.bridges[0];
    let bands = json!([{"type": "DROP", "rate": 1}]);
    for (device, fits) in [
        (json!("of:0000000000000001"), true),
        (json!("OF:0000000000000001"), true),
        (json!("web-1/br0"), true),
        (Value::Null, true),
        (json!("of:0000000000000002"), false),
        (json!("of:00000000000000ff"), false),
        (json!(1), false),
    ] {
        let mut rule = flow(&json!([]), &json!([]));
        rule["deviceId"] = device.clone();
        let group = json!({"deviceId": device, "type": "ALL", "groupId": 1, "buckets": []});
        let meter = json!({"deviceId": device, "unit": "KB_PER_SEC", "bands": bands});
        let verdicts = [
            rule::decoded(&Part::whole(&rule), &network, Some(bridge), None).map(drop),
            group::decoded(&Part::whole(&group), &network, bridge).map(drop),
            meter::decoded(&Part::whole(&meter), &network, bridge).map(drop),
        ];
        for verdict in verdicts {
            assert_eq!(verdict.is_ok(), fits, "{device}: {verdict:?}");
            assert!(verdict.is_ok() || verdict.unwrap_err().path == "deviceId");
        }
    }
    let other = json!({"deviceId": "of:0000000000000002", "type": "ALL", "groupId": 1, "buckets": []});
    assert_eq!(
        group::decoded(&Part::whole(&other), &network, bridge).unwrap_err().to_string(),
        "deviceId: the path names web-1/br0, and the document 'of:0000000000000002': leave deviceId out, or give the \
         path's device"
    );
    // By an id that is not shown, such as one made of the bridge's name, as the path has it.
    let mut view = network.view.clone();
    view.devices.truncate(1);
    let alone = Network::of_id(view, "of:4d55000000000001");
    let named = json!({"deviceId": "of:4d55000000000001", "type": "ALL", "groupId": 1, "buckets": []});
    assert!(group::decoded(&Part::whole(&named), &alone, &alone.bridges[0]).is_ok());
}

#[test]
fn a_group_has_the_id_that_onos_would_take() {
    let network = network();
    let number = |mut document: Value| {
        document["type"] = json!("ALL");
        document["buckets"] = json!([]);
        group::decoded(&Part::whole(&document), &network, &network.bridges[0]).map(|(_, number)| number)
    };
    assert_eq!(number(json!({"id": "1", "groupId": 2, "givenGroupId": 3, "appCookie": "0x4"})), Ok(1));
    assert_eq!(number(json!({"groupId": 2, "givenGroupId": 3, "appCookie": "0x4"})), Ok(2));
    assert_eq!(number(json!({"givenGroupId": 3, "appCookie": "0x4"})), Ok(3));
    assert_eq!(number(json!({"appCookie": "0x4"})), Ok(4));
    // As in ONOS, also where the cookie decides nothing.
    for cookie in [json!("1234abCD"), json!(4), json!("")] {
        let wrong = number(json!({"groupId": 2, "appCookie": cookie})).unwrap_err();
        assert_eq!(wrong.path, "appCookie", "{wrong}");
    }
}

#[test]
fn a_meter_that_was_read_can_be_sent_again() {
    let network = network();
    let bridge = &network.bridges[0];
    let burst = |document: &Value| {
        meter::decoded(&Part::whole(document), &network, bridge).map(|own| own["bands"][0]["burst"].clone())
    };
    let mut document =
        json!({"id": 1, "unit": "KB_PER_SEC", "bands": [{"type": "DROP", "rate": 10, "burstSize": 30}]});
    // In ONOS a size counts only with burst: true.
    for (has_burst, wanted) in [
        (Value::Null, Value::Null),
        (json!(false), Value::Null),
        (json!("false"), Value::Null),
        (json!(true), json!(30)),
    ] {
        document["burst"] = has_burst;
        assert_eq!(burst(&document), Ok(wanted), "{document}");
    }
    let words = FlowWords {
        meter: Some(json!(4)),
        unit: Some(json!("kilobits")),
        bands: Some(json!([{"rate": 10, "burst": 30}])),
        ..FlowWords::default()
    };
    let view = FlowView { kind: "meter".into(), state: "ADDED".into(), entry: words, ..FlowView::default() };
    assert_eq!(burst(&meter::encoded(&view, bridge)), Ok(json!(30)));
}

#[test]
fn labels_are_popped_to_mpls_where_nothing_is_said() {
    let pop = |more: Value| {
        let mut pop = json!({"type": "L2MODIFICATION", "subtype": "MPLS_POP"});
        pop.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mpls = json!([{"type": "ETH_TYPE", "ethType": "0x8847"}]);
        decoded(&flow(&mpls, &json!([pop]))).map(|rule| rule["treatment"][0]["pop_mpls"].clone())
    };
    assert_eq!(pop(json!({})), Ok(json!(0x8847)));
    assert_eq!(pop(json!({"ethernetType": "0x0800"})), Ok(json!(0x800)));
}

#[test]
fn an_application_may_be_a_number() {
    let network = network();
    let owner = |name: Value| {
        let mut document = flow(&json!([]), &json!([]));
        document["appId"] = name;
        let asked = rule::decoded(&Part::whole(&document), &network, None, None);
        asked.map(|asked| asked.application.as_str().to_owned()).map_err(|wrong| wrong.to_string())
    };
    assert_eq!(owner(json!(17)), Ok("17".to_owned()));
    assert_eq!(owner(json!("org.example")), Ok("org.example".to_owned()));
    assert_eq!(owner(json!([1])), Err("appId: want a text, got a list".to_owned()));
}

#[test]
fn an_ether_type_may_be_a_number_of_java() {
    let kind = |kind: Value| {
        let rule = decoded(&flow(&json!([{"type": "ETH_TYPE", "ethType": kind}]), &json!([])));
        rule.map(|rule| rule["selector"]["eth_type"].clone())
    };
    assert_eq!(kind(json!(-30516)), Ok(json!(0x88cc)));
    assert_eq!(kind(json!("-30516")), Ok(json!(0x88cc)));
    assert_eq!(kind(json!(-1)), Ok(json!(0xffff)));
    for wrong in [json!(-32769), json!(65536), json!("-0x1"), json!(-1.5)] {
        let error = kind(wrong.clone()).unwrap_err();
        assert!(error.starts_with("selector.criteria[0].ethType: want a whole number"), "{wrong}: {error}");
    }
}
