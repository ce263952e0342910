//! Requests about the resources of a stack: list, show, mark unhealthy, clear a hook, send a signal.
//!
//! Absent: what a cleared hook or a signal releases (`controller/engine/src/traversal/hook.rs`,
//! `controller/engine/src/traversal/signal.rs`), and what a resource waits for (`controller/engine/src/view/phase.rs`).

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use muster_api::error::Class;
use muster_api::query::ResourcePage;
use muster_api::resource::{ClearHook, ResourceView, Signalled};
use muster_engine::view::RowFilter;
use muster_engine::{Answer, Request, View};
use muster_shared::StackName;
use muster_template::{Hook, suggestion};

use super::error::ApiError;
use super::{Api, PAGE, query, source, stack_name};

/// GET /v1/stacks/{stack}/resources
pub async fn list(
    api: Api,
    Path(name): Path<String>,
    listed: Result<Query<ResourcePage>, QueryRejection>,
) -> Result<Json<Vec<ResourceView>>, ApiError> {
    let (name, ResourcePage { all, status, busy, limit, marker }) = (stack_name(name)?, query(listed)?);
    let which = RowFilter { all: all || status.is_some() || busy, status, busy };
    rows(&api, &name, which, marker, super::limit(limit)?).await.map(Json)
}

/// GET /v1/stacks/{stack}/resources/{resource}: by name, or by physical id.
pub async fn show(
    api: Api,
    Path((name, wanted)): Path<(String, String)>,
) -> Result<Json<ResourceView>, ApiError> {
    one(&api, &stack_name(name)?, &wanted, true).await.map(Json)
}

/// POST /v1/stacks/{stack}/resources/{resource}/unhealthy: the resource as it is then.
pub async fn unhealthy(
    api: Api,
    Path((name, wanted)): Path<(String, String)>,
) -> Result<Json<ResourceView>, ApiError> {
    let stack = stack_name(name)?;
    let row = one(&api, &stack, &wanted, false).await?;
    tracing::info!(%stack, resource = row.name, "unhealthy");
    api.driver.request(Request::Unhealthy { stack: stack.clone(), resource: row.name.clone() }).await?;
    again(&api, &stack, row).await
}

/// POST /v1/stacks/{stack}/resources/{resource}/clear-hook: the resource afterwards, or before if it is gone.
pub async fn clear_hook(
    api: Api,
    Path((name, wanted)): Path<(String, String)>,
    body: Body,
) -> Result<Json<ResourceView>, ApiError> {
    let stack = stack_name(name)?;
    let ClearHook::<Hook> { hook } = source::json(&api, body).await?;
    let row = one(&api, &stack, &wanted, true).await?;
    tracing::info!(%stack, resource = row.name, hook = hook.as_str(), "clear hook");
    let resource = row.name.clone();
    api.driver.request(Request::ClearHook { stack: stack.clone(), resource, hook }).await?;
    again(&api, &stack, row).await
}

/// POST /v1/stacks/{stack}/resources/{resource}/signal, to a wait condition's handle: the result.
pub async fn signal(
    api: Api,
    Path((name, resource)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Signalled>, ApiError> {
    let stack = stack_name(name)?;
    let signal = source::signal(body).await?;
    let failure = signal.failure;
    let request = Request::Signal { stack: stack.clone(), resource: resource.clone(), signal };
    let Answer::Signalled { id, again, signals } = api.driver.request(request).await? else {
        return Err(ApiError::internal("the engine did not say what became of the signal"));
    };
    tracing::info!(%stack, resource, id, failure, "signal");
    Ok(Json(Signalled { resource, id, again, signals }))
}

async fn one(api: &Api, name: &StackName, wanted: &str, all: bool) -> Result<ResourceView, ApiError> {
    let found = {
        let wanted = wanted.to_owned();
        api.look(name, move |site, name| site.resource_named(name, &wanted, all)).await?
    };
    if let Some(row) = found {
        return Ok(row);
    }
    let rows = rows(api, name, RowFilter { all, ..RowFilter::default() }, None, usize::MAX).await?;
    let near = suggestion(wanted, rows.iter().map(|row| &*row.name));
    Err(ApiError::not_found(format!("no resource '{wanted}' in stack '{name}'{near}")))
}

/// The present row, or the earlier one if it is gone meanwhile.
async fn again(api: &Api, name: &StackName, before: ResourceView) -> Result<Json<ResourceView>, ApiError> {
    let physical = before.physical_id.clone();
    let now = match api.look(name, move |site, name| site.resource_named(name, &physical, true)).await {
        Ok(row) => row.filter(|row| row.id == before.id),
        Err(error) if error.class == Class::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(Json(now.unwrap_or(before)))
}

/// Queries page by page, so that the driver is not delayed.
async fn rows(
    api: &Api,
    name: &StackName,
    which: RowFilter,
    mut after: Option<String>,
    limit: usize,
) -> Result<Vec<ResourceView>, ApiError> {
    let mut rows = Vec::new();
    loop {
        let most = PAGE.min(limit - rows.len());
        let (which, from) = (which.clone(), after.clone());
        let look =
            move |site: View<'_>, name: &StackName| site.resource_page(name, &which, from.as_deref(), most);
        let page = api.look(name, look).await?;
        let is_last = page.len() < most;
        after = page.last().map(|row| row.name.clone());
        rows.extend(page);
        if is_last || rows.len() >= limit {
            return Ok(rows);
        }
    }
}
