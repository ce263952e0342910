//! Bridges and ports of a real Open vSwitch.

use serde_json::{Value, json};

use crate::server::NetworkServer;
use crate::{document, kept, no_mapping, settled};
use muster_host::net::NetError;
use muster_shared::model::network::NicMapping;

/// TripleO's net-config-static-bridge, with more members.
fn br_ex(address: &str, members: Vec<Value>) -> Value {
    let mut all = vec![json!({"type": "interface", "name": "nic1", "primary": true})];
    all.extend(members);
    json!({"network_config": [{"type": "ovs_bridge", "name": "br-ex", "use_dhcp": false, "dns_servers": [],
        "addresses": [{"ip_netmask": address}],
        "routes": [{"ip_netmask": "169.254.169.254/32", "next_hop": "192.0.2.254"},
            {"default": true, "next_hop": "192.0.2.254"}],
        "members": all}]})
}

fn vlan(id: u16, address: &str) -> Value {
    json!({"type": "vlan", "vlan_id": id, "addresses": [{"ip_netmask": address}]})
}

fn nic1() -> NicMapping {
    NicMapping::new([("nic1".to_owned(), "eth1".to_owned())].into()).unwrap()
}

#[test]
fn two_servers_talk_over_a_bridge_and_a_vlan_and_are_restored() {
    let (one, other) = (NetworkServer::with_ovs(), NetworkServer::with_ovs());
    one.plug("eth1", &other, "eth1");
    one.ip("link set eth1 up");
    one.ip("address add 192.0.2.1/24 dev eth1");
    one.ip("address add 2001:db8::1/64 dev eth1 nodad");
    one.ip("route add default via 192.0.2.99");
    let documents = [
        document(br_ex("192.0.2.1/24", vec![vlan(10, "10.10.0.1/24")])),
        document(br_ex("192.0.2.2/24", vec![vlan(10, "10.10.0.2/24")])),
    ];
    let mut befores = Vec::new();
    for (server, document) in [&one, &other].into_iter().zip(&documents) {
        befores.push(server.inside(async |network| {
            let at_first = settled(network.observe().await.unwrap());
            let before = kept(network.snapshot(document, &nic1(), None).await.unwrap());
            let applied = network.apply(document, &nic1(), &before).await.unwrap();
            assert!(!applied.steps.is_empty());
            assert_eq!(network.apply(document, &nic1(), &before).await.unwrap().steps, []);
            let state = network.observe().await.unwrap();
            assert_eq!(state.links["br-ex"].mac, state.links["eth1"].mac);
            (at_first, before)
        }));
    }
    one.pings("192.0.2.2");
    one.pings("10.10.0.2");
    other.pings("192.0.2.1");
    assert_eq!(one.ovs("get port vlan10 tag").trim(), "10");
    assert_eq!(one.ovs("get bridge br-ex external_ids:muster-owner").trim(), "muster");
    assert!(one.ip("route show").contains("169.254.169.254 via 192.0.2.254 dev br-ex"));
    assert!(!one.ip("route show").contains("dev eth1"));
    for (server, (at_first, before)) in [&one, &other].into_iter().zip(befores) {
        server.inside(async |network| {
            assert_eq!(network.restore(&before).await.unwrap(), [""; 0]);
            assert_eq!(settled(network.observe().await.unwrap()), at_first);
        });
        assert_eq!(server.ovs("list-br"), "");
    }
}

#[test]
fn an_update_changes_what_changed_and_gives_back_the_rest() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.plug("eth2", &peer, "p2");
    server.ip("address add 198.51.100.7/24 dev eth2");
    let eth2 = json!({"type": "interface", "name": "eth2"});
    let first = document(br_ex("192.0.2.1/24", vec![vlan(10, "10.10.0.1/24"), eth2]));
    let mut mtu = br_ex("192.0.2.7/24", vec![vlan(11, "10.10.0.1/24")]);
    mtu["network_config"][0]["mtu"] = json!(1400);
    let second = document(mtu);
    let linux = document(
        json!([{"type": "linux_bridge", "name": "br-ex", "addresses": [{"ip_netmask": "192.0.2.1/24"}],
        "members": [{"type": "interface", "name": "eth2"}]}]),
    );
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&first, &nic1(), None).await.unwrap();
        let before = network.apply(&first, &nic1(), &before).await.unwrap().before;
        assert_eq!(server.ovs("list-ports br-ex"), "eth1\neth2\nvlan10\n");

        let before = network.snapshot(&second, &nic1(), Some(before)).await.unwrap();
        let before = network.apply(&second, &nic1(), &before).await.unwrap().before;
        assert_eq!(server.ovs("list-ports br-ex"), "eth1\nvlan11\n");
        assert!(server.ip("address show dev eth2").contains("198.51.100.7/24"));
        assert!(server.ip("link show dev br-ex").contains("mtu 1400"));
        assert!(server.ip("address show dev br-ex").contains("192.0.2.7/24"));
        assert!(!before.links.contains_key("eth2"));
        assert_eq!(network.apply(&second, &nic1(), &before).await.unwrap().steps, []);

        // A bridge of another kind, under the same name.
        let before = network.snapshot(&linux, &nic1(), Some(before)).await.unwrap();
        let before = network.apply(&linux, &nic1(), &before).await.unwrap().before;
        assert_eq!(server.ovs("list-br"), "");
        assert_eq!(network.observe().await.unwrap().links["br-ex"].kind, "bridge");

        network.restore(&before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn a_bridges_own_port_is_in_a_vlan_until_its_document_goes() {
    let server = NetworkServer::with_ovs();
    server.ovs("add-br br-ex -- set bridge br-ex datapath_type=netdev -- set port br-ex tag=3");
    let tagged =
        document(json!([{"type": "ovs_bridge", "name": "br-ex", "ovs_extra": ["set port br-ex tag=7"],
        "members": []}]));
    server.inside(async |network| {
        let before = network.snapshot(&tagged, &no_mapping(), None).await.unwrap();
        let before = kept(network.apply(&tagged, &no_mapping(), &before).await.unwrap().before);
        assert_eq!(server.ovs("get port br-ex tag").trim(), "7");
        assert_eq!(network.apply(&tagged, &no_mapping(), &before).await.unwrap().steps, []);
        server.ovs("remove port br-ex tag 7");
        let differences = network.check(&tagged, &no_mapping(), &before).await.unwrap();
        let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            differences,
            ["network_config[0].ovs_extra[0]: wanted 7 in Port br-ex tag, it has nothing"]
        );
        network.restore(&before).await.unwrap();
        assert_eq!(server.ovs("get port br-ex tag").trim(), "3");
    });
}

#[test]
fn what_others_made_in_open_vswitch_stays() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    for number in 1..=3 {
        server.plug(&format!("eth{number}"), &peer, &format!("p{number}"));
    }
    server.ovs("add-br br-ex -- set bridge br-ex datapath_type=netdev other_config:hwaddr=02:00:00:00:00:07");
    server.ovs("add-port br-ex eth3 tag=5 -- add-port br-ex eth1 tag=6");
    server.ovs("add-br br-old -- set bridge br-old datapath_type=netdev -- add-port br-old eth2");
    let both = document(br_ex("192.0.2.1/24", vec![json!({"type": "interface", "name": "eth2"})]));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = kept(network.snapshot(&both, &nic1(), None).await.unwrap());
        network.apply(&both, &nic1(), &before).await.unwrap();
        assert_eq!(server.ovs("list-ports br-ex"), "eth1\neth2\neth3\n");
        assert_eq!(server.ovs("get port eth1 tag").trim(), "[]");
        network.restore(&before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn a_bond_is_not_taken_apart() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.plug("eth2", &peer, "p2");
    server.ovs("add-br br0 -- set bridge br0 datapath_type=netdev -- add-bond br0 bond0 eth1 eth2");
    let document = document(br_ex("192.0.2.1/24", Vec::new()));
    server.inside(async |network| {
        let before = network.snapshot(&document, &nic1(), None).await.unwrap();
        let error = network.apply(&document, &nic1(), &before).await.unwrap_err();
        let wanted = "network_config[0].members[0]: eth1 belongs to a bond of br0 that something else made; take it out first";
        assert_eq!(error.to_string(), wanted);
    });
    assert_eq!(server.ovs("list-br"), "br0\n");
}

#[test]
fn a_switch_that_is_stopped_fails_the_document_and_heals_later() {
    let (mut server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    let first = document(br_ex("192.0.2.1/24", Vec::new()));
    let second = document(br_ex("192.0.2.1/24", vec![vlan(7, "10.7.0.1/24")]));
    let (at_first, before) = server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&first, &nic1(), None).await.unwrap();
        network.apply(&first, &nic1(), &before).await.unwrap();
        (at_first, network.snapshot(&second, &nic1(), Some(before)).await.unwrap())
    });
    server.stop_switch();
    server.inside(async |network| {
        let running = settled(network.observe().await.unwrap());
        let error = network.apply(&second, &nic1(), &before).await.unwrap_err();
        assert_eq!(error.to_string(), "ovs-vswitchd has not taken up the change within 1 s; is it running?");
        assert_eq!(settled(network.observe().await.unwrap()), running);
        // All that can be restored is restored, and the rest is said.
        let error = network.restore(&before).await.unwrap_err();
        assert!(matches!(error, NetError::Partly(_)), "{error}");
        assert_eq!(server.ovs("list-ports br-ex"), "");
        assert!(!network.observe().await.unwrap().links["br-ex"].up);
    });
    server.start_switch();
    server.inside(async |network| {
        network.apply(&second, &nic1(), &before).await.unwrap();
        assert_eq!(network.check(&second, &nic1(), &before).await.unwrap(), []);
        network.restore(&before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn without_its_database_nothing_counts_as_gone() {
    let mut server = NetworkServer::with_ovs();
    let document = document(json!([{"type": "ovs_bridge", "name": "br0"}]));
    let before = server.inside(async |network| {
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        network.apply(&document, &no_mapping(), &before).await.unwrap().before
    });
    server.stop_switch();
    server.stop_database();
    server.inside(async |network| {
        let error = network.restore(&before).await.unwrap_err();
        assert!(matches!(error, NetError::NoOvs { .. }), "{error}");
        let error = network.apply(&document, &no_mapping(), &before).await.unwrap_err();
        assert!(matches!(error, NetError::Missing(_)), "{error}");
    });
}

#[test]
fn a_datapath_that_the_switch_lacks_is_named_and_nothing_stays() {
    let server = NetworkServer::with_ovs();
    let document = document(json!([{"type": "ovs_bridge", "name": "br0"}]));
    server.inside_with(None, async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let undo = kept(network.undo(&document, &no_mapping(), &before).await.unwrap());
        let error = network.apply(&document, &no_mapping(), &before).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot set br0 up (if Open vSwitch was to make it, "), "{error}");
        network.restore(&undo).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
    });
}

#[test]
fn a_mac_address_names_the_interface_even_if_its_bridge_has_it() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.ip("link set eth1 address 02:00:00:00:00:11");
    let mapping = NicMapping::new([("nic1".to_owned(), "02-00-00-00-00-11".to_owned())].into()).unwrap();
    let document = document(br_ex("192.0.2.1/24", vec![vlan(7, "10.7.0.1/24")]));
    server.inside(async |network| {
        let before = network.snapshot(&document, &mapping, None).await.unwrap();
        network.apply(&document, &mapping, &before).await.unwrap();
        assert_eq!(server.ovs("list-ports br-ex"), "eth1\nvlan7\n");
        assert!(server.ip("link show dev br-ex").contains("02:00:00:00:00:11"));
        assert_eq!(network.apply(&document, &mapping, &before).await.unwrap().steps, []);
    });
}
