//! A device: its flow table with counters, and a search in it.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use muster_api::flow::{DeviceView, FlowView};
use muster_front::{escaped, path};
use serde::Deserialize;
use serde_json::Value;

use super::{ROWS, node_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, list, more, table, text};
use crate::login::Visitor;

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
    let flows: Vec<FlowView> = visitor.api.get(&format!("{at}/flows?foreign=true")).await?;
    let all = flows.len();
    let words = query.search.to_lowercase();
    let found: Vec<(FlowView, Words)> = flows
        .into_iter()
        .map(|flow| {
            let words = Words::of(&flow);
            (flow, words)
        })
        .filter(|(_, text)| text.have(&words))
        .collect();
    let here = path(["console", "devices", node, bridge]);
    let next = query.from.saturating_add(ROWS);
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
        p { (found.len()) " of " (all) " entries. Counters are those of the moment when the page was loaded." }
        (entries(found.get(query.from..).unwrap_or_default()))
        (more((found.len() > next).then(|| format!("{here}?search={}&from={next}", escaped(&query.search)))))
    };
    Ok(Page {
        section: Section::Devices,
        title: format!("Flow table of {node}/{bridge}"),
        is_live: false,
        content,
    })
}

/// An entry in the words of flow files.
struct Words {
    matches: String,
    does: String,
    line: String,
}

impl Words {
    fn of(flow: &FlowView) -> Self {
        let entry = &flow.entry;
        let said = |parts: [&Option<Value>; 4]| {
            parts.into_iter().flatten().map(one_line).collect::<Vec<_>>().join(" ")
        };
        let matches = said([&entry.selector, &entry.group, &entry.meter, &entry.text]);
        let does = said([&entry.treatment, &entry.buckets, &entry.bands, &None]);
        let line = [flow.state.as_str(), flow.owner.as_deref().unwrap_or_default(), &matches, &does]
            .join(" ")
            .to_lowercase();
        Self { matches, does, line }
    }

    fn have(&self, searched: &str) -> bool {
        searched.split_whitespace().all(|word| self.line.contains(word))
    }
}

fn one_line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(one_line).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| format!("{key}={}", one_line(value)))
            .collect::<Vec<_>>()
            .join(" "),
        other => other.to_string(),
    }
}

fn entries(found: &[(FlowView, Words)]) -> Markup {
    let shown = |value: &Option<Value>| value.as_ref().map(one_line).unwrap_or_default();
    let row = |(flow, words): &(FlowView, Words)| {
        vec![
            text(shown(&flow.entry.table)),
            text(shown(&flow.entry.priority)),
            text(&words.matches),
            text(&words.does),
            html! { (badge(&flow.state)) @if let Some(error) = &flow.error { " " (error) } },
            text(flow.owner.as_deref().unwrap_or_default()),
            text(flow.packets.map(|count| count.to_string()).unwrap_or_default()),
            text(flow.bytes.map(|count| count.to_string()).unwrap_or_default()),
        ]
    };
    let heads = ["Table", "Priority", "Matches", "Actions", "State", "Owner", "Packets", "Bytes"];
    table("Entries", &heads, &found.iter().take(ROWS).map(row).collect::<Vec<_>>())
}
