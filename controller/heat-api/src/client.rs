//! The API for one caller, its refusals as Heat's.
//!
//! Absent: who the caller is (`caller.rs`), and how the router is asked (`controller/front/src/client.rs`).

use axum::Router;
use axum::http::{Extensions, HeaderValue, Method, StatusCode};
use muster_front::{Client as Front, Failure, Refused};
use muster_template::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;

/// The most bytes of an answer: 100,000 resources are some 50 MB.
const ANSWER_MAX: usize = 128 << 20;
/// The place of errors in a template that came as a document.
pub const TEMPLATE: &str = "template";

/// The API for one caller.
pub struct Client(Front);

impl Client {
    pub fn new(api: Router, peer: Extensions, authorization: Option<HeaderValue>) -> Self {
        Self(Front::new(api, peer, authorization, ANSWER_MAX))
    }

    /// Gets the document at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        self.0.get(path).await.map_err(|failure| self.fault(failure))
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
        self.0.send(method, path, body).await.map_err(|failure| self.fault(failure))
    }

    fn fault(&self, failure: Failure) -> Fault {
        match failure {
            Failure::TooMuch => Fault::internal("there is too much of it for an answer: use 'muster'"),
            Failure::Internal(why) => Fault::internal(why),
            Failure::Refused(Refused { status: StatusCode::UNAUTHORIZED, .. }) if !self.0.has_token() => {
                Fault::unauthorized(
                    "this needs a user's token of Muster: --os-auth-type admin_token --os-token TOKEN --os-endpoint URL \
                     (docs/heat-api.md)",
                )
            }
            Failure::Refused(Refused { status, mut message, errors, retry_after }) => {
                for error in
                    errors.into_iter().filter_map(|error| serde_json::from_value::<Error>(error).ok())
                {
                    message.push('\n');
                    message.push_str(&place(&error));
                }
                let mut fault = Fault::new(status, message);
                fault.retry_after = retry_after;
                fault
            }
        }
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
