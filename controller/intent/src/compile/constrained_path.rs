//! Decides the path between two devices that meets an intent's constraints: which links may be on
//! it, and which constraint, such as bandwidth, leaves no path.
//!
//! Absent: what each link has left (`reservations.rs`), and the search (`path_search.rs`).

use crate::compile::{CompileError, Compiler};
use crate::intent::{Constraints, LinkTypes};
use crate::path_search::{self, Closed, Path};
use crate::reservations::{Holder, Ledger};
use crate::topology::{DeviceNo, LinkNo, Topology};

/// Number of next cheapest paths that are tried before the fastest one is taken.
const ALTERNATIVES: usize = 8;
/// The annotation with a link's type.
const TYPE: &str = "type";

impl Compiler<'_> {
    /// The cheapest path that meets all constraints.
    pub(super) fn route(
        &mut self,
        wanted: &Constraints,
        holder: &Holder,
        from: DeviceNo,
        to: DeviceNo,
    ) -> Result<Path, CompileError> {
        let topology = self.topology;
        if *wanted == Constraints::default() {
            // Without constraints no constraint can be at fault.
            return match self.trees.cheapest(topology, from, to) {
                Some(path) => Ok(path),
                None => {
                    let closed = self.trees.closed(topology, from);
                    Err(self.no_path_with(from, to, String::new(), closed))
                }
            };
        }
        let gate = self.gate(wanted, holder);
        if !wanted.waypoints.is_empty() {
            let path = self.by_waypoints(wanted, holder, from, to)?;
            return self.fast_enough(wanted, path, from, to);
        }
        let found = self.trees.cheapest_open(topology, from, to, &|link| gate.permits(link));
        let cheapest = found.map_err(|closed| self.no_path(wanted, holder, from, to, closed))?;
        let Some(most) = wanted.latency else { return Ok(cheapest) };
        if latency(topology, &cheapest) <= most {
            return Ok(cheapest);
        }
        let cost = |link: LinkNo| gate.permits(link).then(|| topology.cost(link).into());
        let few = path_search::cheapest_few(topology, from, to, &cost, ALTERNATIVES);
        if let Some(path) = few.into_iter().find(|path| latency(topology, path) <= most) {
            return Ok(path);
        }
        let time = |link: LinkNo| cost(link).and_then(|_: u64| topology.latency(link));
        let fastest = path_search::cheapest(topology, from, to, &time);
        self.fast_enough(wanted, fastest.unwrap_or(cheapest), from, to)
    }

    /// A path in each direction: over the same cables if a path is open both ways, else independent ones. With `asymmetric`
    /// they are independent in any case.
    pub(super) fn two_ways(
        &mut self,
        wanted: &Constraints,
        holder: &Holder,
        from: DeviceNo,
        to: DeviceNo,
    ) -> Result<[Path; 2], CompileError> {
        let topology = self.topology;
        let there = self.route(wanted, holder, from, to)?;
        let gate = self.gate(wanted, holder);
        let returns = |link: LinkNo| {
            let back = topology.back(link).filter(|back| topology.passes(*back))?;
            gate.permits(back).then_some(back)
        };
        let reversed = |path: &Path| path.iter().rev().map(|link| returns(*link)).collect::<Option<Path>>();
        let is_fast = |path: &Path| wanted.latency.is_none_or(|most| latency(topology, path) <= most);
        if !wanted.asymmetric
            && let Some(back) = reversed(&there).filter(is_fast)
        {
            return Ok([there, back]);
        }
        if !wanted.asymmetric && wanted.waypoints.is_empty() {
            let open = |link: LinkNo| gate.permits(link) && returns(link).is_some();
            let found = self.trees.cheapest_open(topology, from, to, &open).ok().filter(is_fast);
            let back = found.as_ref().and_then(reversed).filter(is_fast);
            if let (Some(found), Some(back)) = (found, back) {
                return Ok([found, back]);
            }
        }
        let mut other_way = wanted.clone();
        other_way.waypoints.reverse();
        let back = self.route(&other_way, holder, to, from)?;
        Ok([there, back])
    }

    fn fast_enough(
        &self,
        wanted: &Constraints,
        path: Path,
        from: DeviceNo,
        to: DeviceNo,
    ) -> Result<Path, CompileError> {
        let fastest = latency(self.topology, &path);
        match wanted.latency {
            Some(wanted) if fastest > wanted => {
                let [from, to] = [from, to].map(|device| self.topology.device_name(device).clone());
                Err(CompileError::TooSlow { from, to, fastest, wanted })
            }
            Some(_) | None => Ok(path),
        }
    }

    /// Two paths that share no link. `None` for the second if there is only one path.
    pub(super) fn two_routes(
        &mut self,
        wanted: &Constraints,
        holder: &Holder,
        from: DeviceNo,
        to: DeviceNo,
    ) -> Result<(Path, Option<Path>), CompileError> {
        let gate = self.gate(wanted, holder);
        let cost = |link: LinkNo| gate.permits(link).then(|| self.topology.cost(link).into());
        if let Some((first, second)) = path_search::disjoint(self.topology, from, to, &cost) {
            let most = wanted.latency.unwrap_or(u64::MAX);
            if [&first, &second].iter().all(|path| latency(self.topology, path) <= most) {
                return Ok((first, Some(second)));
            }
        }
        self.route(wanted, holder, from, to).map(|path| (path, None))
    }

    /// The path leg by leg. A device on one leg is closed to later ones.
    fn by_waypoints(
        &mut self,
        wanted: &Constraints,
        holder: &Holder,
        from: DeviceNo,
        to: DeviceNo,
    ) -> Result<Path, CompileError> {
        let mut stops = vec![from];
        for name in &wanted.waypoints {
            let device = self.topology.device(name).ok_or_else(|| CompileError::NoDevice(name.clone()))?;
            stops.push(device);
        }
        stops.push(to);
        // A waypoint that is an end is passed there.
        stops.dedup();
        let mut tries = ALTERNATIVES * stops.len();
        self.legs(wanted, holder, &stops, &mut vec![from], &mut tries)
            .ok_or_else(|| self.no_path(wanted, holder, from, to, None))
    }

    fn legs(
        &self,
        wanted: &Constraints,
        holder: &Holder,
        stops: &[DeviceNo],
        passed: &mut Vec<DeviceNo>,
        tries: &mut usize,
    ) -> Option<Path> {
        let [from, to, ..] = *stops else { return Some(Path::new()) };
        let later = stops.get(2..).unwrap_or_default();
        let closed = |device: DeviceNo| device != to && (passed.contains(&device) || later.contains(&device));
        if passed.contains(&to) {
            return None;
        }
        let gate = self.gate(wanted, holder);
        let cost = |link: LinkNo| {
            let is_open = !closed(self.topology.devices_of(link).1) && gate.permits(link);
            is_open.then(|| self.topology.cost(link).into())
        };
        let legs = path_search::cheapest_few(self.topology, from, to, &cost, ALTERNATIVES);
        for leg in legs {
            *tries = tries.checked_sub(1)?;
            let before = passed.len();
            passed.extend(leg.iter().map(|link| self.topology.devices_of(*link).1));
            if let Some(rest) = self.legs(wanted, holder, &stops[1..], passed, tries) {
                return Some([leg, rest].concat());
            }
            passed.truncate(before);
        }
        None
    }

    /// The links that a path may use.
    pub(super) fn gate<'g>(&self, wanted: &'g Constraints, holder: &'g Holder) -> Gate<'g>
    where
        Self: 'g,
    {
        Gate { topology: self.topology, ledger: self.ledger, wanted, holder }
    }

    /// The reason why there is no path: the first constraint without which, and without those
    /// before it, there is a path.
    fn no_path(
        &mut self,
        wanted: &Constraints,
        holder: &Holder,
        from: DeviceNo,
        to: DeviceNo,
        closed: Closed,
    ) -> CompileError {
        let less: [(&str, LeaveOut); 7] = [
            ("the waypoints", |wanted| wanted.waypoints.clear()),
            ("the bandwidth", |wanted| wanted.bandwidth = None),
            ("a known latency", |wanted| wanted.latency = None),
            ("the link type", |wanted| wanted.link_types = None),
            ("the annotations", |wanted| wanted.annotations.clear()),
            ("the obstacles", |wanted| {
                wanted.obstacles.clear();
                wanted.obstacle_links.clear();
            }),
            ("", |_| ()),
        ];
        let mut left = wanted.clone();
        let mut with = String::new();
        for (name, leave_out) in less {
            let before = left.clone();
            leave_out(&mut left);
            if !name.is_empty() && before == left {
                continue;
            }
            let gate = self.gate(&left, holder);
            let found = self.trees.cheapest_open(gate.topology, from, to, &|link| gate.permits(link));
            if found.is_ok() {
                with = format!(" with {name} asked for; there is one without");
                break;
            }
        }
        self.no_path_with(from, to, with, closed)
    }

    fn no_path_with(&self, from: DeviceNo, to: DeviceNo, with: String, closed: Closed) -> CompileError {
        let [from, to] = [from, to].map(|device| self.topology.device_name(device).clone());
        CompileError::NoPath { from, to, with, closed }
    }
}

/// Decides which links the paths of an intent may use.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    pub topology: &'a Topology,
    pub ledger: &'a Ledger,
    pub wanted: &'a Constraints,
    pub holder: &'a Holder,
}

impl Gate<'_> {
    /// Whether a path may use a link over which packets pass.
    pub fn permits(&self, link: LinkNo) -> bool {
        let Self { topology, ledger, wanted, holder } = *self;
        if wanted.bandwidth.is_some_and(|wanted| !ledger.offers(topology, link, holder, wanted)) {
            return false;
        }
        // A link of unknown latency may take any time.
        if wanted.latency.is_some() && topology.latency(link).is_none() {
            return false;
        }
        if !wanted.obstacles.is_empty() {
            let (from, to) = topology.devices_of(link);
            let is_obstacle = |device| wanted.obstacles.contains(topology.device_name(device));
            if is_obstacle(from) || is_obstacle(to) {
                return false;
            }
        }
        if !wanted.obstacle_links.is_empty() {
            let (from, to) = topology.ends(link);
            if wanted.obstacle_links.contains(&(topology.point(from), topology.point(to))) {
                return false;
            }
        }
        let own = |name| topology.annotation(link, name);
        if !wanted.annotations.iter().all(|(name, most)| own(name).is_some_and(|value| most.admits(value))) {
            return false;
        }
        let Some(types) = &wanted.link_types else { return true };
        let own = own(TYPE);
        match types {
            LinkTypes::Only(types) => own.is_some_and(|own| types.contains(own)),
            LinkTypes::Without(types) => own.is_none_or(|own| !types.contains(own)),
        }
    }
}

/// Removes one constraint.
type LeaveOut = fn(&mut Constraints);

/// Nanoseconds of a path. A link of unknown latency counts as nothing.
fn latency(topology: &Topology, path: &[LinkNo]) -> u64 {
    path.iter().filter_map(|link| topology.latency(*link)).fold(0, u64::saturating_add)
}
