//! Decides whether the network is as wanted: names each place where the host differs from its target. Anything
//! else on the host does not count.
//!
//! Absent: when drift is looked for (`agent/core/src/watch.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::network::{BondOptions, Dhcp, LinkName};
use serde_json::Value;

use super::ethtool::{Asked, is_asked};
use super::plan::{is_so, resolver};
use super::resolver::Resolver;
use super::snapshot::PortBefore;
use super::state::{Attach, Link, Route, RouteKey, State};
use super::wanted::{Difference, LinkKind, LinkTarget, Origin, Target, Wanted, WantedResolver};

/// The differences of `state` from `target`; empty if there are none.
pub fn differences(target: &Target, state: &State) -> Vec<Difference> {
    let beside = target.present().any(|(_, wanted)| wanted.origin == Origin::Beside);
    let routes = state.links.values().flat_map(|link| link.routes.iter());
    let keys = routes.filter(|_| beside).map(Route::key).collect();
    let mut found = Found { target, keys, differences: Vec::new() };
    for (name, wanted) in &target.links {
        match (wanted, state.links.get(name)) {
            (Wanted::Present(wanted), Some(link)) => found.link(name, wanted, link, state),
            (Wanted::Present(wanted), None) => found.add(&wanted.path, format!("{name} is not there")),
            (Wanted::Absent, _) => found.gone(name, state),
        }
    }
    found.ports(state);
    for (rule, (_, path)) in &target.rules {
        if !state.rules.contains_key(rule) {
            found.add(path, format!("wanted the rule {rule}, it is not there"));
        }
    }
    for rule in target.rules_gone.iter().filter(|rule| state.rules.contains_key(rule)) {
        found.add("before", format!("the rule {rule} is still there"));
    }
    if let Some(wanted) = &target.resolver {
        found.resolver(wanted, &state.resolver);
    }
    found.differences
}

/// Nothing but a DHCP server's answer is waited for.
pub(super) fn is_leasing(target: &Target, state: &State) -> bool {
    let differences = differences(target, state);
    let is_lease = |difference: &Difference| {
        target.present().any(|(name, wanted)| {
            let families = [false, true].into_iter().map(|v6| no_lease(name, wanted, v6, state));
            families.flatten().any(|missing| missing == *difference)
        })
    };
    !differences.is_empty() && differences.iter().all(is_lease)
}

/// The difference to report while no address of that family is leased.
fn no_lease(name: &str, wanted: &LinkTarget, v6: bool, state: &State) -> Option<Difference> {
    let told = wanted.dhcp.as_ref().filter(|told| if v6 { told.v6 } else { told.v4 })?;
    let link = state.links.get(name)?;
    let mut leased = state.dhcp.addresses(name).filter(|address| address.is_ipv6() == v6);
    if leased.any(|leased| link.addresses.iter().any(|address| address.net.addr() == leased)) {
        return None;
    }
    let path = format!("{}.{}", wanted.path, Dhcp::option(v6));
    let family = if v6 { "IPv6" } else { "IPv4" };
    let client = told.client.name();
    Some(Difference {
        path,
        text: format!("{client} has no address of {family} for {name} from a DHCP server"),
    })
}

struct Found<'a> {
    target: &'a Target,
    /// The keys of all routes, if a restore concerns links beside the document.
    keys: BTreeSet<RouteKey>,
    differences: Vec<Difference>,
}

impl Found<'_> {
    fn add(&mut self, path: &str, text: String) {
        self.differences.push(Difference { path: path.to_owned(), text });
    }

    fn resolver(&mut self, wanted: &WantedResolver, now: &Resolver) {
        let path = match wanted {
            WantedResolver::Document(dns) => dns.path.as_str(),
            WantedResolver::Before(_) => "before",
        };
        match resolver::plan(wanted, now) {
            Ok(steps) if steps.is_empty() => {}
            Ok(steps) => self.add(path, format!("the resolver's settings differ: wanted to {}", steps[0])),
            Err(error) => self.add(path, error.problem),
        }
    }

    /// Compares ports of Open vSwitch without a link, single settings there, and names of routing tables.
    fn ports(&mut self, state: &State) {
        for (name, wanted) in &self.target.ports {
            let now = state.ovs.as_ref().and_then(|ovs| ovs.port(name));
            let now = now.map(|(bridge, port)| PortBefore { bridge: bridge.to_owned(), port: port.clone() });
            match (wanted, now) {
                (Some(wanted), Some(now)) if is_so(wanted, &now) => {
                    if now.port.tag != wanted.row.tag {
                        let text = |tag: Option<u16>| tag.map_or("none".to_owned(), |tag| tag.to_string());
                        let (tag, has) = (text(wanted.row.tag), text(now.port.tag));
                        self.add(&wanted.path, format!("wanted the VLAN {tag}, {name} has {has}"));
                    }
                    let failed =
                        now.port.interfaces.iter().find_map(|(name, it)| Some((name, it.error.as_ref()?)));
                    if let Some((name, error)) = failed {
                        self.add(&wanted.path, format!("Open vSwitch cannot use {name}: {error}"));
                    }
                }
                (Some(wanted), Some(_)) => {
                    self.add(&wanted.path, format!("{name} is there, but as something else"));
                }
                (Some(wanted), None) => self.add(&wanted.path, format!("the port {name} is not there")),
                (None, Some(now)) if now.port.ours || self.target.removed.contains_key(name) => {
                    self.add(&format!("before.{name}"), format!("the port {name} is still there"));
                }
                (None, _) => {}
            }
        }
        for (place, (value, path)) in &self.target.settings {
            let now = state.setting(place);
            if now != *value {
                let text =
                    |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), ToString::to_string);
                self.add(path, format!("wanted {} in {place}, it has {}", text(value), text(&now)));
            }
        }
        for ((link, key), (value, path)) in &self.target.ethtool {
            let now = state.ethtool.get(link);
            if is_asked(now, key, *value) == Asked::No {
                let now = now.and_then(|settings| settings.get(key));
                let now = now.map_or("none".to_owned(), ToString::to_string);
                self.add(path, format!("wanted {key} {value}, {link} has {now}"));
            }
        }
        for (name, (id, path)) in &self.target.tables {
            let now = state.tables.get(name);
            if now != id.as_ref() {
                let text = |id: Option<&u32>| id.map_or("none".to_owned(), ToString::to_string);
                self.add(
                    path,
                    format!("wanted the number {} for {name}, it has {}", text(id.as_ref()), text(now)),
                );
            }
        }
    }

    fn gone(&mut self, name: &str, state: &State) {
        let made = state
            .links
            .get(name)
            .is_some_and(|link| matches!(link.kind.as_str(), "bridge" | "vlan" | "bond") || link.ours);
        let bridge = state.ovs_bridge(name).is_some_and(|bridge| bridge.ours);
        let port = state.ovs_port(name).is_some_and(|(_, port)| port.ours);
        if made || bridge || port {
            self.add(&format!("before.{name}"), format!("{name} is still there"));
        }
    }

    fn link(&mut self, name: &str, wanted: &LinkTarget, link: &Link, state: &State) {
        let path = &wanted.path;
        self.kind(name, wanted, link, state);
        let attach = state.attachment(name);
        let others = wanted.origin == Origin::Beside && attach != Attach::None;
        if attach != wanted.attach && !others {
            self.add(path, format!("wanted {name} {}, it is {}", place(&wanted.attach), place(&attach)));
        }
        if let Some(error) = state.ovs_interface(name).and_then(|interface| interface.error.as_ref()) {
            self.add(path, format!("Open vSwitch cannot use {name}: {error}"));
        }
        if let Some(up) = wanted.up.filter(|up| *up != link.up) {
            let word = |up| if up { "up" } else { "down" };
            self.add(path, format!("wanted {name} {}, it is {}", word(up), word(link.up)));
        }
        if let Some(mtu) = wanted.mtu.filter(|mtu| *mtu != link.mtu) {
            self.add(&format!("{path}.mtu"), format!("wanted {mtu}, {name} has {}", link.mtu));
        }
        if let Some(mac) = wanted.mac.as_ref().filter(|mac| Some(*mac) != link.mac.as_ref()) {
            let has = link.mac.as_deref().unwrap_or("none");
            self.add(path, format!("wanted the MAC address {mac}, {name} has {has}"));
        }
        let leased = state.dhcp.addresses(name).collect();
        for (index, address) in wanted.addresses.iter().enumerate() {
            if wanted.runs_out(address, &leased, link) {
                let text = format!("wanted {address} for good, {name} has it until the end of a lifetime");
                self.add(&format!("{path}.addresses[{index}]"), text);
            } else if !link.addresses.contains(address) {
                let has = listed(link.addresses.iter().filter(|address| !address.is_kernels_own()));
                self.add(
                    &format!("{path}.addresses[{index}]"),
                    format!("wanted {address}, {name} has {has}"),
                );
            }
        }
        self.routes(name, wanted, link);
        self.lease(name, wanted, state);
    }

    /// Leased addresses are no difference, and a restore does not wait for a DHCP server.
    fn lease(&mut self, name: &str, wanted: &LinkTarget, state: &State) {
        let now = state.dhcp.links.get(name);
        let option = wanted.dhcp.as_ref().map_or("use_dhcp", |told| Dhcp::option(!told.v4));
        let path = format!("{}.{option}", wanted.path);
        match (&wanted.dhcp, now) {
            _ if wanted.origin == Origin::Beside => {}
            (None, Some(_)) => self.add(&path, format!("a DHCP client still leases for {name}")),
            (Some(told), Some(now)) if now.told != *told => {
                self.add(&path, format!("{} leases for {name} in another way", now.told.client.name()));
            }
            (Some(_), Some(now)) if now.runs => {
                if wanted.origin == Origin::Document {
                    let missing = [false, true].into_iter().map(|v6| no_lease(name, wanted, v6, state));
                    self.differences.extend(missing.flatten());
                }
            }
            (Some(told), _) => self.add(&path, format!("{} does not run for {name}", told.client.name())),
            (None, None) => {}
        }
    }

    fn kind(&mut self, name: &str, wanted: &LinkTarget, link: &Link, state: &State) {
        let ok = match &wanted.kind {
            LinkKind::Existing => true,
            LinkKind::LinuxBridge => link.kind == "bridge",
            LinkKind::Tap => link.tap,
            LinkKind::Bond(options) => {
                if wanted.origin != Origin::Beside {
                    self.bond(name, &wanted.path, options, link);
                }
                link.kind == "bond"
            }
            LinkKind::Vlan { device, id } => {
                link.vlan.as_ref().is_some_and(|vlan| vlan.device == *device && vlan.id == *id)
            }
            LinkKind::OvsBridge { .. } => state.ovs_bridge(name).is_some(),
            LinkKind::OvsInternal { .. } => {
                state.ovs_interface(name).is_some_and(|interface| interface.internal)
            }
        };
        if !ok {
            self.add(&wanted.path, format!("{name} is there, but as something else"));
        }
        let (LinkKind::OvsBridge { row, .. }, Some(bridge)) = (&wanted.kind, state.ovs_bridge(name)) else {
            return;
        };
        if bridge.hwaddr != row.hwaddr {
            let text = |mac: &Option<String>| mac.clone().unwrap_or_else(|| "none".to_owned());
            let (wanted_mac, has) = (text(&row.hwaddr), text(&bridge.hwaddr));
            self.add(&wanted.path, format!("wanted the MAC address {wanted_mac}, {name} has {has}"));
        }
        for port in row.ports.iter().filter(|(_, port)| port.interfaces.len() == 1).map(|(port, _)| port) {
            if state.ovs_interface(port).is_none()
                && !matches!(self.target.links.get(port), Some(Wanted::Absent))
            {
                self.add(&wanted.path, format!("wanted the port {port} in {name}, it is in no bridge"));
            }
        }
    }

    fn bond(&mut self, name: &str, path: &str, wanted: &BondOptions, link: &Link) {
        let Some(now) = &link.bond else { return };
        let has =
            |values: &BTreeMap<u16, u32>| BondOptions { values: values.clone(), primary: None }.describe();
        let values: BTreeMap<u16, u32> = now.differing(wanted).collect();
        if !values.is_empty() {
            let there = now.values.iter().filter(|(number, _)| values.contains_key(number));
            let there = has(&there.map(|(number, value)| (*number, *value)).collect());
            self.add(path, format!("wanted {}, {name} has {there}", has(&values)));
        }
        if now.primary != wanted.primary {
            let text = |link: &Option<LinkName>| link.as_ref().map_or("none".to_owned(), ToString::to_string);
            let (wanted, now) = (text(&wanted.primary), text(&now.primary));
            self.add(path, format!("wanted {name} to prefer {wanted}, it prefers {now}"));
        }
    }

    fn routes(&mut self, name: &str, wanted: &LinkTarget, link: &Link) {
        // There may be tens of thousands of routes: look up, never search.
        let has: BTreeSet<_> = link.routes.iter().map(way).collect();
        for (index, route) in wanted.routes.iter().enumerate() {
            let others = wanted.origin == Origin::Beside && self.keys.contains(&route.key());
            if has.contains(&way(route)) || others {
                continue;
            }
            let instead: Vec<&Route> =
                link.routes.iter().filter(|other| other.key() == route.key()).take(1).collect();
            let path = format!("{}.routes[{index}]", wanted.path);
            self.add(&path, format!("wanted {route}, {name} has {}", listed(instead.into_iter())));
        }
    }
}

/// A route without its origin.
fn way(route: &Route) -> impl Ord + '_ {
    (route.key(), route.gateway, route.source, route.onlink, &route.hops, &route.attributes)
}

fn place(attach: &Attach) -> String {
    match attach {
        Attach::None => "in no bridge".to_owned(),
        Attach::OvsBond(bridge, bond) => format!("in the bond {bond} of {bridge}"),
        Attach::Linux(bridge) | Attach::Ovs(bridge, None) => format!("in {bridge}"),
        Attach::Ovs(bridge, Some(tag)) => format!("in {bridge} with VLAN {tag}"),
    }
}

fn listed<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
