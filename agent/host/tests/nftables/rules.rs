//! Rules: what is put is there and does what it says, what others do is seen and corrected.

use std::time::Instant;

use serde_json::json;

use crate::table::Table;
use crate::{id, many, nft, rule, shown, with_filter};
use muster_testbed::Namespace;

/// Two servers with a cable: 10.9.0.1 here, 10.9.0.2 there.
fn pair() -> (Namespace, Namespace) {
    let (here, there) = (Namespace::new(), Namespace::new());
    here.plug("eth0", &there, "eth0");
    for (server, address) in [(&here, "10.9.0.1/24"), (&there, "10.9.0.2/24")] {
        server.ip(&format!("address add {address} dev eth0"));
        server.ip("link set eth0 up");
    }
    there.pings("10.9.0.1");
    (here, there)
}

fn is_heard(from: &Namespace) -> bool {
    from.run("sh -c ping${IFS}-n${IFS}-c${IFS}1${IFS}-W${IFS}1${IFS}10.9.0.1||true")
        .contains(" 0% packet loss")
}

#[test]
fn packets_go_where_the_rules_say() {
    let (here, there) = pair();
    let icmp = json!({"in_port": "eth0", "eth_type": 0x800, "ip_proto": 1, "icmpv4_type": 8});
    let drop = rule(json!({"priority": 10, "selector": icmp, "treatment": []}));
    let to_one = json!({"eth_type": 0x800, "ipv4_src": "10.9.0.0/24", "ip_proto": 1});
    let accept = rule(json!({"priority": 20, "selector": to_one, "treatment": [{"output": "NORMAL"}]}));
    let onwards = rule(json!({"priority": 30, "treatment": [{"goto_table": 3}]}));
    let in_three = rule(json!({"table": 3, "priority": 1, "selector": icmp, "treatment": []}));
    let mut table = Table::default();
    let mut apply = |puts: &[_], removes: &[_]| {
        with_filter(&here, async |filter| {
            let applied = table.apply(filter, puts, removes).await.unwrap();
            assert_eq!(applied, Default::default(), "{}", shown(&here));
            assert!(filter.compare(&table).await.unwrap().is_equal());
        });
    };
    apply(std::slice::from_ref(&drop), &[]);
    assert!(!is_heard(&there));
    // The higher priority wins, whichever came first.
    apply(std::slice::from_ref(&accept), &[]);
    assert!(is_heard(&there));
    apply(&[onwards.clone(), in_three], &[]);
    assert!(!is_heard(&there));
    apply(&[], &[onwards, accept]);
    assert!(!is_heard(&there));
    with_filter(&here, async |filter| {
        let mut counters = Vec::new();
        let tables = filter.stats(&mut |page| counters.extend(page)).await.unwrap();
        let counted = counters.iter().find(|counter| counter.id == id(&drop)).unwrap();
        assert!(counted.packets >= 2 && counted.bytes > 100, "{counted:?}");
        assert_eq!(
            tables.iter().map(|table| (table.table, table.active)).collect::<Vec<_>>(),
            [(0, 1), (3, 1)]
        );
    });
}

#[test]
fn every_field_comes_back_as_it_was_written() {
    let server = Namespace::new();
    let normal = json!([{"output": "NORMAL"}]);
    let (ip4, ip6) = (json!({"eth_type": 0x800}), json!({"eth_type": 0x86dd}));
    let with = |base: &serde_json::Value, more: serde_json::Value| {
        let mut selector = base.clone();
        selector.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        selector
    };
    let mut selectors = vec![ip4.clone(), ip6.clone(), json!({}), json!({"in_port": "eth0"})];
    for more in [
        json!({"ip_proto": 6}),
        json!({"ip_proto": 200}),
        json!({"ip_dscp": 10}),
        json!({"ip_dscp": 11}),
        json!({"ip_ecn": 1}),
        json!({"ipv4_src": "10.1.2.3"}),
        json!({"ipv4_dst": "10.1.2.0/24"}),
        json!({"ipv4_dst": "10.1.2.0/23"}),
        json!({"ipv4_src": "10.0.3.0/255.0.255.0"}),
        json!({"ipv4_src": "0.0.0.0/1"}),
        json!({"ip_proto": 6, "tcp_dst": 80}),
        json!({"ip_proto": 6, "tcp_src": "0x50/0xfff0"}),
        json!({"ip_proto": 17, "udp_dst": 53, "ipv4_dst": "10.0.0.0/8"}),
        json!({"ip_proto": 132, "sctp_src": 5}),
        json!({"ip_proto": 6, "tcp_flags": "+syn-ack"}),
        json!({"ip_proto": 6, "tcp_flags": "+syn"}),
        json!({"ip_proto": 6, "tcp_flags": "-syn-ack"}),
        json!({"ip_proto": 6, "tcp_flags": "+syn+ack"}),
        json!({"ip_proto": 1, "icmpv4_type": 8, "icmpv4_code": 0}),
        json!({"ct_state": "+trk+est"}),
        json!({"ct_state": "+new"}),
        json!({"ct_state": "-est-rel+trk"}),
        json!({"ct_state": "-trk"}),
        json!({"ct_state": "+trk"}),
        json!({"ct_state": "+est+rpl"}),
        json!({"ct_mark": 5}),
        json!({"ct_mark": "5/0xff"}),
        json!({"eth_src": "52:54:00:00:00:01"}),
        json!({"eth_dst": "52:54:00:00:00:00/ff:ff:ff:00:00:00"}),
        json!({"in_port": "eth0", "ct_zone": 3, "ip_proto": 6}),
    ] {
        selectors.push(with(&ip4, more));
    }
    for more in [
        json!({"ip_proto": 58, "icmpv6_type": 128, "icmpv6_code": 3}),
        json!({"ipv6_src": "2001:db8::/32"}),
        json!({"ipv6_dst": "2001::1/ffff::ff"}),
        json!({"ipv6_dst": "fd00::1"}),
        json!({"ip_dscp": 46}),
        json!({"ip_proto": 17, "udp_src": 53, "ipv6_dst": "::1"}),
        json!({"ipv6_flabel": 3}),
        json!({"ip_ecn": 3}),
        json!({"ip_proto": 6, "tcp_dst": 22}),
    ] {
        selectors.push(with(&ip6, more));
    }
    let of = |selector: &serde_json::Value| {
        rule(json!({"priority": 5, "selector": selector, "treatment": normal}))
    };
    let mut rules: Vec<_> = selectors.iter().map(of).collect();
    for (at, treatment) in [
        json!([{"set_ip_dscp": 12}, {"output": "NORMAL"}]),
        json!([{"ct": {"commit": true, "mark": 5}}, {"goto_table": 9}]),
        json!([{"ct": {"commit": true, "mark": "5/0xff"}}, {"output": "NORMAL"}]),
        json!([{"ct": {"commit": true}}, {"output": "NORMAL"}]),
    ]
    .into_iter()
    .enumerate()
    {
        rules.push(rule(json!({"priority": 100 + at, "selector": ip4, "treatment": treatment})));
        rules.push(rule(json!({"priority": 100 + at, "selector": ip6, "treatment": treatment})));
    }
    with_filter(&server, async |filter| {
        // Each alone, so that the one that is not as it was is named.
        for rule in &rules {
            let mut table = Table::default();
            let applied = table.apply(filter, std::slice::from_ref(rule), &[]).await.unwrap();
            assert_eq!(
                applied,
                Default::default(),
                "{rule:?}\n{}",
                nft(&server, "-j -n list table inet muster")
            );
            table.apply(filter, &[], std::slice::from_ref(rule)).await.unwrap();
        }
        let mut table = Table::default();
        assert_eq!(table.apply(filter, &rules, &[]).await.unwrap(), Default::default());
        assert!(filter.compare(&table).await.unwrap().is_equal());
    });
}

#[test]
fn a_bad_rule_among_many_is_named_and_nothing_is_applied() {
    let server = Namespace::new();
    with_filter(&server, async |filter| {
        let mut table = Table::default();
        table.apply(filter, &many(3), &[]).await.unwrap();
        let before = shown(&server);
        let mut rules = many(10_000);
        let bad = rule(json!({"table": 9, "priority": 1, "treatment": [{"output": "eth7"}]}));
        rules.insert(6_000, bad.clone());
        let refusal = table.apply(filter, &rules, &[]).await.unwrap_err();
        assert_eq!(refusal.id, Some(id(&bad)), "{refusal:?}");
        assert_eq!(shown(&server), before);

        // Only the kernel knows this bound: it follows goto a limited number of times.
        let mut rules = many(10_000);
        let step = |n: u32| json!({"table": n, "priority": 1, "treatment": [{"goto_table": n + 1}]});
        rules.extend((0..40).map(|n| rule(step(n))));
        let refusal = table.apply(filter, &rules, &[]).await.unwrap_err();
        assert!(refusal.permanent && refusal.reason.contains("Too many links"), "{refusal:?}");
        assert_eq!(shown(&server), before);
    });
}

#[test]
fn what_others_do_is_seen_and_put_right() {
    let server = Namespace::new();
    with_filter(&server, async |filter| {
        let mut table = Table::default();
        let mut rules = many(40);
        for n in 1..6 {
            rules.push(rule(
                json!({"priority": n, "selector": {"in_port": format!("p{n}")}, "treatment": []}),
            ));
        }
        table.apply(filter, &rules, &[]).await.unwrap();
        // The monitor reports neither our own changes nor changes to other tables.
        nft(&server, "add table inet other");
        nft(&server, "add chain inet other t0");
        let own = tokio::time::timeout(std::time::Duration::from_millis(200), filter.changed()).await;
        assert!(own.is_err());
        nft(&server, "delete element inet muster m0_100_044000 { 10.0.0.1 }");
        filter.changed().await.unwrap();
        let handle = |what: &str| {
            let listed = nft(&server, "-a list table inet muster");
            let line = listed.lines().find(|line| line.contains(what)).unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        };
        nft(&server, &format!("delete rule inet muster t0 handle {}", handle("iifname \"p1\"")));
        let altered = format!("iifname \"p2\" counter accept comment \"muster:{} 2\"", id(&rules[41]));
        nft(&server, &format!("replace rule inet muster t0 handle {} {altered}", handle("iifname \"p2\"")));
        nft(&server, "add rule inet muster t0 drop");
        nft(&server, "insert rule inet muster t0 drop comment \"muster:4d55000000000001 9\"");
        nft(&server, "add set inet muster s { type ipv4_addr ; }");
        nft(&server, "add element inet muster m0_100_044000 { 10.1.1.1 : accept }");
        let found = table.repair(filter).await.unwrap();
        let mut missing = vec![id(&rules[0]), id(&rules[40])];
        missing.sort();
        assert_eq!(found.missing, missing);
        assert_eq!(found.altered.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(&rules[41])]);
        assert_eq!(found.extraneous.len(), 4, "{found:?}");
        let found = filter.compare(&table).await.unwrap();
        assert!(found.is_equal() && found.unsayable.is_empty(), "{found:?}\n{}", shown(&server));
        assert!(nft(&server, "list tables").contains("inet other"));
        // The order is kept: priorities fall.
        let listed = shown(&server);
        let order: Vec<_> = (1..6).map(|n| listed.find(&format!("iifname \"p{n}\"")).unwrap()).collect();
        assert!(order.is_sorted_by(|a, b| a > b), "{listed}");

        // The map is no longer looked into; the chain is another; all is gone.
        nft(&server, &format!("delete rule inet muster t0 handle {}", handle("vmap @m0_100_044000")));
        assert_eq!(table.repair(filter).await.unwrap().altered.len(), 40);
        assert!(filter.compare(&table).await.unwrap().is_equal());
        nft(&server, "chain inet muster t0 { policy drop ; }");
        assert_eq!(table.repair(filter).await.unwrap().missing.len(), 45);
        assert!(filter.compare(&table).await.unwrap().is_equal());
        nft(&server, "flush ruleset");
        assert_eq!(table.repair(filter).await.unwrap().missing.len(), 45);
        assert!(filter.compare(&table).await.unwrap().is_equal());
        table.apply(filter, &[], &rules).await.unwrap();
    });
    assert_eq!(shown(&server), "");
}

#[test]
fn rules_that_share_a_shape_are_one_look() {
    let server = Namespace::new();
    with_filter(&server, async |filter| {
        let mut table = Table::default();
        let rules = many(10_000);
        let begun = Instant::now();
        assert_eq!(table.apply(filter, &rules, &[]).await.unwrap(), Default::default());
        eprintln!("10,000 rules of one shape, read back: {:?}", begun.elapsed());
        let chain = nft(&server, "list chain inet muster t0");
        assert_eq!(chain.matches("vmap @").count(), 1, "{chain}");
        assert_eq!(chain.matches("counter").count(), 0, "{chain}");
        let begun = Instant::now();
        assert!(filter.compare(&table).await.unwrap().is_equal());
        eprintln!("compared: {:?}", begun.elapsed());
        // One more of that shape comes into the map; one that becomes another goes out of it.
        let mut more = many(10_001);
        let last = more.pop().unwrap();
        let mangled = json!({"priority": 100, "selector": {"eth_type": 0x800, "ipv4_src": "10.0.0.1"},
            "treatment": [{"set_ip_dscp": 5}, {"output": "NORMAL"}]});
        let begun = Instant::now();
        table.apply(filter, &[last, rule(mangled)], &rules[5..10]).await.unwrap();
        eprintln!("three changed: {:?}", begun.elapsed());
        assert!(filter.compare(&table).await.unwrap().is_equal());
        let chain = nft(&server, "list chain inet muster t0");
        assert_eq!(
            (chain.matches("vmap @").count(), chain.matches("ip dscp set").count()),
            (1, 1),
            "{chain}"
        );
    });
}

#[test]
fn what_others_put_into_our_table_goes_whatever_leads_to_what() {
    let server = Namespace::new();
    with_filter(&server, async |filter| {
        let mut table = Table::default();
        table.apply(filter, &many(20), &[]).await.unwrap();
        let before = shown(&server);
        for command in [
            "add chain inet muster theirs",
            "add chain inet muster more",
            "add set inet muster addresses { type ipv4_addr ; }",
            "add map inet muster verdicts { type ipv4_addr : verdict ; elements = { 10.9.9.9 : goto more } ; }",
            "add counter inet muster seen",
            "add rule inet muster theirs ip saddr @addresses jump more",
            "add rule inet muster more counter name seen",
            "add rule inet muster t0 ip daddr vmap @verdicts",
            "add rule inet muster t0 jump theirs",
        ] {
            nft(&server, command);
        }
        let found = table.repair(filter).await.unwrap();
        assert!(found.extraneous.len() >= 8, "{found:?}");
        assert!(filter.compare(&table).await.unwrap().is_equal());
        assert_eq!(shown(&server), before);
    });
}
