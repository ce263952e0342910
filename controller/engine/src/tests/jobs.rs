use std::time::Duration;

use muster_shared::Attempt;
use muster_shared::model::{Observed, Outcome, Report, ReportKey, Up};

use super::bed::{Bed, node, template};

#[test]
fn an_update_takes_back_what_has_not_begun() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1")).unwrap();
    bed.run_at(&node(0), 0);
    bed.update(template("a: x=1\n c: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Create a", "Create c"], "b was never made");
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.resources().len(), 2);
}

#[test]
fn a_job_that_still_fits_is_left_to_end() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1")).unwrap();
    let id = bed.resource("b").physical_id;
    bed.update(template("a: x=1\n b: x=1\n c: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Create a", "Create b", "Create c"]);
    assert_eq!(bed.resource("b").physical_id, id);
}

#[test]
fn a_node_that_is_away_gets_its_job_again() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.hosts.get_mut(&node(0)).unwrap().queue.clear(); // lost with the connection
    bed.disconnect(&node(0));
    assert_eq!(bed.resource("a").phase, "node_away");
    bed.connect(&node(0));
    assert_eq!(bed.resource("a").phase, "queued");
    bed.idle();
    assert_eq!(bed.ran, ["Create a"]);
}

#[test]
fn a_silent_agent_is_asked_again_and_then_given_up() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    for _ in 0..8 {
        bed.hosts.get_mut(&node(0)).unwrap().queue.clear();
        bed.pass(Duration::from_secs(400));
    }
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert!(bed.view().unwrap().status_reason.contains("no answer"));
}

/// A retry belongs to the same job: a late report of the last attempt counts, and a script that ran
/// is not started again.
#[test]
fn what_is_tried_again_stays_the_same_job_over_a_restart() {
    let ends = ["it fails", "there is no room", "nothing is heard", "it is said late"];
    let cases = ["create", "update", "delete"].into_iter().flat_map(|of| ends.map(|ends| (of, ends)));
    for ((of, ends), restarts) in cases.flat_map(|case| [(case, false), (case, true)]) {
        let case = format!("{of}, {ends}, restarts: {restarts}");
        let mut bed = Bed::new(1);
        bed.create(template("a: x=1")).unwrap();
        match of {
            "update" => {
                bed.idle();
                bed.update(template("a: x=2")).unwrap();
            }
            "delete" => {
                bed.idle();
                bed.delete().unwrap();
            }
            _ => {}
        }
        let ran = bed.ran.len();
        let sent = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
        let report = |outcome| Up::Report(Report { key: sent.key(), outcome });
        match ends {
            "it fails" => {
                let (reason, permanent) = ("told to fail".into(), false);
                bed.receive(&node(0), report(Outcome::Failed { reason, permanent }));
            }
            "there is no room" => {
                bed.receive(&node(0), report(Outcome::NoRoom { reason: "no space left".into() }));
            }
            _ => bed.pass(bed.limits.job_timeout + Duration::from_secs(30)),
        }
        assert_eq!(bed.resource("a").phase, "backoff", "{case}");
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        assert_eq!(bed.resource("a").phase, "backoff", "{case}");
        if ends == "it is said late" {
            bed.receive(&node(0), report(Outcome::Done(Observed::default())));
            bed.idle();
            assert_eq!(bed.ran.len(), ran, "{case}");
        } else {
            bed.pass(Duration::from_secs(1));
            let again = &bed.hosts[&node(0)].queue[0];
            assert_eq!((again.generation, again.attempt), (sent.generation, Attempt(1)), "{case}");
            bed.idle();
            assert_eq!(bed.ran.len(), ran + 1, "{case}");
        }
        let ended = match of {
            "create" => "CREATE_COMPLETE",
            "update" => "UPDATE_COMPLETE",
            _ => "gone",
        };
        assert_eq!(bed.status(), ended, "{case}");
    }
}

#[test]
fn what_an_agent_has_lost_is_made_again() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things.clear();
    host.outcomes.clear();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.reality().len(), 2);
    assert_eq!(bed.ran[2..], ["Update a", "Update b"], "what is there is no one else's");
}

#[test]
fn a_delete_waits_for_a_node_that_is_away() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "DELETE_IN_PROGRESS");
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("gone", 0));
}

#[test]
fn work_in_flight_is_bounded_per_node() {
    let mut bed = Bed::new(1);
    let lines: String = (0..600).map(|i| format!("r{i:03}: x=1\n")).collect();
    bed.create(template(&lines)).unwrap();
    assert_eq!(bed.hosts[&node(0)].queue.len(), 256);
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("CREATE_COMPLETE", 600));
}

/// A failed attempt may have changed something, so it is not as if there had been no job.
#[test]
fn a_withdrawn_retry_leaves_something_to_clean_up() {
    for away in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(template("a: x=1\n b: x=1")).unwrap();
        bed.fail_next(&node(0), false);
        if away {
            bed.disconnect(&node(0));
        }
        bed.pass(Duration::from_secs(2));
        bed.update(template("b: x=1")).unwrap();
        if away {
            bed.connect(&node(0));
        }
        bed.idle();
        assert_eq!(bed.ran, ["Create b", "Delete a"]);
        assert_eq!((bed.status().as_str(), bed.resources().len()), ("UPDATE_COMPLETE", 1));
    }
}

/// A job that waited for one node and failed on another is retried and cleaned up there, whatever
/// happens to the first node.
#[test]
fn a_place_that_was_left_in_line_is_nobodys() {
    for connects in [true, false] {
        for wanted in [true, false] {
            let mut bed = Bed::new(2);
            bed.disconnect(&node(1));
            bed.create(template("a: node=node-1 x=1\n b: node=node-0 x=1")).unwrap();
            bed.update(template("a: node=node-0 x=1\n b: node=node-0 x=1")).unwrap();
            bed.run_at(&node(0), 0);
            bed.fail_next(&node(0), false);
            bed.connect(&node(1));
            if !connects {
                bed.disconnect(&node(1));
            }
            assert_eq!(bed.resource("a").phase, "backoff");
            if wanted {
                bed.idle();
                assert_eq!(bed.ran, ["Create b", "Create a"]);
            } else {
                bed.update(template("b: node=node-0 x=1")).unwrap();
                bed.idle();
                assert_eq!(bed.ran, ["Create b", "Delete a"]);
            }
            assert_eq!(bed.status(), "UPDATE_COMPLETE");
        }
    }
}

/// The store was set back and counts fewer attempts of a job than its agent has made.
#[test]
fn an_answer_of_a_later_attempt_counts() {
    let failed = || Outcome::Failed { reason: "told to fail".into(), permanent: false };
    for (attempt, outcome, phase) in [
        (2, Outcome::Done(Observed::default()), ""),
        (2, failed(), "backoff"),
        (u32::MAX, failed(), "queued"),
    ] {
        let mut bed = Bed::new(1);
        bed.create(template("a: x=1")).unwrap();
        let sent = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
        let key = ReportKey { attempt: Attempt(attempt), ..sent.key() };
        let is_done = matches!(outcome, Outcome::Done(_));
        bed.receive(&node(0), Up::Report(Report { key, outcome }));
        assert_eq!((bed.status() == "CREATE_COMPLETE", bed.resource("a").phase.as_str()), (is_done, phase));
        if phase == "backoff" {
            bed.pass(Duration::from_secs(1));
            assert_eq!(bed.hosts[&node(0)].queue[0].attempt, Attempt(3), "the agent knows those before");
        }
    }
}
