use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;

/// TripleO's net-config-static-bridge, rendered.
fn tripleo() -> Value {
    json!({"network_config": [{
        "type": "ovs_bridge", "name": "br-ex", "use_dhcp": false, "dns_servers": [],
        "addresses": [{"ip_netmask": "192.0.2.10/24"}],
        "routes": [
            {"ip_netmask": "169.254.169.254/32", "next_hop": "192.0.2.2"},
            {"default": true, "next_hop": "192.0.2.1"},
        ],
        "members": [{"type": "interface", "name": "nic1", "primary": true}],
    }]})
}

#[test]
fn bonding_options_are_those_that_the_mode_takes() {
    for (written, wanted) in [
        (
            "mode=802.3ad updelay=1000 miimon=100 lacp_rate=fast",
            Ok("mode=802.3ad miimon=100 updelay=1000 lacp_rate=fast"),
        ),
        (
            "mode=active-backup fail_over_mac=2 primary=em2",
            Ok("mode=active-backup fail_over_mac=follow primary=em2"),
        ),
        ("mode=1 miimon=100 arp_interval=0 lacp_rate=slow", Ok("mode=active-backup miimon=100")),
        ("mode=1 arp_interval=200", Ok("mode=active-backup arp_interval=200")),
        (
            "mode=1 miimon=100 lacp_rate=fast",
            Err("a bond with mode=active-backup and with miimon takes no lacp_rate=fast; leave that out"),
        ),
        (
            "mode=4 updelay=200 primary=em1",
            Err(
                "a bond with mode=802.3ad and without miimon takes no updelay=200 primary=em1; leave that out",
            ),
        ),
        (
            "miimon=100 tlb_dynamic_lb=1",
            Err("a bond with mode=balance-rr and with miimon takes no tlb_dynamic_lb=1; leave that out"),
        ),
    ] {
        let document = json!([{"type": "linux_bond", "name": "bond1", "bonding_options": written,
            "members": [{"type": "interface", "name": "em1"}]}]);
        let found = NetworkDocument::parse(&document);
        let found = found.map(|document| match &document.objects[0].kind {
            ObjectKind::LinuxBond { options, .. } => options.describe(),
            other => panic!("{other:?}"),
        });
        let wanted = wanted.map(str::to_owned);
        let wanted = wanted.map_err(|error| format!("network_config[0].bonding_options: {error}"));
        assert_eq!(found.map_err(|error| error.to_string()), wanted, "{written}");
    }
}

#[test]
fn of_a_bonds_options_those_stay_that_its_mode_takes() {
    let all = |mode: u32, miimon: u32| {
        let known = (1..32).filter(|number| BondOptions::width(*number).is_some());
        let values = known.map(|number| {
            (
                number,
                match number {
                    1 => mode,
                    3 => miimon,
                    _ => 0,
                },
            )
        });
        BondOptions { values: values.collect(), primary: Some(LinkName::new("em1").unwrap()) }
    };
    let always = [
        "mode",
        "miimon",
        "use_carrier",
        "arp_all_targets",
        "primary_reselect",
        "fail_over_mac",
        "xmit_hash_policy",
        "resend_igmp",
        "num_grat_arp",
        "all_slaves_active",
        "min_links",
        "lp_interval",
        "ad_select",
    ];
    let lacp = &["lacp_rate", "ad_actor_sys_prio", "ad_user_port_key"][..];
    for (mode, miimon, more) in [
        (0, 100, &["updelay", "downdelay", "packets_per_slave"][..]),
        (0, 0, &["arp_interval", "arp_validate", "packets_per_slave"]),
        (1, 100, &["updelay", "downdelay", "primary"]),
        (1, 0, &["arp_interval", "arp_validate", "primary"]),
        (2, 0, &["arp_interval", "arp_validate"]),
        (3, 100, &["updelay", "downdelay"]),
        (4, 100, &[&["updelay", "downdelay"], lacp].concat()),
        (4, 0, lacp),
        (5, 0, &["tlb_dynamic_lb", "primary"]),
        (6, 100, &["updelay", "downdelay", "tlb_dynamic_lb", "primary"]),
    ] {
        let described = all(mode, miimon).of_its_mode().describe();
        let found: BTreeSet<&str> =
            described.split(' ').filter_map(|word| Some(word.split_once('=')?.0)).collect();
        let wanted: BTreeSet<&str> = always.iter().chain(more).copied().collect();
        assert_eq!(found, wanted, "mode {mode}, miimon {miimon}");
    }
}

#[test]
fn tripleos_static_bridge_is_taken() {
    let document = NetworkDocument::parse(&tripleo()).unwrap();
    let bridge = &document.objects[0];
    assert_eq!(bridge.name.as_str(), "br-ex");
    assert_eq!(bridge.addresses, ["192.0.2.10/24".parse::<IpNet>().unwrap()]);
    assert_eq!(bridge.routes[0].destination, "169.254.169.254/32".parse::<IpNet>().unwrap());
    assert_eq!(bridge.routes[1].destination, "0.0.0.0/0".parse::<IpNet>().unwrap());
    assert_eq!(bridge.routes[1].table, MAIN_TABLE);
    assert_eq!(bridge.members()[0].path, "network_config[0].members[0]");
    assert_eq!(bridge.members()[0].kind, ObjectKind::Interface { primary: true });
}

#[test]
fn a_list_alone_and_text_are_taken() {
    let list = tripleo()["network_config"].clone();
    let wanted = NetworkDocument::parse(&tripleo()).unwrap();
    assert_eq!(NetworkDocument::parse(&list).unwrap(), wanted);
    assert_eq!(NetworkDocument::from_json(&list.to_string()).unwrap(), wanted);
}

#[test]
fn all_the_options_of_this_version() {
    let document = NetworkDocument::parse(&json!([
        {"type": "interface", "name": "eth0", "mtu": "9000", "onboot": true, "defroute": "no", "use_dhcpv6": "False",
         "addresses": [{"ip_netmask": "2001:db8::1/64"}, {"ip_netmask": "10.0.0.1/8"}],
         "routes": [{"destination": "2001:db8:1::/48", "nexthop": "2001:db8::2", "table": 200, "metric": 7}]},
        {"type": "linux_bridge", "name": "br0", "members": [
            {"type": "interface", "name": "eth1"}, {"type": "vlan", "vlan_id": 7, "device": "eth2"}]},
        {"type": "ovs_bridge", "name": "br1", "ovs_fail_mode": "standalone", "members": [
            {"type": "interface", "name": "eth3"}, {"type": "vlan", "vlan_id": 8, "device": "eth3", "primary": false}]},
        {"type": "vlan", "vlan_id": 4094, "device": "eth0", "mtu": 1400},
    ]))
    .unwrap();
    let names: Vec<&str> = document.link_names().map(LinkName::as_str).collect();
    assert_eq!(names, ["eth0", "br0", "eth1", "vlan7", "br1", "eth3", "vlan8", "vlan4094"]);
    assert_eq!(document.objects[0].mtu, Some(9_000));
    let route = &document.objects[0].routes[0];
    assert_eq!((route.table, route.metric, route.kernel_metric()), (200, Some(7), 7));
    assert_eq!(document.objects[3].mtu, Some(1_400));
}

/// An interface with more options, refused with exactly this text.
fn refused(more: Value) -> String {
    let mut object = json!({"type": "interface", "name": "eth0"});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    NetworkDocument::parse(&json!([object])).unwrap_err().to_string()
}

#[test]
fn a_link_leases_its_addresses_and_a_member_does_not() {
    let vlan = json!({"type": "vlan", "vlan_id": 5, "use_dhcpv6": "yes", "defroute": false});
    let bridge = |member: &Value| {
        let bond = json!({"type": "ovs_bond", "name": "bond0", "use_dhcp": true, "members": [
            {"type": "interface", "name": "eth1"}, {"type": "interface", "name": "eth2"}]});
        NetworkDocument::parse(
            &json!([{"type": "ovs_bridge", "name": "br0", "use_dhcp": true, "dhclient_args": "-v -D LL",
            "members": [member, vlan, bond]}]),
        )
    };
    let document = bridge(&json!({"type": "interface", "name": "eth0", "use_dhcp": false})).unwrap();
    let of = |name: &str| document.all().find(|object| object.name.as_str() == name).unwrap().dhcp.clone();
    let arguments = ["-v", "-D", "LL"].map(str::to_owned).into();
    assert_eq!(of("br0"), Some(Dhcp { v4: true, v6: false, default_route: true, arguments }));
    assert_eq!(of("vlan5"), Some(Dhcp { v4: false, v6: true, default_route: false, arguments: Vec::new() }));
    assert_eq!((of("eth0"), of("bond0")), (None, None));
    assert_eq!(
        bridge(&json!({"type": "interface", "name": "eth0", "use_dhcp": true})).unwrap_err().to_string(),
        "network_config[0].members[0].use_dhcp: a lease of a member is not supported by this version; what belongs to a bridge \
         or bond has no address of its own: give it to the bridge or bond"
    );
}

#[test]
fn ethtools_words_are_settings() {
    let of = |options: &str| {
        let document =
            NetworkDocument::parse(&json!([{"type": "interface", "name": "eth0", "ethtool_opts": options}]));
        let settings = document.unwrap().objects.remove(0).ethtool;
        settings.into_iter().map(|it| (it.name, it.value)).collect::<Vec<_>>()
    };
    let pairs = |pairs: &[(&str, u32)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect::<Vec<_>>()
    };
    assert_eq!(of("speed 1000 duplex full"), pairs(&[("link/speed", 1000), ("link/duplex", 1)]));
    assert_eq!(
        of("-G ${DEVICE} rx 512 tx 256 rx 1024; --pause eth0 autoneg off ;-K $DEVICE sg on rx-gro-list off;"),
        pairs(&[
            ("rings/tx", 256),
            ("rings/rx", 1024),
            ("pause/autoneg", 0),
            ("features/tx-scatter-gather*", 1),
            ("features/rx-gro-list", 0)
        ])
    );
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let rows = [
        (json!({"use_dhcp": true, "dhclient_args": "-v -D"}), "dhclient_args: '-D' wants a value"),
        (
            json!({"dhclient_args": "-s 192.0.2.1 -sf /tmp/x"}),
            "dhclient_args: \"-sf\" is not supported by this version; of dhclient's options -B, -C, -D, -F, -H, -I, -R, -V, -g, -i, -q, -s, -timeout, -v, --address-prefix-len, --dad-wait-time, --decline-wait-time, --prefix-len-hint are taken",
        ),
        (
            json!({"dns_servers": ["192.0.2.1", "dns.example.com"]}),
            "dns_servers[1]: \"dns.example.com\" is no IP address",
        ),
        (
            json!({"ethtool_opts": "-K ${DEVICE} tso off; -E ${DEVICE} magic 7"}),
            "ethtool_opts: \"-E\" is not supported by this version; -s, -A, -C, -G, -K and -L are taken",
        ),
        (
            json!({"ethtool_opts": "wol d"}),
            "ethtool_opts: \"wol\" is not supported by this version; with -s speed, duplex, autoneg are taken",
        ),
        (json!({"ethtool_opts": "-G eth7 rx 4096"}), "ethtool_opts: \"-G\" wants ${DEVICE} behind it"),
        (json!({"ethtool_opts": "-K eth0 tso of"}), "ethtool_opts: tso: on or off is wanted, not \"of\""),
        (json!({"ethtool_opts": "-L eth0"}), "ethtool_opts: \"-L\" has nothing to set"),
        (json!({"ethtool_opts": "-L eth0 rx"}), "ethtool_opts: \"rx\" wants a value"),
        (json!({"ethtool_opts": "-K eth0 $(reboot) on"}), "ethtool_opts: \"$(reboot)\" is no feature"),
        (
            json!({"bonding_options": "mode=1"}),
            "bonding_options: type 'interface' has no option 'bonding_options'; linux_bond, team, vpp_bond can have it",
        ),
        (
            json!({"nic_mapping": {"nic1": "eth0"}}),
            "nic_mapping: nic_mapping is not supported by this version; give the mapping beside the document",
        ),
        (json!({"adresses": []}), "adresses: unknown option 'adresses'; did you mean 'addresses'?"),
        (json!({"xyzzyplugh": 1}), "xyzzyplugh: unknown option 'xyzzyplugh'"),
        (json!({"mtu": 67}), "mtu: an integer from 68 to 65535 is taken"),
        (json!({"mtu": "big"}), "mtu: an integer is wanted, not \"big\""),
        (
            json!({"mtu": {"get_param": "Mtu"}}),
            "mtu: a template's function is not supported by this version; give its value",
        ),
        (json!({"use_dhcp": 1}), "use_dhcp: a boolean is wanted, not 1"),
        (
            json!({"name": "an-interface-of-16"}),
            "name: 'an-interface-of-16' cannot name an interface: the kernel takes at most 15 bytes",
        ),
        (
            json!({"name": "eth0:1"}),
            "name: an alias of eth0, which this document does not have: add eth0 itself",
        ),
        (
            json!({"name": "lo", "mtu": 1500}),
            "mtu: 'mtu' of the loopback interface is not supported by this version; addresses, rules, dns_servers and domain \
             are taken there",
        ),
        (json!({"name": null}), "name: a string is wanted, not nothing"),
        (json!({"addresses": {}}), "addresses: a list is wanted, not a map"),
        (
            json!({"addresses": [{"ip_netmask": "10.0.0.1"}]}),
            "addresses[0].ip_netmask: 10.0.0.1 lacks its prefix length, such as 10.0.0.1/24",
        ),
        (
            json!({"addresses": [{"ip_netmask": "10.0.0.1/33"}]}),
            "addresses[0].ip_netmask: \"10.0.0.1/33\" is no address with prefix length, such as 192.0.2.1/24",
        ),
        (
            json!({"addresses": [{"ip_netmask": "10.0.0.1/24"}, {"ip_netmask": "10.0.0.1/16"}]}),
            "addresses[1].ip_netmask: 10.0.0.1 is listed already",
        ),
        (
            json!({"addresses": [{"ip_netmask": "224.0.0.1/24"}]}),
            "addresses[0].ip_netmask: 224.0.0.1/24 cannot be an interface's address",
        ),
        (json!({"addresses": [{"ip": "10.0.0.1/24"}]}), "addresses[0].ip: unknown option 'ip'"),
        (
            json!({"routes": [{"ip_netmask": "192.0.2.1/24", "next_hop": "192.0.2.1"}]}),
            "routes[0].ip_netmask: 192.0.2.1/24 has host bits, which the kernel refuses; 192.0.2.0/24 is meant",
        ),
        (json!({"routes": [{"default": true}]}), "routes[0].next_hop: is missing"),
        (
            json!({"routes": [{"next_hop": "10.0.0.1"}]}),
            "routes[0]: wants ip_netmask, destination or 'default: true'",
        ),
        (
            json!({"routes": [{"default": true, "ip_netmask": "10.0.0.0/8", "next_hop": "10.0.0.1"}]}),
            "routes[0].ip_netmask: the route is the default one, so this can only be 0.0.0.0/0",
        ),
        (json!({"routes": [{"default": true, "next_hop": ""}]}), "routes[0].next_hop: \"\" is no IP address"),
        (
            json!({"routes": [{"default": true, "next_hop": "::1", "nexthop": "::1"}]}),
            "routes[0]: has next_hop and nexthop; give one of them",
        ),
        (
            json!({"routes": [{"ip_netmask": "::/0", "next_hop": "10.0.0.1"}]}),
            "routes[0].next_hop: 10.0.0.1 is of another address family than ::/0",
        ),
        (
            json!({"routes": [{"default": true, "next_hop": "10.0.0.1", "table": "custom"}]}),
            "routes[0].table: the table name \"custom\" is not supported by this version; give the table's number, or a route_table of that name",
        ),
        (
            json!({"routes": [{"default": true, "next_hop": "10.0.0.1", "route_options": "metric 10", "metric": 9}]}),
            "routes[0].route_options: 'metric' is not what the route's own option says",
        ),
        (
            json!({"routes": [{"default": true, "next_hop": "10.0.0.1", "route_options": "mtu 1400"}]}),
            "routes[0].route_options: \"mtu\" is not supported by this version; metric, table, src and onlink are taken",
        ),
        (
            json!({"routes": [{"default": true, "next_hop": "10.0.0.1"}, {"ip_netmask": "0.0.0.0/0", "next_hop": "10.0.0.2", "metric": 0}]}),
            "routes[1]: network_config[0].routes[0] has the same destination, table and metric",
        ),
    ];
    for (more, wanted) in rows {
        assert_eq!(refused(more.clone()), format!("network_config[0].{wanted}"), "{more}");
    }
}

#[test]
fn what_is_wrong_with_objects_is_named() {
    let bridge = |kind: &str, members: Value| json!([{"type": kind, "name": "br0", "members": members}]);
    let rows = [
        (json!("x"), "network_config: a list of objects is wanted, or a map with network_config"),
        (json!({}), "network_config: is missing"),
        (json!({"network_config": [], "fallback_config": [1]}), "fallback_config[0]: a map is wanted, not 1"),
        (
            json!({"network_confg": []}),
            "network_config: unknown section 'network_confg'; did you mean 'network_config'?",
        ),
        (json!([1]), "network_config[0]: a map is wanted, not 1"),
        (json!([{"name": "eth0"}]), "network_config[0].type: is missing"),
        (
            json!([{"type": "ovs_bond", "name": "bond1", "members": [{"type": "interface", "name": "em1"}]}]),
            "network_config[0].type: a bond of Open vSwitch stands among the members of its ovs_bridge",
        ),
        (
            json!([{"type": "sriov_pf", "name": "em1", "numvfs": 5}]),
            "network_config[0].type: type 'sriov_pf' is not supported by this version; SR-IOV needs hardware that this version does not set up",
        ),
        (
            json!([{"type": "ovs_brigde"}]),
            "network_config[0]: unknown type 'ovs_brigde'; did you mean 'ovs_bridge'?",
        ),
        (json!([{"type": "interface"}]), "network_config[0].name: is missing"),
        (
            json!([{"type": "vlan", "vlan_id": 5}]),
            "network_config[0].device: is missing: the interface that carries the VLAN",
        ),
        (
            json!([{"type": "vlan", "vlan_id": 4095, "device": "eth0"}]),
            "network_config[0].vlan_id: an integer from 1 to 4094 is taken",
        ),
        (
            json!([{"type": "vlan", "vlan_id": 5, "device": "eth0", "name": "x"}]),
            "network_config[0].name: type 'vlan' has no option 'name'; interface, ovs_bridge, ovs_bond, ovs_patch_port and others can have it",
        ),
        (
            json!([{"type": "linux_bridge", "name": "br0"}]),
            "network_config[0].members: is missing; an empty list is taken",
        ),
        (
            json!([{"type": "vlan", "vlan_id": 8, "device": "vlan9"}, {"type": "vlan", "vlan_id": 9, "device": "vlan8"}]),
            "network_config[0].device: vlan8 would stand on itself",
        ),
        (
            bridge("linux_bridge", json!([{"type": "ovs_bond"}])),
            "network_config[0].members[0].type: ovs_bond cannot be a member here; it takes interface, vlan, linux_bond",
        ),
        (
            bridge("ovs_bridge", json!([{"type": "linux_bridge"}])),
            "network_config[0].members[0].type: linux_bridge cannot be a member here; it takes interface, vlan, linux_bond, team, ovs_bond, ovs_tunnel, ovs_patch_port, sriov_vf, sriov_pf",
        ),
        (
            bridge("linux_bridge", json!([{"type": "vlan", "vlan_id": 5}])),
            "network_config[0].members[0].device: is missing: the interface that carries the VLAN",
        ),
        (
            bridge("ovs_bridge", json!([{"type": "vlan", "vlan_id": 5, "device": "eth9"}])),
            "network_config[0].members[0].device: eth9 is neither br0 nor a member of it",
        ),
        (
            bridge("ovs_bridge", json!([{"type": "vlan", "vlan_id": 5, "ovs_options": "tag=3"}])),
            "network_config[0].members[0].ovs_options: the VLAN of vlan5 is 5, not 3",
        ),
        (
            bridge(
                "ovs_bridge",
                json!([{"type": "interface", "name": "a", "ovs_extra": "set port b tag=3"},
                {"type": "interface", "name": "b"}]),
            ),
            "network_config[0].members[0].ovs_extra: the tag of b is said at b itself, or at its bridge",
        ),
        (
            json!([{"type": "ovs_bridge", "name": "br0", "ovs_extra": "set port br0 tag=5000", "members": []}]),
            "network_config[0].ovs_extra: tag: 1 to 4094 is taken",
        ),
        (
            json!([{"type": "interface", "name": "br0:0", "addresses": [{"ip_netmask": "192.0.2.1/24"}]}]),
            "network_config[0].name: an alias of br0, which this document does not have: add br0 itself",
        ),
        (
            json!([{"type": "interface", "name": "a"}, {"type": "interface", "name": "a:0", "mtu": 1400}]),
            "network_config[1].mtu: 'mtu' of an alias is not supported by this version; say it at a; addresses, routes, rules, dns_servers and domain are taken here",
        ),
        (
            json!([{"type": "interface", "name": "a", "addresses": [{"ip_netmask": "192.0.2.1/24"}]},
                {"type": "interface", "name": "a:0", "addresses": [{"ip_netmask": "192.0.2.1/25"}]}]),
            "network_config[1].addresses[0]: 192.0.2.1 is an address of a already",
        ),
        (
            bridge(
                "ovs_bridge",
                json!([{"type": "interface", "name": "a", "primary": true}, {"type": "interface", "name": "b", "primary": true}]),
            ),
            "network_config[0].members[1].primary: br0 has a primary interface already; one is taken",
        ),
        (
            bridge("ovs_bridge", json!([{"type": "interface", "name": "br0"}])),
            "network_config[0].members[0]: br0 is configured at network_config[0] already",
        ),
    ];
    for (document, wanted) in rows {
        assert_eq!(NetworkDocument::parse(&document).unwrap_err().to_string(), wanted, "{document}");
    }
}

#[test]
fn a_bridges_own_port_has_a_tag_and_names_those_of_members() {
    let document = NetworkDocument::parse(&json!([{"type": "ovs_bridge", "name": "br0",
        "ovs_extra": ["set port br0 tag=7 -- set port eth1 tag=8"], "members": [{"type": "interface", "name": "eth1"}]}]));
    let document = document.unwrap();
    let settings: Vec<String> =
        document.objects[0].settings.iter().map(|it| format!("{} = {}", it.place, it.value)).collect();
    assert_eq!(settings, ["Port br0 tag = 7"]);
    assert_eq!(document.objects[0].members()[0].tag, Some(8));
}

#[test]
fn an_alias_gives_its_interface_what_it_has() {
    let document = json!([
        {"type": "interface", "name": "br0:0", "use_dhcp": false, "addresses": [{"ip_netmask": "192.0.2.1/24"}],
            "routes": [{"default": true, "next_hop": "192.0.2.254"}]},
        {"type": "ovs_bridge", "name": "br0", "use_dhcp": true, "members": []},
    ]);
    let document = NetworkDocument::parse(&document).unwrap();
    let [bridge] = document.objects.as_slice() else { panic!("{document:?}") };
    assert_eq!((bridge.addresses.len(), bridge.routes.len(), bridge.dhcp.is_some()), (1, 1, true));
}

#[test]
fn default_routes_of_several_links_give_way_in_order() {
    let link = |name: &str, hop: &str| json!({"type": "interface", "name": name, "routes": [{"default": true, "next_hop": hop}]});
    let mut objects = [
        ("a", "192.0.2.1"),
        ("b", "198.51.100.1"),
        ("c", "203.0.113.1"),
        ("d", "2001:db8::1"),
        ("e", "2001:db8:1::1"),
    ]
    .map(|(name, hop)| link(name, hop));
    objects[1]["routes"][0]["metric"] = json!(100);
    let document = NetworkDocument::parse(&json!(objects)).unwrap();
    let metrics: Vec<u32> = document.all().map(|object| object.routes[0].kernel_metric()).collect();
    assert_eq!(metrics, [0, 100, 101, 1024, 1124]);
}

#[test]
fn documents_are_bounded() {
    let object = |index: usize| json!({"type": "interface", "name": format!("e{index}")});
    let document: Vec<Value> = (0..=MAX_OBJECTS).map(object).collect();
    let error = NetworkDocument::parse(&Value::Array(document)).unwrap_err();
    assert_eq!(error.to_string(), "network_config[4096]: the document has more than 4096 objects");
    let routes: Vec<Value> = vec![json!({"default": true, "next_hop": "192.0.2.1"}); MAX_ROUTES + 1];
    assert_eq!(
        refused(json!({"routes": routes})),
        "network_config[0].routes: the document has more than 65536 routes"
    );
    let error = NetworkDocument::from_json(&" ".repeat(MAX_DOCUMENT_BYTES + 1)).unwrap_err();
    assert_eq!(error.to_string(), "network_config: larger than 16777216 bytes");
    assert!(
        NetworkDocument::from_json("[").unwrap_err().to_string().starts_with("network_config: not JSON: ")
    );
}

fn links() -> BTreeMap<String, String> {
    [("eth0", "52:54:00:00:00:01"), ("eth1", "52:54:00:00:00:02"), ("eth2", "52:54:00:00:00:02")]
        .map(|(name, mac)| (name.to_owned(), mac.to_owned()))
        .into()
}

fn resolved(mapping: Value) -> Result<BTreeMap<String, String>, String> {
    let names = NicMapping::parse(&mapping).and_then(|mapping| mapping.resolve(&links()));
    let text = |(alias, name): (String, LinkName)| (alias, name.to_string());
    names.map(|names| names.into_iter().map(text).collect()).map_err(|error| error.to_string())
}

#[test]
fn a_mapping_gives_names_by_name_or_mac() {
    let names =
        resolved(json!({"interface_mapping": {"nic1": "eth1", "nic2": "52-54-00-00-00-01", "nic3": "eth9"}}));
    assert_eq!(
        names,
        Ok([("nic1", "eth1"), ("nic2", "eth0")].map(|(a, b)| (a.to_owned(), b.to_owned())).into())
    );
    let rows = [
        (json!({"nic1": "eth0", "nic2": "eth0"}), "mapping: nic1 and nic2 both stand for eth0"),
        (json!({"eth1": "eth0"}), "mapping: the alias eth1 is itself an interface of this host"),
        (
            json!({"nic1": "52:54:00:00:00:02"}),
            "mapping: nic1: eth1 and eth2 both have the address 52:54:00:00:00:02; name one of them",
        ),
        (json!({"nic1": 1}), "mapping: nic1: an interface name or MAC address"),
        (json!([]), "mapping: a map of alias to interface name or MAC address"),
        (json!({"nic1": ""}), "mapping: '' cannot name an interface: it is empty"),
    ];
    for (mapping, wanted) in rows {
        assert_eq!(resolved(mapping), Err(wanted.to_owned()));
    }
}

#[test]
fn names_replace_aliases_and_are_checked_again() {
    let names = |pairs: &[(&str, &str)]| -> BTreeMap<String, LinkName> {
        pairs.iter().map(|(alias, name)| ((*alias).to_owned(), LinkName::new(name).unwrap())).collect()
    };
    let document = NetworkDocument::parse(&json!([
        {"type": "ovs_bridge", "name": "br0", "members": [{"type": "interface", "name": "nic1"}]},
        {"type": "vlan", "vlan_id": 3, "device": "nic2"}, {"type": "interface", "name": "nic2"},
    ]))
    .unwrap();
    let mapped = document.clone().with_names(&names(&[("nic1", "eth0"), ("nic2", "eth1")])).unwrap();
    let all: Vec<&str> = mapped.link_names().map(LinkName::as_str).collect();
    assert_eq!(all, ["br0", "eth0", "vlan3", "eth1"]);
    assert!(
        matches!(&mapped.objects[1].kind, ObjectKind::Vlan { device: Some(device), .. } if device.as_str() == "eth1")
    );
    let error = document.with_names(&names(&[("nic1", "br0")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "network_config[0].members[0]: br0 is configured at network_config[0] already"
    );
}

/// Puts `junk` in the place of each value in turn, at any depth, and parses.
fn spoil(document: &Value, at: &mut Vec<Step>, junk: &[Value]) -> usize {
    let here = at.iter().fold(document, |value, step| match step {
        Step::Key(key) => &value[key],
        Step::Index(index) => &value[index],
    });
    let mut parsed = 0;
    for value in junk {
        let mut spoilt = document.clone();
        let place = at.iter().fold(&mut spoilt, |value, step| match step {
            Step::Key(key) => &mut value[key.as_str()],
            Step::Index(index) => &mut value[*index],
        });
        *place = value.clone();
        if let Err(error) = NetworkDocument::parse(&spoilt) {
            assert!(error.to_string().len() < 1_000, "{error}");
        }
        parsed += 1;
    }
    let inside: Vec<Step> = match here {
        Value::Object(map) => map.keys().cloned().map(Step::Key).collect(),
        Value::Array(items) => (0..items.len()).map(Step::Index).collect(),
        _ => Vec::new(),
    };
    for step in inside {
        at.push(step);
        parsed += spoil(document, at, junk);
        at.pop();
    }
    parsed
}

enum Step {
    Key(String),
    Index(usize),
}

#[test]
fn junk_anywhere_is_an_error_of_bearable_length_and_no_panic() {
    let long = "é".repeat(100_000);
    let junk = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!(long),
        json!("0.0.0.0/0"),
        json!("::ffff:1.2.3.4/128"),
        json!([]),
        json!([[[]]]),
        json!({}),
        json!({long.clone(): long}),
        json!([{"type": "interface", "name": "a"}]),
    ];
    assert!(spoil(&tripleo(), &mut Vec::new(), &junk) > 300);
}

#[test]
fn rules_are_read_as_ip_rule_writes_them() {
    let rows = [
        ("from 192.0.2.0/24 table 100 priority 200", "from 192.0.2.0/24 table 100 priority 200"),
        ("from 192.0.2.5 lookup 7 prio 8", "from 192.0.2.5/32 table 7 priority 8"),
        ("pref 7 from all to 198.51.100.1 lookup main", "from all to 198.51.100.1/32 table 254 priority 7"),
        ("not from 2001:db8::/32 unreachable order 9", "not from 2001:db8::/32 unreachable priority 9"),
        (
            "iif eth0 oif lo dsfield 0x10 fwmark 0x1/0xff ipproto tcp sport 1024-2048 dport 22 blackhole preference 10",
            "from all iif eth0 oif lo tos 0x10 fwmark 0x1/0xff ipproto 6 sport 1024-2048 dport 22-22 blackhole priority 10",
        ),
        ("-6 fwmark 5 prohibit priority 1", "-6 from all fwmark 0x5/0xffffffff prohibit priority 1"),
        ("from 0/0 table 5 priority 3", "rule: 'from 0/0' is no address or prefix"),
        ("from ::/0 table 5 priority 3", "-6 from all table 5 priority 3"),
        ("table 5 goto 7", "rule: 'goto' is not supported by this version; leave it out"),
        ("fromm 192.0.2.0/24 table 5", "rule: unknown word 'fromm'; did you mean 'from'?"),
        ("from 192.0.2.1/24 table 5", "rule: 'from 192.0.2.1/24' has host bits; 192.0.2.0/24 is meant"),
        ("from 192.0.2.0/24", "rule: leads nowhere: give table, blackhole, unreachable or prohibit"),
        ("add table 5 blackhole priority 7", "from all blackhole priority 7"),
        ("blackhole prohibit", "rule: 'prohibit' stands for what was given already"),
        ("table 5 priority", "rule: 'priority' wants a value"),
        ("table 5 priority 0", "rule: an integer from 1 to 4294967295 is taken"),
        (
            "table local",
            "rule: the table name \"local\" is not supported by this version; give the table's number, or a route_table of that name",
        ),
        (
            "from 192.0.2.0/24 to 2001:db8::/32 table 5",
            "rule: \"2001:db8::/32\" is of another address family than the rest",
        ),
        ("ipproto icmp dport 22 table 5", "rule: sport and dport want ipproto tcp, udp, dccp or sctp"),
        ("dport 9-8 table 5", "rule: 'dport 9-8': a port, or FIRST-LAST, is wanted"),
        ("fwmark x table 5", "rule: 'fwmark x': a mark, or mark/mask, is wanted"),
    ];
    for (written, wanted) in rows {
        let found = written.parse::<Rule>();
        let text = found.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        assert_eq!(text, wanted, "{written}");
        if let Ok(rule) = found {
            assert_eq!(text.parse::<Rule>().unwrap(), rule, "{text}");
        }
    }
}

#[test]
fn a_rule_without_a_priority_has_one_of_its_own() {
    let rule = |text: &str| text.parse::<Rule>().unwrap();
    let one = rule("from 192.0.2.0/24 table 100");
    assert_eq!(one, rule("lookup 100 from 192.0.2.0/24"));
    assert!((16_384..32_512).contains(&one.priority));
    assert_ne!(one.priority, rule("from 192.0.3.0/24 table 100").priority);
}

#[test]
fn rules_and_resolvers_of_a_document() {
    let document = NetworkDocument::parse(&json!([
        {"type": "interface", "name": "nic1", "dns_servers": ["192.0.2.53", "2001:db8::53"], "domain": "a.example",
         "rules": [{"rule": "iif nic1 table 100 priority 5", "comment": "ours"}]},
        {"type": "ovs_bridge", "name": "br0", "domain": [], "dns_servers": ["192.0.2.53"],
         "members": [{"type": "interface", "name": "nic2", "domain": ["b.example", "a.example"], "dns_servers": null}]},
    ]))
    .unwrap();
    let dns = document.dns.clone().unwrap();
    assert_eq!(
        dns.servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["192.0.2.53", "2001:db8::53"]
    );
    assert_eq!(dns.domains, ["a.example", "b.example"]);
    assert_eq!(dns.path, "network_config[0].dns_servers");
    let names = [("nic1".to_owned(), LinkName::new("eth0").unwrap())].into();
    let named = document.with_names(&names).unwrap();
    assert_eq!(named.objects[0].rules[0].to_string(), "from all iif eth0 table 100 priority 5");

    let object =
        |name: &str, servers: &[&str]| json!({"type": "interface", "name": name, "dns_servers": servers});
    let rows = [
        (
            json!([object("a", &["192.0.2.1", "192.0.2.2"]), object("b", &["192.0.2.3", "192.0.2.4"])]),
            "network_config[1].dns_servers: with 192.0.2.4 the document has more than 3 name servers, and glibc asks no more",
        ),
        (
            json!([{"type": "interface", "name": "a", "domain": "a..b"}]),
            "network_config[0].domain: 'a..b' is no domain name",
        ),
        (
            json!([{"type": "interface", "name": "a", "rules": [{"rule": "table 5"}, {"rule": "lookup 5"}]}]),
            "network_config[0].rules[1]: network_config[0].rules[0] is the same rule",
        ),
        (
            json!([{"type": "interface", "name": "a", "rules": [{"role": "table 5"}]}]),
            "network_config[0].rules[0].role: unknown option 'role'; did you mean 'rule'?",
        ),
    ];
    for (document, wanted) in rows {
        assert_eq!(NetworkDocument::parse(&document).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn a_fallback_is_as_strict_as_the_document() {
    let eth0 = json!({"type": "interface", "name": "eth0", "addresses": [{"ip_netmask": "192.0.2.9/24"}]});
    let with = |fallback: Value| {
        NetworkDocument::parse(&json!({"network_config": [eth0], "fallback_config": fallback}))
    };
    let document = with(json!([eth0])).unwrap();
    let fallback = document.fallback().unwrap();
    assert_eq!(fallback.objects[0].path, "fallback_config[0]");
    assert_eq!(fallback.objects[0].addresses, document.objects[0].addresses);
    assert_eq!(document.link_names().count(), 1);
    assert_eq!(with(json!([])).unwrap().fallback(), None);
    let rows = [
        (json!([eth0, eth0]), "fallback_config[1]: eth0 is configured at fallback_config[0] already"),
        (json!([1, 2, 3]), "fallback_config: at most 2 objects are taken"),
        (
            json!([{"type": "interfac"}]),
            "fallback_config[0]: unknown type 'interfac'; did you mean 'interface'?",
        ),
    ];
    for (fallback, wanted) in rows {
        assert_eq!(with(fallback).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn the_loopback_interface_has_addresses_alone() {
    let lo = json!({"type": "interface", "name": "lo", "use_dhcp": false, "addresses": [{"ip_netmask": "192.0.2.1/32"}],
        "rules": [{"rule": "from 192.0.2.1 table 7"}]});
    let document = NetworkDocument::parse(&json!([lo])).unwrap();
    assert!(document.objects[0].name.is_loopback() && document.objects[0].addresses.len() == 1);
    let with = |option: &str, value: Value| {
        let mut lo = json!({"type": "interface", "name": "lo"});
        lo[option] = value;
        NetworkDocument::parse(&json!([lo])).unwrap_err().to_string()
    };
    for (option, value) in [
        ("use_dhcp", json!(true)),
        ("routes", json!([{"default": true, "next_hop": "192.0.2.1"}])),
        ("ethtool_opts", json!("-K lo gro off")),
        ("primary", json!(true)),
    ] {
        assert!(with(option, value).contains(&format!("'{option}' of the loopback interface")), "{option}");
    }
    for (document, wanted) in [
        (
            json!([{"type": "linux_bridge", "name": "br0", "members": [{"type": "interface", "name": "lo"}]}]),
            "the kernel's own",
        ),
        (json!([{"type": "linux_bridge", "name": "lo", "members": []}]), "the kernel's own"),
        (
            json!({"remove_config": [{"remove_name": "lo", "remove_type": "interface"}]}),
            "is never taken away",
        ),
        (json!([{"remove_name": "lo", "remove_type": "interface"}]), "is never taken away"),
    ] {
        let error = NetworkDocument::parse(&document).unwrap_err().to_string();
        assert!(error.contains(wanted), "{document}: {error}");
    }
}
