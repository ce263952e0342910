//! Corrections of drift: which rows are corrected, when, and when corrections stop; nodes in
//! maintenance; updates that look at everything.

mod members;

use std::time::Duration;

use muster_shared::model::{Drift, DriftState, Outcome, Report, Up};
use muster_shared::{Attempt, Generation};

use super::bed::{Bed, node, options, parse, stack, template, under};
use super::drift::says;
use crate::{CALM, CORRECTIONS_MAX, Hook, Limits, Options, Request, Source, SourceText};

const SECOND: Duration = Duration::from_secs(1);

/// Dummies on node-0, each with a drift policy (`-`: none), then with further properties.
fn policies(rows: &[(&str, &str)]) -> Source {
    let mut text = "heat_template_version: 2018-08-31\nresources:\n".to_owned();
    for (name, policy) in rows {
        let (policy, value) = policy.split_once(' ').unwrap_or((policy, "1"));
        text += &format!("  {name}:\n    type: Muster::Dummy\n");
        if policy != "-" {
            text += &format!("    drift_policy: {policy}\n");
        }
        text += &format!("    properties: {{node: node-0, values: {{x: '{value}'}}}}\n");
    }
    parse(SourceText { name: "t".into(), template: text, ..Default::default() })
}

fn made(rows: &[(&str, &str)]) -> Bed {
    let mut bed = Bed::new(1);
    bed.create(policies(rows)).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.tables.reasons.clear();
    bed
}

fn drifts(bed: &mut Bed, name: &str) {
    says(bed, name, DriftState::Drifted, "x is 7");
}

fn ran(bed: &mut Bed) -> Vec<String> {
    std::mem::take(&mut bed.ran)
}

fn told(bed: &mut Bed) -> Vec<String> {
    std::mem::take(&mut bed.tables.reasons).into_iter().filter(|reason| !reason.is_empty()).collect()
}

fn maintain(bed: &mut Bed, on: bool) {
    bed.ask(Request::Maintenance { node: node(0), on }).unwrap();
}

fn converge(bed: &mut Bed, source: Source) {
    let options = Options { converge: true, ..options() };
    bed.ask(Request::Update { name: stack(), source, options }).unwrap();
}

/// Corrects the drift of `a`, which is undone at once, until corrections stop. Returns the start of each.
fn fought(bed: &mut Bed) -> Vec<u64> {
    let (begun, mut times) = (bed.now, Vec::new());
    for _ in 0..100 {
        drifts(bed, "a");
        while bed.hosts[&node(0)].queue.is_empty() {
            let Some((due, _)) = bed.engine.poll_timeout() else { return times };
            let wait = due.since(bed.now);
            if wait > SECOND * 60 {
                return times;
            }
            bed.pass(wait);
        }
        times.push(bed.now.since(begun).as_secs());
        bed.idle();
    }
    panic!("a fight without an end");
}

#[test]
fn each_policy() {
    let rows = [("a", "correct"), ("b", "report"), ("c", "ignore"), ("d", "-")];
    let mut bed = made(&rows);
    for (name, _) in rows {
        drifts(&mut bed, name);
    }
    let seen = |bed: &Bed| rows.map(|(name, _)| bed.resource(name).observed);
    assert_eq!(seen(&bed), ["unknown", "drifted", "in_sync", "drifted"], "the first has a job");
    assert_eq!(bed.resource("a").phase, "queued");
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"]);
    assert_eq!(seen(&bed), ["in_sync", "drifted", "in_sync", "drifted"]);
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(told(&mut bed), ["drifted: x is 7"; 3]);
    let policies = rows.map(|(name, _)| bed.resource(name).drift_policy);
    assert_eq!(policies, ["correct", "report", "ignore", "report"], "a dummy's own is to report");
    let shown: Vec<_> = bed.engine.view().drift_views(None).into_iter().map(|drift| drift.resource).collect();
    assert_eq!(shown, ["b", "d"]);
}

#[test]
fn what_takes_the_place_of_a_resource_has_its_policy() {
    let of = |value: &str| {
        let text = format!(
            "heat_template_version: 2018-08-31\nresources:\n  a:\n    type: Muster::Dummy\n    drift_policy: correct\n    \
             properties: {{node: node-0, values: {{'!x': '{value}'}}}}\n"
        );
        parse(SourceText { name: "t".into(), template: text, ..Default::default() })
    };
    let mut bed = Bed::new(1);
    bed.create(of("1")).unwrap();
    bed.idle();
    let was = bed.resource("a").physical_id;
    bed.update(of("2")).unwrap();
    bed.idle();
    for restarted in [false, true] {
        if restarted {
            bed.restart();
        }
        let row = bed.resource("a");
        assert_ne!(row.physical_id, was);
        assert_eq!(row.drift_policy, "correct");
    }
}

#[test]
fn what_is_to_be_made_anew_for_a_removed_node_has_its_policy() {
    let mut bed = made(&[("a", "correct")]);
    fought(&mut bed);
    bed.remove(&node(0));
    for restarted in [false, true] {
        if restarted {
            bed.restart();
        }
        assert_eq!(bed.resource("a").drift_policy, "correct");
    }
}

#[test]
fn drift_during_an_operation_is_corrected_after_its_cancel() {
    let mut bed = made(&[("a", "correct")]);
    let text = "heat_template_version: 2018-08-31\nresources:\n  b: {type: Muster::Dummy, properties: {node: nobody}}\n  \
                a: {type: Muster::Dummy, drift_policy: correct, properties: {node: node-0, values: {x: '1'}}}\n";
    bed.update(parse(SourceText { name: "u".into(), template: text.into(), ..Default::default() })).unwrap();
    bed.idle();
    drifts(&mut bed, "a");
    bed.idle();
    assert!(ran(&mut bed).is_empty(), "the operation goes first");
    bed.ask(Request::Cancel { name: stack() }).unwrap();
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"]);
}

#[test]
fn an_update_that_came_to_nothing_leaves_no_policy_behind() {
    let one = [("a", "correct")];
    let mut bed = made(&one);
    let text = "heat_template_version: 2018-08-31\nresources:\n  b: {type: Muster::Dummy, properties: {node: nobody}}\n  \
                a: {type: Muster::Dummy, depends_on: b, drift_policy: ignore, properties: {node: node-0, values: {x: '1'}}}\n";
    bed.update(parse(SourceText { name: "u".into(), template: text.into(), ..Default::default() })).unwrap();
    bed.idle();
    assert_eq!(bed.resource("a").drift_policy, "ignore");
    bed.update(policies(&one)).unwrap();
    bed.idle();
    for restarted in [false, true] {
        if restarted {
            bed.restart();
        }
        assert_eq!((bed.status().as_str(), &*bed.resource("a").drift_policy), ("UPDATE_COMPLETE", "correct"));
    }
}

#[test]
fn a_fight_leaves_no_timer_behind() {
    let mut bed = made(&[("a", "correct")]);
    fought(&mut bed);
    assert!(bed.engine.poll_timeout().is_some(), "one more try after an hour");
    bed.ask(Request::Delete { name: stack() }).unwrap();
    bed.idle();
    assert_eq!(bed.engine.poll_timeout(), None);
}

#[test]
fn what_is_missing_is_made_again_as_it_was_asked_for() {
    let mut bed = made(&[("a", "correct")]);
    let physical = bed.resource("a").physical_id;
    says(&mut bed, "a", DriftState::Missing, "nothing is there");
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"]);
    assert_eq!((bed.resource("a").physical_id, bed.resource("a").observed), (physical, "in_sync".into()));
}

#[test]
fn a_fight_is_ended_and_told_and_an_update_takes_it_up_again() {
    let rows = [("a", "correct")];
    let mut bed = made(&rows);
    assert_eq!(fought(&mut bed), [0, 1, 3, 7, 15]);
    let row = bed.resource("a");
    assert_eq!(
        (row.observed.as_str(), row.breaker.as_str(), row.corrections),
        ("drifted", "open", CORRECTIONS_MAX)
    );
    let events = told(&mut bed);
    let word = events.iter().find(|word| word.starts_with("somebody on node-0")).expect("it is told");
    assert!(word.contains("corrected 5 times within 15 s") && word.contains("(drifted: x is 7)"), "{word}");
    let shown = bed.engine.view().drift_views(None).remove(0);
    assert_eq!((shown.policy.as_str(), shown.breaker.as_str(), shown.corrections), ("correct", "open", 5));
    ran(&mut bed);

    for _ in 0..2 {
        bed.restart();
        bed.connect(&node(0));
        bed.pass(SECOND * 60);
        drifts(&mut bed, "a");
        bed.idle();
        assert!(ran(&mut bed).is_empty(), "it is remembered");
        assert_eq!(bed.resource("a").breaker, "open");
    }
    bed.pass(CALM);
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"], "one more try after a long calm");
    drifts(&mut bed, "a");
    bed.idle();
    assert!(ran(&mut bed).is_empty(), "and no more");
    assert_eq!(bed.resource("a").breaker, "open");

    bed.update(policies(&rows)).unwrap();
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"], "an operator asks for it");
    assert_eq!((bed.resource("a").breaker.as_str(), bed.resource("a").corrections), ("closed", 0));
    drifts(&mut bed, "a");
    bed.idle();
    assert_eq!((ran(&mut bed), bed.resource("a").corrections), (vec!["Update a".to_owned()], 1));
}

#[test]
fn drift_now_and_then_is_corrected_each_time() {
    let mut bed = made(&[("a", "correct")]);
    for _ in 0..20 {
        drifts(&mut bed, "a");
        bed.idle();
        assert_eq!((ran(&mut bed), bed.resource("a").corrections), (vec!["Update a".to_owned()], 1));
        bed.pass(CALM);
    }
}

#[test]
fn a_failed_correction_is_retried_after_a_long_calm() {
    for restarted in [false, true] {
        let mut bed = made(&[("a", "correct")]);
        drifts(&mut bed, "a");
        bed.fail_next(&node(0), true);
        let row = bed.resource("a");
        assert_eq!((row.status.as_str(), row.status_reason.as_str()), ("FAILED", "refused"));
        assert_eq!(bed.status(), "CREATE_COMPLETE");
        if restarted {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.idle();
        bed.pass(CALM - SECOND);
        bed.idle();
        assert!(ran(&mut bed).is_empty());
        bed.pass(SECOND);
        bed.idle();
        assert_eq!(
            (ran(&mut bed), bed.resource("a").status),
            (vec!["Update a".to_owned()], "COMPLETE".into())
        );
    }
}

/// The retry belongs to the same correction: the breaker does not count twice, and a script that
/// still runs is not started again.
#[test]
fn a_retried_correction_stays_the_same_over_a_restart() {
    for full in [false, true] {
        let mut bed = made(&[("a", "correct")]);
        drifts(&mut bed, "a");
        let sent = bed.hosts[&node(0)].queue[0].clone();
        if full {
            let outcome = Outcome::NoRoom { reason: "no space left".into() };
            bed.hosts.get_mut(&node(0)).unwrap().queue.clear();
            bed.receive(&node(0), Up::Report(Report { key: sent.key(), outcome }));
        } else {
            bed.fail_next(&node(0), false);
        }
        bed.restart();
        bed.connect(&node(0));
        bed.pass(Duration::from_secs(1));
        let again = bed.hosts[&node(0)].queue[0].clone();
        assert_eq!((again.generation, again.attempt), (sent.generation, Attempt(1)), "full: {full}");
        bed.idle();
        assert_eq!((bed.resource("a").observed.as_str(), bed.resource("a").corrections), ("in_sync", 1));
    }
}

#[test]
fn an_operation_goes_first() {
    let mut bed = made(&[("a", "correct"), ("b", "-")]);
    bed.update(policies(&[("a", "correct"), ("b", "- 2")])).unwrap();
    drifts(&mut bed, "a");
    assert_eq!(bed.hosts[&node(0)].queue.len(), 1, "the operation's alone");
    bed.run_at(&node(0), 0);
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update b", "Update a"]);

    drifts(&mut bed, "a");
    bed.update(policies(&[("a", "correct 2"), ("b", "- 2")])).unwrap();
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"], "what is not wanted any more is not corrected");
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "gone");
}

#[test]
fn a_check_corrects_nothing_by_itself() {
    let mut bed = made(&[("a", "correct")]);
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things.clear();
    bed.check().unwrap();
    bed.idle();
    assert_eq!((bed.status(), ran(&mut bed)), ("CHECK_FAILED".into(), vec!["Check a".to_owned()]));
    says(&mut bed, "a", DriftState::Missing, "nothing is there");
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"], "what its agent says of itself counts");
    assert_eq!(bed.resource("a").status, "COMPLETE");
}

#[test]
fn nothing_is_sent_to_a_node_in_maintenance_and_drift_is_seen() {
    for restarted in [false, true] {
        let mut bed = made(&[("a", "correct"), ("b", "-")]);
        maintain(&mut bed, true);
        assert_eq!(bed.node_state(&node(0)), "maintenance");
        drifts(&mut bed, "a");
        bed.update(policies(&[("a", "correct"), ("b", "- 2")])).unwrap();
        if restarted {
            bed.restart();
            bed.connect(&node(0));
            drifts(&mut bed, "a");
        }
        bed.pass(SECOND * 10);
        bed.idle();
        assert!(ran(&mut bed).is_empty());
        assert_eq!(
            (bed.resource("a").observed, bed.resource("b").phase),
            ("unknown".into(), "maintenance".into())
        );
        maintain(&mut bed, false);
        assert_eq!(bed.node_state(&node(0)), "online");
        bed.idle();
        let mut done = ran(&mut bed);
        done.sort();
        assert_eq!(
            (done, bed.status()),
            (vec!["Update a".into(), "Update b".into()], "UPDATE_COMPLETE".into())
        );
    }
}

#[test]
fn what_drifts_in_maintenance_is_corrected_afterwards() {
    let mut bed = made(&[("a", "correct")]);
    maintain(&mut bed, true);
    drifts(&mut bed, "a");
    bed.idle();
    let shown = bed.engine.view().drift_views(Some(&node(0))).remove(0);
    assert_eq!((shown.observed.as_str(), shown.phase.as_str()), ("drifted", "maintenance"));
    assert!(ran(&mut bed).is_empty());
    maintain(&mut bed, false);
    bed.idle();
    assert_eq!((ran(&mut bed), bed.resource("a").observed), (vec!["Update a".to_owned()], "in_sync".into()));
}

#[test]
fn a_stack_that_waits_for_a_node_in_maintenance_says_so() {
    let mut bed = made(&[("a", "-")]);
    maintain(&mut bed, true);
    let options = Options { timeout: SECOND * 100, ..options() };
    bed.ask(Request::Update { name: stack(), source: policies(&[("a", "- 2")]), options }).unwrap();
    bed.pass(SECOND * 100);
    let reason = bed.view().unwrap().status_reason;
    assert!(reason.contains("missing nodes: node-0 (in maintenance)"), "{reason}");
    maintain(&mut bed, false);
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "when it is over the branch resumes");
}

#[test]
fn a_policy_that_changes_counts_from_then_on() {
    let mut bed = made(&[("a", "ignore")]);
    drifts(&mut bed, "a");
    let asked = bed.hosts[&node(0)].asked_for_facts;
    bed.update(policies(&[("a", "correct")])).unwrap();
    bed.idle();
    assert_eq!(bed.hosts[&node(0)].asked_for_facts, asked + 1, "what was ignored is to be said again");
    assert!(ran(&mut bed).is_empty());
    drifts(&mut bed, "a");
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"]);
    bed.update(policies(&[("a", "report")])).unwrap();
    drifts(&mut bed, "a");
    assert_eq!(bed.resource("a").observed, "drifted");
    bed.update(policies(&[("a", "ignore")])).unwrap();
    bed.idle();
    assert!(ran(&mut bed).is_empty());
    assert!(bed.engine.view().drift_views(None).is_empty());
    bed.restart();
    bed.connect(&node(0));
    drifts(&mut bed, "a");
    assert!(bed.engine.view().drift_views(None).is_empty(), "it is kept with the row");
}

#[test]
fn converge_visits_all_in_their_order() {
    let source = || template("a: x=1 node=node-0\nb: x=@a.x node=node-0\nc: x=1 node=node-1");
    for restarted in [false, true] {
        let mut bed = Bed::new(2);
        bed.create(source()).unwrap();
        bed.idle();
        bed.ran.clear();
        bed.update(source()).unwrap();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "there is nothing to do");
        converge(&mut bed, source());
        bed.run_at(&node(0), 0);
        if restarted {
            bed.restart();
            bed.connect(&node(0));
            bed.connect(&node(1));
        }
        bed.idle();
        let mut done = ran(&mut bed);
        done.sort();
        done.dedup();
        assert_eq!(
            (done.join(", "), bed.status()),
            ("Update a, Update b, Update c".into(), "UPDATE_COMPLETE".into())
        );
        bed.update(source()).unwrap();
        bed.idle();
        assert!(ran(&mut bed).is_empty(), "once");
    }
}

#[test]
fn converge_applies_once_what_then_waits_at_its_hook() {
    let source = |value| under(template(&format!("a: x={value} node=node-0")), "a: {hooks: post-update}");
    let mut bed = Bed::new(1);
    bed.create(source(1)).unwrap();
    bed.idle();
    // A job of the operation before already waits there. The row is applied all the same.
    bed.update(source(2)).unwrap();
    bed.idle();
    bed.ran.clear();
    converge(&mut bed, source(2));
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"]);
    for _ in 0..2 {
        bed.restart();
        bed.connect(&node(0));
        bed.idle();
        assert!(ran(&mut bed).is_empty(), "applied again after a restart");
    }
    bed.clear("a", Hook::PostUpdate).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn a_heartbeat_that_tells_of_more_than_was_heard_asks_for_all() {
    let mut bed = made(&[("a", "report"), ("b", "report")]);
    let beat = |bed: &mut Bed, drift| {
        let asked = bed.hosts[&node(0)].asked_for_facts;
        bed.receive(&node(0), Up::Heartbeat { drift });
        bed.hosts[&node(0)].asked_for_facts > asked
    };
    let of = |bed: &Bed, name: &str| {
        let row = bed.tables.rows.values().find(|row| &*row.name == name).unwrap();
        let generation: Generation = row.progress.held.unwrap();
        Drift::digest(row.physical, generation, DriftState::Drifted)
    };
    assert!(!beat(&mut bed, Some(0)) && !beat(&mut bed, None));
    drifts(&mut bed, "a");
    let (a, b) = (of(&bed, "a"), of(&bed, "b"));
    assert!(!beat(&mut bed, Some(a)) && !beat(&mut bed, None), "an older agent does not say");
    assert!(beat(&mut bed, Some(a ^ b)), "b was lost");
    assert!(beat(&mut bed, Some(0)), "that a is in sync again was lost");
    bed.restart();
    bed.connect(&node(0));
    assert!(!beat(&mut bed, Some(a)), "also over a restart");
    says(&mut bed, "a", DriftState::InSync, "");
    assert!(!beat(&mut bed, Some(0)));
    drifts(&mut bed, "a");
    bed.update(policies(&[("a", "report"), ("b", "report")])).unwrap();
    assert!(!beat(&mut bed, Some(0)), "what has a job is unsaid");
}

#[test]
fn heartbeats_stretch_with_the_fleet() {
    for (nodes, wanted) in [(1, 1), (400, 2), (600, 3)] {
        let limits = Limits { heartbeat: SECOND, ..Limits::default() };
        let bed = Bed::with(nodes, limits);
        assert_eq!(bed.engine.traversals.jobs.graph.heartbeat_every(), SECOND * wanted, "{nodes}");
    }
}

/// A check that an operator asked for keeps the agent's reports until it has ended.
#[test]
fn drift_during_a_queued_check_is_corrected_after_its_cancel() {
    let limits = Limits { in_flight_per_node: 1, ..Limits::default() };
    let mut bed = Bed::with(1, limits);
    bed.create(policies(&[("a", "correct"), ("b", "correct")])).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.check().unwrap();
    let out = bed.hosts[&node(0)].queue[0].resource;
    let waiting = bed.resources().into_iter().find(|row| row.physical_id != out.to_string()).unwrap();
    drifts(&mut bed, &waiting.name);
    bed.cancel().unwrap();
    bed.idle();
    assert_eq!(ran(&mut bed), [format!("Update {}", waiting.name)]);
    let row = bed.resource(&waiting.name);
    assert_eq!((row.status.as_str(), row.observed.as_str()), ("COMPLETE", "in_sync"));
}

/// The node of a needed row was removed while the correction waited for its next attempt, in a stack whose
/// revision cannot be read: no operation makes the needed row again.
#[test]
fn a_correction_is_not_tried_again_without_what_it_needs() {
    let text = "heat_template_version: 2018-08-31\nresources:\n  a: {type: Muster::Dummy, properties: {node: node-1}}\n  \
                e: {type: Muster::Dummy, drift_policy: correct, depends_on: a, properties: {node: node-0}}\n";
    let parsed =
        |text: &str| parse(SourceText { name: "t".into(), template: text.into(), ..Default::default() });
    let mut bed = Bed::new(2);
    bed.create(parsed(text)).unwrap();
    bed.idle();
    bed.update(parsed(&format!("{text}  f: {{type: Muster::Dummy, properties: {{node: node-0}}}}\n")))
        .unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(bed.status(), "UPDATE_FAILED");
    let mut snapshot = bed.tables.loaded_at(bed.now);
    snapshot.stacks[0].1 = None;
    bed.restart_from(snapshot);
    bed.connect(&node(0));
    drifts(&mut bed, "e");
    bed.fail_next(&node(0), false);
    assert_eq!(bed.remove(&node(1)), ["a"]);
    assert_eq!(bed.resource("e").phase, "backoff");
    bed.pass(SECOND * 10);
    let e = bed.resource("e");
    assert_eq!((&*e.status, &*e.phase), ("FAILED", ""), "a is not ready");
}
