//! Interfaces, Linux bridges, routes: no Open vSwitch.

use serde_json::json;

use crate::server::NetworkServer;
use crate::{document, kept, no_mapping, settled};
use muster_host::net::{Step, chain};
use muster_shared::model::network::NicMapping;

/// A server with eth1, configured by somebody else, and its neighbour.
fn two() -> (NetworkServer, NetworkServer) {
    let (server, peer) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    peer.ip("address add 192.0.2.1/24 dev p1");
    peer.ip("address add 2001:db8::1/64 dev p1 nodad");
    peer.ip("link set p1 up");
    server.ip("link set eth1 up mtu 1400");
    server.ip("address add 198.51.100.9/24 dev eth1");
    server.ip("address add 198.51.100.10/24 dev eth1");
    server.ip("address add 2001:db8:9::9/64 dev eth1 nodad");
    server.ip("route add 203.0.113.0/24 via 198.51.100.1 metric 5");
    server.ip("route add 203.0.113.0/25 dev eth1 src 198.51.100.10");
    server.ip("route add 2001:db8:99::/48 via 2001:db8:9::1");
    (server, peer)
}

#[test]
fn an_interface_is_configured_updated_and_put_back() {
    let (server, _peer) = two();
    let first = document(json!([{"type": "interface", "name": "nic1", "mtu": 1450,
        "addresses": [{"ip_netmask": "192.0.2.10/24"}, {"ip_netmask": "2001:db8::10/64"}],
        "routes": [{"default": true, "next_hop": "192.0.2.1"},
            {"ip_netmask": "10.1.0.0/16", "next_hop": "192.0.2.1", "table": 1000, "metric": 7},
            {"default": true, "next_hop": "2001:db8::1"}]}]));
    let second = document(json!([{"type": "interface", "name": "nic1",
        "addresses": [{"ip_netmask": "192.0.2.11/24"}, {"ip_netmask": "192.0.2.12/24"}],
        "routes": [{"default": true, "next_hop": "192.0.2.1"}]}]));
    let mapping = NicMapping::new([("nic1".to_owned(), "eth1".to_owned())].into()).unwrap();
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = kept(network.snapshot(&first, &mapping, None).await.unwrap());
        let applied = network.apply(&first, &mapping, &before).await.unwrap();
        assert!(!applied.steps.is_empty());
        assert_eq!(applied.before, before);
        server.pings("192.0.2.1");
        server.pings("2001:db8::1");
        assert!(server.ip("-o route show default").starts_with("default via 192.0.2.1 dev eth1"));
        assert!(server.ip("route show table 1000").contains("10.1.0.0/16 via 192.0.2.1 dev eth1"));
        assert!(!server.ip("address show dev eth1").contains("198.51.100"));
        assert_eq!(network.apply(&first, &mapping, &before).await.unwrap().steps, []);

        // The address is replaced within its network, so the kernel drops the routes over it on the way.
        let before = kept(network.snapshot(&second, &mapping, Some(before)).await.unwrap());
        network.apply(&second, &mapping, &before).await.unwrap();
        server.pings("192.0.2.1");
        assert!(server.ip("route show table all").contains("default via 192.0.2.1 dev eth1"));
        assert!(!server.ip("-6 route show").contains("default via"));
        assert!(server.ip("link show dev eth1").contains("mtu 1400"));
        assert_eq!(network.apply(&second, &mapping, &before).await.unwrap().steps, []);
        assert_eq!(network.check(&second, &mapping, &before).await.unwrap(), []);

        assert_eq!(network.restore(&before).await.unwrap(), [""; 0]);
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
        assert_eq!(network.restore(&before).await.unwrap(), [""; 0]);
    });
}

#[test]
fn a_link_that_was_down_goes_down_again_with_its_addresses() {
    let (server, peer) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.ip("address add 198.51.100.9/24 dev eth1");
    server.ip("address add 2001:db8:9::9/64 dev eth1 nodad");
    let document = document(
        json!([{"type": "interface", "name": "eth1", "addresses": [{"ip_netmask": "192.0.2.10/24"}]}]),
    );
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        network.apply(&document, &no_mapping(), &before).await.unwrap();
        network.restore(&before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn the_loopback_interface_keeps_what_the_kernel_gave_it() {
    let (server, peer) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    for command in ["link set lo up", "address add 198.51.100.9/32 dev lo", "route add 203.0.113.0/24 dev lo"]
    {
        server.ip(command);
    }
    let document = document(json!([{"type": "interface", "name": "lo",
        "addresses": [{"ip_netmask": "192.0.2.1/32"}, {"ip_netmask": "2001:db8::1/128"}]}]));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        network.apply(&document, &no_mapping(), &before).await.unwrap();
        let lo = network.observe().await.unwrap().links["lo"].clone();
        let mut has: Vec<String> = lo.addresses.iter().map(|address| address.net.to_string()).collect();
        has.sort();
        assert_eq!(has, ["127.0.0.1/8", "192.0.2.1/32", "2001:db8::1/128", "::1/128"]);
        assert_eq!((lo.up, lo.mtu, lo.routes.len()), (true, 65_536, 1));
        assert_eq!(network.apply(&document, &no_mapping(), &before).await.unwrap().steps, []);
        network.restore(&before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn a_linux_bridge_forwards_and_gives_its_members_back() {
    let (server, left, right) = (NetworkServer::new(), NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &left, "p1");
    server.plug("eth2", &right, "p1");
    for (peer, address) in [(&left, "192.0.2.1/24"), (&right, "192.0.2.2/24")] {
        peer.ip("link set p1 up");
        peer.ip(&format!("address add {address} dev p1"));
    }
    server.ip("address add 192.0.2.10/24 dev eth1");
    server.ip("link set eth1 up");
    server.ip("route add default via 192.0.2.1");
    let bridge = |members: serde_json::Value| {
        document(json!([{"type": "linux_bridge", "name": "br0", "mtu": 1300, "members": members,
            "addresses": [{"ip_netmask": "192.0.2.10/24"}],
            "routes": [{"default": true, "next_hop": "192.0.2.1"}]}]))
    };
    let eth = |name: &str, primary: bool| json!({"type": "interface", "name": name, "primary": primary});
    let both = bridge(json!([eth("eth1", false), eth("eth2", true)]));
    let one = bridge(json!([eth("eth2", true)]));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&both, &no_mapping(), None).await.unwrap();
        network.apply(&both, &no_mapping(), &before).await.unwrap();
        left.pings("192.0.2.2");
        server.pings("192.0.2.1");
        let state = network.observe().await.unwrap();
        assert_eq!(state.links["br0"].mac, state.links["eth2"].mac);
        assert_eq!(state.links["br0"].mtu, 1300);
        assert_eq!(network.apply(&both, &no_mapping(), &before).await.unwrap().steps, []);

        // eth1 is no longer named and would get back the default route that br0 has now.
        let before = network.snapshot(&one, &no_mapping(), Some(before)).await.unwrap();
        let error = network.apply(&one, &no_mapping(), &before).await.unwrap_err();
        let wanted = "network_config[0].routes[0]: the route default via 192.0.2.1 is the one that eth1 had before \
                      and gets back, since the document does not name it; name eth1 in the document, \
                      or give this route a metric or table of its own";
        assert_eq!(error.to_string(), wanted);
        network.restore(&before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn what_fails_in_the_middle_is_put_back_and_says_why() {
    let (server, _peer) = two();
    let document = document(json!([
        {"type": "linux_bridge", "name": "br0", "members": [{"type": "interface", "name": "eth1"}],
         "addresses": [{"ip_netmask": "192.0.2.10/24"}],
         "routes": [{"ip_netmask": "10.0.0.0/8", "next_hop": "192.0.9.1"}]}]));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let undo = kept(network.undo(&document, &no_mapping(), &before).await.unwrap());
        let error = network.apply(&document, &no_mapping(), &before).await.unwrap_err();
        assert!(error.may_have_changed(), "{error:?}");
        let wanted = "cannot add the route 10.0.0.0/8 via 192.0.9.1 dev br0 (its next hop is on no network of that link): \
                      Network is unreachable (os error 101): Nexthop has invalid gateway";
        assert_eq!(chain(&error), wanted);
        assert_ne!(settled(network.observe().await.unwrap()), at_first);
        network.restore(&undo).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn what_the_host_lacks_is_refused_by_apply_and_shown_by_plan() {
    let server = NetworkServer::new();
    let document = document(json!([
        {"type": "interface", "name": "eth7", "addresses": [{"ip_netmask": "192.0.2.10/24"}]},
        {"type": "ovs_bridge", "name": "br0", "members": [{"type": "interface", "name": "nic3"}]}]));
    server.inside(async |network| {
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let error = network.apply(&document, &no_mapping(), &before).await.unwrap_err().to_string();
        assert!(
            error.starts_with("network_config[0]: there is no interface eth7 on this host, only "),
            "{error}"
        );
        assert!(error.contains("network_config[1]: Open vSwitch's database cannot be reached"), "{error}");
        assert!(error.contains("network_config[1].members[0]: there is no interface nic3"), "{error}");
        assert!(error.contains("map the alias (mapping: {nic3: …})"), "{error}");
        let plan = network.plan_text(&document, &no_mapping(), None).await.unwrap();
        assert_eq!(plan.warnings.len(), 3);
        assert!(plan.lines.contains(&"add the address 192.0.2.10/24 to eth7".to_owned()), "{plan:?}");
        assert!(
            plan.lines.contains(&"create the Open vSwitch bridge br0 (datapath netdev)".to_owned()),
            "{plan:?}"
        );
    });
}

#[test]
fn a_vlan_link_works_or_is_refused_with_the_kernels_reason() {
    let (server, _peer) = two();
    let document = document(
        json!([{"type": "vlan", "vlan_id": 5, "device": "eth1", "addresses": [{"ip_netmask": "10.5.0.1/24"}]}]),
    );
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        match network.apply(&document, &no_mapping(), &before).await {
            Ok(_) => {
                assert_eq!(network.apply(&document, &no_mapping(), &before).await.unwrap().steps, []);
                network.restore(&before).await.unwrap();
            }
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.contains("cannot create vlan5: VLAN 5 on eth1 (this kernel has no 802.1Q"),
                    "{error}"
                );
            }
        }
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn what_stands_in_the_way_is_named_before_anything_changes() {
    let (server, _peer) = two();
    server.ip("link add br0 type veth peer name other");
    let document = document(json!([
        {"type": "interface", "name": "eth1", "mtu": 1200},
        {"type": "linux_bridge", "name": "br0", "members": []}]));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let error = network.apply(&document, &no_mapping(), &before).await.unwrap_err();
        let wanted = "network_config[1]: br0 is there already as a link of kind veth; choose another name or delete it";
        assert_eq!(error.to_string(), wanted);
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn thousands_of_routes_are_applied_and_taken_back() {
    let (server, _peer) = two();
    let route = |index: u32| json!({"ip_netmask": format!("10.{}.{}.0/24", index / 256, index % 256), "next_hop": "192.0.2.1"});
    let routes: Vec<_> = (0..5_000).map(route).collect();
    let document = document(
        json!([{"type": "interface", "name": "eth1", "addresses": [{"ip_netmask": "192.0.2.10/24"}], "routes": routes}]),
    );
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let applied = network.apply(&document, &no_mapping(), &before).await.unwrap();
        assert_eq!(applied.steps.iter().filter(|step| matches!(step, Step::AddRoute { .. })).count(), 5_000);
        assert_eq!(network.apply(&document, &no_mapping(), &before).await.unwrap().steps, []);
        network.restore(&before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}
