//! A graph as an SVG document that needs nothing else: boxes in colours, lines between them, a legend, tooltips. It has no
//! style sheet, so it may stand in a page whose policy allows none.
//!
//! Absent: the places of the boxes (`drawing/layout.rs`), and what a box shows (`stack.rs`, `network.rs`).

use std::collections::BTreeMap;
use std::fmt::Write;

use layout::{BOX, Point, layout};

pub mod layout;

/// Boxes drawn: what a browser scrolls through without effort.
const BOXES_MAX: usize = 1000;
/// Lines drawn; more are a black area.
const LINES_MAX: usize = 5000;
/// Free space around the picture.
const MARGIN: f64 = 36.0;
/// The title.
const HEAD: f64 = 56.0;
/// A line of the legend.
const ENTRY: f64 = 18.0;
/// Narrower, the legend would be cut off.
const WIDTH_MIN: f64 = 720.0;
/// The distance between two adjacent lines.
const STEP: f64 = 5.0;
/// Characters that fit a box, in the large and the small size, and the legend.
const FITS: [usize; 3] = [27, 33, 80];

/// The line around a box and between two; a wide one shows a way.
const THIN: &str = "1.3";
const WIDE: &str = "2.6";

/// The content of a picture.
pub struct Drawing {
    pub title: String,
    /// The words for boxes and lines, used if not all of them are drawn.
    pub nouns: [&'static str; 2],
    pub boxes: Vec<Shape>,
    pub lines: Vec<Line>,
    pub legend: Vec<(Look, String)>,
}

/// A box.
pub struct Shape {
    /// The first line is large; three fit.
    pub text: Vec<String>,
    pub tooltip: String,
    pub look: Look,
    /// If there are too many boxes, those with the lowest number are drawn.
    pub urgency: u8,
}

/// A line between two boxes, by their places in the list.
pub struct Line {
    pub from: usize,
    pub to: usize,
    pub tooltip: String,
    pub look: Look,
}

/// The appearance of a box or a line. Colours are `#rrggbb`; a line has no `fill`.
#[derive(Clone, Copy, Default)]
pub struct Look {
    pub fill: &'static str,
    pub stroke: &'static str,
    pub is_dashed: bool,
    pub is_wide: bool,
    pub has_arrow: bool,
}

impl Look {
    /// Attributes of an element; markers are named by their colour.
    fn attributes(&self) -> String {
        let width = if self.is_wide { WIDE } else { THIN };
        let mut out = format!("stroke=\"{}\" stroke-width=\"{width}\"", self.stroke);
        if self.is_dashed {
            out += " stroke-dasharray=\"5 3\"";
        }
        if self.has_arrow {
            out += &format!(" marker-end=\"url(#a{})\"", self.stroke.trim_start_matches('#'));
        }
        out
    }
}

impl Drawing {
    /// The whole document.
    pub fn svg(mut self) -> String {
        let note = self.cut_down();
        let ends: Vec<(usize, usize)> = self.lines.iter().map(|line| (line.from, line.to)).collect();
        let laid = layout(self.boxes.len(), &ends);
        let width = (laid.size.0 + 2.0 * MARGIN).max(WIDTH_MIN);
        let foot = HEAD + laid.size.1 + 2.0 * MARGIN;
        let height = foot + ENTRY * whole(self.legend.len()) + MARGIN / 2.0;
        let title = escaped(&self.title);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" font-family=\"sans-serif\" font-size=\"10\" fill=\"#263238\">\n\
             <title>{title}</title>\n<defs>{}</defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text font-size=\"16\" font-weight=\"bold\" x=\"{MARGIN}\" y=\"28\">{title}</text>\n",
            self.markers()
        );
        let mut put = |text: String| writeln!(out, "{text}").expect("writing to a String does not fail");
        if let Some(note) = note {
            put(format!("<text x=\"{MARGIN}\" y=\"46\" fill=\"#b71c1c\">{}</text>", escaped(&note)));
        }
        put(format!("<g transform=\"translate({MARGIN} {})\">", HEAD + MARGIN));
        for ((line, bends), aside) in self.lines.iter().zip(&laid.bends).zip(beside(&ends)) {
            let (from, to) = (laid.boxes[line.from], laid.boxes[line.to]);
            put(format!(
                "<path fill=\"none\" {} d=\"{}\"><title>{}</title></path>",
                line.look.attributes(),
                way(from, bends, to, aside),
                escaped(&line.tooltip)
            ));
        }
        self.boxes.iter().zip(&laid.boxes).for_each(|(shape, middle)| put(boxed(shape, *middle)));
        put("</g>".to_owned());
        for (n, (look, text)) in self.legend.iter().enumerate() {
            put(entry(look, text, foot + ENTRY * whole(n)));
        }
        put("</svg>".to_owned());
        out
    }

    /// Leaves out excess boxes and lines, and returns a note about it.
    fn cut_down(&mut self) -> Option<String> {
        let (all, [boxes, lines]) = (self.boxes.len(), self.nouns);
        let mut chosen: Vec<usize> = (0..all).collect();
        chosen.sort_by_key(|index| self.boxes[*index].urgency);
        chosen.truncate(BOXES_MAX);
        chosen.sort_unstable();
        let mut place = 0;
        self.boxes.retain(|_| (chosen.binary_search(&place).is_ok(), place += 1).0);
        self.lines.retain_mut(|line| {
            let ends = (chosen.binary_search(&line.from), chosen.binary_search(&line.to));
            let (Ok(from), Ok(to)) = ends else { return false };
            (line.from, line.to) = (from, to);
            true
        });
        let between = self.lines.len();
        self.lines.truncate(LINES_MAX);
        let mut notes = Vec::new();
        if all > BOXES_MAX {
            notes.push(format!("{BOXES_MAX} of {all} {boxes} are drawn"));
        }
        if between > LINES_MAX {
            notes.push(format!("{LINES_MAX} of {between} {lines} are drawn"));
        }
        (!notes.is_empty())
            .then(|| format!("{}; 'muster' has all, with -o json and -o dot.", notes.join("; ")))
    }

    /// An arrow's head for each colour: not every viewer knows `context-stroke`.
    fn markers(&self) -> String {
        let looks = self.lines.iter().map(|line| &line.look).chain(self.legend.iter().map(|(look, _)| look));
        let mut colours: Vec<&str> = looks.filter(|look| look.has_arrow).map(|look| look.stroke).collect();
        colours.sort_unstable();
        colours.dedup();
        let marker = |colour: &&str| {
            format!(
                "<marker id=\"a{}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
                 markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"{colour}\"/></marker>",
                colour.trim_start_matches('#')
            )
        };
        colours.iter().map(marker).collect()
    }
}

/// The offset of each line, where several join the same boxes.
fn beside(ends: &[(usize, usize)]) -> Vec<f64> {
    let pair = |(from, to): &(usize, usize)| (*from.min(to), *from.max(to));
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    ends.iter().for_each(|ends| *counts.entry(pair(ends)).or_default() += 1);
    let mut next: BTreeMap<(usize, usize), f64> =
        counts.into_iter().map(|(ends, count)| (ends, -STEP * whole(count - 1) / 2.0)).collect();
    let mut of =
        |ends: &(usize, usize)| next.get_mut(&pair(ends)).map_or(0.0, |aside| (*aside, *aside += STEP).0);
    ends.iter().map(&mut of).collect()
}

/// A line from the side of a box, level through the layers between, to the side of the other.
fn way(from: Point, bends: &[Point], to: Point, aside: f64) -> String {
    let half = if from.0 <= to.0 { BOX.0 / 2.0 } else { -BOX.0 / 2.0 };
    let (mut x, mut y) = (from.0 + half, from.1 + aside);
    let mut out = format!("M{x:.1} {y:.1}");
    for (n, stop) in bends.iter().chain([&to]).enumerate() {
        let (left, right, level) = (stop.0 - half, stop.0 + half, stop.1 + aside);
        let middle = (x + left) / 2.0;
        out += &format!("C{middle:.1} {y:.1} {middle:.1} {level:.1} {left:.1} {level:.1}");
        if n < bends.len() {
            out += &format!("H{right:.1}");
        }
        (x, y) = (right, level);
    }
    out
}

fn boxed(shape: &Shape, (x, y): Point) -> String {
    let (width, height) = BOX;
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    let mut out = format!(
        "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{}\" {}/>",
        escaped(&shape.tooltip),
        shape.look.fill,
        shape.look.attributes()
    );
    for (n, text) in shape.text.iter().enumerate() {
        let (size, fits) =
            if n == 0 { (" font-size=\"12\" font-weight=\"bold\"", FITS[0]) } else { ("", FITS[1]) };
        let (x, y) = (left + 8.0, top + 17.0 + 14.0 * whole(n));
        out += &format!("<text{size} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(&cut(text, fits)));
    }
    out + "</g>"
}

fn entry(look: &Look, text: &str, y: f64) -> String {
    let mark = if look.fill.is_empty() {
        format!("<path fill=\"none\" d=\"M{MARGIN} {}h26\" {}/>", y - 3.5, look.attributes())
    } else {
        let (top, fill) = (y - 10.0, look.fill);
        format!(
            "<rect x=\"{MARGIN}\" y=\"{top}\" width=\"26\" height=\"12\" rx=\"3\" fill=\"{fill}\" {}/>",
            look.attributes()
        )
    };
    format!("{mark}<text x=\"{}\" y=\"{y}\">{}</text>", MARGIN + 34.0, escaped(&cut(text, FITS[2])))
}

/// A count in a picture, which has far fewer than 2³² of anything.
fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Cuts the text to this many characters.
fn cut(text: &str, fits: usize) -> String {
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    text.chars().take(fits - 1).chain(['…']).collect()
}

/// Text for XML content or attributes. Control characters are gone already; the two others that XML forbids
/// are removed here.
fn escaped(text: &str) -> String {
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
