//! A chart over time as an SVG document: a line for each series, a legend, hours and minutes below. It has no style
//! sheet, so it may stand in a page whose policy allows none.
//!
//! Absent: where the figures come from, and a table of them for whoever sees no picture (`controller/console`).

use plotters::prelude::*;
use plotters::style::RGBColor;

const WIDTH: u32 = 380;
const HEIGHT: u32 = 170;
/// For the figures beside the chart.
const FIGURES_WIDTH: u32 = 40;
/// A line has a gap where samples are missing for longer than so many times the usual.
const GAP: f64 = 2.5;
/// Colours that stand apart on white, also for most of those who see few.
pub(crate) const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 160),
    RGBColor(200, 60, 0),
    RGBColor(0, 120, 90),
    RGBColor(150, 60, 140),
    RGBColor(120, 100, 0),
    RGBColor(70, 70, 70),
];

/// Series of figures over the same time.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Seconds before the end of the chart to which it goes back.
    pub seconds: u64,
    /// The usual time between two figures in seconds.
    pub every: u64,
    pub series: Vec<Series>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: &'static str,
    /// Seconds before the end, and the figure; oldest first.
    pub points: Vec<(u64, u64)>,
}

impl Chart {
    /// The whole document; empty if it cannot be drawn.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        match self.draw(&mut svg) {
            Ok(()) => svg,
            Err(_) => String::new(),
        }
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let most = self.series.iter().flat_map(|series| &series.points).map(|(_, figure)| *figure).max();
        // One more than the highest, so that no line is the frame.
        let (oldest, top) = (minutes(self.seconds.max(60)), most.unwrap_or_default() as f64 * 1.1 + 1.0);
        let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .margin_right(24)
            .x_label_area_size(26)
            .y_label_area_size(FIGURES_WIDTH)
            .build_cartesian_2d(oldest..0.0, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(4)
            .x_label_formatter(&|at| ago(*at))
            .y_labels(5)
            .y_label_formatter(&|figure| figures(*figure))
            .label_style(("sans-serif", 12))
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let mut parts = self.parts(series).into_iter();
            let first = chart
                .draw_series(LineSeries::new(parts.next().unwrap_or_default(), colour.stroke_width(2)))?;
            let line = colour.stroke_width(2);
            first.label(series.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], line));
            for part in parts {
                chart.draw_series(LineSeries::new(part, colour.stroke_width(2)))?;
            }
        }
        if self.series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.85))
                .label_font(("sans-serif", 12))
                .draw()?;
        }
        area.present()?;
        drop(chart);
        drop(area);
        Ok(())
    }

    /// Lines between gaps. A figure that stands alone is a line as long as a sample is good for.
    fn parts(&self, series: &Series) -> Vec<Vec<(f64, f64)>> {
        let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
        let gap = minutes(self.every).abs() * GAP;
        for (before, figure) in &series.points {
            let point = (minutes(*before), *figure as f64);
            match parts.last_mut() {
                Some(part) if part.last().is_some_and(|last| point.0 - last.0 <= gap) => part.push(point),
                Some(_) | None => parts.push(vec![point]),
            }
        }
        for part in &mut parts {
            if let [(at, figure)] = part[..] {
                part.insert(0, (at + minutes(self.every), figure));
            }
        }
        parts
    }
}

/// Minutes on the axis: the end is 0, and what was before is below.
fn minutes(seconds_before: u64) -> f64 {
    -(seconds_before as f64) / 60.0
}

/// `1:30 h ago`, `10 min ago`
fn ago(at: f64) -> String {
    let minutes = at.abs().round() as u64;
    match (minutes / 60, minutes % 60) {
        (0, 0) => "now".to_owned(),
        (0, minutes) => format!("{minutes} min ago"),
        (hours, 0) => format!("{hours} h ago"),
        (hours, minutes) => format!("{hours}:{minutes:02} h ago"),
    }
}

/// A figure of the axis: whole ones only, thousands as `12k`.
fn figures(figure: f64) -> String {
    match figure {
        _ if figure.fract() != 0.0 => String::new(),
        _ if figure >= 10_000.0 => format!("{}k", figure / 1000.0),
        _ => format!("{figure}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(u64, u64)>) -> Chart {
        let series = |name: &'static str| Series { name, points: points.clone() };
        Chart { seconds: 10_800, every: 30, series: vec![series("completed"), series("failed")] }
    }

    #[test]
    fn a_chart_has_its_lines_axes_and_names() {
        let svg = chart(vec![(90, 3), (60, 12), (30, 0), (0, 7)]).svg();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        // Two lines, and two in the legend.
        for colour in ["#005AA0", "#C83C00"] {
            assert_eq!(svg.matches(&format!("stroke=\"{colour}\"")).count(), 2, "{svg}");
        }
        for text in ["completed", "failed", "now", "1:40 h ago"] {
            assert!(svg.contains(text), "{text}\n{svg}");
        }
        assert!(!svg.contains("style=") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg, chart(vec![(90, 3), (60, 12), (30, 0), (0, 7)]).svg());
    }

    #[test]
    fn missing_samples_are_a_gap() {
        let lines = |points: Vec<(u64, u64)>| {
            let chart = chart(points);
            chart.parts(&chart.series[0]).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(lines(vec![(300, 1), (270, 1), (120, 1), (90, 2), (60, 3)]), [2, 3]);
        assert_eq!(lines(vec![(300, 1), (0, 1)]), [2, 2], "one alone is a line, too");
        assert!(lines(Vec::new()).is_empty());
    }

    #[test]
    fn nothing_and_very_much_are_drawn() {
        for points in [Vec::new(), vec![(0, 0)], vec![(0, u64::MAX), (9_999_999, 1)]] {
            let svg = chart(points.clone()).svg();
            assert!(svg.contains("</svg>") && !svg.contains("NaN"), "{points:?}");
        }
        let none = Chart::default().svg();
        assert!(none.contains("</svg>"), "{none}");
    }

    #[test]
    fn times_and_figures_are_short() {
        let told: Vec<String> = [0.0, -10.0, -60.0, -90.0, -180.0].map(ago).to_vec();
        assert_eq!(told, ["now", "10 min ago", "1 h ago", "1:30 h ago", "3 h ago"]);
        let told: Vec<String> = [0.0, 0.5, 40.0, 9999.0, 12_500.0].map(figures).to_vec();
        assert_eq!(told, ["0", "", "40", "9999", "12.5k"]);
    }
}
