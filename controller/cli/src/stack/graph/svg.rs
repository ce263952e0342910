//! A graph as a picture that needs nothing else: boxes in the colour of their status, arrows, a legend, tooltips.

use std::fmt::Write;

use super::layout::{Spot, layout};
use super::{Node, Picture};

/// Boxes drawn: what a browser scrolls through without effort.
const NODES_MAX: usize = 1000;
/// Arrows drawn; more are a black area.
const EDGES_MAX: usize = 5000;

const BOX: (usize, usize) = (200, 52);
/// Between two boxes, where the arrows are.
const GAP: (usize, usize) = (64, 14);
/// Between two bands, and around the picture.
const MARGIN: usize = 36;
/// Title and legend.
const HEAD: usize = 84;
/// Narrower, the legend would be cut off.
const WIDTH_MIN: usize = 720;
/// Characters that fit a box, in the large and the small size.
const FITS: (usize, usize) = (27, 33);

const LEGEND: [(&str, &str, bool); 5] = [
    ("COMPLETE", "COMPLETE", false),
    ("IN_PROGRESS", "IN_PROGRESS", false),
    ("FAILED", "FAILED", false),
    ("INIT", "not begun", false),
    ("COMPLETE", "to be cleaned up", true),
];

const STYLE: &str = "text{font-family:sans-serif;font-size:10px;fill:#263238}.t{font-size:16px;font-weight:bold}\
.n{font-size:12px;font-weight:bold}path{fill:none;stroke:#78909c;stroke-width:1.2}.o{stroke-dasharray:5 3}\
g:hover>rect{stroke-width:3}";

/// Of a box; in any two of them the lightness differs, too.
pub struct Colours {
    pub fill: &'static str,
    pub line: &'static str,
}

impl Colours {
    pub(super) fn of(node: &Node) -> Self {
        Self::of_status(&node.status)
    }

    fn of_status(status: &str) -> Self {
        let (fill, line) = match status {
            "COMPLETE" => ("#d7efd6", "#2e7d32"),
            "IN_PROGRESS" => ("#cfe4fb", "#1565c0"),
            "FAILED" => ("#f6c4c1", "#b71c1c"),
            _ => ("#f2f2f2", "#757575"),
        };
        Self { fill, line }
    }
}

/// The whole document.
pub(super) fn document(picture: &Picture) -> String {
    let drawn = Drawn::of(picture);
    let mut out = String::new();
    let mut put =
        |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("writing to a String does not fail");
    let edges: Vec<(usize, usize)> = drawn.edges.clone();
    let grid = layout(drawn.nodes.len(), &edges);
    let bands = Bands::of(&grid.bands);
    let width = (grid.columns * (BOX.0 + GAP.0) + 2 * MARGIN).max(WIDTH_MIN);
    let height = bands.bottom;
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0 8 4 0 8z\" style=\"fill:#78909c;stroke:none\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        escaped(&picture.title)
    ));
    put(format_args!("<text class=\"t\" x=\"{MARGIN}\" y=\"28\">{}</text>\n", escaped(&picture.title)));
    put(format_args!("{}", legend()));
    if let Some(note) = &drawn.note {
        put(format_args!("<text x=\"{MARGIN}\" y=\"74\" style=\"fill:#b71c1c\">{}</text>\n", escaped(note)));
    }
    for ((from, to), bends) in edges.iter().zip(&grid.bends) {
        let mut stops = vec![grid.spots[*from]];
        stops.extend(bends);
        stops.push(grid.spots[*to]);
        put(format_args!("<path marker-end=\"url(#a)\" d=\"{}\"/>\n", bands.way(&stops)));
    }
    for (node, spot) in drawn.nodes.iter().zip(&grid.spots) {
        let (x, y) = bands.corner(*spot);
        put(format_args!("{}", boxed(node, x, y)));
    }
    put(format_args!("</svg>\n"));
    out
}

/// The part of a picture that is drawn.
struct Drawn<'a> {
    nodes: Vec<&'a Node>,
    edges: Vec<(usize, usize)>,
    /// Says what is left out.
    note: Option<String>,
}

impl<'a> Drawn<'a> {
    fn of(picture: &'a Picture) -> Self {
        let mut chosen: Vec<usize> = (0..picture.nodes.len()).collect();
        chosen.sort_by_key(|index| urgency(&picture.nodes[*index]));
        chosen.truncate(NODES_MAX);
        chosen.sort_unstable();
        let index = |node: usize| chosen.binary_search(&node).ok();
        let mut edges: Vec<(usize, usize)> =
            picture.edges.iter().filter_map(|(from, to)| Some((index(*from)?, index(*to)?))).collect();
        let between = edges.len();
        edges.truncate(EDGES_MAX);
        let (all, some) = (picture.nodes.len(), chosen.len());
        let mut notes = Vec::new();
        if some < all {
            notes.push(format!(
                "{some} of {all} resources are drawn, those first that failed or are under way"
            ));
        }
        if edges.len() < between {
            notes.push(format!("{} of {between} arrows are drawn", edges.len()));
        }
        let note = (!notes.is_empty()).then(|| format!("{}; -o json and -o dot have all.", notes.join("; ")));
        Self { nodes: chosen.iter().map(|index| &picture.nodes[*index]).collect(), edges, note }
    }
}

fn urgency(node: &Node) -> u8 {
    match node.status.as_str() {
        "FAILED" => 0,
        "IN_PROGRESS" => 1,
        _ if node.cleanup || !node.ready => 2,
        _ => 3,
    }
}

/// Where the bands begin.
struct Bands {
    tops: Vec<usize>,
    bottom: usize,
}

impl Bands {
    fn of(rows: &[usize]) -> Self {
        let mut bottom = HEAD + MARGIN;
        let mut top = |rows: &usize| {
            let top = bottom;
            bottom += rows * (BOX.1 + GAP.1) + MARGIN;
            top
        };
        let tops = rows.iter().map(&mut top).collect();
        Self { tops, bottom }
    }

    fn corner(&self, spot: Spot) -> (usize, usize) {
        let x = MARGIN + spot.column * (BOX.0 + GAP.0);
        (x, self.tops[spot.band] + spot.half_row * (BOX.1 + GAP.1) / 2)
    }

    /// From the right side of the first stop, straight through those between, to the left side of the last.
    fn way(&self, stops: &[Spot]) -> String {
        let mut out = String::new();
        let mut put =
            |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("writing to a String does not fail");
        for (index, pair) in stops.windows(2).enumerate() {
            let (from, to) = (self.corner(pair[0]), self.corner(pair[1]));
            let (x, y) = (from.0 + BOX.0, from.1 + BOX.1 / 2);
            let (to_x, to_y) = (to.0, to.1 + BOX.1 / 2);
            if index == 0 {
                put(format_args!("M{x} {y}"));
            } else {
                put(format_args!("H{x}"));
            }
            if pair[0].band == pair[1].band && pair[0].column < pair[1].column {
                let half = GAP.0 / 2;
                put(format_args!("C{} {y} {} {to_y} {to_x} {to_y}", x + half, to_x - half));
            } else {
                // Round, in the gap above the other's band.
                let above = self.tops[pair[1].band] - MARGIN / 2;
                put(format_args!("H{}V{above}H{}V{to_y}H{to_x}", x + GAP.0 / 4, to_x - MARGIN / 2));
            }
        }
        out
    }
}

fn boxed(node: &Node, x: usize, y: usize) -> String {
    let Colours { fill, line } = Colours::of(node);
    let class = if node.cleanup { " class=\"o\"" } else { "" };
    let kind = node.kind.rsplit("::").next().unwrap_or_default();
    let place = if node.node.is_empty() { kind.to_owned() } else { format!("{kind} on {}", node.node) };
    let (width, height) = BOX;
    let text_x = x + 8;
    format!(
        "<g><title>{}</title><rect{class} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{fill}\" stroke=\"{line}\"/>\
         <text class=\"n\" x=\"{text_x}\" y=\"{}\">{}</text><text x=\"{text_x}\" y=\"{}\">{}</text>\
         <text x=\"{text_x}\" y=\"{}\">{}</text></g>\n",
        escaped(&tooltip(node)),
        y + 17,
        escaped(&cut(&node.name, FITS.0)),
        y + 32,
        escaped(&cut(&place, FITS.1)),
        y + 45,
        escaped(&cut(&node.state(), FITS.1)),
    )
}

fn tooltip(node: &Node) -> String {
    let mut lines = vec![
        node.label(),
        format!("{} {}", node.kind, node.node).trim_end().to_owned(),
        node.state() + if node.ready { ", ready" } else { "" },
        format!("row {}, {}", node.id, node.physical_id),
    ];
    lines.extend(node.replaces.as_ref().map(|old| format!("replaces {old}")));
    lines.extend((!node.reason.is_empty()).then(|| node.reason.clone()));
    lines.join("\n")
}

fn legend() -> String {
    const STEP: usize = 120;
    let mut out = String::new();
    for (index, (status, name, cleanup)) in LEGEND.iter().enumerate() {
        let Colours { fill, line } = Colours::of_status(status);
        let class = if *cleanup { " class=\"o\"" } else { "" };
        let x = MARGIN + index * STEP;
        writeln!(
            out,
            "<rect{class} x=\"{x}\" y=\"42\" width=\"16\" height=\"12\" rx=\"3\" fill=\"{fill}\" stroke=\"{line}\"/>\
             <text x=\"{}\" y=\"52\">{name}</text>",
            x + 22
        )
        .expect("writing to a String does not fail");
    }
    let x = MARGIN + LEGEND.len() * STEP;
    writeln!(
        out,
        "<path marker-end=\"url(#a)\" d=\"M{x} 48h24\"/><text x=\"{}\" y=\"52\">is needed by</text>",
        x + 30
    )
    .expect("writing to a String does not fail");
    out
}

/// At most so many characters.
pub fn cut(text: &str, fits: usize) -> String {
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    text.chars().take(fits - 1).chain(['…']).collect()
}

/// As text or attribute of XML; control characters are gone already, the two others that XML forbids go here.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
