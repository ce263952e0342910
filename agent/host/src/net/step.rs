//! The exact steps of a plan. Each may be repeated: a step that is already done changes nothing.

use std::collections::BTreeMap;
use std::fmt;

use muster_shared::model::network::{BondOptions, OvsPlace, Rule};
use serde_json::Value;

use super::dhcp::ClientSettings;
use super::resolver::ResolverFile;
use super::state::{Address, OvsBridge, OvsPort, Route};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    CreateLinuxBridge {
        link: String,
    },
    CreateVlan {
        link: String,
        device: String,
        id: u16,
    },
    /// A bond, without members.
    CreateBond {
        link: String,
        options: BondOptions,
        mac: Option<String>,
    },
    /// Options of a bond that may have members.
    SetBond {
        link: String,
        options: BondOptions,
    },
    /// Sets the member that a bond prefers; `None` for no preference.
    SetPrimary {
        link: String,
        primary: Option<String>,
    },
    /// A tap device that stays.
    CreateTap {
        link: String,
    },
    /// Deletes a software link that Muster made, or that the document removes.
    DeleteLink {
        link: String,
    },
    /// A bridge of Open vSwitch with its local port and no other.
    CreateOvsBridge {
        bridge: String,
        row: Box<OvsBridge>,
    },
    /// A bridge of Open vSwitch that carries Muster's mark.
    DeleteOvsBridge {
        bridge: String,
    },
    /// A port with its interfaces.
    AddOvsPort {
        bridge: String,
        port: String,
        row: Box<OvsPort>,
    },
    /// Removes the port from the bridge; an internal port ceases to exist.
    RemoveOvsPort {
        bridge: String,
        port: String,
    },
    /// The port's VLAN.
    SetOvsTag {
        port: String,
        tag: Option<u16>,
    },
    /// `other_config:hwaddr`
    SetOvsHwaddr {
        bridge: String,
        hwaddr: Option<String>,
    },
    /// `mtu_request`
    SetOvsMtu {
        interface: String,
        mtu: Option<u32>,
    },
    /// A setting; nothing: the default.
    SetOvs {
        place: OvsPlace,
        value: Option<Value>,
    },
    /// Waits until the switch has taken up all that was asked of its database.
    SyncOvs,
    /// Puts the link into a Linux bridge, or takes it out.
    SetMaster {
        link: String,
        master: Option<String>,
    },
    /// Sets the MTU in bytes.
    SetMtu {
        link: String,
        mtu: u32,
    },
    /// The MAC address of a Linux bridge.
    SetMac {
        link: String,
        mac: String,
    },
    /// Administratively up or down.
    SetUp {
        link: String,
        up: bool,
    },
    /// Adds an address to a link. `moved`: the address is this host's already, so duplicate address detection
    /// is skipped.
    AddAddress {
        link: String,
        address: Address,
        moved: bool,
    },
    /// Makes an existing IPv4 address permanent.
    KeepAddress {
        link: String,
        address: Address,
    },
    RemoveAddress {
        link: String,
        address: Address,
    },
    AddRoute {
        link: String,
        route: Route,
    },
    /// Replaces `old`, which has the same key, at once.
    ReplaceRoute {
        link: String,
        route: Box<Route>,
        old_link: String,
        old: Box<Route>,
    },
    RemoveRoute {
        link: String,
        route: Route,
    },
    /// `protocol`: the recorded origin, an `RTPROT_` number.
    AddRule {
        rule: Box<Rule>,
        protocol: u8,
    },
    RemoveRule {
        rule: Box<Rule>,
        protocol: u8,
    },
    /// Gives a routing table a name, or takes it away.
    SetTable {
        name: String,
        id: Option<u32>,
    },
    /// A file of the resolver; without content it goes.
    SetResolver {
        file: ResolverFile,
        content: Option<String>,
        mode: u32,
    },
    /// systemd-resolved reads its settings again.
    ReloadResolved,
    /// Sets ethtool settings, by name.
    SetEthtool {
        link: String,
        settings: BTreeMap<String, u32>,
    },
    /// A client leases addresses for the link.
    StartDhcp {
        link: String,
        told: Box<ClientSettings>,
    },
    /// Stops the link's DHCP client; leased addresses stay.
    StopDhcp {
        link: String,
    },
}

impl Step {
    /// Done in the database of Open vSwitch, and only real once the switch has taken it up.
    pub(super) fn is_ovs(&self) -> bool {
        matches!(
            self,
            Self::CreateOvsBridge { .. }
                | Self::DeleteOvsBridge { .. }
                | Self::AddOvsPort { .. }
                | Self::RemoveOvsPort { .. }
                | Self::SetOvsTag { .. }
                | Self::SetOvsHwaddr { .. }
                | Self::SetOvsMtu { .. }
                | Self::SetOvs { .. }
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateLinuxBridge { link } => write!(f, "create the Linux bridge {link}"),
            Self::CreateVlan { link, device, id } => write!(f, "create {link}: VLAN {id} on {device}"),
            Self::CreateBond { link, options, mac } => {
                write!(f, "create the bond {link}")?;
                mac.iter().try_for_each(|mac| write!(f, " with the MAC address {mac}"))?;
                let options = options.describe();
                if options.is_empty() { Ok(()) } else { write!(f, ": {options}") }
            }
            Self::SetBond { link, options } => write!(f, "set {} of {link}", options.describe()),
            Self::SetPrimary { link, primary: Some(primary) } => write!(f, "let {link} prefer {primary}"),
            Self::SetPrimary { link, primary: None } => write!(f, "let {link} prefer no member"),
            Self::CreateTap { link } => write!(f, "create the tap device {link}"),
            Self::DeleteLink { link } => write!(f, "delete {link}"),
            Self::CreateOvsBridge { bridge, row } => {
                write!(f, "create the Open vSwitch bridge {bridge}")?;
                if !row.datapath_type.is_empty() {
                    write!(f, " (datapath {})", row.datapath_type)?;
                }
                row.hwaddr.iter().try_for_each(|mac| write!(f, " with the MAC address {mac}"))
            }
            Self::DeleteOvsBridge { bridge } => write!(f, "delete the Open vSwitch bridge {bridge}"),
            Self::AddOvsPort { bridge, port, row } => {
                let kind = match row.interfaces.len() {
                    1 if row.is_internal() => "internal port",
                    0 | 1 => "port",
                    _ => "bond",
                };
                write!(f, "add the {kind} {port} to {bridge}")?;
                if row.interfaces.len() > 1 {
                    write!(f, " with {}", row.interfaces.keys().cloned().collect::<Vec<_>>().join(" and "))?;
                }
                row.tag.iter().try_for_each(|tag| write!(f, " in VLAN {tag}"))
            }
            Self::RemoveOvsPort { bridge, port } => write!(f, "take the port {port} out of {bridge}"),
            Self::SetOvsTag { port, tag: Some(tag) } => write!(f, "put the port {port} into VLAN {tag}"),
            Self::SetOvsTag { port, tag: None } => write!(f, "take the port {port} out of its VLAN"),
            Self::SetOvsHwaddr { bridge, hwaddr: Some(mac) } => {
                write!(f, "give {bridge} the MAC address {mac}")
            }
            Self::SetOvsHwaddr { bridge, hwaddr: None } => write!(f, "let {bridge} choose its MAC address"),
            Self::SetOvsMtu { interface, mtu: Some(mtu) } => {
                write!(f, "ask for an MTU of {mtu} on {interface}")
            }
            Self::SetOvsMtu { interface, mtu: None } => {
                write!(f, "let Open vSwitch choose the MTU of {interface}")
            }
            Self::SetOvs { place, value: Some(value) } => write!(f, "set {place} to {}", plain(value)),
            Self::SetOvs { place, value: None } => write!(f, "unset {place}"),
            Self::SyncOvs => write!(f, "wait for Open vSwitch"),
            Self::SetMaster { link, master: Some(master) } => {
                write!(f, "put {link} into {master}")
            }
            Self::SetMaster { link, master: None } => write!(f, "take {link} out of what it belongs to"),
            Self::SetMtu { link, mtu } => write!(f, "set the MTU of {link} to {mtu}"),
            Self::SetMac { link, mac } => write!(f, "give {link} the MAC address {mac}"),
            Self::SetUp { link, up: true } => write!(f, "set {link} up"),
            Self::SetUp { link, up: false } => write!(f, "set {link} down"),
            Self::AddAddress { link, address, .. } => write!(f, "add the address {address} to {link}"),
            Self::KeepAddress { link, address } => {
                write!(f, "keep the address {address} on {link} beyond its lifetime")
            }
            Self::RemoveAddress { link, address } => write!(f, "remove the address {address} from {link}"),
            Self::AddRoute { link, route } => write!(f, "add the route {route} dev {link}"),
            Self::ReplaceRoute { link, route, old_link, old } => {
                write!(f, "replace the route {old} dev {old_link} by {route} dev {link}")
            }
            Self::RemoveRoute { link, route } => write!(f, "remove the route {route} dev {link}"),
            Self::AddRule { rule, .. } => write!(f, "add the rule {rule}"),
            Self::RemoveRule { rule, .. } => write!(f, "remove the rule {rule}"),
            Self::SetTable { name, id: Some(id) } => write!(f, "name the routing table {id} {name}"),
            Self::SetTable { name, id: None } => write!(f, "take the name {name} from its routing table"),
            Self::SetResolver { file, content, .. } => {
                let name = match file {
                    ResolverFile::ResolvConf => "resolv.conf",
                    ResolverFile::DropIn => "the drop-in for systemd-resolved",
                };
                let Some(content) = content else { return write!(f, "remove {name}") };
                let settings = content.lines().filter(|line| !line.starts_with(['#', ';', '[']));
                let settings: Vec<&str> = settings.filter(|line| !line.is_empty()).collect();
                write!(f, "write {name}: {}", settings.join(", "))
            }
            Self::ReloadResolved => f.write_str("let systemd-resolved read its settings again"),
            Self::StartDhcp { link, told } => {
                let families = match (told.v4, told.v6) {
                    (true, true) => "IPv4 and IPv6",
                    (true, false) => "IPv4",
                    (false, _) => "IPv6",
                };
                write!(f, "let {} lease {families} for {link}", told.client.name())?;
                if told.v4 && !told.default_route {
                    f.write_str(" without the default route")
                } else {
                    Ok(())
                }
            }
            Self::SetEthtool { link, settings } => {
                let settings: Vec<String> =
                    settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
                write!(f, "set {} of {link}", settings.join(", "))
            }
            Self::StopDhcp { link } => write!(f, "end the DHCP client of {link}"),
        }
    }
}

/// A value of the database without its quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
