//! Requests for previews: what an update would do.
//!
//! Absent: the comparison itself (`controller/engine/src/operation/preview.rs`).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use muster_api::preview::PreviewView;
use muster_api::query::Preview;

use super::error::ApiError;
use super::{Api, query, source, stack_name};

/// POST /v1/stacks/{stack}/preview: accepts the body of an update; a missing stack would be created.
pub async fn preview(
    api: Api,
    Path(name): Path<String>,
    asked: Result<Query<Preview>, QueryRejection>,
    body: Body,
) -> Result<Json<PreviewView>, ApiError> {
    let (name, limit) = (stack_name(name)?, super::limit(query(asked)?.limit)?);
    let missing = {
        let name = name.clone();
        let look =
            move |site: muster_engine::View<'_>| site.stack_id(&name).is_none().then(|| site.no_stack(&name));
        api.driver.query(look).await?
    };
    let held = source::read(&api, body).await?;
    let mut asked = source::preview(held, name.clone(), missing, api.reader.clone()).await?;
    asked.options.scope.clone_from(&api.scope.label);
    let asked = Arc::new(asked);
    let view = {
        let (asked, scope) = (Arc::clone(&asked), api.scope.clone());
        let look = move |site: muster_engine::View<'_>| {
            // Another stack may have the name since the request was let in.
            site.reaches_stack(&scope, &name)?;
            let old = asked.current.as_ref().map(|source| &*source.tree);
            site.preview(&name, &asked.source, old, &asked.options)
        };
        api.driver.query(look).await
    };
    let warnings = asked.warnings.clone();
    // Freeing a large template takes time, so another thread does it.
    drop(tokio::task::spawn_blocking(move || drop(asked)));
    let mut view = view??;
    view.resources.truncate(limit);
    view.warnings.splice(0..0, warnings);
    Ok(Json(view))
}
