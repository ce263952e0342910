//! Charts of the last hours on the page of the fleet: connections, drift, and jobs by outcome. Each has its figures in
//! a table, too, for whoever sees no picture.
//!
//! Absent: the samples (`controller/src/history.rs`), and how a chart is drawn (`muster_picture::chart`).

use axum::http::StatusCode;
use maud::{Markup, html};
use muster_api::history::{HistoryView, SampleView};
use muster_picture::chart::{Chart, Series};

use crate::client::{Client, Problem};
use crate::frame::{picture, table, text};

/// Outcomes of jobs with a line of their own, with the words for them; the others are one.
const OUTCOMES: [(&str, &str); 3] =
    [("completed", "completed"), ("failed", "failed"), ("timed_out", "timed out")];
const OTHERS: &str = "others";

/// The least time that a chart shows in seconds: a controller that has just started has few samples.
const LEAST: u64 = 600;

/// The charts; nothing for a user who does not see the whole site.
pub async fn section(api: &Client) -> Result<Markup, Problem> {
    let HistoryView { every_seconds, samples } = match api.get("/v1/counts/history").await {
        Ok(history) => history,
        Err(problem) if problem.status == StatusCode::FORBIDDEN => return Ok(html! {}),
        Err(problem) => return Err(problem),
    };
    if samples.is_empty() {
        return Ok(html! {});
    }
    let seconds = samples.iter().map(|sample| sample.age_seconds).max().unwrap_or_default().max(LEAST);
    let of = |name, figure: fn(&SampleView) -> u64| Series {
        name,
        points: samples.iter().map(|sample| (sample.age_seconds, figure(sample))).collect(),
    };
    let nodes = vec![of("connections", |sample| sample.connections), of("nodes", |sample| sample.nodes)];
    let drift = vec![of("drifted resources", |sample| sample.drifted)];
    let chart = |series| Chart { seconds, every: every_seconds, series };
    Ok(html! {
        h2 { "The last hours" }
        div.charts {
            (shown("Connections of agents", chart(nodes)).await)
            (shown("Resources that drifted", chart(drift)).await)
            (shown("Jobs that ended in each half minute", chart(jobs(&samples))).await)
        }
    })
}

/// A line for each outcome that jobs had.
fn jobs(samples: &[SampleView]) -> Vec<Series> {
    let points = |figure: &dyn Fn(&SampleView) -> u64| -> Vec<(u64, u64)> {
        samples.iter().map(|sample| (sample.age_seconds, figure(sample))).collect()
    };
    let of = |sample: &SampleView, outcome: &str| sample.jobs.get(outcome).copied().unwrap_or_default();
    let mut lines: Vec<Series> = OUTCOMES
        .into_iter()
        .map(|(outcome, name)| Series { name, points: points(&|sample| of(sample, outcome)) })
        .collect();
    let others = |sample: &SampleView| {
        let named: u64 = OUTCOMES.into_iter().map(|(outcome, _)| of(sample, outcome)).sum();
        sample.jobs.values().sum::<u64>().saturating_sub(named)
    };
    lines.push(Series { name: OTHERS, points: points(&others) });
    // The first says that there were none of the others.
    let mut is_first = true;
    lines.retain(|line| std::mem::take(&mut is_first) || line.points.iter().any(|(_, figure)| *figure > 0));
    lines
}

/// A chart, and its figures.
async fn shown(name: &str, chart: Chart) -> Markup {
    let rows: Vec<Vec<Markup>> = chart.series.iter().map(row).collect();
    let drawn = picture(name, move || chart.svg()).await;
    html! {
        section {
            h3 { (name) }
            (drawn)
            details {
                summary { "Figures" }
                (table(name, &["Line", "Now", "Least", "Most"], &rows))
            }
        }
    }
}

fn row(series: &Series) -> Vec<Markup> {
    let figures = || series.points.iter().map(|(_, figure)| *figure);
    let [now, least, most] = [figures().next_back(), figures().min(), figures().max()]
        .map(|figure| text(figure.unwrap_or_default()));
    vec![text(series.name), now, least, most]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_that_no_job_had_have_no_line() {
        let sample = |age_seconds, jobs: &[(&str, u64)]| SampleView {
            age_seconds,
            jobs: jobs.iter().map(|(outcome, count)| ((*outcome).to_owned(), *count)).collect(),
            ..SampleView::default()
        };
        let names = |samples: &[SampleView]| jobs(samples).iter().map(|line| line.name).collect::<Vec<_>>();
        assert_eq!(names(&[sample(0, &[])]), ["completed"]);
        let samples = [sample(30, &[("failed", 2), ("lost", 1)]), sample(0, &[("withdrawn", 4)])];
        assert_eq!(names(&samples), ["completed", "failed", "others"]);
        assert_eq!(jobs(&samples)[2].points, [(30, 1), (0, 4)]);
    }
}
