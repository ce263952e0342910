//! Bonds, tunnels, patches and single settings of Open vSwitch; routing tables by name; tap devices; what is removed.

use muster_host::net::{NetError, Snapshot, State};
use muster_shared::model::network::NetworkDocument;
use serde_json::{Value, json};

use super::server::NetworkServer;
use super::{document, no_mapping};

fn object(kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({"type": kind, "name": name});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Applies it over `before`, finds nothing left to do, and gives what was before and what is now.
fn apply(server: &NetworkServer, document: &NetworkDocument, before: Option<Snapshot>) -> (Snapshot, State) {
    server.inside(async |network| {
        let before = network.snapshot(document, &no_mapping(), before).await.unwrap();
        let applied = network.apply(document, &no_mapping(), &before).await.unwrap();
        let again = network.apply(document, &no_mapping(), &applied.before).await.unwrap();
        assert_eq!(again.steps, [], "a second time");
        assert_eq!(network.check(document, &no_mapping(), &applied.before).await.unwrap(), []);
        (applied.before, network.observe().await.unwrap())
    })
}

fn restore(server: &NetworkServer, before: &Snapshot) -> State {
    server.inside(async |network| {
        assert_eq!(network.restore(before).await.unwrap(), Vec::<String>::new());
        network.observe().await.unwrap()
    })
}

/// Without what is never the same twice.
fn comparable(mut state: State) -> State {
    for link in state.links.values_mut() {
        link.index = 0;
        // Devices of the switch have another address each time that it makes them.
        link.mac.take_if(|_| link.kind == "tun");
    }
    state
}

fn with_cables() -> (NetworkServer, NetworkServer) {
    let (server, other) = (NetworkServer::with_ovs(), NetworkServer::new());
    for name in ["eth0", "eth1", "eth2"] {
        server.plug(name, &other, name);
        other.ip(&format!("link set {name} up"));
    }
    (server, other)
}

#[test]
fn a_bond_comes_changes_its_members_and_goes() {
    let (server, _other) = with_cables();
    server.ovs("add-br br-old -- set bridge br-old datapath_type=netdev -- add-port br-old eth1");
    let first = server.inside(async |network| network.observe().await.unwrap());
    let bond = |members: &[&str]| {
        let members: Vec<Value> = members.iter().map(|name| object("interface", name, json!({}))).collect();
        let options = json!({"members": members, "mtu": 1400,
            "ovs_options": "bond_mode=active-backup other_config:bond-primary=eth0"});
        document(json!([object(
            "ovs_bridge",
            "br0",
            json!({
            "ovs_extra": ["br-set-external-id br0 bridge-id br0", "set bridge {name} other_config:mac-table-size=4096"],
            "ovs_fail_mode": "secure",
            "members": [object("ovs_bond", "bond1", options), {"type": "vlan", "vlan_id": 9}]})
        )]))
    };
    let (before, _) = apply(&server, &bond(&["eth0", "eth1"]), None);
    assert_eq!(server.ovs("list-ifaces br0"), "eth0\neth1\nvlan9\n");
    assert_eq!(server.ovs("list-ports br0"), "bond1\nvlan9\n");
    assert_eq!(server.ovs("get port bond1 bond_mode other_config"), "active-backup\n{bond-primary=eth0}\n");
    assert_eq!(server.ovs("br-get-external-id br0 bridge-id"), "br0\n");
    assert_eq!(server.ovs("get bridge br0 fail_mode other_config:mac-table-size"), "secure\n\"4096\"\n");
    assert!(server.ip("link show eth1").contains("mtu 1400"));

    // Settings of others stay, also where the bond is recreated for its members.
    server.ovs("set bridge br0 external_ids:theirs=1");
    let (before, state) = apply(&server, &bond(&["eth1", "eth2"]), Some(before));
    assert_eq!(server.ovs("list-ifaces br0"), "eth1\neth2\nvlan9\n");
    assert_eq!(state.ovs_port("eth0").map(|(bridge, _)| bridge), None);
    assert_eq!(server.ovs("br-get-external-id br0 theirs"), "1\n");

    // Without its settings they are as they were; the interfaces stand alone.
    let plain = document(json!([object(
        "ovs_bridge",
        "br0",
        json!({"members": [
        object("interface", "eth0", json!({"ovs_extra": "set port eth0 tag=7"}))]})
    )]));
    let (before, _) = apply(&server, &plain, Some(before));
    assert_eq!(server.ovs("list-ports br0"), "eth0\n");
    assert_eq!(server.ovs("get port eth0 tag"), "7\n");
    assert_eq!(
        server.ovs("get bridge br0 fail_mode external_ids"),
        "[]\n{muster-owner=muster, theirs=\"1\"}\n"
    );
    let last = restore(&server, &before);
    assert_eq!(comparable(last), comparable(first));
}

#[test]
fn bridges_are_joined_by_patches_and_tunnels_lead_away() {
    let server = NetworkServer::with_ovs();
    server.ovs("add-br br-int -- set bridge br-int datapath_type=netdev");
    let first = server.inside(async |network| network.observe().await.unwrap());
    let patch = |name: &str, bridge: &str, peer: &str| {
        object("ovs_patch_port", name, json!({"bridge_name": bridge, "peer": peer}))
    };
    let tunnels = document(json!([
        object(
            "ovs_bridge",
            "br-tun",
            json!({"members": [
                patch("a-name-longer-than-links-have", "br-tun", "to-tun"),
                object("ovs_tunnel", "vx0", json!({"tunnel_type": "vxlan",
                    "ovs_options": ["remote_ip=192.0.2.7", "key=flow", "local_ip=192.0.2.1"], "ovs_extra": "set port vx0 tag=5"})),
                object("ovs_tunnel", "gre0x", json!({"tunnel_type": "gre", "ovs_options": ["remote_ip=192.0.2.8"]})),
            ]})
        ),
        patch("to-tun", "br-int", "a-name-longer-than-links-have"),
    ]));
    let (before, _) = apply(&server, &tunnels, None);
    assert_eq!(
        server.ovs("get interface to-tun type options:peer"),
        "patch\na-name-longer-than-links-have\n"
    );
    assert_eq!(
        server.ovs("get interface vx0 type options"),
        "vxlan\n{key=flow, local_ip=\"192.0.2.1\", remote_ip=\"192.0.2.7\"}\n"
    );
    assert_eq!(server.ovs("get port vx0 tag"), "5\n");
    assert_eq!(server.ovs("list-ports br-int"), "to-tun\n");

    // Drift is reported by its place; a tunnel of another type is recreated.
    server.ovs("set interface vx0 options:remote_ip=192.0.2.9");
    let found = server.inside(async |network| network.check(&tunnels, &no_mapping(), &before).await.unwrap());
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let wanted = "network_config[0].members[1].ovs_options[0]: wanted \"192.0.2.7\" in Interface vx0 options:remote_ip, it has \"192.0.2.9\"";
    assert_eq!(found, [wanted]);
    let other = document(json!([object(
        "ovs_bridge",
        "br-tun",
        json!({"members": [
        object("ovs_tunnel", "vx0", json!({"tunnel_type": "gre", "ovs_options": ["remote_ip=192.0.2.7"]}))]})
    )]));
    let (before, _) = apply(&server, &other, Some(before));
    assert_eq!(server.ovs("get interface vx0 type options"), "gre\n{remote_ip=\"192.0.2.7\"}\n");
    assert_eq!(server.ovs("list-ports br-int"), "");
    assert_eq!(comparable(restore(&server, &before)), comparable(first));

    // Without the other bridge there is nothing to lead to, and what others made stays theirs.
    let nowhere = document(json!([patch("to-tun", "br-none", "x")]));
    let refused = document(json!([object(
        "ovs_bridge",
        "br0",
        json!({"members": [
        object("ovs_tunnel", "theirs", json!({"tunnel_type": "gre"}))]})
    )]));
    server.ovs("add-port br-int theirs -- set interface theirs type=vxlan options:remote_ip=192.0.2.1");
    server.inside(async |network| {
        let error = network.apply(&nowhere, &no_mapping(), &Snapshot::default()).await.unwrap_err();
        assert!(error.to_string().contains("there is no bridge br-none"), "{error}");
        let before = network.snapshot(&refused, &no_mapping(), None).await.unwrap();
        let error = network.apply(&refused, &no_mapping(), &before).await.unwrap_err();
        assert!(error.to_string().contains("theirs is there already as another port of br-int"), "{error}");
    });
    assert_eq!(server.ovs("list-br"), "br-int\n");
}

#[test]
fn routing_tables_have_names() {
    let (server, other) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth0", &other, "eth0");
    other.ip("link set eth0 up");
    let theirs = "255\tlocal\n300 theirs\n";
    std::fs::write(server.rt_tables(), theirs).unwrap();
    let table = |name: &str, id: u32| json!({"type": "route_table", "name": name, "table_id": id});
    let of = |id: u32| {
        document(json!([
            object(
                "interface",
                "eth0",
                json!({
                "addresses": [{"ip_netmask": "192.0.2.1/24"}],
                "routes": [
                    {"ip_netmask": "10.1.3.0/24", "next_hop": "192.0.2.5", "route_options": "metric 10", "table": id},
                    {"default": true, "next_hop": "192.0.2.254", "route_options": "table custom src 192.0.2.1"}],
                "rules": [
                    {"rule": "iif eth0 table custom", "comment": "by its name"},
                    {"rule": "add blackhole from 172.19.40.0/24 table 200"},
                    {"rule": "add unreachable iif eth0 from 192.168.1.0/24"}]})
            ),
            table("custom", id),
            table("theirs", 300),
        ]))
    };
    let (before, _) = apply(&server, &of(200), None);
    let names = std::fs::read_to_string(server.rt_tables()).unwrap();
    assert_eq!(names, format!("{theirs}200\tcustom\t# muster\n"));
    assert_eq!(
        server.ip("route show table 200").trim_end(),
        "default via 192.0.2.254 dev eth0 proto static src 192.0.2.1 \n10.1.3.0/24 via 192.0.2.5 dev eth0 proto static metric 10"
    );
    assert!(server.ip("rule show").contains("from 172.19.40.0/24 blackhole"), "{}", server.ip("rule show"));
    let (before, _) = apply(&server, &of(201), Some(before));
    assert_eq!(server.ip("route show table 201").lines().count(), 2);
    assert_eq!(server.ip("rule show").matches("lookup 201").count(), 1);
    restore(&server, &before);
    assert_eq!(std::fs::read_to_string(server.rt_tables()).unwrap(), theirs);
}

#[test]
fn a_tap_device_stays_and_goes_with_its_document() {
    let server = NetworkServer::new();
    let tap = document(json!([
        object("linux_bridge", "br0", json!({"members": []})),
        object("linux_tap", "tap0", json!({"addresses": [{"ip_netmask": "192.0.2.1/24"}], "mtu": 1400})),
    ]));
    let (before, state) = apply(&server, &tap, None);
    assert!(state.links["tap0"].tap && state.links["tap0"].mtu == 1400);
    assert!(!restore(&server, &before).links.contains_key("tap0"));
    // One that is there is taken, and left.
    server.ip("tuntap add dev tap0 mode tap");
    let (before, _) = apply(&server, &tap, None);
    let state = restore(&server, &before);
    assert!(state.links["tap0"].addresses.is_empty() && state.links["tap0"].mtu == 1500);
}

#[test]
fn what_is_removed_comes_back_if_the_change_is_not_to_stay() {
    let (server, _other) = with_cables();
    server.ovs("add-br br-old -- set bridge br-old datapath_type=netdev -- add-port br-old eth1 tag=4");
    server.ovs("add-bond br-old bond9 eth0 eth2 bond_mode=balance-slb -- set port bond9 tag=3");
    server.ip("link add br-lin type bridge");
    server.ip("address add 192.0.2.9/24 dev br-lin");
    let first = server.inside(async |network| network.observe().await.unwrap());
    let removal = |kind: &str, name: &str| json!({"remove_type": kind, "remove_name": name});
    let document = document(json!({"remove_config": [
        removal("ovs_bond", "bond9"), removal("linux_bridge", "br-lin"), removal("vlan", "vlan153"),
        removal("ovs_bridge", "br-old"), removal("interface", "eth1")]}));
    let undo = server.inside(async |network| {
        let undo = network.undo(&document, &no_mapping(), &Snapshot::default()).await.unwrap();
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let applied = network.apply(&document, &no_mapping(), &before).await.unwrap();
        assert_eq!(network.apply(&document, &no_mapping(), &applied.before).await.unwrap().steps, []);
        undo
    });
    assert_eq!(server.ovs("list-br"), "");
    assert!(!server.ip("link show").contains("br-lin") && server.ip("link show eth1").contains("state DOWN"));
    let last = restore(&server, &undo);
    assert_eq!(comparable(last), comparable(first));

    // By the wrong name for what it is, nothing goes.
    let wrong = super::document(json!([removal("linux_bridge", "eth1")]));
    server.inside(async |network| {
        let error = network.apply(&wrong, &no_mapping(), &Snapshot::default()).await.unwrap_err();
        assert!(matches!(&error, NetError::Plan(_)), "{error}");
        assert_eq!(
            error.to_string(),
            "network_config[0]: eth1 is no linux_bridge but a interface; nothing was removed"
        );
    });
}

#[test]
fn aliases_are_the_numbers_of_the_active_nics() {
    let (server, _other) = with_cables();
    ["eth1", "eth2"].iter().for_each(|name| server.is_nic(name));
    let document = document(json!([object(
        "interface",
        "nic2",
        json!({"addresses": [{"ip_netmask": "192.0.2.1/24"}],
        "rules": [{"rule": "iif nic1 table 7"}]})
    )]));
    let (before, state) = apply(&server, &document, None);
    assert_eq!(state.nics, ["eth1", "eth2"]);
    assert!(server.ip("address show dev eth2").contains("192.0.2.1/24"));
    assert!(server.ip("rule show").contains("iif eth1 lookup 7"), "{}", server.ip("rule show"));
    restore(&server, &before);
}
