//! Nodes.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use muster_engine::view::NodeView;
use muster_engine::{Answer, Engine, Request};
use muster_shared::NodeId;
use muster_template::suggestion;
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::error::ApiError;
use super::{Api, source};
use crate::store::rfc3339;

/// GET /v1/nodes
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<NodeView>>, ApiError> {
    let look = |engine: &Engine| (engine.node_views(), OffsetDateTime::now_utc());
    let (mut nodes, now) = api.driver.query(look).await?;
    let mut seen = api.read(|reader| reader.last_seen()).await?;
    for node in &mut nodes {
        let stored = seen.remove(&node.name);
        // What is heard of a node that is there is not written each time.
        node.last_seen = node.silent.map(|silent| rfc3339(now - silent)).or(stored);
    }
    Ok(Json(nodes))
}

/// GET /v1/nodes/{node}
pub async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<NodeView>, ApiError> {
    one(&api, &node_name(name)?).await
}

/// PATCH /v1/nodes/{node}
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    /// Those to be set, and those to go (null).
    labels: BTreeMap<String, Option<String>>,
}

/// PATCH /v1/nodes/{node}: the node as it is then.
pub async fn label(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Json<NodeView>, ApiError> {
    let node = node_name(name)?;
    let Changes { labels } = source::json(&api, body).await?;
    tracing::info!(%node, "label");
    api.driver.request(Request::LabelNode { node: node.clone(), labels }).await?;
    one(&api, &node).await
}

/// POST /v1/nodes/{node}/revoke: the node as it is then.
pub async fn revoke(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<NodeView>, ApiError> {
    let node = node_name(name)?;
    tracing::info!(%node, "revoke");
    api.driver.request(Request::RevokeNode { node: node.clone() }).await?;
    one(&api, &node).await
}

/// DELETE /v1/nodes/{node}: what may be left on it.
pub async fn remove(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    let node = node_name(name)?;
    tracing::info!(%node, "remove");
    match api.driver.request(Request::RemoveNode { node }).await? {
        Answer::NodeRemoved { node, lost, lost_total } => {
            Ok(Json(json!({"name": node, "lost": lost, "lost_total": lost_total})))
        }
        Answer::Stack { .. } | Answer::Done | Answer::Joined { .. } => {
            Err(ApiError::internal("the engine did not say what was removed"))
        }
    }
}

async fn one(api: &Api, node: &NodeId) -> Result<Json<NodeView>, ApiError> {
    let Json(mut nodes) = list(State(api.clone())).await?;
    let found = nodes.iter().position(|other| other.name == node.as_str());
    found.map(|index| Json(nodes.swap_remove(index))).ok_or_else(|| {
        let near = suggestion(node.as_str(), nodes.iter().map(|other| &*other.name));
        ApiError::not_found(format!("no node '{node}'{near}"))
    })
}

fn node_name(text: String) -> Result<NodeId, ApiError> {
    text.try_into().map_err(|error: muster_shared::id::IdError| ApiError::invalid(error.to_string()))
}
