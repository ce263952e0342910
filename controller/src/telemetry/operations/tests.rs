//! The spans of operations, the trace of each, and their ends.

use std::time::Duration;

use muster_engine::record::EventRecord;
use muster_shared::model::{Action, Observed, Spec};
use muster_shared::{Attempt, Epoch, Generation};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::super::{Counts, Shared};
use super::*;

const STACK: u64 = 7;

struct Bench {
    operations: Operations,
    spans: mpsc::Receiver<Span>,
    telemetry: Telemetry,
    at: SystemTime,
}

fn thing(number: u128) -> ResourceId {
    ResourceId(Uuid::from_u128(number))
}

fn node() -> NodeId {
    "web-1.example.org".parse().unwrap()
}

fn job(number: u128, attempt: u32) -> Job {
    Job {
        resource: thing(number),
        generation: Generation { epoch: Epoch(1), number: 1 },
        attempt: Attempt(attempt),
        action: Action::Create,
        timeout: Duration::from_secs(1),
        spec: Spec::Dummy(muster_shared::model::Dummy::default()),
    }
}

fn report(number: u128, attempt: u32, outcome: Outcome) -> Up {
    Up::Report(Report { key: job(number, attempt).key(), outcome })
}

fn answer(traversal: u64) -> Result<Answer, Refusal> {
    Ok(Answer::Stack {
        name: "web".parse().unwrap(),
        id: STACK,
        traversal,
        revision: 1,
        warnings: Vec::new(),
        difference: String::new(),
    })
}

fn stack(action: &'static str, status: Status, traversal: u64) -> Note {
    Note::Stack { id: STACK, name: "web".parse().unwrap(), action, status, traversal }
}

fn row(number: u128, status: Status) -> Note {
    Note::Row {
        stack: STACK,
        resource: "motd".into(),
        thing: thing(number),
        action: "CREATE",
        status: status.as_str(),
    }
}

fn of(cause: Cause) -> JobView {
    JobView { stack: STACK, stack_name: Some("web".parse().unwrap()), resource: "motd".into(), cause }
}

impl Bench {
    fn new(room: usize) -> Self {
        let (queue, spans) = mpsc::channel(room);
        let shared = Shared { ids: RandomIdGenerator::default(), queue, counts: Arc::<Counts>::default() };
        let telemetry = Telemetry(Some(Arc::new(shared)));
        let operations = Operations::new(&telemetry).unwrap();
        Self { operations, spans, telemetry, at: SystemTime::UNIX_EPOCH }
    }

    /// A second later.
    fn at(&mut self) -> SystemTime {
        self.at += Duration::from_secs(1);
        self.at
    }

    fn asks(&mut self, id: u64, is_sampled: bool) -> TraceContext {
        let ids = RandomIdGenerator::default();
        let context = TraceContext { trace: ids.new_trace_id(), span: ids.new_span_id(), is_sampled };
        self.operations.asked(id, context);
        context
    }

    fn commit(&mut self, notes: Vec<Note>) {
        let at = self.at();
        self.operations.durable(notes, at);
    }

    fn send(&mut self, number: u128, attempt: u32, cause: Cause) {
        let at = self.at();
        self.operations.sent(&node(), &job(number, attempt), &of(cause), at);
    }

    fn hears(&mut self, message: &Up) {
        let at = self.at();
        self.operations.heard(&node(), message, at);
    }

    /// The spans that have ended since the last call.
    fn spans(&mut self) -> Vec<Span> {
        std::iter::from_fn(|| self.spans.try_recv().ok()).collect()
    }
}

fn value(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|(name, _)| *name == key);
    match found.map(|(_, value)| value) {
        Some(Value::Text(text)) => text.to_string(),
        Some(Value::Word(word)) => (*word).to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        None => "-".to_owned(),
    }
}

fn events(span: &Span) -> Vec<&'static str> {
    span.events.iter().map(|(event, _)| *event).collect()
}

#[test]
fn an_operation_and_its_jobs_are_one_trace() {
    let mut bench = Bench::new(100);
    let asked = bench.asks(1, true);
    let at = bench.at();
    bench.operations.answered(1, &answer(1), at);
    bench.commit(vec![stack("CREATE", Status::InProgress, 1), row(1, Status::InProgress)]);
    bench.send(1, 0, Cause::Traversal);
    bench.hears(&Up::Progress(Progress { key: job(1, 0).key(), settling: false }));
    bench.hears(&Up::Jobs(vec![JobState { key: job(1, 0).key(), stage: Stage::Running }]));
    bench.hears(&Up::Progress(Progress { key: job(1, 0).key(), settling: true }));
    bench.hears(&report(1, 0, Outcome::Failed { reason: "s3cret".into(), permanent: false }));
    bench.send(1, 1, Cause::Traversal);
    // Of another node, of another attempt: neither is this job's.
    let at = bench.at();
    let other: NodeId = "web-2.example.org".parse().unwrap();
    bench.operations.heard(&other, &report(1, 1, Outcome::Done(Observed::default())), at);
    bench.hears(&report(1, 0, Outcome::Done(Observed::default())));
    assert_eq!(bench.spans().len(), 1);
    bench.hears(&report(1, 1, Outcome::Done(Observed::default())));
    bench.commit(vec![row(1, Status::Complete), stack("CREATE", Status::Complete, 1)]);
    let spans = bench.spans();
    let [second, operation] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(operation.name, "stack CREATE");
    assert_eq!(operation.parent, Some(asked));
    assert_eq!((operation.context.trace, operation.is_failed), (asked.trace, false));
    assert_eq!((second.name.as_str(), second.parent), ("job CREATE", Some(operation.context)));
    for (key, wanted) in [
        ("muster.stack", "web"),
        ("muster.resource", "motd"),
        ("muster.node", "web-1.example.org"),
        ("muster.action", "CREATE"),
        ("muster.attempt", "1"),
        ("muster.cause", "traversal"),
        ("muster.outcome", "done"),
    ] {
        assert_eq!(value(second, key), wanted, "{key}");
    }
    assert_eq!(events(second), ["sent", "reported"]);
    assert!(second.begin < second.end && second.context.trace == asked.trace);
}

#[test]
fn a_failed_attempt_tells_each_step_once_and_no_reason() {
    let mut bench = Bench::new(100);
    bench.asks(1, true);
    let at = bench.at();
    bench.operations.answered(1, &answer(1), at);
    bench.commit(vec![stack("CREATE", Status::InProgress, 1), row(1, Status::InProgress)]);
    bench.send(1, 0, Cause::Traversal);
    bench.send(1, 0, Cause::Traversal);
    for settling in [false, false, true] {
        bench.hears(&Up::Progress(Progress { key: job(1, 0).key(), settling }));
    }
    bench.hears(&report(1, 0, Outcome::Failed { reason: "s3cret".into(), permanent: false }));
    let spans = bench.spans();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(events(span), ["queued", "sent", "running", "settling", "reported"]);
    assert!(span.is_failed && value(span, "muster.outcome") == "failed");
    assert!(!format!("{span:?}").contains("s3cret"));
}

#[test]
fn a_newer_operation_and_a_rollback_end_the_one_before() {
    let mut bench = Bench::new(100);
    let first = bench.asks(1, true);
    let at = bench.at();
    bench.operations.answered(1, &answer(1), at);
    bench.commit(vec![stack("CREATE", Status::InProgress, 1), row(1, Status::InProgress)]);
    let second = bench.asks(2, true);
    let at = bench.at();
    bench.operations.answered(2, &answer(2), at);
    bench.commit(vec![stack("UPDATE", Status::InProgress, 2)]);
    // The update fails, and is rolled back by itself; then that ends.
    bench.commit(vec![stack("ROLLBACK", Status::InProgress, 3)]);
    bench.commit(vec![stack("ROLLBACK", Status::Complete, 3)]);
    let told: Vec<_> = bench
        .spans()
        .iter()
        .map(|span| (span.name.clone(), value(span, "muster.outcome"), span.context.trace))
        .collect();
    let line = |name: &str, outcome: &str, of: TraceContext| (name.to_owned(), outcome.to_owned(), of.trace);
    assert_eq!(
        told,
        [
            line("job CREATE", "left", first),
            line("stack CREATE", "superseded", first),
            line("stack UPDATE", "FAILED", second),
            line("stack ROLLBACK", "COMPLETE", second),
        ]
    );
}

#[test]
fn a_deleted_stack_ends_its_operation() {
    let mut bench = Bench::new(100);
    bench.asks(1, true);
    let at = bench.at();
    bench.operations.answered(1, &answer(4), at);
    bench.commit(vec![Note::Gone { id: STACK, traversal: 3 }]);
    assert!(bench.spans().is_empty());
    bench.commit(vec![Note::Gone { id: STACK, traversal: 4 }]);
    let spans = bench.spans();
    assert_eq!((spans.len(), spans[0].name.as_str()), (1, "stack DELETE"));
}

#[test]
fn a_correction_is_a_trace_of_its_own() {
    let mut bench = Bench::new(100);
    let asked = bench.asks(1, true);
    let at = bench.at();
    bench.operations.answered(1, &answer(1), at);
    bench.send(1, 0, Cause::Correction);
    bench.hears(&report(1, 0, Outcome::Done(Observed::default())));
    let spans = bench.spans();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert!(span.parent.is_none() && span.context.trace != asked.trace);
    assert_eq!(value(span, "muster.cause"), "correction");
    // The row ends by itself where no report came.
    bench.send(1, 1, Cause::Correction);
    bench.commit(vec![row(1, Status::Failed)]);
    let spans = bench.spans();
    assert!(spans.len() == 1 && spans[0].is_failed, "{spans:?}");
}

#[test]
fn a_trace_that_is_not_sampled_has_no_spans() {
    let mut bench = Bench::new(100);
    bench.asks(1, false);
    let at = bench.at();
    bench.operations.answered(1, &answer(1), at);
    bench.commit(vec![stack("CREATE", Status::InProgress, 1), row(1, Status::InProgress)]);
    bench.send(1, 0, Cause::Traversal);
    bench.hears(&report(1, 0, Outcome::Done(Observed::default())));
    bench.commit(vec![stack("CREATE", Status::Complete, 1)]);
    assert!(bench.spans().is_empty());
    assert_eq!(bench.telemetry.counts(), [("sent", 0), ("dropped", 0)]);
}

#[test]
fn spans_without_room_are_counted() {
    let mut bench = Bench::new(1);
    for number in 0..3 {
        bench.send(number, 0, Cause::Correction);
        bench.hears(&report(number, 0, Outcome::Done(Observed::default())));
    }
    assert_eq!(bench.telemetry.counts()[1], ("dropped", 2));
    for number in 0..JOBS_MAX as u128 + 5 {
        bench.send(number, 0, Cause::Correction);
    }
    assert_eq!(bench.operations.jobs.len(), JOBS_MAX);
    assert_eq!(bench.telemetry.counts()[1], ("dropped", 7));
    bench.operations.jobs.clear();
    for id in 0..OPERATIONS_MAX as u64 + 3 {
        bench.asks(id, true);
        let at = bench.at();
        let Ok(Answer::Stack { name, traversal, revision, warnings, difference, .. }) = answer(1) else {
            unreachable!()
        };
        let answer = Ok(Answer::Stack { name, id, traversal, revision, warnings, difference });
        bench.operations.answered(id, &answer, at);
    }
    assert_eq!((bench.operations.open.len(), bench.operations.asked.len()), (OPERATIONS_MAX, 0));
    assert_eq!(bench.telemetry.counts()[1], ("dropped", 10));
}

#[test]
fn only_events_of_resources_are_noted() {
    let event = |resource| EventRecord {
        stack: STACK,
        number: 1,
        resource,
        action: "CREATE",
        status: "IN_PROGRESS",
        reason: "s3cret".into(),
        actor: None,
    };
    assert!(Note::of(&Change::Event(event(None))).is_none());
    let note = Note::of(&Change::Event(event(Some(("motd".into(), thing(1)))))).unwrap();
    assert!(!format!("{note:?}").contains("s3cret"));
}
