//! Resources of a stack.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use muster_engine::view::ResourceView;
use muster_shared::StackName;
use muster_template::suggestion;
use serde::Deserialize;

use super::error::ApiError;
use super::{Api, query, stack_name};

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
    let name = stack_name(name)?;
    // Rows of the current revision come first.
    let mut rows = rows(&api, &name, true).await?;
    let found = rows.iter().position(|row| row.name == wanted || row.physical_id == wanted);
    let row = found.map(|index| rows.swap_remove(index));
    row.map(Json).ok_or_else(|| {
        let near = suggestion(&wanted, rows.iter().map(|row| &*row.name));
        ApiError::not_found(format!("no resource '{wanted}' in stack '{name}'{near}"))
    })
}

async fn rows(api: &Api, name: &StackName, all: bool) -> Result<Vec<ResourceView>, ApiError> {
    api.look(name, move |engine, name| engine.resource_views(name, all)).await
}
