//! A connection of NetworkManager for each link, as keyfiles: `nm-settings-keyfile(5)`.
//!
//! NetworkManager uses the connection with the highest priority: ours, even if an older one still exists.
//! Absent: UUIDs, which NetworkManager derives from a file's name.

use muster_shared::model::network::{
    LinkName, MAIN_TABLE, NetworkDocument, Object, ObjectKind, Route, RuleAction,
};

use super::{File, Format, HEAD, NotExportable, UpperLinks, push, words};

/// The highest there is.
const PRIORITY: u32 = 999;

/// The files, and the links without one: those in Open vSwitch, which NetworkManager would make again.
pub(super) fn keyfiles(
    document: &NetworkDocument,
    above: &UpperLinks<'_>,
    missing: &mut Vec<NotExportable>,
) -> (Vec<File>, Vec<LinkName>) {
    let mut files = Vec::new();
    let mut unwritten = Vec::new();
    for object in document.all().filter(|object| !object.is_port_only()) {
        let name = &object.name;
        let is_port = above.switched.contains(&name);
        if name.is_loopback() {
            missing.push(Format::NetworkManager.lacks(object, "the loopback interface"));
            unwritten.push(name.clone());
            continue;
        }
        let is_switched = is_port || matches!(object.kind, ObjectKind::OvsBridge { .. });
        if is_switched {
            if !carries_nothing(object) || object.mtu.is_some() {
                let what = "what an interface of Open vSwitch carries";
                missing.push(Format::NetworkManager.lacks(object, what));
            }
            // The switch makes its own interfaces, and sets no others up.
            if is_port && matches!(object.kind, ObjectKind::Interface { .. }) {
                missing.push(Format::NetworkManager.lacks(object, "that a port of Open vSwitch is up"));
            }
            unwritten.push(name.clone());
            continue;
        }
        match keyfile(object, above, missing) {
            Some(text) => {
                let path = format!("etc/NetworkManager/system-connections/muster-{name}.nmconnection");
                files.push((path, text));
            }
            None => unwritten.push(name.clone()),
        }
    }
    (files, unwritten)
}

/// Whether the link has nothing for `[ipv4]` or `[ipv6]`.
fn carries_nothing(object: &Object) -> bool {
    object.addresses.is_empty()
        && object.routes.is_empty()
        && object.rules.is_empty()
        && object.dns_servers.is_empty()
        && object.domains.is_empty()
        && object.dhcp.is_none()
}

fn keyfile(object: &Object, above: &UpperLinks<'_>, missing: &mut Vec<NotExportable>) -> Option<String> {
    let name = &object.name;
    let mut own = String::new();
    let kind = match &object.kind {
        ObjectKind::Interface { .. } => "ethernet",
        ObjectKind::LinuxBridge { .. } => {
            own.push_str("\n[bridge]\nstp=false\n");
            "bridge"
        }
        ObjectKind::Vlan { device: Some(device), id } => {
            push(&mut own, format_args!("\n[vlan]\nid={id}\nparent={device}\n"));
            "vlan"
        }
        ObjectKind::LinuxTap => {
            own.push_str("\n[tun]\nmode=2\n");
            "tun"
        }
        ObjectKind::LinuxBond { options, .. } => {
            own.push_str("\n[bond]\n");
            for (option, value) in words(options) {
                push(&mut own, format_args!("{option}={value}\n"));
            }
            if let Some(primary) = &options.primary {
                push(&mut own, format_args!("primary={primary}\n"));
            }
            "bond"
        }
        ObjectKind::Vlan { device: None, .. }
        | ObjectKind::OvsBridge { .. }
        | ObjectKind::OvsBond { .. }
        | ObjectKind::OvsPatch { .. }
        | ObjectKind::OvsTunnel { .. } => return None,
    };
    let mut text = format!(
        "{HEAD}[connection]\nid=muster-{name}\ntype={kind}\ninterface-name={name}\nautoconnect-priority={PRIORITY}\n"
    );
    let port = match (above.bridge.get(name), above.bond.get(name)) {
        (Some(bridge), _) => Some((*bridge, "bridge")),
        (None, Some((bond, _))) => Some((*bond, "bond")),
        (None, None) => None,
    };
    if let Some((of, kind)) = port {
        push(&mut text, format_args!("master={of}\nslave-type={kind}\n"));
    }
    // NetworkManager has an MTU for every kind of link.
    if let Some(mtu) = object.mtu {
        push(&mut text, format_args!("\n[ethernet]\nmtu={mtu}\n"));
    }
    text.push_str(&own);
    if port.is_none() {
        text.push_str(&family(object, false, missing));
        text.push_str(&family(object, true, missing));
    } else if !carries_nothing(object) {
        missing.push(Format::NetworkManager.lacks(object, "what a member carries"));
    }
    Some(text)
}

/// The section `[ipv4]` or `[ipv6]`. Router advertisements of IPv6 work as they do without NetworkManager.
fn family(object: &Object, v6: bool, missing: &mut Vec<NotExportable>) -> String {
    let is_leased = object.dhcp.as_ref().is_some_and(|dhcp| if v6 { dhcp.v6 } else { dhcp.v4 });
    let addresses: Vec<String> =
        object.addresses.iter().filter(|net| net.addr().is_ipv6() == v6).map(ToString::to_string).collect();
    let method = match (v6, is_leased, addresses.is_empty()) {
        (true, ..) | (false, true, _) => "auto",
        (false, false, false) => "manual",
        (false, false, true) => "disabled",
    };
    let mut text = format!("\n[{}]\nmethod={method}\n", if v6 { "ipv6" } else { "ipv4" });
    for (number, address) in addresses.iter().enumerate() {
        push(&mut text, format_args!("address{}={address}\n", number + 1));
    }
    let routes = object.routes.iter().filter(|route| route.next_hop.is_ipv6() == v6).collect::<Vec<_>>();
    let rules = object.rules.iter().filter(|rule| rule.v6 == v6).collect::<Vec<_>>();
    let servers: Vec<String> =
        object.dns_servers.iter().filter(|server| server.is_ipv6() == v6).map(ToString::to_string).collect();
    if method == "disabled" && !(routes.is_empty() && rules.is_empty() && servers.is_empty()) {
        let what = "routes, rules or name servers of IPv4 without an address of IPv4";
        missing.push(Format::NetworkManager.lacks(object, what));
        return text;
    }
    for (number, route) in routes.into_iter().enumerate() {
        push_route(&mut text, number + 1, route);
    }
    for (number, rule) in rules.into_iter().enumerate() {
        if !matches!(rule.action, RuleAction::Table(_)) {
            missing.push(Format::NetworkManager.lacks(object, "a rule that names no table"));
            continue;
        }
        let rule = rule.to_string();
        let rule = rule.strip_prefix("-6 ").unwrap_or(&rule);
        push(&mut text, format_args!("routing-rule{}={rule}\n", number + 1));
    }
    if !servers.is_empty() {
        push(&mut text, format_args!("dns={};\nignore-auto-dns=true\n", servers.join(";")));
    }
    if !object.domains.is_empty() && method != "disabled" {
        push(&mut text, format_args!("dns-search={};\n", object.domains.join(";")));
    }
    if !v6 && object.dhcp.as_ref().is_some_and(|dhcp| dhcp.v4 && !dhcp.default_route) {
        text.push_str("never-default=true\n");
    }
    text
}

fn push_route(text: &mut String, number: usize, route: &Route) {
    let Route { destination, next_hop, table, metric, source, onlink } = route;
    let metric = metric.map(|metric| format!(",{metric}")).unwrap_or_default();
    push(text, format_args!("route{number}={destination},{next_hop}{metric}\n"));
    let mut options = Vec::new();
    if *table != MAIN_TABLE {
        options.push(format!("table={table}"));
    }
    options.extend(source.map(|source| format!("src={source}")));
    if *onlink {
        options.push("onlink=true".to_owned());
    }
    if !options.is_empty() {
        push(text, format_args!("route{number}_options={}\n", options.join(",")));
    }
}
