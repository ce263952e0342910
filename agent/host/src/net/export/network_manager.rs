//! A connection of NetworkManager for each link, as keyfiles: `nm-settings-keyfile(5)`.
//!
//! Of several connections for a link NetworkManager takes the one of the highest priority: ours, also where an older one is
//! still there. Absent: UUIDs, which NetworkManager makes of a file's name.

use muster_shared::model::network::{MAIN_TABLE, NetworkDocument, Object, ObjectKind, Route, RuleAction};

use super::{Above, Exported, Format, HEAD, NotExportable, push, words};

/// The highest there is.
const PRIORITY: u32 = 999;

pub(super) fn keyfiles(
    document: &NetworkDocument,
    above: &Above<'_>,
) -> Result<Vec<Exported>, NotExportable> {
    let mut files = Vec::new();
    for object in document.all().filter(|object| !object.is_port_only()) {
        let is_switched =
            above.switched.contains(&&object.name) || matches!(object.kind, ObjectKind::OvsBridge { .. });
        if is_switched {
            if is_bare(object) {
                continue;
            }
            // Its connections for them would make them anew.
            return Format::NetworkManager.refuse(object, "what an interface of Open vSwitch carries");
        }
        if let Some(text) = keyfile(object, above)? {
            let path = format!("etc/NetworkManager/system-connections/muster-{}.nmconnection", object.name);
            files.push((path, text));
        }
    }
    Ok(files)
}

fn is_bare(object: &Object) -> bool {
    object.addresses.is_empty()
        && object.routes.is_empty()
        && object.rules.is_empty()
        && object.dhcp.is_none()
        && object.mtu.is_none()
}

fn keyfile(object: &Object, above: &Above<'_>) -> Result<Option<String>, NotExportable> {
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
        | ObjectKind::OvsTunnel { .. } => return Ok(None),
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
    // The MTU of every kind of link is there.
    if let Some(mtu) = object.mtu {
        push(&mut text, format_args!("\n[ethernet]\nmtu={mtu}\n"));
    }
    text.push_str(&own);
    if port.is_none() {
        text.push_str(&family(object, false)?);
        text.push_str(&family(object, true)?);
    } else if !object.addresses.is_empty() {
        return Format::NetworkManager.refuse(object, "an address of a member");
    }
    Ok(Some(text))
}

/// `[ipv4]` or `[ipv6]`. What routers say of IPv6 counts as it does without NetworkManager.
fn family(object: &Object, v6: bool) -> Result<String, NotExportable> {
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
        return Format::NetworkManager.refuse(object, what);
    }
    for (number, route) in routes.into_iter().enumerate() {
        push_route(&mut text, number + 1, route);
    }
    for (number, rule) in rules.into_iter().enumerate() {
        if !matches!(rule.action, RuleAction::Table(_)) {
            return Format::NetworkManager.refuse(object, "a rule that names no table");
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
    Ok(text)
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
