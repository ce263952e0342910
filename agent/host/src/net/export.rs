//! A network document in the format of systemd-networkd, NetworkManager or ifupdown: for a server
//! that Muster leaves, or that must come up without it.
//!
//! Pure. Settings that the format cannot express are left out and listed, so that the rest of the server
//! comes up. Open vSwitch restores its bridges and ports from its own database: only the links on top of them
//! are written.

mod network_manager;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_shared::model::network::{
    BondOptions, Dns, LinkName, MAIN_TABLE, NetworkDocument, Object, ObjectKind, Route, Rule, RuleAction,
};
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Networkd,
    /// NetworkManager, by keyfiles.
    NetworkManager,
    /// ifupdown, and ifupdown2.
    Ifupdown,
}

/// A file: its path below the root, and its content.
type File = (String, String);

/// A document in their words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Paths below the root, with the content of each file.
    pub files: Vec<(String, String)>,
    /// Settings that are in none of the files.
    pub missing: Vec<NotExportable>,
    /// Links that a file configures: managers need not leave them alone any more.
    pub written: Vec<LinkName>,
    /// Links of the document that no file configures.
    pub unwritten: Vec<LinkName>,
}

/// A setting that the format cannot express.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{path}: {what} cannot be written for {for_whom}")]
pub struct NotExportable {
    path: String,
    what: String,
    for_whom: &'static str,
}

const HEAD: &str = "# Written by 'muster-agent net export' from a network document.\n";
/// The kernel's tables of rules that ifupdown's commands are run for.
const FAMILIES: [(bool, &str); 2] = [(false, "inet"), (true, "inet6")];

impl Format {
    /// The files, with as much of the document as the format can express.
    pub fn export(self, document: &NetworkDocument) -> Exported {
        let above = UpperLinks::of(document);
        let mut missing = Vec::new();
        let (files, unwritten) = match self {
            Self::Networkd => (networkd(document, &above, &mut missing), Vec::new()),
            Self::NetworkManager => network_manager::keyfiles(document, &above, &mut missing),
            Self::Ifupdown => ifupdown(document, &above, &mut missing),
        };
        for object in document.all().filter(|object| !object.ethtool.is_empty()) {
            let words: Vec<&str> = object.ethtool.iter().map(|setting| setting.written.as_str()).collect();
            missing.push(self.lacks(object, &format!("ethtool_opts ({})", words.join(", "))));
        }
        let written = document.link_names().filter(|link| !unwritten.contains(link)).cloned().collect();
        Exported { files, missing, written, unwritten }
    }

    fn lacks(self, object: &Object, what: &str) -> NotExportable {
        let for_whom = match self {
            Self::Networkd => "systemd-networkd",
            Self::NetworkManager => "NetworkManager",
            Self::Ifupdown => "ifupdown",
        };
        NotExportable { path: object.path.clone(), what: what.to_owned(), for_whom }
    }
}

/// The links on top of each link.
#[derive(Default)]
struct UpperLinks<'a> {
    /// Member → its Linux bridge.
    bridge: BTreeMap<&'a LinkName, &'a LinkName>,
    /// Member → its bond, and whether the bond prefers this member.
    bond: BTreeMap<&'a LinkName, (&'a LinkName, bool)>,
    /// Members of Open vSwitch's bridges and bonds.
    switched: Vec<&'a LinkName>,
    /// 802.1Q links by what carries them.
    vlans: BTreeMap<&'a LinkName, Vec<&'a LinkName>>,
}

impl<'a> UpperLinks<'a> {
    fn of(document: &'a NetworkDocument) -> Self {
        let mut above = Self::default();
        for object in document.all() {
            match &object.kind {
                ObjectKind::LinuxBridge { members } => {
                    above.bridge.extend(members.iter().map(|member| (&member.name, &object.name)));
                }
                ObjectKind::OvsBridge { members } | ObjectKind::OvsBond { members } => {
                    above.switched.extend(members.iter().map(|member| &member.name))
                }
                ObjectKind::LinuxBond { members, options } => {
                    let is_primary = |member: &Object| options.primary.as_ref() == Some(&member.name);
                    let bond = |member: &'a Object| (&member.name, (&object.name, is_primary(member)));
                    above.bond.extend(members.iter().map(bond));
                }
                _ => {}
            }
        }
        for object in document.all() {
            if let ObjectKind::Vlan { device: Some(device), .. } = &object.kind
                && !above.switched.contains(&&object.name)
            {
                above.vlans.entry(device).or_default().push(&object.name);
            }
        }
        above
    }
}

fn networkd(
    document: &NetworkDocument,
    above: &UpperLinks<'_>,
    missing: &mut Vec<NotExportable>,
) -> Vec<File> {
    let mut files = Vec::new();
    for object in document.all().filter(|object| !object.is_port_only()) {
        let name = &object.name;
        let file = |suffix: &str| format!("etc/systemd/network/05-muster-{name}.{suffix}");
        let is_switched = above.switched.contains(&name);
        match &object.kind {
            ObjectKind::Interface { .. } | ObjectKind::OvsBridge { .. } => {}
            ObjectKind::LinuxBridge { .. } => {
                files.push((file("netdev"), format!("{HEAD}[NetDev]\nName={name}\nKind=bridge\n")));
            }
            ObjectKind::Vlan { .. } if is_switched => {}
            ObjectKind::LinuxTap => {
                files.push((file("netdev"), format!("{HEAD}[NetDev]\nName={name}\nKind=tap\n")));
            }
            ObjectKind::LinuxBond { options, .. } => {
                let mut text = format!("{HEAD}[NetDev]\nName={name}\nKind=bond\n\n[Bond]\n");
                for (option, value) in words(options) {
                    let known = BOND_WORDS.iter().find(|(known, ..)| *known == option);
                    let Some((_, key, unit)) = known else {
                        missing.push(Format::Networkd.lacks(object, &format!("the bonding option {option}")));
                        continue;
                    };
                    push(&mut text, format_args!("{key}={value}{unit}\n"));
                }
                files.push((file("netdev"), text));
            }
            ObjectKind::Vlan { id, .. } => {
                files.push((
                    file("netdev"),
                    format!("{HEAD}[NetDev]\nName={name}\nKind=vlan\n\n[VLAN]\nId={id}\n"),
                ));
            }
            ObjectKind::OvsBond { .. } | ObjectKind::OvsPatch { .. } | ObjectKind::OvsTunnel { .. } => {}
        }
        files.push((file("network"), network_file(object, above, document.dns.as_ref())));
    }
    files
}

/// A bonding option, systemd-networkd's name for it, and the unit of its number.
const BOND_WORDS: [(&str, &str, &str); 21] = [
    ("mode", "Mode", ""),
    ("miimon", "MIIMonitorSec", "ms"),
    ("updelay", "UpDelaySec", "ms"),
    ("downdelay", "DownDelaySec", "ms"),
    ("arp_interval", "ARPIntervalSec", "ms"),
    ("arp_validate", "ARPValidate", ""),
    ("arp_all_targets", "ARPAllTargets", ""),
    ("primary_reselect", "PrimaryReselectPolicy", ""),
    ("fail_over_mac", "FailOverMACPolicy", ""),
    ("xmit_hash_policy", "TransmitHashPolicy", ""),
    ("resend_igmp", "ResendIGMP", ""),
    ("num_grat_arp", "GratuitousARP", ""),
    ("all_slaves_active", "AllSlavesActive", ""),
    ("min_links", "MinLinks", ""),
    ("lp_interval", "LearnPacketIntervalSec", "s"),
    ("packets_per_slave", "PacketsPerSlave", ""),
    ("lacp_rate", "LACPTransmitRate", ""),
    ("ad_select", "AdSelect", ""),
    ("ad_actor_sys_prio", "AdActorSystemPriority", ""),
    ("ad_user_port_key", "AdUserPortKey", ""),
    ("tlb_dynamic_lb", "DynamicTransmitLoadBalancing", ""),
];

/// A bond's options in the kernel's words, without its primary member.
fn words(options: &BondOptions) -> Vec<(String, String)> {
    let said = options.describe();
    let pairs = said.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    let pairs = pairs.filter(|(option, _)| *option != "primary");
    pairs.map(|(option, value)| (option.to_owned(), value.to_owned())).collect()
}

fn network_file(object: &Object, above: &UpperLinks<'_>, dns: Option<&Dns>) -> String {
    let name = &object.name;
    let mut text = format!("{HEAD}[Match]\nName={name}\n");
    if let Some(mtu) = object.mtu {
        push(&mut text, format_args!("\n[Link]\nMTUBytes={mtu}\n"));
    }
    let (v4, v6) = object.dhcp.as_ref().map_or((false, false), |dhcp| (dhcp.v4, dhcp.v6));
    let dhcp = match (v4, v6) {
        (false, false) => "no",
        (true, true) => "yes",
        (true, false) => "ipv4",
        (false, true) => "ipv6",
    };
    push(&mut text, format_args!("\n[Network]\nDHCP={dhcp}\n"));
    let (bridge, is_port) = (above.bridge.get(name), above.switched.contains(&name));
    if let Some(bridge) = bridge {
        push(&mut text, format_args!("Bridge={bridge}\n"));
    }
    let bond = above.bond.get(name);
    if let Some((bond, is_primary)) = bond {
        push(&mut text, format_args!("Bond={bond}\n"));
        text.push_str(if *is_primary { "PrimarySlave=yes\n" } else { "" });
    }
    if object.addresses.is_empty() && (bridge.is_some() || bond.is_some() || is_port) {
        text.push_str("LinkLocalAddressing=no\n");
    }
    for vlan in above.vlans.get(name).into_iter().flatten() {
        push(&mut text, format_args!("VLAN={vlan}\n"));
    }
    if let Some(dns) = dns.filter(|_| !object.dns_servers.is_empty() || !object.domains.is_empty()) {
        dns.servers.iter().for_each(|server| push(&mut text, format_args!("DNS={server}\n")));
        if !dns.domains.is_empty() {
            push(&mut text, format_args!("Domains={}\n", dns.domains.join(" ")));
        }
    }
    for address in &object.addresses {
        push(&mut text, format_args!("\n[Address]\nAddress={address}\n"));
    }
    for Route { destination, next_hop, table, metric, source, onlink } in &object.routes {
        push(&mut text, format_args!("\n[Route]\nDestination={destination}\nGateway={next_hop}\n"));
        if *table != MAIN_TABLE {
            push(&mut text, format_args!("Table={table}\n"));
        }
        if let Some(metric) = metric {
            push(&mut text, format_args!("Metric={metric}\n"));
        }
        if let Some(source) = source {
            push(&mut text, format_args!("PreferredSource={source}\n"));
        }
        if *onlink {
            text.push_str("GatewayOnLink=yes\n");
        }
    }
    object.rules.iter().for_each(|rule| push_rule(&mut text, rule));
    if object.dhcp.as_ref().is_some_and(|dhcp| dhcp.v4 && !dhcp.default_route) {
        text.push_str("\n[DHCPv4]\nUseGateway=no\n");
    }
    text
}

fn push_rule(text: &mut String, rule: &Rule) {
    push(text, format_args!("\n[RoutingPolicyRule]\nPriority={}\n", rule.priority));
    let mut say = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            push(text, format_args!("{key}={value}\n"));
        }
    };
    say("Family", Some(if rule.v6 { "ipv6" } else { "ipv4" }.into()));
    say("InvertRule", rule.not.then(|| "yes".into()));
    say("From", rule.from.map(|net| net.to_string()));
    say("To", rule.to.map(|net| net.to_string()));
    say("IncomingInterface", rule.iif.as_ref().map(ToString::to_string));
    say("OutgoingInterface", rule.oif.as_ref().map(ToString::to_string));
    say("TypeOfService", (rule.tos != 0).then(|| rule.tos.to_string()));
    say("FirewallMark", rule.fwmark.map(|(mark, mask)| format!("{mark}/{mask}")));
    say("IPProtocol", rule.ipproto.map(|number| number.to_string()));
    let ports = |ports: Option<(u16, u16)>| ports.map(|(first, last)| format!("{first}-{last}"));
    say("SourcePort", ports(rule.sport));
    say("DestinationPort", ports(rule.dport));
    match rule.action {
        RuleAction::Table(table) => say("Table", Some(table.to_string())),
        RuleAction::Blackhole => say("Type", Some("blackhole".into())),
        RuleAction::Unreachable => say("Type", Some("unreachable".into())),
        RuleAction::Prohibit => say("Type", Some("prohibit".into())),
    }
}

/// The file, and the links that are not in it.
fn ifupdown(
    document: &NetworkDocument,
    above: &UpperLinks<'_>,
    missing: &mut Vec<NotExportable>,
) -> (Vec<File>, Vec<LinkName>) {
    let mut text = HEAD.to_owned();
    let mut unwritten = Vec::new();
    // Lower links come first.
    let mut objects: Vec<&Object> = document.all().filter(|object| !object.is_port_only()).collect();
    objects.sort_by_key(|object| match &object.kind {
        ObjectKind::Interface { .. } => 0,
        ObjectKind::LinuxBond { .. } | ObjectKind::LinuxTap => 1,
        ObjectKind::LinuxBridge { .. } | ObjectKind::OvsBridge { .. } => 2,
        _ => 3,
    });
    for object in objects {
        let name = &object.name;
        let mut first = String::new();
        if object.dhcp.is_some() {
            missing.push(Format::Ifupdown.lacks(object, "an interface that leases its addresses"));
            unwritten.push(name.clone());
            continue;
        }
        match &object.kind {
            ObjectKind::LinuxBridge { members } => {
                let ports: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
                let ports = if ports.is_empty() { "none".to_owned() } else { ports.join(" ") };
                push(&mut first, format_args!("    bridge_ports {ports}\n    bridge_fd 0\n"));
            }
            ObjectKind::Vlan { device: Some(device), id } if !above.switched.contains(&name) => {
                push(&mut first, format_args!("    vlan-raw-device {device}\n    vlan-id {id}\n"));
            }
            // These are ifenslave's words.
            ObjectKind::LinuxBond { members, options } => {
                let members: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
                let members = if members.is_empty() { "none".to_owned() } else { members.join(" ") };
                push(&mut first, format_args!("    bond-slaves {members}\n"));
                for (option, value) in words(options) {
                    push(&mut first, format_args!("    bond-{} {value}\n", option.replace('_', "-")));
                }
                options
                    .primary
                    .iter()
                    .for_each(|primary| push(&mut first, format_args!("    bond-primary {primary}\n")));
            }
            ObjectKind::LinuxTap => first.push_str("    pre-up ip tuntap add dev $IFACE mode tap || true\n"),
            ObjectKind::Interface { .. }
            | ObjectKind::OvsBridge { .. }
            | ObjectKind::Vlan { .. }
            | ObjectKind::OvsBond { .. }
            | ObjectKind::OvsPatch { .. }
            | ObjectKind::OvsTunnel { .. } => {}
        }
        stanzas(&mut text, object, &first);
    }
    (vec![("etc/network/interfaces.d/muster".into(), text)], unwritten)
}

/// Writes a stanza for each address; settings of the link itself are in the first, commands in the last.
fn stanzas(text: &mut String, object: &Object, first: &str) {
    let name = &object.name;
    push(text, format_args!("\nauto {name}\n"));
    let mut own = first.to_owned();
    if let Some(mtu) = object.mtu {
        push(&mut own, format_args!("    mtu {mtu}\n"));
    }
    if !object.dns_servers.is_empty() {
        let servers: Vec<String> = object.dns_servers.iter().map(ToString::to_string).collect();
        push(&mut own, format_args!("    dns-nameservers {}\n", servers.join(" ")));
    }
    if !object.domains.is_empty() {
        push(&mut own, format_args!("    dns-search {}\n", object.domains.join(" ")));
    }
    let mut commands = String::new();
    for Route { destination, next_hop, table, metric, source, onlink } in &object.routes {
        let metric = metric.map(|metric| format!(" metric {metric}")).unwrap_or_default();
        let family = if next_hop.is_ipv6() { "-6" } else { "-4" };
        let source = source.map(|source| format!(" src {source}")).unwrap_or_default();
        let onlink = if *onlink { " onlink" } else { "" };
        let table = if *table == MAIN_TABLE { String::new() } else { format!(" table {table}") };
        push(
            &mut commands,
            format_args!(
                "    up ip {family} route replace {destination} via {next_hop} dev {name}{table}{metric}{source}{onlink}\n"
            ),
        );
    }
    for rule in &object.rules {
        let family = if rule.v6 { "-6" } else { "-4" };
        let rule = rule.to_string();
        let rule = rule.strip_prefix("-6 ").unwrap_or(&rule);
        // Adding an existing rule again fails.
        push(&mut commands, format_args!("    up ip {family} rule add {rule} || true\n"));
    }
    let addresses: Vec<(&str, String)> = FAMILIES
        .into_iter()
        .flat_map(|(v6, family)| {
            let of = object.addresses.iter().filter(move |net| net.addr().is_ipv6() == v6);
            of.map(move |net| (family, format!("static\n    address {net}\n")))
        })
        .collect();
    let all = if addresses.is_empty() {
        vec![("inet", "manual\n    up ip link set $IFACE up\n".to_owned())]
    } else {
        addresses
    };
    let last = all.len() - 1;
    for (place, (family, body)) in all.into_iter().enumerate() {
        push(text, format_args!("iface {name} {family} {body}"));
        if place == 0 {
            text.push_str(&own);
        }
        if place == last {
            text.push_str(&commands);
        }
    }
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("text takes all that is written");
}

#[cfg(test)]
mod tests {
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
        let files: BTreeMap<String, String> =
            Format::Networkd.export(&document()).files.into_iter().collect();
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
    fn bonds_and_taps_are_made_and_ports_of_open_vswitch_are_left_to_it() {
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
        assert!(
            text.contains(bond) && text.contains("    pre-up ip tuntap add dev $IFACE mode tap"),
            "{text}"
        );
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
        let (carries, up) =
            ("what an interface of Open vSwitch carries", "that a port of Open vSwitch is up");
        let (on_bridge, on_port) = ("network_config[1]", "network_config[1].members[0]");
        let tuned = port(json!({"ethtool_opts": "-K ${DEVICE} tso off; -G ${DEVICE} rx 512"}));
        let told = "ethtool_opts (-K tso, -G rx)";
        use Format::{Ifupdown, NetworkManager, Networkd};
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
                bridge(
                    linux,
                    json!({}),
                    port(json!({"rules": [{"rule": "from 192.0.2.1 table 7 priority 7"}]})),
                ),
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
        ] {
            let other =
                json!({"type": "interface", "name": "eth9", "use_dhcp": false, "addresses": address(9)});
            let document = NetworkDocument::parse(&json!([other, object])).unwrap();
            let exported = format.export(&document);
            let is: Vec<(&str, &str)> = exported
                .missing
                .iter()
                .map(|missing| (missing.path.as_str(), missing.what.as_str()))
                .collect();
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
}
