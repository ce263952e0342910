//! The questions of flow tables to the network.

use std::collections::BTreeSet;
use std::net::IpAddr;

use muster_host::net::{Change, Hold, Monitor};

use crate::server::NetworkServer;

#[test]
fn a_bridge_carries_what_leaves_through_it_or_its_ports() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.plug("eth2", &peer, "p2");
    server.ovs("add-br br0 -- set bridge br0 datapath_type=netdev -- add-port br0 eth1");
    server.ovs("add-port br0 vlan7 tag=7 -- set interface vlan7 type=internal");
    server.ovs("add-br br1 -- set bridge br1 datapath_type=netdev");
    for (link, address) in [("br0", "192.0.2.1/24"), ("vlan7", "10.7.0.1/24"), ("eth2", "198.51.100.1/24")] {
        server.ip(&format!("link set {link} up"));
        server.ip(&format!("address add {address} dev {link}"));
    }
    let carries = |bridge: &str, peer: &str| {
        let peer: IpAddr = peer.parse().unwrap();
        server.inside(async |network| network.carries(bridge, peer).await)
    };
    assert!(carries("br0", "192.0.2.9"));
    assert!(carries("br0", "10.7.0.9"));
    assert!(!carries("br1", "192.0.2.9"));
    assert!(!carries("br0", "198.51.100.9"));
    assert!(!carries("br0", "127.0.0.1"));
    // No way at all: nobody knows.
    assert!(carries("br0", "203.0.113.9"));
    assert!(carries("br0", "2001:db8::9"));
    // Bridges that are patched together carry for each other.
    server.ovs("add-port br0 to1 -- set interface to1 type=patch options:peer=to0");
    server.ovs("add-port br1 to0 -- set interface to0 type=patch options:peer=to1");
    assert!(carries("br1", "192.0.2.9"));
    assert!(!carries("br1", "198.51.100.9"));
}

#[test]
fn a_switch_is_held_by_one_and_released_by_the_same() {
    let server = NetworkServer::with_ovs();
    let held = || server.ovs("get Open_vSwitch . other_config external_ids");
    server.inside(async |network| {
        assert_eq!(network.hold_flows().await.unwrap(), Hold::Ours);
        assert_eq!(network.hold_flows().await.unwrap(), Hold::Ours);
        assert!(held().contains("flow-restore-wait=\"true\"") && held().contains("muster-flow-restore"));
        network.release_flows(true).await.unwrap();
        assert!(!held().contains("restore"), "{}", held());
        server.ovs("set Open_vSwitch . other_config:flow-restore-wait=true");
        assert_eq!(network.hold_flows().await.unwrap(), Hold::Others);
        network.release_flows(false).await.unwrap();
        assert!(held().contains("flow-restore-wait=\"true\""));
    });
}

#[test]
fn bridges_that_come_and_go_are_seen() {
    let server = NetworkServer::with_ovs();
    server.inside(async |network| {
        let mut monitor = Monitor::of_switch(&network);
        assert_eq!(monitor.change().await, Change::Other);
        assert_eq!(network.bridge_names().await.unwrap(), BTreeSet::new());
        server.ovs("add-br br0 -- set bridge br0 datapath_type=netdev");
        assert_eq!(monitor.change().await, Change::Other);
        assert_eq!(network.bridge_names().await.unwrap(), BTreeSet::from(["br0".to_owned()]));
        assert!(network.ovs_rundir().join("br0.mgmt").exists());
    });
    let nothing = NetworkServer::new();
    nothing.inside(async |network| assert!(network.bridge_names().await.unwrap().is_empty()));
}
