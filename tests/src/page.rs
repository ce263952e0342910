//! The page of benchmarks: lines of JSON, as `tests/bench/all.sh` prints them, become `benchmarks.md` and `benchmarks.svg`.
//!
//! The page carries its own lines, so one part can be measured again: its lines replace those of the same kind. A line that
//! no row of the table asks for stays among the raw lines.
//!
//! Absent: measuring, and judging a run. A bound that is missed is marked in the table, and nothing fails by it.

mod measurement;
mod plot;
mod rows;
mod text;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

pub use self::measurement::Measurement;
use self::measurement::merge;
pub use self::rows::Unit;
use self::rows::{Row, rows};

/// The page's name in its folder, and that of its plot.
const PAGE: &str = "benchmarks.md";
const PLOT: &str = "benchmarks.svg";
/// The bounds that we hold ourselves to, and where their figures are.
const ROWS: &str = include_str!("page/rows.toml");

/// The two files of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The page in Markdown.
    pub text: String,
    /// The plot as SVG.
    pub plot: String,
}

impl Page {
    /// The page of these measurements.
    ///
    /// # Errors
    /// The plot cannot be drawn.
    pub fn of(measurements: &[Measurement]) -> anyhow::Result<Self> {
        Self::with(&rows(ROWS)?, measurements)
    }

    fn with(rows: &[Row], measurements: &[Measurement]) -> anyhow::Result<Self> {
        let found: Vec<_> = rows.iter().map(|row| row.look(measurements)).collect();
        Ok(Self { text: text::page(&found, measurements), plot: plot::plot(&found)? })
    }

    /// The page of the measurements in a page's text.
    ///
    /// # Errors
    /// The text has no raw lines, or a line is broken.
    pub fn again(text: &str) -> anyhow::Result<Self> {
        Self::of(&measurements_in(text)?)
    }
}

/// Puts the measurements of `lines` on the page in the folder `into`: each replaces what the page has of its kind.
///
/// # Errors
/// A line is broken, or a file cannot be read or written.
pub fn run(lines: &Path, into: &Path) -> anyhow::Result<()> {
    let name = lines.display().to_string();
    let text = fs::read_to_string(lines).with_context(|| format!("cannot read {name}"))?;
    let new = Measurement::read_all(&name, &text)?;
    let page = into.join(PAGE);
    let old = match fs::read_to_string(&page) {
        Ok(text) => {
            measurements_in(&text).with_context(|| format!("{} cannot be continued", page.display()))?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", page.display())),
    };
    let Page { text, plot } = Page::of(&merge(old, new))?;
    for (file, content) in [(PLOT, plot), (PAGE, text)] {
        let path = into.join(file);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The raw lines of a page.
///
/// # Errors
/// The text has none, or a line is broken.
pub fn measurements_in(text: &str) -> anyhow::Result<Vec<Measurement>> {
    let raw = text.split_once(text::RAW_BEGINS).and_then(|(_, rest)| rest.split_once(text::RAW_ENDS));
    let Some((raw, _)) = raw else {
        bail!("the page has no raw lines: remove it, and measure all parts again")
    };
    Measurement::read_all("its raw lines", raw)
}

#[cfg(test)]
mod tests;
