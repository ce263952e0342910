//! The rows of the table: which figure of which measurement, and the bound that we hold ourselves to.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use super::measurement::Measurement;

/// Fields that a measurement has, with their values.
type Fields = BTreeMap<String, Value>;

/// A row of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub what: String,
    /// Chooses the measurement.
    of: Fields,
    /// The path of the number in it.
    figure: String,
    /// The number is divided by this one.
    by: Option<Divisor>,
    pub unit: Unit,
    pub bound: Option<Bound>,
}

/// Another number, of the same measurement unless it says which.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Divisor {
    of: Option<Fields>,
    figure: String,
}

/// A bound that we hold ourselves to, in the row's unit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unit {
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "%")]
    Percent,
    #[serde(rename = "1/s")]
    PerSecond,
    #[serde(rename = "1/min")]
    PerMinute,
    /// A ratio.
    #[serde(rename = "x")]
    Times,
    #[serde(rename = "1")]
    Count,
}

/// A row with its figure.
#[derive(Clone, Debug)]
pub struct Found<'r> {
    pub row: &'r Row,
    pub measured: Option<Figure>,
}

/// A figure in the row's unit, and when it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub number: f64,
    /// `2026-11-27`
    pub date: String,
}

/// Reads the rows.
///
/// # Errors
/// The text is not what rows look like.
pub fn rows(text: &str) -> anyhow::Result<Vec<Row>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        row: Vec<Row>,
    }
    let File { row } = toml::from_str(text).context("the rows of the page of benchmarks")?;
    Ok(row)
}

impl Row {
    /// The argument of `tests/bench/all.sh` that measures it.
    pub fn part(&self) -> &str {
        self.of.get("part").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn look(&self, measurements: &[Measurement]) -> Found<'_> {
        Found { row: self, measured: self.figure(measurements) }
    }

    fn figure(&self, measurements: &[Measurement]) -> Option<Figure> {
        let measurement = find(measurements, &self.of)?;
        let number = measurement.number(&self.figure)?;
        let divisor = match &self.by {
            None => 1.0,
            Some(Divisor { of, figure }) => {
                let other = of.as_ref().map_or(Some(measurement), |of| find(measurements, of))?;
                other.number(figure)?
            }
        };
        let date = measurement.text("date").to_owned();
        let number = number / divisor;
        number.is_finite().then_some(Figure { number, date })
    }
}

/// The newest measurement that has all these fields.
fn find<'m>(measurements: &'m [Measurement], fields: &Fields) -> Option<&'m Measurement> {
    let has_all = |it: &&Measurement| fields.iter().all(|(name, value)| it.field(name) == Some(value));
    measurements.iter().rev().find(has_all)
}

impl Bound {
    /// Returns the part of the bound that the number uses: at most 1 if the bound is held.
    pub fn used(self, number: f64) -> f64 {
        match self {
            Self::AtMost(most) => number / most,
            Self::AtLeast(least) => least / number,
        }
    }
}
