//! Asks the API's router in somebody's name, in this process: there is no second connection, and no second way in.
//!
//! Absent: who asks (each front reads its own kind of token), and how a refusal is told.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Extensions, HeaderValue, Method, Request, StatusCode};
use muster_api::error::Refused as RefusedBody;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt as _;

/// The API for one caller.
#[derive(Clone)]
pub struct Client {
    api: Router,
    /// Tell the API who is at the other end of the connection.
    peer: Extensions,
    /// None: the connection says who it is, or nothing does.
    authorization: Option<HeaderValue>,
    /// The most bytes of an answer.
    answer_max: usize,
}

/// The reason why the API refused.
#[derive(Debug)]
pub enum Failure {
    Refused(Refused),
    /// The answer has more bytes than allowed.
    TooMuch,
    /// A fault of ours.
    Internal(String),
}

/// A refusal of the API.
#[derive(Debug)]
pub struct Refused {
    pub status: StatusCode,
    /// For the operator.
    pub message: String,
    /// Each with its place, where it is about a template.
    pub errors: Vec<Value>,
    /// Seconds after which the same request may be sent again.
    pub retry_after: Option<HeaderValue>,
}

/// The header of a token; none, if it has characters that no token has.
pub fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

impl Client {
    /// The router for a caller, with answers of at most so many bytes.
    pub fn new(api: Router, peer: Extensions, authorization: Option<HeaderValue>, answer_max: usize) -> Self {
        Self { api, peer, authorization, answer_max }
    }

    /// Whether the caller shows a token.
    pub fn has_token(&self) -> bool {
        self.authorization.is_some()
    }

    /// Gets the document at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(Method::GET, path, Body::empty()).await
    }

    /// Asks for a change, or with a body.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(internal)?;
        self.ask(method, path, Body::from(body)).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Body) -> Result<T, Failure> {
        let mut request =
            Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut request = request.body(body).map_err(internal)?;
        request.extensions_mut().extend(self.peer.clone());
        let answer = match self.api.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let (status, retry_after) = (answer.status(), answer.headers().get(RETRY_AFTER).cloned());
        let bytes = to_bytes(answer.into_body(), self.answer_max).await.map_err(|_| Failure::TooMuch)?;
        if status.is_success() {
            return serde_json::from_slice(&bytes)
                .map_err(|error| Failure::Internal(format!("the API's answer is not understood: {error}")));
        }
        let (message, errors) = match serde_json::from_slice::<RefusedBody>(&bytes) {
            Ok(RefusedBody { error }) => (error.message, error.errors),
            Err(_) => (String::from_utf8_lossy(&bytes).into_owned(), Vec::new()),
        };
        Err(Failure::Refused(Refused { status, message, errors, retry_after }))
    }
}

fn internal(error: impl ToString) -> Failure {
    Failure::Internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::http::HeaderMap;
    use axum::response::IntoResponse as _;
    use axum::routing::{get, post};
    use serde_json::json;

    use super::*;

    fn client(token: Option<&str>) -> Client {
        let refused = || async {
            let body =
                json!({"error": {"class": "unavailable", "message": "later", "errors": [{"line": 3}]}});
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "7")], Json(body)).into_response()
        };
        let shown = |headers: HeaderMap| async move {
            Json(headers.get(AUTHORIZATION).map(|it| it.to_str().unwrap().to_owned()))
        };
        let api = Router::new()
            .route("/token", get(shown))
            .route("/echo", post(|Json(body): Json<Value>| async { Json(body) }))
            .route("/refused", get(refused))
            .route("/text", get(|| async { (StatusCode::BAD_GATEWAY, "not JSON") }))
            .route("/long", get(|| async { "1".repeat(101) }));
        Client::new(api, Extensions::new(), token.and_then(bearer), 100)
    }

    #[tokio::test]
    async fn the_caller_s_token_goes_on_to_the_api() {
        let shown: Option<String> = client(Some("mu_x")).get("/token").await.unwrap();
        assert_eq!(shown.unwrap(), "Bearer mu_x");
        assert_eq!(client(None).get::<Option<String>>("/token").await.unwrap(), None);
        assert_eq!(bearer("a\nb"), None);
    }

    #[tokio::test]
    async fn a_refusal_keeps_its_status_and_its_places() {
        let Failure::Refused(refused) = client(None).get::<Value>("/refused").await.unwrap_err() else {
            panic!("not refused");
        };
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((refused.message.as_str(), refused.errors), ("later", vec![json!({"line": 3})]));
        assert_eq!(refused.retry_after.unwrap(), "7");
        let Failure::Refused(refused) = client(None).get::<Value>("/text").await.unwrap_err() else {
            panic!("not refused");
        };
        assert_eq!((refused.status, refused.message.as_str()), (StatusCode::BAD_GATEWAY, "not JSON"));
    }

    #[tokio::test]
    async fn an_answer_is_bounded() {
        assert!(matches!(client(None).get::<Value>("/long").await, Err(Failure::TooMuch)));
        let sent = json!({"a": [1, 2]});
        assert_eq!(client(None).send::<Value>(Method::POST, "/echo", &sent).await.unwrap(), sent);
    }
}
