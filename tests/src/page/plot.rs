//! The plot: a bar for each row that has a bound, as long as the part of its bound that the figure uses.

use anyhow::anyhow;
use plotters::prelude::*;

use super::rows::{Figure, Found};

const WIDTH: u32 = 960;
const BAR_HEIGHT: usize = 22;
/// For title, axis and margins.
const BESIDES: usize = 90;
/// For the names of the bars.
const NAMES_WIDTH: u32 = 380;
/// The axis: shorter and longer bars end there.
const LEAST: f64 = 0.001;
const MOST: f64 = 10.0;
const HELD: RGBColor = RGBColor(70, 130, 180);
const MISSED: RGBColor = RGBColor(200, 60, 50);

struct Bar<'f> {
    name: &'f str,
    used: f64,
}

impl<'f> Bar<'f> {
    fn of(found: &'f Found<'_>) -> Option<Self> {
        let Figure { number, .. } = found.measured.as_ref()?;
        Some(Self { name: &found.row.what, used: found.row.bound?.used(*number) })
    }
}

/// An SVG document.
///
/// # Errors
/// The plot cannot be drawn.
pub fn plot(found: &[Found<'_>]) -> anyhow::Result<String> {
    // The axis goes up, and the first row belongs at the top.
    let bars: Vec<Bar<'_>> = found.iter().rev().filter_map(Bar::of).collect();
    let mut svg = String::new();
    draw(&mut svg, &bars).map_err(|error| anyhow!("the plot cannot be drawn: {error}"))?;
    Ok(svg)
}

fn draw(svg: &mut String, bars: &[Bar<'_>]) -> Result<(), Box<dyn std::error::Error>> {
    let height = u32::try_from(bars.len() * BAR_HEIGHT + BESIDES)?;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let rows = (0..bars.len().max(1)).into_segmented();
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .caption("Part of its bound that each figure uses", ("sans-serif", 17))
        .x_label_area_size(28)
        .y_label_area_size(NAMES_WIDTH)
        .build_cartesian_2d((LEAST..MOST).log_scale(), rows)?;
    let name = |row: &SegmentValue<usize>| match row {
        SegmentValue::CenterOf(row) => bars.get(*row).map_or("", |bar| bar.name).to_owned(),
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_labels(5)
        .x_label_formatter(&|used| format!("{used}"))
        .y_labels(bars.len().max(1))
        .y_label_formatter(&name)
        .label_style(("sans-serif", 12))
        .draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(row, bar)| {
        let color = if bar.used > 1.0 { MISSED } else { HELD };
        let (from, to) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
        let mut bar = Rectangle::new([(LEAST, from), (bar.used.clamp(LEAST, MOST), to)], color.filled());
        bar.set_margin(3, 3, 0, 0);
        bar
    }))?;
    let ends = [(1.0, SegmentValue::Exact(0)), (1.0, SegmentValue::Exact(bars.len()))];
    chart.draw_series(LineSeries::new(ends, BLACK.stroke_width(2)))?;
    area.present()?;
    Ok(())
}
