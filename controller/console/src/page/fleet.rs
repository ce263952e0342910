//! The fleet: how the site stands, how many nodes are in which state, and a search among them.

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::response::Response;
use maud::{Markup, html};
use muster_api::node::{FleetCounts, NodeView};
use muster_api::site::StatusView;
use muster_front::escaped;
use serde::Deserialize;

use super::{ROWS, charts, node_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, cut, list, more, table, text, when};
use crate::login::Visitor;

/// The most values of a property that are counted on the page: agents say their versions themselves.
const BARS_MAX: usize = 20;

/// The nodes that are asked for.
#[derive(Deserialize)]
pub struct FleetQuery {
    #[serde(default)]
    selector: String,
    #[serde(default)]
    after: String,
}

/// GET /console
pub async fn show(visitor: Visitor, Query(query): Query<FleetQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query).await)
}

async fn page(visitor: &Visitor, query: &FleetQuery) -> Result<Page, Problem> {
    let api = &visitor.api;
    let status: StatusView = api.get("/v1/status").await?;
    let selector = escaped(&query.selector);
    let found = async {
        let counts: FleetCounts = api.get(&format!("/v1/counts/fleet?selector={selector}")).await?;
        let marker = match &*query.after {
            "" => String::new(),
            after => format!("&marker={}", escaped(after)),
        };
        let nodes: Vec<NodeView> =
            api.get(&format!("/v1/nodes?limit={ROWS}&selector={selector}{marker}")).await?;
        Ok::<_, Problem>(html! {
            div.bars {
                (bars("Nodes by state", &counts.states, counts.total))
                (bars("Nodes by drift", &drift(&counts), counts.total))
                (bars("Nodes by version of the agent", &counts.versions, counts.total))
            }
            (rows(&nodes))
            (more((nodes.len() == ROWS).then(|| next(&query.selector, &nodes))))
        })
    };
    let found = match found.await {
        // A selector that is not understood is no reason to show nothing else.
        Err(problem) if problem.status == axum::http::StatusCode::BAD_REQUEST => {
            crate::frame::errors(&problem)
        }
        found => found?,
    };
    let content = html! {
        (problems(&status))
        (list(&[
            ("Site", text(&status.site)),
            ("Controller", html! { (badge(status.role.as_str())) " since " (when(&status.since)) }),
            ("Link to agents", text(&status.link)),
            ("Store", text(status.store.split(':').next().unwrap_or_default())),
            ("Standbys", text(status.controllers.len().saturating_sub(1))),
        ]))
        // Whoever searches for nodes wants to see them.
        @if query.selector.is_empty() && query.after.is_empty() { (charts::section(api).await?) }
        h2 { "Nodes" }
        form.search method="get" action="/console" {
            div {
                label for="selector" { "Search by labels and facts" }
                input id="selector" name="selector" value=(query.selector) placeholder="role=web,fact.memory>=16G" spellcheck="false";
            }
            button { "Search" }
        }
        (found)
    };
    Ok(Page { section: Section::Fleet, title: "Fleet".to_owned(), is_live: true, content })
}

fn next(selector: &str, nodes: &[NodeView]) -> String {
    let last = nodes.last().map_or("", |node| &node.name);
    format!("/console?selector={}&after={}", escaped(selector), escaped(last))
}

/// Problems that an operator has to solve.
fn problems(status: &StatusView) -> Markup {
    let all = [&status.read_only, &status.link_problem, &status.lease_problem];
    html! {
        @for problem in all.into_iter().flatten() {
            p.error role="alert" { (problem) }
        }
        @if status.restored {
            p.error role="alert" { "The store was restored: " code { "muster restore list" } " shows what to decide." }
        }
        @if status.waiting.hooks > 0 {
            p.note { (status.waiting.hooks) " resources wait at hooks for an operator." }
        }
    }
}

fn drift(counts: &FleetCounts) -> BTreeMap<String, u64> {
    let FleetCounts { total, drifted, .. } = counts;
    BTreeMap::from([("as desired".to_owned(), total - drifted), ("drifted".to_owned(), *drifted)])
}

/// A bar for each count, beside the total.
fn bars(caption: &str, counts: &BTreeMap<String, u64>, total: u64) -> Markup {
    html! {
        section {
            h3 { (caption) }
            ul {
                @for (name, count) in counts.iter().take(BARS_MAX) {
                    li {
                        span { @if name.is_empty() { "not known" } @else { (name) } }
                        meter min="0" max=(total.max(1)) value=(count) aria-label={ (name) ": " (count) " of " (total) } {}
                        strong { (count) }
                    }
                }
            }
            (cut(counts.len(), BARS_MAX))
        }
    }
}

fn rows(nodes: &[NodeView]) -> Markup {
    let row = |node: &NodeView| {
        let labels: Vec<String> = node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            node_link(&node.name),
            html! { (badge(&node.state)) @if let Some(why) = &node.state_reason { " " (why) } },
            text(&node.agent_version),
            when(node.last_seen.as_deref().unwrap_or_default()),
            text(labels.join(" ")),
            text(node.resources),
            html! { @if node.drifted > 0 { span.badge.bad { (node.drifted) " drifted" } } },
        ]
    };
    let heads = ["Node", "State", "Agent", "Last seen", "Labels", "Resources", "Drift"];
    table("Nodes by name", &heads, &nodes.iter().map(row).collect::<Vec<_>>())
}
