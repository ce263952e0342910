//! The body of an answer to a request that was refused, and the classes of refusals.
//!
//! Absent: the class of each refusal (`controller/src/api/error.rs`), and exit codes of `muster`
//! (`controller/cli/src/failure.rs`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Decides the status code, and the exit code of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// 401: no token, or one that does not count.
    Unauthorized,
    /// 403: the caller's role is too small.
    Forbidden,
    /// 404
    NotFound,
    /// 409: it contradicts what is there.
    Conflict,
    /// 400: the request, a file or a template is wrong.
    Invalid,
    /// 503: at another time, perhaps. With `Retry-After`, nothing was done, and the same request may be sent again.
    Unavailable,
    /// 500: our fault.
    Internal,
}

/// The body of an answer that is none of 2xx.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refused<E = Value> {
    pub error: Refusal<E>,
}

/// A refused request, with its reason.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refusal<E = Value> {
    /// The kind of refusal.
    pub class: Class,
    /// For the operator.
    pub message: String,
    /// Each with its place (file, line, column, path, message), where it is about a template.
    #[serde(default = "Vec::<E>::new")]
    pub errors: Vec<E>,
}
