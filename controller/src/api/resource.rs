//! Resources of a stack.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use muster_engine::Request;
use muster_engine::view::ResourceView;
use muster_shared::StackName;
use muster_template::{Hook, suggestion};
use serde::Deserialize;

use super::error::ApiError;
use super::{Api, query, source, stack_name};

/// `?all=&status=`
#[derive(Deserialize)]
pub struct Which {
    /// Rows that are being replaced or cleaned up, too.
    #[serde(default)]
    all: bool,
    /// Only these.
    status: Option<String>,
}

/// GET /v1/stacks/{stack}/resources
pub async fn list(
    State(api): State<Api>,
    Path(name): Path<String>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Vec<ResourceView>>, ApiError> {
    let (name, Which { all, status }) = (stack_name(name)?, query(which)?);
    let mut rows = rows(&api, &name, all || status.is_some()).await?;
    rows.retain(|row| status.as_ref().is_none_or(|status| row.status == *status));
    Ok(Json(rows))
}

/// GET /v1/stacks/{stack}/resources/{resource}: by name, or by physical id.
pub async fn show(
    State(api): State<Api>,
    Path((name, wanted)): Path<(String, String)>,
) -> Result<Json<ResourceView>, ApiError> {
    one(&api, &stack_name(name)?, &wanted).await
}

/// POST /v1/stacks/{stack}/resources/{resource}/clear-hook: the resource as it is then, or as it was if it is gone.
pub async fn clear_hook(
    State(api): State<Api>,
    Path((name, wanted)): Path<(String, String)>,
    body: Body,
) -> Result<Json<ResourceView>, ApiError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Clear {
        hook: Hook,
    }
    let stack = stack_name(name)?;
    let Clear { hook } = source::json(&api, body).await?;
    let Json(before) = one(&api, &stack, &wanted).await?;
    tracing::info!(%stack, resource = before.name, hook = hook.as_str(), "clear hook");
    let resource = before.name.clone();
    api.driver.request(Request::ClearHook { stack: stack.clone(), resource, hook }).await?;
    one(&api, &stack, &before.physical_id).await.or(Ok(Json(before)))
}

async fn one(api: &Api, name: &StackName, wanted: &str) -> Result<Json<ResourceView>, ApiError> {
    // Rows of the current revision come first.
    let mut rows = rows(api, name, true).await?;
    let found = rows.iter().position(|row| row.name == wanted || row.physical_id == wanted);
    let row = found.map(|index| rows.swap_remove(index));
    row.map(Json).ok_or_else(|| {
        let near = suggestion(wanted, rows.iter().map(|row| &*row.name));
        ApiError::not_found(format!("no resource '{wanted}' in stack '{name}'{near}"))
    })
}

async fn rows(api: &Api, name: &StackName, all: bool) -> Result<Vec<ResourceView>, ApiError> {
    api.look(name, move |engine, name| engine.resource_views(name, all)).await
}
