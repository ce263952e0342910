//! A bounded number of nodes fetch contents at a time.

use std::time::Duration;

use muster_shared::model::{Content, ContentDigest, Outcome, Report, Spec, Up};
use muster_shared::wire::CHUNK_MAX;

use super::bed::{Bed, node, parse};
use crate::SourceText;
use crate::job::fetches::SERVED_MAX;

/// Two pieces for each node, and each node has a file of its own.
fn files(nodes: usize) -> Bed {
    let mut text = format!(
        "heat_template_version: 2018-08-31\nparameters: {{c: {{type: string, default: {}}}}}\nresources:\n",
        "a".repeat(CHUNK_MAX + 1)
    );
    for n in 0..nodes {
        text.push_str(&format!(
            "  f{n}: {{type: Muster::File, properties: {{node: node-{n}, path: /f, content: {{get_param: c}}}}}}\n"
        ));
    }
    let mut bed = Bed::new(nodes);
    bed.create(parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })).unwrap();
    bed
}

fn digest(bed: &Bed) -> ContentDigest {
    match &bed.hosts[&node(0)].queue[0].spec {
        Spec::File(file) => match file.content {
            Content::Stored { digest, .. } => digest,
            Content::Inline(_) => panic!("it is large"),
        },
        other => panic!("{other:?}"),
    }
}

fn asks(bed: &mut Bed, n: usize, piece: usize) -> Vec<usize> {
    let digest = digest(bed);
    bed.receive(&node(n), Up::Fetch { digest, offset: (piece * CHUNK_MAX) as u64 });
    took(bed)
}

fn took(bed: &mut Bed) -> Vec<usize> {
    let chunks = std::mem::take(&mut bed.chunks);
    chunks.iter().map(|name| (0..).find(|n| node(*n) == *name).unwrap()).collect()
}

#[test]
fn one_node_ends_and_the_next_begins() {
    let mut bed = files(SERVED_MAX + 2);
    for n in 0..SERVED_MAX {
        assert_eq!(asks(&mut bed, n, 0), [n]);
    }
    for n in SERVED_MAX..SERVED_MAX + 2 {
        assert_eq!(asks(&mut bed, n, 0), Vec::<usize>::new(), "it waits");
    }
    assert_eq!(asks(&mut bed, 0, 1), [0, SERVED_MAX], "its last piece");
    bed.disconnect(&node(1));
    assert_eq!(took(&mut bed), [SERVED_MAX + 1]);
}

#[test]
fn silence_makes_room() {
    let mut bed = files(SERVED_MAX + 1);
    for n in 0..=SERVED_MAX {
        asks(&mut bed, n, 0);
    }
    bed.pass(Duration::from_secs(9));
    assert_eq!(took(&mut bed), Vec::<usize>::new());
    bed.pass(Duration::from_secs(1));
    assert_eq!(took(&mut bed), [SERVED_MAX]);
}

/// The controller keeps the deadline for an older agent, and each piece extends it.
#[test]
fn pieces_are_progress() {
    let mut bed = files(1);
    for _ in 0..10 {
        bed.pass(Duration::from_secs(300));
        asks(&mut bed, 0, 0);
    }
    assert_eq!((bed.resource("f0").phase.as_str(), bed.resource("f0").retry_count), ("queued", 0));
    bed.pass(Duration::from_secs(400));
    assert_eq!(bed.resource("f0").phase, "backoff");
}

/// A node without room for a content gives up its place, and asks again as long as the operation lasts.
#[test]
fn no_room_for_a_content_is_a_wait() {
    let mut bed = files(1);
    for attempt in 0..12 {
        assert_eq!(asks(&mut bed, 0, 0), [0], "attempt {attempt}");
        let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().expect("a job waits");
        let outcome = Outcome::NoRoom { reason: "fetch: no space left".into() };
        bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome }));
        assert_eq!(bed.resource("f0").phase, "backoff");
        let due = bed.engine.view().next_job().expect("it is tried again");
        bed.pass(due.since(bed.now));
    }
    assert_eq!((bed.status().as_str(), asks(&mut bed, 0, 1)), ("CREATE_IN_PROGRESS", vec![0]));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}
