//! The object types of a network document, and which options each of them has.

use super::Kind;
use Kind::{Bool, Int, IntOrText, Members, OneOf, OvsExtra, OvsOptionList, OvsOptions, PlainText, Text};

#[derive(Debug)]
pub(in super::super) struct Type {
    /// The name in documents.
    pub name: &'static str,
    options: &'static [(&'static str, Kind)],
    /// Required options other than `type`.
    pub required: &'static [&'static str],
    common: Common,
    /// The schema accepts unknown options for this type.
    pub open: bool,
}

/// Options that nearly all types have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Common {
    None,
    /// The common options without `onboot` and `domain`.
    Less,
    All,
}

const LESS: [(&str, Kind); 13] = [
    ("addresses", Kind::Addresses),
    ("defroute", Bool),
    ("dhclient_args", Text),
    ("dns_servers", Kind::Servers),
    ("mtu", Int),
    ("nic_mapping", Kind::Mapping),
    ("nm_controlled", Bool),
    ("persist_mapping", Bool),
    ("routes", Kind::Routes),
    ("rules", Kind::Rules),
    ("use_dhcp", Bool),
    ("use_dhcpv6", Bool),
    // Options of every type except those without common options.
    ("name", Text),
];
const MORE: [(&str, Kind); 2] = [("domain", Kind::Domains), ("onboot", Bool)];

/// `remove_type` of a `remove_net_device`.
pub(in super::super) const REMOVED_TYPES: [&str; 13] = [
    "interface",
    "sriov_pf",
    "sriov_vf",
    "vlan",
    "ovs_bridge",
    "ovs_user_bridge",
    "ovs_bond",
    "ovs_patch_port",
    "ovs_tunnel",
    "ovs_dpdk_bond",
    "ovs_dpdk_port",
    "linux_bridge",
    "linux_bond",
];

const ANY: usize = usize::MAX;
const QUEUES: [(&str, Kind); 3] = [("rx_queue", Int), ("rx_queue_size", Int), ("tx_queue_size", Int)];

const fn of(
    name: &'static str,
    required: &'static [&'static str],
    options: &'static [(&'static str, Kind)],
) -> Type {
    Type { name, options, required, common: Common::All, open: false }
}

const fn less(mut kind: Type) -> Type {
    kind.common = Common::Less;
    kind
}

const fn alone(mut kind: Type, open: bool) -> Type {
    kind.common = Common::None;
    kind.open = open;
    kind
}

/// Types that have no `name`.
const NAMELESS: [&str; 6] =
    ["vlan", "sriov_vf", "ivs_bridge", "nfvswitch_bridge", "ib_child_interface", "dcb"];

static TYPES: [Type; 27] = [
    of(
        "interface",
        &["name"],
        &[
            ("primary", Bool),
            ("ethtool_opts", Text),
            ("hotplug", Bool),
            ("linkdelay", Int),
            ("dcb", Kind::Dcb),
            ("ovs_extra", OvsExtra),
        ],
    ),
    of(
        "vlan",
        &["vlan_id"],
        &[
            ("vlan_id", Int),
            ("device", Text),
            ("primary", Bool),
            ("ovs_options", OvsOptions),
            ("ovs_extra", OvsExtra),
        ],
    ),
    of(
        "ovs_bridge",
        &["name"],
        &[
            (
                "members",
                Members(
                    &[
                        "interface",
                        "vlan",
                        "linux_bond",
                        "team",
                        "ovs_bond",
                        "ovs_tunnel",
                        "ovs_patch_port",
                        "sriov_vf",
                        "sriov_pf",
                    ],
                    0,
                    ANY,
                    false,
                ),
            ),
            ("ovs_options", OvsOptions),
            ("ovs_extra", OvsExtra),
            ("ovs_fail_mode", OneOf(&["standalone", "secure"])),
        ],
    ),
    of(
        "ovs_bond",
        &["name", "members"],
        &[
            ("members", Members(&["interface", "sriov_vf", "sriov_pf"], 1, ANY, false)),
            ("ovs_options", OvsOptions),
            ("ovs_extra", OvsExtra),
        ],
    ),
    of(
        "ovs_patch_port",
        &["name", "bridge_name", "peer"],
        &[
            ("bridge_name", Text),
            ("peer", Text),
            ("primary", Bool),
            ("ovs_options", OvsOptionList),
            ("ovs_extra", OvsExtra),
        ],
    ),
    of(
        "ovs_tunnel",
        &["name", "tunnel_type"],
        &[
            ("tunnel_type", OneOf(&["vxlan", "gre"])),
            ("primary", Bool),
            ("ovs_options", OvsOptionList),
            ("ovs_extra", OvsExtra),
        ],
    ),
    of(
        "linux_bridge",
        &["name", "members"],
        &[("members", Members(&["interface", "vlan", "linux_bond"], 0, ANY, false))],
    ),
    of(
        "linux_bond",
        &["name", "members"],
        &[
            ("members", Members(&["interface", "sriov_vf", "sriov_pf"], 0, ANY, false)),
            ("bonding_options", PlainText),
            ("ovs_extra", OvsExtra),
            ("ethtool_opts", Text),
        ],
    ),
    of(
        "team",
        &["name", "members"],
        &[("members", Members(&["interface", "vlan"], 0, ANY, false)), ("bonding_options", PlainText)],
    ),
    less(of("linux_tap", &["name"], &[])),
    alone(of("route_table", &["name", "table_id"], &[("name", Text), ("table_id", IntOrText)]), false),
    of(
        "sriov_pf",
        &["name", "numvfs"],
        &[
            ("primary", Bool),
            ("numvfs", Int),
            ("drivers_autoprobe", Bool),
            ("promisc", Bool),
            ("hotplug", Bool),
            ("ethtool_opts", Text),
            ("link_mode", OneOf(&["legacy", "switchdev"])),
            ("vdpa", Bool),
            ("vdpa_queues", Int),
            ("steering_mode", OneOf(&["smfs", "dmfs"])),
            ("dcb", Kind::Dcb),
        ],
    ),
    of(
        "sriov_vf",
        &["device", "vfid"],
        &[
            ("primary", Bool),
            ("device", Text),
            ("vfid", Int),
            ("vlan_id", Int),
            ("qos", Int),
            ("min_tx_rate", Int),
            ("max_tx_rate", Int),
            ("hotplug", Bool),
            ("spoofcheck", Bool),
            ("trust", Bool),
            ("promisc", Bool),
            ("macaddr", Kind::Mac),
            ("state", Kind::VfState),
            ("ethtool_opts", Text),
            ("ovs_extra", OvsExtra),
        ],
    ),
    of(
        "ovs_user_bridge",
        &["name", "members"],
        &[
            (
                "members",
                Members(
                    &["interface", "vlan", "ovs_patch_port", "ovs_tunnel", "ovs_dpdk_bond", "ovs_dpdk_port"],
                    0,
                    ANY,
                    false,
                ),
            ),
            ("ovs_options", OvsOptions),
            ("ovs_extra", OvsExtra),
            ("ovs_fail_mode", OneOf(&["standalone", "secure"])),
            ("ovs_internal", Bool),
        ],
    ),
    of(
        "ovs_dpdk_bond",
        &["name", "members"],
        &[
            ("members", Members(&["ovs_dpdk_port"], 2, ANY, true)),
            ("ovs_options", OvsOptions),
            ("ovs_extra", OvsExtra),
            QUEUES[0],
            QUEUES[1],
            QUEUES[2],
            ("dcb", Kind::Dcb),
        ],
    ),
    of(
        "ovs_dpdk_port",
        &["name", "members"],
        &[
            ("driver", Text),
            ("members", Members(&["interface", "sriov_vf"], 1, 1, false)),
            ("primary", Bool),
            ("ovs_options", OvsOptions),
            ("ovs_extra", OvsExtra),
            QUEUES[0],
            QUEUES[1],
            QUEUES[2],
        ],
    ),
    of("vpp_interface", &["name"], &[("uio_driver", Text), ("options", Text)]),
    of(
        "vpp_bond",
        &["name"],
        &[
            ("uio_driver", Text),
            ("options", Text),
            ("members", Members(&["vpp_interface"], 0, ANY, false)),
            ("bonding_options", Text),
        ],
    ),
    less(of(
        "contrail_vrouter",
        &["name", "members"],
        &[("members", Members(&["interface", "vlan", "linux_bond"], 1, ANY, false))],
    )),
    less(of(
        "contrail_vrouter_dpdk",
        &["name", "members"],
        &[
            ("members", Members(&["interface"], 1, ANY, true)),
            ("bond_mode", IntOrText),
            ("bond_policy", IntOrText),
            ("driver", Text),
            ("cpu_list", Text),
            ("vlan_id", IntOrText),
        ],
    )),
    of("ivs_bridge", &["members"], &[("members", Members(&["interface", "ivs_interface"], 0, ANY, false))]),
    of("ivs_interface", &["vlan_id"], &[("vlan_id", Int), ("primary", Bool)]),
    of(
        "nfvswitch_bridge",
        &["options", "members"],
        &[
            ("members", Members(&["interface", "vlan", "nfvswitch_internal"], 0, ANY, false)),
            ("options", Text),
        ],
    ),
    of("nfvswitch_internal", &["vlan_id"], &[("vlan_id", Int), ("primary", Bool)]),
    of("ib_interface", &["name"], &[("primary", Bool), ("ethtool_opts", Text)]),
    of(
        "ib_child_interface",
        &["parent", "pkey_id"],
        &[("parent", Text), ("pkey_id", Int), ("primary", Bool)],
    ),
    alone(of("dcb", &["device", "dscp2prio"], &[("device", Text), ("dscp2prio", Kind::Dscp2prio)]), true),
];

/// The types; `remove_net_device`, which has no type, is the 28th.
pub(in super::super) fn types() -> impl Iterator<Item = &'static Type> {
    TYPES.iter()
}

pub(in super::super) fn find(name: &str) -> Option<&'static Type> {
    types().find(|kind| kind.name == name)
}

impl Type {
    /// The options except `type`, the type's own first.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        let named = !NAMELESS.contains(&self.name);
        let (less, more) = (self.common != Common::None, self.common == Common::All);
        let common = LESS.into_iter().filter(move |(name, _)| less && (named || *name != "name"));
        self.options.iter().copied().chain(common).chain(MORE.into_iter().filter(move |_| more))
    }

    pub fn option(&self, name: &str) -> Option<Kind> {
        self.options().find(|(option, _)| *option == name).map(|(_, kind)| kind)
    }

    pub fn option_names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once("type").chain(self.options().map(|(name, _)| name))
    }

    /// An empty list of members is taken.
    pub fn takes_no_members(&self) -> bool {
        matches!(self.option("members"), Some(Members(_, 0, ..)))
    }
}
