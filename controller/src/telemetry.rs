//! Traces for an OpenTelemetry collector, as an option: the span of each request that changes something, of the operation
//! that it starts, and of each job. What ends a span hands it over to a queue, and never waits: a full queue drops it.
//!
//! Absent: which spans there are (`telemetry/operations.rs`, `telemetry/request.rs`), and how they are sent
//! (`telemetry/export.rs`). No span has a property, a parameter or a reason, for these may be secret.

mod export;
mod operations;
mod request;
mod span;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use tokio::sync::mpsc;

pub use export::{Collector, Endpoint, Exporter, ExporterHandle};
pub use operations::{Note, Operations};
pub use request::RequestSpan;
pub use span::{Kind, Span, TraceContext, Value};

/// Spans that wait for the exporter, some 700 bytes each: 6 MB at most, when the collector is slow.
const QUEUE_MAX: usize = 8192;

/// The queue of ended spans. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Telemetry(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    ids: RandomIdGenerator,
    queue: mpsc::Sender<Span>,
    counts: Arc<Counts>,
}

/// The numbers of spans since the start.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Telemetry {
    /// No spans at all.
    pub fn off() -> Self {
        Self::default()
    }

    /// Spans for a collector, and what sends them there.
    pub fn to(collector: Collector) -> (Self, Exporter) {
        let (queue, spans) = mpsc::channel(QUEUE_MAX);
        let counts = Arc::<Counts>::default();
        let shared = Shared { ids: RandomIdGenerator::default(), queue, counts: Arc::clone(&counts) };
        (Self(Some(Arc::new(shared))), Exporter::new(collector, spans, counts))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A span below `parent`; without one, the first of a new trace.
    fn context(&self, parent: Option<&TraceContext>) -> Option<TraceContext> {
        let ids = &self.0.as_ref()?.ids;
        let trace = parent.map_or_else(|| ids.new_trace_id(), |parent| parent.trace);
        let is_sampled = parent.is_none_or(|parent| parent.is_sampled);
        Some(TraceContext { trace, span: ids.new_span_id(), is_sampled })
    }

    /// A span has ended. One that its trace does not want is left out.
    fn ended(&self, span: Span) {
        let Some(shared) = self.0.as_ref().filter(|_| span.context.is_sampled) else { return };
        if shared.queue.try_send(span).is_err() {
            shared.counts.add_dropped(1);
        }
    }

    /// Spans that cannot be followed for want of room.
    fn dropped(&self, spans: u64) {
        self.0.iter().for_each(|shared| shared.counts.add_dropped(spans));
    }

    /// Spans that the collector has taken, and dropped ones, since the start.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        let count = |of: fn(&Counts) -> &AtomicU64| {
            self.0.as_ref().map_or(0, |shared| of(&shared.counts).load(Ordering::Relaxed))
        };
        [("sent", count(|counts| &counts.sent)), ("dropped", count(|counts| &counts.dropped))]
    }
}

impl Counts {
    fn add_sent(&self, spans: u64) {
        self.sent.fetch_add(spans, Ordering::Relaxed);
    }

    fn add_dropped(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }
}
