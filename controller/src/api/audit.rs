//! `GET /v1/audit`: who asked for which change.
//!
//! Absent: which requests have a row (`driver/audit.rs`), and for how long (`store/audit.rs`).

use std::time::Duration;

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use muster_api::query::AuditPage;
use muster_api::site::AuditRow;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use super::error::ApiError;
use super::{Api, PAGE};
use crate::store::{AuditQuery, rfc3339};

/// GET /v1/audit
pub async fn list(
    api: Api,
    asked: Result<Query<AuditPage>, QueryRejection>,
) -> Result<Json<Vec<AuditRow>>, ApiError> {
    let AuditPage { after, before, since, age, user, limit } = super::query(asked)?;
    let begin = age.map(|age| OffsetDateTime::now_utc() - Duration::from_secs(age.into()));
    let since = since.as_deref().map(utc).transpose()?.max(begin.map(rfc3339));
    let limit = limit.unwrap_or(PAGE).clamp(1, PAGE);
    let query = AuditQuery { after, before, since, user, limit };
    Ok(Json(api.read(move |reader| reader.audit(&query)).await?))
}

/// As rows have it, so that texts compare as times do.
fn utc(since: &str) -> Result<String, ApiError> {
    let time = OffsetDateTime::parse(since, &Rfc3339).map_err(|error| {
        ApiError::invalid(format!("since: '{since}' is no time such as 2026-11-28T10:00:00Z: {error}"))
    })?;
    let time = time.checked_to_offset(UtcOffset::UTC);
    time.map(rfc3339).ok_or_else(|| ApiError::invalid(format!("since: '{since}' is beyond the calendar")))
}
