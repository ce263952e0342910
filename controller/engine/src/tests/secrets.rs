//! What hidden parameters hold is in nothing that operators see, whatever agents say.

use muster_shared::model::{DriftState, Outcome, Report, Up};

use super::bed::{Bed, node, parse, stack};
use super::drift::says;
use crate::request::{Source, SourceText};

const TEXT: &str = "heat_template_version: 2018-08-31
parameters:
  secret: {type: string, hidden: true}
resources:
  a: {type: Muster::Dummy, properties: {node: node-0, values: {x: {get_param: secret}}}}
";

fn with(secret: &str) -> Source {
    let parameters = [("secret".to_owned(), secret.into())].into();
    parse(SourceText { name: "t".into(), template: TEXT.into(), parameters, ..SourceText::default() })
}

/// The job that came first fails, as its agent says.
fn fails(bed: &mut Bed, reason: &str) {
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    let job = if host.running.is_empty() { host.queue.pop_front().unwrap() } else { host.running.remove(0) };
    let outcome = Outcome::Failed { reason: reason.into(), permanent: true };
    let report = Report { key: job.key(), outcome };
    host.outcomes.insert(job.resource, report.clone());
    bed.receive(&node(0), Up::Report(report));
}

fn seen(bed: &mut Bed) -> String {
    let events = bed.tables.events.join("\n") + &bed.tables.reasons.join("\n");
    let views = (bed.view(), bed.resources(), bed.engine.graph_view(&stack()));
    events + &format!("{views:?}")
}

#[test]
fn what_an_agent_repeats_of_a_job_is_masked_whichever_revision_it_was_of() {
    let mut bed = Bed::new(1);
    bed.create(with("first-s3cret")).unwrap();
    bed.begin(&node(0));
    bed.update(with("second-s3cret")).unwrap();
    fails(&mut bed, "cannot write 'first-s3cret'");
    let text = seen(&mut bed);
    assert!(text.contains("cannot write '******'") && !text.contains("s3cret"), "{text}");
    let mut bed = Bed::new(1);
    bed.create(with("second-s3cret")).unwrap();
    bed.idle();
    bed.update(with("third-s3cret")).unwrap();
    fails(&mut bed, "was second-s3cret, cannot become third-s3cret");
    let text = seen(&mut bed);
    assert!(text.contains("was ******, cannot become ******") && !text.contains("s3cret"), "{text}");
}

#[test]
fn after_a_restart_nothing_is_said_of_it_until_its_values_are_known_again() {
    let mut bed = Bed::new(1);
    bed.create(with("first-s3cret")).unwrap();
    bed.idle();
    bed.restart();
    bed.connect(&node(0));
    says(&mut bed, "a", DriftState::Drifted, "wanted first-s3cret");
    let text = seen(&mut bed);
    assert!(text.contains("what differs is not shown") && !text.contains("s3cret"), "{text}");
    bed.check().unwrap();
    bed.idle();
    says(&mut bed, "a", DriftState::InSync, "");
    says(&mut bed, "a", DriftState::Drifted, "there is no first-s3cret");
    let text = seen(&mut bed);
    assert!(text.contains("there is no ******") && !text.contains("s3cret"), "{text}");
    // What an operation is in the middle of is read again.
    bed.update(with("second-s3cret")).unwrap();
    bed.restart();
    bed.connect(&node(0));
    fails(&mut bed, "cannot write 'second-s3cret'");
    let text = seen(&mut bed);
    assert!(text.contains("cannot write '******'") && !text.contains("s3cret"), "{text}");
}
