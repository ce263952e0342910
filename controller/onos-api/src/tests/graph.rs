//! Paths and clusters of a small network.

use muster_api::intent::{BridgeView, LinkView, Point, TopologyView};

use crate::graph::{clusters, shortest};

/// Bridges of these names, and links both ways between pairs; those with `false` are down.
fn network(bridges: &[&str], links: &[(&str, &str, bool)]) -> TopologyView {
    let bridge = |name: &&str| BridgeView { device: (*name).to_owned(), up: true, ..BridgeView::default() };
    let point = |device: &str, port: &str| Point { device: device.to_owned(), port: port.to_owned() };
    let link = |from: &str, to: &str, up| LinkView {
        from: point(from, to),
        to: point(to, from),
        up,
        ..LinkView::default()
    };
    TopologyView {
        devices: bridges.iter().map(bridge).collect(),
        links: links.iter().flat_map(|(a, b, up)| [link(a, b, *up), link(b, a, *up)]).collect(),
        ..TopologyView::default()
    }
}

fn ways(network: &TopologyView, from: &str, to: &str) -> Vec<String> {
    let way = |links: Vec<&LinkView>| {
        let first = links.first().map(|link| link.from.device.clone());
        first.into_iter().chain(links.iter().map(|link| link.to.device.clone())).collect::<Vec<_>>().join(" ")
    };
    let mut all: Vec<String> = shortest(network, from, to).into_iter().map(way).collect();
    all.sort();
    all
}

#[test]
fn the_shortest_paths_are_all_of_that_length() {
    let ring = network(
        &["a", "b", "c", "d"],
        &[("a", "b", true), ("b", "d", true), ("a", "c", true), ("c", "d", true)],
    );
    assert_eq!(ways(&ring, "a", "d"), ["a b d", "a c d"]);
    assert_eq!(ways(&ring, "d", "b"), ["d b"]);
    assert_eq!(ways(&ring, "a", "a"), [""; 0]);
    let cut = network(
        &["a", "b", "c", "d"],
        &[("a", "b", true), ("b", "d", false), ("a", "c", true), ("c", "d", true)],
    );
    assert_eq!(ways(&cut, "a", "d"), ["a c d"]);
    assert_eq!(ways(&network(&["a", "b"], &[("a", "b", false)]), "a", "b"), [""; 0]);
    // Very many ways of one length: some of them.
    let names: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
    let all: Vec<&str> = ["a", "z"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let links: Vec<(&str, &str, bool)> =
        names.iter().flat_map(|name| [("a", name.as_str(), true), (name.as_str(), "z", true)]).collect();
    assert_eq!(shortest(&network(&all, &links), "a", "z").len(), 32);
}

#[test]
fn clusters_are_what_hangs_together() {
    let two = network(&["a", "b", "c", "d"], &[("a", "c", true), ("b", "d", true), ("a", "b", false)]);
    assert_eq!(clusters(&two), [vec!["a", "c"], vec!["b", "d"]]);
    assert_eq!(clusters(&TopologyView::default()), Vec::<Vec<&str>>::new());
}
