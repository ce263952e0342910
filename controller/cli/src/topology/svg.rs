//! The network as a picture that needs nothing else: bridges around a circle, so that no link leads through another bridge;
//! links, the ways of intents beside them in colours, a legend, tooltips.

use std::collections::{BTreeMap, VecDeque};
use std::f64::consts::TAU;
use std::fmt::Write;

use super::{COLOURS, Device, Picture};
use crate::stack::graph::svg::{cut, escaped};

/// Bridges drawn: more are a circle that nobody looks along.
const DEVICES_MAX: usize = 400;
/// Links drawn; more are a grey area.
const LINKS_MAX: usize = 4000;

const BOX: (f64, f64) = (150.0, 36.0);
/// Characters that fit a box.
const FITS: usize = 24;
/// Characters of a key that fit the legend.
const KEY_FITS: usize = 60;
const MARGIN: f64 = 36.0;
/// The title.
const HEAD: f64 = 56.0;
/// Of a line of the legend.
const LINE: f64 = 18.0;
/// Of the smallest circle.
const RADIUS_MIN: f64 = 150.0;
/// Between two lines beside each other.
const STEP: f64 = 5.0;
const WIDTH_MIN: f64 = 560.0;

const STYLE: &str = "text{font-family:sans-serif;font-size:10px;fill:#263238}.t{font-size:16px;font-weight:bold}\
.n{font-size:11px;font-weight:bold;text-anchor:middle}line{stroke-width:1.4}.w{stroke-width:2.6}.o{stroke-dasharray:5 3}";

/// The whole document.
pub fn document(picture: &Picture) -> String {
    let drawn = Drawn::of(picture);
    let mut out = String::new();
    let mut put =
        |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("writing to a String does not fail");
    let (width, height) = drawn.size(picture);
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<defs>",
        title = escaped(&picture.title)
    ));
    for (n, colour) in COLOURS.iter().chain(["#78909c"].iter()).enumerate() {
        put(format_args!(
            "<marker id=\"m{n}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"5\" markerHeight=\"5\" orient=\"auto\">\
             <path d=\"M0 0 8 4 0 8z\" fill=\"{colour}\"/></marker>"
        ));
    }
    put(format_args!("</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"));
    put(format_args!("<text class=\"t\" x=\"{MARGIN}\" y=\"28\">{}</text>\n", escaped(&picture.title)));
    if let Some(note) = &drawn.note {
        put(format_args!("<text x=\"{MARGIN}\" y=\"46\" style=\"fill:#b71c1c\">{}</text>\n", escaped(note)));
    }
    put(format_args!("{}", drawn.cables(picture)));
    put(format_args!("{}", drawn.ways(picture)));
    for (index, spot) in &drawn.spots {
        put(format_args!("{}", boxed(&picture.devices[*index], *spot)));
    }
    put(format_args!("{}", drawn.legend(picture)));
    put(format_args!("</svg>\n"));
    out
}

type Spot = (f64, f64);

/// The part of a picture that is drawn, and where.
struct Drawn {
    /// By device.
    spots: BTreeMap<usize, Spot>,
    /// How far each cable is moved aside, as several may lead from one device to another.
    aside: BTreeMap<usize, f64>,
    /// Between two devices, how far the outermost cable is.
    outermost: BTreeMap<(usize, usize), f64>,
    radius: f64,
    note: Option<String>,
}

impl Drawn {
    fn of(picture: &Picture) -> Self {
        let mut order = around(picture);
        let all = order.len();
        order.truncate(DEVICES_MAX);
        let count = f64::from(u32::try_from(order.len().max(1)).unwrap_or(u32::MAX));
        let radius = (count * (BOX.0 + 20.0) / TAU).max(RADIUS_MIN).ceil();
        let centre = (radius + BOX.0 / 2.0 + MARGIN, HEAD + MARGIN + radius);
        let spot = |place: usize| {
            let angle = TAU * f64::from(u32::try_from(place).unwrap_or(u32::MAX)) / count - TAU / 4.0;
            ((centre.0 + radius * angle.cos()).round(), (centre.1 + radius * angle.sin()).round())
        };
        let spots: BTreeMap<usize, Spot> =
            order.iter().enumerate().map(|(place, device)| (*device, spot(place))).collect();
        let mut beside: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        let mut links = 0;
        for (n, cable) in picture.cables.iter().enumerate() {
            if spots.contains_key(&cable.from) && spots.contains_key(&cable.to) {
                links += 1;
                if links <= LINKS_MAX {
                    beside.entry(pair(cable.from, cable.to)).or_default().push(n);
                }
            }
        }
        let mut notes = Vec::new();
        if all > order.len() {
            notes.push(format!("{} of {all} bridges are drawn", order.len()));
        }
        if links > LINKS_MAX {
            notes.push(format!("{LINKS_MAX} of {links} links are drawn"));
        }
        let note = (!notes.is_empty()).then(|| format!("{}; -o json and -o dot have all.", notes.join("; ")));
        let mut aside = BTreeMap::new();
        let mut outermost = BTreeMap::new();
        for (ends, cables) in beside {
            let mut offset = -STEP * f64::from(u32::try_from(cables.len() - 1).unwrap_or(u32::MAX)) / 2.0;
            for cable in cables {
                aside.insert(cable, offset);
                outermost.insert(ends, offset);
                offset += STEP;
            }
        }
        Self { spots, aside, outermost, radius, note }
    }

    fn size(&self, picture: &Picture) -> (f64, f64) {
        let lines = f64::from(u32::try_from(picture.intents.len()).unwrap_or(u32::MAX)) + 1.0;
        let width = (2.0 * self.radius + BOX.0 + 2.0 * MARGIN).max(WIDTH_MIN);
        (width, HEAD + 2.0 * (self.radius + MARGIN) + BOX.1 + lines * LINE)
    }

    /// From device to device, moved aside as seen from the one with the lower number.
    fn line(&self, from: usize, to: usize, aside: f64) -> Option<String> {
        let (a, b) = (self.spots.get(&from)?, self.spots.get(&to)?);
        let (low, high) = if from < to { (a, b) } else { (b, a) };
        let (dx, dy) = (high.0 - low.0, high.1 - low.1);
        let length = dx.hypot(dy).max(1.0);
        let (x, y) = (-dy / length * aside, dx / length * aside);
        // To the edges of the boxes: an arrow's head is not hidden behind one.
        let (start, end) = (edge(*a, *b), edge(*b, *a));
        Some(format!(
            "x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"",
            start.0 + x,
            start.1 + y,
            end.0 + x,
            end.1 + y
        ))
    }

    fn cables(&self, picture: &Picture) -> String {
        let mut out = String::new();
        for (n, aside) in &self.aside {
            let cable = &picture.cables[*n];
            let Some(line) = self.line(cable.from, cable.to, *aside) else { continue };
            let (class, colour) = if cable.up { ("", "#90a4ae") } else { (" class=\"o\"", "#b71c1c") };
            let head =
                if cable.both { String::new() } else { format!(" marker-end=\"url(#m{})\"", COLOURS.len()) };
            writeln!(
                out,
                "<line{class} {line} stroke=\"{colour}\"{head}><title>{}</title></line>",
                escaped(&cable.about.join("\n"))
            )
            .expect("writing to a String does not fail");
        }
        out
    }

    /// The ways of intents, each beside what is there already.
    fn ways(&self, picture: &Picture) -> String {
        let mut out = String::new();
        let mut outermost = self.outermost.clone();
        for (n, (way, colour)) in picture.intents.iter().zip(COLOURS).enumerate() {
            for (cable, back) in &way.hops {
                let cable = &picture.cables[*cable];
                let (from, to) = if *back { (cable.to, cable.from) } else { (cable.from, cable.to) };
                let aside = outermost.entry(pair(from, to)).or_default();
                *aside += STEP;
                let Some(line) = self.line(from, to, *aside) else { continue };
                writeln!(
                    out,
                    "<line class=\"w\" {line} stroke=\"{colour}\" marker-end=\"url(#m{n})\"><title>{}</title></line>",
                    escaped(&way.key)
                )
                .expect("writing to a String does not fail");
            }
        }
        out
    }

    fn legend(&self, picture: &Picture) -> String {
        let top = HEAD + 2.0 * (self.radius + MARGIN) + BOX.1;
        let mut out = String::new();
        let mut line = |number: usize, class: &str, colour: &str, text: &str| {
            let y = top + LINE * f64::from(u32::try_from(number).unwrap_or(u32::MAX));
            writeln!(
                out,
                "<line{class} x1=\"{MARGIN}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\"/><text x=\"{}\" y=\"{}\">{}</text>",
                MARGIN + 26.0,
                MARGIN + 34.0,
                y + 3.5,
                escaped(text)
            )
            .expect("writing to a String does not fail");
        };
        line(0, "", "#90a4ae", "a link; red and dashed where nothing passes");
        for (number, (way, colour)) in picture.intents.iter().zip(COLOURS).enumerate() {
            let text = format!("intent {} {}", cut(&way.key, KEY_FITS), way.state);
            line(number + 1, " class=\"w\"", colour, &text);
        }
        out
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// Where the line to another box's middle leaves a box.
fn edge(of: Spot, towards: Spot) -> Spot {
    let (dx, dy) = (towards.0 - of.0, towards.1 - of.1);
    let across = if dx == 0.0 { f64::INFINITY } else { BOX.0 / 2.0 / dx.abs() };
    let along = if dy == 0.0 { f64::INFINITY } else { BOX.1 / 2.0 / dy.abs() };
    let part = across.min(along).min(0.5);
    (of.0 + dx * part, of.1 + dy * part)
}

/// Devices in the order of the circle: neighbours near each other, those with the most links first.
fn around(picture: &Picture) -> Vec<usize> {
    let count = picture.devices.len();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for cable in &picture.cables {
        next[cable.from].push(cable.to);
        next[cable.to].push(cable.from);
    }
    for list in &mut next {
        list.sort_unstable();
        list.dedup();
    }
    let mut starts: Vec<usize> = (0..count).collect();
    starts.sort_by_key(|device| (std::cmp::Reverse(next[*device].len()), *device));
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

fn boxed(device: &Device, (x, y): Spot) -> String {
    let (fill, line) = match device.state {
        "up" => ("#f2f2f2", "#546e7a"),
        "away" => ("#fff3cd", "#a66f00"),
        _ => ("#f6c4c1", "#b71c1c"),
    };
    let (width, height) = BOX;
    format!(
        "<g><title>{name}\n{state}, {ports} ports</title><rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\" rx=\"6\" \
         fill=\"{fill}\" stroke=\"{line}\"/><text class=\"n\" x=\"{x}\" y=\"{}\">{}</text></g>\n",
        x - width / 2.0,
        y - height / 2.0,
        y + 4.0,
        escaped(&cut(&device.name, FITS)),
        name = escaped(&device.name),
        state = device.state,
        ports = device.ports,
    )
}
