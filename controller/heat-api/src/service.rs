//! The versions of Heat's API, this controller, and the other controllers of the site.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use muster_api::site::{Role, StatusView};
use serde_json::{Value, json};

use crate::Heat;
use crate::caller::{Asking, authority, scheme};
use crate::fault::Fault;

/// Seconds without a look at the lease after which a standby counts as down: Heat's engines report each minute.
const UP_WITHIN: u64 = 60;

/// GET /: anybody may ask.
pub async fn versions(parts: Parts) -> Result<Response, Fault> {
    let href = format!("{}://{}/v1/", scheme(&parts), authority(&parts.headers)?);
    let one = json!({"id": "v1.0", "status": "CURRENT", "links": [{"rel": "self", "href": href}]});
    Ok((StatusCode::MULTIPLE_CHOICES, Json(json!({"versions": [one]}))).into_response())
}

/// GET /build_info
pub async fn build_info(State(heat): State<Heat>, asking: Asking) -> Result<Json<Value>, Fault> {
    asking.admit().await?;
    let revision = format!("muster {}", heat.host.version);
    Ok(Json(json!({"api": {"revision": revision}, "engine": {"revision": revision}})))
}

/// GET /services: the site's controllers.
pub async fn list(asking: Asking) -> Result<Json<Value>, Fault> {
    let status: StatusView = asking.api.get("/v1/status").await?;
    let service = |name: &str, role: Role, behind_s: u64| {
        let status = if behind_s <= UP_WITHIN { "up" } else { "down" };
        json!({
            "id": name,
            "engine_id": name,
            "host": name,
            "hostname": name,
            "binary": "muster-controller",
            "topic": role.as_str(),
            "report_interval": UP_WITHIN,
            "created_at": null,
            "updated_at": null,
            "deleted_at": null,
            "status": status,
        })
    };
    let services: Vec<Value> =
        status.controllers.iter().map(|it| service(&it.name, it.role, it.behind_s)).collect();
    Ok(Json(json!({"services": services})))
}
