//! A span, and its place in a trace as a `traceparent` header of W3C has it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanId, TraceContextExt as _, TraceId};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{Span as Message, Status, span, status};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    /// Whoever began the trace wants its spans.
    pub(super) is_sampled: bool,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request to the API.
    Server,
    /// An operation.
    Internal,
    /// A job for another machine.
    Client,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(Arc<str>),
    Word(&'static str),
    Number(u64),
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct Span {
    pub context: TraceContext,
    /// `None`: it is the first of its trace.
    pub parent: Option<TraceContext>,
    pub kind: Kind,
    pub name: String,
    pub begin: SystemTime,
    pub end: SystemTime,
    pub attributes: Vec<(&'static str, Value)>,
    /// The events within, with their times.
    pub events: Vec<(&'static str, SystemTime)>,
    pub is_failed: bool,
}

/// The headers of a request.
struct Headers<'h>(&'h HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

impl TraceContext {
    /// The caller's place. `None`: there is no `traceparent`, or a wrong one, and W3C wants both to begin a trace.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
        let span = context.span();
        let found = span.span_context();
        found.is_valid().then(|| Self {
            trace: found.trace_id(),
            span: found.span_id(),
            is_sampled: found.is_sampled(),
        })
    }
}

impl Span {
    /// As OTLP has it.
    pub(super) fn message(self) -> Message {
        let code = if self.is_failed { status::StatusCode::Error } else { status::StatusCode::Unset };
        let kind = match self.kind {
            Kind::Server => span::SpanKind::Server,
            Kind::Internal => span::SpanKind::Internal,
            Kind::Client => span::SpanKind::Client,
        };
        let event = |(name, at): (&str, SystemTime)| span::Event {
            time_unix_nano: nanos(at),
            name: name.to_owned(),
            ..span::Event::default()
        };
        Message {
            trace_id: self.context.trace.to_bytes().to_vec(),
            span_id: self.context.span.to_bytes().to_vec(),
            parent_span_id: self.parent.map(|parent| parent.span.to_bytes().to_vec()).unwrap_or_default(),
            flags: u32::from(self.context.is_sampled),
            name: self.name,
            kind: kind.into(),
            start_time_unix_nano: nanos(self.begin),
            end_time_unix_nano: nanos(self.end.max(self.begin)),
            attributes: self.attributes.into_iter().map(|(key, value)| key_value(key, value)).collect(),
            events: self.events.into_iter().map(event).collect(),
            status: Some(Status { message: String::new(), code: code.into() }),
            ..Message::default()
        }
    }
}

/// An attribute as OTLP has it.
pub(super) fn key_value(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text.to_string()),
        Value::Word(word) => any_value::Value::StringValue(word.to_owned()),
        Value::Number(number) => any_value::Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_traceparent_begins_a_trace() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            TraceContext::of(&headers)
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let found = of(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!((found.trace.to_string().as_str(), found.span.to_string().as_str()), (trace, span));
        assert!(found.is_sampled);
        assert!(!of(&format!("00-{trace}-{span}-00")).unwrap().is_sampled);
        for wrong in [
            "",
            "00",
            "00-0-0-01",
            &format!("00-{trace}-0000000000000000-01"),
            &format!("00-{}-{span}-01", "0".repeat(32)),
            &format!("00-{}-{span}-01", trace.to_uppercase()),
            &format!("ff-{trace}-{span}-01"),
            &format!("00-{trace}-{span}-01-more"),
            &format!("00-{trace}\u{e9}-{span}-01"),
        ] {
            assert!(of(wrong).is_none(), "{wrong}");
        }
        assert!(TraceContext::of(&HeaderMap::new()).is_none());
    }
}
