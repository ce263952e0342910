//! One file for each page.

pub mod audit;
mod charts;
pub mod device;
pub mod devices;
pub mod events;
pub mod fleet;
pub mod intents;
pub mod network;
pub mod node;
mod node_picture;
pub mod resources;
pub mod rollouts;
pub mod stack;
pub mod stacks;
pub mod trace;
pub mod update;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use crate::client::Problem;
use crate::login::Visitor;

/// The most rows on a page.
const ROWS: usize = 100;
/// Asks for the newest rows of a table.
const NEWEST: u64 = i64::MAX as u64;

/// The answer where there is no page.
pub async fn absent(visitor: Visitor) -> Response {
    visitor.refused(&Problem::new(StatusCode::NOT_FOUND, "There is no such page."))
}

/// A page, or why there is none.
fn shown(visitor: &Visitor, page: Result<crate::frame::Page, Problem>) -> Response {
    page.map_or_else(|problem| visitor.refused(&problem), |page| visitor.page(page))
}

/// `web-1/br0` as two segments of a path.
fn device_path(device: &str) -> String {
    let (node, bridge) = device.split_once('/').unwrap_or((device, ""));
    muster_front::path(["console", "devices", node, bridge])
}

fn node_link(node: &str) -> Markup {
    html! { @if !node.is_empty() { a href=(muster_front::path(["console", "nodes", node])) { (node) } } }
}

fn stack_link(stack: &str) -> Markup {
    html! { a href=(muster_front::path(["console", "stacks", stack])) { (stack) } }
}
