//! A stack: how it stands, what waits for what, its graph, its outputs and what failed; with the buttons of an operator.

use axum::Form;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use muster_api::resource::{GraphNodeView, GraphView, ResourceView};
use muster_api::stack::{FailureView, OutputView, RolloutAction, RolloutView, StackView, SteerRollout};
use muster_front::path;
use muster_picture::stack::Picture;
use muster_picture::words::phase_since;
use serde::Deserialize;
use serde_json::{Value, json};

use super::stacks::progress;
use super::{ROWS, node_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, cut, cut_text, list, picture, some, table, text, when};
use crate::login::Visitor;

/// With more resources than these, one box stands for all of a type.
const DRAWN_MAX: usize = 200;

/// GET /console/stacks/{stack}
pub async fn show(visitor: Visitor, Path(name): Path<String>) -> Response {
    super::shown(&visitor, page(&visitor, &name).await)
}

/// A button of the page.
#[derive(Deserialize)]
pub struct ButtonForm {
    key: String,
    does: String,
    resource: Option<String>,
}

/// POST /console/stacks/{stack}
pub async fn change(visitor: Visitor, Path(name): Path<String>, Form(form): Form<ButtonForm>) -> Response {
    match press(&visitor, &name, form).await {
        Ok(()) => Redirect::to(&path(["console", "stacks", &name])).into_response(),
        Err(problem) => visitor.refused(&problem),
    }
}

async fn press(visitor: &Visitor, name: &str, form: ButtonForm) -> Result<(), Problem> {
    visitor.check(&form.key)?;
    let steer = |action| json!(SteerRollout { action, resource: form.resource.clone() });
    let (verb, body) = match &*form.does {
        "check" => ("check", Value::Null),
        "cancel" => ("cancel", Value::Null),
        "pause" => ("rollout", steer(RolloutAction::Pause)),
        "resume" => ("rollout", steer(RolloutAction::Resume)),
        "promote" => ("rollout", steer(RolloutAction::Promote)),
        "abort" => ("rollout", steer(RolloutAction::Abort)),
        _ => return Err(Problem::new(StatusCode::BAD_REQUEST, "The page has no such button.")),
    };
    visitor.api.send::<Value>(Method::POST, &path(["v1", "stacks", name, verb]), &body).await?;
    Ok(())
}

async fn page(visitor: &Visitor, name: &str) -> Result<Page, Problem> {
    let api = &visitor.api;
    let at = path(["v1", "stacks", name]);
    let stack: StackView = api.get(&at).await?;
    let waiting: Vec<ResourceView> = match &*stack.status {
        "IN_PROGRESS" => api.get(&format!("{at}/resources?limit={ROWS}&busy=true")).await?,
        _ => Vec::new(),
    };
    let failures: Vec<FailureView> = api.get(&format!("{at}/failures")).await?;
    let graph: GraphView = api.get(&format!("{at}/graph?most={DRAWN_MAX}")).await?;
    let types = if graph.by_type {
        types(&graph.nodes)
    } else {
        html! {}
    };
    let drawn = picture("Graph of the stack", move || Picture::of(&graph).svg()).await;
    let here = path(["console", "stacks", name]);
    let content = html! {
        (list(&[
            ("State", html! { (stack.action) " " (badge(&stack.status)) " " (stack.status_reason) }),
            ("Progress", progress(stack.progress, &stack.status)),
            ("Revision", text(stack.revision)),
            ("Created", when(&stack.created_at)),
            ("Updated", when(&stack.updated_at)),
        ]))
        p {
            a href={ (here) "/resources" } { "Resources" } " · "
            a href={ (here) "/events" } { "Events" } " · "
            a href={ (here) "/update" } { "Template, and what an update would do" }
        }
        @if stack.status == "IN_PROGRESS" {
            (visitor.careful_button(&here, "cancel", "", "Cancel the operation"))
        } @else {
            (visitor.button(&here, "check", "", "Check"))
        }
        @for rollout in stack.rollouts.iter().take(ROWS) { (rollout_of(visitor, name, rollout)) }
        (cut(stack.rollouts.len(), ROWS))
        @if !failures.is_empty() { h2 { "Failures" } (failed(&failures)) }
        h2 { "What waits for what" }
        (waits(&waiting))
        h2 { "Graph" }
        (drawn)
        (types)
        @if !stack.outputs.is_empty() { h2 { "Outputs" } (outputs(&stack.outputs)) }
    };
    Ok(Page { section: Section::Stacks, title: format!("Stack {name}"), is_live: true, content })
}

/// A rollout with its buttons.
pub fn rollout_of(visitor: &Visitor, stack: &str, rollout: &RolloutView) -> Markup {
    let here = path(["console", "stacks", stack]);
    let button = |does: &str, words: &str| visitor.button(&here, does, &rollout.resource, words);
    let careful = |does: &str, words: &str| visitor.careful_button(&here, does, &rollout.resource, words);
    let next = rollout.next_in.map(|seconds| format!(", the next batch in {seconds} s")).unwrap_or_default();
    html! {
        h2 { "Rollout of " (rollout.resource) }
        p {
            (badge(&rollout.state)) " " (rollout.stage) " "
            progress value=(rollout.done) max=(rollout.total.max(1)) aria-label={ (rollout.done) " of " (rollout.total) } {}
            " " (rollout.done) " of " (rollout.total) ", " (rollout.in_flight) " under way, " (rollout.failed) " failed ("
            (rollout.max_failures) " may), " (rollout.away) " away" (next)
        }
        @if !rollout.reason.is_empty() { p.error { (rollout.reason) } }
        @match &*rollout.state {
            "going" => { (button("pause", "Pause")) (careful("promote", "Promote")) (careful("abort", "Abort")) },
            "paused" => { (button("resume", "Resume")) (careful("abort", "Abort")) },
            _ => {},
        }
    }
}

/// The types that the boxes of a large graph stand for.
fn types(groups: &[GraphNodeView]) -> Markup {
    let row =
        |group: &GraphNodeView| vec![text(&group.kind), badge(&group.status), text(&group.status_reason)];
    let rows: Vec<_> = groups.iter().map(row).collect();
    html! {
        p { "There are many resources: each box stands for all of a type." }
        (table("Resources by type", &["Type", "Status", "How many"], &rows))
    }
}

fn waits(resources: &[ResourceView]) -> Markup {
    let row = |row: &ResourceView| {
        vec![
            text(&row.name),
            node_link(&row.node),
            html! { (row.action) " " (badge(&row.status)) },
            text(phase_since(&row.phase, row.hook.as_deref(), row.phase_seconds)),
            some(&row.waits_for),
            text(&row.status_reason),
        ]
    };
    let heads = ["Resource", "Node", "State", "Phase, since", "Waits for", "Why"];
    let caption = if resources.len() >= ROWS { "The first that wait, by name" } else { "Under way, by name" };
    table(caption, &heads, &resources.iter().map(row).collect::<Vec<_>>())
}

fn failed(failures: &[FailureView]) -> Markup {
    let row = |row: &FailureView| {
        vec![text(&row.resource), node_link(&row.node), text(&row.action), text(&row.reason)]
    };
    let rows: Vec<_> = failures.iter().take(ROWS).map(row).collect();
    html! {
        (table("What failed in the last operation", &["Resource", "Node", "Action", "Reason"], &rows))
        (cut(failures.len(), ROWS))
    }
}

fn outputs(outputs: &[OutputView]) -> Markup {
    let row = |output: &OutputView| {
        let value = match &output.value {
            _ if !output.output_error.is_empty() => format!("cannot be computed: {}", output.output_error),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        vec![text(&output.key), html! { code { (cut_text(&value)) } }, text(&output.description)]
    };
    let rows: Vec<_> = outputs.iter().take(10 * ROWS).map(row).collect();
    html! { (table("Outputs", &["Output", "Value", "Description"], &rows)) (cut(outputs.len(), 10 * ROWS)) }
}
