//! Errors as Heat's clients read them: `{"code", "title", "explanation", "error": {"message", "type", "traceback"}}`.
//!
//! Absent: what is refused, which the API says.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The reason why a request was refused.
#[derive(Debug)]
pub struct Fault {
    /// The status of the answer.
    pub status: StatusCode,
    /// The name of Heat's exception, which some clients look at.
    kind: &'static str,
    /// For the operator.
    pub message: String,
    /// Seconds after which the same request may be sent again.
    pub retry_after: Option<HeaderValue>,
}

impl Fault {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "HTTPUnauthorized",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::NOT_FOUND => "EntityNotFound",
            StatusCode::METHOD_NOT_ALLOWED => "HTTPMethodNotAllowed",
            StatusCode::CONFLICT => "ActionInProgress",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestLimitExceeded",
            StatusCode::SERVICE_UNAVAILABLE => "HTTPServiceUnavailable",
            StatusCode::BAD_REQUEST => "StackValidationFailed",
            _ => "HTTPInternalServerError",
        };
        Self { status, kind, message: message.into(), retry_after: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self { kind: "HTTPBadRequest", ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// Heat has this, and Muster has not.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self { kind: "NotSupported", ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub fn exists(stack: &str) -> Self {
        let message = format!("The Stack ({stack}) already exists.");
        Self { kind: "StackExists", ..Self::new(StatusCode::CONFLICT, message) }
    }

    /// In Heat's words, which clients look for.
    pub fn no_stack(stack: &str) -> Self {
        Self::not_found(format!("The Stack ({}) could not be found.", cut(stack)))
    }

    pub fn no_resource(resource: &str, stack: &str) -> Self {
        Self::not_found(format!(
            "The Resource ({}) could not be found in Stack {}.",
            cut(resource),
            cut(stack)
        ))
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Nothing was done, and soon it can be.
    pub fn later(message: impl Into<String>) -> Self {
        let retry_after = Some(HeaderValue::from_static("1"));
        Self { retry_after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }
}

/// A text from outside, for a message.
pub fn cut(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_default).collect()
}

fn explanation(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "This server could not verify that you are authorized to access it.",
        StatusCode::FORBIDDEN => "Access was denied to this resource.",
        StatusCode::NOT_FOUND => "The resource could not be found.",
        StatusCode::METHOD_NOT_ALLOWED => "The method is not allowed for this resource.",
        StatusCode::CONFLICT => "There was a conflict when trying to complete your request.",
        StatusCode::SERVICE_UNAVAILABLE => "The server is currently unavailable. Please try again later.",
        StatusCode::INTERNAL_SERVER_ERROR => "The server has erred.",
        _ => {
            "The server could not comply with the request since it is either malformed or otherwise incorrect."
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let Self { status, kind, message, retry_after } = self;
        let body = json!({
            "code": status.as_u16(),
            "title": status.canonical_reason().unwrap_or("Error"),
            "explanation": explanation(status),
            "error": {"message": message, "type": kind, "traceback": null},
        });
        let mut answer = (status, Json(body)).into_response();
        if let Some(after) = retry_after {
            answer.headers_mut().insert(RETRY_AFTER, after);
        }
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"muster\""));
        }
        answer
    }
}
