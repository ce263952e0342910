//! Answers to requests that failed.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use muster_api::error::{self, Class, Refused};
use muster_engine::Refusal;
use muster_template::{Error, Errors};

use crate::store::{Failure, StoreError};

/// The answer to a request that failed.
#[derive(Debug)]
pub struct ApiError {
    pub class: Class,
    /// The message for the operator.
    pub message: String,
    /// Errors of a template, each with its place.
    pub errors: Vec<Error>,
}

impl ApiError {
    fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), errors: Vec::new() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Class::NotFound, message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Class::Invalid, message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Class::Unavailable, message)
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
            Refusal::Unavailable(message) | Refusal::Later { why: message, .. } => {
                Self::new(Class::Unavailable, message)
            }
        }
    }
}

impl From<Errors> for ApiError {
    fn from(errors: Errors) -> Self {
        Self { class: Class::Invalid, message: "the template is not valid".to_owned(), errors: errors.0 }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a read for the API failed");
        match error.failure() {
            Failure::Busy => Self::unavailable(error.to_string()),
            Failure::Full | Failure::Broken | Failure::Mistake => Self::internal(error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match self.class {
            Class::NotFound => StatusCode::NOT_FOUND,
            Class::Conflict => StatusCode::CONFLICT,
            Class::Invalid => StatusCode::BAD_REQUEST,
            Class::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Class::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let error = error::Refusal { class: self.class, message: self.message, errors: self.errors };
        (status, Json(Refused { error })).into_response()
    }
}
