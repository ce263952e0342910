//! Large operations enter their rows in slices: what comes between them, and after a restart.

use std::collections::BTreeMap;

use muster_shared::MonoTime;
use muster_shared::model::{Observed, Outcome, Report, Up};

use super::bed::{Bed, config, node, options, stack, template};
use super::trees::source;
use crate::{Engine, Input, Limits, Request, RolloutAction};

/// A stack of `count` resources on one node.
fn rows(count: usize, values: &str) -> String {
    (0..count).map(|at| format!("r{at:03}: {values} node=node-0\n")).collect()
}

/// A bed whose turns have so few rows. A stack that enters its rows waits for [`slice`].
fn slow_bed(rows_per_turn: usize) -> Bed {
    let mut bed = Bed::with(1, Limits { rows_per_turn, ..Limits::default() });
    bed.lazy = true;
    bed
}

fn slice(bed: &mut Bed) {
    bed.input(Input::Timeout);
}

fn enter(bed: &mut Bed) {
    for _ in 0..1000 {
        if !bed.enters() {
            return;
        }
        slice(bed);
    }
    panic!("it never ends");
}

fn sent(bed: &Bed) -> usize {
    bed.hosts[&node(0)].queue.len()
}

#[test]
fn a_large_operation_leaves_room_between_its_slices() {
    const ALL: usize = 1000;
    const SLICE: usize = 100;
    let mut engine = Engine::new(config(1, Limits { rows_per_turn: SLICE, ..Limits::default() }));
    let turn = |engine: &mut Engine, input| {
        engine.graph_mut().ctx.visits = 0;
        engine.handle(MonoTime::default(), input);
        let changes = std::iter::from_fn(|| engine.poll_effect()).count();
        (engine.graph().ctx.visits, changes)
    };
    let create = |name: &str, lines: &str| {
        let (name, source) = (name.parse().unwrap(), template(lines));
        let request = Request::Create { name, source, options: options() };
        Input::Request { id: 1, request: Box::new(request) }
    };
    let chain: String = (1..ALL).map(|at| format!("r{at:03}: x=1 node=node-0 | r000\n")).collect();
    let lines = format!("r000: x=1 node=node-0\n{chain}");
    // Most rows wait for the first one. They are written in slices, too.
    for (name, lines) in [("wide", &rows(ALL, "x=1")), ("deep", &lines)] {
        let (visits, changes) = turn(&mut engine, create(name, lines));
        assert!(visits == 0 && changes < 10, "{name}: {visits} visits and {changes} changes");
        let mut turns = 0;
        while engine.graph().ctx.slices.has_next() {
            let now = Some(MonoTime::default());
            assert_eq!(engine.poll_timeout().map(|(due, _)| due), now, "the next slice is due");
            let (visits, changes) = turn(&mut engine, Input::Timeout);
            assert!(visits < 2 * SLICE && changes < 5 * SLICE, "{name}: {visits} visits, {changes} changes");
            turns += 1;
            // A timeout of which the driver has not taken the changes brings no further slice.
            engine.handle(MonoTime::default(), Input::Timeout);
            let visited = engine.graph().ctx.visits;
            engine.handle(MonoTime::default(), Input::Timeout);
            assert_eq!(engine.graph().ctx.visits, visited);
            while engine.poll_effect().is_some() {}
        }
        assert!((ALL / SLICE / 2..2 * ALL / SLICE).contains(&turns), "{name}: {turns} turns");
        let rows = engine.view().resource_views(&name.parse().unwrap(), true).unwrap();
        assert!(rows.iter().all(|row| row.phase == "node_away" || row.phase == "waiting"));
    }
    for name in ["wide", "deep"] {
        let request = Box::new(Request::Delete { name: name.parse().unwrap() });
        turn(&mut engine, Input::Request { id: 1, request });
        while engine.graph().ctx.slices.has_next() {
            let (visits, changes) = turn(&mut engine, Input::Timeout);
            assert!(visits < 2 * SLICE && changes < 5 * SLICE, "{name}: {visits} visits, {changes} changes");
        }
        assert!(engine.view().stack_view(&name.parse().unwrap()).is_none(), "nothing was made");
    }
    assert_ne!(engine.poll_timeout().map(|(due, _)| due), Some(MonoTime::default()));
}

#[test]
fn no_job_is_sent_before_all_rows_are_in_the_store() {
    let mut bed = slow_bed(2);
    bed.create(template(&rows(7, "x=1"))).unwrap();
    while bed.enters() {
        assert_eq!(sent(&bed), 0);
        assert!(bed.tables.stacks.values().all(|stack| stack.entering));
        slice(&mut bed);
    }
    assert_eq!((sent(&bed), bed.tables.rows.len()), (7, 7));
    assert!(bed.tables.stacks.values().all(|stack| !stack.entering));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("CREATE_COMPLETE", 7));
}

#[test]
fn an_operation_begins_again_where_a_restart_found_it_entering() {
    for slices in 0..6 {
        let mut bed = slow_bed(2);
        bed.create(template(&rows(7, "x=1"))).unwrap();
        (0..slices).for_each(|_| slice(&mut bed));
        bed.restart();
        enter(&mut bed);
        bed.connect(&node(0));
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("CREATE_COMPLETE", 7), "{slices} slices");
        bed.is_loaded_as_it_is();
        let more = format!("{}a: x=1 node=node-0\n", rows(6, "x=2"));
        bed.update(template(&more)).unwrap();
        (0..slices).for_each(|_| slice(&mut bed));
        bed.restart();
        enter(&mut bed);
        bed.connect(&node(0));
        bed.idle();
        // Six change, one comes, one goes.
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 15), "{slices} slices");
        bed.is_loaded_as_it_is();
        bed.delete().unwrap();
        (0..slices).for_each(|_| slice(&mut bed));
        bed.restart();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("gone", 22), "{slices} slices");
        assert!(bed.tables.rows.is_empty() && bed.engine.view().leftovers().is_empty());
    }
}

#[test]
fn jobs_leave_between_the_slices_after_a_restart() {
    let limits = Limits { rows_per_turn: 2, in_flight_per_node: 1, ..Limits::default() };
    let mut bed = Bed::with(1, limits);
    bed.lazy = true;
    bed.create(template(&rows(12, "x=1"))).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    bed.update(template(&rows(12, "x=2"))).unwrap();
    enter(&mut bed);
    for left in [2, 1, 0] {
        bed.restart();
        bed.connect(&node(0));
        assert!(bed.enters() && sent(&bed) == 0, "no row was visited");
        (0..2).for_each(|_| slice(&mut bed));
        for _ in 0..3 {
            assert!(bed.enters() && sent(&bed) == 1, "one row was visited, then two");
            bed.run_at(&node(0), 0);
        }
        assert!(sent(&bed) == 0 && bed.status() == "UPDATE_IN_PROGRESS", "{left} more restarts");
    }
    enter(&mut bed);
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.ran.iter().filter(|job| job.starts_with("Update")).count(), 12);
    bed.is_loaded_as_it_is();
}

#[test]
fn slices_after_a_restart_grow_from_small_ones() {
    let mut bed = slow_bed(32);
    bed.disconnect(&node(0));
    bed.create(template(&rows(100, "x=1"))).unwrap();
    enter(&mut bed);
    bed.restart();
    bed.connect(&node(0));
    let mut all = Vec::new();
    while bed.enters() {
        slice(&mut bed);
        all.push(sent(&bed));
    }
    assert_eq!(all, [2, 6, 14, 30, 62, 94, 100]);
}

#[test]
fn a_row_failed_before_is_tried_when_an_operation_enters_again() {
    let mut bed = slow_bed(1);
    bed.create(template(&rows(3, "x=1"))).unwrap();
    enter(&mut bed);
    (0..3).for_each(|_| bed.fail_next(&node(0), true));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    bed.update(template(&rows(3, "x=2"))).unwrap();
    slice(&mut bed);
    bed.restart();
    enter(&mut bed);
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn no_job_of_the_operation_before_begins_while_another_enters() {
    let limits = Limits { rows_per_turn: 1, in_flight_per_node: 1, ..Limits::default() };
    let mut bed = Bed::with(1, limits);
    bed.lazy = true;
    bed.create(template(&rows(4, "x=1"))).unwrap();
    enter(&mut bed);
    assert_eq!(sent(&bed), 1);
    bed.update(template(&rows(4, "x=2"))).unwrap();
    bed.run_at(&node(0), 0);
    assert_eq!(sent(&bed), 0, "the next job would be one of the operation before");
    enter(&mut bed);
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    let made = ["Create r000", "Update r000", "Create r001", "Create r002", "Create r003"];
    let mut ran = bed.ran.clone();
    ran.sort();
    let mut made = made.to_vec();
    made.sort_unstable();
    assert_eq!(ran, made);
}

#[test]
fn a_large_rollback_sends_no_job_of_the_operation_before() {
    let limits = Limits { rows_per_turn: 1, in_flight_per_node: 1, ..Limits::default() };
    let mut bed = Bed::with(1, limits);
    bed.lazy = true;
    bed.create(template(&rows(4, "x=1"))).unwrap();
    bed.idle();
    bed.update(template(&rows(4, "x=2"))).unwrap();
    enter(&mut bed);
    bed.rollback(Some(1)).unwrap();
    assert!(bed.enters());
    bed.run_at(&node(0), 0);
    assert_eq!(sent(&bed), 0, "the next job would be one of the update");
    bed.idle();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    let updates: Vec<&String> = bed.ran.iter().filter(|job| job.starts_with("Update")).collect();
    assert_eq!(updates, ["Update r000", "Update r000"]);
}

#[test]
fn a_rollback_tries_failed_rows_whenever_the_controller_ends() {
    // The rollback is large: it enters in several slices.
    for slices in 0..3 {
        let mut bed = slow_bed(1);
        bed.create(template(&rows(3, "x=1"))).unwrap();
        bed.idle();
        bed.update(template(&rows(3, "x=2"))).unwrap();
        enter(&mut bed);
        (0..3).for_each(|_| bed.fail_next(&node(0), true));
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_FAILED");
        bed.rollback(Some(1)).unwrap();
        (0..slices).for_each(|_| slice(&mut bed));
        bed.restart();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(bed.status(), "ROLLBACK_COMPLETE", "{slices} slices");
    }
}

#[test]
fn an_answer_about_a_rollout_ends_the_slices() {
    let mut bed = slow_bed(1);
    let root = "resources:
  m: {type: Muster::Dummy, for_each: {nodes: role=web}, rollout: {batch: 1}, properties: {values: {x: 1}}}
  a: {type: Muster::Dummy, properties: {node: node-0, values: {x: 1}}}
  b: {type: Muster::Dummy, properties: {node: node-0, values: {x: 1}}}
";
    let labels = BTreeMap::from([("role".to_owned(), Some("web".to_owned()))]);
    bed.ask(Request::LabelNode { node: node(0), labels }).unwrap();
    bed.create(source(root, &[])).unwrap();
    assert!(bed.enters());
    let (action, resource) = (RolloutAction::Pause, Some("m".into()));
    bed.ask(Request::Rollout { name: stack(), action, resource }).unwrap();
    assert!(!bed.enters() && bed.tables.rows.len() == 4);
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert!(!bed.ran.iter().any(|job| job.contains("m[")), "it is paused still: {:?}", bed.ran);
}

#[test]
fn a_report_is_durable_though_an_operation_follows_in_its_turn() {
    let mut bed = slow_bed(1);
    bed.create(template(&rows(3, "x=1"))).unwrap();
    enter(&mut bed);
    let job = bed.hosts[&node(0)].queue[2].clone();
    let report = Report { key: job.key(), outcome: Outcome::Done(Observed::default()) };
    let connection = bed.hosts[&node(0)].connection.unwrap();
    let message = Up::Report(report);
    bed.engine.handle(bed.now, Input::Received { node: node(0), connection, message });
    bed.update(template(&rows(3, "x=2"))).unwrap();
    let row = bed.tables.rows.values().find(|row| row.physical == job.resource).unwrap();
    assert!(!row.progress.in_flight && bed.enters());
}

#[test]
fn an_operation_cancelled_while_it_enters_is_stored_whole() {
    let mut bed = slow_bed(2);
    bed.create(template(&rows(7, "x=1"))).unwrap();
    slice(&mut bed);
    bed.cancel().unwrap();
    assert!(!bed.enters());
    assert_eq!((bed.tables.rows.len(), sent(&bed)), (7, 0));
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("CREATE_FAILED", 0));
    bed.update(template(&rows(7, "x=1"))).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 7));
}

#[test]
fn a_stack_follows_its_nodes_once_its_rows_are_in() {
    let mut bed = slow_bed(1);
    let root = "resources:
  m: {type: Muster::Dummy, for_each: {nodes: role=web}, properties: {values: {x: 1}}}
  a: {type: Muster::Dummy, properties: {node: node-0, values: {x: 1}}}
  b: {type: Muster::Dummy, properties: {node: node-0, values: {x: 1}}}
";
    bed.create(source(root, &[])).unwrap();
    let labels = BTreeMap::from([("role".to_owned(), Some("web".to_owned()))]);
    bed.ask(Request::LabelNode { node: node(0), labels }).unwrap();
    assert!(bed.enters(), "a label does not end it");
    enter(&mut bed);
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert!(bed.resources().iter().any(|row| row.name == "m[node-0]"));
}
