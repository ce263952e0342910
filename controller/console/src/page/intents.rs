//! Intents: the list, and one of them with its way drawn.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::html;
use muster_api::intent::{IntentRow, IntentRule, IntentView, Reroute, TopologyView};
use muster_front::{escaped, path};
use muster_picture::network::Picture;
use serde::Deserialize;

use super::{ROWS, device_path};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, link, list, more, picture, table, text};
use crate::login::Visitor;

/// The text to search for, and the begin of the page.
#[derive(Deserialize)]
pub struct IntentsQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    from: usize,
}

/// GET /console/intents
pub async fn show(visitor: Visitor, Query(query): Query<IntentsQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query).await)
}

async fn page(visitor: &Visitor, query: &IntentsQuery) -> Result<Page, Problem> {
    let intents: Vec<IntentRow> = visitor.api.get("/v1/intents").await?;
    let has = |text: &str| text.contains(&query.search);
    let found: Vec<&IntentRow> =
        intents.iter().filter(|row| has(&row.key) || has(&row.state) || has(&row.owner)).collect();
    let row = |row: &&IntentRow| {
        vec![
            link(&path(["console", "intents", &row.key]), &row.key),
            text(&row.kind),
            badge(&row.state),
            text(&row.owner),
            text(row.errors),
            text(&row.reason),
        ]
    };
    let rows: Vec<_> = found.iter().skip(query.from).take(ROWS).map(row).collect();
    let next = query.from.saturating_add(ROWS);
    let content = html! {
        form.search method="get" action="/console/intents" {
            div {
                label for="search" { "Search by key, state or owner" }
                input id="search" name="search" value=(query.search) spellcheck="false";
            }
            button { "Search" }
        }
        p { (found.len()) " of " (intents.len()) " intents" }
        (table("Intents by key", &["Key", "Type", "State", "Owner", "Errors", "Reason"], &rows))
        (more((found.len() > next).then(|| format!("/console/intents?search={}&from={next}", escaped(&query.search)))))
    };
    Ok(Page { section: Section::Intents, title: "Intents".to_owned(), is_live: true, content })
}

/// GET /console/intents/{key}
pub async fn one(visitor: Visitor, Path(key): Path<String>) -> Response {
    super::shown(&visitor, intent(&visitor, &key).await)
}

async fn intent(visitor: &Visitor, key: &str) -> Result<Page, Problem> {
    let intent: IntentView = visitor.api.get(&path(["v1", "intents", key])).await?;
    let network: TopologyView = visitor.api.get(&format!("/v1/topology?key={}", escaped(key))).await?;
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
        vec![text(&moved.why), text(format!("{:.3} s", moved.took)), text(ways.join("; "))]
    };
    let drawn = picture("Path of the intent", move || Picture::of(&network).svg()).await;
    let content = html! {
        (list(&[
            ("State", html! { (badge(&intent.state)) " " (intent.reason) }),
            ("Asked for", text(&intent.request)),
            ("Owner", text(intent.owner.as_deref().unwrap_or_default())),
            ("Paths", text(intent.paths.iter().map(|way| way.join(" → ")).collect::<Vec<_>>().join("; "))),
        ]))
        p { a href={ (path(["console", "intents", key])) "/verify" } { "Verify" } }
        h2 { "Path" }
        (drawn)
        h2 { "Rules" }
        (table("Rules", &["Device", "Rule", "State", "Error"], &intent.entries.iter().map(rule).collect::<Vec<_>>()))
        h2 { "Reroutes" }
        (table("The last reroutes, oldest first", &["Why", "Took", "Paths before"], &intent.history.iter().map(moved).collect::<Vec<_>>()))
    };
    Ok(Page { section: Section::Intents, title: format!("Intent {key}"), is_live: true, content })
}
