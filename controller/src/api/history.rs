//! The state of the site over the last hours.
//!
//! Absent: the samples (`controller/src/history.rs`).

use axum::Json;
use muster_api::history::HistoryView;

use super::Api;

/// GET /v1/counts/history
pub async fn show(api: Api) -> Json<HistoryView> {
    Json(api.config.history.view())
}
