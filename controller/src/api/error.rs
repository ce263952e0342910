//! The answer to a request that failed: its status, its message, and when the same request may be sent again.
//!
//! Absent: what is refused, which the engine decides (`Refusal` in `controller/engine/src/request.rs`), and the exit
//! code of `muster` (`answer` in `controller/cli/src/client.rs`).

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use muster_api::error::{self, Class, Refused};
use muster_engine::Refusal;
use muster_template::{Error, Errors};

use crate::store::{Failure, StoreError};

/// The pause after which a request may be sent again that came while something began, or was read.
const SOON: Duration = Duration::from_secs(1);

/// The answer to a request that failed.
#[derive(Debug)]
pub struct ApiError {
    pub class: Class,
    /// The message for the operator.
    pub message: String,
    /// Errors of a template, each with its place.
    pub errors: Vec<Error>,
    /// Nothing was done, and the same request may be sent again after this.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), errors: Vec::new(), retry_after: None }
    }

    pub(super) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(Class::Unauthorized, message)
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Class::Forbidden, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Class::NotFound, message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(Class::Conflict, message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Class::Invalid, message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Class::Unavailable, message)
    }

    /// Nothing was done, and soon it can be.
    pub(super) fn later(message: impl Into<String>) -> Self {
        Self::after(SOON, message)
    }

    /// Nothing was done, and after this time it can be.
    pub(super) fn after(wait: Duration, message: impl Into<String>) -> Self {
        Self { retry_after: Some(wait), ..Self::unavailable(message) }
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(Class::Internal, message)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound(message) => Self::new(Class::NotFound, message),
            Refusal::Conflict(message) => Self::new(Class::Conflict, message),
            Refusal::Invalid(message) => Self::new(Class::Invalid, message),
            Refusal::Forbidden(message) => Self::forbidden(message),
            Refusal::Unavailable(message) => Self::unavailable(message),
            Refusal::Later { why, after } => Self { retry_after: Some(after), ..Self::unavailable(why) },
        }
    }
}

impl From<Errors> for ApiError {
    fn from(errors: Errors) -> Self {
        Self { errors: errors.0, ..Self::invalid("the template is not valid") }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a read for the API failed");
        match error.failure() {
            Failure::Busy => Self::later(format!("the controller cannot read its database: {error}")),
            Failure::Full | Failure::Broken | Failure::Mistake => Self::internal(error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match self.class {
            Class::Unauthorized => StatusCode::UNAUTHORIZED,
            Class::Forbidden => StatusCode::FORBIDDEN,
            Class::NotFound => StatusCode::NOT_FOUND,
            Class::Conflict => StatusCode::CONFLICT,
            Class::Invalid => StatusCode::BAD_REQUEST,
            Class::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Class::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let error = error::Refusal { class: self.class, message: self.message, errors: self.errors };
        let mut response = (status, Json(Refused { error })).into_response();
        if let Some(after) = self.retry_after {
            // Whole seconds, and not too early.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
