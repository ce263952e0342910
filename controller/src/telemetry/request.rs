//! The span of a request to the API that changes something.

use std::sync::Arc;
use std::time::SystemTime;

use axum::http::{HeaderMap, StatusCode};

use super::Telemetry;
use super::span::{Kind, Span, TraceContext, Value};

/// The most bytes of a name: that of a host.
const NAME_MAX: usize = 253;

/// A request under way. Its span ends with this, also if whoever asked is gone.
pub struct RequestSpan {
    telemetry: Telemetry,
    context: TraceContext,
    parent: Option<TraceContext>,
    begin: SystemTime,
    attributes: Vec<(&'static str, Value)>,
    is_failed: bool,
    name: String,
}

impl RequestSpan {
    /// A request to a route, with the caller's trace if it has one. `None`: there are no traces.
    pub fn begin(
        telemetry: &Telemetry,
        headers: &HeaderMap,
        method: &'static str,
        route: &'static str,
    ) -> Option<Self> {
        let parent = if telemetry.is_on() { TraceContext::of(headers) } else { None };
        let context = telemetry.context(parent.as_ref())?;
        Some(Self {
            telemetry: telemetry.clone(),
            context,
            parent,
            begin: SystemTime::now(),
            attributes: vec![
                ("http.request.method", Value::Word(method)),
                ("http.route", Value::Word(route)),
            ],
            is_failed: false,
            name: format!("{method} {route}"),
        })
    }

    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// The path names a stack or a node. Whoever asks may not be let in, so a name that is none is cut.
    pub fn about(&mut self, key: &'static str, name: &str) {
        let name = &name[..name.floor_char_boundary(NAME_MAX)];
        self.attributes.push((key, Value::Text(Arc::from(name))));
    }

    /// The answer is made.
    pub fn answered(&mut self, status: StatusCode) {
        self.attributes.push(("http.response.status_code", Value::Number(status.as_u16().into())));
        self.is_failed = status.is_server_error();
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.telemetry.ended(Span {
            context: self.context,
            parent: self.parent,
            kind: Kind::Server,
            name: std::mem::take(&mut self.name),
            begin: self.begin,
            end: SystemTime::now(),
            attributes: std::mem::take(&mut self.attributes),
            events: Vec::new(),
            is_failed: self.is_failed,
        });
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::RandomIdGenerator;
    use tokio::sync::mpsc;

    use super::super::{Counts, Shared};
    use super::*;

    #[test]
    fn a_request_has_a_span_whatever_becomes_of_it() {
        let (queue, mut spans) = mpsc::channel(8);
        let shared = Shared { ids: RandomIdGenerator::default(), queue, counts: Arc::<Counts>::default() };
        let telemetry = Telemetry(Some(Arc::new(shared)));
        let begin =
            || RequestSpan::begin(&telemetry, &HeaderMap::new(), "DELETE", "/v1/stacks/{stack}").unwrap();
        // Whoever asked is gone.
        let mut span = begin();
        span.about("muster.stack", &"ü".repeat(NAME_MAX));
        drop(span);
        let mut span = begin();
        span.answered(StatusCode::INTERNAL_SERVER_ERROR);
        drop(span);
        let (gone, failed) = (spans.try_recv().unwrap(), spans.try_recv().unwrap());
        assert_eq!(gone.name, "DELETE /v1/stacks/{stack}");
        let long = gone.attributes.iter().any(|(key, value)| {
            *key == "muster.stack" && *value == Value::Text("ü".repeat(NAME_MAX / 2).into())
        });
        assert!(long && !gone.is_failed && failed.is_failed, "{gone:?} {failed:?}");
        assert!(gone.context.trace != failed.context.trace && gone.parent.is_none());
        assert!(RequestSpan::begin(&Telemetry::off(), &HeaderMap::new(), "POST", "/").is_none());
    }
}
