//! Devices: bridges whose flow tables the controller keeps.

use axum::extract::Query;
use axum::response::Response;
use maud::{Markup, html};
use muster_api::flow::DeviceView;
use muster_front::escaped;
use serde::Deserialize;

use super::{ROWS, device_path};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, link, more, table, text};
use crate::login::Visitor;

/// The begin of the page.
#[derive(Deserialize)]
pub struct DevicesQuery {
    #[serde(default)]
    after: String,
}

/// GET /console/devices
pub async fn show(visitor: Visitor, Query(query): Query<DevicesQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query.after).await)
}

async fn page(visitor: &Visitor, after: &str) -> Result<Page, Problem> {
    let devices: Vec<DeviceView> =
        visitor.api.get(&format!("/v1/devices?limit={ROWS}&marker={}", escaped(after))).await?;
    let row = |device: &DeviceView| {
        vec![
            link(&device_path(&device.device), &device.device),
            badge(&device.node_state),
            badge(&device.switch),
            text(device.rules),
            text(device.added),
            text(device.pending_add + device.pending_remove),
            html! { @if device.failed > 0 { span.badge.bad { (device.failed) " failed" } } },
            text(device.foreign),
            text(&device.reason),
        ]
    };
    let heads = ["Device", "Agent", "Switch", "Entries", "Added", "Pending", "Failed", "Foreign", "Reason"];
    let rows: Vec<Vec<Markup>> = devices.iter().map(row).collect();
    let next = devices.last().filter(|_| devices.len() == ROWS);
    let content = html! {
        (table("Devices by name", &heads, &rows))
        (more(next.map(|last| format!("/console/devices?after={}", escaped(&last.device)))))
    };
    Ok(Page { section: Section::Devices, title: "Flow tables".to_owned(), is_live: true, content })
}
