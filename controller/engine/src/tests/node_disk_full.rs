//! Nodes whose disks are full.

use std::time::Duration;

use muster_shared::model::{Outcome, Report, Up};

use super::bed::{Bed, node, options, template};
use crate::{Options, Request};

const FULL: &str = "/var/lib/muster-agent: no space left";

fn full(bed: &mut Bed, full: bool) {
    bed.receive(&node(0), Up::DiskFull(full.then(|| FULL.into())));
}

/// The first job of the host finds no room.
fn no_room(bed: &mut Bed) {
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().expect("a job waits");
    let outcome = Outcome::NoRoom { reason: "/srv/a: no space left".into() };
    bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome }));
}

#[test]
fn a_job_that_finds_no_room_is_tried_until_there_is() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    let mut waited = Vec::new();
    for _ in 0..9 {
        no_room(&mut bed);
        assert_eq!(
            (bed.status().as_str(), bed.resource("a").phase.as_str()),
            ("CREATE_IN_PROGRESS", "backoff")
        );
        let due = bed.engine.view().next_job().expect("it is tried again");
        waited.push(due.since(bed.now).as_secs());
        bed.pass(due.since(bed.now));
    }
    assert_eq!(waited, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    let told = bed.tables.reasons.iter().filter(|reason| reason.contains("/srv/a: no space left"));
    assert_eq!(told.count(), 1, "not each minute");
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn an_operation_that_waits_for_room_ends_with_its_time() {
    let mut bed = Bed::new(1);
    let options = Options { timeout: Duration::from_secs(100), ..options() };
    bed.ask(Request::Create { name: super::bed::stack(), source: template("a: x=1"), options }).unwrap();
    no_room(&mut bed);
    bed.pass(Duration::from_secs(101));
    assert_eq!(bed.status(), "CREATE_FAILED");
}

#[test]
fn a_node_with_a_full_disk_gets_removals_alone() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1")).unwrap();
    bed.idle();
    full(&mut bed, true);
    assert_eq!(bed.node_state(&node(0)), "disk_full");
    let view = bed.engine.view().node_views().remove(0);
    assert_eq!(view.state_reason.as_deref(), Some(FULL));
    bed.update(template("a: x=2\n c: x=1")).unwrap();
    assert!(bed.hosts[&node(0)].queue.is_empty());
    assert_eq!(bed.resource("a").phase, "disk_full");
    bed.pass(Duration::from_secs(3600 - 1));
    let reason = bed.view().unwrap().status_reason;
    assert_eq!(bed.status(), "UPDATE_IN_PROGRESS", "{reason}");

    full(&mut bed, false);
    assert_eq!(bed.node_state(&node(0)), "online");
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");

    full(&mut bed, true);
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "gone", "a removal may free room");
}

#[test]
fn what_waits_for_room_outlives_a_new_connection() {
    let mut bed = Bed::new(1);
    full(&mut bed, true);
    bed.create(template("a: x=1")).unwrap();
    bed.disconnect(&node(0));
    assert_eq!(bed.node_state(&node(0)), "offline");
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE", "an agent says so anew, or has room");
}

#[test]
fn an_operation_names_the_node_whose_disk_is_full() {
    let mut bed = Bed::new(1);
    full(&mut bed, true);
    let options = Options { timeout: Duration::from_secs(100), ..options() };
    bed.ask(Request::Create { name: super::bed::stack(), source: template("a: x=1"), options }).unwrap();
    bed.pass(Duration::from_secs(101));
    let reason = bed.view().unwrap().status_reason;
    assert!(reason.contains("node-0 (its disk is full)"), "{reason}");
}
