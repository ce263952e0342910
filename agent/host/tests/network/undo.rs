//! Whatever a document does, it can be undone: completely, after any of its steps, and after a reboot.

use muster_host::net::{Snapshot, State, Step, Target, plan};
use muster_shared::model::network::NetworkDocument;
use serde_json::json;

use crate::server::NetworkServer;
use crate::{document, kept, no_mapping};

/// The host as it was left, but for what the kernel and the switch choose: a number, a link-local
/// address, the order of networks and of IPv6.
fn exact(mut state: State) -> State {
    for link in state.links.values_mut() {
        link.addresses.retain(|address| !address.is_link_local());
        let (mut v4, mut v6): (Vec<_>, Vec<_>) =
            link.addresses.drain(..).partition(|address| address.net.addr().is_ipv4());
        v6.sort();
        v4.sort_by_key(|address| address.net.trunc());
        link.addresses = [v4, v6].concat();
        std::sync::Arc::make_mut(&mut link.routes).sort();
        (link.index, link.parent) = (0, None);
    }
    state
}

fn cables(server: &NetworkServer, peer: &NetworkServer) {
    for number in 1..=4 {
        server.plug(&format!("eth{number}"), peer, &format!("p{number}"));
        server.ip(&format!("link set eth{number} address 02:00:00:00:00:0{number}"));
    }
}

/// A server that others have configured, in all the ways they do.
fn lived_in() -> (NetworkServer, NetworkServer) {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    cables(&server, &peer);
    for words in [
        "link set eth1 up mtu 1400",
        "link set eth2 up",
        "link set eth4 up",
        "address add 192.0.2.9/24 dev eth1",
        "address add 192.0.2.10/24 dev eth1",
        "address add 10.9.0.1 peer 10.9.0.2/32 dev eth1",
        "address add 10.8.0.1/24 dev eth1 noprefixroute",
        "address add 10.7.0.1/24 dev eth1 metric 77",
        "address add 2001:db8::1/64 dev eth1 nodad",
        "address add 2001:db8:a::1/64 dev eth1 nodad valid_lft 5000 preferred_lft 4000",
        "address add 198.51.100.1/24 dev eth2 valid_lft 5000 preferred_lft 4000",
        "address add 203.0.113.1/24 dev eth4",
        "route add default via 192.0.2.1 proto dhcp metric 100 src 192.0.2.10",
        "route add 10.50.0.0/16 via 192.0.2.1 mtu lock 1300 proto static",
        "route add 10.51.0.0/16 tos 0x10 via 192.0.2.1",
        "route add 10.52.0.0/16 nexthop via 192.0.2.1 weight 3 nexthop via 198.51.100.2 weight 1",
        "route add 10.53.0.0/16 via 203.0.113.2 src 192.0.2.10",
        "route add 10.54.0.1 dev eth1",
        "route add 10.55.0.0/16 via 10.54.0.1 table 100",
        "route add 10.8.0.0/24 dev eth1 proto kernel scope link src 10.8.0.1 metric 90",
        "route add 2001:db8:1::/48 via 2001:db8::99 proto ra metric 200",
        "route add 2001:db8:2::/48 via 2001:db8::99 pref high",
    ] {
        server.ip(words);
    }
    server
        .ovs("add-br br-old -- set bridge br-old datapath_type=netdev other_config:hwaddr=02:00:00:00:00:77");
    server.ip("rule add from 10.51.0.0/16 blackhole priority 51 protocol 99");
    server.ip("rule add from 10.52.0.0/16 table 7 priority 52");
    std::fs::write(server.resolv_conf(), "nameserver 192.0.2.9\noptions rotate\n").unwrap();
    server.ovs(
        "add-port br-old eth3 tag=5 trunks=5,6 other_config:priority-tags=always external_ids:whose=theirs",
    );
    server.ovs("set interface eth3 external_ids:iface-id=x");
    (server, peer)
}

/// A bridge takes the management link over, another moves between switches, a third joins a Linux bridge.
fn upheaval() -> NetworkDocument {
    document(json!([
        {"type": "ovs_bridge", "name": "br-ex", "mtu": 1350, "addresses": [{"ip_netmask": "192.0.2.10/24"}],
         "routes": [{"default": true, "next_hop": "192.0.2.1"}, {"ip_netmask": "10.50.0.0/16", "next_hop": "192.0.2.3"}],
         "rules": [{"rule": "from 10.50.0.0/16 table 100 priority 50"}, {"rule": "-6 fwmark 5 table 100"},
                   {"rule": "from 10.51.0.0/16 blackhole priority 51"}],
         "dns_servers": ["192.0.2.53"], "domain": "new.example",
         "members": [{"type": "interface", "name": "eth1", "primary": true, "mtu": 1350},
                     {"type": "interface", "name": "eth3"},
                     {"type": "vlan", "vlan_id": 7, "addresses": [{"ip_netmask": "10.7.7.1/24"}]}]},
        {"type": "linux_bridge", "name": "br1", "addresses": [{"ip_netmask": "198.51.100.1/24"}],
         "members": [{"type": "interface", "name": "eth2", "mtu": 1300}]},
    ]))
}

#[test]
fn a_document_is_undone_after_each_of_its_steps() {
    let (server, _peer) = lived_in();
    let document = upheaval();
    server.inside(async |network| {
        let at_first = exact(network.observe().await.unwrap());
        let before = kept(network.snapshot(&document, &no_mapping(), None).await.unwrap());
        let undo = kept(network.undo(&document, &no_mapping(), &before).await.unwrap());
        let steps = steps(&network.observe().await.unwrap(), &document, &before);
        assert!(steps.len() > 20);
        for cut in 0..=steps.len() {
            network.execute(&steps[..cut]).await.unwrap();
            assert_eq!(network.restore(&undo).await.unwrap(), [""; 0]);
            assert_eq!(
                exact(network.observe().await.unwrap()),
                at_first,
                "cut off after {:?}",
                &steps[..cut]
            );
        }
        network.apply(&document, &no_mapping(), &before).await.unwrap();
        network.restore(&undo).await.unwrap();
        assert_eq!(exact(network.observe().await.unwrap()), at_first);
    });
}

fn steps(state: &State, document: &NetworkDocument, before: &Snapshot) -> Vec<Step> {
    plan(&Target::new(document, before, state, Some("netdev")), state).unwrap()
}

#[test]
fn after_a_reboot_the_undo_brings_back_what_the_kernel_forgot() {
    let (mut server, _peer) = lived_in();
    let other_peer = NetworkServer::new();
    let document = upheaval();
    let (at_first, undo) = server.inside(async |network| {
        let at_first = exact(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let undo = kept(network.undo(&document, &no_mapping(), &before).await.unwrap());
        network.apply(&document, &no_mapping(), &before).await.unwrap();
        (at_first, undo)
    });
    server.reboot(|server| cables(server, &other_peer));
    // The host's own configuration brings up links that no document named.
    server.ip("link set eth4 up");
    server.ip("address add 203.0.113.1/24 dev eth4");
    server.ip("rule add from 10.52.0.0/16 table 7 priority 52");
    server.inside(async |network| {
        assert_eq!(network.restore(&undo).await.unwrap(), [""; 0]);
        let mut now = exact(network.observe().await.unwrap());
        // The switch recreated its links.
        for (name, link) in &at_first.links {
            if let Some(now) = now.links.get_mut(name).filter(|link| link.kind == "tun") {
                now.mac.clone_from(&link.mac);
            }
        }
        assert_eq!(now, at_first);
    });
}

#[test]
fn what_a_document_takes_away_of_an_older_one_comes_back() {
    let (server, _peer) = lived_in();
    let first = upheaval();
    let second = document(
        json!([{"type": "interface", "name": "eth1", "addresses": [{"ip_netmask": "192.0.2.77/24"}]}]),
    );
    server.inside(async |network| {
        let before = network.snapshot(&first, &no_mapping(), None).await.unwrap();
        let before = network.apply(&first, &no_mapping(), &before).await.unwrap().before;
        // Others have put links into the bridges of the first document since.
        server.ip("link add tap0 type veth peer name tap1");
        server.ip("link set tap0 up master br1");
        server.ip("link set br1 type bridge stp_state 0");
        server.ovs("set-fail-mode br-ex secure -- set bridge br-ex other_config:mac-aging-time=60");
        server.ovs("add-port br-ex patch0 -- set interface patch0 type=patch options:peer=patch1");
        server.ovs("add-port br-old patch1 -- set interface patch1 type=patch options:peer=patch0");
        server.ovs("add-port br-ex port9 -- set interface port9 type=internal external_ids:iface-id=y");
        server.ip("link set port9 up");
        server.ip("address add 10.99.0.1/24 dev port9");
        server.ip("route add 10.98.0.0/16 via 10.99.0.2 dev port9");
        let at_first = exact(network.observe().await.unwrap());
        let before = network.snapshot(&second, &no_mapping(), Some(before)).await.unwrap();
        let undo = kept(network.undo(&second, &no_mapping(), &before).await.unwrap());
        let steps = steps(&network.observe().await.unwrap(), &second, &before);
        for cut in 0..=steps.len() {
            network.execute(&steps[..cut]).await.unwrap();
            assert_eq!(network.restore(&undo).await.unwrap(), [""; 0]);
            let mut now = exact(network.observe().await.unwrap());
            now.links.get_mut("port9").unwrap().mac = at_first.links["port9"].mac.clone();
            now.links.get_mut("vlan7").unwrap().mac = at_first.links["vlan7"].mac.clone();
            assert_eq!(now, at_first, "cut off after {:?}", &steps[..cut]);
        }
    });
}
