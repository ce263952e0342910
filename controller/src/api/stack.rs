//! Requests about stacks: create, update, delete, roll back, check, cancel, steer rollouts, and their views.
//!
//! Absent: whether an operation is accepted (`controller/engine/src/operation/acceptance.rs`), and what it starts
//! (`controller/engine/src/operation.rs`).

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use muster_api::query::{EventPage, Graph, OfRevision, StackPage};
use muster_api::resource::GraphView;
use muster_api::stack::{
    Begun, EventRow, FailureView, OutputView, RevisionRow, Rollback, StackRow, StackView, SteerRollout,
    TemplateView,
};
use muster_api::user::Role;
use muster_engine::{Answer, Request, View, beyond};
use muster_shared::StackName;
use muster_template::MASK;

use super::error::ApiError;
use super::{Api, PAGE, query, source, stack_name};

/// The most events in one answer; a client asks for the next ones with `marker`.
const EVENTS_MAX: usize = 1000;

/// The operation has begun: 202.
pub type Accepted = (StatusCode, Json<Begun>);

/// POST /v1/stacks
pub async fn create(api: Api, body: Body) -> Result<Accepted, ApiError> {
    let mut held = source::read(&api, body).await?;
    let room = held.take_room();
    let (name, source, options) = source::create(held).await?;
    tracing::info!(stack = %name, "create");
    begun("CREATE", api.driver.request_in(Request::Create { name, source, options }, room).await?)
}

/// PUT /v1/stacks/{stack}
pub async fn update(api: Api, Path(name): Path<String>, body: Body) -> Result<Accepted, ApiError> {
    let name = stack_name(name)?;
    api.look(&name, |site, name| site.stack_id(name)).await?;
    let mut held = source::read(&api, body).await?;
    let room = held.take_room();
    let source::Updated { source, options, warnings } =
        source::update(held, name.clone(), api.reader.clone()).await?;
    tracing::info!(stack = %name, "update");
    let mut answer = api.driver.request_in(Request::Update { name, source, options }, room).await?;
    if let Answer::Stack { warnings: all, .. } = &mut answer {
        all.splice(0..0, warnings);
    }
    begun("UPDATE", answer)
}

/// DELETE /v1/stacks/{stack}
pub async fn delete(api: Api, Path(name): Path<String>) -> Result<Accepted, ApiError> {
    let name = stack_name(name)?;
    tracing::info!(stack = %name, "delete");
    begun("DELETE", api.driver.request(Request::Delete { name }).await?)
}

/// POST /v1/stacks/{stack}/rollback
pub async fn rollback(api: Api, Path(name): Path<String>, body: Body) -> Result<Accepted, ApiError> {
    let name = stack_name(name)?;
    let Rollback { to } = source::json(&api, body).await?;
    tracing::info!(stack = %name, ?to, "rollback");
    begun("ROLLBACK", api.driver.request(Request::Rollback { name, to }).await?)
}

/// POST /v1/stacks/{stack}/check
pub async fn check(api: Api, Path(name): Path<String>) -> Result<Accepted, ApiError> {
    let name = stack_name(name)?;
    tracing::info!(stack = %name, "check");
    begun("CHECK", api.driver.request(Request::Check { name }).await?)
}

/// POST /v1/stacks/{stack}/cancel: the stack as it is then.
pub async fn cancel(api: Api, Path(name): Path<String>) -> Result<Json<StackView>, ApiError> {
    let name = stack_name(name)?;
    tracing::info!(stack = %name, "cancel");
    api.driver.request(Request::Cancel { name: name.clone() }).await?;
    let view = current(&api, &name).await?;
    with_times(&api, name, view).await.map(Json)
}

/// POST /v1/stacks/{stack}/rollout: the stack as it is then.
pub async fn rollout(api: Api, Path(name): Path<String>, body: Body) -> Result<Json<StackView>, ApiError> {
    let name = stack_name(name)?;
    let SteerRollout { action, resource } = source::json(&api, body).await?;
    tracing::info!(stack = %name, action = action.as_str(), ?resource, "rollout");
    api.driver.request(Request::Rollout { name: name.clone(), action, resource }).await?;
    let view = current(&api, &name).await?;
    with_times(&api, name, view).await.map(Json)
}

fn begun(action: &str, answer: Answer) -> Result<Accepted, ApiError> {
    let Answer::Stack { name, id, traversal, revision, warnings, .. } = answer else {
        return Err(ApiError::internal("the engine gave no stack as its answer"));
    };
    let (name, id, action) = (name.to_string(), id.to_string(), action.to_owned());
    Ok((StatusCode::ACCEPTED, Json(Begun { name, id, action, traversal, revision, warnings })))
}

/// The statuses of a stack's last operation.
const STATUSES: [&str; 3] = ["IN_PROGRESS", "COMPLETE", "FAILED"];

/// GET /v1/stacks
pub async fn list(
    api: Api,
    asked: Result<Query<StackPage>, QueryRejection>,
) -> Result<Json<Vec<StackRow>>, ApiError> {
    let StackPage { limit, marker: mut after, status } = query(asked)?;
    let limit = super::limit(limit)?;
    if let Some(status) = status.as_deref().filter(|status| !STATUSES.contains(status)) {
        return Err(ApiError::invalid(format!("status={status}: want {}", STATUSES.join(", "))));
    }
    let mut views = Vec::new();
    loop {
        let is_whole = api.scope.is_whole() && status.is_none();
        let most = if is_whole { PAGE.min(limit - views.len()) } else { PAGE };
        let from = after.clone();
        let scope = api.scope.clone();
        let look = move |site: View<'_>| {
            let is_within = |name: &StackName| site.reaches_stack(&scope, name).is_ok();
            let page = site.stack_page(from.as_ref(), most).into_iter();
            page.map(|view: StackView| {
                let name: Option<StackName> = view.name.parse().ok();
                (name.as_ref().is_some_and(is_within), name, view)
            })
            .collect::<Vec<_>>()
        };
        let page = api.driver.query(look).await?;
        let is_last = page.len() < most;
        after = page.last().and_then(|(_, name, _)| name.clone());
        let is_wanted = |view: &StackView| status.as_ref().is_none_or(|status| view.status == *status);
        let seen = page.into_iter().filter(|(is_within, ..)| *is_within).map(|(.., view)| view);
        views.extend(seen.filter(is_wanted));
        if is_last || views.len() >= limit {
            break;
        }
    }
    views.truncate(limit);
    let rows = api
        .read(move |reader| {
            let row = |view: StackView| {
                let name: Result<StackName, _> = view.name.parse();
                let times =
                    name.ok().map(|name| reader.times(&name)).transpose()?.flatten().unwrap_or_default();
                Ok(StackRow {
                    name: view.name,
                    id: view.id,
                    action: view.action,
                    status: view.status,
                    status_reason: view.status_reason,
                    revision: view.revision,
                    traversal: view.traversal,
                    created_at: times.created_at,
                    updated_at: times.updated_at,
                    progress: view.progress,
                })
            };
            views.into_iter().map(row).collect()
        })
        .await?;
    Ok(Json(rows))
}

/// GET /v1/stacks/{stack}
pub async fn show(api: Api, Path(name): Path<String>) -> Result<Json<StackView>, ApiError> {
    let name = stack_name(name)?;
    let view = current(&api, &name).await?;
    with_times(&api, name, view).await.map(Json)
}

/// GET /v1/stacks/{stack}/outputs
pub async fn outputs(api: Api, Path(name): Path<String>) -> Result<Json<Vec<OutputView>>, ApiError> {
    Ok(Json(current(&api, &stack_name(name)?).await?.outputs))
}

/// GET /v1/stacks/{stack}/template; without parameter values, for there may be secrets among them. Contents of files may be
/// secrets as well, which a viewer is not shown.
pub async fn template(
    api: Api,
    Path(name): Path<String>,
    asked: Result<Query<OfRevision>, QueryRejection>,
) -> Result<Json<TemplateView>, ApiError> {
    let (name, OfRevision { revision }) = (stack_name(name)?, query(asked)?);
    api.look(&name, |site, name| site.stack_seq(name)).await?;
    let found = {
        let name = name.clone();
        api.read(move |reader| reader.source(&name, revision)).await?
    };
    match found {
        Some((revision, text)) => {
            let (name, template, mut files) = (text.name, text.template, text.files);
            if api.role < Role::Operator {
                files.values_mut().for_each(|content| MASK.clone_into(content));
            }
            Ok(Json(TemplateView { revision, name, template, files }))
        }
        None => Err(ApiError::not_found(format!(
            "stack '{name}' has no such revision: see 'muster stack revisions {name}'"
        ))),
    }
}

/// GET /v1/stacks/{stack}/graph
pub async fn graph(
    api: Api,
    Path(name): Path<String>,
    asked: Result<Query<Graph>, QueryRejection>,
) -> Result<Json<GraphView>, ApiError> {
    let (name, Graph { most }) = (stack_name(name)?, query(asked)?);
    let most = most.unwrap_or(usize::MAX);
    api.look(&name, move |site, name| site.graph_within(name, most)).await.map(Json)
}

/// GET /v1/stacks/{stack}/revisions
pub async fn revisions(api: Api, Path(name): Path<String>) -> Result<Json<Vec<RevisionRow>>, ApiError> {
    let name = stack_name(name)?;
    api.look(&name, |site, name| site.stack_seq(name)).await?;
    Ok(Json(api.read(move |reader| reader.revisions(&name)).await?))
}

/// GET /v1/stacks/{stack}/failures
pub async fn failures(api: Api, Path(name): Path<String>) -> Result<Json<Vec<FailureView>>, ApiError> {
    let name = stack_name(name)?;
    api.look(&name, |site, name| site.failure_views(name)).await.map(Json)
}

/// GET /v1/stacks/{stack}/events; with the stack's id also after its delete.
pub async fn events(
    api: Api,
    Path(name): Path<String>,
    asked: Result<Query<EventPage>, QueryRejection>,
) -> Result<Json<Vec<EventRow>>, ApiError> {
    let (name, EventPage { after, before, id, limit }) = (stack_name(name)?, query(asked)?);
    let limit = super::limit(limit)?.min(EVENTS_MAX);
    // Whose events those of a stack were that is gone, nobody knows.
    if let Some(id) = id.filter(|_| !api.scope.is_whole())
        && api.look(&name, |site, name| site.stack_id(name)).await? != id
    {
        return Err(ApiError::forbidden(beyond(&api.scope)));
    }
    let found = {
        let name = name.clone();
        api.read(move |reader| id.map_or_else(|| reader.stack_id(&name), |id| Ok(Some(id)))).await?
    };
    let id = match found {
        Some(id) => id,
        // The engine's error suggests similar names.
        None => api.look(&name, |site, name| site.stack_id(name)).await?,
    };
    Ok(Json(api.read(move |reader| reader.events(id, after, before, limit)).await?))
}

async fn current(api: &Api, name: &StackName) -> Result<StackView, ApiError> {
    api.look(name, |site, name| site.stack_view(name)).await
}

/// A view with what the store knows: when.
pub async fn with_times(api: &Api, name: StackName, mut view: StackView) -> Result<StackView, ApiError> {
    let times = api.read(move |reader| reader.times(&name)).await?.unwrap_or_default();
    view.created_at = times.created_at;
    view.updated_at = times.updated_at;
    Ok(view)
}
