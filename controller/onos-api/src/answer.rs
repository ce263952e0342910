//! Answers as ONOS gives them: what was made has its address, and what was refused is `{"code", "message"}`.
//!
//! Absent: the class of each refusal (`controller/src/api/error.rs`).

use axum::Json;
use axum::http::header::{LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::document::Wrong;

/// The characters that stand for themselves in a path: ONOS's ids have a colon.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The reason of a refusal.
#[derive(Debug)]
pub struct Refused {
    pub status: StatusCode,
    pub message: String,
    /// Places and reasons, where the API names several.
    pub errors: Vec<(String, String)>,
    pub retry_after: Option<HeaderValue>,
}

pub type Answer<T = Json<Value>> = Result<T, Refused>;

impl Refused {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: Vec::new(), retry_after: None }
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl From<Wrong> for Refused {
    fn from(wrong: Wrong) -> Self {
        Self::bad(wrong.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let places = self.errors.iter().map(|(path, why)| format!("{path}: {why}"));
        let message = [self.message].into_iter().chain(places).collect::<Vec<_>>().join("; ");
        let body = json!({"code": self.status.as_u16(), "message": message});
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"muster\""));
        }
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, after);
        }
        response
    }
}

/// 201, and where it is: the path of these segments.
pub fn created<const N: usize>(segments: [&str; N]) -> Response {
    let path: String = segments.iter().map(|segment| format!("/{}", escaped(segment))).collect();
    let place = HeaderValue::from_str(&format!("/onos/v1{path}"));
    let mut response = StatusCode::CREATED.into_response();
    if let Ok(place) = place {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

/// A segment of a path of ONOS's.
fn escaped(text: &str) -> String {
    utf8_percent_encode(text, IN_PATH).to_string()
}
