//! Rollouts of all stacks, with the buttons that steer them.

use axum::extract::Query;
use axum::response::Response;
use maud::html;
use muster_api::stack::{StackRow, StackView};
use muster_front::{escaped, path};
use serde::Deserialize;

use super::stack::rollout_of;
use super::stack_link;
use crate::client::Problem;
use crate::frame::{Page, Section, more};
use crate::login::Visitor;

/// The most stacks of a page: each is a request.
const STACKS_MAX: usize = 50;
/// A rollout that is under way is in a stack that is; an aborted one is in a stack that has failed.
const STATUSES: [&str; 2] = ["IN_PROGRESS", "FAILED"];

/// The page of the list.
#[derive(Deserialize)]
pub struct RolloutsQuery {
    /// The stack that the page begins after.
    #[serde(default)]
    after: String,
    /// The page begins among stacks that have failed.
    #[serde(default)]
    failed: bool,
}

/// GET /console/rollouts
pub async fn show(visitor: Visitor, Query(query): Query<RolloutsQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query).await)
}

async fn page(visitor: &Visitor, query: &RolloutsQuery) -> Result<Page, Problem> {
    let is_first = query.after.is_empty();
    let mut marker = if is_first { String::new() } else { format!("&marker={}", escaped(&query.after)) };
    // One more than fits says that there is a next page.
    let mut stacks: Vec<(bool, StackRow)> = Vec::new();
    for status in &STATUSES[usize::from(query.failed)..] {
        let most = STACKS_MAX + 1 - stacks.len();
        if most > 0 {
            let asked = format!("/v1/stacks?status={status}&limit={most}{}", std::mem::take(&mut marker));
            let rows: Vec<StackRow> = visitor.api.get(&asked).await?;
            stacks.extend(rows.into_iter().take(most).map(|row| (*status == "FAILED", row)));
        }
    }
    let next = stacks.get(STACKS_MAX - 1).filter(|_| stacks.len() > STACKS_MAX);
    let next =
        next.map(|(failed, last)| format!("/console/rollouts?failed={failed}&after={}", escaped(&last.name)));
    let mut views: Vec<StackView> = Vec::new();
    for (_, stack) in stacks.iter().take(STACKS_MAX) {
        match visitor.api.get::<StackView>(&path(["v1", "stacks", &stack.name])).await {
            Ok(view) => views.push(view),
            // It was deleted meanwhile.
            Err(problem) if problem.status == axum::http::StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    views.retain(|stack| !stack.rollouts.is_empty());
    let content = html! {
        @if !is_first || next.is_some() {
            p.note { "These are the rollouts of " (stacks.len().min(STACKS_MAX)) " stacks by name: those under way, then those that have failed." }
        }
        @if views.is_empty() { p { "No rollout is under way." } }
        @for stack in &views {
            section {
                p { "Stack " (stack_link(&stack.name)) }
                @for rollout in &stack.rollouts { (rollout_of(visitor, &stack.name, rollout)) }
            }
        }
        (more(next))
    };
    Ok(Page { section: Section::Rollouts, title: "Rollouts".to_owned(), is_live: true, content })
}
