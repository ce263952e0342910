//! The object types of a network document and their options, described in a line each, for editors. Types and options
//! that Muster refuses have none.
//!
//! Absent: why an option changes nothing, or is refused (`model/network/support.rs`).

/// A section of a document.
pub(super) fn of_section(name: &str) -> &'static str {
    match name {
        "network_config" => "what the server's network shall be",
        "fallback_config" => {
            "for where neither network_config nor what was before can be had: at most two objects"
        }
        "minimum_config" => "what fallback_config is where there is none",
        "remove_config" => "interfaces, bridges and ports that shall go",
        _ => "",
    }
}

/// An object type.
pub(super) fn of_type(name: &str) -> &'static str {
    match name {
        "interface" => "an interface that the server has",
        "vlan" => "a VLAN on a device; in an ovs_bridge an internal port with that tag",
        "ovs_bridge" => "a bridge of Open vSwitch",
        "ovs_bond" => "a port of an ovs_bridge with several interfaces",
        "ovs_patch_port" => "a port of an ovs_bridge that leads to another one",
        "ovs_tunnel" => "a port of an ovs_bridge that is a tunnel to another host",
        "linux_bridge" => "a bridge of the kernel",
        "linux_bond" => "a bond of the kernel",
        "team" => "a team of interfaces, which is made as a bond of the kernel",
        "linux_tap" => "a tap device",
        "route_table" => "a name for a routing table",
        _ => "",
    }
}

/// An option of an object type, of a route, of a rule, of an address, or of what is removed.
pub(super) fn of_option(kind: &str, option: &str) -> &'static str {
    match (kind, option) {
        ("ovs_patch_port" | "ovs_tunnel", "ovs_options") => "options of the interface, each key=value",
        ("linux_bond" | "team" | "ovs_bond", "members") => "the interfaces that are one here",
        ("route_table", "name") => "the name that routes and rules use",
        ("vlan", "device") => "the interface that carries it",
        ("interface", "name") => "the interface: its name, nicN, or an alias of the mapping",
        _ => of_any(option),
    }
}

fn of_any(option: &str) -> &'static str {
    match option {
        "addresses" => "its addresses",
        "bonding_options" => "the bond's options: key=value, with blanks between",
        "bridge_name" => "the bridge that the port belongs to",
        "comment" => "a text for people",
        "default" => "the route is the default route",
        "defroute" => "whether a lease brings the default route",
        "destination" | "ip_netmask" => "an address with the length of its prefix, such as 192.0.2.0/24",
        "dhclient_args" => "options for dhclient",
        "dns_servers" => "the server's name servers, three at most in all",
        "domain" => "the server's search domains",
        "ethtool_opts" => "settings of the card, as ethtool takes them: -G ${DEVICE} rx 1024",
        "hotplug" => "the interface may come and go",
        "linkdelay" => "seconds until the interface can be used",
        "members" => "what is connected to it",
        "metric" => "of routes to one destination the least counts",
        "mtu" => "bytes; without it the MTU stays as it is",
        "name" => "its name",
        "next_hop" | "nexthop" => "the gateway's address",
        "nic_mapping" => "aliases of interfaces",
        "nm_controlled" => "NetworkManager has it",
        "onboot" => "it is there after a boot",
        "ovs_extra" => "settings in Open vSwitch: set, add, br-set-external-id; several with ' -- ' between",
        "ovs_fail_mode" => "without a controller: standalone forwards as NORMAL, secure by its rules alone",
        "ovs_options" => "columns of the bridge or port: column=value, column:key=value, with blanks between",
        "peer" => "the patch port at the other bridge",
        "persist_mapping" => "the interface is renamed to its alias",
        "primary" => "its bridge or bond takes its MAC address",
        "remove_name" => "what goes, by name",
        "remove_type" => "what that is",
        "route_options" => "options as in ip route: metric, table, src, onlink",
        "routes" => "routes over it",
        "rule" => "a policy rule, as in ip rule: from 192.0.2.0/24 table 100",
        "rules" => "policy rules that are there with it",
        "table" => "the routing table: its number, its name, or a route_table's",
        "table_id" => "the kernel's number of the table",
        "tunnel_type" => "how packets are wrapped",
        "type" => "what the object is",
        "use_dhcp" => "it leases an IPv4 address",
        "use_dhcpv6" => "it leases an IPv6 address",
        "vlan_id" => "1 to 4094",
        _ => "",
    }
}
