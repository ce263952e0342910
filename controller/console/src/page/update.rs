//! An update of a stack: its template in a form, what the update would change, and the button that starts it.

use std::collections::BTreeMap;

use axum::Form;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use muster_api::preview::{PreviewRow, PreviewView};
use muster_api::stack::{Begun, TemplateFile, TemplateView, UpdateStack};
use muster_front::path;
use serde::Deserialize;
use serde_json::Value;

use super::{ROWS, node_link, stack_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, cut, errors, mark, table, text};
use crate::login::Visitor;

/// The most resources that are compared on the page.
const SHOWN: usize = 5 * ROWS;
/// The most properties of a resource that are compared on the page.
const PROPERTIES_MAX: usize = 20;
/// The largest template, in bytes of HTML, that a form shows: a page is no larger than 2 MB.
const TEMPLATE_MAX: usize = 1 << 20;

/// GET /console/stacks/{stack}/update
pub async fn form(visitor: Visitor, Path(name): Path<String>) -> Response {
    let current = current(&visitor, &name).await;
    super::shown(&visitor, current.map(|current| page(&visitor, &name, &current.template, &html! {})))
}

/// A template for the stack.
#[derive(Deserialize)]
pub struct UpdateForm {
    key: String,
    template: String,
    /// The mark of the preview before this: [`Update::mark`].
    #[serde(default)]
    previewed: String,
}

/// POST /console/stacks/{stack}/update: what it would change.
pub async fn preview(visitor: Visitor, Path(name): Path<String>, Form(form): Form<UpdateForm>) -> Response {
    let update = async {
        visitor.check(&form.key)?;
        Update::to(&visitor, &name, &form.template).await
    };
    match update.await {
        Ok(update) => compared(&visitor, &name, &form.template, &update, html! {}).await,
        Err(problem) => refused(&visitor, &name, &form.template, &problem),
    }
}

/// POST /console/stacks/{stack}/update/start
pub async fn start(visitor: Visitor, Path(name): Path<String>, Form(form): Form<UpdateForm>) -> Response {
    let update = async {
        visitor.check(&form.key)?;
        Update::to(&visitor, &name, &form.template).await
    };
    let update = match update.await {
        Ok(update) => update,
        Err(problem) => return refused(&visitor, &name, &form.template, &problem),
    };
    if update.mark != form.previewed {
        return compared(&visitor, &name, &form.template, &update, changed()).await;
    }
    let begun = visitor.api.send::<Begun>(Method::PUT, &path(["v1", "stacks", &name]), &update.request).await;
    let Err(problem) = begun else {
        return Redirect::to(&path(["console", "stacks", &name])).into_response();
    };
    // Another update may have begun meanwhile.
    if problem.status == StatusCode::CONFLICT
        && let Ok(update) = Update::to(&visitor, &name, &form.template).await
        && update.mark != form.previewed
    {
        return compared(&visitor, &name, &form.template, &update, changed()).await;
    }
    refused(&visitor, &name, &form.template, &problem)
}

fn changed() -> Markup {
    html! { p.note { "The template or the stack has changed since. Nothing was started: look again." } }
}

async fn current(visitor: &Visitor, name: &str) -> Result<TemplateView, Problem> {
    visitor.api.get(&path(["v1", "stacks", name, "template"])).await
}

/// A template for the stack as it is now.
struct Update {
    request: UpdateStack,
    /// The mark of the template, and of the revision that it changes.
    mark: String,
}

impl Update {
    /// With the files, environments and values of parameters that the stack has.
    async fn to(visitor: &Visitor, name: &str, template: &str) -> Result<Self, Problem> {
        let current = current(visitor, name).await?;
        let text = with_ends_of(&current.template, template);
        let mark = mark(&format!("{} {text}", current.revision));
        let template = Some(TemplateFile { name: current.name, text, files: current.files });
        let revision = Some(current.revision);
        let request = UpdateStack { template, existing: true, revision, ..UpdateStack::default() };
        Ok(Self { request, mark })
    }
}

/// The text with the ends of lines that another one has: a browser sends all of them as CR and LF.
fn with_ends_of(before: &str, sent: &str) -> String {
    let text = sent.replace("\r\n", "\n");
    if before.contains("\r\n") { text.replace('\n', "\r\n") } else { text }
}

/// The changes of the update, and the button that starts it.
async fn compared(visitor: &Visitor, name: &str, template: &str, update: &Update, note: Markup) -> Response {
    let at = format!("{}?limit={}", path(["v1", "stacks", name, "preview"]), SHOWN + 1);
    match visitor.api.send::<PreviewView>(Method::POST, &at, &update.request).await {
        Ok(preview) => {
            let below =
                html! { (note) (changes(&preview)) (start_button(visitor, name, &update.mark, &preview)) };
            visitor.page(page(visitor, name, template, &below))
        }
        Err(problem) => refused(visitor, name, template, &problem),
    }
}

fn refused(visitor: &Visitor, name: &str, template: &str, problem: &Problem) -> Response {
    visitor.page_with(problem.status, page(visitor, name, template, &errors(problem)))
}

fn page(visitor: &Visitor, name: &str, template: &str, below: &Markup) -> Page {
    let content = html! {
        p { "Of " (stack_link(name)) ". Files, environments and parameters stay as they are." }
        @if escaped_len(template) > TEMPLATE_MAX {
            p.note { "The template is too large for a page: use " code { "muster stack template" } " and " code { "muster stack update" } "." }
        } @else {
            form.wide id="update" method="post" action={ (path(["console", "stacks", name])) "/update" } {
                (visitor.key())
                label for="template" { "Template" }
                // A browser takes the first end of line away.
                textarea id="template" name="template" spellcheck="false" { "\n" (template) }
                @if visitor.is_operator() { p { button { "Preview" } } }
            }
        }
        (below)
    };
    Page { section: Section::Stacks, title: format!("Update of {name}"), is_live: false, content }
}

/// The bytes of a text with its marks escaped.
fn escaped_len(text: &str) -> usize {
    let marks = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | b'"');
    // The longest is `&quot;`.
    text.len() + 5 * text.as_bytes().iter().filter(|byte| marks(byte)).count()
}

fn changes(preview: &PreviewView) -> Markup {
    let counts: BTreeMap<_, _> = preview.counts.iter().filter(|(_, count)| **count > 0).collect();
    let differ: Vec<&PreviewRow> = preview.resources.iter().filter(|row| row.change != "unchanged").collect();
    let unchanged = counts.get(&"unchanged".to_owned()).map_or(0, |count| **count);
    let changed =
        usize::try_from(counts.values().map(|count| **count).sum::<u64>() - unchanged).unwrap_or(usize::MAX);
    let row = |row: &&PreviewRow| {
        vec![
            text(&row.name),
            text(&row.kind),
            node_link(&row.node),
            html! { (badge(&row.change)) @if row.restricted { " " (badge("FAILED")) " the environment forbids it" } },
            html! { ul { @for property in row.properties.iter().take(PROPERTIES_MAX) {
                li { code { (property.path) } ": " del { (short(&property.old)) } " → "
                    ins { @if property.unknown { "known later" } @else { (short(&property.new)) } } }
            } } (cut(row.properties.len(), PROPERTIES_MAX)) },
        ]
    };
    html! {
        h2 id="changes" { "What it would change" }
        ul.tiles aria-label="Resources by change" {
            @for (change, count) in &counts { li { strong { (count) } (change) } }
        }
        @for warning in &preview.warnings { p.note { (warning) } }
        (table("Resources that change", &["Resource", "Type", "Node", "Change", "Properties"],
            &differ.iter().take(SHOWN).map(row).collect::<Vec<_>>()))
        (cut(changed.max(differ.len()), SHOWN))
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

fn start_button(visitor: &Visitor, name: &str, mark: &str, preview: &PreviewView) -> Markup {
    let is_some = preview.resources.iter().any(|row| row.change != "unchanged");
    html! {
        @if !visitor.is_operator() {
            p.note { "An operator may start this." }
        } @else {
            @if !is_some { p { "Nothing changes on any server." } }
            input type="hidden" name="previewed" value=(mark) form="update";
            button form="update" formaction={ (path(["console", "stacks", name])) "/update/start" } { "Start the update" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_lines_stay_as_they_are() {
        for (before, sent, kept) in [
            ("a\nb\n", "a\r\nc\r\n", "a\nc\n"),
            ("a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n"),
            ("\na\n", "\r\na\r\n", "\na\n"),
        ] {
            assert_eq!(with_ends_of(before, sent), kept);
        }
    }
}
