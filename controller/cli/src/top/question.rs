//! The questions of `muster top` to the controller for a refresh: as many requests for ten thousand nodes as for ten.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use muster_api::node::NodeView;
use muster_api::site::{Role, StatusView};
use muster_api::stack::{StackRow, StackView};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::silence::PAGE;
use super::state::running;
use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::output::read;

/// For one answer. A controller that is well needs milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Stacks that are listed, in one page.
const STACKS_MAX: usize = 1000;
/// Stacks under way that are looked at, each with a request.
const VIEWS_MAX: usize = 5;

/// The answers of the controller for one refresh.
#[derive(Default)]
pub struct Answers {
    pub status: StatusView,
    pub nodes: BTreeMap<String, u64>,
    pub stacks: Vec<StackRow>,
    pub has_more_stacks: bool,
    pub views: Vec<StackView>,
    pub page: Vec<NodeView>,
}

/// Asks for all of it. `marker` is the node that the page of nodes begins after, `open` a stack that is on the screen.
pub async fn ask(client: &mut Client, marker: Option<&str>, open: Option<&str>) -> Result<Answers, Failure> {
    let status: StatusView = get(client, &path(["status"])).await?;
    // Nodes and stacks are the active one's.
    if status.role == Role::Standby {
        return Ok(Answers { status, ..Answers::default() });
    }
    let nodes = get(client, &path(["counts", "nodes"])).await?;
    let stacks: Vec<StackRow> = get(client, &format!("{}?limit={STACKS_MAX}", path(["stacks"]))).await?;
    let mut names: Vec<String> = running(stacks.clone()).into_iter().map(|stack| stack.name).collect();
    names.truncate(VIEWS_MAX);
    names.extend(open.filter(|open| !names.iter().any(|name| name == open)).map(ToOwned::to_owned));
    let mut views = Vec::new();
    for name in names {
        match get(client, &path(["stacks", &name])).await {
            Ok(view) => views.push(view),
            // It has just gone.
            Err(failure) if failure.missing => {}
            Err(failure) => return Err(failure),
        }
    }
    let marker = marker.map(|marker| format!("&marker={}", escaped(marker))).unwrap_or_default();
    let page = get(client, &format!("{}?limit={PAGE}{marker}", path(["nodes"]))).await?;
    let has_more_stacks = stacks.len() == STACKS_MAX;
    Ok(Answers { status, nodes, stacks, has_more_stacks, views, page })
}

async fn get<T: DeserializeOwned>(client: &mut Client, path: &str) -> Result<T, Failure> {
    match timeout(ANSWER_WITHIN, client.send_once(Method::GET, path, None)).await {
        Ok(answer) => answer.and_then(|answer| read(&answer)),
        Err(_) => Err(Failure::unreachable(format!(
            "the controller has not answered for {} s",
            ANSWER_WITHIN.as_secs()
        ))),
    }
}
