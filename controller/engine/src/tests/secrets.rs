//! Values of hidden parameters are in nothing that operators see, whatever agents report.

use muster_shared::model::{Down, DriftState, Outcome, Report, Up};

use super::bed::{Bed, node, parse, stack};
use super::drift::says;
use crate::Effect;
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

/// The agent reports that its first job failed.
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
    let views = (bed.view(), bed.resources(), bed.engine.view().graph_view(&stack()));
    events + &format!("{views:?}")
}

#[test]
fn a_repeated_secret_is_masked_whichever_revision_it_is_from() {
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
fn a_restart_hides_drift_reasons_until_the_secrets_are_known() {
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
    // A restart in the middle of an operation reads its revision again.
    bed.update(with("second-s3cret")).unwrap();
    bed.restart();
    bed.connect(&node(0));
    fails(&mut bed, "cannot write 'second-s3cret'");
    let text = seen(&mut bed);
    assert!(text.contains("cannot write '******'") && !text.contains("s3cret"), "{text}");
}

/// Knowing the digest does not give a node the content.
#[test]
fn a_large_content_goes_only_to_the_node_whose_job_names_it() {
    let mut bed = Bed::new(2);
    let text = format!(
        "heat_template_version: 2018-08-31\nresources:\n  a: {{type: Muster::File, properties: {{node: node-0, path: /x, content: \"{}\"}}}}\n",
        "s3cret".repeat(20_000)
    );
    bed.create(parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })).unwrap();
    let digest = *bed.tables.contents.keys().next().unwrap();
    let mut asks = |index: usize| {
        let (name, connection) = (node(index), bed.hosts[&node(index)].connection.unwrap());
        let message = Up::Fetch { digest, offset: 0 };
        bed.engine.handle(bed.now, crate::Input::Received { node: name, connection, message });
        std::iter::from_fn(|| bed.engine.poll_effect()).collect::<Vec<_>>()
    };
    assert!(
        matches!(&asks(0)[..], [Effect::SendChunk { node: name, digest: sent, .. }] if *name == node(0) && *sent == digest)
    );
    let [Effect::Send { message: Down::Chunk { bytes, .. }, .. }] = &asks(1)[..] else { panic!("an answer") };
    assert!(bytes.is_empty());
}

/// As in Heat: the stack is COMPLETE, and the output says why it has no value.
#[test]
fn an_output_without_a_value_says_why_and_no_secret() {
    let outputs = "outputs: {o: {value: {str_split: [',', a, {get_param: secret}]}}, p: {value: {get_param: [index, 0]}},
        q: {value: {make_url: {scheme: http, port: {get_param: secret}}}}, r: {value: {get_param: [index, {get_param: pin}]}}}\n";
    let template = TEXT.replace("resources:", "  index: {type: string, default: word}\n  pin: {type: string, hidden: true, default: '420017'}\nresources:") + outputs;
    let parameters = [("secret".to_owned(), "first-s3cret".into())].into();
    let source = SourceText { name: "t".into(), template, parameters, ..SourceText::default() };
    let mut bed = Bed::new(1);
    bed.create(parse(source)).unwrap();
    bed.idle();
    let view = bed.view().unwrap();
    assert_eq!((view.status.as_str(), view.outputs.len()), ("COMPLETE", 4), "{view:?}");
    for (output, part) in
        view.outputs.iter().zip(["want an index", "is text here", "as 'port'", "it has no '******'"])
    {
        assert!(output.value.is_null() && output.output_error.contains(part), "{output:?}");
        assert!(
            !output.output_error.contains("s3cret") && !output.output_error.contains("420017"),
            "{output:?}"
        );
    }
}
