//! Long polls: a stack's view as soon as it differs from the known one.
//!
//! Absent: when `muster --wait` stops waiting (`controller/cli/src/wait.rs`).

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use muster_api::query::Watch;
use muster_api::stack::StackView;
use tokio::time::timeout;

use super::error::ApiError;
use super::{Api, WAIT_MAX, query, stack, stack_name};

/// GET /v1/stacks/{stack}/watch. After a delete: DELETE COMPLETE, for a client that has seen the stack.
pub async fn watch(
    api: Api,
    Path(name): Path<String>,
    known: Result<Query<Watch>, QueryRejection>,
) -> Result<Json<StackView>, ApiError> {
    let (name, Watch { seq, traversal }) = (stack_name(name)?, query(known)?);
    let mut stopped = api.stopped.clone();
    let changed = timeout(WAIT_MAX, api.driver.watch(name.clone(), traversal, seq));
    let view = tokio::select! {
        changed = changed => match changed {
            Ok(view) => view?,
            Err(_elapsed) => {
                let name = name.clone();
                api.driver.query(move |site| site.stack_view(&name)).await?
            }
        },
        _ended = stopped.changed() => return Err(ApiError::unavailable("the controller is stopping")),
    };
    let (reached, scope) = (name.clone(), api.scope.clone());
    api.driver.query(move |site| site.reaches_stack(&scope, &reached)).await??;
    match (view, traversal) {
        // While the operation is under way, its times are not worth a read.
        (Some(view), _) if view.status == "IN_PROGRESS" => Ok(Json(view)),
        (Some(view), _) => stack::with_times(&api, name, view).await.map(Json),
        // The client knows a traversal of a stack that no longer exists; the controller was restarted since.
        (None, Some(traversal)) => Ok(Json(StackView {
            name: name.to_string(),
            action: "DELETE".into(),
            status: "COMPLETE".into(),
            traversal,
            seq: seq.wrapping_add(1),
            ..StackView::default()
        })),
        (None, None) => {
            Err(api.driver.query(move |site| site.no_stack(&name)).await.map_or_else(From::from, From::from))
        }
    }
}
