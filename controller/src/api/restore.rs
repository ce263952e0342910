//! `muster restore`: lists what servers hold and a restored store does not know, and passes on what operators decide.
//!
//! Absent: what a decision changes (`controller/engine/src/restored/decide.rs`), and restoring a backup
//! (`store/backup.rs`).

use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use muster_api::query::HeldOn;
use muster_api::site::{Decide, Decided, HeldView};
use muster_engine::Request;

use super::error::ApiError;
use super::{Api, query, source};

/// GET /v1/restore: what waits to be decided.
pub async fn list(
    api: Api,
    asked: Result<Query<HeldOn>, QueryRejection>,
) -> Result<Json<Vec<HeldView>>, ApiError> {
    let node = query(asked)?.node;
    Ok(Json(api.driver.query(move |site| site.held_views(node.as_ref())).await?))
}

/// POST /v1/restore: what still waits.
pub async fn decide(api: Api, body: Body) -> Result<Json<Decided>, ApiError> {
    let Decide { verdict, ids, node } = source::json(&api, body).await?;
    tracing::info!(?verdict, ?ids, ?node, "restore");
    api.driver.request(Request::Restored { verdict, ids, node }).await?;
    let site = api.driver.query(|site| site.site_view()).await?;
    Ok(Json(Decided { restored: site.restored, waiting: site.waiting.restore }))
}
