//! The span of each request that changes something: from its head to its answer, in the trace that the caller's
//! `traceparent` names, or in a new one.
//!
//! Absent: the spans of what follows from a request (`telemetry/operations.rs`).

use axum::extract::{RawPathParams, Request};
use axum::middleware::{Next, from_fn};
use axum::routing::MethodRouter;
use muster_api::route::{Method, Route};

use super::Api;
use crate::telemetry::{RequestSpan, Telemetry};

/// The method of a route whose requests have a span. Consoles, watches and Prometheus ask all the time, so GET has none.
pub fn method(route: &Route) -> Option<&'static str> {
    match route.method {
        Method::Get => None,
        Method::Post => Some("POST"),
        Method::Put => Some("PUT"),
        Method::Patch => Some("PATCH"),
        Method::Delete => Some("DELETE"),
    }
}

/// The same with a span around it.
pub fn with(
    serving: MethodRouter<Api>,
    telemetry: Telemetry,
    method: &'static str,
    path: &'static str,
) -> MethodRouter<Api> {
    serving.layer(from_fn(move |names: RawPathParams, mut request: Request, next: Next| {
        let span = RequestSpan::begin(&telemetry, request.headers(), method, path);
        async move {
            let Some(mut span) = span else { return next.run(request).await };
            for (key, value) in &names {
                match key {
                    "stack" => span.about("muster.stack", value),
                    "node" => span.about("muster.node", value),
                    _ => {}
                }
            }
            request.extensions_mut().insert(span.context());
            let answer = next.run(request).await;
            span.answered(answer.status());
            answer
        }
    }))
}
