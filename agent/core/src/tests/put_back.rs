//! Things that could not be restored yet, or that the disk has recorded by half.

use std::time::Duration;

use muster_shared::model::{Action, Job, Outcome, Spec};

use super::confirm::{WINDOW, answer, confirming, network, not_back, reason, running};
use super::node::{CHALLENGE, Node, again, done, failed, id, key};
use crate::{Before, Input};

#[test]
fn the_next_job_confirms_or_undoes_an_unrestored_change() {
    // This holds even if that job changes nothing.
    for outcome in [Ok(()), Err(failed("no such link"))] {
        let mut bed = not_back();
        bed.job(&network(1, 2, Action::Update));
        bed.ran(1, outcome.clone());
        assert!(bed.disk[&id(1)].undo.is_some());
        if outcome.is_ok() {
            bed.reconnect();
            bed.after(WINDOW);
        }
        assert_eq!(bed.restores, [(key(1, 2, 0), Before::new(b"as it was".to_vec()))]);
    }
}

#[test]
fn nothing_of_another_resource_is_changed_before_it_is_put_back() {
    let mut bed = not_back();
    bed.job(&network(2, 1, Action::Create));
    assert!(bed.captures.is_empty() && bed.guards.is_empty());
    let report = bed.reports().pop().unwrap();
    assert!(matches!(&report.outcome, Outcome::Failed { reason, permanent: false } if
        reason.contains("could not be restored yet")));
    bed.after(Duration::from_secs(30));
    bed.restored(Ok(()));
    bed.reconnect();
    bed.job(&again(&network(2, 1, Action::Create), 1));
    assert_eq!(bed.captures.len(), 1);
}

/// Resource 2 took resource 1's link over, failed, and is restored half a minute after its job has ended.
#[test]
fn what_it_took_over_is_given_back_however_late_it_is_put_back() {
    let mut bed = Node::online();
    bed.apply_file(&network(1, 1, Action::Create), "one");
    bed.job(&Job { resource: id(2), ..network(1, 2, Action::Create) });
    bed.captured(2, Ok("one"));
    bed.touched(2, Err(failed("no carrier")));
    for wait in [1, 2, 4, 8, 0] {
        bed.restored(Err("the switch is not running"));
        bed.after(Duration::from_secs(wait));
    }
    let key = bed.fallbacks.pop().unwrap();
    bed.input(Input::Restored { key, result: Err("there is none".into()) });
    assert_eq!(bed.taker(1), Some(id(2)), "it may hold it still");
    bed.after(Duration::from_secs(30));
    bed.restored(Ok(()));
    assert_eq!(bed.taker(1), None);
    assert!(!bed.disk[&id(2)].exists());
}

#[test]
fn what_is_not_put_back_is_not_retained() {
    let mut bed = not_back();
    bed.job(&network(1, 2, Action::Retain));
    assert!(matches!(bed.reports().pop().unwrap().outcome, Outcome::Failed { permanent: false, .. }));
    assert!(bed.disk[&id(1)].undo.is_some());
    bed.after(Duration::from_secs(30));
    bed.restored(Ok(()));
    assert!(!bed.disk[&id(1)].exists(), "it holds what it held before");
}

#[test]
fn a_change_waits_until_an_earlier_restore_is_on_disk() {
    let mut bed = confirming();
    bed.reconnect();
    bed.job(&network(2, 1, Action::Create));
    let mut bed = bed.crash();
    bed.disk_is_quick = false;
    bed.restored(Ok(()));
    bed.reconnect();
    bed.captured(2, Ok("before Muster"));
    // Neither that resource 1 is back, nor that again.
    bed.fail_one();
    bed.write_one();
    assert!(bed.disk[&id(1)].undo.is_some() && bed.disk[&id(2)].undo.is_some());
    assert!(bed.runs.is_empty(), "after a crash, resource 1 would be restored over it");
}

#[test]
fn a_newer_jobs_write_may_record_that_a_change_is_kept() {
    let mut bed = confirming();
    bed.reconnect();
    bed.disk_is_quick = false;
    answer(&mut bed, key(1, 1, 0), CHALLENGE);
    bed.job(&network(1, 2, Action::Update));
    bed.fail_one();
    assert!(bed.reports().is_empty() && bed.restores.is_empty(), "the next write decides");
    bed.write_one();
    assert!(bed.restores.is_empty() && bed.disk[&id(1)].undo.is_none());
    assert_eq!(bed.reports().remove(0).outcome, done());
    assert!(bed.disk[&id(1)].applied.is_some());
    let mut bed = confirming();
    bed.reconnect();
    bed.disk_is_quick = false;
    answer(&mut bed, key(1, 1, 0), CHALLENGE);
    bed.job(&network(1, 2, Action::Update));
    bed.fail_one();
    bed.fail_one();
    bed.fail_one();
    assert_eq!(bed.restores.len(), 1);
}

#[test]
fn a_connection_the_agent_closes_is_noticed_and_reopened_soon() {
    let mut bed = running();
    let mut job = network(2, 1, Action::Create);
    if let Spec::Network(config) = &mut job.spec {
        config.confirm_timeout = 200;
    }
    bed.ran(1, Ok(()));
    bed.job(&job);
    bed.captured(2, Ok("before Muster"));
    bed.touched(2, Ok(()));
    bed.input(Input::Disconnected { reason: "closed by this side".into() });
    for attempt in 3..8 {
        bed.input(Input::Timeout);
        bed.input(Input::Connected);
        bed.after(Duration::from_secs(30));
        bed.input(Input::Disconnected { reason: "closed by this side".into() });
        bed.after(Duration::from_secs(1));
        assert_eq!(bed.connects, attempt, "no later than after a second");
    }
    bed.after(Duration::from_secs(60));
    bed.restored(Ok(()));
    bed.reconnect();
    assert!(reason(bed.reports().pop().unwrap().outcome).contains("did not answer the greeting"));
}
