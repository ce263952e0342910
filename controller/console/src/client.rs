//! Asks the API's router in a user's name, in this process: there is no second connection, and no second way in.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Extensions, Method, Request, StatusCode};
use muster_api::error::Refused;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

/// The most bytes of an answer.
const ANSWER_MAX: usize = 16 << 20;
/// What stands for itself in a path.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Why the API did not do it.
#[derive(Debug)]
pub struct Problem {
    /// As the API answered.
    pub status: StatusCode,
    /// For the user.
    pub message: String,
    /// Each with its place, where it is about a template.
    pub errors: Vec<String>,
}

impl Problem {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: Vec::new() }
    }
}

/// The API for one user.
pub struct Client {
    api: Router,
    peer: Extensions,
    /// Empty: of somebody who is not logged in.
    token: String,
}

impl Client {
    pub fn new(api: Router, peer: Extensions, token: String) -> Self {
        Self { api, peer, token }
    }

    /// What is at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.ask(Method::GET, path, Body::empty()).await
    }

    /// Asks for a change, or with a body.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Problem> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        self.ask(method, path, Body::from(body)).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Body) -> Result<T, Problem> {
        let internal = |why: String| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why);
        let mut request =
            Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        if !self.token.is_empty() {
            request = request.header(AUTHORIZATION, format!("Bearer {}", self.token));
        }
        let mut request = request.body(body).map_err(|error| internal(error.to_string()))?;
        request.extensions_mut().extend(self.peer.clone());
        let answer = match self.api.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), ANSWER_MAX)
            .await
            .map_err(|_| internal("there is too much of it for a page: use 'muster'".to_owned()))?;
        if status.is_success() {
            return serde_json::from_slice(&bytes)
                .map_err(|error| internal(format!("the API's answer is not understood: {error}")));
        }
        let Ok(Refused { error }) = serde_json::from_slice::<Refused>(&bytes) else {
            return Err(Problem::new(status, String::from_utf8_lossy(&bytes)));
        };
        let errors = error.errors.iter().map(place).collect();
        Err(Problem { status, message: error.message, errors })
    }
}

/// `web.yaml:3:5: unknown type`, as far as it is known.
fn place(error: &serde_json::Value) -> String {
    let text = |key: &str| match &error[key] {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    };
    let place: Vec<String> =
        ["file", "line", "column"].map(text).into_iter().filter(|part| !part.is_empty()).collect();
    format!("{}: {}", place.join(":"), text("message"))
}

/// A path of segments, each as it is.
pub fn path<const N: usize>(segments: [&str; N]) -> String {
    segments.iter().map(|segment| format!("/{}", escaped(segment))).collect()
}

/// A text for a path or a query.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, IN_PATH).to_string()
}
