//! Intents: the list, and one of them with its way drawn.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use muster_api::intent::{IntentRow, IntentRule, IntentView, Reroute, TopologyView};
use muster_front::{escaped, path};
use muster_picture::network::Picture;
use serde::Deserialize;

use super::{ROWS, device_path};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, cut, cut_text, link, list, more, picture, table, text};
use crate::login::Visitor;

/// The text to search for, and the begin of the page.
#[derive(Deserialize)]
pub struct IntentsQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    after: String,
}

/// The most bridges of the picture, those on the intent's way first.
const DRAWN_MAX: usize = 300;

/// GET /console/intents
pub async fn show(visitor: Visitor, Query(query): Query<IntentsQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query).await)
}

async fn page(visitor: &Visitor, query: &IntentsQuery) -> Result<Page, Problem> {
    let search = escaped(&query.search);
    let asked = format!("/v1/intents?limit={ROWS}&search={search}&marker={}", escaped(&query.after));
    let intents: Vec<IntentRow> = visitor.api.get(&asked).await?;
    let row = |row: &IntentRow| {
        vec![
            link(&path(["console", "intents", &row.key]), &row.key),
            text(&row.kind),
            state(&row.state, row.broken.as_deref()),
            text(&row.owner),
            text(row.errors),
            text(row.broken.as_deref().unwrap_or(&row.reason)),
        ]
    };
    let rows: Vec<_> = intents.iter().map(row).collect();
    let next = intents.last().filter(|_| intents.len() == ROWS);
    let content = html! {
        form.search method="get" action="/console/intents" {
            div {
                label for="search" { "Search by key, state or owner" }
                input id="search" name="search" value=(query.search) spellcheck="false";
            }
            button { "Search" }
        }
        (table("Intents by key", &["Key", "Type", "State", "Owner", "Errors", "Reason"], &rows))
        (more(next.map(|last| format!("/console/intents?search={search}&after={}", escaped(&last.key)))))
    };
    Ok(Page { section: Section::Intents, title: "Intents".to_owned(), is_live: true, content })
}

/// The state, and whether packets go another way than the intent says.
fn state(state: &str, broken: Option<&str>) -> Markup {
    html! { (badge(state)) @if broken.is_some() { " " (badge("broken")) } }
}

/// GET /console/intents/{key}
pub async fn one(visitor: Visitor, Path(key): Path<String>) -> Response {
    super::shown(&visitor, intent(&visitor, &key).await)
}

async fn intent(visitor: &Visitor, key: &str) -> Result<Page, Problem> {
    let intent: IntentView = visitor.api.get(&path(["v1", "intents", key])).await?;
    let network: TopologyView =
        visitor.api.get(&format!("/v1/topology?key={}&limit={DRAWN_MAX}", escaped(key))).await?;
    let rule = |rule: &IntentRule| {
        vec![
            link(&device_path(&rule.device), &rule.device),
            text(&rule.id),
            badge(rule.state.as_deref().unwrap_or("missing")),
            text(rule.error.as_deref().unwrap_or_default()),
        ]
    };
    let moved = |moved: &Reroute| {
        let ways: Vec<String> = moved.before.iter().map(|way| way.join(" → ")).collect();
        vec![text(&moved.why), text(format!("{:.3} s", moved.took)), text(cut_text(&ways.join("; ")))]
    };
    let drawn = picture("Path of the intent", move || Picture::of(&network).svg()).await;
    let content = html! {
        (list(&[
            ("State", html! { (state(&intent.state, intent.broken.as_deref())) " " (intent.reason) }),
            ("Packets", text(intent.broken.as_deref().unwrap_or_default())),
            ("Asked for", text(&intent.request)),
            ("Owner", text(intent.owner.as_deref().unwrap_or_default())),
            ("Paths", text(cut_text(&intent.paths.iter().map(|way| way.join(" → ")).collect::<Vec<_>>().join("; ")))),
        ]))
        p { a href={ (path(["console", "intents", key])) "/verify" } { "Verify" } }
        h2 { "Path" }
        (drawn)
        h2 { "Rules" }
        (table("Rules", &["Device", "Rule", "State", "Error"], &intent.entries.iter().take(10 * ROWS).map(rule).collect::<Vec<_>>()))
        (cut(intent.entries.len(), 10 * ROWS))
        h2 { "Reroutes" }
        (table("The last reroutes, oldest first", &["Why", "Took", "Paths before"], &intent.history.iter().map(moved).collect::<Vec<_>>()))
    };
    Ok(Page { section: Section::Intents, title: format!("Intent {key}"), is_live: true, content })
}
