//! Bridges, the links between them and the ways of intents or of a packet, as a picture: an SVG document, or one for
//! Graphviz.
//!
//! Absent: how a link is found by LLDP (`controller/intent/src/links_from_reports.rs`), how a path is chosen
//! (`controller/intent/src/compile/constrained_path.rs`), and the drawing itself (`drawing.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_api::intent::{BridgeView, IntentWay, LinkEnds, LinkView, Point, TopologyView};

use crate::drawing::{Drawing, Line, Look, Shape};
use crate::words::{count, word};

mod dot;

/// The most intents whose paths are drawn: as many as there are distinct colours.
pub const DRAWN: usize = COLOURS.len();
const COLOURS: [&str; 10] = [
    "#1565c0", "#c62828", "#2e7d32", "#ef6c00", "#6a1b9a", "#00838f", "#ad1457", "#827717", "#4e342e",
    "#37474f",
];

/// `web-1/br0:p1`
pub fn point(point: &Point) -> String {
    format!("{}:{}", word(&point.device), word(&point.port))
}

/// `up`, `away` or `down`.
pub fn state(up: bool, away: bool) -> &'static str {
    match (up, away) {
        (false, _) => "down",
        (true, true) => "away",
        (true, false) => "up",
    }
}

/// The picture's content; none of its texts can control a terminal.
#[derive(Debug)]
pub struct Picture {
    title: String,
    devices: Vec<Device>,
    cables: Vec<Cable>,
    ways: Vec<Way>,
}

#[derive(Debug)]
struct Device {
    name: String,
    state: &'static str,
    ports: usize,
}

/// A link: where both directions are there, both.
#[derive(Debug)]
struct Cable {
    from: usize,
    to: usize,
    /// The ports at either end.
    ports: (String, String),
    up: bool,
    both: bool,
    /// Texts for each direction.
    about: Vec<String>,
}

/// The way of an intent or of a packet.
#[derive(Debug)]
struct Way {
    name: String,
    /// The way's line in the legend.
    legend: String,
    /// Cables, and whether it goes from their end to their beginning.
    hops: Vec<(usize, bool)>,
}

impl Picture {
    /// The picture of an answer; the answer may be of any controller.
    pub fn of(network: &TopologyView) -> Self {
        let named = |intent: &'_ IntentWay| {
            let (key, state) = (word(&intent.key), word(&intent.state));
            (key.clone(), format!("intent {key} {state}"))
        };
        let ways = network.intents.iter().take(DRAWN);
        Self::with(network, ways.map(|intent| (named(intent), &*intent.links)))
    }

    /// The picture of an answer, with the links that a packet takes in place of intents.
    pub fn of_packet(network: &TopologyView, links: &[LinkEnds]) -> Self {
        let named = ("the packet".to_owned(), "the way of the packet".to_owned());
        Self::with(network, std::iter::once((named, links)))
    }

    /// Each way with its name and its line of the legend.
    fn with<'w>(
        network: &TopologyView,
        ways: impl Iterator<Item = ((String, String), &'w [LinkEnds])>,
    ) -> Self {
        let device = |device: &BridgeView| Device {
            name: word(&device.device),
            state: state(device.up, device.away),
            ports: device.ports.len(),
        };
        let devices: Vec<Device> = network.devices.iter().map(device).collect();
        let index: BTreeMap<&str, usize> =
            network.devices.iter().enumerate().map(|(index, device)| (&*device.device, index)).collect();
        let mut cables: Vec<Cable> = Vec::new();
        // By its ends: the index of the cable, and whether its direction is reversed.
        let mut known: BTreeMap<(&Point, &Point), (usize, bool)> = BTreeMap::new();
        for link in &network.links {
            let ends = (index.get(&*link.from.device), index.get(&*link.to.device));
            let (Some(&from), Some(&to)) = ends else { continue };
            let about = about(link);
            if let Some((cable, _)) = known.get(&(&link.to, &link.from)).copied() {
                let other = &mut cables[cable];
                (other.both, other.up) = (true, other.up && link.up);
                other.about.push(about);
                known.insert((&link.from, &link.to), (cable, true));
                continue;
            }
            known.insert((&link.from, &link.to), (cables.len(), false));
            let ports = (word(&link.from.port), word(&link.to.port));
            cables.push(Cable { from, to, ports, up: link.up, both: false, about: vec![about] });
        }
        let way = |((name, legend), links): ((String, String), &[LinkEnds])| {
            let hops = links.iter().filter_map(|link| known.get(&(&link.from, &link.to)).copied());
            Way { name, legend, hops: hops.collect() }
        };
        let ways: Vec<Way> = ways.map(way).collect();
        let title =
            format!("{}, {}", count(devices.len() as u64, "bridge"), count(cables.len() as u64, "link"));
        Self { title, devices, cables, ways }
    }

    /// An SVG document.
    pub fn svg(&self) -> String {
        drawing(self).svg()
    }

    /// A document in Graphviz's language.
    pub fn dot(&self) -> String {
        dot::document(self)
    }
}

/// `web-1/br0:p1 → web-2/br0:p1, cost 1, 1000000 of 1000000000 bit/s reserved, 0.001 s, 2 intents`
fn about(link: &LinkView) -> String {
    let mut text = format!("{} → {}, cost {}", point(&link.from), point(&link.to), link.cost);
    if let Some(bandwidth) = link.bandwidth {
        text += &format!(", {} of {bandwidth} bit/s reserved", link.reserved);
    }
    if let Some(latency) = link.latency {
        text += &format!(", {latency} s");
    }
    if !link.up {
        text += ", down";
    }
    format!("{text}, {}", count(link.intents as u64, "intent"))
}

/// The network as it is drawn: links lead away from the bridge with the most of them, and the ways of intents
/// run beside them.
fn drawing(picture: &Picture) -> Drawing {
    let order = around(picture);
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(n, device)| place[*device] = n);
    let shape = |device: &usize| {
        let device = &picture.devices[*device];
        let (fill, stroke) = match device.state {
            "up" => ("#f2f2f2", "#546e7a"),
            "away" => ("#fff3cd", "#a66f00"),
            _ => ("#f6c4c1", "#b71c1c"),
        };
        let state = format!("{}, {}", device.state, count(device.ports as u64, "port"));
        let tooltip = format!("{}\n{state}", device.name);
        let look = Look { fill, stroke, ..Look::default() };
        Shape { text: vec![device.name.clone(), state], tooltip, look, urgency: 0 }
    };
    let link = Look { stroke: "#78909c", ..Look::default() };
    let down = Look { stroke: "#b71c1c", is_dashed: true, ..Look::default() };
    let cable = |cable: &Cable| Line {
        from: place[cable.from],
        to: place[cable.to],
        tooltip: cable.about.join("\n"),
        look: Look { has_arrow: !cable.both, ..if cable.up { link } else { down } },
    };
    let mut lines: Vec<Line> = picture.cables.iter().map(cable).collect();
    let mut legend = vec![(link, "a link".to_owned()), (down, "a link over which nothing passes".to_owned())];
    for (way, stroke) in picture.ways.iter().zip(COLOURS) {
        let look = Look { stroke, is_wide: true, has_arrow: true, ..Look::default() };
        for (cable, back) in &way.hops {
            let cable = &picture.cables[*cable];
            let (from, to) = if *back { (cable.to, cable.from) } else { (cable.from, cable.to) };
            lines.push(Line { from: place[from], to: place[to], tooltip: way.name.clone(), look });
        }
        legend.push((look, way.legend.clone()));
    }
    Drawing {
        title: picture.title.clone(),
        nouns: ["bridges", "links"],
        boxes: order.iter().map(shape).collect(),
        lines,
        legend,
    }
}

/// Devices in the order of drawing: those with the most links first, then their neighbours.
fn around(picture: &Picture) -> Vec<usize> {
    let count = picture.devices.len();
    let mut next: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
    for cable in &picture.cables {
        next[cable.from].insert(cable.to);
        next[cable.to].insert(cable.from);
    }
    let mut starts: Vec<usize> = (0..count).collect();
    starts.sort_by_key(|device| (Reverse(next[*device].len()), *device));
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(count);
    for start in starts {
        let mut open = VecDeque::from([start]);
        while let Some(device) = open.pop_front() {
            if !std::mem::replace(&mut seen[device], true) {
                order.push(device);
                open.extend(&next[device]);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests;
