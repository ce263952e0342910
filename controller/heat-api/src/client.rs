//! Asks the API's router in a caller's name, in this process: there is no second connection, and no second way in.
//!
//! Absent: who the caller is (`caller.rs`).

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Extensions, Method, Request, StatusCode};
use muster_api::error::Refused;
use muster_template::Error;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use crate::fault::Fault;

/// The most bytes of an answer: 100,000 resources are some 50 MB.
const ANSWER_MAX: usize = 128 << 20;
/// What stands for itself in a path.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The place of errors in a template that came as a document.
pub const TEMPLATE: &str = "template";

/// The API for one caller.
pub struct Client {
    api: Router,
    peer: Extensions,
    /// None: the connection says who it is, or nothing does.
    token: Option<String>,
}

impl Client {
    pub fn new(api: Router, peer: Extensions, token: Option<String>) -> Self {
        Self { api, peer, token }
    }

    /// What is at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        self.ask(Method::GET, path, Body::empty()).await
    }

    /// The same; none, if nothing is there.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Fault> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(fault) if fault.status == StatusCode::NOT_FOUND => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Asks for a change, or with a body.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Fault> {
        let body = serde_json::to_vec(body).map_err(|error| Fault::internal(error.to_string()))?;
        self.ask(method, path, Body::from(body)).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Body) -> Result<T, Fault> {
        let mut request =
            Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let mut request = request.body(body).map_err(|error| Fault::internal(error.to_string()))?;
        request.extensions_mut().extend(self.peer.clone());
        let answer = match self.api.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let (status, retry_after) = (answer.status(), answer.headers().get(RETRY_AFTER).cloned());
        let bytes = to_bytes(answer.into_body(), ANSWER_MAX)
            .await
            .map_err(|_| Fault::internal("there is too much of it for an answer: use 'muster'"))?;
        if status.is_success() {
            return serde_json::from_slice(&bytes)
                .map_err(|error| Fault::internal(format!("the API's answer is not understood: {error}")));
        }
        if status == StatusCode::UNAUTHORIZED && self.token.is_none() {
            return Err(Fault::unauthorized(
                "this needs a user's token of Muster: --os-auth-type admin_token --os-token TOKEN --os-endpoint URL \
                 (docs/heat-api.md)",
            ));
        }
        let Ok(Refused { error }) = serde_json::from_slice::<Refused<Error>>(&bytes) else {
            return Err(Fault::new(status, String::from_utf8_lossy(&bytes)));
        };
        let mut message = error.message;
        for error in &error.errors {
            message.push('\n');
            message.push_str(&place(error));
        }
        let mut fault = Fault::new(status, message);
        fault.retry_after = retry_after;
        Err(fault)
    }
}

/// `resources.motd.type: unknown type`. A template that came as a document has no lines.
pub fn place(error: &Error) -> String {
    let mut out = String::new();
    if error.file != TEMPLATE && !error.file.is_empty() {
        out.push_str(&error.file);
        if error.line > 0 {
            out.push_str(&format!(":{}:{}", error.line, error.column));
        }
        out.push_str(": ");
    }
    if !error.path.is_empty() {
        out.push_str(&format!("{}: ", error.path));
    }
    out + &error.message
}

/// A path of segments, each as it is.
pub fn path<const N: usize>(segments: [&str; N]) -> String {
    segments.iter().map(|segment| format!("/{}", escaped(segment))).collect()
}

/// A text for a path or a query.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, IN_PATH).to_string()
}
