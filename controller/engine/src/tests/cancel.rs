//! Cancelled operations: jobs that had started end, no other job begins, and the next operation goes
//! on from there.

use std::time::Duration;

use super::bed::{Bed, files, node, options, stack, template};
use crate::{Options, Refusal, Request};

const THREE: &str = "a: x=1\n b: x=2 | a\n c: x=3 | b";

fn conflict(answer: Result<crate::Answer, Refusal>) -> String {
    match answer {
        Err(Refusal::Conflict(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn statuses(bed: &Bed) -> Vec<String> {
    let show =
        |row: crate::view::ResourceView| format!("{} {}_{}{}", row.name, row.action, row.status, row.phase);
    bed.resources().into_iter().map(show).collect()
}

#[test]
fn what_was_not_begun_is_withdrawn() {
    let mut bed = Bed::new(1);
    bed.create(template(THREE)).unwrap();
    bed.run_at(&node(0), 0);
    bed.cancel().unwrap();
    let view = bed.view().unwrap();
    assert_eq!((bed.status().as_str(), view.status_reason.as_str()), ("CREATE_FAILED", "cancelled"));
    assert!(bed.hosts[&node(0)].queue.is_empty() && bed.engine.poll_timeout().is_none());
    assert_eq!(statuses(&bed), ["a CREATE_COMPLETE", "b INIT_INIT", "c INIT_INIT"]);
    assert_eq!(bed.tables.events[4..], ["stack CREATE_FAILED", "b CREATE_FAILED"]);
    assert_eq!(
        bed.tables.reasons.last().unwrap(),
        "CREATE was withdrawn before it began: the operation was cancelled"
    );
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.ran, ["Create a"], "nothing of it is taken up again");
    assert_eq!(bed.view().unwrap().status_reason, "cancelled");
    bed.update(template(THREE)).unwrap();
    bed.idle();
    assert_eq!(
        (bed.ran.as_slice(), bed.status().as_str()),
        (&["Create a", "Create b", "Create c"].map(String::from)[..], "UPDATE_COMPLETE")
    );
}

#[test]
fn what_runs_ends_and_is_recorded_and_releases_nothing() {
    for restarts in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(files("a: /a\n b: /b | a")).unwrap();
        bed.begin(&node(0));
        bed.cancel().unwrap();
        assert_eq!(bed.resource("a").status, "IN_PROGRESS", "a file is not interrupted");
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.end(&node(0));
        bed.idle();
        assert_eq!(statuses(&bed), ["a CREATE_COMPLETE", "b INIT_INIT"], "restarts: {restarts}");
        assert_eq!((bed.status().as_str(), bed.disk().len()), ("CREATE_FAILED", 1));
        bed.ran.clear();
        bed.update(files("a: /a\n b: /b | a")).unwrap();
        bed.idle();
        assert_eq!(
            (bed.ran.as_slice(), bed.status().as_str()),
            (&["Create b".to_owned()][..], "UPDATE_COMPLETE")
        );
    }
}

#[test]
fn what_may_be_interrupted_is() {
    let mut bed = Bed::new(1);
    bed.create(template(THREE)).unwrap();
    bed.begin(&node(0));
    bed.cancel().unwrap();
    bed.idle();
    let a = bed.resource("a");
    assert_eq!(
        (a.status.as_str(), a.status_reason.as_str()),
        ("FAILED", "interrupted: a cancel or a newer operation took its job back")
    );
    assert!(bed.ran.is_empty());
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "gone");
}

#[test]
fn a_newer_operation_interrupts_as_well() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.begin(&node(0));
    bed.update(template("a: x=2")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality()[0].1["x"].as_str()), ("UPDATE_COMPLETE", "2"));
    assert_eq!(bed.reality().len(), 1);
}

/// Events of a resource with their reasons.
fn told(bed: &Bed, resource: &str) -> Vec<String> {
    let all = bed.tables.events.iter().zip(&bed.tables.reasons);
    let of_it = all.filter(|(event, _)| event.starts_with(&format!("{resource} ")));
    of_it.map(|(event, reason)| format!("{event} {reason}")).collect()
}

#[test]
fn every_job_whose_beginning_is_told_has_an_end_that_is_told() {
    const CANCELLED: &str = "the operation was cancelled";
    const NEWER: &str = "something else is wanted of it now";
    const BOTH: &str = "interrupted: a cancel or a newer operation took its job back";
    for (cancelled, why) in [(true, CANCELLED), (false, NEWER)] {
        let mut bed = Bed::new(2);
        let all = |x| {
            template(
                &["run", "wait", "away", "fail"]
                    .map(|name| {
                        let node = match name {
                            "away" => 2,
                            "fail" => 1,
                            _ => 0,
                        };
                        format!("{name}: x={x} node=node-{node}\n")
                    })
                    .concat(),
            )
        };
        bed.create(all(1)).unwrap();
        bed.begin(&node(0));
        bed.fail_next(&node(1), false);
        match cancelled {
            true => bed.cancel().unwrap(),
            false => bed.update(all(2)).unwrap(),
        };
        bed.idle();
        let ends = |name: &str| told(&bed, name).iter().find(|line| !line.contains("IN_PROGRESS")).cloned();
        let back = |when: &str| Some(format!("CREATE_FAILED CREATE was withdrawn before it {when}: {why}"));
        let of = |name: &str, line: Option<String>| line.map(|line| format!("{name} {line}"));
        assert_eq!(ends("run"), Some(format!("run CREATE_FAILED {BOTH}")));
        assert_eq!(ends("wait"), of("wait", back("began")));
        assert_eq!(ends("away"), of("away", back("began")));
        assert_eq!(ends("fail"), of("fail", back("was tried again")));
        if !cancelled {
            let done = "run CREATE_COMPLETE ";
            assert_eq!(told(&bed, "run").last().unwrap(), done, "and the next has its own");
        }
    }
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    bed.check().unwrap();
    bed.cancel().unwrap();
    let end = format!("a CHECK_FAILED CHECK was withdrawn unanswered: {CANCELLED}");
    assert_eq!(told(&bed, "a").last(), Some(&end));
}

#[test]
fn a_cancel_ends_backoffs_and_waits_for_jobs_of_away_nodes() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-1\n c: x=1 node=node-2")).unwrap();
    bed.fail_next(&node(0), false);
    bed.disconnect(&node(1)); // with its job
    bed.cancel().unwrap();
    assert_eq!(statuses(&bed), ["a CREATE_FAILED", "b CREATE_IN_PROGRESSnode_away", "c INIT_INIT"]);
    assert!(bed.engine.poll_timeout().is_none(), "no timer for what is cancelled");
    bed.connect(&node(1));
    bed.idle();
    assert_eq!(statuses(&bed), ["a CREATE_FAILED", "b INIT_INIT", "c INIT_INIT"]);
    assert!(bed.ran.is_empty());
}

#[test]
fn it_is_refused_where_there_is_nothing_to_cancel() {
    let mut bed = Bed::new(1);
    assert!(matches!(bed.cancel(), Err(Refusal::NotFound(_))));
    bed.create(template(THREE)).unwrap();
    bed.cancel().unwrap();
    assert!(conflict(bed.cancel()).contains("has no operation in progress (CREATE_FAILED)"), "twice");
    bed.update(template(THREE)).unwrap();
    bed.idle();
    assert!(conflict(bed.cancel()).contains("has no operation in progress (UPDATE_COMPLETE)"));
}

#[test]
fn it_is_not_rolled_back_by_itself_and_can_be_by_hand() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    let options = Options { rollback: true, timeout: Duration::from_secs(60), ..options() };
    let source = template("a: x=2\n b: x=1 | a");
    bed.ask(Request::Update { name: stack(), source, options }).unwrap();
    bed.run_at(&node(0), 0);
    bed.cancel().unwrap();
    bed.pass(Duration::from_secs(1000));
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), bed.view().unwrap().status_reason.as_str()),
        ("UPDATE_FAILED", "cancelled")
    );
    bed.rollback(None).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("ROLLBACK_COMPLETE", 1));
    assert_eq!(bed.reality()[0].1["x"], "1");
}

#[test]
fn a_delete_stops_and_what_is_gone_comes_back() {
    for (rolled_back, restarts) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut bed = Bed::new(1);
        bed.create(template(THREE)).unwrap();
        bed.idle();
        let physical = bed.resource("a").physical_id;
        bed.delete().unwrap();
        assert!(conflict(bed.update(template(THREE))).contains("muster stack cancel s"));
        assert!(conflict(bed.rollback(None)).contains("is being deleted"));
        bed.run_at(&node(0), 0);
        bed.begin(&node(0));
        bed.cancel().unwrap();
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.view().unwrap().status_reason.as_str()),
            ("DELETE_FAILED", "cancelled")
        );
        assert_eq!(bed.reality().len(), 2, "c is gone, b was interrupted");
        match rolled_back {
            true => bed.rollback(None).unwrap(),
            false => bed.update(template(THREE)).unwrap(),
        };
        bed.idle();
        assert!(bed.status().ends_with("_COMPLETE"), "{}", bed.status());
        assert_eq!(bed.reality().len(), 3);
        assert_eq!(bed.resource("a").physical_id, physical, "its delete had not begun");
    }
}

#[test]
fn a_delete_that_failed_gives_way_to_an_update() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1 fail=delete\n b: x=1 | a")).unwrap();
    bed.idle();
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "DELETE_FAILED");
    bed.update(template("a: x=1\n b: x=1 | a")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED", "what could not be taken away is replaced, and still not gone");
    let names: Vec<String> = bed.reality().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "a", "b"]);
    assert_eq!(bed.resource("b").status, "COMPLETE");
}

#[test]
fn a_cancelled_stack_can_be_deleted() {
    for restarts in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(template("a: !x=1\n b: x=1 | a")).unwrap();
        bed.idle();
        bed.update(template("a: !x=2\n b: x=2 | a\n c: x=1 | b")).unwrap();
        bed.run_at(&node(0), 0);
        bed.begin(&node(0));
        bed.cancel().unwrap();
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.delete().unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.reality().len()), ("gone", 0));
        assert!(bed.tables.rows.is_empty());
    }
}
