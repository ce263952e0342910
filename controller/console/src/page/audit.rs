//! The audit: changes with the user who asked for each, the newest first.

use axum::extract::Query;
use axum::response::Response;
use maud::html;
use muster_api::site::AuditRow;
use muster_front::escaped;
use serde::Deserialize;

use super::{NEWEST, ROWS};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, more, table, text, when};
use crate::login::Visitor;

/// The rows that are asked for, and the begin of the page.
#[derive(Deserialize)]
pub struct AuditQuery {
    #[serde(default)]
    user: String,
    before: Option<u64>,
}

/// GET /console/audit
pub async fn show(visitor: Visitor, Query(query): Query<AuditQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query).await)
}

async fn page(visitor: &Visitor, query: &AuditQuery) -> Result<Page, Problem> {
    let mut at = format!("/v1/audit?limit={ROWS}&before={}", query.before.unwrap_or(NEWEST));
    if !query.user.is_empty() {
        at += &format!("&user={}", escaped(&query.user));
    }
    let audit: Vec<AuditRow> = visitor.api.get(&at).await?;
    let row = |row: &AuditRow| {
        vec![
            when(&row.at),
            text(&row.actor),
            text(&row.from),
            text(&row.action),
            text(&row.target),
            text(&row.what),
            html! { @if row.result == "ok" { (badge("ok")) } @else { (badge("FAILED")) " " (row.result) } },
        ]
    };
    let next = audit.last().filter(|_| audit.len() == ROWS);
    let heads = ["Time", "Who", "From", "Action", "Of", "What", "Result"];
    let content = html! {
        form.search method="get" action="/console/audit" {
            div {
                label for="user" { "User" }
                input id="user" name="user" value=(query.user) spellcheck="false";
            }
            button { "Show" }
        }
        (table("The newest first", &heads, &audit.iter().map(row).collect::<Vec<_>>()))
        (more(next.map(|last| format!("/console/audit?user={}&before={}", escaped(&query.user), last.number))))
    };
    Ok(Page { section: Section::Audit, title: "Audit".to_owned(), is_live: true, content })
}
