//! Operations, removals and restarts that overlap.

use muster_shared::model::{Outcome, Report, Spec, Up};

use super::bed::{Bed, node, options, parse, stack, template, under};
use crate::{Options, Request, SourceText};

fn made(lines: &str, nodes: usize) -> Bed {
    let mut bed = Bed::new(nodes);
    bed.create(template(lines)).unwrap();
    bed.idle();
    bed.ran.clear();
    bed
}

/// Changes a dummy behind its agent's back.
fn change(bed: &mut Bed, name: &str) {
    let id = bed.tables.rows.values().find(|row| &*row.name == name).unwrap().physical;
    for host in bed.hosts.values_mut() {
        if let Some((Spec::Dummy(dummy), _)) = host.things.get_mut(&id) {
            dummy.values.insert("x".into(), "other".into());
        }
    }
}

#[test]
fn an_update_during_a_second_check_mends_what_the_first_found() {
    for begun in [false, true] {
        let mut bed = made("a: x=1\n b: x=2", 1);
        change(&mut bed, "b");
        bed.check().unwrap();
        bed.idle();
        bed.ran.clear();
        bed.check().unwrap();
        if begun {
            bed.begin(&node(0));
        }
        bed.update(template("a: x=1\n b: x=2")).unwrap();
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.ran.as_slice()),
            ("UPDATE_COMPLETE", &["Update b".to_owned()][..])
        );
        assert_eq!(bed.resource("b").status, "COMPLETE");
    }
}

#[test]
fn a_check_ends_though_an_agent_lost_a_changed_resource() {
    let mut bed = made("a: x=1\n b: x=2", 1);
    change(&mut bed, "b");
    bed.check().unwrap();
    bed.idle();
    bed.check().unwrap();
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things.clear();
    host.queue.clear();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "CHECK_FAILED");
}

fn fails_into_rollback(bed: &mut Bed) {
    bed.slow = true;
    let options = Options { rollback: true, ..options() };
    bed.ask(Request::Update { name: stack(), source: template("a: x=2"), options }).unwrap();
    bed.fail_next(&node(0), true);
}

#[test]
fn a_delete_continues_if_a_rollbacks_revision_is_read_too_late() {
    let mut bed = made("a: x=1", 1);
    fails_into_rollback(&mut bed);
    assert_eq!(bed.status(), "UPDATE_FAILED");
    bed.delete().unwrap();
    bed.read();
    assert_eq!(bed.status(), "DELETE_IN_PROGRESS");
}

#[test]
fn a_rollback_that_followed_by_itself_does_so_over_a_restart() {
    let mut bed = made("a: x=1", 1);
    fails_into_rollback(&mut bed);
    bed.restart();
    bed.connect(&node(0));
    bed.read();
    assert_eq!(bed.status(), "ROLLBACK_IN_PROGRESS");
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    let (traversal, count) = (bed.view().unwrap().traversal, bed.tables.events.len());
    bed.restart();
    bed.read();
    assert_eq!((bed.view().unwrap().traversal, bed.tables.events.len()), (traversal, count), "once");
}

#[test]
fn an_early_cancelled_rollback_stays_cancelled_over_a_restart() {
    let mut bed = made("a: x=1", 1);
    fails_into_rollback(&mut bed);
    bed.cancel().unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.read();
    assert_eq!(bed.status(), "UPDATE_FAILED");
}

#[test]
fn a_restricted_row_needs_no_job_when_its_old_state_is_wanted() {
    // A check precedes the restricted update.
    let mut bed = made("a: x=1", 1);
    bed.check().unwrap();
    bed.idle();
    bed.ran.clear();
    bed.update(under(template("a: x=2"), "a: {restricted_actions: update}")).unwrap();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    bed.update(under(template("a: x=1"), "a: {restricted_actions: update}")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 0));
}

#[test]
fn what_could_not_be_checked_is_applied_again() {
    let mut bed = made("a: x=1", 1);
    bed.check().unwrap();
    bed.idle();
    bed.check().unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(bed.status(), "CHECK_FAILED");
    bed.ran.clear();
    bed.update(template("a: x=1")).unwrap();
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), bed.ran.as_slice()),
        ("UPDATE_COMPLETE", &["Update a".to_owned()][..])
    );
}

#[test]
fn an_update_ends_checks_of_dependents_of_a_lost_resource() {
    let lines = "a: x=1 node=node-0\n b: y=@a.x node=node-1";
    let mut bed = made(lines, 2);
    bed.check().unwrap();
    bed.remove(&node(0));
    let id = bed.tables.rows.values().find(|row| &*row.name == "b").unwrap().physical;
    bed.hosts.get_mut(&node(1)).unwrap().things.remove(&id);
    bed.update(template("b: y=1 node=node-1")).unwrap();
    bed.idle();
    assert!(bed.ran.iter().all(|ran| !ran.starts_with("Check")), "{:?}", bed.ran);
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn content_that_two_share_stays_when_an_older_store_lets_one_go() {
    let content = "x".repeat(70_000);
    let file = |name: &str, keys: &str| {
        format!(
            "  {name}: {{type: Muster::File, {keys}properties: {{node: node-0, path: /{name}, content: {content}}}}}\n"
        )
    };
    let head = "heat_template_version: 2018-08-31\nresources:\n";
    let source = |resources: String| {
        parse(SourceText {
            name: "t".into(),
            template: format!("{head}{resources}"),
            ..SourceText::default()
        })
    };
    let mut bed = Bed::new(1);
    bed.create(source(file("a", "deletion_policy: retain, ") + &file("b", ""))).unwrap();
    bed.idle();
    bed.update(source(file("b", ""))).unwrap();
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
    let by = muster_shared::Generation { number: job.generation.number + 5, ..job.generation };
    bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome: Outcome::Superseded { by } }));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.tables.contents.len()), ("UPDATE_COMPLETE", 1));
}

#[test]
fn a_pending_delete_waits_for_a_recreation_also_over_a_restart() {
    let env = "b: {hooks: pre-delete}";
    let mut bed = made("a: x=1 node=node-1\n b: x=1 node=node-0", 2);
    bed.update(under(template("a: x=1 node=node-1"), env)).unwrap();
    let hook = |bed: &Bed| bed.resources().into_iter().find(|row| row.name == "b").unwrap().hook;
    assert_eq!(hook(&bed).as_deref(), Some("pre-delete"));
    bed.remove(&node(1));
    assert_eq!(hook(&bed), None);
    bed.restart();
    assert_eq!(hook(&bed), None);
}

#[test]
fn a_row_at_a_hook_waits_if_its_new_dependency_is_recreated() {
    let mut bed = made("a: x=1 node=node-1\n b: x=1 node=node-0", 2);
    let new = "a: x=1 node=node-1\n b: x=2 node=node-0 | a";
    bed.update(under(template(new), "b: {hooks: pre-update}")).unwrap();
    assert_eq!(bed.resource("b").hook.as_deref(), Some("pre-update"));
    bed.remove(&node(1));
    assert_eq!(bed.resource("b").hook, None);
}

#[test]
fn the_line_of_a_node_that_is_away_stays_short() {
    let mut bed = made("a: x=1", 1);
    bed.disconnect(&node(0));
    for value in 0..500 {
        bed.update(template(&format!("a: x={value}"))).unwrap();
    }
    let longest = bed.engine.traversals.jobs.graph.nodes.iter().map(|(_, node)| node.queue.len()).max();
    assert!(longest < Some(100), "{longest:?}");
}
