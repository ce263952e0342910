//! From a JSON value to the document. The first fault ends it, with its path.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value};

use super::error::clip;
use super::options::{
    COMMON, ELSEWHERE, REFUSED_SECTIONS, REFUSED_TYPES, SUPPORTED_TYPES, inert, options_of,
};
use super::value::{
    boolean, either, fields, link_name, list, number, prefix, quoted, required_name, table, text,
};
use super::{
    LinkName, MAIN_TABLE, MAX_ADDRESSES, MAX_FALLBACK, MAX_OBJECTS, MAX_ROUTES, MAX_RULES, NetworkDocument,
    NetworkError, Object, ObjectKind, Route, Rule, all, dns, rule,
};

const ROUTE_OPTIONS: [&str; 8] =
    ["next_hop", "nexthop", "ip_netmask", "destination", "default", "route_options", "table", "metric"];

type Parsed<T> = Result<T, NetworkError>;

/// Where an object stands decides which types fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    InLinuxBridge,
    InOvsBridge,
}

pub(super) fn document(value: &Value) -> Parsed<NetworkDocument> {
    let root = "network_config";
    let none = Map::new();
    let (objects, sections) = match value {
        Value::Array(objects) => (objects, &none),
        Value::Object(sections) => {
            check_sections(sections)?;
            let objects = sections.get(root).ok_or_else(|| NetworkError::invalid(root, "is missing"))?;
            (list(root, objects)?, sections)
        }
        _ => {
            return Err(NetworkError::invalid(
                root,
                "a list of objects is wanted, or a map with network_config",
            ));
        }
    };
    let mut bounds = Bounds::default();
    let objects = section(root, objects, &mut bounds)?;
    let fallback = sections.get("fallback_config").map(|value| fallback(value, &mut bounds)).transpose()?;
    let dns = dns::gather(all(&objects))?;
    dns::gather(all(fallback.as_deref().unwrap_or_default()))?;
    let document = NetworkDocument { objects, dns, fallback: fallback.filter(|objects| !objects.is_empty()) };
    document.check_names()?;
    for objects in [&document.objects, document.fallback.as_ref().unwrap_or(&Vec::new())] {
        check_routes(objects)?;
        check_rules(objects)?;
    }
    Ok(document)
}

fn check_sections(sections: &Map<String, Value>) -> Parsed<()> {
    for (name, content) in sections {
        match name.as_str() {
            "network_config" | "fallback_config" => {}
            known if REFUSED_SECTIONS.contains(&known) && content.as_array().is_some_and(Vec::is_empty) => {}
            known if REFUSED_SECTIONS.contains(&known) => {
                return Err(NetworkError::unsupported(
                    known,
                    known,
                    "give network_config, and fallback_config where wanted",
                ));
            }
            other => {
                let known = ["network_config", "fallback_config"];
                return Err(NetworkError::unknown("network_config", "section", other, known));
            }
        }
    }
    Ok(())
}

fn section(root: &str, objects: &[Value], bounds: &mut Bounds) -> Parsed<Vec<Object>> {
    let of_root = |(index, value)| object(&format!("{root}[{index}]"), value, Place::Top, bounds);
    objects.iter().enumerate().map(of_root).collect()
}

fn fallback(value: &Value, bounds: &mut Bounds) -> Parsed<Vec<Object>> {
    let root = "fallback_config";
    let objects = list(root, value)?;
    if objects.len() > MAX_FALLBACK {
        return Err(NetworkError::invalid(root, format!("at most {MAX_FALLBACK} objects are taken")));
    }
    section(root, objects, bounds)
}

/// Counts over the whole document.
#[derive(Default)]
struct Bounds {
    objects: usize,
    addresses: usize,
    routes: usize,
    rules: usize,
}

impl Bounds {
    fn add(count: &mut usize, more: usize, most: usize, path: &str, what: &str) -> Parsed<()> {
        *count += more;
        if *count > most {
            return Err(NetworkError::invalid(path, format!("the document has more than {most} {what}")));
        }
        Ok(())
    }
}

fn object(path: &str, value: &Value, place: Place, bounds: &mut Bounds) -> Parsed<Object> {
    Bounds::add(&mut bounds.objects, 1, MAX_OBJECTS, path, "objects")?;
    let map = fields(path, value)?;
    let kind = object_type(path, map, place)?;
    for (option, value) in map {
        check_option(&format!("{path}.{}", clip(option)), kind, option, value)?;
    }
    let (name, kind) = match kind {
        "vlan" => vlan(path, map, place)?,
        "interface" => {
            let primary =
                map.get("primary").map(|value| boolean(&format!("{path}.primary"), value)).transpose()?;
            (required_name(path, map)?, ObjectKind::Interface { primary: primary.unwrap_or(false) })
        }
        bridge => {
            let inside = if bridge == "ovs_bridge" { Place::InOvsBridge } else { Place::InLinuxBridge };
            let members = members(path, map, inside, bounds)?;
            let name = required_name(path, map)?;
            check_primary(&name, &members)?;
            if inside == Place::InOvsBridge {
                check_devices(&name, &members)?;
            }
            let kind = match inside {
                Place::InOvsBridge => ObjectKind::OvsBridge { members },
                _ => ObjectKind::LinuxBridge { members },
            };
            (name, kind)
        }
    };
    let addresses = addresses(path, map, bounds)?;
    let routes = routes(path, map, bounds)?;
    let rules = rules(path, map, bounds)?;
    let (dns_servers, domains) = (dns::servers(path, map)?, dns::domains(path, map)?);
    let mtu = map.get("mtu").map(|value| number(&format!("{path}.mtu"), value, 68, 65_535)).transpose()?;
    Ok(Object { path: path.to_owned(), name, kind, addresses, routes, rules, dns_servers, domains, mtu })
}

fn object_type<'a>(path: &str, map: &'a Map<String, Value>, place: Place) -> Parsed<&'a str> {
    let type_path = format!("{path}.type");
    let value = map.get("type").ok_or_else(|| NetworkError::invalid(&type_path, "is missing"))?;
    let kind = text(&type_path, value)?;
    let fits = match place {
        Place::Top => SUPPORTED_TYPES.as_slice(),
        Place::InLinuxBridge | Place::InOvsBridge => &["interface", "vlan"],
    };
    if fits.contains(&kind) {
        return Ok(kind);
    }
    if SUPPORTED_TYPES.contains(&kind) {
        let problem = format!("a {kind} cannot be a bridge's member; interface and vlan can");
        return Err(NetworkError::invalid(&type_path, problem));
    }
    if REFUSED_TYPES.contains(&kind) {
        let hint = format!("it takes {}", fits.join(", "));
        return Err(NetworkError::unsupported(&type_path, format!("type '{kind}'"), &hint));
    }
    let known = SUPPORTED_TYPES.into_iter().chain(REFUSED_TYPES);
    Err(NetworkError::unknown(path, "type", kind, known))
}

fn check_option(path: &str, kind: &str, option: &str, value: &Value) -> Parsed<()> {
    let own = options_of(kind);
    if !COMMON.contains(&option) && !own.contains(&option) {
        if ELSEWHERE.contains(&option) {
            return Err(NetworkError::unsupported(
                path,
                format!("'{option}' of type '{kind}'"),
                "leave it out",
            ));
        }
        let known = COMMON.iter().chain(own).copied();
        return Err(NetworkError::unknown(path, "option", option, known));
    }
    match option {
        "type" | "name" | "addresses" | "routes" | "rules" | "dns_servers" | "domain" | "mtu" | "members"
        | "vlan_id" | "device" => Ok(()),
        "primary" if kind == "interface" => Ok(()),
        "primary" if !boolean(path, value)? => Ok(()),
        _ => inert(path, option, value),
    }
}

fn vlan(path: &str, map: &Map<String, Value>, place: Place) -> Parsed<(LinkName, ObjectKind)> {
    let id_path = format!("{path}.vlan_id");
    let value = map.get("vlan_id").ok_or_else(|| NetworkError::invalid(&id_path, "is missing"))?;
    let id = number(&id_path, value, 1, 4_094)?;
    let id = u16::try_from(id).map_err(|_| NetworkError::invalid(&id_path, "1 to 4094 is taken"))?;
    let device = map.get("device").map(|value| link_name(&format!("{path}.device"), value)).transpose()?;
    if device.is_none() && place != Place::InOvsBridge {
        let problem = "is missing: the interface that carries the VLAN";
        return Err(NetworkError::invalid(&format!("{path}.device"), problem));
    }
    let name =
        LinkName::new(&format!("vlan{id}")).map_err(|problem| NetworkError::invalid(&id_path, problem))?;
    Ok((name, ObjectKind::Vlan { id, device }))
}

fn members(path: &str, map: &Map<String, Value>, inside: Place, bounds: &mut Bounds) -> Parsed<Vec<Object>> {
    let path = format!("{path}.members");
    let Some(value) = map.get("members") else {
        return match inside {
            Place::InLinuxBridge => Err(NetworkError::invalid(&path, "is missing; an empty list is taken")),
            _ => Ok(Vec::new()),
        };
    };
    let of_member = |(index, value)| object(&format!("{path}[{index}]"), value, inside, bounds);
    list(&path, value)?.iter().enumerate().map(of_member).collect()
}

fn check_primary(bridge: &LinkName, members: &[Object]) -> Parsed<()> {
    let is_primary = |member: &&Object| matches!(member.kind, ObjectKind::Interface { primary: true });
    match members.iter().filter(is_primary).nth(1) {
        None => Ok(()),
        Some(second) => {
            let problem = format!("{bridge} has a primary interface already; one is taken");
            Err(NetworkError::invalid(&format!("{}.primary", second.path), problem))
        }
    }
}

/// The bridge itself carries its VLANs, so a `device` may only say what is true anyway.
fn check_devices(bridge: &LinkName, members: &[Object]) -> Parsed<()> {
    for member in members {
        if let ObjectKind::Vlan { device: Some(device), .. } = &member.kind
            && device != bridge
            && !members.iter().any(|other| other.name == *device && other.name != member.name)
        {
            let problem = format!("{device} is neither {bridge} nor a member of it");
            return Err(NetworkError::invalid(&format!("{}.device", member.path), problem));
        }
    }
    Ok(())
}

fn addresses(path: &str, map: &Map<String, Value>, bounds: &mut Bounds) -> Parsed<Vec<IpNet>> {
    let path = format!("{path}.addresses");
    let Some(value) = map.get("addresses") else { return Ok(Vec::new()) };
    let items = list(&path, value)?;
    Bounds::add(&mut bounds.addresses, items.len(), MAX_ADDRESSES, &path, "addresses")?;
    let mut seen = BTreeSet::new();
    let mut addresses = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let map = fields(&path, item)?;
        if let Some(option) = map.keys().find(|key| *key != "ip_netmask") {
            return Err(NetworkError::unknown(
                &format!("{path}.{}", clip(option)),
                "option",
                option,
                ["ip_netmask"],
            ));
        }
        let path = format!("{path}.ip_netmask");
        let value = map.get("ip_netmask").ok_or_else(|| NetworkError::invalid(&path, "is missing"))?;
        let address = prefix(&path, value)?;
        if address.addr().is_unspecified() || address.addr().is_multicast() {
            return Err(NetworkError::invalid(&path, format!("{address} cannot be an interface's address")));
        }
        if !seen.insert(address.addr()) {
            return Err(NetworkError::invalid(&path, format!("{} is listed already", address.addr())));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn routes(path: &str, map: &Map<String, Value>, bounds: &mut Bounds) -> Parsed<Vec<Route>> {
    let path = format!("{path}.routes");
    let Some(value) = map.get("routes") else { return Ok(Vec::new()) };
    let items = list(&path, value)?;
    Bounds::add(&mut bounds.routes, items.len(), MAX_ROUTES, &path, "routes")?;
    items.iter().enumerate().map(|(index, item)| route(&format!("{path}[{index}]"), item)).collect()
}

fn rules(path: &str, map: &Map<String, Value>, bounds: &mut Bounds) -> Parsed<Vec<Rule>> {
    let path = format!("{path}.rules");
    let Some(value) = map.get("rules") else { return Ok(Vec::new()) };
    let items = list(&path, value)?;
    Bounds::add(&mut bounds.rules, items.len(), MAX_RULES, &path, "rules")?;
    items.iter().enumerate().map(|(index, item)| rule::entry(&format!("{path}[{index}]"), item)).collect()
}

fn route(path: &str, value: &Value) -> Parsed<Route> {
    let map = fields(path, value)?;
    if let Some(option) = map.keys().find(|key| !ROUTE_OPTIONS.contains(&key.as_str())) {
        return Err(NetworkError::unknown(
            &format!("{path}.{}", clip(option)),
            "option",
            option,
            ROUTE_OPTIONS,
        ));
    }
    if map.get("route_options").is_some_and(|options| options != "") {
        let path = format!("{path}.route_options");
        return Err(NetworkError::unsupported(
            &path,
            "route_options",
            "give table and metric as options of the route",
        ));
    }
    let (hop_option, value) = either(path, map, "next_hop", "nexthop")?
        .ok_or_else(|| NetworkError::invalid(&format!("{path}.next_hop"), "is missing"))?;
    let hop_path = format!("{path}.{hop_option}");
    let hop = text(&hop_path, value)?;
    if hop == "self" {
        return Err(NetworkError::unsupported(&hop_path, "'self'", "give the next hop's address"));
    }
    let next_hop: IpAddr = hop
        .parse()
        .map_err(|_| NetworkError::invalid(&hop_path, format!("{} is no IP address", quoted(hop))))?;
    let destination = destination(path, map, next_hop)?;
    if destination.addr().is_ipv4() != next_hop.is_ipv4() {
        let problem = format!("{next_hop} is of another address family than {destination}");
        return Err(NetworkError::invalid(&hop_path, problem));
    }
    let metric =
        map.get("metric").map(|value| number(&format!("{path}.metric"), value, 0, u32::MAX)).transpose()?;
    let table = map.get("table").map(|value| table(&format!("{path}.table"), value)).transpose()?;
    Ok(Route { destination, next_hop, table: table.unwrap_or(MAIN_TABLE), metric })
}

fn destination(path: &str, map: &Map<String, Value>, next_hop: IpAddr) -> Parsed<IpNet> {
    let is_default =
        map.get("default").map(|value| boolean(&format!("{path}.default"), value)).transpose()?;
    let any = match next_hop {
        IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    };
    let Some((option, value)) = either(path, map, "ip_netmask", "destination")? else {
        return match is_default {
            Some(true) => Ok(any),
            _ => Err(NetworkError::invalid(path, "wants ip_netmask, destination or 'default: true'")),
        };
    };
    let path = format!("{path}.{option}");
    let destination = prefix(&path, value)?;
    if is_default == Some(true) && destination != any {
        return Err(NetworkError::invalid(
            &path,
            format!("the route is the default one, so this can only be {any}"),
        ));
    }
    if destination != destination.trunc() {
        let problem = format!(
            "{destination} has host bits, which the kernel refuses; {} is meant",
            destination.trunc()
        );
        return Err(NetworkError::invalid(&path, problem));
    }
    Ok(destination)
}

/// The kernel keeps one route per destination, table and metric.
fn check_routes(objects: &[Object]) -> Parsed<()> {
    let mut seen = BTreeMap::new();
    for object in all(objects) {
        for (index, route) in object.routes.iter().enumerate() {
            let path = format!("{}.routes[{index}]", object.path);
            let key = (route.destination, route.table, route.kernel_metric());
            if let Some(first) = seen.insert(key, path.clone()) {
                let problem = format!("{first} has the same destination, table and metric");
                return Err(NetworkError::invalid(&path, problem));
            }
        }
    }
    Ok(())
}

/// The kernel keeps one of two rules that say the same.
fn check_rules(objects: &[Object]) -> Parsed<()> {
    let mut seen = BTreeMap::new();
    for object in all(objects) {
        for (index, rule) in object.rules.iter().enumerate() {
            let path = format!("{}.rules[{index}]", object.path);
            if let Some(first) = seen.insert(rule, path.clone()) {
                return Err(NetworkError::invalid(&path, format!("{first} is the same rule")));
            }
        }
    }
    Ok(())
}
