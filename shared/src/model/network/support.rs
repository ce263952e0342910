//! The supported parts of os-net-config's schema; other parts are refused by name, with a reason.
//!
//! Absent: types and options that are not in the schema (`network/schema.rs`).

use serde_json::Value;

use super::schema;
use super::value::boolean;
use super::{NetworkDocument, NetworkError};

/// The treatment of an object type or an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The option is applied, and read back.
    Applied,
    /// Taken with any value, and changes nothing; why.
    Inert(&'static str),
    /// Accepted only with this value, which changes nothing; the second text is an alternative.
    Only(&'static str, &'static str),
    /// Refused by name, for this reason.
    Refused(&'static str),
}

use Support::{Applied, Inert, Only, Refused};

/// The support of an object type. `remove_net_device` has no type but is treated as one.
pub fn of_type(kind: &str) -> Support {
    match kind {
        "sriov_pf" | "sriov_vf" => Refused("SR-IOV needs hardware that this version does not set up"),
        "ovs_user_bridge" | "ovs_dpdk_bond" | "ovs_dpdk_port" => {
            Refused("DPDK takes NICs away from the kernel, which this version does not do")
        }
        "vpp_interface" | "vpp_bond" => Refused("VPP is not driven by this version"),
        "contrail_vrouter" | "contrail_vrouter_dpdk" => {
            Refused("Contrail's vRouter is not driven by this version")
        }
        "ivs_bridge" | "ivs_interface" => Refused("the Indigo virtual switch is not driven by this version"),
        "nfvswitch_bridge" | "nfvswitch_internal" => Refused("NFVSwitch is not driven by this version"),
        "ib_interface" | "ib_child_interface" => Refused("InfiniBand is not set up by this version"),
        "dcb" => Refused("data center bridging needs hardware that this version does not set up"),
        _ => Applied,
    }
}

/// The support of an option of a type that is [`Support::Applied`].
pub fn of_option(kind: &str, option: &str) -> Support {
    match option {
        "addresses" | "routes" if has_no_link(kind) => {
            Refused("it has no interface of the kernel; give them to the bridge or to a VLAN in it")
        }
        "mtu" if matches!(kind, "ovs_patch_port" | "ovs_tunnel") => {
            Refused("it has no interface of the kernel; leave it out")
        }
        "use_dhcp" | "use_dhcpv6" | "defroute" | "dhclient_args" if has_no_link(kind) => {
            Inert("it has no interface of the kernel: its bridge leases, or does not")
        }
        "nm_controlled" => Only("false", "leave it out: what a document names is Muster's"),
        "persist_mapping" => Only("false", "leave it out: interfaces keep their names"),
        "onboot" => {
            Inert("what a document names is so at all times, after a boot too; leave the interface out")
        }
        "hotplug" => Inert("an interface that comes back is seen as it comes"),
        "nic_mapping" => Only("null", "give the mapping beside the document"),
        "primary" if kind != "interface" => Only("false", "name an interface as the primary member"),
        "dcb" => Refused("data center bridging needs hardware that this version does not set up"),
        "ethtool_opts" if kind != "interface" => Refused("say it at the bond's interfaces"),
        "linkdelay" => Inert("the way to the controller is tried until confirm_timeout is over"),
        _ => Applied,
    }
}

/// Objects of this type exist only in Open vSwitch.
pub(super) fn has_no_link(kind: &str) -> bool {
    matches!(kind, "ovs_bond" | "ovs_patch_port" | "ovs_tunnel")
}

impl NetworkDocument {
    /// The 28 object types with their options, as in documents, for listings.
    pub fn types() -> Vec<(&'static str, Vec<&'static str>)> {
        let of = |kind: &'static schema::Type| (kind.name, kind.options().map(|(name, _)| name).collect());
        let mut all: Vec<_> = schema::types().map(of).collect();
        all.push(("remove_net_device", vec!["remove_name", "remove_type"]));
        all
    }
}

/// Accepts an option that is supported or changes nothing, and refuses any other by name.
pub(super) fn check_option(path: &str, kind: &str, option: &str, value: &Value) -> Result<(), NetworkError> {
    match of_option(kind, option) {
        Applied | Inert(_) => Ok(()),
        Refused(_) if is_empty(value) => Ok(()),
        Refused(why) => Err(NetworkError::unsupported(path, format!("'{option}' of type '{kind}'"), why)),
        Only(wanted @ ("true" | "false"), hint) => match boolean(path, value)? == (wanted == "true") {
            true => Ok(()),
            false => {
                let other = if wanted == "true" { "false" } else { "true" };
                Err(NetworkError::unsupported(path, format!("'{option}: {other}'"), hint))
            }
        },
        Only(_, _) if is_empty(value) => Ok(()),
        Only(_, hint) => Err(NetworkError::unsupported(path, option, hint)),
    }
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}
