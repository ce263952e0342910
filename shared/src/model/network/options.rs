//! What os-net-config 18 knows by name, and what of it changes nothing here.

use serde_json::Value;

use super::NetworkError;
use super::value::boolean;

/// The object types of this version.
pub(super) const SUPPORTED_TYPES: [&str; 4] = ["interface", "linux_bridge", "ovs_bridge", "vlan"];

/// Object types of os-net-config that are refused by name.
pub(super) const REFUSED_TYPES: [&str; 24] = [
    "contrail_vrouter",
    "contrail_vrouter_dpdk",
    "dcb",
    "ib_child_interface",
    "ib_interface",
    "ivs_bridge",
    "ivs_interface",
    "linux_bond",
    "linux_tap",
    "linux_team",
    "nfvswitch_bridge",
    "nfvswitch_internal",
    "ovs_bond",
    "ovs_dpdk_bond",
    "ovs_dpdk_port",
    "ovs_patch_port",
    "ovs_tunnel",
    "ovs_user_bridge",
    "route_table",
    "sriov_pf",
    "sriov_vf",
    "team",
    "vpp_bond",
    "vpp_interface",
];

/// Sections of an os-net-config file besides `network_config` and `fallback_config`.
pub(super) const REFUSED_SECTIONS: [&str; 2] = ["minimum_config", "remove_config"];

/// Options of every object.
pub(super) const COMMON: [&str; 15] = [
    "type",
    "addresses",
    "defroute",
    "dhclient_args",
    "dns_servers",
    "domain",
    "mtu",
    "nic_mapping",
    "nm_controlled",
    "onboot",
    "persist_mapping",
    "routes",
    "rules",
    "use_dhcp",
    "use_dhcpv6",
];

/// Options of one object type, besides the common ones.
pub(super) fn options_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "interface" => &["name", "primary", "ethtool_opts", "hotplug", "linkdelay", "dcb", "ovs_extra"],
        "linux_bridge" => &["name", "members"],
        "ovs_bridge" => &["name", "members", "ovs_options", "ovs_extra", "ovs_fail_mode"],
        "vlan" => &["vlan_id", "device", "primary", "ovs_options", "ovs_extra"],
        _ => &[],
    }
}

/// Options of any object type of os-net-config: one that stands at the wrong type is refused by name too.
pub(super) const ELSEWHERE: [&str; 28] = [
    "bond_mode",
    "bond_policy",
    "bonding_options",
    "bridge_name",
    "cpu_list",
    "dcb",
    "driver",
    "drivers_autoprobe",
    "ethtool_opts",
    "hotplug",
    "linkdelay",
    "macaddr",
    "name",
    "numvfs",
    "options",
    "ovs_extra",
    "ovs_fail_mode",
    "ovs_internal",
    "ovs_options",
    "parent",
    "peer",
    "pkey_id",
    "promisc",
    "rx_queue",
    "rx_queue_size",
    "tunnel_type",
    "uio_driver",
    "vfid",
];

/// Lets an option pass whose value changes nothing, and refuses it by name otherwise.
pub(super) fn inert(path: &str, option: &str, value: &Value) -> Result<(), NetworkError> {
    let only = |wanted: bool, hint: &str| match boolean(path, value)? == wanted {
        true => Ok(()),
        false => Err(NetworkError::unsupported(path, format!("'{option}: {}'", !wanted), hint)),
    };
    match option {
        "use_dhcp" | "use_dhcpv6" => only(false, "list the addresses under 'addresses'"),
        "nm_controlled" | "hotplug" | "persist_mapping" => only(false, "leave it out"),
        "onboot" => only(true, "leave it out"),
        // It decides about routes of DHCP alone.
        "defroute" => boolean(path, value).map(|_| ()),
        "nic_mapping" if value.is_null() => Ok(()),
        "nic_mapping" => Err(NetworkError::unsupported(path, option, "give the mapping beside the document")),
        "ovs_fail_mode" if value == "standalone" => Ok(()),
        "ovs_extra" if is_empty(value) => Ok(()),
        _ => Err(NetworkError::unsupported(path, option, "leave it out")),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
