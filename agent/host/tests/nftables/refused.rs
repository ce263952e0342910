//! Rules that do not map are refused by name, before anything changes.

use muster_host::nftables::Nftables;
use muster_host::openflow::Lost;
use serde_json::{Value, json};

use crate::table::Table;
use crate::{device, id, many, rule, shown, with_filter};
use muster_testbed::Namespace;

fn with(selector: Value, treatment: Value) -> Value {
    json!({"priority": 7, "selector": selector, "treatment": treatment})
}

#[test]
fn what_does_not_map_is_refused_by_name() {
    let server = Namespace::new();
    let normal = json!([{"output": "NORMAL"}]);
    let of = |selector: Value| with(selector, normal.clone());
    let to = |treatment: Value| with(json!({"eth_type": 0x800}), treatment);
    let tcp = |field: &str, value: Value| of(json!({"eth_type": 0x800, "ip_proto": 6, field: value}));
    let cases = [
        (json!({"group": 7, "type": "all", "buckets": [{"treatment": [{"output": "p1"}]}]}), "no groups"),
        (json!({"meter": 1, "unit": "packets", "bands": [{"rate": 5}]}), "no meters"),
        (json!({"priority": 1, "treatment": [], "idle_timeout": 5}), "no timeouts"),
        (json!({"priority": 1, "treatment": [], "hard_timeout": 5}), "no timeouts"),
        (to(json!([{"output": "eth2"}])), "NORMAL only"),
        (to(json!([{"output": "FLOOD"}])), "NORMAL only"),
        (to(json!([{"group": 7}])), "no groups"),
        (to(json!([{"meter": 1}, {"output": "NORMAL"}])), "meter"),
        (to(json!(["dec_ttl", {"output": "NORMAL"}])), "dec_ttl"),
        (to(json!([{"push_vlan": 0x8100}, {"output": "NORMAL"}])), "VLAN"),
        (to(json!([{"set_eth_dst": "52:54:00:12:34:56"}, {"output": "NORMAL"}])), "set_eth_dst"),
        (to(json!([{"set_reg0": 5}, {"output": "NORMAL"}])), "set_reg0"),
        (to(json!([{"set_queue": 5}, {"output": "NORMAL"}])), "set_queue"),
        (to(json!([{"resubmit": 5}])), "resubmit"),
        (to(json!([{"ct": {"commit": true, "zone": 3}}, {"output": "NORMAL"}])), "ct: "),
        (to(json!([{"ct": {"table": 3}}])), "ct: "),
        (to(json!([{"set_ip_dscp": 5}])), "ends in output: NORMAL or goto_table"),
        (to(json!([{"output": "NORMAL"}, {"set_ip_dscp": 5}])), "nothing can follow"),
        (to(json!([{"write_metadata": 5}])), "write_metadata"),
        (to(json!([{"write_actions": [{"output": "NORMAL"}]}])), "write_actions"),
        (of(json!({"in_port": "LOCAL"})), "LOCAL"),
        (of(json!({"reg0": 5})), "reg0"),
        (of(json!({"metadata": 5})), "metadata"),
        (of(json!({"tunnel_id": 5})), "tunnel_id"),
        (of(json!({"eth_type": 0x806})), "0x0806"),
        (of(json!({"eth_type": 0x88cc})), "0x88cc"),
        (of(json!({"vlan_vid": 10})), "in_port"),
        (of(json!({"ct_state": "+trk+snat"})), "ct_state"),
        (of(json!({"ct_state": "+new+est"})), "ct_state"),
        (tcp("tcp_flags", json!("+ns")), "tcp_flags"),
        (of(json!({"eth_type": 0x86dd, "ipv6_flabel": "0x5/0xff"})), "ipv6_flabel"),
    ];
    with_filter(&server, async |filter| {
        for (value, named) in cases {
            let bad = rule(value.clone());
            let mut rules = many(3);
            rules.push(bad.clone());
            let refusal = Table::default().apply(filter, &rules, &[]).await.unwrap_err();
            assert!(refusal.reason.contains(named), "{value}: {}", refusal.reason);
            assert_eq!((refusal.id, refusal.permanent), (Some(id(&bad)), true), "{value}");
        }
    });
    assert_eq!(shown(&server), "");
}

#[test]
fn a_name_cannot_say_more_than_a_name() {
    let server = Namespace::new();
    with_filter(&server, async |filter| {
        for name in ["a\"drop", "p1\"}", "eth*", "a\\", "$x", "a;b", "a{b", "a'b"] {
            let bad = with(json!({"in_port": name}), json!([]));
            let Ok(bad) = muster_shared::model::flow::Entry::from_json(&bad) else { continue };
            let refusal = Table::default().apply(filter, &[bad], &[]).await.unwrap_err();
            assert!(refusal.reason.starts_with("in_port: '"), "{name}: {}", refusal.reason);
        }
        let line = with(json!({"in_port": "a\nb"}), json!([]));
        if let Ok(bad) = muster_shared::model::flow::Entry::from_json(&line) {
            let refusal = Table::default().apply(filter, &[bad], &[]).await.unwrap_err();
            assert!(refusal.reason.contains("a\\nb"), "{}", refusal.reason);
        }
        // Words and numbers of nft are names like others.
        for name in ["accept", "counter", "lo", "a.b-c_d:e@f#g%h"] {
            let good = rule(with(json!({"in_port": name}), json!([])));
            let applied = Table::default().apply(filter, std::slice::from_ref(&good), &[]).await.unwrap();
            assert_eq!(applied, Default::default(), "{name}");
        }
    });
    assert!(shown(&server).contains("iifname \"lo\""));
}

#[test]
fn where_nft_is_not_installed_that_is_said() {
    let none = Nftables::open_with(&device(), vec!["/nonexistent/nft".into()]).unwrap_err();
    assert!(matches!(&none, Lost::Filter(reason) if reason.contains("install nftables")), "{none}");
}
