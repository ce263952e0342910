//! Each format, over documents that have what it can express and what it cannot.

use serde_json::json;

use super::*;

fn document() -> NetworkDocument {
    NetworkDocument::parse(&json!([
        {"type": "interface", "name": "eth0", "use_dhcp": false, "mtu": 1400,
         "addresses": [{"ip_netmask": "192.0.2.1/24"}, {"ip_netmask": "2001:db8::1/64"}],
         "routes": [{"default": true, "next_hop": "192.0.2.254"},
                    {"ip_netmask": "10.0.0.0/8", "next_hop": "192.0.2.9", "table": 100, "metric": 5}],
         "rules": [{"rule": "from 192.0.2.1 table 100 priority 7"}],
         "dns_servers": ["192.0.2.53"], "domain": "example.org"},
        {"type": "vlan", "vlan_id": 20, "device": "eth0", "use_dhcp": false,
         "addresses": [{"ip_netmask": "198.51.100.1/24"}]},
        {"type": "linux_bridge", "name": "br0", "use_dhcp": false,
         "members": [{"type": "interface", "name": "eth1"}]},
    ]))
    .unwrap()
}

#[test]
fn for_networkd() {
    let files: BTreeMap<String, String> = Format::Networkd.export(&document()).files.into_iter().collect();
    let file =
        |name: &str| files[&format!("etc/systemd/network/05-muster-{name}")].strip_prefix(HEAD).unwrap();
    assert_eq!(
        file("eth0.network"),
        "[Match]\nName=eth0\n\n[Link]\nMTUBytes=1400\n\n[Network]\nDHCP=no\nVLAN=vlan20\nDNS=192.0.2.53\n\
         Domains=example.org\n\n[Address]\nAddress=192.0.2.1/24\n\n[Address]\nAddress=2001:db8::1/64\n\n[Route]\n\
         Destination=0.0.0.0/0\nGateway=192.0.2.254\n\n[Route]\nDestination=10.0.0.0/8\nGateway=192.0.2.9\nTable=100\n\
         Metric=5\n\n[RoutingPolicyRule]\nPriority=7\nFamily=ipv4\nFrom=192.0.2.1/32\nTable=100\n"
    );
    assert_eq!(file("vlan20.netdev"), "[NetDev]\nName=vlan20\nKind=vlan\n\n[VLAN]\nId=20\n");
    assert_eq!(file("br0.netdev"), "[NetDev]\nName=br0\nKind=bridge\n");
    assert!(file("eth1.network").ends_with("[Network]\nDHCP=no\nBridge=br0\nLinkLocalAddressing=no\n"));
    assert_eq!(files.len(), 6);
}

#[test]
fn for_ifupdown() {
    let files = Format::Ifupdown.export(&document()).files;
    assert_eq!(files.len(), 1);
    let text = files[0].1.strip_prefix(HEAD).unwrap();
    assert_eq!(
        text,
        "\nauto eth0\niface eth0 inet static\n    address 192.0.2.1/24\n    mtu 1400\n    dns-nameservers 192.0.2.53\n    \
         dns-search example.org\niface eth0 inet6 static\n    address 2001:db8::1/64\n    \
         up ip -4 route replace 0.0.0.0/0 via 192.0.2.254 dev eth0\n    \
         up ip -4 route replace 10.0.0.0/8 via 192.0.2.9 dev eth0 table 100 metric 5\n    \
         up ip -4 rule add from 192.0.2.1/32 table 100 priority 7 || true\n\
         \nauto eth1\niface eth1 inet manual\n    up ip link set $IFACE up\n\
         \nauto br0\niface br0 inet manual\n    up ip link set $IFACE up\n    bridge_ports eth1\n    bridge_fd 0\n\
         \nauto vlan20\niface vlan20 inet static\n    address 198.51.100.1/24\n    vlan-raw-device eth0\n    vlan-id 20\n"
    );
}

#[test]
fn for_network_manager() {
    let files: BTreeMap<String, String> =
        Format::NetworkManager.export(&document()).files.into_iter().collect();
    let file = |name: &str| {
        let path = format!("etc/NetworkManager/system-connections/muster-{name}.nmconnection");
        files[&path].strip_prefix(HEAD).unwrap()
    };
    assert_eq!(
        file("eth0"),
        "[connection]\nid=muster-eth0\ntype=ethernet\ninterface-name=eth0\nautoconnect-priority=999\n\n[ethernet]\nmtu=1400\n\n[ipv4]\n\
         method=manual\naddress1=192.0.2.1/24\nroute1=0.0.0.0/0,192.0.2.254\nroute2=10.0.0.0/8,192.0.2.9,5\n\
         route2_options=table=100\nrouting-rule1=from 192.0.2.1/32 table 100 priority 7\ndns=192.0.2.53;\n\
         ignore-auto-dns=true\ndns-search=example.org;\n\n[ipv6]\nmethod=auto\naddress1=2001:db8::1/64\n\
         dns-search=example.org;\n"
    );
    assert!(file("vlan20").contains(
        "type=vlan\ninterface-name=vlan20\nautoconnect-priority=999\n\n[vlan]\nid=20\nparent=eth0\n"
    ));
    let bridge = "type=bridge\ninterface-name=br0\nautoconnect-priority=999\n\n[bridge]\nstp=false\n\n[ipv4]\nmethod=disabled\n";
    assert!(file("br0").contains(bridge), "{}", file("br0"));
    assert!(
        file("eth1")
            .ends_with("interface-name=eth1\nautoconnect-priority=999\nmaster=br0\nslave-type=bridge\n")
    );
    assert_eq!(files.len(), 4);
}

#[test]
fn networkd_export_makes_bonds_and_taps_and_leaves_ports_to_ovs() {
    let document = NetworkDocument::parse(&json!([
        {"type": "linux_bond", "name": "bond1", "bonding_options": "mode=active-backup miimon=100 fail_over_mac=2 primary=eth1",
         "members": [{"type": "interface", "name": "eth0"}, {"type": "interface", "name": "eth1"}]},
        {"type": "linux_tap", "name": "tap0"},
        {"type": "ovs_bridge", "name": "br-ex", "members": [
            {"type": "ovs_bond", "name": "bond2", "members": [{"type": "interface", "name": "eth2"}, {"type": "interface", "name": "eth3"}]},
            {"type": "ovs_tunnel", "name": "vx0", "tunnel_type": "vxlan"},
            {"type": "ovs_patch_port", "name": "p0", "bridge_name": "br-ex", "peer": "p1"}]},
    ]))
    .unwrap();
    let files: BTreeMap<String, String> = Format::Networkd.export(&document).files.into_iter().collect();
    let file =
        |name: &str| files[&format!("etc/systemd/network/05-muster-{name}")].strip_prefix(HEAD).unwrap();
    assert_eq!(
        file("bond1.netdev"),
        "[NetDev]\nName=bond1\nKind=bond\n\n[Bond]\nMode=active-backup\nMIIMonitorSec=100ms\nFailOverMACPolicy=follow\n"
    );
    assert!(file("eth1.network").ends_with("Bond=bond1\nPrimarySlave=yes\nLinkLocalAddressing=no\n"));
    assert_eq!(file("tap0.netdev"), "[NetDev]\nName=tap0\nKind=tap\n");
    assert!(file("eth2.network").ends_with("DHCP=no\nLinkLocalAddressing=no\n"));
    assert_eq!(files.len(), 9, "{:?}", files.keys());
    let text = Format::Ifupdown.export(&document).files.remove(0).1;
    let bond = "auto bond1\niface bond1 inet manual\n    up ip link set $IFACE up\n    bond-slaves eth0 eth1\n    \
                bond-mode active-backup\n    bond-miimon 100\n    bond-fail-over-mac follow\n    bond-primary eth1\n";
    assert!(text.contains(bond) && text.contains("    pre-up ip tuntap add dev $IFACE mode tap"), "{text}");
    assert!(!text.contains("vx0") && !text.contains("bond2"), "{text}");
    let files = Format::NetworkManager.export(&document).files;
    let all: String = files.iter().map(|(_, text)| text.as_str()).collect();
    for wanted in [
        "[bond]\nmode=active-backup\nmiimon=100\nfail_over_mac=follow\nprimary=eth1\n",
        "interface-name=eth1\nautoconnect-priority=999\nmaster=bond1\nslave-type=bond\n",
        "type=tun\ninterface-name=tap0\nautoconnect-priority=999\n\n[tun]\nmode=2\n",
    ] {
        assert!(all.contains(wanted), "{wanted}: {all}");
    }
    assert!(!all.contains("eth2") && !all.contains("br-ex"), "{all}");
}

#[test]
fn what_is_leased_is_said_where_it_can_be() {
    let leasing = NetworkDocument::parse(&json!([
        {"type": "interface", "name": "eth0", "use_dhcp": true, "use_dhcpv6": true, "defroute": false}
    ]))
    .unwrap();
    let files = Format::Networkd.export(&leasing).files;
    assert!(files[0].1.ends_with("[Network]\nDHCP=yes\n\n[DHCPv4]\nUseGateway=no\n"), "{files:?}");
    let files = Format::NetworkManager.export(&leasing).files;
    let wanted = "[ipv4]\nmethod=auto\nnever-default=true\n\n[ipv6]\nmethod=auto\n";
    assert!(files[0].1.ends_with(wanted), "{files:?}");
}

#[test]
fn what_is_in_open_vswitch_is_not_made_a_second_time() {
    let switched = NetworkDocument::parse(&json!([
        {"type": "ovs_bridge", "name": "br-ex", "use_dhcp": false, "addresses": [{"ip_netmask": "192.0.2.1/24"}],
         "members": [{"type": "interface", "name": "eth0"}, {"type": "vlan", "vlan_id": 30}]},
    ]))
    .unwrap();
    let files = Format::Networkd.export(&switched).files;
    assert!(files.iter().all(|(path, _)| path.ends_with(".network")) && files.len() == 3, "{files:?}");
    let text = Format::Ifupdown.export(&switched).files.remove(0).1;
    assert!(!text.contains("bridge_ports") && !text.contains("vlan-raw-device"), "{text}");
}

/// Whether it leases, is in the switch, or has what its place forbids: the others are written all
/// the same.
#[test]
fn what_cannot_be_said_is_named_and_the_rest_is_written() {
    let address = |n: u8| json!([{"ip_netmask": format!("192.0.2.{n}/24")}]);
    let route = json!([{"ip_netmask": "10.0.0.0/8", "next_hop": "192.0.2.9"}]);
    let port = |more: serde_json::Value| {
        let mut port = json!({"type": "interface", "name": "eth2", "use_dhcp": false});
        port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        port
    };
    let bridge = |kind: &str, more: serde_json::Value, member: serde_json::Value| {
        let mut bridge = json!({"type": kind, "name": "br1", "use_dhcp": false, "members": [member]});
        bridge.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bridge
    };
    let bare = || port(json!({}));
    let vlan = json!({"type": "vlan", "vlan_id": 30, "use_dhcp": false, "addresses": address(30)});
    let (switch, linux) = ("ovs_bridge", "linux_bridge");
    let (carries, up) = ("what an interface of Open vSwitch carries", "that a port of Open vSwitch is up");
    let (on_bridge, on_port) = ("network_config[1]", "network_config[1].members[0]");
    let tuned = port(json!({"ethtool_opts": "-K ${DEVICE} tso off; -G ${DEVICE} rx 512"}));
    let told = "ethtool_opts (-K tso, -G rx)";
    use Format::{Ifupdown, NetworkManager, Networkd};
    let loopback = json!({"type": "interface", "name": "lo", "addresses": address(8)});
    for (format, object, missing, unwritten) in [
        (NetworkManager, bridge(linux, json!({}), bare()), vec![], ""),
        (NetworkManager, bridge(switch, json!({}), bare()), vec![(on_port, up)], "br1 eth2"),
        (
            NetworkManager,
            bridge(switch, json!({"addresses": address(7)}), bare()),
            vec![(on_bridge, carries), (on_port, up)],
            "br1 eth2",
        ),
        (
            NetworkManager,
            bridge(switch, json!({"dns_servers": ["192.0.2.53"]}), bare()),
            vec![(on_bridge, carries), (on_port, up)],
            "br1 eth2",
        ),
        (
            NetworkManager,
            bridge(switch, json!({"domain": "example.org"}), bare()),
            vec![(on_bridge, carries), (on_port, up)],
            "br1 eth2",
        ),
        (NetworkManager, bridge(switch, json!({}), vlan), vec![(on_port, carries)], "br1 vlan30"),
        (
            NetworkManager,
            bridge(linux, json!({}), port(json!({"addresses": address(7)}))),
            vec![(on_port, "what a member carries")],
            "",
        ),
        (
            NetworkManager,
            bridge(linux, json!({}), port(json!({"routes": route}))),
            vec![(on_port, "what a member carries")],
            "",
        ),
        (
            NetworkManager,
            bridge(linux, json!({}), port(json!({"rules": [{"rule": "from 192.0.2.1 table 7 priority 7"}]}))),
            vec![(on_port, "what a member carries")],
            "",
        ),
        (
            NetworkManager,
            bridge(linux, json!({}), port(json!({"dns_servers": ["192.0.2.53"]}))),
            vec![(on_port, "what a member carries")],
            "",
        ),
        (
            NetworkManager,
            bridge(linux, json!({}), port(json!({"domain": "example.org"}))),
            vec![(on_port, "what a member carries")],
            "",
        ),
        (
            NetworkManager,
            port(json!({"routes": route})),
            vec![(on_bridge, "routes, rules or name servers of IPv4 without an address of IPv4")],
            "",
        ),
        (
            NetworkManager,
            port(
                json!({"addresses": address(7), "rules": [{"rule": "from 192.0.2.1 blackhole priority 7"}]}),
            ),
            vec![(on_bridge, "a rule that names no table")],
            "",
        ),
        (NetworkManager, tuned.clone(), vec![(on_bridge, told)], ""),
        (Networkd, tuned.clone(), vec![(on_bridge, told)], ""),
        (Ifupdown, tuned, vec![(on_bridge, told)], ""),
        (Networkd, bridge(switch, json!({"addresses": address(7)}), bare()), vec![], ""),
        (
            Ifupdown,
            port(json!({"use_dhcp": true})),
            vec![(on_bridge, "an interface that leases its addresses")],
            "eth2",
        ),
        (Networkd, loopback.clone(), vec![], ""),
        (NetworkManager, loopback.clone(), vec![(on_bridge, "the loopback interface")], "lo"),
        (Ifupdown, loopback, vec![(on_bridge, "the loopback interface")], "lo"),
    ] {
        let other = json!({"type": "interface", "name": "eth9", "use_dhcp": false, "addresses": address(9)});
        let document = NetworkDocument::parse(&json!([other, object])).unwrap();
        let exported = format.export(&document);
        let is: Vec<(&str, &str)> =
            exported.missing.iter().map(|missing| (missing.path.as_str(), missing.what.as_str())).collect();
        assert_eq!(is, missing, "{format:?}: {object}");
        let names = |links: &[LinkName]| links.iter().map(LinkName::as_str).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&exported.unwritten), unwritten, "{format:?}: {object}");
        let all: String = exported.files.iter().map(|(path, text)| format!("{path}\n{text}")).collect();
        assert!(all.contains("eth9") && all.contains("192.0.2.9/24"), "{format:?}: {all}");
        for link in document.link_names() {
            let is_unwritten = exported.unwritten.contains(link);
            assert_eq!(all.contains(link.as_str()), !is_unwritten, "{format:?}: {link}: {all}");
            assert_eq!(exported.written.contains(link), !is_unwritten, "{format:?}: {link}");
        }
    }
}
