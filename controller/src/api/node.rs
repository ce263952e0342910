//! Nodes.

use axum::Json;
use axum::extract::{Path, State};
use muster_engine::view::NodeView;
use muster_template::suggestion;

use super::Api;
use super::error::ApiError;

/// GET /v1/nodes
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<NodeView>>, ApiError> {
    let mut nodes = api.driver.query(|engine| engine.node_views()).await?;
    let mut seen = api.read(|reader| reader.last_seen()).await?;
    for node in &mut nodes {
        node.last_seen = seen.remove(&node.name);
    }
    Ok(Json(nodes))
}

/// GET /v1/nodes/{node}
pub async fn show(state: State<Api>, Path(name): Path<String>) -> Result<Json<NodeView>, ApiError> {
    let Json(mut nodes) = list(state).await?;
    let found = nodes.iter().position(|node| node.name == name).map(|index| nodes.swap_remove(index));
    found.map(Json).ok_or_else(|| {
        let near = suggestion(&name, nodes.iter().map(|node| &*node.name));
        ApiError::not_found(format!("no node '{name}'{near}"))
    })
}
