//! Policy rules, the resolver's settings, the fallback.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use muster_host::net::resolver::Resolver;
use serde_json::{Value, json};

use crate::server::NetworkServer;
use crate::{document, kept, no_mapping, settled};

fn two() -> (NetworkServer, NetworkServer) {
    let (server, peer) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.ip("link set eth1 up");
    (server, peer)
}

fn with_rules(rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    json!([{"type": "interface", "name": "eth1", "addresses": [{"ip_netmask": "192.0.2.10/24"}],
        "routes": [{"default": true, "next_hop": "192.0.2.1", "table": 100}], "rules": rules}])
}

#[test]
fn rules_come_and_go_and_others_stay() {
    let (server, _peer) = two();
    server.ip("rule add from 203.0.113.0/24 table 7 priority 70");
    server.ip("rule add to 198.51.100.0/24 table 100 priority 90");
    server.ip("rule add from all lookup main suppress_prefixlength 0 priority 91");
    let all = [
        "from 192.0.2.0/24 table 100 priority 80",
        "to 198.51.100.0/24 table 100 priority 90",
        "not from 2001:db8::/32 to 2001:db8:1::/48 iif eth1 table 1000 priority 81",
        "oif eth9 fwmark 0x10/0xf0 tos 0x8 unreachable priority 82",
        "iif lo ipproto tcp sport 1000-2000 dport 22 blackhole priority 83",
        "-6 fwmark 7 prohibit priority 84",
        "from 192.0.2.128/25 table 100",
    ];
    let (first, second) = (document(with_rules(&all)), document(with_rules(&all[..1])));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = kept(network.snapshot(&first, &no_mapping(), None).await.unwrap());
        let undo = kept(network.undo(&first, &no_mapping(), &before).await.unwrap());
        let plan = network.plan_text(&first, &no_mapping(), Some(before.clone())).await.unwrap();
        let applied = network.apply(&first, &no_mapping(), &before).await.unwrap();
        assert_eq!(plan.lines, applied.steps.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(plan.lines.contains(&"add the rule from 192.0.2.0/24 table 100 priority 80".to_owned()), "{plan:?}");
        assert_eq!(network.apply(&first, &no_mapping(), &before).await.unwrap().steps, []);
        let rules = server.ip("-4 rule show") + &server.ip("-6 rule show");
        assert_eq!(rules.matches("proto 77").count(), 6, "{rules}");

        server.ip("rule del priority 80");
        let found = network.check(&first, &no_mapping(), &before).await.unwrap();
        let wanted = "network_config[0].rules[0]: wanted the rule from 192.0.2.0/24 table 100 priority 80, it is not there";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);

        let later = network.snapshot(&second, &no_mapping(), Some(before)).await.unwrap();
        let later = network.apply(&second, &no_mapping(), &later).await.unwrap().before;
        let rules = server.ip("-4 rule show") + &server.ip("-6 rule show");
        assert_eq!(rules.matches("proto 77").count(), 1, "{rules}");
        assert!(rules.contains("90:\tfrom all to 198.51.100.0/24 lookup 100"), "{rules}");
        network.restore(&later).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
        network.apply(&first, &no_mapping(), &undo).await.unwrap();
        network.restore(&undo).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

fn with_dns() -> Value {
    json!([{"type": "interface", "name": "eth1", "dns_servers": ["192.0.2.53", "2001:db8::53"],
        "domain": ["a.example", "b.example"]}])
}

#[test]
fn a_plain_resolv_conf_is_written_and_put_back_whole() {
    let (server, _peer) = two();
    let path = server.resolv_conf();
    let document = document(with_dns());
    let old = "# by hand\nsearch old.example\nnameserver 198.51.100.53\noptions edns0 trust-ad\nsortlist 192.0.2.0\n";
    for before in [None, Some(old)] {
        if let Some(text) = before {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
        server.inside(async |network| {
            let at_first = network.observe().await.unwrap().resolver;
            let snapshot = kept(network.snapshot(&document, &no_mapping(), None).await.unwrap());
            let undo = kept(network.undo(&document, &no_mapping(), &snapshot).await.unwrap());
            let applied = network.apply(&document, &no_mapping(), &snapshot).await.unwrap();
            let step = applied.steps.last().unwrap().to_string();
            assert!(
                step.starts_with("write resolv.conf: search a.example b.example, nameserver 192.0.2.53, nameserver 2001:db8::53"),
                "{step}"
            );
            assert_eq!(network.apply(&document, &no_mapping(), &snapshot).await.unwrap().steps, []);
            let now = fs::read_to_string(&path).unwrap();
            assert!(now.starts_with("# Written by muster-agent"), "{now}");
            assert!(!now.contains("old.example") && !now.contains("198.51.100.53"), "{now}");
            assert_eq!(now.contains("options edns0 trust-ad\nsortlist 192.0.2.0\n"), before.is_some());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, if before.is_some() { 0o640 } else { 0o644 });

            fs::write(&path, "nameserver 192.0.2.54\n").unwrap();
            let found = network.check(&document, &no_mapping(), &snapshot).await.unwrap();
            assert!(found[0].to_string().starts_with("network_config[0].dns_servers: the resolver's settings differ"));
            network.restore(&undo).await.unwrap();
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), before);
            assert_eq!(network.observe().await.unwrap().resolver, at_first);
        });
    }
}

#[test]
fn systemd_resolved_gets_a_drop_in_and_is_told() {
    let (server, _peer) = two();
    let directory = server.resolv_conf().parent().unwrap().to_owned();
    let (systemctl, told) = (directory.join("systemctl"), directory.join("told"));
    fs::write(&systemctl, format!("#!/bin/sh\necho \"$@\" >> {}\n", told.display())).unwrap();
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    symlink("../run/systemd/resolve/stub-resolv.conf", server.resolv_conf()).unwrap();
    let document = document(with_dns());
    server.inside(async |network| {
        let snapshot = kept(network.snapshot(&document, &no_mapping(), None).await.unwrap());
        network.apply(&document, &no_mapping(), &snapshot).await.unwrap();
        let drop_in = fs::read_to_string(directory.join("resolved.conf.d/90-muster.conf")).unwrap();
        assert!(
            drop_in.ends_with("[Resolve]\nDNS=192.0.2.53 2001:db8::53\nDomains=a.example b.example\n"),
            "{drop_in}"
        );
        assert_eq!(fs::read_to_string(&told).unwrap(), "try-reload-or-restart systemd-resolved\n");
        assert_eq!(network.apply(&document, &no_mapping(), &snapshot).await.unwrap().steps, []);
        network.restore(&snapshot).await.unwrap();
        assert_eq!(network.observe().await.unwrap().resolver, Resolver::Resolved { drop_in: None });
        assert!(fs::read_to_string(&told).unwrap().lines().count() > 1);
    });
}

#[test]
fn a_resolver_that_others_manage_is_left_to_them() {
    let (server, _peer) = two();
    symlink("/var/run/NetworkManager/resolv.conf", server.resolv_conf()).unwrap();
    let document = document(with_dns());
    server.inside(async |network| {
        let at_first = network.observe().await.unwrap();
        let snapshot = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let error = network.apply(&document, &no_mapping(), &snapshot).await.unwrap_err().to_string();
        let wanted = "network_config[0].dns_servers: the resolver's file is a link to /var/run/NetworkManager/resolv.conf: \
                      NetworkManager seems to manage it; leave this out and say it there, or make it a plain file";
        assert_eq!(error, wanted);
        assert_eq!(network.observe().await.unwrap(), at_first);
    });
}

#[test]
fn the_fallback_makes_its_links_so_and_nothing_else() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.plug("eth2", &peer, "p2");
    peer.ip("link set p1 up");
    peer.ip("address add 192.0.2.1/24 dev p1");
    server.ip("link set eth2 up");
    server.ip("address add 203.0.113.9/24 dev eth2");
    let management = json!({"addresses": [{"ip_netmask": "192.0.2.10/24"}],
        "routes": [{"default": true, "next_hop": "192.0.2.1"}]});
    let mut bridge = management.clone();
    bridge["type"] = json!("ovs_bridge");
    bridge["name"] = json!("br-ex");
    bridge["members"] = json!([{"type": "interface", "name": "nic1", "primary": true}]);
    let mut interface = management;
    interface["type"] = json!("interface");
    interface["name"] = json!("nic1");
    let document = document(json!({"network_config": [bridge], "fallback_config": [interface]}));
    let mapping = crate::mapping("nic1", "eth1");
    server.inside(async |network| {
        let before = network.snapshot(&document, &mapping, None).await.unwrap();
        network.apply(&document, &mapping, &before).await.unwrap();
        server.pings("192.0.2.1");
        let steps = network.apply_fallback(&document, &mapping).await.unwrap();
        assert!(!steps.is_empty());
        assert_eq!(network.apply_fallback(&document, &mapping).await.unwrap(), []);
        server.pings("192.0.2.1");
        assert!(server.ip("-o route show default").starts_with("default via 192.0.2.1 dev eth1"));
        assert_eq!(server.ip("-o -4 address show dev br-ex"), "");
        assert!(server.ip("address show dev eth2").contains("203.0.113.9/24"));
        assert_eq!(server.ovs("list-ports br-ex"), "");
    });
}
