//! What a restored store does not know.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use muster_engine::{HeldView, Request, Verdict};
use muster_shared::NodeId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::{Api, query, source};

/// GET /v1/restore?node=
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Of this node alone.
    node: Option<NodeId>,
}

/// POST /v1/restore
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    verdict: Verdict,
    /// None: all that is listed.
    ids: Option<Vec<String>>,
    /// Of this node alone.
    #[serde(default)]
    node: Option<NodeId>,
}

/// GET /v1/restore: what waits to be decided.
pub async fn list(
    State(api): State<Api>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Vec<HeldView>>, ApiError> {
    let node = query(asked)?.node;
    Ok(Json(api.driver.query(move |engine| engine.held_views(node.as_ref())).await?))
}

/// POST /v1/restore: what still waits.
pub async fn decide(State(api): State<Api>, body: Body) -> Result<Json<Value>, ApiError> {
    let Decision { verdict, ids, node } = source::json(&api, body).await?;
    tracing::info!(?verdict, ?ids, ?node, "restore");
    api.driver.request(Request::Restored { verdict, ids, node }).await?;
    let site = api.driver.query(|engine| engine.site_view()).await?;
    Ok(Json(json!({"restored": site.restored, "waiting": site.waiting.restore})))
}
