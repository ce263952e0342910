//! The list of stacks.

use axum::extract::Query;
use axum::response::Response;
use maud::{Markup, html};
use muster_api::stack::{ProgressView, StackRow};
use muster_front::escaped;
use serde::Deserialize;

use super::{ROWS, stack_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, more, table, text, when};
use crate::login::Visitor;

/// The page of the list.
#[derive(Deserialize)]
pub struct StacksQuery {
    #[serde(default)]
    after: String,
}

/// GET /console/stacks
pub async fn show(visitor: Visitor, Query(query): Query<StacksQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query).await)
}

async fn page(visitor: &Visitor, query: &StacksQuery) -> Result<Page, Problem> {
    let marker = match &*query.after {
        "" => String::new(),
        after => format!("&marker={}", escaped(after)),
    };
    let stacks: Vec<StackRow> = visitor.api.get(&format!("/v1/stacks?limit={ROWS}{marker}")).await?;
    let row = |stack: &StackRow| {
        vec![
            stack_link(&stack.name),
            html! { (stack.action) " " (badge(&stack.status)) },
            progress(stack.progress, &stack.status),
            text(stack.revision),
            when(&stack.updated_at),
            text(&stack.status_reason),
        ]
    };
    let heads = ["Stack", "State", "Progress", "Revision", "Updated", "Reason"];
    let next = stacks.last().filter(|_| stacks.len() == ROWS);
    let content = html! {
        (table("Stacks by name", &heads, &stacks.iter().map(row).collect::<Vec<_>>()))
        (more(next.map(|last| format!("/console/stacks?after={}", escaped(&last.name)))))
    };
    Ok(Page { section: Section::Stacks, title: "Stacks".to_owned(), is_live: true, content })
}

/// The progress of an operation that is under way.
pub fn progress(progress: ProgressView, status: &str) -> Markup {
    let ProgressView { done, total, in_flight, failed } = progress;
    html! {
        @if status == "IN_PROGRESS" {
            progress value=(done) max=(total.max(1)) aria-label={ (done) " of " (total) } {}
            " " (done) " of " (total) ", " (in_flight) " under way"
            @if failed > 0 { ", " (failed) " failed" }
        }
    }
}
