//! A device: its flow table with counters, and a search in it.

use std::time::Duration;

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use muster_api::flow::{DeviceView, FlowView, one_line};
use muster_front::{escaped, path};
use serde::Deserialize;
use serde_json::Value;

use tokio::time::timeout;

use super::{ROWS, node_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, cut_text, list, more, table, text};
use crate::login::Visitor;

/// A page waits so long for what an agent has to tell: counters, and entries of others. An agent that is slow, or hangs, has
/// them later, and the page is there without them.
const AGENT_MAX: Duration = Duration::from_millis(300);

/// The text to search for, and the begin of the page.
#[derive(Deserialize)]
pub struct DeviceQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    from: usize,
}

/// GET /console/devices/{node}/{bridge}
pub async fn show(
    visitor: Visitor,
    Path((node, bridge)): Path<(String, String)>,
    Query(query): Query<DeviceQuery>,
) -> Response {
    super::shown(&visitor, page(&visitor, &node, &bridge, &query).await)
}

async fn page(visitor: &Visitor, node: &str, bridge: &str, query: &DeviceQuery) -> Result<Page, Problem> {
    let at = path(["v1", "devices", node, bridge]);
    let device: DeviceView = visitor.api.get(&at).await?;
    let here = path(["console", "devices", node, bridge]);
    let search = escaped(&query.search);
    // One more than is shown tells whether there is a next page.
    let asked = |of_agent: bool| {
        let live = format!("counters={of_agent}&foreign={of_agent}");
        format!("{at}/flows?{live}&limit={}&offset={}&search={search}", ROWS + 1, query.from)
    };
    let told = timeout(AGENT_MAX, visitor.api.get(&asked(true))).await;
    let is_told = told.is_ok();
    let found: Vec<FlowView> = match told {
        Ok(found) => found?,
        Err(_) => visitor.api.get(&asked(false)).await?,
    };
    let next = query.from.saturating_add(ROWS);
    let shown = &found[..found.len().min(ROWS)];
    let content = html! {
        (list(&[
            ("Node", node_link(node)),
            ("Agent", badge(&device.node_state)),
            ("Switch", badge(&device.switch)),
            ("Entries", text(format!("{} of {} installed", device.added, device.rules))),
            ("Foreign", text(device.foreign)),
            ("Reason", text(&device.reason)),
        ]))
        form.search method="get" action=(here) {
            div {
                label for="search" { "Search in all columns" }
                input id="search" name="search" value=(query.search) spellcheck="false";
            }
            button { "Search" }
        }
        p {
            @if !shown.is_empty() { "Entries " (query.from.saturating_add(1)) " to " (query.from.saturating_add(shown.len())) ". " }
            @if is_told { "Counters are those of the moment when the page was loaded." }
            @else { "The agent has told no counters yet, nor entries of others: load the page again." }
        }
        (entries(shown))
        (more((found.len() > ROWS).then(|| format!("{here}?search={search}&from={next}"))))
    };
    Ok(Page {
        section: Section::Devices,
        title: format!("Flow table of {node}/{bridge}"),
        is_live: false,
        content,
    })
}

fn entries(found: &[FlowView]) -> Markup {
    let shown = |value: &Option<Value>| value.as_ref().map(one_line).unwrap_or_default();
    let row = |flow: &FlowView| {
        vec![
            text(shown(&flow.entry.table)),
            text(shown(&flow.entry.priority)),
            text(cut_text(&flow.entry.matches())),
            text(cut_text(&flow.entry.does())),
            html! { (badge(&flow.state)) @if let Some(error) = &flow.error { " " (error) } },
            text(flow.owner.as_deref().unwrap_or_default()),
            text(flow.packets.map(|count| count.to_string()).unwrap_or_default()),
            text(flow.bytes.map(|count| count.to_string()).unwrap_or_default()),
        ]
    };
    let heads = ["Table", "Priority", "Matches", "Actions", "State", "Owner", "Packets", "Bytes"];
    table("Entries", &heads, &found.iter().map(row).collect::<Vec<_>>())
}
