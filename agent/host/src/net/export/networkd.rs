//! Files of systemd-networkd: `systemd.network(5)` and `systemd.netdev(5)`.
//!
//! Open vSwitch's own links get a `.network` for what they carry, and no `.netdev`.

use muster_shared::model::network::{
    Dns, MAIN_TABLE, NetworkDocument, Object, ObjectKind, Route, Rule, RuleAction,
};

use super::{File, Format, HEAD, NotExportable, UpperLinks, push, words};

/// The files: a `.network` for each link, and a `.netdev` for each link that networkd makes.
pub(super) fn files(
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
