use muster_shared::model::Action;

use super::bed::{Bed, files, node, template, under};
use super::host::Host;
use crate::{Hook, Options, Request};

const OLD: &str = "a: x=1\n b: x=1 | a\n c: x=1 | b";

fn bed(lines: &str) -> Bed {
    let mut bed = Bed::new(1);
    bed.create(template(lines)).unwrap();
    bed.idle();
    bed.ran.clear();
    bed
}

#[test]
fn what_nobody_needs_goes_before_anything_new() {
    for (old, new, ran) in [
        (OLD, "a: x=2\n d: x=1 | a", "Delete c, Delete b, Update a, Create d"),
        (OLD, "d: x=1", "Delete c, Delete b, Delete a, Create d"),
        (OLD, "", "Delete c, Delete b, Delete a"),
        (OLD, OLD, ""),
        // b's thing needs a until it is changed.
        (OLD, "b: x=2\n d: x=1", "Delete c, Update b, Create d, Delete a"),
        // A thing stays if a thing that has to stay needs it.
        ("a: x=1\n b: x=1 | a\n c: x=1 | b", "c: x=2\n d: x=1", "Update c, Create d, Delete b, Delete a"),
        // A replacement's old thing goes before the new one is made.
        ("a: !x=1", "a: !x=2", "Delete a, Create a"),
        ("a: x=1\n b: !x=1 | a", "a: x=1\n b: !x=2 | a\n c: x=1 | b", "Delete b, Create b, Create c"),
        // The old thing stays while another thing needs it. That one can change only once the new
        // thing exists.
        ("a: !x=1\n b: y=@a.!x", "a: !x=2\n b: y=@a.!x", "Create a, Update b, Delete a"),
        // A dropped thing no longer needs it.
        ("a: !x=1\n b: x=1 | a", "a: !x=2", "Delete b, Delete a, Create a"),
        // A chain of replacements: each but the last is needed.
        ("a: !x=1\n b: !x=@a.!x", "a: !x=2\n b: !x=@a.!x", "Create a, Delete b, Create b, Delete a"),
    ] {
        for restarts in [false, true] {
            let mut bed = bed(old);
            bed.delete_first(template(new), false).unwrap();
            while !bed.hosts[&node(0)].queue.is_empty() {
                if restarts {
                    bed.restart();
                    bed.connect(&node(0));
                }
                bed.run_at(&node(0), 0);
            }
            assert_eq!(bed.status(), "UPDATE_COMPLETE", "{old} -> {new}");
            let mut wanted: Vec<&str> = ran.split(", ").filter(|ran| !ran.is_empty()).collect();
            if restarts {
                // Things that no other thing needs by then go first.
                bed.ran.sort();
                wanted.sort_unstable();
            }
            assert_eq!(bed.ran, wanted, "{old} -> {new}");
            assert!(bed.resources().iter().all(|row| row.phase.is_empty() && row.observed == "in_sync"));
        }
    }
}

#[test]
fn while_it_makes_room_what_is_new_waits_for_it() {
    let mut bed = bed("a: x=1\n b: !x=1");
    bed.delete_first(template("b: !x=2\n c: x=1"), false).unwrap();
    let view = bed.resource("c");
    assert_eq!((view.phase.as_str(), view.waits_for), ("waiting", vec!["a".to_owned()]));
    bed.run_at(&node(0), 0);
    let view = bed.resource("b");
    assert_eq!((view.phase.as_str(), view.waits_for), ("waiting", vec!["b".to_owned()]));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn a_failure_there_fails_the_stack_before_anything_new() {
    for rollback in [false, true] {
        let mut bed = bed("a: x=1 fail=delete\n b: x=1\n c: x=1 fail=delete | b");
        bed.delete_first(template("b: x=2\n d: x=1"), rollback).unwrap();
        bed.idle();
        let made = bed.ran.iter().any(|ran| !ran.starts_with("Delete"));
        assert!(!made && bed.reality().len() == 3, "{:?}", bed.ran);
        let named =
            |reason: &String| reason.contains("a: told to fail") && reason.contains("c: told to fail");
        assert!(bed.tables.reasons.iter().any(named), "{:?}", bed.tables.reasons);
        if rollback {
            assert_eq!(bed.status(), "ROLLBACK_FAILED", "there is no room for them on the way back either");
        } else {
            assert_eq!(bed.status(), "UPDATE_FAILED");
            bed.restart();
            bed.connect(&node(0));
            assert_eq!(bed.status(), "UPDATE_FAILED");
        }
    }
}

#[test]
fn a_rollback_makes_room_first_too() {
    let mut bed = bed("a: x=1");
    bed.delete_first(template("b: x=1\n c: x=1 fail=create | b"), true).unwrap();
    bed.idle();
    bed.ran.retain(|ran| ran != "Create c");
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    assert_eq!(bed.ran, ["Delete a", "Create b", "Delete c", "Delete b", "Create a"]);
}

#[test]
fn a_newer_operation_in_the_first_stage() {
    for run in [false, true] {
        let mut bed = bed(OLD);
        bed.delete_first(template("d: x=1"), false).unwrap();
        if run {
            bed.run_at(&node(0), 0);
        }
        bed.update(template(OLD)).unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 3));
        assert_eq!(bed.ran, if run { vec!["Delete c", "Create c"] } else { vec![] });
    }
}

#[test]
fn what_an_earlier_operation_has_under_way_is_withdrawn() {
    let mut bed = bed("a: x=1");
    bed.update(template("a: x=1\n b: x=1\n c: x=1")).unwrap();
    bed.delete_first(template("b: x=1\n c: x=2"), false).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Delete a", "Create b", "Create c"]);
}

#[test]
fn hooks_hold_the_first_stage_and_a_removed_node_does_not() {
    let mut bed = bed("a: x=1");
    bed.delete_first(under(template("b: x=1"), "a: {hooks: pre-delete}"), false).unwrap();
    bed.idle();
    assert_eq!(bed.resource("b").phase, "waiting");
    bed.clear("a", Hook::PreDelete).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Delete a", "Create b"]);
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-0 | a\n c: !x=1 node=node-0")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    bed.delete_first(template("c: !x=2 node=node-1\n d: x=1 node=node-1"), false).unwrap();
    bed.idle();
    assert_eq!(bed.resource("d").phase, "waiting");
    *bed.hosts.get_mut(&node(0)).unwrap() = Host::default();
    assert_eq!(bed.remove(&node(0)), ["a", "b", "c"]);
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 2));
}

#[test]
fn a_path_is_free_before_its_next_owner_comes() {
    let mut bed = Bed::new(1);
    bed.create(files("old: /etc/motd one")).unwrap();
    bed.idle();
    bed.ran.clear();
    let options = Options { delete_first: true, ..super::bed::options() };
    bed.ask(Request::Update { name: super::bed::stack(), source: files("new: /etc/motd two"), options })
        .unwrap();
    bed.idle();
    assert_eq!(
        (bed.ran.join(", ").as_str(), bed.disk()),
        ("Delete old, Create new", vec!["/etc/motd two".to_owned()])
    );
}

#[test]
fn a_failed_first_stage_blocks_new_rows_when_a_node_is_removed() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0\n z: x=1 node=node-1")).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.delete_first(template("n: x=1 node=node-0\n z: x=1 node=node-1"), false).unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(bed.status(), "UPDATE_FAILED");
    bed.remove(&node(1));
    let asked: Vec<_> = bed.hosts[&node(0)].queue.iter().map(|job| job.action).collect();
    assert_eq!(asked, [Action::Delete], "it is tried again, and n waits for it");
    bed.idle();
    assert_eq!(bed.ran, ["Delete a", "Create n"]);
}
