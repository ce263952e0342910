//! A file of stanzas for ifupdown and ifupdown2: `interfaces(5)`.
//!
//! Absent: links that lease their addresses. Routes and rules are commands of the link's last stanza.

use muster_shared::model::network::{LinkName, MAIN_TABLE, NetworkDocument, Object, ObjectKind, Route};

use super::{File, Format, HEAD, NotExportable, UpperLinks, push, words};

/// Whether addresses are IPv6, and ifupdown's name for that family.
const FAMILIES: [(bool, &str); 2] = [(false, "inet"), (true, "inet6")];

/// The file, and the links that are not in it.
pub(super) fn stanzas(
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
        if name.is_loopback() {
            missing.push(Format::Ifupdown.lacks(object, "the loopback interface"));
            unwritten.push(name.clone());
            continue;
        }
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
        link(&mut text, object, &first);
    }
    (vec![("etc/network/interfaces.d/muster".into(), text)], unwritten)
}

/// Writes a stanza for each address of a link; settings of the link itself are in the first, commands in the last.
fn link(text: &mut String, object: &Object, first: &str) {
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
