//! Places the boxes and lines of a picture: layers from left to right, by `rust-sugiyama`. Unconnected parts
//! are laid out separately and put on shelves, at least as wide as the widest of them.

use std::collections::VecDeque;

use rust_sugiyama::configure::{Config, RankingType};

/// Width and height of a box.
pub const BOX: (f64, f64) = (200.0, 52.0);
/// Free space between boxes: lines run there.
const GAP: f64 = 40.0;
/// The width of a shelf, about that of a screen; a wider part has a shelf to itself.
const SHELF: f64 = 1600.0;
/// The most places kept free for lines that pass through layers; without room lines run straight. Layers
/// times lines can be millions.
const BENDS_MAX: usize = 2000;

/// A point in the picture: of a box, its middle.
pub type Point = (f64, f64);

/// Boxes and lines with their places.
#[derive(Debug)]
pub struct Layout {
    /// The middle of each box.
    pub boxes: Vec<Point>,
    /// The points of each line between its ends.
    pub bends: Vec<Vec<Point>>,
    /// Width and height of the whole.
    pub size: (f64, f64),
}

/// Lays `count` boxes out; a line `(from, to)` leads to the right where no cycle is in its way.
pub fn layout(count: usize, lines: &[(usize, usize)]) -> Layout {
    let layers = layers(count, lines);
    // Heights are given as widths, since the library's layers lie one below the other.
    let mut vertices: Vec<(u32, (f64, f64))> = (0..number(count)).map(|n| (n, (BOX.1, BOX.0))).collect();
    let mut edges = Vec::new();
    let mut passed: Vec<Vec<usize>> = Vec::new();
    let mut room = BENDS_MAX;
    for &(from, to) in lines {
        let between = layers[from].abs_diff(layers[to]).saturating_sub(1);
        let between = if between <= room { between } else { 0 };
        room -= between;
        let (left, right) = if layers[from] <= layers[to] { (from, to) } else { (to, from) };
        let bends: Vec<usize> = (vertices.len()..vertices.len() + between).collect();
        vertices.extend(bends.iter().map(|bend| (number(*bend), (1.0, BOX.0))));
        let stops: Vec<usize> = [left].into_iter().chain(bends.iter().copied()).chain([right]).collect();
        edges.extend(
            stops.windows(2).filter(|ends| ends[0] != ends[1]).map(|ends| (number(ends[0]), number(ends[1]))),
        );
        passed.push(if left == from { bends } else { bends.into_iter().rev().collect() });
    }
    let config =
        Config { vertex_spacing: GAP, ranking_type: RankingType::Up, transpose: false, ..Config::default() };
    let mut parts: Vec<Vec<(usize, Point)>> =
        rust_sugiyama::from_vertices_and_edges(&vertices, &edges, &config)
            .into_iter()
            .map(|(places, _, _)| places.into_iter().map(|(vertex, (y, x))| (vertex, (x, y))).collect())
            .collect();
    // The library keeps vertices in hash maps, so their order differs each time.
    parts.iter_mut().for_each(|part| part.sort_by_key(|(vertex, _)| *vertex));
    parts.sort_by_key(|part| part[0].0);
    let (places, size) = on_shelves(&parts, vertices.len());
    let bends = passed.iter().map(|bends| bends.iter().map(|bend| places[*bend]).collect()).collect();
    Layout { boxes: places[..count].to_vec(), bends, size }
}

/// Puts parts side by side, and starts a new shelf for a part that does not fit.
fn on_shelves(parts: &[Vec<(usize, Point)>], count: usize) -> (Vec<Point>, (f64, f64)) {
    let mut places = vec![(0.0, 0.0); count];
    let (mut x, mut y, mut height, mut width) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for part in parts {
        let least =
            |of: fn(&Point) -> f64| part.iter().map(|(_, point)| of(point)).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&Point) -> f64| part.iter().map(|(_, point)| of(point)).fold(0.0, f64::max);
        let (left, top) = (least(|point| point.0), least(|point| point.1));
        let size = (most(|point| point.0) - left + BOX.0, most(|point| point.1) - top + BOX.1);
        if x > 0.0 && x + size.0 > SHELF {
            (x, y, height) = (0.0, y + height + GAP, 0.0);
        }
        for (vertex, point) in part {
            places[*vertex] = (x + point.0 - left + BOX.0 / 2.0, y + point.1 - top + BOX.1 / 2.0);
        }
        x += size.0 + GAP;
        (height, width) = (height.max(size.1), width.max(x - GAP));
    }
    (places, (width, y + height))
}

/// The library's numbers; a picture has far fewer boxes.
fn number(vertex: usize) -> u32 {
    u32::try_from(vertex).unwrap_or(u32::MAX)
}

/// The longest path to each node from those without dependencies. A cycle, which no template has, is cut at
/// its first node.
pub fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut needed_by = vec![Vec::new(); count];
    let mut blocked = vec![0usize; count];
    for &(from, to) in edges.iter().filter(|(from, to)| from != to) {
        needed_by[from].push(to);
        blocked[to] += 1;
    }
    let mut layer = vec![0; count];
    let mut done = vec![false; count];
    let mut ready: VecDeque<usize> = (0..count).filter(|node| blocked[*node] == 0).collect();
    let mut rest = 0..count;
    loop {
        let next = ready.pop_front().or_else(|| rest.find(|node| !done[*node]));
        let Some(node) = next else { return layer };
        if std::mem::replace(&mut done[node], true) {
            continue;
        }
        for &other in needed_by[node].iter().filter(|other| !done[**other]) {
            layer[other] = layer[other].max(layer[node] + 1);
            blocked[other] -= 1;
            if blocked[other] == 0 {
                ready.push_back(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_the_longest_ways() {
        for (count, edges, wanted) in [
            (0, vec![], vec![]),
            (3, vec![], vec![0, 0, 0]),
            (4, vec![(0, 1), (1, 2), (0, 2), (2, 3)], vec![0, 1, 2, 3]),
            (3, vec![(0, 1), (1, 0), (1, 2)], vec![0, 1, 2]),
            (1, vec![(0, 0)], vec![0]),
        ] {
            assert_eq!(layers(count, &edges), wanted, "{edges:?}");
        }
    }

    /// Checks what pictures rely on, for a graph of which each box is joined with up to two earlier ones, and
    /// for cycles.
    #[test]
    fn boxes_stand_apart_and_lines_lead_to_the_right() {
        let mesh: Vec<(usize, usize)> = (1..60).flat_map(|to| [(to * 7 % to, to), (to / 2, to)]).collect();
        let cycle = vec![(0, 1), (1, 2), (2, 0), (2, 2), (0, 1)];
        for (count, lines) in [(0, vec![]), (60, mesh), (4, cycle), (90, vec![])] {
            let laid = layout(count, &lines);
            let layers = layers(count, &lines);
            assert_eq!((laid.boxes.len(), laid.bends.len()), (count, lines.len()));
            for (n, one) in laid.boxes.iter().enumerate() {
                let inside = one.0 >= BOX.0 / 2.0
                    && one.0 <= laid.size.0
                    && one.1 >= BOX.1 / 2.0
                    && one.1 <= laid.size.1;
                assert!(inside, "{one:?} in {:?}", laid.size);
                for other in &laid.boxes[..n] {
                    let apart = (one.0 - other.0).abs() >= BOX.0 || (one.1 - other.1).abs() >= BOX.1;
                    assert!(apart, "{one:?} {other:?}");
                }
            }
            for ((from, to), bends) in
                lines.iter().zip(&laid.bends).filter(|((from, to), _)| layers[*from] < layers[*to])
            {
                let stops: Vec<Point> = [laid.boxes[*from]]
                    .into_iter()
                    .chain(bends.iter().copied())
                    .chain([laid.boxes[*to]])
                    .collect();
                assert!(stops.windows(2).all(|pair| pair[0].0 < pair[1].0), "{from} {to} {stops:?}");
            }
            assert_eq!(format!("{laid:?}"), format!("{:?}", layout(count, &lines)), "the same each time");
        }
    }
}
