//! Random networks: packets arrive at every moment of a move from one path to another.

use proptest::prelude::*;

use super::*;
use crate::compile::Compiler;
use crate::path_search::{Trees, cheapest, disjoint};
use crate::reservations::{Holder, Ledger};
use crate::stages::stages;

const DEVICES: usize = 9;

/// Cables with costs between nine devices, which a line connects.
fn cables() -> impl Strategy<Value = String> {
    let more = prop::collection::btree_map((0..DEVICES, 0..DEVICES), 1..6_u32, 0..12);
    more.prop_map(|more| {
        let mut all: std::collections::BTreeMap<(usize, usize), u32> =
            (1..DEVICES).map(|at| ((at - 1, at), 3)).collect();
        all.extend(more.into_iter().filter(|((a, b), _)| a < b));
        all.into_iter().map(|((a, b), cost)| format!("n{a}-n{b}={cost} ")).collect()
    })
}

fn entries(topology: &Topology, intent: &Intent) -> Option<Vec<(DeviceNo, Entry)>> {
    let (ledger, mut trees) = (Ledger::default(), Trees::default());
    let mut compiler = Compiler { topology, ledger: &ledger, trees: &mut trees };
    compiler.compile(intent, "key", &Holder::Intent("key".into()), 1).ok().map(|made| made.entries)
}

fn arrives(plane: &Plane, topology: &Topology, to: &str) {
    assert_eq!(plane.walk(topology, &at("n0:h1")), Fate::Out([to.to_owned()].into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn packets_arrive_while_a_path_moves(
        cables in cables(),
        avoid in prop::collection::btree_set(1..DEVICES - 1, 0..4),
        again in prop::collection::btree_set(1..DEVICES - 1, 0..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 40),
        vlan in any::<bool>(),
        priorities in (100..102_u16, 100..102_u16),
    ) {
        let topology = network(&cables);
        let to = format!("n{}:h1", DEVICES - 1);
        let intent = |avoid: &BTreeSet<usize>, priority| {
            let obstacles = avoid.iter().map(|number| at(&format!("n{number}:h1")).device).collect();
            let constraints = Constraints { obstacles, vlan, ..Constraints::default() };
            Intent { priority, ..from_to("n0:h1", &to, constraints) }
        };
        let old = entries(&topology, &intent(&avoid, priorities.0));
        let found = (old, entries(&topology, &intent(&again, priorities.1)));
        let (Some(old), Some(new)) = found else { return Ok(()) };
        let mut plane = Plane(old.clone());
        arrives(&plane, &topology, &to);
        let mut order = order.into_iter();
        for stage in stages(&topology, &old, &[], &new) {
            let mut writes: Vec<(DeviceNo, Vec<Step>)> = Vec::new();
            for step in stage {
                let device = step.place().0;
                match writes.iter_mut().find(|(of, _)| *of == device) {
                    Some((_, write)) => write.push(step),
                    None => writes.push((device, vec![step])),
                }
            }
            // Devices of one stage apply their steps in any order, each device at once.
            while !writes.is_empty() {
                let next = order.next().map_or(0, |index| index.index(writes.len()));
                writes.remove(next).1.iter().for_each(|step| plane.apply(step));
                arrives(&plane, &topology, &to);
            }
        }
        let mut left = plane.0;
        left.retain(|held| !new.contains(held));
        prop_assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn two_paths_are_disjoint_and_as_cheap_as_any_two(cables in cables()) {
        let topology = network(&cables);
        let [from, to] = [0, DEVICES - 1].map(|number| topology.device(&at(&format!("n{number}:h1")).device).unwrap());
        let cost = |link| Some(u64::from(topology.cost(link)));
        let sum = |path: &[LinkNo]| path.iter().map(|link| (u64::from(topology.cost(*link)) << 20) + 1).sum::<u64>();
        // The expected pair by trial: each path without one cable of the cheapest, with the
        // cheapest path that this leaves.
        let without = |used: &[LinkNo]| {
            let open = |link| {
                let is_used = used.contains(&link) || topology.back(link).is_some_and(|back| used.contains(&back));
                (!is_used).then(|| u64::from(topology.cost(link)))
            };
            cheapest(&topology, from, to, &open)
        };
        let best = crate::path_search::cheapest_few(&topology, from, to, &cost, 200)
            .iter()
            .filter_map(|one| Some(sum(one) + sum(&without(one)?)))
            .min();
        let found = disjoint(&topology, from, to, &cost);
        prop_assert_eq!(found.as_ref().map(|(one, other)| sum(one) + sum(other)), best);
        if let Some((one, other)) = found {
            for link in &one {
                prop_assert!(!other.contains(link));
                prop_assert!(topology.back(*link).is_none_or(|back| !other.contains(&back)));
            }
            for path in [&one, &other] {
                prop_assert_eq!(topology.devices_of(path[0]).0, from);
                prop_assert_eq!(topology.devices_of(path[path.len() - 1]).1, to);
                prop_assert!(path.windows(2).all(|two| topology.devices_of(two[0]).1 == topology.devices_of(two[1]).0));
            }
        }
    }

    #[test]
    fn a_search_that_is_guided_finds_what_a_blind_one_does(
        cables in cables(),
        shut in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ends in (0..DEVICES, 0..DEVICES),
    ) {
        let topology = network(&cables);
        let links: Vec<LinkNo> = topology.known_links().collect();
        let shut: BTreeSet<LinkNo> = shut.into_iter().map(|index| links[index.index(links.len())]).collect();
        let device = |number: usize| topology.device(&at(&format!("n{number}:h1")).device).expect("a device");
        let (from, to) = (device(ends.0), device(ends.1));
        let cost = |link: LinkNo| u64::from(topology.cost(link));
        let blind = cheapest(&topology, from, to, &|link| (!shut.contains(&link)).then(|| cost(link)));
        match (Trees::default().cheapest_open(&topology, from, to, &|link| !shut.contains(&link)), blind) {
            (Ok(found), Some(blind)) => {
                let mut at = from;
                for link in &found {
                    prop_assert!(!shut.contains(link));
                    prop_assert_eq!(topology.devices_of(*link).0, at);
                    at = topology.devices_of(*link).1;
                }
                prop_assert_eq!(at, to);
                let weighs = |path: &[LinkNo]| (path.iter().map(|link| cost(*link)).sum::<u64>(), path.len());
                prop_assert_eq!(weighs(&found), weighs(&blind));
            }
            (Err(Some(closed)), None) => {
                // Without these links there is no path in any case.
                let without = |link: LinkNo| (!closed.contains(&link)).then_some(1);
                prop_assert_eq!(cheapest(&topology, from, to, &without), None);
                prop_assert!(closed.iter().all(|link| shut.contains(link)));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
