//! Where each box of a graph goes: layers from left to right, few crossings, wrapped like text so that neither a
//! thousand resources in one layer nor a chain of a thousand make a picture without end. Pure; integers only.
//!
//! ```text
//!   edges ──▶ layers (longest path) ──▶ order in each (barycentres, to and fro) ──▶ columns ──▶ bands
//! ```

use std::collections::VecDeque;

/// Boxes one above the other; a layer with more takes several columns.
const ROWS_MAX: usize = 24;
/// Columns side by side; further ones begin a new band below.
const COLUMNS_MAX: usize = 12;
/// Passes over the layers that put each box near those it is joined with; more change little.
const SWEEPS: usize = 6;
/// Places kept free for edges that pass through layers; without room the edges run straight.
const BENDS_MAX: usize = 2000;

/// A place in the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub band: usize,
    pub column: usize,
    /// In halves of a row, so that columns of different heights are centred.
    pub half_row: usize,
}

/// A finished layout.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// For each node.
    pub spots: Vec<Spot>,
    /// For each edge, the places it passes through between its ends.
    pub bends: Vec<Vec<Spot>>,
    /// For each band, how many rows it has.
    pub bands: Vec<usize>,
    /// The most columns a band has.
    pub columns: usize,
}

/// What takes a place in a layer: a node, or an edge that passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Node(usize),
    Bend(usize),
}

/// Lays `count` nodes out; an edge `(from, to)` says that `to` needs `from`.
pub fn layout(count: usize, edges: &[(usize, usize)]) -> Layout {
    let layer_of = layers(count, edges);
    let depth = layer_of.iter().max().map_or(0, |last| last + 1);
    let mut layers: Vec<Vec<Item>> = vec![Vec::new(); depth];
    for (node, layer) in layer_of.iter().enumerate() {
        layers[*layer].push(Item::Node(node));
    }
    let mut room = BENDS_MAX;
    for (edge, (from, to)) in edges.iter().enumerate() {
        let passes = layer_of[*from] + 1..layer_of[*to].max(layer_of[*from] + 1);
        if passes.len() <= room {
            room -= passes.len();
            passes.for_each(|layer| layers[layer].push(Item::Bend(edge)));
        }
    }
    reduce_crossings(&mut layers, edges, count);
    place(&layers, count, edges.len())
}

/// The longest way to each node from those that need nothing. A cycle, which no template has, is cut at its first node.
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

/// Puts each item at the middle of what it is joined with in the layer beside, from left to right and back.
fn reduce_crossings(layers: &mut [Vec<Item>], edges: &[(usize, usize)], count: usize) {
    // Items have numbers: nodes first, then bends in the order of their edges and layers.
    let mut joined: Vec<Vec<Vec<(usize, Item)>>> = vec![vec![Vec::new(); count], vec![Vec::new(); count]];
    let mut layer_of = vec![0; count];
    let mut bent = vec![Vec::new(); edges.len()];
    for (index, layer) in layers.iter().enumerate() {
        for item in layer {
            match *item {
                Item::Node(node) => layer_of[node] = index,
                Item::Bend(edge) => bent[edge].push(index),
            }
        }
    }
    for (edge, &(from, to)) in edges.iter().enumerate() {
        let (before, after) = match (bent[edge].first(), bent[edge].last()) {
            (Some(first), Some(last)) => ((*last, Item::Bend(edge)), (*first, Item::Bend(edge))),
            _ => ((layer_of[from], Item::Node(from)), (layer_of[to], Item::Node(to))),
        };
        joined[0][to].push(before);
        joined[1][from].push(after);
    }
    let mut position = Positions::of(layers, count, edges.len());
    for sweep in 0..SWEEPS {
        let back = sweep % 2;
        for step in 1..layers.len() {
            let index = if back == 1 { layers.len() - 1 - step } else { step };
            let beside = if back == 1 { index + 1 } else { index - 1 };
            let mut keyed: Vec<(u64, usize, Item)> = layers[index]
                .iter()
                .enumerate()
                .map(|(place, item)| {
                    let near: Vec<(usize, Item)> = match *item {
                        Item::Node(node) => {
                            joined[back][node].iter().copied().filter(|(l, _)| *l == beside).collect()
                        }
                        Item::Bend(edge) => vec![through(edge, beside, edges[edge], &bent[edge], back)],
                    };
                    let sum: u64 = near.iter().map(|(_, item)| position.get(*item, beside)).sum();
                    let own = position.get(*item, index);
                    (sum.checked_div(near.len() as u64).unwrap_or(own), place, *item)
                })
                .collect();
            keyed.sort_unstable_by_key(|(middle, place, _)| (*middle, *place));
            layers[index] = keyed.into_iter().map(|(_, _, item)| item).collect();
            position.set(index, &layers[index]);
        }
    }
}

/// What a bend of an edge is joined with in the layer `beside`.
fn through(
    edge: usize,
    beside: usize,
    (from, to): (usize, usize),
    bent: &[usize],
    back: usize,
) -> (usize, Item) {
    match bent.contains(&beside) {
        true => (beside, Item::Bend(edge)),
        false if back == 1 => (beside, Item::Node(to)),
        false => (beside, Item::Node(from)),
    }
}

/// Where each item is in its layer, scaled to the layer's length so that short and long ones compare.
struct Positions {
    nodes: Vec<u64>,
    bends: Vec<Vec<(usize, u64)>>,
}

impl Positions {
    fn of(layers: &[Vec<Item>], nodes: usize, edges: usize) -> Self {
        let mut all = Self { nodes: vec![0; nodes], bends: vec![Vec::new(); edges] };
        layers.iter().enumerate().for_each(|(index, layer)| all.set(index, layer));
        all
    }

    fn get(&self, item: Item, layer: usize) -> u64 {
        match item {
            Item::Node(node) => self.nodes[node],
            Item::Bend(edge) => {
                self.bends[edge].iter().find(|(l, _)| *l == layer).map_or(0, |(_, position)| *position)
            }
        }
    }

    fn set(&mut self, index: usize, layer: &[Item]) {
        const SCALE: u64 = 1 << 32;
        for (place, item) in layer.iter().enumerate() {
            let position = (2 * place as u64 + 1) * SCALE / (2 * layer.len() as u64);
            match *item {
                Item::Node(node) => self.nodes[node] = position,
                Item::Bend(edge) => {
                    self.bends[edge].retain(|(l, _)| *l != index);
                    self.bends[edge].push((index, position));
                }
            }
        }
    }
}

/// Columns of at most [`ROWS_MAX`], bands of at most [`COLUMNS_MAX`].
fn place(layers: &[Vec<Item>], count: usize, edges: usize) -> Layout {
    let columns: Vec<&[Item]> = layers
        .iter()
        .flat_map(|layer| layer.chunks(layer.len().div_ceil(layer.len().div_ceil(ROWS_MAX)).max(1)))
        .collect();
    let nowhere = Spot { band: 0, column: 0, half_row: 0 };
    let mut layout = Layout {
        spots: vec![nowhere; count],
        bends: vec![Vec::new(); edges],
        bands: columns
            .chunks(COLUMNS_MAX)
            .map(|band| band.iter().map(|column| column.len()).max().unwrap_or(0))
            .collect(),
        columns: columns.len().min(COLUMNS_MAX),
    };
    for (index, column) in columns.iter().enumerate() {
        let band = index / COLUMNS_MAX;
        for (row, item) in column.iter().enumerate() {
            let half_row = 2 * row + layout.bands[band] - column.len();
            let spot = Spot { band, column: index % COLUMNS_MAX, half_row };
            match *item {
                Item::Node(node) => layout.spots[node] = spot,
                Item::Bend(edge) => layout.bends[edge].push(spot),
            }
        }
    }
    layout
}

#[cfg(test)]
mod tests;
