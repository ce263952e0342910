//! Devices: bridges whose flow tables the controller keeps.

use axum::response::Response;
use maud::{Markup, html};
use muster_api::flow::DeviceView;

use super::device_path;
use crate::client::Problem;
use crate::frame::{Page, Section, badge, link, table, text};
use crate::login::Visitor;

/// The most devices on the page.
const DEVICES_MAX: usize = 1000;

/// GET /console/devices
pub async fn show(visitor: Visitor) -> Response {
    super::shown(&visitor, page(&visitor).await)
}

async fn page(visitor: &Visitor) -> Result<Page, Problem> {
    let devices: Vec<DeviceView> = visitor.api.get("/v1/devices").await?;
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
    let heads =
        ["Device", "Agent", "Switch", "Entries", "Added", "On their way", "Failed", "Foreign", "Reason"];
    let rows: Vec<Vec<Markup>> = devices.iter().take(DEVICES_MAX).map(row).collect();
    let content = html! {
        (table("Devices by name", &heads, &rows))
        @if devices.len() > DEVICES_MAX { p.note { "There are " (devices.len()) ": the first are shown." } }
    };
    Ok(Page { section: Section::Devices, title: "Flow tables".to_owned(), is_live: true, content })
}
