//! The resources of a stack, by name and page.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::html;
use muster_api::resource::ResourceView;
use muster_front::{escaped, path};
use muster_picture::words::phase_since;
use serde::Deserialize;

use super::{ROWS, node_link, stack_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, more, some, table, text};
use crate::login::Visitor;

/// The resources that are asked for.
#[derive(Deserialize)]
pub struct ResourcesQuery {
    #[serde(default)]
    status: String,
    #[serde(default)]
    after: String,
}

const STATUSES: [&str; 4] = ["", "FAILED", "IN_PROGRESS", "COMPLETE"];

/// GET /console/stacks/{stack}/resources
pub async fn show(
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query<ResourcesQuery>,
) -> Response {
    super::shown(&visitor, page(&visitor, &name, &query).await)
}

async fn page(visitor: &Visitor, name: &str, query: &ResourcesQuery) -> Result<Page, Problem> {
    let mut at = format!("{}/resources?limit={ROWS}", path(["v1", "stacks", name]));
    if !query.status.is_empty() {
        at += &format!("&status={}", escaped(&query.status));
    }
    if !query.after.is_empty() {
        at += &format!("&marker={}", escaped(&query.after));
    }
    let resources: Vec<ResourceView> = visitor.api.get(&at).await?;
    let row = |row: &ResourceView| {
        vec![
            text(&row.name),
            text(&row.kind),
            node_link(&row.node),
            html! { (row.action) " " (badge(&row.status)) },
            badge(&row.observed),
            text(phase_since(&row.phase, row.hook.as_deref(), row.phase_seconds)),
            some(&row.requires),
            text(&row.status_reason),
        ]
    };
    let here = format!("{}/resources", path(["console", "stacks", name]));
    let next = resources.last().filter(|_| resources.len() >= ROWS);
    let heads = ["Resource", "Type", "Node", "Last job", "Observed", "Phase, since", "Needs", "Reason"];
    let content = html! {
        p { "Of " (stack_link(name)) ": "
            @for status in STATUSES {
                a href={ (here) "?status=" (status) } aria-current=[(status == query.status).then_some("true")] {
                    @if status.is_empty() { "all" } @else { (status) }
                } " "
            }
        }
        (table("Resources by name", &heads, &resources.iter().map(row).collect::<Vec<_>>()))
        (more(next.map(|last| format!("{here}?status={}&after={}", escaped(&query.status), escaped(&last.name)))))
    };
    Ok(Page { section: Section::Stacks, title: format!("Resources of {name}"), is_live: true, content })
}
