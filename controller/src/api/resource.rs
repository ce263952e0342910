//! Resources of a stack.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use muster_engine::view::ResourceView;
use muster_shared::StackName;
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
    let mut rows = rows(&api, name, all || status.is_some()).await?;
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
    let mut rows = rows(&api, name.clone(), true).await?.into_iter();
    rows.find(|row| row.name == wanted || row.physical_id == wanted).map(Json).ok_or_else(|| {
        ApiError::not_found(format!(
            "no resource '{wanted}' in stack '{name}': see 'muster resource list {name}'"
        ))
    })
}

async fn rows(api: &Api, name: StackName, all: bool) -> Result<Vec<ResourceView>, ApiError> {
    let asked = name.clone();
    let rows = api.driver.query(move |engine| engine.resource_views(&asked, all)).await?;
    rows.ok_or_else(|| ApiError::not_found(format!("no stack '{name}'")))
}
