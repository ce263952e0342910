use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::flow::{
    Action, Band, Criterion, Ct, Entry, Field, FieldKind, Group, GroupBucket, GroupKind, Instruction, Meter,
    Output, Packed, Port, Rule,
};

fn rule(value: Value) -> Result<Entry, String> {
    Entry::from_json(&value).map_err(|bad| bad.to_string())
}

fn refused(value: &Value) -> String {
    rule(value.clone()).expect_err(&value.to_string())
}

fn selecting(selector: &Value) -> Result<Entry, String> {
    rule(json!({"priority": 1, "selector": selector, "treatment": []}))
}

fn treating(treatment: &Value) -> Result<Entry, String> {
    rule(json!({"priority": 1, "selector": {}, "treatment": treatment}))
}

#[test]
fn a_rule_as_in_the_manual() {
    let entry = rule(json!({
        "device": "web-1/br0", "table": 1, "priority": 100,
        "selector": {"tcp_dst": "0x50/0xfff0", "in_port": "eth1", "eth_type": "0x0800", "ip_proto": "tcp",
            "ipv4_dst": "10.0.0.0/24", "vlan_vid": 10, "ct_state": "+trk-new"},
        "treatment": [{"meter": 3}, {"set_vlan_vid": 11}, {"ct": {"commit": true, "zone": 5, "table": 2, "mark": 7}},
            {"output": "LOCAL"}, {"write_metadata": "0x10/0xf0"}, {"goto_table": 4}],
        "idle_timeout": 30
    }))
    .expect("it is right");
    let Entry::Rule(rule) = &entry else { panic!("a rule") };
    assert_eq!(rule.selector[0], Criterion::InPort(Port::Named("eth1".into())));
    assert_eq!(rule.field(Field::TcpDst), Some((0x50, Some(0xfff0))));
    assert_eq!(rule.field(Field::VlanVid), Some((0x100a, None)));
    assert_eq!(rule.field(Field::Ipv4Dst), Some((0x0a00_0000, Some(0xffff_ff00))));
    assert_eq!(rule.field(Field::CtState), Some((0x20, Some(0x21))));
    assert_eq!((rule.table, rule.priority, rule.idle_timeout, rule.hard_timeout), (1, 100, 30, 0));
    assert!(Packed::new(&entry).is_ok());
}

#[test]
fn one_form_for_what_means_the_same() {
    let same = |a: Value, b: Value| {
        assert_eq!(selecting(&a).expect("right"), selecting(&b).expect("right"), "{a} {b}");
    };
    same(json!({"eth_dst": "52:54:00:12:34:56/ff:ff:ff:ff:ff:ff"}), json!({"eth_dst": "52:54:00:12:34:56"}));
    same(
        json!({"eth_type": 2048, "ipv4_dst": "10.0.0.1/32"}),
        json!({"eth_type": "ipv4", "ipv4_dst": "10.0.0.1"}),
    );
    same(
        json!({"eth_type": 2048, "ipv4_dst": "10.0.0.0/255.255.0.0"}),
        json!({"eth_type": "0x800", "ipv4_dst": "10.0.0.0/16"}),
    );
    same(json!({"reg15": "0xffffffff/0xffffffff"}), json!({"reg15": "4294967295"}));
    same(
        json!({"eth_type": "ipv6", "ipv6_src": "fd00::/128"}),
        json!({"eth_type": 0x86dd, "ipv6_src": "fd00::"}),
    );
    same(json!({"vlan_vid": "0x1005/0x1fff"}), json!({"vlan_vid": 5}));
    same(json!({"vlan_vid": "any", "metadata": null}), json!({"vlan_vid": "0x1000/0x1000"}));
    assert_eq!(treating(&json!(["clear_actions"])), treating(&json!([{"clear_actions": true}])));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let rows = [
        (json!({"selector": {}}), "priority: this must be given: 0 to 65535, the higher wins"),
        (json!({"priority": 65536}), "priority: want a whole number from 0 to 65535, got the number 65536"),
        (json!({"priority": -1}), "priority: want a whole number from 0 to 65535, got the number -1"),
        (json!({"priority": 1.5}), "priority: want a whole number from 0 to 65535, got the number 1.5"),
        (
            json!({"priority": 1, "table": 255}),
            "table: want a whole number from 0 to 254, got the number 255",
        ),
        (
            json!({"priority": 1, "idle_timeout": 65536}),
            "idle_timeout: want a whole number from 0 to 65535, got the number 65536",
        ),
        (json!({"priority": 1, "tabel": 1}), "tabel: a flow rule has no 'tabel'; did you mean 'table'?"),
        (json!([]), "want a flow rule, which is a map, got a list"),
        (
            json!({"priority": 1, "selector": "all"}),
            "selector: want a map, such as {eth_type: 0x0800, ipv4_dst: 10.0.0.0/24}, got 'all'",
        ),
    ];
    for (value, says) in rows {
        assert_eq!(refused(&value), says);
    }
}

#[test]
fn a_bad_criterion_is_refused() {
    let rows = [
        (json!({"tcp_dst": 80}), "tcp_dst: tcp_dst needs eth_type: 0x0800 (or 0x86dd) and ip_proto: 6"),
        (
            json!({"tcp_dst": 80, "eth_type": 2048, "ip_proto": 17}),
            "tcp_dst: tcp_dst needs eth_type: 0x0800 (or 0x86dd) and ip_proto: 6",
        ),
        (json!({"ipv4_dst": "10.0.0.1"}), "ipv4_dst: ipv4_dst needs eth_type: 0x0800"),
        (json!({"vlan_pcp": 3}), "vlan_pcp: vlan_pcp needs a VLAN tag: vlan_vid: any, or a number"),
        (
            json!({"vlan_pcp": 3, "vlan_vid": "none"}),
            "vlan_pcp: vlan_pcp needs a VLAN tag: vlan_vid: any, or a number",
        ),
        (
            json!({"eth_type": 0x86dd, "ip_proto": 58, "icmpv6_type": 135, "ipv6_nd_tll": "52:54:00:12:34:56"}),
            "ipv6_nd_tll: ipv6_nd_tll needs eth_type: 0x86dd, ip_proto: 58 and icmpv6_type: 136",
        ),
        (
            json!({"eth_type": 2048, "ipv4_dst": "10.0.0.1/24"}),
            "ipv4_dst: the value has bits outside its mask; did you mean '10.0.0.0/24'?",
        ),
        (
            json!({"reg0": "0x1234/0xff00"}),
            "reg0: the value has bits outside its mask; did you mean '0x1200/0xff00'?",
        ),
        (json!({"reg0": "0/0"}), "reg0: a mask without a bit matches everything: leave the field out"),
        (json!({"eth_type": 65536}), "eth_type: eth_type has 16 bits: want 0 to 65535"),
        (json!({"eth_type": "0x800/0xff00"}), "eth_type: eth_type matches whole; it takes no mask"),
        (json!({"eth_typ": 2048}), "eth_typ: there is no field 'eth_typ'; did you mean 'eth_type'?"),
        (json!({"nw_dst": "10.0.0.1"}), "nw_dst: there is no field 'nw_dst'; did you mean 'ipv4_dst'?"),
        (
            json!({"in_port": 1}),
            "in_port: ports are named by their interface, such as eth1: numbers change when a port is made again",
        ),
        (
            json!({"in_port": "NORMAL"}),
            "in_port: want one port: the name of an interface, or LOCAL for the bridge's own, got 'NORMAL'",
        ),
        (json!({"in_port": "local"}), "in_port: 'local' is written LOCAL"),
        (
            json!({"vlan_vid": 4096}),
            "vlan_vid: want a VLAN from 0 to 4095, none (no tag), any (some tag) or 0xVALUE/0xMASK, got the number 4096",
        ),
        (
            json!({"ct_state": "+trk+neww"}),
            "ct_state: there is no flag 'neww'; known are new, est, rel, rpl, inv, trk, snat, dnat",
        ),
        (json!({"ct_state": "+trk-trk"}), "ct_state: the flag 'trk' is given twice"),
        (
            json!({"ct_state": 33}),
            "ct_state: give the flags that count, such as +trk+new, or a mask: 0x21/0x21",
        ),
        (
            json!({"eth_dst": "52:54:00:12:34"}),
            "eth_dst: want a MAC address such as 52:54:00:12:34:56, got '52:54:00:12:34'",
        ),
        (
            json!({"eth_type": 2048, "ipv4_src": "10.0.0.0/33"}),
            "ipv4_src: want an IPv4 address such as 10.0.0.1 or 10.0.0.0/24, got '10.0.0.0/33'",
        ),
        (json!({"metadata": "010"}), "metadata: want a whole number, decimal or 0x…, got '010'"),
    ];
    for (selector, says) in rows {
        assert_eq!(selecting(&selector).expect_err(&selector.to_string()), format!("selector.{says}"));
    }
}

#[test]
fn a_bad_treatment_is_refused() {
    let rows = [
        (
            json!([{"outptu": "eth1"}]),
            "[0].outptu: there is no 'outptu' in a treatment; did you mean 'output'?",
        ),
        (
            json!([{"output": 1}]),
            "[0].output: ports are named by their interface, such as eth1: numbers change when a port is made again",
        ),
        (
            json!([{"output": "eth1", "set_queue": 1}]),
            "[0]: 2 keys; each step is a map of one key: begin each with '- '",
        ),
        (json!(["drop"]), "[0]: to drop packets leave the treatment empty: treatment: []"),
        (
            json!([{"output": "TABLE"}]),
            "[0].output: TABLE is for packets that a controller sends; to go on in a table use goto_table or resubmit",
        ),
        (json!([{"output": "controller"}]), "[0].output: 'controller' is written CONTROLLER"),
        (
            json!([{"set_vlan_vid": 5}]),
            "[0].set_vlan_vid: there may be no tag to change: put push_vlan before it, or match vlan_vid",
        ),
        (json!(["pop_vlan"]), "[0].pop_vlan: there may be no tag to take away: match vlan_vid"),
        (
            json!([{"set_tcp_dst": 80}]),
            "[0].set_tcp_dst: set_tcp_dst needs eth_type: 0x0800 (or 0x86dd) and ip_proto: 6 in the selector",
        ),
        (
            json!([{"set_eth_type": 80}]),
            "[0].set_eth_type: nothing sets eth_type; push_vlan and push_mpls do",
        ),
        (
            json!([{"set_eth_dts": "52:54:00:12:34:56"}]),
            "[0].set_eth_dts: there is no 'set_eth_dts' in a treatment; did you mean 'set_eth_dst'?",
        ),
        (json!([{"goto_table": 0}]), "[0].goto_table: want a whole number from 1 to 254, got the number 0"),
        (
            json!([{"goto_table": 1}, {"output": "eth1"}]),
            "[1]: an action stands too late: the order is meter, actions, clear_actions, write_actions, write_metadata, goto_table",
        ),
        (
            json!([{"output": "eth1"}, {"meter": 1}]),
            "[1]: meter stands too late: the order is meter, actions, clear_actions, write_actions, write_metadata, goto_table",
        ),
        (json!([{"meter": 1}, {"meter": 2}]), "[1].meter: meter stands here a second time"),
        (json!([{"push_vlan": 5}]), "[0].push_vlan: want 0x8100 or 0x88a8, got the number 5"),
        (json!([{"ct": {"zone": 1}}]), "[0].ct: ct needs eth_type: 0x0800 (or 0x86dd) in the selector"),
        (json!([{"ct": {"mark": 1}}]), "[0].ct.mark: this needs commit: true beside it"),
        (
            json!([{"write_actions": [{"goto_table": 2}]}]),
            "[0].write_actions[0].goto_table: this is for a rule's own treatment; here stand actions only",
        ),
        (
            json!([{"write_actions": [{"dec_ttl": true}]}]),
            "[0].write_actions[0].dec_ttl: dec_ttl needs eth_type: 0x0800 (or 0x86dd) in the selector",
        ),
        (json!({"output": "eth1"}), ": want a list, such as [{output: eth1}]; [] drops, got a map"),
    ];
    for (treatment, says) in rows {
        assert_eq!(treating(&treatment).expect_err(&treatment.to_string()), format!("treatment{says}"));
    }
    let onwards = json!({"priority": 1, "table": 3, "treatment": [{"goto_table": 3}]});
    assert_eq!(
        refused(&onwards),
        "treatment[0].goto_table: from table 3 it goes onwards only: want 4 to 254"
    );
}

#[test]
fn a_tag_that_was_pushed_can_be_set_and_taken_away_once() {
    let steps = |more: &[Value]| {
        let mut all =
            vec![json!({"push_vlan": "0x8100"}), json!({"set_vlan_vid": 5}), json!({"set_vlan_pcp": 1})];
        all.extend_from_slice(more);
        treating(&Value::Array(all))
    };
    assert!(steps(&[json!("pop_vlan")]).is_ok());
    let twice = steps(&[json!("pop_vlan"), json!("pop_vlan")]);
    assert_eq!(
        twice.expect_err("nothing left"),
        "treatment[4].pop_vlan: there may be no tag to take away: match vlan_vid"
    );
}

#[test]
fn groups_and_meters() {
    let right = [
        json!({"group": 7, "type": "select", "buckets": [{"treatment": [{"output": "p1"}]}, {"weight": 3}]}),
        json!({"group": 8, "type": "fast_failover", "buckets": [{"watch_port": "p1", "treatment": [{"output": "p1"}]}]}),
        json!({"meter": 1, "unit": "packets", "bands": [{"rate": 10, "burst": 2}, {"rate": 20, "dscp_remark": 1}]}),
    ];
    for value in right {
        let entry = rule(value.clone()).unwrap_or_else(|bad| panic!("{value}: {bad}"));
        assert!(Packed::new(&entry).is_ok(), "{value}");
    }
    let wrong = [
        (
            json!({"group": 1, "buckets": []}),
            "type: this must be given: all, select, indirect or fast_failover",
        ),
        (
            json!({"group": 1, "type": "al", "buckets": []}),
            "type: want all, select, indirect or fast_failover, got 'al'; did you mean 'all'?",
        ),
        (
            json!({"group": 1, "type": "indirect", "buckets": []}),
            "buckets: a group of type indirect has exactly one bucket",
        ),
        (
            json!({"group": 1, "type": "all", "buckets": [{"weight": 1}]}),
            "buckets[0].weight: only buckets of a group of type select have a weight",
        ),
        (
            json!({"group": 1, "type": "all", "buckets": [{"watch_port": "p"}]}),
            "buckets[0].watch_port: only buckets of a group of type fast_failover watch a port",
        ),
        (
            json!({"group": 1, "type": "fast_failover", "buckets": [{}]}),
            "buckets[0].watch_port: this must be given: in fast_failover a bucket is used while this port is up",
        ),
        (
            json!({"group": 4294967041u32, "type": "all", "buckets": []}),
            "group: want a whole number from 0 to 4294967040, got the number 4294967041",
        ),
        (
            json!({"group": 1, "type": "all", "buckets": [{"treatment": [{"meter": 1}]}]}),
            "buckets[0].treatment[0].meter: this is for a rule's own treatment; here stand actions only",
        ),
        (
            json!({"meter": 0, "bands": [{"rate": 1}]}),
            "meter: want a whole number from 1 to 4294901760, got the number 0",
        ),
        (json!({"meter": 1, "bands": []}), "bands: a meter has at least one band, such as {rate: 1000}"),
        (
            json!({"meter": 1, "bands": [{"rate": 0}]}),
            "bands[0].rate: want a whole number from 1 to 4294967295, got the number 0",
        ),
    ];
    for (value, says) in wrong {
        assert_eq!(refused(&value), says);
    }
}

fn port() -> impl Strategy<Value = Port> {
    prop_oneof![
        Just(Port::Local),
        "[a-z]{3}[0-9]{1,3}(\\.[0-9]{1,3})?".prop_map(|name| Port::Named(name.into()))
    ]
}

/// A value and a mask as a selector or a `set_` may have them.
fn masked(field: Field) -> BoxedStrategy<(u128, Option<u128>)> {
    let all = field.all_bits();
    let known = match field.kind() {
        FieldKind::CtState => 0xff,
        _ => all,
    };
    let exact = (0..=all).prop_map(|value| (value, None));
    let some = (0..=all, 1..all).prop_map(move |(value, mask)| {
        let mask = if mask & known == 0 { 1 } else { mask & known };
        (value & mask, Some(mask))
    });
    match (field.kind(), field.is_maskable()) {
        (FieldKind::Vlan, _) => prop_oneof![
            Just((0, None)),
            Just((0x1000, Some(0x1000))),
            (0u128..4096).prop_map(|vid| (vid | 0x1000, None)),
            (0u128..4096, 1u128..4095).prop_map(|(vid, mask)| (vid & mask | 0x1000, Some(mask | 0x1000))),
        ]
        .boxed(),
        (FieldKind::CtState, _) => some.boxed(),
        (_, true) => prop_oneof![exact, some].boxed(),
        (_, false) => exact.boxed(),
    }
}

/// Fields that need no other: the others are in the table above.
fn criterion() -> impl Strategy<Value = Criterion> {
    let free: Vec<Field> = Field::ALL.iter().copied().take_while(|field| *field != Field::VlanPcp).collect();
    prop_oneof![
        port().prop_map(Criterion::InPort),
        prop::sample::select(free).prop_flat_map(|field| {
            masked(field).prop_map(move |(value, mask)| Criterion::Field { field, value, mask })
        })
    ]
}

/// Criteria that depend on `eth_type` and `ip_proto`, in three families.
fn family() -> impl Strategy<Value = Vec<Criterion>> {
    let families: [(u128, Option<u128>, &[Field]); 5] = [
        (0x0800, Some(6), &[Field::IpDscp, Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpFlags]),
        (0x86dd, Some(17), &[Field::IpEcn, Field::Ipv6Src, Field::Ipv6Flabel, Field::UdpDst]),
        (0x86dd, Some(58), &[Field::Ipv6Dst, Field::Icmpv6Type, Field::Icmpv6Code]),
        (0x0806, None, &[Field::ArpOp, Field::ArpSpa, Field::ArpTha]),
        (0x8847, None, &[Field::MplsLabel, Field::MplsTc, Field::MplsBos]),
    ];
    prop::sample::select(families.to_vec()).prop_flat_map(|(eth_type, proto, fields)| {
        let exact = |field, value| Criterion::Field { field, value, mask: None };
        let mut fixed = vec![exact(Field::EthType, eth_type)];
        fixed.extend(proto.map(|proto| exact(Field::IpProto, proto)));
        let values: Vec<_> = fields
            .iter()
            .map(|field| {
                masked(*field).prop_map(move |(value, mask)| Criterion::Field { field: *field, value, mask })
            })
            .collect();
        values.prop_map(move |values| [fixed.clone(), values].concat())
    })
}

fn action() -> impl Strategy<Value = Action> {
    let free = [Field::Reg0, Field::Reg15, Field::Metadata, Field::TunnelId, Field::EthDst, Field::EthSrc];
    prop_oneof![
        port().prop_map(|port| Action::Output(Output::Port(port))),
        prop::sample::select(vec![
            Output::InPort,
            Output::Normal,
            Output::All,
            Output::Flood,
            Output::Controller,
        ])
        .prop_map(Action::Output),
        (0u32..=0xffff_ff00).prop_map(Action::Group),
        any::<u32>().prop_map(Action::SetQueue),
        (0u8..255).prop_map(Action::Resubmit),
        prop::sample::select(vec![0x8100, 0x88a8]).prop_map(Action::PushVlan),
        prop::sample::select(free.to_vec()).prop_flat_map(|field| {
            masked(field).prop_map(move |(value, mask)| Action::Set { field, value, mask })
        }),
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let selector = (prop::collection::vec(criterion(), 0..4), family());
    let ends = (
        prop::option::of(1u32..=0xffff_0000),
        prop::collection::vec(action(), 0..4),
        any::<bool>(),
        prop::option::of(prop::collection::vec(action(), 0..3)),
        prop::option::of(masked(Field::Metadata)),
        prop::option::of(101u8..255),
    );
    let ct =
        (any::<bool>(), any::<u16>(), prop::option::of(101u8..255), prop::option::of(masked(Field::CtMark)));
    (0u8..=100, any::<[u16; 3]>(), selector, ends, ct).prop_map(|(table, [a, b, c], (more, family), ends, ct)| {
        let mut selector = [family, more].concat();
        selector.sort_by_key(Criterion::order);
        selector.dedup_by_key(|criterion| criterion.order());
        let is_ip = |rule: &[Criterion]| {
            rule.iter().any(|it| matches!(it, Criterion::Field { field: Field::EthType, value, .. } if [0x800, 0x86dd].contains(value)))
        };
        let narrow = |(value, mask): (u128, Option<u128>)| (value as u64, mask.map(|mask| mask as u64));
        let (meter, actions, clears, deferred, metadata, goto) = ends;
        let mut treatment: Vec<Instruction> = meter.map(Instruction::Meter).into_iter().collect();
        treatment.extend(actions.into_iter().map(Instruction::Do));
        if is_ip(&selector) {
            let (commit, zone, table, mark) = ct;
            let mark = mark.filter(|_| commit).map(|(value, mask)| (value as u32, mask.map(|mask| mask as u32)));
            treatment.push(Instruction::Do(Action::Ct(Ct { commit, force: commit, zone, table, mark })));
            treatment.push(Instruction::Do(Action::DecTtl));
        }
        treatment.extend(clears.then_some(Instruction::ClearActions));
        treatment.extend(deferred.map(Instruction::WriteActions));
        treatment.extend(metadata.map(narrow).map(|(value, mask)| Instruction::WriteMetadata { value, mask }));
        treatment.extend(goto.map(Instruction::GotoTable));
        Rule { table, priority: a, selector, treatment, idle_timeout: b, hard_timeout: c }
    })
}

fn any_group() -> impl Strategy<Value = Group> {
    let kinds = vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    let buckets = prop::collection::vec((1u16.., port(), prop::collection::vec(action(), 0..3)), 1..4);
    (0u32..=0xffff_ff00, prop::sample::select(kinds), buckets).prop_map(|(number, kind, mut buckets)| {
        buckets.truncate(if kind == GroupKind::Indirect { 1 } else { 4 });
        let buckets = buckets.into_iter().map(|(weight, port, treatment)| GroupBucket {
            weight: if kind == GroupKind::Select { weight } else { 0 },
            watch_port: Some(port).filter(|_| kind == GroupKind::FastFailover),
            treatment,
        });
        Group { number, kind, buckets: buckets.collect() }
    })
}

fn any_meter() -> impl Strategy<Value = Meter> {
    let band = (1u32.., any::<u32>(), any::<Option<u8>>()).prop_map(|(rate, burst, dscp_remark)| Band {
        rate,
        burst,
        dscp_remark,
    });
    (1u32..=0xffff_0000, any::<bool>(), prop::collection::vec(band, 1..4))
        .prop_map(|(number, packets, bands)| Meter { number, packets, bands })
}

pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        4 => any_rule().prop_map(Entry::Rule),
        1 => any_group().prop_map(Entry::Group),
        1 => any_meter().prop_map(Entry::Meter),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same(entry in any_entry()) {
        let printed = Value::Object(entry.to_json());
        let again = Entry::from_json(&printed);
        prop_assert_eq!(again.as_ref().map_err(|bad| format!("{bad} in {printed}")), Ok(&entry));
        let packed = Packed::new(&entry).expect("what is parsed is canonical");
        prop_assert_eq!(packed.unpack(), entry);
    }
}
