//! Addresses, routes and rules of an object, and the routing tables that they name.
//!
//! Absent: in which order they change on a server (`agent/host/src/net/plan/addresses_and_routes.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value};

use super::parse::{Bounds, Parsed, Tables};
use super::value::{boolean, either, fields, list, number, prefix, quoted, table, text};
use super::{MAIN_TABLE, MAX_ADDRESSES, MAX_ROUTES, MAX_RULES, NetworkError, Object, Route, Rule, all, rule};

pub(super) fn addresses(path: &str, map: &Map<String, Value>, bounds: &mut Bounds) -> Parsed<Vec<IpNet>> {
    let path = format!("{path}.addresses");
    let Some(value) = map.get("addresses") else { return Ok(Vec::new()) };
    let items = list(&path, value)?;
    Bounds::add(&mut bounds.addresses, items.len(), MAX_ADDRESSES, &path, "addresses")?;
    let mut seen = BTreeSet::new();
    let mut addresses = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let map = fields(&path, item)?;
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

pub(super) fn routes(
    path: &str,
    map: &Map<String, Value>,
    bounds: &mut Bounds,
    tables: &Tables,
) -> Parsed<Vec<Route>> {
    let path = format!("{path}.routes");
    let Some(value) = map.get("routes") else { return Ok(Vec::new()) };
    let items = list(&path, value)?;
    Bounds::add(&mut bounds.routes, items.len(), MAX_ROUTES, &path, "routes")?;
    items.iter().enumerate().map(|(index, item)| route(&format!("{path}[{index}]"), item, tables)).collect()
}

pub(super) fn rules(
    path: &str,
    map: &Map<String, Value>,
    bounds: &mut Bounds,
    tables: &Tables,
) -> Parsed<Vec<Rule>> {
    let path = format!("{path}.rules");
    let Some(value) = map.get("rules") else { return Ok(Vec::new()) };
    let items = list(&path, value)?;
    Bounds::add(&mut bounds.rules, items.len(), MAX_RULES, &path, "rules")?;
    items
        .iter()
        .enumerate()
        .map(|(index, item)| rule::entry(&format!("{path}[{index}]"), item, tables))
        .collect()
}

fn route(path: &str, value: &Value, tables: &Tables) -> Parsed<Route> {
    let map = fields(path, value)?;
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
    let in_table =
        map.get("table").map(|value| table(&format!("{path}.table"), value, tables)).transpose()?;
    let mut route = Route {
        destination,
        next_hop,
        table: in_table.unwrap_or(MAIN_TABLE),
        metric,
        source: None,
        onlink: false,
    };
    if let Some(options) = map.get("route_options") {
        let path = format!("{path}.route_options");
        route_options(&path, text(&path, options)?, &mut route, (in_table, metric), tables)?;
    }
    Ok(route)
}

/// Parses the words of `ip route` behind the next hop. A word that repeats one of the route's own options
/// must agree.
fn route_options(
    path: &str,
    written: &str,
    route: &mut Route,
    (in_table, metric): (Option<u32>, Option<u32>),
    tables: &Tables,
) -> Parsed<()> {
    let mut words = written.split_ascii_whitespace();
    let twice = |word: &str| {
        Err(NetworkError::invalid(path, format!("'{word}' is not what the route's own option says")))
    };
    while let Some(word) = words.next() {
        if word == "onlink" {
            route.onlink = true;
            continue;
        }
        if !matches!(word, "metric" | "preference" | "table" | "src") {
            let hint = "metric, table, src and onlink are taken";
            return Err(NetworkError::unsupported(path, quoted(word), hint));
        }
        let value =
            words.next().ok_or_else(|| NetworkError::invalid(path, format!("'{word}' wants a value")))?;
        let json = Value::String(value.to_owned());
        match word {
            "table" => {
                route.table = table(path, &json, tables)?;
                if in_table.is_some_and(|table| table != route.table) {
                    return twice(word);
                }
            }
            "src" => {
                let source: Option<IpAddr> = value.parse().ok();
                let source = source.filter(|it| it.is_ipv4() == route.destination.addr().is_ipv4());
                let wrong = || {
                    NetworkError::invalid(
                        path,
                        format!("src {} is no address of the route's family", quoted(value)),
                    )
                };
                route.source = Some(source.ok_or_else(wrong)?);
            }
            _ => {
                route.metric = Some(number(path, &json, 0, u32::MAX)?);
                if metric.is_some() && metric != route.metric {
                    return twice(word);
                }
            }
        }
    }
    Ok(())
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

/// The metric of a default route that gives way to another link's, above the kernel's own; later ones have the next
/// numbers, as NetworkManager's have.
const WAY_DOWN: u32 = 100;

/// Default routes of several links without metrics: the first link's is the one in use, and each other link's has a
/// metric of its own, since the kernel keeps one default route for a metric.
pub(super) fn give_metrics(objects: &mut [Object]) {
    let key = |route: &Route, metric: u32| (route.destination, route.table, metric);
    let is_default = |route: &&Route| route.destination.prefix_len() == 0;
    let given = all(objects).flat_map(|object| &object.routes).filter(is_default);
    let given = given.filter(|route| route.metric.is_some());
    let mut taken: BTreeSet<_> = given.map(|route| key(route, route.kernel_metric())).collect();
    let mut next = BTreeMap::new();
    visit(objects, &mut |object| {
        let mut of_link = BTreeSet::new();
        let is_plain = |route: &&mut Route| route.destination.prefix_len() == 0 && route.metric.is_none();
        for route in object.routes.iter_mut().filter(is_plain) {
            let usual = route.kernel_metric();
            // A second one on the same link is a mistake, which is refused.
            if !of_link.insert(key(route, usual)) {
                continue;
            }
            let Some(metric) = next.get_mut(&key(route, usual)) else {
                next.insert(key(route, usual), usual.saturating_add(WAY_DOWN));
                continue;
            };
            while !taken.insert(key(route, *metric)) {
                *metric = metric.saturating_add(1);
            }
            route.metric = Some(*metric);
        }
    });
}

fn visit(objects: &mut [Object], each: &mut impl FnMut(&mut Object)) {
    for object in objects {
        each(object);
        visit(object.members_mut(), each);
    }
}

/// The kernel keeps one route per destination, table and metric.
pub(super) fn check_routes(objects: &[Object]) -> Parsed<()> {
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

/// The kernel keeps only one of two equal rules.
pub(super) fn check_rules(objects: &[Object]) -> Parsed<()> {
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
