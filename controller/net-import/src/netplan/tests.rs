//! What becomes of files of netplan.

use serde_json::json;

use super::*;

fn imported(texts: &[&str]) -> Imported {
    netplan(texts.iter().map(|text| muster_yaml::parse(text).unwrap()).collect()).unwrap()
}

fn objects(texts: &[&str]) -> Value {
    imported(texts).document["network_config"].clone()
}

#[test]
fn addresses_routes_rules_and_name_servers() {
    let text = "network:
  version: 2
  renderer: networkd
  ethernets:
    eth0:
      dhcp4: no
      mtu: 9000
      addresses: [192.0.2.10/24, {'2001:db8::10/64': {lifetime: 0}}]
      gateway6: 2001:db8::1
      routes:
      - {to: default, via: 192.0.2.1, metric: 50}
      - {to: 198.51.100.0/24, via: 192.0.2.2, table: 7, from: 192.0.2.10, on-link: true}
      - {to: 203.0.113.0/24, type: blackhole}
      routing-policy:
      - {from: 192.0.2.10, table: 7, priority: 100}
      nameservers: {addresses: [192.0.2.53], search: [example.org]}
";
    let Imported { document, left_out } = imported(&[text]);
    assert_eq!(
        document["network_config"],
        json!([{
            "type": "interface", "name": "eth0", "use_dhcp": false, "mtu": 9000,
            "addresses": [{"ip_netmask": "192.0.2.10/24"}, {"ip_netmask": "2001:db8::10/64"}],
            "routes": [
                {"default": true, "next_hop": "2001:db8::1"},
                {"default": true, "next_hop": "192.0.2.1", "metric": 50},
                {"ip_netmask": "198.51.100.0/24", "next_hop": "192.0.2.2", "table": 7,
                 "route_options": "src 192.0.2.10 onlink"},
            ],
            "rules": [{"rule": "from 192.0.2.10 table 7 priority 100"}],
            "dns_servers": ["192.0.2.53"], "domain": ["example.org"],
        }])
    );
    assert_eq!(
        left_out,
        [
            "network.ethernets.eth0.addresses[1].2001:db8::10/64.lifetime: a network document has no such setting",
            "network.ethernets.eth0.routes[2]: a network document has routes of type unicast alone",
        ]
    );
}

#[test]
fn bonds_bridges_and_vlans_have_their_members() {
    let text = "network:
  version: 2
  ethernets: {left: {match: {name: eth0}}, right: {match: {macaddress: '52:54:00:00:00:01'}, set-name: eth1}, eth2: {}}
  bonds:
    bond0:
      interfaces: [left, right]
      parameters: {mode: 802.3ad, mii-monitor-interval: 1s, lacp-rate: fast, up-delay: 200}
  vlans: {vlan7: {id: 7, link: bond0}, storage: {id: 8, link: eth2, addresses: [192.0.2.1/24]}}
  bridges: {br0: {interfaces: [vlan7], dhcp4: true}, empty: {parameters: {stp: false}}}
";
    let Imported { document, left_out } = imported(&[text]);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "interface", "name": "eth2"},
            {"type": "linux_bond", "name": "bond0", "bonding_options": "mode=802.3ad lacp_rate=fast miimon=1000 updelay=200",
             "members": [{"type": "interface", "name": "eth0"}, {"type": "interface", "name": "eth1"}]},
            {"type": "linux_bridge", "name": "br0", "use_dhcp": true,
             "members": [{"type": "vlan", "vlan_id": 7, "device": "bond0"}]},
            {"type": "linux_bridge", "name": "empty", "members": []},
            {"type": "vlan", "vlan_id": 8, "device": "eth2", "addresses": [{"ip_netmask": "192.0.2.1/24"}]},
        ])
    );
    assert_eq!(
        left_out,
        [
            "network.ethernets.right.match.macaddress: a network document has the link's name alone",
            "network.bridges.empty.parameters.stp: a network document has no such setting",
            "network.vlans.storage: the link is called vlan8 in a network document",
        ]
    );
}

#[test]
fn bridges_of_open_vswitch_have_vlans_and_bonds() {
    let text = "network:
  version: 2
  ethernets: {eth0: {}, eth1: {}, eth2: {}}
  bonds: {pair: {interfaces: [eth0, eth1], parameters: {mode: balance-tcp}, openvswitch: {lacp: active}}}
  bridges: {br0: {interfaces: [pair, eth2], openvswitch: {fail-mode: secure}}}
  vlans: {vlan5: {id: 5, link: br0, addresses: [192.0.2.5/24]}}
";
    assert_eq!(
        objects(&[text]),
        json!([{"type": "ovs_bridge", "name": "br0", "ovs_fail_mode": "secure", "members": [
            {"type": "ovs_bond", "name": "pair", "ovs_options": "bond_mode=balance-tcp lacp=active",
             "members": [{"type": "interface", "name": "eth0"}, {"type": "interface", "name": "eth1"}]},
            {"type": "interface", "name": "eth2"},
            {"type": "vlan", "vlan_id": 5, "addresses": [{"ip_netmask": "192.0.2.5/24"}]},
        ]}])
    );
}

#[test]
fn a_vlan_names_its_carrier_as_the_document_does() {
    let text = "network:
  version: 2
  ethernets: {eth0: {}, card: {match: {macaddress: '52:54:00:00:00:01'}}}
  vlans: {inner: {id: 9, link: v7}, v7: {id: 7, link: eth0}, lost: {id: 4, link: card}, more: {id: 5, link: lost}}
  bridges: {br0: {interfaces: [lost]}}
";
    let Imported { document, left_out } = imported(&[text]);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "interface", "name": "eth0"},
            {"type": "linux_bridge", "name": "br0", "members": []},
            {"type": "vlan", "vlan_id": 9, "device": "vlan7"},
            {"type": "vlan", "vlan_id": 7, "device": "eth0"},
        ])
    );
    assert_eq!(
        left_out,
        [
            "network.ethernets.card: a network document has the link's name, not \
                 network.ethernets.card.match.macaddress",
            "network.vlans.inner: the link is called vlan9 in a network document",
            "network.vlans.lost: the link is called vlan4 in a network document",
            "network.vlans.lost: card, which carries it, is left out",
            "network.vlans.more: the link is called vlan5 in a network document",
            "network.vlans.v7: the link is called vlan7 in a network document",
            "network.vlans.more: lost, which carries it, is left out",
            "network.bridges.br0: lost is left out, so it is no member",
        ]
    );
}

#[test]
fn what_a_card_is_known_by_is_named_beside_its_name() {
    let text = "network:
  version: 2
  ethernets:
    a: {match: {name: eth0, driver: virtio_net}}
    b: {match: {name: 'en*', macaddress: '52:54:00:00:00:01'}, set-name: eth1}
    c: {match: {name: eth2}}
";
    let Imported { document, left_out } = imported(&[text]);
    let names: Vec<&Value> =
        document["network_config"].as_array().unwrap().iter().map(|object| &object["name"]).collect();
    assert_eq!(names, ["eth0", "eth1", "eth2"]);
    assert_eq!(
        left_out,
        [
            "network.ethernets.a.match.driver: a network document has the link's name alone",
            "network.ethernets.b.match.macaddress: a network document has the link's name alone",
            "network.ethernets.b.match.name: a network document has the link's name alone",
        ]
    );
}

#[test]
fn settings_of_open_vswitch_and_offloads_are_written() {
    let text = "network:
  version: 2
  openvswitch: {protocols: [OpenFlow13, OpenFlow15], ssl: {ca-cert: a}}
  ethernets:
    eth0: {openvswitch: {external-ids: {iface-id: mine}}, generic-receive-offload: false, tcp6-segmentation-offload: true}
    eth1: {}
    eth2: {}
    eth3: {openvswitch: {other-config: {a: b}}}
  bonds: {pair: {interfaces: [eth1, eth2], parameters: {mode: balance-tcp}, openvswitch: {other-config: {lacp-time: fast}}}}
  bridges:
    br0:
      interfaces: [pair, eth0]
      openvswitch:
        mcast-snooping: true
        rstp: false
        external-ids: {id: br0}
        other-config: {disable-in-band: true}
        controller: {addresses: ['unix:/x']}
    br1: {openvswitch: {protocols: [OpenFlow10]}}
";
    let Imported { document, left_out } = imported(&[text]);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "interface", "name": "eth3"},
            {"type": "ovs_bridge", "name": "br0",
             "ovs_extra": ["set bridge br0 mcast_snooping_enable=true rstp_enable=false \
                            protocols=OpenFlow13,OpenFlow15 external_ids:id=br0 other_config:disable-in-band=true"],
             "members": [
                {"type": "ovs_bond", "name": "pair", "ovs_options": "bond_mode=balance-tcp",
                 "ovs_extra": ["set port pair other_config:lacp-time=fast"],
                 "members": [{"type": "interface", "name": "eth1"}, {"type": "interface", "name": "eth2"}]},
                {"type": "interface", "name": "eth0", "ethtool_opts": "-K ${DEVICE} tx-tcp6-segmentation on gro off",
                 "ovs_extra": ["set interface eth0 external_ids:iface-id=mine"]},
            ]},
            {"type": "ovs_bridge", "name": "br1", "ovs_extra": ["set bridge br1 protocols=OpenFlow10"], "members": []},
        ])
    );
    assert_eq!(
        left_out,
        [
            "network.openvswitch.ssl: a network document has no such setting",
            "network.bridges.br0.openvswitch.controller: a network document has no such setting",
            "network.ethernets.eth3.openvswitch.other-config.a: eth3 is in no bridge of Open vSwitch",
        ]
    );
}

#[test]
fn patches_join_two_bridges() {
    let text = "network:
  version: 2
  openvswitch: {ports: [[a, b], [c, d]]}
  bridges: {br0: {interfaces: [a, c], openvswitch: {}}, br1: {interfaces: [b], openvswitch: {}}}
";
    let Imported { document, left_out } = imported(&[text]);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "ovs_bridge", "name": "br0", "members": [
                {"type": "ovs_patch_port", "name": "a", "bridge_name": "br0", "peer": "b"},
                {"type": "interface", "name": "c"}]},
            {"type": "ovs_bridge", "name": "br1", "members": [
                {"type": "ovs_patch_port", "name": "b", "bridge_name": "br1", "peer": "a"}]},
        ])
    );
    assert_eq!(
        left_out,
        [
            "network.openvswitch.ports[1]: c and d are interfaces in the document: a patch joins two bridges there"
        ]
    );
}

#[test]
fn later_files_count() {
    let first = "network: {version: 2, ethernets: {eth0: {dhcp4: true, addresses: [192.0.2.1/24]}}}";
    let second = "network: {ethernets: {eth0: {dhcp4: false, addresses: [192.0.2.2/24]}, eth1:}}";
    assert_eq!(
        objects(&[first, second]),
        json!([
            {"type": "interface", "name": "eth0", "use_dhcp": false,
             "addresses": [{"ip_netmask": "192.0.2.1/24"}, {"ip_netmask": "192.0.2.2/24"}]},
            {"type": "interface", "name": "eth1"},
        ])
    );
}

#[test]
fn links_that_no_document_has_are_named() {
    let text = "network:
  version: 2
  ethernets: {any: {match: {name: 'en*'}}, card: {match: {macaddress: '52:54:00:00:00:01'}}}
  bridges: {br0: {interfaces: [card]}}
  wifis: {wlan0: {access-points: {x: {password: hush-hush}}}}
  vrfs: {blue: {table: 10}}
  odd: 1
";
    let Imported { document, left_out } = imported(&[text]);
    assert_eq!(document, json!({"network_config": [{"type": "linux_bridge", "name": "br0", "members": []}]}));
    assert_eq!(
        left_out,
        [
            "network.ethernets.any: a network document has the link's name, not network.ethernets.any.match",
            "network.ethernets.card: a network document has the link's name, not \
                 network.ethernets.card.match.macaddress",
            "network.bridges.br0.interfaces: card is left out, so it is no member",
            "network.vrfs.blue: a network document has no such link",
            "network.wifis.wlan0: a network document has no such link",
            "network.odd: a network document has no such setting",
        ]
    );
}

#[test]
fn other_files_are_refused_with_the_place() {
    for (text, wanted) in [
        ("{}", "network: is missing: this is not a file of netplan"),
        ("[]", "the file: a map is wanted"),
        ("network: {version: 1}", "network.version: 2 is read, not 1"),
        (
            "network: {ethernets: {eth0: {mtu: big}}}",
            "network.ethernets.eth0.mtu: a number from 0 to 4294967295 is wanted",
        ),
        (
            "network: {ethernets: {eth0: {addresses: 192.0.2.1/24}}}",
            "network.ethernets.eth0.addresses: a list is wanted",
        ),
        (
            "network: {openvswitch: {ports: [[a]]}}",
            "network.openvswitch.ports[0]: a list of two ports is wanted",
        ),
        ("network: {vlans: {v: {link: eth0}}}", "network.vlans.v.id: is missing: the number of the VLAN"),
        (
            "network: {bonds: {b: {parameters: {up-delay: 9999999s}}}}",
            "network.bonds.b.parameters.up-delay: a time in milliseconds is wanted, or with ms or s behind it",
        ),
    ] {
        let error = netplan(vec![muster_yaml::parse(text).unwrap()]).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{text}");
    }
}
