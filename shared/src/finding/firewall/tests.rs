//! Rules as nft and iptables list them, and the fate of a packet.

use serde_json::{Value, json};

use super::*;

/// From a server to its controller.
fn outgoing() -> Packet {
    Packet {
        hook: Hook::Output,
        interface: Interface::Name("eth0".into()),
        is_v6: false,
        source: Some("10.0.0.2".parse().unwrap()),
        destination: Some("10.0.0.1".parse().unwrap()),
        source_port: None,
        destination_port: Some(8883),
        is_new: true,
    }
}

/// From some server, at the controller.
fn incoming() -> Packet {
    Packet {
        hook: Hook::Input,
        interface: Interface::OfNetwork,
        source: None,
        destination: None,
        ..outgoing()
    }
}

fn matches(left: Value, op: &str, right: Value) -> Value {
    json!({"match": {"op": op, "left": left, "right": right}})
}

fn payload(protocol: &str, field: &str) -> Value {
    json!({"payload": {"protocol": protocol, "field": field}})
}

fn meta(key: &str) -> Value {
    json!({"meta": {"key": key}})
}

fn state() -> Value {
    json!({"ct": {"key": "state"}})
}

/// A table with base chains of these policies, a chain without a hook, and these rules of the chains.
fn listing(policies: &[(&str, &str)], rules: &[(&str, Vec<Value>)]) -> Value {
    let chain = |name: &str| json!({"family": "inet", "table": "filter", "name": name});
    let mut all = vec![json!({"metainfo": {}}), json!({"chain": chain("service")})];
    for (hook, policy) in policies {
        let mut chain = chain(hook);
        for (key, value) in [("type", "filter"), ("hook", hook), ("policy", policy)] {
            chain[key] = json!(value);
        }
        all.push(json!({"chain": chain}));
    }
    let elements = json!(["10.0.0.1", {"range": ["10.1.0.1", "10.1.0.9"]}, {"elem": {"val": {"prefix": {"addr": "10.2.0.0", "len": 16}}}}]);
    all.push(json!({"set": {"family": "inet", "table": "filter", "name": "controllers", "elem": elements}}));
    for (n, (chain, expr)) in rules.iter().enumerate() {
        all.push(json!({"rule": {"family": "inet", "table": "filter", "chain": chain, "handle": n + 1, "expr": expr}}));
    }
    json!({ "nftables": all })
}

#[track_caller]
fn refused(verdict: &Verdict, by: &str, remedy: &str) {
    let Verdict::Refused { rule, remedy: by_what } = verdict else { panic!("{verdict:?}") };
    assert!(rule.contains(by), "{rule}");
    assert_eq!(by_what, remedy);
}

#[test]
fn the_first_rule_that_takes_a_packet_decides() {
    let port = |right| matches(payload("tcp", "dport"), "==", right);
    let drop = json!({"drop": null});
    let accept = json!({"accept": null});
    let out = |rules: &[Vec<Value>]| {
        let rules: Vec<_> = rules.iter().map(|rule| ("output", rule.clone())).collect();
        nft::chains(&listing(&[("output", "accept")], &rules), &outgoing()).verdict(&outgoing())
    };
    assert_eq!(out(&[]), Verdict::Passes);
    let by = "the rule with handle 1 of chain inet filter output";
    let remedy = "nft insert rule inet filter output tcp dport 8883 accept";
    let interface = matches(meta("oifname"), "==", json!("eth*"));
    let network = matches(payload("ip", "daddr"), "==", json!({"prefix": {"addr": "10.0.0.0", "len": 8}}));
    for taken in [
        vec![],
        vec![port(json!(8883))],
        vec![port(json!({"set": [22, {"range": [8000, 8883]}]}))],
        vec![port(json!({"range": [8883, 9000]}))],
        vec![matches(payload("th", "dport"), ">=", json!(8883))],
        vec![matches(payload("tcp", "dport"), "!=", json!(22))],
        vec![interface.clone(), network.clone()],
        vec![matches(payload("ip", "daddr"), "==", json!("@controllers"))],
        vec![matches(meta("l4proto"), "==", json!("tcp")), json!({"counter": {}}), json!({"log": null})],
        vec![matches(state(), "in", json!(["established", "new"]))],
        vec![matches(meta("nfproto"), "==", json!("ipv4"))],
    ] {
        let rule: Vec<Value> = taken.iter().cloned().chain([drop.clone()]).collect();
        refused(&out(std::slice::from_ref(&rule)), by, remedy);
        assert_eq!(
            out(&[taken.into_iter().chain([accept.clone()]).collect(), vec![drop.clone()]]),
            Verdict::Passes
        );
    }
    for other in [
        port(json!(8443)),
        matches(payload("udp", "dport"), "==", json!(8883)),
        matches(payload("udp", "dport"), "!=", json!(8883)),
        matches(payload("ip6", "daddr"), "!=", json!("fe80::1")),
        matches(meta("oifname"), "==", json!("eth1")),
        matches(meta("iifname"), "==", json!("eth0")),
        matches(state(), "==", json!("established")),
        matches(payload("ip", "daddr"), "!=", json!("@controllers")),
        matches(payload("ip", "saddr"), "==", json!("10.0.0.1")),
    ] {
        assert_eq!(out(&[vec![other.clone(), drop.clone()]]), Verdict::Passes, "{other}");
    }
    // A rule that asks for what nobody knows: both may be.
    for unknown in [
        matches(meta("mark"), "==", json!(1)),
        json!({"limit": {"rate": 5}}),
        json!({"xt": {"type": "match", "name": "recent"}}),
        matches(payload("ip", "daddr"), "==", json!("@nowhere")),
    ] {
        let Verdict::Depends { rule } = out(&[vec![unknown.clone(), drop.clone()]]) else {
            panic!("{unknown}")
        };
        assert_eq!(rule, by);
        refused(&out(&[vec![unknown, accept.clone()], vec![drop.clone()]]).either(), "handle", remedy);
    }
    refused(&out(&[vec![json!({"reject": {"type": "tcp reset"}})]]), by, remedy);
    assert!(matches!(out(&[vec![json!({"queue": {"num": 1}})]]), Verdict::Depends { .. }));
}

impl Verdict {
    /// A verdict that depends, as one that is refused by the same rule.
    fn either(self) -> Self {
        match self {
            Self::Depends { rule } => Self::Refused {
                rule,
                remedy: "nft insert rule inet filter output tcp dport 8883 accept".into(),
            },
            other => other,
        }
    }
}

#[test]
fn chains_maps_and_policies_decide() {
    let jump = |to: &str| json!({"jump": {"target": to}});
    let port = matches(payload("tcp", "dport"), "==", json!(8883));
    let both = [("input", "drop"), ("output", "accept")];
    let judge = |rules: &[(&str, Vec<Value>)], packet: &Packet| {
        nft::chains(&listing(&both, rules), packet).verdict(packet)
    };
    let remedy = "nft insert rule inet filter input tcp dport 8883 accept";
    refused(&judge(&[], &incoming()), "the policy of chain inet filter input", remedy);
    assert_eq!(judge(&[], &outgoing()), Verdict::Passes);
    let answer = "nft insert rule inet filter input ct state established accept";
    refused(&judge(&[], &outgoing().answer()), "the policy", answer);
    // A client's port is not a service's.
    let services = matches(payload("tcp", "dport"), "==", json!({"set": [22, {"range": [80, 443]}]}));
    let open = ("input", vec![services, json!({"accept": null})]);
    refused(&judge(&[open], &outgoing().answer()), "the policy", answer);
    let many = matches(payload("tcp", "dport"), "==", json!({"range": [1000, 40000]}));
    let open = ("input", vec![many, json!({"accept": null})]);
    assert!(matches!(judge(&[open], &outgoing().answer()), Verdict::Depends { .. }));

    // A chain that is jumped to may return, and one that is gone to may not.
    let service = ("service", vec![port.clone(), json!({"accept": null})]);
    let returns = ("service", vec![json!({"return": null})]);
    let into = ("input", vec![jump("service")]);
    let goes = ("input", vec![json!({"goto": {"target": "service"}})]);
    let accepts = ("input", vec![json!({"accept": null})]);
    for (rules, passes) in [
        (vec![into.clone(), service.clone()], true),
        (vec![into.clone(), returns.clone()], false),
        (vec![into, returns.clone(), accepts.clone()], true),
        (vec![goes.clone(), service, accepts.clone()], true),
        (vec![goes, returns, accepts.clone()], false),
        (vec![("input", vec![jump("service")]), ("service", vec![jump("service")])], false),
    ] {
        let verdict = judge(&rules, &incoming());
        assert_eq!(verdict == Verdict::Passes, passes, "{rules:?}: {verdict:?}");
    }
    // Loopback is no network, and which other interface it is, nobody knows.
    let lo = matches(meta("iifname"), "==", json!("lo"));
    let refuses = judge(&[("input", vec![lo, json!({"accept": null})])], &incoming());
    refused(&refuses, "the policy", remedy);
    let some = matches(payload("ip", "saddr"), "==", json!({"prefix": {"addr": "10.0.0.0", "len": 8}}));
    let depends = judge(&[("input", vec![some, port, json!({"accept": null})])], &incoming());
    assert!(matches!(depends, Verdict::Depends { rule } if rule.contains("handle 1 ")));
    // A map of verdicts.
    let map = |state_is_new: &str| json!({"vmap": {"key": state(), "data": {"set": [["established", {"accept": null}], ["new", {state_is_new: null}]]}}});
    refused(&judge(&[("input", vec![map("drop")]), accepts.clone()], &incoming()), "handle 1", remedy);
    assert_eq!(judge(&[("input", vec![map("accept")])], &incoming()), Verdict::Passes);
    refused(&judge(&[("input", vec![map("continue")])], &incoming()), "the policy", remedy);
    // Tables of the other version of IP are not for this packet.
    let v6 = Packet { is_v6: true, ..incoming() };
    let listing = json!({"nftables": [{"chain": {"family": "ip", "table": "f", "name": "i", "type": "filter",
        "hook": "input", "policy": "drop"}}, {"chain": {"family": "ip", "table": "n", "name": "i", "type": "nat", "hook": "input"}}]});
    assert_eq!(nft::chains(&listing, &v6).verdict(&v6), Verdict::Passes);
    assert!(matches!(nft::chains(&listing, &incoming()).verdict(&incoming()), Verdict::Refused { .. }));
    assert_eq!(nft::tables(&listing), [("ip".to_owned(), "f".to_owned())]);
    // Jumps that double at each step have an end.
    let many: Vec<_> = (0..40).map(|_| ("service", vec![jump("service")])).collect();
    let rules = [vec![("input", vec![jump("service")])], many].concat();
    assert!(matches!(judge(&rules, &incoming()), Verdict::Depends { .. }));
}

const SAVED: &str = r#"# Generated by iptables-save
*nat
:OUTPUT DROP [0:0]
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:services - [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m comment --comment "a -j \"DROP\"" -j services
-A services -p tcp -m multiport --dports 22,8443:8883 -j ACCEPT
-A OUTPUT -d 10.9.0.0/16 -j REJECT --reject-with icmp-port-unreachable
-A OUTPUT ! -o eth+ -p tcp -m tcp --dport 8883 -j DROP
-A OUTPUT -p tcp -m tcp --dport 8884 -m conntrack --ctstate NEW -j REJECT --reject-with tcp-reset
-A OUTPUT -p tcp -m tcp --dport 8885 -m recent --update --seconds 30 --hitcount 6 --name DEFAULT -j DROP
-A OUTPUT -m iprange --dst-range 10.8.0.1-10.8.0.9 -j LOG
COMMIT
"#;

#[test]
fn rules_of_iptables_decide_as_well() {
    let judge = |packet: &Packet| iptables::chains(SAVED, "iptables", packet).verdict(packet);
    assert_eq!(judge(&incoming()), Verdict::Passes);
    let to = |port| Packet { destination_port: Some(port), ..incoming() };
    refused(
        &judge(&to(8181)),
        "the policy of chain INPUT (iptables, table filter)",
        "iptables -t filter -I INPUT -p tcp --dport 8181 -j ACCEPT",
    );
    assert_eq!(judge(&outgoing()), Verdict::Passes);
    assert_eq!(judge(&outgoing().answer()), Verdict::Passes);
    let out = |port, address: &str| Packet {
        destination_port: Some(port),
        destination: Some(address.parse().unwrap()),
        ..outgoing()
    };
    let remedy = |port| format!("iptables -t filter -I OUTPUT -p tcp --dport {port} -j ACCEPT");
    refused(&judge(&out(8883, "10.9.0.1")), "'-A OUTPUT -d 10.9.0.0/16", &remedy(8883));
    refused(&judge(&out(8884, "10.0.0.1")), "--dport 8884", &remedy(8884));
    assert!(matches!(judge(&out(8885, "10.0.0.1")), Verdict::Depends { rule } if rule.contains("recent")));
    let other = Packet { interface: Interface::Name("bond0".into()), ..outgoing() };
    refused(&judge(&other), "! -o eth+", &remedy(8883));
    assert_eq!(judge(&Packet { is_v6: true, ..outgoing() }), Verdict::Passes);
    for odd in
        ["", "*filter", "*filter\n:", "*filter\n:INPUT\n-A", "*filter\n:INPUT DROP\n-A INPUT -j", "-A INPUT"]
    {
        let _ = iptables::chains(odd, "iptables", &incoming()).verdict(&incoming());
    }
}

#[test]
fn what_is_not_a_listing_decides_nothing() {
    for odd in [
        json!(null),
        json!({"nftables": 1}),
        json!({"nftables": [{"chain": 1}, {"rule": {"expr": {}}}, {"chain": {"family": "inet", "table": "t"}}]}),
    ] {
        assert_eq!(nft::chains(&odd, &incoming()).verdict(&incoming()), Verdict::Passes);
        assert!(nft::tables(&odd).is_empty() && !nft::has_foreign(&odd));
    }
    let foreign = listing(&[], &[("input", vec![json!({"xt": {"type": "target", "name": "REJECT"}})])]);
    assert!(nft::has_foreign(&foreign));
}

/// Answers at once, so that no runtime is needed.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn programs_are_asked_for_what_is_loaded() {
    let table = |foreign: bool| {
        let expr = if foreign { json!([{"xt": {"type": "match", "name": "multiport"}}]) } else { json!([]) };
        json!({"nftables": [
            {"chain": {"family": "ip", "table": "filter", "name": "INPUT", "type": "filter", "hook": "input", "policy": "drop"}},
            {"rule": {"family": "ip", "table": "filter", "chain": "INPUT", "handle": 1, "expr": expr}}]})
    };
    let read = |loaded, foreign: bool, has_iptables: bool| {
        now(Listing::read(loaded, async |program: &'static str, arguments: Vec<String>| {
            match (program, arguments.join(" ").as_str()) {
                ("nft", "-j list chains" | "-j list table ip filter") => Some(table(foreign).to_string()),
                ("iptables-nft-save" | "iptables-legacy-save", "") if has_iptables => Some(SAVED.to_owned()),
                _ => None,
            }
        }))
    };
    let find = |files: &[(&str, &str)]| {
        let text =
            |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        Loaded::find(|path| text(path).is_some(), text)
    };
    let release = ("/proc/sys/kernel/osrelease", "6.1\n");
    let module = ("/lib/modules/6.1/kernel/net/netfilter/nf_tables.ko.xz", "");
    let nftables = find(&[release, module, ("/sys/module/nf_tables", "")]);
    let verdict = |listing: Option<Listing>| listing.unwrap().both_ways(&incoming())[0].clone();
    let remedy = "nft insert rule ip filter INPUT tcp dport 8883 accept";
    refused(&verdict(read(nftables, false, true)), "ip filter INPUT", remedy);
    // A module that is not loaded filters nothing. Where there is none, nftables may be part of the kernel.
    assert_eq!(verdict(read(find(&[release, module]), false, false)), Verdict::Passes);
    refused(&verdict(read(find(&[release]), false, true)), "ip filter INPUT", remedy);
    let silent = |loaded| now(Listing::read(loaded, async |_: &'static str, _: Vec<String>| None::<String>));
    assert!(silent(nftables).is_none());
    assert_eq!(verdict(silent(find(&[release]))), Verdict::Passes);
    // SAVED lets the packet through, and is the better listing of the same table.
    assert_eq!(verdict(read(nftables, true, true)), Verdict::Passes);
    refused(&verdict(read(nftables, true, false)), "ip filter INPUT", remedy);
    let legacy = find(&[release, module, ("/proc/net/ip_tables_names", "nat\nfilter\n")]);
    assert_eq!(verdict(read(legacy, false, true)), Verdict::Passes);
    assert!(read(legacy, false, false).is_none());
    let v6 = find(&[release, module, ("/proc/net/ip6_tables_names", "filter\n")]);
    assert!(read(v6, false, true).is_none());
}
