//! Sends spans to a collector by OTLP over HTTP, in batches. A batch that the collector does not take is dropped and
//! counted: there is no second try, so a collector that is away costs no memory.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Request, StatusCode, Uri};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message as _;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Counts;
use super::span::{Span, Value, key_value};

/// Spans in a request: some 400 KB.
const BATCH_MAX: usize = 1024;
/// The longest time that the first span of a batch waits for others.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// The time for a request, from the connection to the answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The most bytes of an answer: it counts what was refused.
const ANSWER_MAX: usize = 64 * 1024;
/// The time for spans that are left when the controller stops.
const STOP_TIME: Duration = Duration::from_secs(1);
/// As the specification has it.
const PATH: &str = "/v1/traces";
const PORT: u16 = 4318;

/// A collector, and what it is told of this controller.
#[derive(Clone, Debug)]
pub struct Collector {
    endpoint: Endpoint,
    /// The controller's name, and its site's.
    name: String,
    site: String,
}

/// `http://HOST[:PORT][/PATH]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

/// The reason why spans were not sent.
#[derive(Debug, Error)]
enum NotSent {
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("it broke off")]
    Http(#[from] hyper::Error),
    #[error("it does not answer within {} s", ANSWER_TIME.as_secs())]
    Time,
    #[error("it answers {0}")]
    Refused(StatusCode),
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("'{text}': {why}");
        let uri: Uri = text.parse().map_err(|_| wrong("want http://HOST:4318"))?;
        let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong(
                "want http://HOST:4318; for a collector on another network, run one on this machine that passes on",
            ));
        };
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(wrong("want http://HOST:4318 without user, password or query"));
        }
        let path = format!("{}{PATH}", uri.path().trim_end_matches('/'));
        Ok(Self { host: authority.host().to_owned(), port: authority.port_u16().unwrap_or(PORT), path })
    }
}

impl Collector {
    /// A collector for a controller of this name, and a site.
    pub fn new(endpoint: Endpoint, name: &str, site: &str) -> Self {
        Self { endpoint, name: name.to_owned(), site: site.to_owned() }
    }

    fn message(&self, spans: Vec<Span>) -> Vec<u8> {
        let text = |key, value: &str| key_value(key, Value::Text(Arc::from(value)));
        let resource = Resource {
            attributes: vec![
                text("service.name", "muster-controller"),
                text("service.version", env!("CARGO_PKG_VERSION")),
                text("service.instance.id", &self.name),
                text("muster.site", &self.site),
            ],
            ..Resource::default()
        };
        let scope = InstrumentationScope { name: "muster".to_owned(), ..InstrumentationScope::default() };
        let spans = spans.into_iter().map(Span::message).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let spans = ResourceSpans { resource: Some(resource), scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec()
    }

    async fn send(&self, message: Vec<u8>) -> Result<(), NotSent> {
        let Endpoint { host, port, path } = &self.endpoint;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, *port)).await.map_err(NotSent::Connect)?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        let request = Request::post(path.as_str())
            .header(HOST, format!("{host}:{port}"))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Body::from(message))
            .expect("the path and the host are parts of an URI");
        // The connection ends with its sender, which goes with the request.
        let asked = async move {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            // So that the collector does not see a connection that broke off.
            drop(to_bytes(Body::new(answer.into_body()), ANSWER_MAX).await);
            if status.is_success() { Ok(()) } else { Err(NotSent::Refused(status)) }
        };
        // What breaks the connection breaks the request as well.
        tokio::join!(asked, connection).0
    }
}

/// An exporter that runs.
#[derive(Debug)]
pub struct ExporterHandle {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl ExporterHandle {
    /// Sends what is left, as far as there is time, and ends.
    pub async fn stop(mut self) {
        // It may have ended already.
        let _ = self.stop.send(());
        if timeout(STOP_TIME, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Sends what [`super::Telemetry`] was told of.
#[derive(Debug)]
pub struct Exporter {
    collector: Collector,
    spans: mpsc::Receiver<Span>,
    counts: Arc<Counts>,
    /// The last batch was not taken.
    is_failing: bool,
}

impl Exporter {
    pub(super) fn new(collector: Collector, spans: mpsc::Receiver<Span>, counts: Arc<Counts>) -> Self {
        Self { collector, spans, counts, is_failing: false }
    }

    /// Sends spans on this runtime.
    pub fn spawn(self) -> ExporterHandle {
        let (stop, stopped) = oneshot::channel();
        ExporterHandle { stop, task: tokio::spawn(self.run(stopped)) }
    }

    /// Until `stop`, and then what is left in the queue.
    async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        let mut is_stopped = false;
        loop {
            let mut batch = Vec::with_capacity(BATCH_MAX);
            let found = tokio::select! {
                found = self.spans.recv_many(&mut batch, BATCH_MAX) => found,
                _stopped = &mut stop, if !is_stopped => {
                    is_stopped = true;
                    self.spans.close();
                    continue;
                }
            };
            if found == 0 {
                return;
            }
            let fill = async {
                while batch.len() < BATCH_MAX {
                    let room = BATCH_MAX - batch.len();
                    if self.spans.recv_many(&mut batch, room).await == 0 {
                        break;
                    }
                }
            };
            let is_told = tokio::select! {
                // A batch that is not full after this time is sent as it is.
                _filled = timeout(BATCH_TIME, fill) => false,
                _stopped = &mut stop, if !is_stopped => true,
            };
            if is_told {
                is_stopped = true;
                self.spans.close();
            }
            self.send(batch).await;
        }
    }

    async fn send(&mut self, batch: Vec<Span>) {
        let count = batch.len() as u64;
        let message = self.collector.message(batch);
        let sent = timeout(ANSWER_TIME, self.collector.send(message)).await.unwrap_or(Err(NotSent::Time));
        let Endpoint { host, port, .. } = &self.collector.endpoint;
        match sent {
            Ok(()) => {
                self.counts.add_sent(count);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the collector at {host}:{port} takes spans again");
                }
            }
            Err(error) => {
                self.counts.add_dropped(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    let error = anyhow::Error::new(error);
                    tracing::warn!("spans are dropped: the collector at {host}:{port} takes none: {error:#}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_a_host_and_http() {
        let of =
            |text: &str| text.parse::<Endpoint>().map(|it| format!("{} {} {}", it.host, it.port, it.path));
        for (text, wanted) in [
            ("http://otel:4318", "otel 4318 /v1/traces"),
            ("http://otel", "otel 4318 /v1/traces"),
            ("http://[::1]:80/a/", "[::1] 80 /a/v1/traces"),
        ] {
            assert_eq!(of(text).unwrap(), wanted);
        }
        for wrong in [
            "",
            "otel:4318",
            "https://otel:4318",
            "http://",
            "http://a:b@otel",
            "http://otel/?a=b",
            "http://a b",
        ] {
            assert!(of(wrong).unwrap_err().contains("http://HOST:4318"), "{wrong}");
        }
    }
}
