use super::*;
use crate::path_search::{Trees, cheapest, cheapest_few, disjoint};

fn device(topology: &Topology, name: &str) -> DeviceNo {
    topology.device(&at(&format!("{name}:h1")).device).expect("a device")
}

#[test]
fn the_cheapest_path_is_found() {
    for (cables, from, to, wanted) in [
        ("a-b b-c a-c=3", "a", "c", Some("a b c")),
        ("a-b b-c a-c=2", "a", "c", Some("a c")),
        ("a-b c-d", "a", "d", None),
        ("a-b b-c c-d d-a", "a", "a", Some("")),
    ] {
        let topology = network(cables);
        let (from, to) = (device(&topology, from), device(&topology, to));
        let cost = |link| Some(u64::from(topology.cost(link)));
        let found = cheapest(&topology, from, to, &cost).map(|path| shown(&topology, &path));
        assert_eq!(found.as_deref(), wanted, "{cables}");
        let by_tree = Trees::default().cheapest(&topology, from, to);
        let costs = |path: &[LinkNo]| path.iter().map(|link| topology.cost(*link)).sum::<u32>();
        let found = cheapest(&topology, from, to, &cost);
        assert_eq!(by_tree.as_deref().map(costs), found.as_deref().map(costs), "{cables}");
    }
}

#[test]
fn a_link_that_is_down_is_not_used_and_trees_know() {
    let mut topology = network("a-b b-c a-c=3");
    let (a, c) = (device(&topology, "a"), device(&topology, "c"));
    let mut trees = Trees::default();
    assert_eq!(shown(&topology, &trees.cheapest(&topology, a, c).expect("a path")), "a b c");
    topology.set_port(&at("b:c"), false).expect("a port");
    assert_eq!(shown(&topology, &trees.cheapest(&topology, a, c).expect("a path")), "a c");
    topology.set_device(&at("c:h1").device, false).expect("a device");
    assert_eq!(trees.cheapest(&topology, a, c), None);
}

#[test]
fn the_next_cheapest_come_in_order() {
    let topology = network("a-b b-d a-c=2 c-d=2 a-d=9");
    let (a, d) = (device(&topology, "a"), device(&topology, "d"));
    let cost = |link| Some(u64::from(topology.cost(link)));
    let found: Vec<_> =
        cheapest_few(&topology, a, d, &cost, 5).iter().map(|path| shown(&topology, path)).collect();
    assert_eq!(found, ["a b d", "a c d", "a d"]);
}

#[test]
fn two_paths_are_disjoint_even_if_the_cheapest_is_in_the_way() {
    // The trap: the cheapest path a b c d leaves no second one, but two other paths are disjoint.
    let topology = network("a-b b-c c-d a-c=5 b-d=5");
    let (a, d) = (device(&topology, "a"), device(&topology, "d"));
    let cost = |link| Some(u64::from(topology.cost(link)));
    let (one, other) = disjoint(&topology, a, d, &cost).expect("two");
    let found = BTreeSet::from([shown(&topology, &one), shown(&topology, &other)]);
    assert_eq!(found, BTreeSet::from(["a b d".to_owned(), "a c d".to_owned()]));
    let topology = network("a-b b-c c-d");
    let (a, d) = (device(&topology, "a"), device(&topology, "d"));
    assert_eq!(disjoint(&topology, a, d, &|_| Some(1)), None);
}

#[test]
fn what_is_in_the_way_is_found_from_either_end() {
    let spines = |ends: [&str; 2]| -> String {
        (0..40).flat_map(|spine| ends.map(|leaf| format!("{leaf}-s{spine} "))).collect()
    };
    let topology = network(&(spines(["a", "z"]) + "a-b c-d"));
    let (from, to) = (device(&topology, "a"), device(&topology, "z"));
    let led = |to: &str| -> BTreeSet<LinkNo> {
        (0..40).map(|spine| link(&topology, &format!("s{spine}"), to)).collect()
    };
    let left: BTreeSet<LinkNo> = (0..40).map(|spine| link(&topology, "a", &format!("s{spine}"))).collect();
    for shut in [led("z"), left] {
        let found = Trees::default().cheapest_open(&topology, from, to, &|link| !shut.contains(&link));
        let closed = found.expect_err("no path").expect("not too many");
        assert_eq!(closed.iter().copied().collect::<BTreeSet<_>>(), shut);
    }
    // No cable leads to the end at all, so any new one may help.
    let mut trees = Trees::default();
    assert_eq!(trees.cheapest(&topology, from, device(&topology, "c")), None);
    assert_eq!(trees.closed(&topology, from), Some([].into()));
    let ways = Trees::default().cheapest_open(&topology, from, device(&topology, "d"), &|_| true);
    assert_eq!(ways, Err(Some([].into())));
}
