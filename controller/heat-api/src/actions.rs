//! Actions on a stack: check and cancel. What Heat has besides is refused by name.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Method;
use muster_api::stack::{Begun, Rollback, StackView};
use serde_json::{Map, Value};

use crate::caller::Asking;
use crate::fault::{Fault, cut};
use crate::place::{self, Names};
use crate::{Heat, body};

/// POST /stacks/{stack}/{id}/actions: the body has the action's name as its only key.
pub async fn act(
    State(heat): State<Heat>,
    asking: Asking,
    Path((_, name, id)): Names,
    body: Body,
) -> Result<Json<Value>, Fault> {
    let held = body::read(&heat, &asking, body).await?;
    let asked: Map<String, Value> = if held.is_empty() { Map::new() } else { held.parse()? };
    let mut actions = asked.keys();
    let action = match (actions.next(), actions.next()) {
        (None, _) => return Err(Fault::invalid("No action specified")),
        (Some(_), Some(_)) => return Err(Fault::invalid("Multiple actions specified")),
        (Some(action), None) => action,
    };
    let place = place::whole(&asking.api, &name, &id).await?;
    match &**action {
        "check" => {
            let _begun: Begun = asking.api.send(Method::POST, &place.api("/check"), &Value::Null).await?;
        }
        // A rollback ends the operation that it goes back from.
        "cancel_update" => {
            under_way(&asking, &place.stack, &["UPDATE"]).await?;
            let to_last = Rollback { to: None };
            let _begun: Begun = asking.api.send(Method::POST, &place.api("/rollback"), &to_last).await?;
        }
        "cancel_without_rollback" => {
            under_way(&asking, &place.stack, &["CREATE", "UPDATE"]).await?;
            let _view: StackView = asking.api.send(Method::POST, &place.api("/cancel"), &Value::Null).await?;
        }
        "suspend" | "resume" => {
            return Err(Fault::not_supported(format!(
                "{action}: what is on a server is not suspended; 'muster node maintenance' holds its jobs back"
            )));
        }
        other => return Err(Fault::invalid(format!("Invalid action {} specified", cut(other)))),
    }
    Ok(Json(Value::Null))
}

/// As in Heat, one of these is in progress, or there is nothing to cancel.
async fn under_way(asking: &Asking, stack: &str, actions: &[&str]) -> Result<(), Fault> {
    let StackView { action, status, .. } = place::stack(&asking.api, stack).await?;
    if status == "IN_PROGRESS" && actions.contains(&&*action) {
        return Ok(());
    }
    Err(Fault::not_supported(format!(
        "Cancelling update when stack is ('{action}', '{status}') is not supported."
    )))
}

/// DELETE /stacks/{stack}/{id}/abandon
pub async fn no_abandon(asking: Asking) -> Result<(), Fault> {
    refuse(&asking, "abandon: give its resources 'deletion_policy: retain', then delete the stack").await
}

/// GET /stacks/{stack}/{id}/export
pub async fn no_export(asking: Asking) -> Result<(), Fault> {
    refuse(&asking, "export: 'openstack stack template show' has the template, 'stack file list' its files")
        .await
}

/// Everything below /stacks/{stack}/{id}/snapshots
pub async fn no_snapshot(asking: Asking) -> Result<(), Fault> {
    refuse(&asking, "snapshots: a stack has its revisions: 'muster stack revisions', 'muster stack rollback'")
        .await
}

/// Refuses; a client that is not let in learns nothing.
async fn refuse(asking: &Asking, why: &str) -> Result<(), Fault> {
    asking.admit().await?;
    Err(Fault::not_supported(why))
}
