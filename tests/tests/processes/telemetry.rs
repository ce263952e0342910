//! Traces of a stack, from `muster` to the report of its agent, at a collector that decodes OTLP; and a collector that is
//! away, or takes connections and never answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use data_encoding::HEXLOWER;
use muster_testbed::{Ran, Running, eventually, port};
use muster_tests::site::{Agent, Site, binary, template_of_a_file};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
/// A parameter, a property and a part of a reason; in no span.
const SECRET: &str = "s3cret-marker";

/// A collector: what it got, as bytes and as spans.
#[derive(Clone)]
struct Collector {
    port: u16,
    got: Arc<Mutex<(Vec<u8>, Vec<Span>)>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self { port: listener.local_addr().unwrap().port(), got: Arc::default() };
        let it = collector.clone();
        // Ends with the test's process.
        thread::spawn(move || listener.incoming().for_each(|stream| it.serve(stream.unwrap())));
        collector
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(&stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap() == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.split_once("content-length: ").unwrap().1;
        let mut body = vec![0; length.split_once("\r\n").unwrap().0.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        let message = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        let of = message.resource_spans[0].resource.as_ref().unwrap();
        assert_eq!(text(of.attributes.iter(), "service.name"), "muster-controller");
        let spans = message.resource_spans.into_iter().flat_map(|spans| spans.scope_spans);
        let spans = spans.flat_map(|scope| scope.spans);
        let mut got = self.got.lock().unwrap();
        got.0.extend(&body);
        got.1.extend(spans);
        drop(got);
        let mut stream = &stream;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    }

    /// The spans of the caller's trace so far.
    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        got.1.iter().filter(|span| hex(&span.trace_id) == TRACE).cloned().collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn text<'a>(mut attributes: impl Iterator<Item = &'a KeyValue>, key: &str) -> String {
    let found = attributes.find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        _ => "-".to_owned(),
    }
}

fn of(span: &Span, key: &str) -> String {
    text(span.attributes.iter(), key)
}

/// A controller with this collector.
fn site(port: u16) -> Site {
    let mut site = Site::start();
    site.configure(&format!("[telemetry]\notlp = 'http://127.0.0.1:{port}'\n[limits]\nretries = 0\n"));
    site.kill();
    site.restart();
    site
}

/// The second file waits for the first, and has a secret in it; the third fails, with the secret in its reason.
fn template(site: &Site, agent: &Agent) -> String {
    let Agent { name, .. } = agent;
    let path = |file: &str| agent.file(file).display().to_string();
    site.file(&format!(
        "heat_template_version: 2021-04-16
parameters:
  secret: {{type: string, hidden: true}}
resources:
  first:
    type: Muster::File
    properties: {{node: {name}, path: {}, content: open}}
  second:
    type: Muster::File
    depends_on: first
    properties: {{node: {name}, path: {}, content: {{get_param: secret}}}}
  third:
    type: Muster::File
    depends_on: second
    properties: {{node: {name}, path: {}, content: open, owner: {{get_param: secret}}}}
",
        path("first"),
        path("second"),
        path("third"),
    ))
}

/// `muster` as a part of the caller's trace.
fn muster_in_a_trace(site: &Site, arguments: &[&str]) -> Ran {
    let mut command = Command::new(binary("muster"));
    command.args(["--url", &site.url()]).args(arguments);
    command.env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01")).env_remove("MUSTER_SITE");
    Running::start(command).finish()
}

fn metric(site: &Site, name: &str) -> u64 {
    let mut stream = UnixStream::connect(site.path().join("api.sock")).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{answer}")).trim().parse().unwrap()
}

#[test]
fn a_stack_is_one_trace_at_a_collector() {
    let collector = Collector::start();
    let site = site(collector.port);
    let agent = site.join("web-1.example.org");
    let template = template(&site, &agent);
    let parameter = format!("secret={SECRET}");
    let arguments = ["stack", "create", "web", "-t", &template, "-P", &parameter, "--wait"];
    let ran = muster_in_a_trace(&site, &arguments);
    assert!(ran.status == 1 && ran.stderr.contains("CREATE FAILED"), "{}", ran.stderr);
    let operation = eventually("the operation's span", || {
        collector.spans().into_iter().find(|span| span.name == "stack CREATE")
    });
    let spans = collector.spans();
    let request = spans.iter().find(|span| span.name == "POST /v1/stacks").unwrap();
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(of(request, "http.response.status_code"), "202");
    assert_eq!(operation.parent_span_id, request.span_id);
    assert_eq!(
        (of(&operation, "muster.stack"), of(&operation, "muster.outcome")),
        ("web".into(), "FAILED".into())
    );
    let jobs = || spans.iter().filter(|span| span.name == "job CREATE");
    assert!(jobs().all(|job| job.parent_span_id == operation.span_id), "{spans:#?}");
    for (resource, outcome) in [("first", "done"), ("second", "done"), ("third", "failed")] {
        let job = jobs().find(|job| of(job, "muster.resource") == resource).unwrap();
        assert_eq!(of(job, "muster.outcome"), outcome, "{job:#?}");
        assert_eq!(of(job, "muster.node"), agent.name);
        assert_eq!((of(job, "muster.stack"), of(job, "muster.attempt")), ("web".into(), "0".into()));
        let events: Vec<&str> = job.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!((events.first(), events.last()), (Some(&"queued"), Some(&"reported")), "{job:#?}");
        let times: Vec<u64> = job.events.iter().map(|event| event.time_unix_nano).collect();
        assert!(times.is_sorted() && job.start_time_unix_nano <= times[0], "{job:#?}");
        assert!(operation.start_time_unix_nano <= job.start_time_unix_nano);
        assert!(job.end_time_unix_nano <= operation.end_time_unix_nano);
    }
    let (bytes, _) = &*collector.got.lock().unwrap();
    assert!(!String::from_utf8_lossy(bytes).contains(SECRET));
    eventually("the count", || {
        (metric(&site, "muster_telemetry_spans_total{outcome=\"sent\"}") >= spans.len() as u64).then_some(())
    });
    assert_eq!(metric(&site, "muster_telemetry_spans_total{outcome=\"dropped\"}"), 0);
}

#[test]
fn a_collector_that_is_away_changes_nothing() {
    // Takes connections into its backlog, and never reads.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for port in [port(), silent.local_addr().unwrap().port()] {
        let site = site(port);
        let agent = site.join("web-1.example.org");
        let template = site.file(&template_of_a_file(&agent.name, &agent.file("motd")));
        site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=a", "--wait"]);
        assert_eq!(agent.content("motd").as_deref(), Some("a"));
        eventually("spans are counted as dropped", || {
            (metric(&site, "muster_telemetry_spans_total{outcome=\"dropped\"}") >= 3).then_some(())
        });
        assert_eq!(metric(&site, "muster_telemetry_spans_total{outcome=\"sent\"}"), 0);
        eventually("the log says it", || {
            site.controller.log().contains("spans are dropped: the collector").then_some(())
        });
        site.ok(&["stack", "delete", "web", "--wait"]);
        assert_eq!(agent.content("motd"), None);
    }
}
