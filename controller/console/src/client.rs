//! The API in a user's name, its refusals as a page tells them.
//!
//! Absent: how the router is asked (`controller/front/src/client.rs`).

use axum::Router;
use axum::http::{Extensions, Method, StatusCode};
use muster_front::{Client as Front, Failure, Refused, bearer};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes of an answer.
const ANSWER_MAX: usize = 16 << 20;

/// The reason why the API refused.
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
pub struct Client(Front);

impl Client {
    /// An empty token is of somebody who is not logged in.
    pub fn new(api: Router, peer: Extensions, token: &str) -> Self {
        let authorization = Some(token).filter(|token| !token.is_empty()).and_then(bearer);
        Self(Front::new(api, peer, authorization, ANSWER_MAX))
    }

    /// Gets the document at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        Ok(self.0.get(path).await?)
    }

    /// Asks for a change, or with a body.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Problem> {
        Ok(self.0.send(method, path, body).await?)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TooMuch => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "there is too much of it for a page: use 'muster'",
            ),
            Failure::Internal(why) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, why),
            Failure::Refused(Refused { status, message, errors, .. }) => {
                Self { status, message, errors: errors.iter().map(place).collect() }
            }
        }
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
