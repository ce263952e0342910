use std::collections::BTreeSet;

use super::*;

/// A number that looks random; the same each time.
fn noise(seed: usize) -> usize {
    let mut x = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for _ in 0..3 {
        x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    usize::try_from(x >> 33).unwrap()
}

/// Every node needs up to three earlier ones.
fn random(count: usize, seed: usize) -> Vec<(usize, usize)> {
    let edge = |to: usize, n: usize| (noise(seed + to * 7 + n) % to, to);
    let edges: BTreeSet<(usize, usize)> =
        (1..count).flat_map(|to| (0..noise(seed + to) % 4).map(move |n| edge(to, n))).collect();
    edges.into_iter().collect()
}

/// Pairs of arrows between the same two columns that cross.
fn crossings(layout: &Layout, edges: &[(usize, usize)]) -> usize {
    let mut parts = Vec::new();
    for ((from, to), bends) in edges.iter().zip(&layout.bends) {
        let mut stops = vec![layout.spots[*from]];
        stops.extend(bends);
        stops.push(layout.spots[*to]);
        parts.extend(stops.windows(2).map(|pair| (pair[0].column, pair[0].half_row, pair[1].half_row)));
    }
    let crossed = |a: (usize, usize, usize), b: (usize, usize, usize)| {
        a.0 == b.0 && (a.1 < b.1 && a.2 > b.2 || a.1 > b.1 && a.2 < b.2)
    };
    (0..parts.len()).map(|i| (0..i).filter(|j| crossed(parts[i], parts[*j])).count()).sum()
}

#[test]
fn layers_are_the_longest_ways() {
    for (count, edges, wanted) in [
        (0, vec![], vec![]),
        (3, vec![], vec![0, 0, 0]),
        (4, vec![(0, 1), (1, 2), (0, 2), (2, 3)], vec![0, 1, 2, 3]),
        (3, vec![(2, 1), (1, 0), (2, 0)], vec![2, 1, 0]),
        (2, vec![(0, 0), (0, 1), (0, 1)], vec![0, 1]),
        // A cycle is cut, and what follows it is laid out all the same.
        (4, vec![(0, 1), (1, 2), (2, 0), (2, 3)], vec![0, 1, 2, 3]),
    ] {
        assert_eq!(layers(count, &edges), wanted, "{edges:?}");
    }
}

#[test]
fn each_thing_has_a_place_of_its_own_and_needs_stand_before_what_needs_them() {
    for seed in 0..40 {
        let count = 1 + noise(seed) % 120;
        let edges = random(count, seed * 1000);
        let layout = layout(count, &edges);
        let place = |spot: Spot| (spot.band, spot.column);
        let mut taken = BTreeSet::new();
        for spot in layout.spots.iter().chain(layout.bends.iter().flatten()) {
            assert!(
                taken.insert((spot.band, spot.column, spot.half_row)),
                "seed {seed}: {spot:?} is taken twice"
            );
            assert!(spot.half_row + 2 <= 2 * layout.bands[spot.band] && spot.column < layout.columns);
        }
        for (index, (from, to)) in edges.iter().enumerate() {
            let mut stops = vec![layout.spots[*from]];
            stops.extend(&layout.bends[index]);
            stops.push(layout.spots[*to]);
            assert!(stops.is_sorted_by(|a, b| place(*a) < place(*b)), "seed {seed}: {stops:?}");
        }
    }
}

#[test]
fn what_is_only_crossed_by_its_order_is_uncrossed() {
    // Three chains whose names say another order in each layer.
    let edges = [(0, 5), (1, 4), (2, 3), (5, 7), (4, 8), (3, 6)];
    assert_eq!(crossings(&layout(9, &edges), &edges), 0);
    // A star through two layers and an edge past it.
    let edges = [(0, 1), (0, 2), (1, 3), (2, 4), (0, 4)];
    assert_eq!(crossings(&layout(5, &edges), &edges), 0);
}

#[test]
fn pictures_are_wrapped_and_bounded() {
    let chain: Vec<(usize, usize)> = (1..1000).map(|to| (to - 1, to)).collect();
    let layout_of_chain = layout(1000, &chain);
    assert_eq!(
        (layout_of_chain.columns, layout_of_chain.bands.len()),
        (COLUMNS_MAX, 1000_usize.div_ceil(COLUMNS_MAX))
    );
    let wide = layout(1000, &[]);
    assert!(
        wide.columns <= COLUMNS_MAX && wide.bands.iter().all(|rows| *rows <= ROWS_MAX),
        "{:?}",
        wide.bands
    );
    // One needs all of a chain: more passages than there is room for; those without run straight.
    let mut long = chain.clone();
    long.extend((0..998).map(|from| (from, 999)));
    let layout_of_long = layout(1000, &long);
    assert!(layout_of_long.bends.iter().map(Vec::len).sum::<usize>() <= BENDS_MAX);
    assert_eq!(layout_of_long, layout(1000, &long), "the same graph, the same picture");
}
