//! The contrast of pictures, which axe-core does not look at: texts on their boxes, and lines on their ground, in the
//! light and in the dark, where the console turns the colours of a picture round by a filter.

use crate::chart::COLOURS;

type Rgb = [f64; 3];

/// WCAG 2.2, 1.4.3 and 1.4.11.
const OF_TEXT: f64 = 4.5;
const OF_LINES: f64 = 3.0;
const WHITE: Rgb = [1.0; 3];
/// The files that give boxes and lines their colours.
const SOURCES: [&str; 4] = [
    include_str!("drawing.rs"),
    include_str!("network.rs"),
    include_str!("stack.rs"),
    include_str!("../../console/src/page/node_picture.rs"),
];
const STYLE: &str = include_str!("../../console/assets/console.css");

/// All colours between quotation marks.
fn colours() -> impl Iterator<Item = Rgb> {
    let quoted = SOURCES.iter().flat_map(|source| source.split('#').skip(1));
    quoted.filter_map(|rest| {
        let number = u32::from_str_radix(rest.get(..6)?, 16).ok()?;
        rest[6..].starts_with(['"', '\\']).then(|| {
            let [_, red, green, blue] = number.to_be_bytes();
            [red, green, blue].map(|part| f64::from(part) / 255.0)
        })
    })
}

/// As Filter Effects has `invert(.92) hue-rotate(180deg)`.
fn in_the_dark(colour: Rgb) -> Rgb {
    let inverted = colour.map(|part| (0.92 - 0.84 * part).clamp(0.0, 1.0));
    let turned = [[-0.574, 1.430, 0.144], [0.426, 0.430, 0.144], [0.426, 1.430, -0.856]];
    turned.map(|row| row.iter().zip(inverted).map(|(share, part)| share * part).sum::<f64>().clamp(0.0, 1.0))
}

fn luminance(colour: Rgb) -> f64 {
    let linear =
        colour.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
    linear.iter().zip([0.2126, 0.7152, 0.0722]).map(|(part, share)| part * share).sum()
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

#[test]
fn texts_and_lines_of_pictures_stand_out() {
    assert!(STYLE.contains(".picture svg { filter: invert(.92) hue-rotate(180deg); }"), "as computed here");
    let of_chart = COLOURS.map(|colour| [colour.0, colour.1, colour.2].map(|part| f64::from(part) / 255.0));
    // Boxes are light; texts and lines are not.
    let (boxes, lines): (Vec<Rgb>, Vec<Rgb>) =
        colours().chain(of_chart).partition(|colour| luminance(*colour) > 0.5);
    assert!(boxes.len() > 8 && lines.len() > 20, "{} boxes, {} lines", boxes.len(), lines.len());
    let text = [0x26, 0x32, 0x38].map(|part: u8| f64::from(part) / 255.0);
    assert!(lines.contains(&text), "the colour of texts in drawing.rs");
    for (scheme, seen) in [("light", (|colour| colour) as fn(Rgb) -> Rgb), ("dark", in_the_dark)] {
        for ground in &boxes {
            let found = contrast(seen(text), seen(*ground));
            assert!(found >= OF_TEXT, "{scheme}: a text on {ground:?} has {found:.2}");
        }
        for line in &lines {
            let found = contrast(seen(*line), seen(WHITE));
            assert!(found >= OF_LINES, "{scheme}: a line in {line:?} has {found:.2}");
        }
    }
}
