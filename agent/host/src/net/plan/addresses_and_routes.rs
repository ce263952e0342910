//! Addresses and routes. Links that are removed keep theirs until then, except where a route is in the way.
//!
//! A wanted address that exists stays usable all the time, even if it moves to another link or the kernel
//! would drop it together with another one. A route replaces an old one with the same key at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use muster_shared::model::network::{LOOPBACK, Rule};

use super::super::dhcp::Leases;
use super::super::state::{Address, Attach, Link, PROTOCOL_DHCP, Route, RouteKey};
use super::super::step::Step;
use super::super::wanted::{LinkKind, LinkTarget, Origin, Target};
use super::PlanError;

/// The links that layer 2 leaves there, as they are.
type Links<'a> = BTreeMap<&'a str, &'a Link>;

pub(super) fn plan(
    target: &Target,
    links: &Links<'_>,
    (rules_now, dhcp): (&BTreeMap<Rule, u8>, &Leases),
    steps: &mut Vec<Step>,
) -> Result<(), PlanError> {
    let none = Link::default();
    let mut later = Vec::new();
    let all = links.values().flat_map(|link| &link.addresses);
    let ours: BTreeSet<IpAddr> = all.map(|address| address.net.addr()).collect();
    for (name, wanted) in target.present() {
        let now = links.get(name).copied().unwrap_or(&none);
        let leased = &dhcp.addresses(name).collect();
        addresses(&OnLink { name, wanted, now, ours: &ours, leased }, steps, &mut later);
    }
    if target.takes_over {
        in_the_way(target, links, &mut later);
    }
    let mut routes = Routes::of(links, target);
    for (name, wanted) in target.present() {
        for (index, route) in wanted.routes.iter().enumerate() {
            routes.add(Place { name, wanted, index }, route, target, steps)?;
        }
    }
    rules(target, rules_now, steps);
    for (name, wanted) in target.present().filter(|(_, wanted)| wanted.origin != Origin::Beside) {
        // Others send through the loopback interface to drop packets, or to announce a network.
        for route in routes.left(name).filter(|_| name != LOOPBACK) {
            // A client with other settings sets its routes again.
            let ended = dhcp.links.get(name).is_some_and(|lease| wanted.dhcp.as_ref() != Some(&lease.told));
            if route.is_static() || gives_up(wanted) || (ended && route.protocol == PROTOCOL_DHCP) {
                steps.push(Step::RemoveRoute { link: name.to_owned(), route: route.clone() });
            }
        }
    }
    steps.append(&mut later);
    Ok(())
}

/// Once the tables are filled that they lead to, and before old ones are emptied.
fn rules(target: &Target, now: &BTreeMap<Rule, u8>, steps: &mut Vec<Step>) {
    for (rule, (protocol, _)) in target.rules.iter().filter(|(rule, _)| !now.contains_key(rule)) {
        steps.push(Step::AddRule { rule: Box::new(rule.clone()), protocol: *protocol });
    }
    for rule in &target.rules_gone {
        if let Some(protocol) = now.get(rule) {
            steps.push(Step::RemoveRule { rule: Box::new(rule.clone()), protocol: *protocol });
        }
    }
}

/// A bridge's member hands all packets to the bridge: an address or route of its own would only interfere
/// with the bridge's, whatever its origin.
fn gives_up(wanted: &LinkTarget) -> bool {
    let member = wanted.attach != Attach::None && !matches!(wanted.kind, LinkKind::OvsInternal { .. });
    member && wanted.origin == Origin::Document
}

/// Addresses of other links in the networks of the wanted ones: the kernel would go on sending through
/// those links.
fn in_the_way(target: &Target, links: &Links<'_>, later: &mut Vec<Step>) {
    let wanted = target.present().flat_map(|(_, wanted)| &wanted.addresses);
    let networks: BTreeSet<IpNet> = wanted.map(|address| address.net.trunc()).collect();
    for (name, link) in links.iter().filter(|(name, _)| !target.links.contains_key(**name)) {
        for address in link.addresses.iter().filter(|address| networks.contains(&address.net.trunc())) {
            later.push(Step::RemoveAddress { link: (*name).to_owned(), address: *address });
        }
    }
}

/// A link, with the addresses of the whole host.
struct OnLink<'a> {
    name: &'a str,
    wanted: &'a LinkTarget,
    now: &'a Link,
    ours: &'a BTreeSet<IpAddr>,
    /// Addresses from a client that serves this link.
    leased: &'a BTreeSet<IpAddr>,
}

impl OnLink<'_> {
    fn add(&self, address: &Address) -> Step {
        let moved = self.ours.contains(&address.net.addr());
        Step::AddAddress { link: self.name.to_owned(), address: *address, moved }
    }

    fn remove(&self, address: &Address) -> Step {
        Step::RemoveAddress { link: self.name.to_owned(), address: *address }
    }
}

/// Plans one link's addresses.
///
/// New addresses are added first, old ones removed last. But the kernel removes the secondary addresses of a
/// network with its first one, and keeps an IPv6 address only once. Where this prevents the order, a network
/// is made again, see [`rebuild`].
fn addresses(on: &OnLink<'_>, steps: &mut Vec<Step>, later: &mut Vec<Step>) {
    let OnLink { wanted, now, .. } = *on;
    let keep: BTreeSet<&Address> = wanted.addresses.iter().collect();
    // A link that goes down loses its IPv6 addresses.
    let stays = |address: &&Address| address.net.addr().is_ipv4() || wanted.up != Some(false) || !now.up;
    let has: BTreeSet<&Address> = now.addresses.iter().filter(stays).collect();
    let old: Vec<&Address> =
        now.addresses.iter().filter(|address| !keep.contains(address) && goes(address, on)).collect();
    let mut anew: BTreeSet<IpNet> = BTreeSet::new();
    for address in &old {
        let network = address.net.trunc();
        let shared = wanted.addresses.iter().any(|other| other.net.trunc() == network);
        if address.net.addr().is_ipv4() && shared {
            anew.insert(network);
            continue;
        }
        let once = wanted.addresses.iter().any(|other| other.net.addr() == address.net.addr());
        if once && address.net.addr().is_ipv6() {
            steps.push(on.remove(address));
        } else {
            later.push(on.remove(address));
        }
    }
    if wanted.origin == Origin::Before {
        anew.extend(out_of_order(wanted, now));
    }
    let missing = |address: &&Address| !anew.contains(&address.net.trunc()) && !has.contains(address);
    // An IPv6 address that changes its prefix length or its flags was just removed.
    steps.extend(wanted.addresses.iter().filter(missing).map(|address| on.add(address)));
    let stays =
        |address: &&Address| !anew.contains(&address.net.trunc()) && wanted.runs_out(address, on.leased, now);
    let keep = |address: &Address| Step::KeepAddress { link: on.name.to_owned(), address: *address };
    steps.extend(wanted.addresses.iter().filter(stays).map(keep));
    rebuild(on, &anew, &old, steps);
}

/// Whether an unwanted address is removed: addresses of the kernel itself and of routers stay.
fn goes(address: &Address, on: &OnLink<'_>) -> bool {
    let OnLink { wanted, now, leased, .. } = *on;
    let ip = address.net.addr();
    match wanted.origin {
        Origin::Beside => false,
        _ if leased.contains(&ip) => !wanted.dhcp.as_ref().is_some_and(|told| told.leases(ip)),
        Origin::Document if address.is_kernels_own() => false,
        Origin::Document => !address.given || gives_up(wanted),
        Origin::Before => !address.given && !address.is_of_mac(now.mac.as_deref()),
    }
}

/// The IPv4 networks whose first address, which the kernel uses as source, would change.
fn out_of_order(wanted: &LinkTarget, now: &Link) -> BTreeSet<IpNet> {
    let is_v4 = |address: &&Address| address.net.addr().is_ipv4();
    let mut order: BTreeMap<IpNet, Vec<&Address>> = BTreeMap::new();
    for address in wanted.addresses.iter().filter(is_v4) {
        order.entry(address.net.trunc()).or_default().push(address);
    }
    let disordered = |(network, order): (IpNet, Vec<&Address>)| {
        let there: Vec<&Address> = now.addresses.iter().filter(|address| order.contains(address)).collect();
        (!order.starts_with(&there)).then_some(network)
    };
    order.into_iter().filter_map(disordered).collect()
}

/// Makes IPv4 networks again: removes old addresses, and adds the wanted ones in order. Existing wanted
/// addresses are held as a /32 meanwhile, so that they answer all the time. At least one is held, since the
/// kernel drops a link's routes with its last address.
fn rebuild(on: &OnLink<'_>, networks: &BTreeSet<IpNet>, old: &[&Address], steps: &mut Vec<Step>) {
    let OnLink { wanted, now, .. } = *on;
    let inside = |address: &&Address| networks.contains(&address.net.trunc());
    let wanted: Vec<&Address> = wanted.addresses.iter().filter(inside).collect();
    let is_there =
        |address: &&&Address| now.addresses.iter().any(|other| other.net.addr() == address.net.addr());
    let none = !wanted.iter().any(|address| is_there(&address));
    let held = wanted.iter().filter(is_there).chain(wanted.first().filter(|_| none));
    let holds: Vec<Address> = held
        .map(|address| Address::plain(IpNet::from(address.net.addr())))
        .filter(|hold| !now.addresses.iter().any(|address| address.net == hold.net))
        .collect();
    steps.extend(holds.iter().map(|address| on.add(address)));
    let there = now.addresses.iter().filter(inside);
    let goes = there.filter(|address| old.contains(address) || wanted.contains(address));
    steps.extend(goes.map(|address| on.remove(address)));
    steps.extend(wanted.iter().map(|address| on.add(address)));
    steps.extend(holds.iter().map(|address| on.remove(address)));
}

/// A wanted route's place.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    wanted: &'a LinkTarget,
    index: usize,
}

impl Place<'_> {
    fn path(&self) -> String {
        format!("{}.routes[{}]", self.wanted.path, self.index)
    }
}

/// The configured routes of the links in question, and competing routes of others, by the kernel's route key.
struct Routes<'a> {
    by_key: BTreeMap<RouteKey, Vec<(&'a str, &'a Route)>>,
    /// Wanted so far, and where.
    wanted: BTreeMap<RouteKey, Place<'a>>,
}

impl<'a> Routes<'a> {
    fn of(links: &Links<'a>, target: &Target) -> Self {
        let routes = target.present().flat_map(|(_, wanted)| &wanted.routes);
        let keys: BTreeSet<RouteKey> = routes.map(Route::key).collect();
        let mut by_key: BTreeMap<RouteKey, Vec<(&str, &Route)>> = BTreeMap::new();
        for (&name, &link) in links {
            let in_question = target.links.contains_key(name);
            for route in link.routes.iter().filter(|route| in_question || keys.contains(&route.key())) {
                // Two routes with one key are rare.
                by_key.entry(route.key()).or_insert_with(|| Vec::with_capacity(1)).push((name, route));
            }
        }
        Self { by_key, wanted: BTreeMap::new() }
    }

    /// Adds a route unless it exists. The kernel keeps only one route per key. An existing route with the key
    /// is replaced if it belongs to a link in question, or took the place of a route that was there before;
    /// otherwise the document is refused.
    fn add(
        &mut self,
        place: Place<'a>,
        route: &Route,
        target: &Target,
        steps: &mut Vec<Step>,
    ) -> Result<(), PlanError> {
        let Place { name, wanted: LinkTarget { origin, .. }, .. } = place;
        if let Some(other) = self.wanted.get(&route.key()) {
            if other.wanted.origin == Origin::Document || *origin == Origin::Document {
                return Err(wanted_twice(route, [(other.name, other.path()), (name, place.path())]));
            }
            // Two routes with one key were appended by hand: the second stays as long as nobody removes it.
            self.by_key.entry(route.key()).or_default().retain(|there| *there != (name, route));
            return Ok(());
        }
        let present = self.by_key.remove(&route.key()).unwrap_or_default();
        if *origin == Origin::Beside && !present.is_empty() && !goes_with(&present, target) {
            self.by_key.insert(route.key(), present);
            return Ok(());
        }
        self.wanted.insert(route.key(), place);
        let is_there = |(link, other): &(&str, &Route)| {
            *link == name && if *origin == Origin::Document { other.same(route) } else { *other == route }
        };
        let (there, in_the_way): (Vec<_>, Vec<_>) = present.into_iter().partition(is_there);
        if *origin == Origin::Before && !there.is_empty() {
            self.by_key.insert(route.key(), in_the_way);
            return Ok(());
        }
        for (link, other) in &in_the_way {
            if *origin == Origin::Document && !target.takes_over && !target.links.contains_key(*link) {
                let problem = format!(
                    "the route {other} dev {link} is there already, and {link} is not in the document; \
                     give this route a metric or table of its own"
                );
                return Err(PlanError { path: place.path(), problem });
            }
        }
        let (link, route) = (name.to_owned(), route.clone());
        let mut in_the_way = in_the_way.into_iter();
        if there.is_empty()
            && let Some((old_link, old)) = in_the_way.next()
        {
            let (old_link, old) = (old_link.to_owned(), Box::new(old.clone()));
            steps.push(Step::ReplaceRoute { link, route: Box::new(route), old_link, old });
        } else if there.is_empty() {
            steps.push(Step::AddRoute { link, route });
        }
        let rest = in_the_way.map(|(link, route)| (link.to_owned(), route.clone()));
        steps.extend(rest.map(|(link, route)| Step::RemoveRoute { link, route }));
        Ok(())
    }

    /// The routes of a link that no wanted route has replaced.
    fn left(&self, name: &str) -> impl Iterator<Item = &'a Route> {
        self.by_key.values().flatten().filter(move |(link, _)| *link == name).map(|(_, route)| *route)
    }
}

/// Whether each of the routes belongs to a link that a document decided about, and so is removed or
/// restored itself.
fn goes_with(routes: &[(&str, &Route)], target: &Target) -> bool {
    use super::super::wanted::Wanted;
    routes.iter().all(|(link, _)| match target.links.get(*link) {
        None => false,
        Some(Wanted::Absent) => true,
        Some(Wanted::Present(wanted)) => wanted.origin == Origin::Before,
    })
}

/// A document has no route twice, so one of the two is from a link's earlier state.
fn wanted_twice(route: &Route, places: [(&str, String); 2]) -> PlanError {
    let [one, other] = places;
    let (returning, written) = if one.1.starts_with("before.") { (one, other) } else { (other, one) };
    let link = returning.0;
    let problem = format!(
        "the route {route} is the one that {link} had before and gets back, since the document does not name it; \
         name {link} in the document, or give this route a metric or table of its own"
    );
    PlanError { path: written.1, problem }
}
