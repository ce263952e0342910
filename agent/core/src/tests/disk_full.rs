//! A disk without room, and room again.

use std::time::Duration;

use muster_shared::Epoch;
use muster_shared::model::{Down, Outcome, Up};

use super::node::{Node, create, done, welcome};
use crate::{Input, Retry, RunError};

const SECOND: Duration = Duration::from_secs(1);

/// The disk refuses the oldest write for want of room.
fn refuse(bed: &mut Node) {
    bed.input(Input::Room(Err("state: no space left".into())));
    bed.fail_one();
}

/// The reports about the disk since the last call.
fn told(bed: &mut Node) -> Vec<Option<String>> {
    let is_told = |up: &mut Up| matches!(up, Up::DiskFull(_));
    let told = bed.sent.extract_if(.., is_told);
    told.map(|up| if let Up::DiskFull(full) = up { full } else { None }).collect()
}

#[test]
fn a_full_disk_is_told_and_looked_at_until_there_is_room() {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    bed.job(&create(1, 1));
    refuse(&mut bed);
    let full = Some("state: no space left".to_owned());
    assert_eq!(told(&mut bed), std::slice::from_ref(&full));
    assert!(matches!(bed.report().outcome, Outcome::NoRoom { .. }));
    for (looks, pause) in [5, 10, 20, 40, 60, 60].into_iter().enumerate() {
        bed.after(SECOND * (pause - 1));
        assert_eq!(bed.looks_for_room, looks);
        bed.after(SECOND);
        assert_eq!(bed.looks_for_room, looks + 1, "after {pause} s");
        bed.input(Input::Room(Err("state: no space left".into())));
    }
    assert_eq!(told(&mut bed), [], "once is enough");
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.after(30 * SECOND);
    bed.greet();
    assert_eq!(told(&mut bed), [full], "to each who listens");
    bed.disk_is_quick = true;
    bed.input(Input::Room(Ok(())));
    assert_eq!(told(&mut bed), [None]);
    assert!(bed.agent.is_on_disk());
    bed.sent.clear();
    bed.job(&create(1, 1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done(), "what was refused is taken again");
}

#[test]
fn a_node_that_cannot_record_the_epoch_stays_online_but_idle() {
    // The node takes no job until its disk has room for the epoch.
    let mut bed = Node::offline(Vec::new(), Epoch(1).into());
    bed.disk_is_quick = false;
    bed.input(Input::Connected);
    bed.down(welcome(2, false));
    refuse(&mut bed);
    assert!(bed.disconnects.is_empty() && bed.agent.is_online());
    assert_eq!(told(&mut bed).len(), 1);
    bed.job(&create(1, 1));
    assert!(matches!(bed.report().outcome, Outcome::NoRoom { .. }));
    assert!(bed.writes.is_empty(), "nothing is taken from a controller that may be an old one after a crash");
    bed.after(5 * SECOND);
    bed.input(Input::Room(Ok(())));
    assert_eq!(bed.disconnects.len(), 1, "the next greeting records it");
    bed.disk_is_quick = true;
    bed.input(Input::Disconnected { reason: "closed".into() });
    bed.input(Input::Timeout);
    bed.input(Input::Connected);
    bed.down(welcome(2, false));
    assert_eq!(bed.epoch, Epoch(2).into());
    bed.sent.clear();
    bed.job(&create(1, 1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done());
}

/// A controller that was restarted sends again what it has no answer to.
#[test]
fn a_known_job_is_answered_also_without_room_for_the_epoch() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.job(&create(2, 2));
    bed.ran(1, Ok(()));
    let ended = bed.report();
    bed.sent.clear();
    bed.disk_is_quick = false;
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.after(30 * SECOND);
    bed.input(Input::Connected);
    bed.down(welcome(2, false));
    refuse(&mut bed);
    bed.sent.clear();
    bed.job(&create(1, 1));
    assert_eq!(bed.sent, [Up::Report(ended)], "it has run, and does not run once more");
    bed.sent.clear();
    bed.job(&create(2, 2));
    assert_eq!(bed.sent, [], "it runs");
    bed.job(&create(3, 3));
    assert!(matches!(bed.report().outcome, Outcome::NoRoom { .. }));
    bed.disk_is_quick = true;
    bed.ran(2, Ok(()));
    assert_eq!(bed.report().outcome, done());
}

#[test]
fn a_job_that_found_no_room_where_it_writes_says_so() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.ran(1, Err(RunError { reason: "/srv/a: no space left".into(), retry: Retry::WhenRoom }));
    let report = bed.report();
    assert_eq!(report.outcome, Outcome::NoRoom { reason: "/srv/a: no space left".into() });
    bed.down(Down::Acknowledge(report.key));
    assert_eq!(told(&mut bed), [], "the agent's own disk has room");
    bed.job(&super::node::again(&create(1, 1), 1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done());
}
