//! Rollouts of all stacks, with the buttons that steer them.

use axum::response::Response;
use maud::html;
use muster_api::stack::{StackRow, StackView};
use muster_front::path;

use super::stack::rollout_of;
use super::stack_link;
use crate::client::Problem;
use crate::frame::{Page, Section};
use crate::login::Visitor;

/// The most stacks that are looked at: a page is no long list of rollouts.
const STACKS_MAX: usize = 50;

/// GET /console/rollouts
pub async fn show(visitor: Visitor) -> Response {
    super::shown(&visitor, page(&visitor).await)
}

async fn page(visitor: &Visitor) -> Result<Page, Problem> {
    // A rollout that is under way is in a stack that is; an aborted one is in a stack that has failed.
    let mut going: Vec<StackRow> = Vec::new();
    for status in ["IN_PROGRESS", "FAILED"] {
        let most = STACKS_MAX + 1 - going.len().min(STACKS_MAX);
        going.extend(
            visitor.api.get::<Vec<StackRow>>(&format!("/v1/stacks?status={status}&limit={most}")).await?,
        );
    }
    let mut views: Vec<StackView> = Vec::new();
    for stack in going.iter().take(STACKS_MAX) {
        match visitor.api.get::<StackView>(&path(["v1", "stacks", &stack.name])).await {
            Ok(view) => views.push(view),
            // It was deleted meanwhile.
            Err(problem) if problem.status == axum::http::StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    views.retain(|stack| !stack.rollouts.is_empty());
    let content = html! {
        @if views.is_empty() { p { "No rollout is under way." } }
        @if going.len() > STACKS_MAX {
            p.note { "More stacks are under way or have failed: these are the rollouts of the first " (STACKS_MAX) "." }
        }
        @for stack in &views {
            section {
                p { "Stack " (stack_link(&stack.name)) }
                @for rollout in &stack.rollouts { (rollout_of(visitor, &stack.name, rollout)) }
            }
        }
    };
    Ok(Page { section: Section::Rollouts, title: "Rollouts".to_owned(), is_live: true, content })
}
