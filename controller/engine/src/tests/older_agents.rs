//! Agents that do not know a type which the controller knows.

use super::bed::{Bed, node, parse};
use crate::{Source, SourceText};

const TOO_OLD: &str = "node-0 runs muster-agent t, Muster::Timezone needs 0.2.0: upgrade the agent";

/// A time zone, and a file that does not need it.
fn source(zone: &str) -> Source {
    let template = format!(
        "heat_template_version: 2018-08-31\nresources:\n  zone:\n    type: Muster::Timezone\n    properties: {{node: node-0, timezone: {zone}}}\n  \
         file:\n    type: Muster::File\n    properties: {{node: node-0, path: /a, content: hello}}\n"
    );
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

/// The agent is replaced by an older or a newer one, which connects.
fn replace(bed: &mut Bed, is_old: bool) {
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.is_old = is_old;
    host.queue.clear();
    bed.connect(&node(0));
}

fn zone(bed: &Bed) -> (String, String) {
    let zone = bed.resource("zone");
    (format!("{}_{}", zone.action, zone.status), zone.status_reason)
}

#[test]
fn a_type_that_an_agent_does_not_know_fails_before_it_is_sent() {
    let mut bed = Bed::new(1);
    replace(&mut bed, true);
    bed.create(source("UTC")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert_eq!(zone(&bed), ("CREATE_FAILED".into(), TOO_OLD.into()));
    assert_eq!((bed.ran.concat(), bed.resource("file").status), ("Create file".into(), "COMPLETE".into()));
    // Nothing of it is on the node: it goes without a job.
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.view().is_none(), "{:?}", bed.view());
    assert_eq!(bed.ran, ["Create file", "Delete file"]);
}

#[test]
fn the_next_operation_tries_again_on_a_newer_agent() {
    let mut bed = Bed::new(1);
    replace(&mut bed, true);
    bed.create(source("UTC")).unwrap();
    bed.idle();
    replace(&mut bed, false);
    bed.idle();
    assert_eq!(zone(&bed).0, "CREATE_FAILED", "an operator decides when");
    bed.update(source("UTC")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    bed.restart();
    assert_eq!(zone(&bed), ("CREATE_COMPLETE".into(), String::new()));
}

#[test]
fn a_job_that_an_older_agent_cannot_read_is_not_sent_again() {
    let mut bed = Bed::new(1);
    bed.create(source("UTC")).unwrap();
    replace(&mut bed, true);
    assert_eq!(zone(&bed), ("CREATE_FAILED".into(), TOO_OLD.into()));
    // The agent before may have started: the older one cannot remove what is there.
    bed.idle();
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "DELETE_FAILED");
    assert_eq!(zone(&bed), ("DELETE_FAILED".into(), TOO_OLD.into()));
    replace(&mut bed, false);
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.view().is_none(), "{:?}", bed.view());
}

#[test]
fn a_job_for_an_away_node_fails_if_an_older_agent_comes() {
    let mut bed = Bed::new(1);
    bed.create(source("UTC")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    bed.update(source("Europe/Paris")).unwrap();
    bed.restart();
    replace(&mut bed, true);
    bed.idle();
    assert_eq!((bed.status(), zone(&bed).1), ("UPDATE_FAILED".into(), TOO_OLD.into()));
    replace(&mut bed, false);
    bed.update(source("Europe/Paris")).unwrap();
    bed.idle();
    assert_eq!((bed.status(), zone(&bed).1), ("UPDATE_COMPLETE".into(), String::new()));
}
