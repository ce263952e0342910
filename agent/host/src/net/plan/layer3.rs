//! Addresses and routes. Links that go keep theirs until they go, except where a route is in the way.

use std::collections::{BTreeMap, BTreeSet};

use super::super::state::{Address, Link, Route, RouteKey, State};
use super::super::step::Step;
use super::super::target::{LinkTarget, Target};
use super::PlanError;

pub(super) fn plan(target: &Target, state: &State, steps: &mut Vec<Step>) -> Result<(), PlanError> {
    let none = Link::default();
    let mut later = Vec::new();
    let mut flushed = BTreeSet::new();
    for (name, wanted) in target.present() {
        let now = state.links.get(name).unwrap_or(&none);
        if addresses(name, wanted, now, steps, &mut later) {
            flushed.insert(name);
        }
    }
    let mut routes = Routes::of(state);
    for (name, wanted) in target.present() {
        for (index, route) in wanted.routes.iter().enumerate() {
            let path = || format!("{}.routes[{index}]", wanted.path);
            let again = flushed.contains(name) && route.destination.addr().is_ipv4();
            routes.add(name, route, again, target, path, steps)?;
        }
    }
    for (name, _) in target.present() {
        for route in routes.left(name).filter(Route::is_static) {
            steps.push(Step::RemoveRoute { link: name.to_owned(), route });
        }
    }
    steps.append(&mut later);
    Ok(())
}

/// Plans one link's addresses; true if the kernel may drop the link's IPv4 routes on the way.
///
/// New ones come first, old ones go last. But the kernel removes the secondary addresses of a network with
/// its first one, so where an old address shares a network with a wanted one, the old goes at once and the
/// wanted ones of that network are added (again) after it.
fn addresses(
    name: &str,
    wanted: &LinkTarget,
    now: &Link,
    steps: &mut Vec<Step>,
    later: &mut Vec<Step>,
) -> bool {
    let link = name.to_owned();
    let keep: BTreeSet<&Address> = wanted.addresses.iter().collect();
    // A link that goes down loses its IPv6 addresses.
    let stays = |address: &&Address| address.net.addr().is_ipv4() || wanted.up || !now.up;
    let has: BTreeSet<&Address> = now.addresses.iter().filter(stays).collect();
    let networks: BTreeSet<_> = wanted.addresses.iter().map(|address| address.net.trunc()).collect();
    let mut again = BTreeSet::new();
    for address in now.addresses.iter().filter(|address| !keep.contains(address)) {
        // Those of the kernel itself stay.
        if address.is_link_local() {
            continue;
        }
        let step = Step::RemoveAddress { link: link.clone(), address: *address };
        let same_address = wanted.addresses.iter().any(|other| other.net.addr() == address.net.addr());
        if networks.contains(&address.net.trunc()) || same_address {
            steps.push(step);
            again.insert(address.net.trunc());
        } else {
            later.push(step);
        }
    }
    for address in &wanted.addresses {
        if !has.contains(address) || again.contains(&address.net.trunc()) {
            steps.push(Step::AddAddress { link: link.clone(), address: *address });
        }
    }
    !again.is_empty()
}

/// The static routes of all links by what the kernel keeps one route for.
struct Routes {
    by_key: BTreeMap<RouteKey, Vec<(String, Route)>>,
    /// Wanted so far: by which link, and where that is written.
    wanted: BTreeMap<RouteKey, (String, String)>,
}

impl Routes {
    fn of(state: &State) -> Self {
        let mut by_key: BTreeMap<RouteKey, Vec<(String, Route)>> = BTreeMap::new();
        for (name, link) in &state.links {
            for route in &link.routes {
                by_key.entry(route.key()).or_default().push((name.clone(), *route));
            }
        }
        Self { by_key, wanted: BTreeMap::new() }
    }

    /// Adds a route unless it is there. Another with its key is in the way: the kernel keeps one. It is
    /// removed right before if it is of a link in question, and refused otherwise.
    fn add(
        &mut self,
        name: &str,
        route: &Route,
        again: bool,
        target: &Target,
        path: impl Fn() -> String,
        steps: &mut Vec<Step>,
    ) -> Result<(), PlanError> {
        if let Some((other, other_path)) = self.wanted.insert(route.key(), (name.to_owned(), path())) {
            return Err(wanted_twice(route, [(&other, other_path), (name, path())]));
        }
        let present = self.by_key.remove(&route.key()).unwrap_or_default();
        let (there, in_the_way): (Vec<_>, Vec<_>) =
            present.into_iter().partition(|(link, other)| link == name && other.same(route));
        for (link, other) in in_the_way {
            if !target.links.contains_key(&link) {
                let problem = format!(
                    "the route {other} dev {link} is there already, and {link} is not in the document; \
                     give this route a metric or table of its own"
                );
                return Err(PlanError { path: path(), problem });
            }
            steps.push(Step::RemoveRoute { link, route: other });
        }
        if there.is_empty() || again {
            steps.push(Step::AddRoute { link: name.to_owned(), route: *route });
        }
        Ok(())
    }

    /// The routes of a link that no wanted route has replaced.
    fn left(&self, name: &str) -> impl Iterator<Item = Route> {
        self.by_key.values().flatten().filter(move |(link, _)| link == name).map(|(_, route)| *route)
    }
}

/// A document has no route twice, so one of the two is what a link had before.
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
