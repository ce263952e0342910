//! What becomes of states of nmstate.

use super::*;

fn imported(text: &str) -> Imported {
    nmstate(&muster_yaml::parse(text).unwrap()).unwrap()
}

#[test]
fn routes_rules_and_name_servers_go_to_their_interface() {
    let text = "interfaces:
- name: eth0
  type: ethernet
  state: up
  mtu: 1400
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
  ipv6: {enabled: false, address: [{ip: '2001:db8::1', prefix-length: 64}]}
- {name: eth1, state: up, ipv4: {enabled: true, dhcp: true, auto-routes: false, auto-dns: false}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 254, metric: 5}
  - {destination: 198.51.100.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth9}
  - {destination: 198.51.100.0/24, state: absent}
route-rules: {config: [{ip-from: 192.0.2.0/24, priority: 10, route-table: 7, fwmark: 0x30, fwmask: 16}]}
dns-resolver: {config: {server: [192.0.2.53], search: [example.org]}}
hostname: {config: a}
";
    let Imported { document, left_out } = imported(text);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "interface", "name": "eth0", "mtu": 1400, "use_dhcp": false,
             "addresses": [{"ip_netmask": "192.0.2.10/24"}],
             "routes": [{"default": true, "next_hop": "192.0.2.1", "metric": 5}],
             "rules": [{"rule": "from 192.0.2.0/24 fwmark 0x30/0x10 table 7 priority 10"}],
             "dns_servers": ["192.0.2.53"], "domain": ["example.org"]},
            {"type": "interface", "name": "eth1", "use_dhcp": true, "defroute": false},
        ])
    );
    assert_eq!(
        left_out,
        [
            "hostname: a resource Muster::Hostname has the name of a server",
            "interfaces[1].ipv4.auto-dns: a network document has no such setting",
            "routes.config[1]: next-hop-interface names no interface of this file",
            "routes.config[2]: a route goes by an update whose document lacks it",
        ]
    );
}

#[test]
fn bonds_bridges_and_vlans_have_their_members() {
    let text = "interfaces:
- {name: vlan7, type: vlan, vlan: {base-iface: bond0, id: 7}}
- {name: br0, type: linux-bridge, bridge: {port: [{name: vlan7}], options: {stp: {enabled: false}}}}
- {name: bond0, type: bond, link-aggregation: {mode: active-backup, options: {miimon: 100, primary: eth0}, port: [eth0, eth1]}}
- {name: old0, type: linux-bridge, state: absent}
- {name: old1, state: absent}
- {name: eth3, type: ethernet, state: down}
- {name: v0, type: vrf}
";
    let Imported { document, left_out } = imported(text);
    assert_eq!(
        document,
        json!({
            "network_config": [
                {"type": "linux_bridge", "name": "br0", "members": [{"type": "vlan", "vlan_id": 7, "device": "bond0"}]},
                {"type": "linux_bond", "name": "bond0", "bonding_options": "mode=active-backup miimon=100 primary=eth0",
                 "members": [{"type": "interface", "name": "eth0"}, {"type": "interface", "name": "eth1"}]},
            ],
            "remove_config": [{"remove_name": "old0", "remove_type": "linux_bridge"}],
        })
    );
    assert_eq!(
        left_out,
        [
            "interfaces[4]: a network document removes a link by its type: write that",
            "interfaces[5]: a network document has no link in state down",
            "interfaces[6]: a network document has no vrf",
        ]
    );
}

#[test]
fn ports_of_open_vswitch_find_their_place() {
    let text = "interfaces:
- {name: br0, type: ovs-interface, ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}}
- {name: vlan5, type: ovs-interface, ipv4: {enabled: true, address: [{ip: 192.0.2.5, prefix-length: 24}]}}
- {name: odd, type: ovs-interface}
- {name: to1, type: ovs-interface, patch: {peer: to0}}
- name: br0
  type: ovs-bridge
  bridge:
    options: {fail-mode: secure, stp: true}
    port:
    - {name: br0}
    - {name: vlan5, vlan: {mode: access, tag: 5}}
    - {name: odd}
    - {name: to1}
    - {name: eth0, vlan: {mode: access, tag: 9}}
    - {name: pair, link-aggregation: {mode: balance-slb, port: [{name: eth1}, {name: eth2}]}}
- {name: eth0, type: ethernet}
";
    let Imported { document, left_out } = imported(text);
    assert_eq!(
        document["network_config"],
        json!([{"type": "ovs_bridge", "name": "br0", "ovs_fail_mode": "secure",
        "ovs_extra": ["set bridge br0 stp_enable=true"], "addresses": [{"ip_netmask": "192.0.2.1/24"}],
        "members": [
            {"type": "vlan", "vlan_id": 5, "addresses": [{"ip_netmask": "192.0.2.5/24"}]},
            {"type": "ovs_patch_port", "name": "to1", "bridge_name": "br0", "peer": "to0"},
            {"type": "interface", "name": "eth0", "ovs_extra": ["set port eth0 tag=9"]},
            {"type": "ovs_bond", "name": "pair", "ovs_options": "bond_mode=balance-slb",
             "members": [{"type": "interface", "name": "eth1"}, {"type": "interface", "name": "eth2"}]},
        ]}])
    );
    assert_eq!(
        left_out,
        ["interfaces[2]: an internal port of a network document has its bridge's name, or a VLAN's tag",]
    );
}

#[test]
fn a_bridges_own_port_with_a_tag_is_the_bridge() {
    let text = "interfaces:
- {name: br0, type: ovs-interface, mtu: 1400, ovs-db: {external_ids: {a: b}},
   ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}}
- {name: br0, type: ovs-bridge, bridge: {port: [{name: eth0}, {name: br0, vlan: {mode: access, tag: 7}}]}}
- {name: br1, type: ovs-bridge, bridge: {port: [{name: br1, vlan: {mode: access, tag: 8}}]}}
- {name: br1, type: linux-bridge}
";
    let Imported { document, left_out } = imported(text);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "ovs_bridge", "name": "br0", "mtu": 1400, "addresses": [{"ip_netmask": "192.0.2.1/24"}],
             "ovs_extra": ["set port br0 tag=7", "set interface br0 external_ids:a=b"],
             "members": [{"type": "interface", "name": "eth0"}]},
            {"type": "ovs_bridge", "name": "br1", "ovs_extra": ["set port br1 tag=8"], "members": []},
        ])
    );
    assert_eq!(left_out, ["interfaces[3]: another link is called br1 in the document already"]);
}

#[test]
fn a_vlan_names_its_carrier_as_the_document_does() {
    let text = "interfaces:
- {name: v9, type: vlan, vlan: {base-iface: v7, id: 9}}
- {name: v7, type: vlan, vlan: {base-iface: eth0, id: 7}}
";
    let Imported { document, .. } = imported(text);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "vlan", "vlan_id": 9, "device": "vlan7"},
            {"type": "vlan", "vlan_id": 7, "device": "eth0"},
        ])
    );
}

#[test]
fn settings_of_open_vswitch_are_written() {
    let text = "interfaces:
- {name: eth0, type: ethernet, ovs-db: {external_ids: {iface-id: mine}}}
- name: br0
  type: ovs-bridge
  ovs-db: {other_config: {disable-in-band: true, gone: null}}
  bridge:
    options: {stp: {enabled: true}, rstp: false, mcast-snooping-enable: true, datapath: system}
    port:
    - {name: eth0, vlan: {mode: trunk, trunk-tags: [{id: 1}, {id-range: {min: 10, max: 12}}]}}
    - {name: eth1, vlan: {mode: trunk, enable-native: true, tag: 5, trunk-tags: [{id: 6}]}}
    - {name: eth2, vlan: {mode: trunk, tag: 5}}
    - {name: eth3, vlan: {mode: other, tag: 5}}
    - name: pair
      vlan: {tag: 4}
      link-aggregation: {mode: balance-slb, bond-updelay: 100, port: [{name: eth4}, {name: eth5}], ovs-db: {other_config: {k: v}}}
";
    let Imported { document, left_out } = imported(text);
    assert_eq!(
        document["network_config"],
        json!([{"type": "ovs_bridge", "name": "br0",
        "ovs_extra": ["set bridge br0 stp_enable=true rstp_enable=false mcast_snooping_enable=true other_config:disable-in-band=true"],
        "members": [
            {"type": "interface", "name": "eth0", "ovs_extra": [
                "set port eth0 vlan_mode=trunk trunks=1,10,11,12", "set interface eth0 external_ids:iface-id=mine"]},
            {"type": "interface", "name": "eth1", "ovs_extra": ["set port eth1 vlan_mode=native-untagged tag=5 trunks=6"]},
            {"type": "interface", "name": "eth2", "ovs_extra": ["set port eth2 vlan_mode=trunk"]},
            {"type": "interface", "name": "eth3"},
            {"type": "ovs_bond", "name": "pair", "ovs_options": "bond_mode=balance-slb",
             "ovs_extra": ["set port pair bond_updelay=100 other_config:k=v tag=4"],
             "members": [{"type": "interface", "name": "eth4"}, {"type": "interface", "name": "eth5"}]},
        ]}])
    );
    assert_eq!(
        left_out,
        [
            "interfaces[1].bridge.options.datapath: a network document has no such setting",
            "interfaces[1].bridge.port[2].vlan.tag: a trunk has a VLAN of its own by enable-native",
            "interfaces[1].bridge.port[3].vlan: a port of a network document has no mode other",
            "interfaces[1].ovs-db.other_config.gone: a network document takes no key away",
        ]
    );
    for tags in ["[{id: 4096}]", "[{id-range: {min: 3, max: 2}}]", "[{}]"] {
        let text = format!(
            "interfaces: [{{name: b, type: ovs-bridge, bridge: {{port: [{{name: p, vlan: {{mode: trunk, trunk-tags: {tags}}}}}]}}}}]"
        );
        let error = nmstate(&muster_yaml::parse(&text).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with("interfaces[0].bridge.port[0].vlan.trunk-tags[0]: id is wanted"),
            "{error}"
        );
    }
}

#[test]
fn settings_of_a_card_are_written() {
    let text = "interfaces:
- name: eth0
  type: ethernet
  ethernet: {auto-negotiation: false, speed: 1000, duplex: full, sr-iov: {total-vfs: 2}}
  ethtool:
    pause: {rx: true, tx: false, autoneg: false}
    ring: {rx: 512, rx-max: 4096}
    coalesce: {adaptive-rx: true, tx-usecs: 8}
    feature: {tx-tcp-segmentation: true, rx-gro: false, odd name: true}
    fec: {mode: off}
- {name: eth1, type: ethernet, ethernet: {duplex: odd}}
";
    let Imported { document, left_out } = imported(text);
    assert_eq!(
        document["network_config"],
        json!([
            {"type": "interface", "name": "eth0", "ethtool_opts":
             "-s ${DEVICE} speed 1000 duplex full autoneg off; -A ${DEVICE} autoneg off rx on tx off; \
              -G ${DEVICE} rx 512; -C ${DEVICE} adaptive-rx on tx-usecs 8; \
              -K ${DEVICE} rx-gro off tx-tcp-segmentation on"},
            {"type": "interface", "name": "eth1"},
        ])
    );
    assert_eq!(
        left_out,
        [
            "interfaces[0].ethernet.sr-iov: a network document has no such setting",
            "interfaces[0].ethtool.ring.rx-max: a network document has no such setting",
            "interfaces[0].ethtool.feature.odd name: a network document has no such setting",
            "interfaces[0].ethtool.fec: a network document has no such setting",
            "interfaces[1].ethernet.duplex: full and half are in a network document",
        ]
    );
}

#[test]
fn other_files_are_refused_with_the_place() {
    for (text, wanted) in [
        ("{}", "interfaces: is missing: this is not a state of nmstate"),
        ("interfaces: {}", "interfaces: a list is wanted"),
        ("interfaces: [{type: bond}]", "interfaces[0].name: is missing"),
        ("interfaces: [{name: b, type: bond}]", "interfaces[0].link-aggregation: is missing"),
        (
            "interfaces: [{name: v, type: vlan, vlan: {id: x}}]",
            "interfaces[0].vlan.id: a number from 0 to 4294967295 is wanted",
        ),
    ] {
        let error = nmstate(&muster_yaml::parse(text).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{text}");
    }
}
