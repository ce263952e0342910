//! An update of a stack: its template in a form, what the update would change, and the button that starts it.

use std::collections::BTreeMap;

use axum::Form;
use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use muster_api::preview::{PreviewRow, PreviewView};
use muster_api::stack::{Begun, TemplateFile, TemplateView, UpdateStack};
use serde::Deserialize;
use serde_json::Value;

use super::{ROWS, node_link, stack_link};
use crate::client::{Problem, path};
use crate::frame::{Page, Section, badge, errors, table, text};
use crate::login::Visitor;

/// GET /console/stacks/{stack}/update
pub async fn form(visitor: Visitor, Path(name): Path<String>) -> Response {
    let current = current(&visitor, &name).await;
    super::shown(&visitor, current.map(|current| page(&visitor, &name, &current.template, &html! {})))
}

/// The filled form.
#[derive(Deserialize)]
pub struct Filled {
    key: String,
    template: String,
}

/// POST /console/stacks/{stack}/update: what it would change.
pub async fn preview(visitor: Visitor, Path(name): Path<String>, Form(filled): Form<Filled>) -> Response {
    let compared = async {
        visitor.check(&filled.key)?;
        let update = update_to(&visitor, &name, &filled.template).await?;
        let at = path(["v1", "stacks", &name, "preview"]);
        visitor.api.send::<PreviewView>(Method::POST, &at, &update).await
    };
    let below = match compared.await {
        Ok(preview) => {
            html! { (changes(&preview)) (start_button(&visitor, &name, &filled.template, &preview)) }
        }
        Err(problem) => errors(&problem),
    };
    visitor.page(page(&visitor, &name, &filled.template, &below))
}

/// POST /console/stacks/{stack}/update/start
pub async fn start(visitor: Visitor, Path(name): Path<String>, Form(filled): Form<Filled>) -> Response {
    let begun = async {
        visitor.check(&filled.key)?;
        let update = update_to(&visitor, &name, &filled.template).await?;
        visitor.api.send::<Begun>(Method::PUT, &path(["v1", "stacks", &name]), &update).await
    };
    match begun.await {
        Ok(_) => Redirect::to(&path(["console", "stacks", &name])).into_response(),
        Err(problem) => visitor.page(page(&visitor, &name, &filled.template, &errors(&problem))),
    }
}

async fn current(visitor: &Visitor, name: &str) -> Result<TemplateView, Problem> {
    visitor.api.get(&path(["v1", "stacks", name, "template"])).await
}

/// An update to this template, with the files, environments and values of parameters that the stack has.
async fn update_to(visitor: &Visitor, name: &str, template: &str) -> Result<UpdateStack, Problem> {
    let current = current(visitor, name).await?;
    // A browser sends each end of a line as two characters.
    let text = template.replace("\r\n", "\n");
    let template = Some(TemplateFile { name: current.name, text, files: current.files });
    Ok(UpdateStack { template, existing: true, ..UpdateStack::default() })
}

fn page(visitor: &Visitor, name: &str, template: &str, below: &Markup) -> Page {
    let content = html! {
        p { "Of " (stack_link(name)) ". Files, environments and parameters stay as they are." }
        form.wide method="post" action={ (path(["console", "stacks", name])) "/update" } {
            (visitor.key())
            label for="template" { "Template" }
            textarea id="template" name="template" spellcheck="false" { (template) }
            p { button { "Show what this would change" } }
        }
        (below)
    };
    Page { section: Section::Stacks, title: format!("Update of {name}"), is_live: false, content }
}

fn changes(preview: &PreviewView) -> Markup {
    let counts: BTreeMap<_, _> = preview.counts.iter().filter(|(_, count)| **count > 0).collect();
    let differ: Vec<&PreviewRow> = preview.resources.iter().filter(|row| row.change != "unchanged").collect();
    let row = |row: &&PreviewRow| {
        vec![
            text(&row.name),
            text(&row.kind),
            node_link(&row.node),
            html! { (badge(&row.change)) @if row.restricted { " " (badge("FAILED")) " the environment forbids it" } },
            html! { ul { @for property in &row.properties {
                li { code { (property.path) } ": " del { (short(&property.old)) } " → "
                    ins { @if property.unknown { "known later" } @else { (short(&property.new)) } } }
            } } },
        ]
    };
    html! {
        h2 id="changes" { "What it would change" }
        ul.tiles aria-label="Resources by change" {
            @for (change, count) in &counts { li { strong { (count) } (change) } }
        }
        @for warning in &preview.warnings { p.note { (warning) } }
        (table("Resources that change", &["Resource", "Type", "Node", "Change", "Properties"],
            &differ.iter().take(10 * ROWS).map(row).collect::<Vec<_>>()))
        @if differ.len() > 10 * ROWS { p.note { "There are " (differ.len()) ": the first are shown." } }
    }
}

/// A value, not longer than a line or two.
fn short(value: &Value) -> String {
    const FITS: usize = 200;
    let text = match value {
        Value::Null => "not given".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= FITS { text } else { text.chars().take(FITS).chain(['…']).collect() }
}

fn start_button(visitor: &Visitor, name: &str, template: &str, preview: &PreviewView) -> Markup {
    let is_some = preview.resources.iter().any(|row| row.change != "unchanged");
    html! {
        @if !visitor.is_operator() {
            p.note { "An operator may start this." }
        } @else {
            @if !is_some { p { "Nothing changes on any server." } }
            form method="post" action={ (path(["console", "stacks", name])) "/update/start" } {
                (visitor.key())
                input type="hidden" name="template" value=(template);
                button { "Start the update" }
            }
        }
    }
}
