//! The events of a stack, the newest first.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::html;
use muster_api::stack::EventRow;
use muster_front::path;
use serde::Deserialize;

use super::{NEWEST, ROWS, stack_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, more, table, text, when};
use crate::login::Visitor;

/// The number of the page.
#[derive(Deserialize)]
pub struct EventsQuery {
    before: Option<u64>,
}

/// GET /console/stacks/{stack}/events
pub async fn show(visitor: Visitor, Path(name): Path<String>, Query(query): Query<EventsQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &name, &query).await)
}

async fn page(visitor: &Visitor, name: &str, query: &EventsQuery) -> Result<Page, Problem> {
    let before = query.before.unwrap_or(NEWEST);
    let at = format!("{}/events?limit={ROWS}&before={before}", path(["v1", "stacks", name]));
    let events: Vec<EventRow> = visitor.api.get(&at).await?;
    let row = |event: &EventRow| {
        vec![
            text(event.number),
            when(&event.time),
            text(event.resource.as_deref().unwrap_or("the stack")),
            html! { (event.action) " " (badge(&event.status)) },
            text(event.actor.as_deref().unwrap_or_default()),
            text(&event.reason),
        ]
    };
    let next = events.last().filter(|_| events.len() == ROWS);
    let content = html! {
        p { "Of " (stack_link(name)) }
        (table("The newest first", &["Number", "Time", "Of", "State", "By", "Reason"], &events.iter().map(row).collect::<Vec<_>>()))
        (more(next.map(|last| format!("{}/events?before={}", path(["console", "stacks", name]), last.number))))
    };
    Ok(Page { section: Section::Stacks, title: format!("Events of {name}"), is_live: true, content })
}
