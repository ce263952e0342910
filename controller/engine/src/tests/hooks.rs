use std::time::Duration;

use super::bed::{Bed, node, options, stack, template, under};
use crate::{Hook, Options, Refusal, Request};

/// Rows that wait: name and hook, as an operator sees them.
fn waiting(bed: &Bed) -> Vec<String> {
    let rows = bed.resources().into_iter().filter(|row| row.phase == "hook");
    rows.map(|row| {
        let reason = row.status_reason;
        let hook = reason.strip_prefix("waits at hook ").and_then(|rest| rest.split(':').next()).unwrap();
        assert!(reason.ends_with(&format!("'muster resource clear-hook s {} {hook}'", row.name)), "{reason}");
        format!("{} {hook}", row.name)
    })
    .collect()
}

fn told(bed: &Bed, text: &str) -> usize {
    bed.tables.reasons.iter().filter(|reason| reason.contains(text)).count()
}

#[test]
fn a_resource_waits_at_each_hook_until_it_is_cleared() {
    const OLD: &str = "a: x=1\n b: x=1 | a";
    // The hook, the update of a stack of OLD, and the jobs that ran before and after the hook was cleared.
    for (hook, new, before, after) in [
        (
            Hook::PreCreate,
            "a: x=1\n b: x=1 | a\n c: x=1 | b\n d: x=1 | c",
            &[][..],
            &["Create c", "Create d"][..],
        ),
        (Hook::PostCreate, "a: x=1\n b: x=1 | a\n c: x=1 | b\n d: x=1 | c", &["Create c"], &["Create d"]),
        (Hook::PreUpdate, "a: x=2\n b: x=@a.x", &[], &["Update a", "Update b"]),
        (Hook::PostUpdate, "a: x=2\n b: x=@a.x", &["Update a"], &["Update b"]),
        (Hook::PreDelete, "", &[], &["Delete b", "Delete a"]),
        (Hook::PostDelete, "", &["Delete b"], &["Delete a"]),
    ] {
        let name = match hook {
            Hook::PreCreate | Hook::PostCreate => "c",
            Hook::PreUpdate | Hook::PostUpdate => "a",
            Hook::PreDelete | Hook::PostDelete => "b",
        };
        for restart in [false, true] {
            let mut bed = Bed::new(1);
            bed.create(template(OLD)).unwrap();
            bed.idle();
            bed.ran.clear();
            bed.update(under(template(new), &format!("{name}: {{hooks: {}}}", hook.as_str()))).unwrap();
            bed.idle();
            if restart {
                bed.restart();
                bed.connect(&node(0));
                bed.idle();
            }
            assert_eq!(bed.ran, before, "{hook:?}");
            assert_eq!(waiting(&bed), [format!("{name} {}", hook.as_str())]);
            assert_eq!((bed.status().as_str(), told(&bed, "waits at hook")), ("UPDATE_IN_PROGRESS", 1));
            assert_eq!(bed.view().unwrap().active[0].phase, "hook");
            for other in Hook::ALL.into_iter().filter(|other| *other != hook) {
                let Err(Refusal::Conflict(why)) = bed.clear(name, other) else { panic!("{other:?}") };
                assert!(why.contains(&format!("it waits at {}", hook.as_str())), "{why}");
            }
            bed.ran.clear();
            bed.clear(name, hook).unwrap();
            assert_eq!(told(&bed, "was cleared"), 1);
            if restart {
                bed.restart();
                bed.connect(&node(0));
            }
            bed.idle();
            assert_eq!(bed.status(), "UPDATE_COMPLETE", "{hook:?}");
            assert_eq!(bed.ran, after, "{hook:?}");
            assert!(matches!(bed.clear(name, hook), Err(Refusal::Conflict(_) | Refusal::NotFound(_))));
            assert!(
                waiting(&bed).is_empty() && bed.tables.rows.values().all(|row| row.progress.hook.is_none())
            );
        }
    }
}

#[test]
fn clearing_what_does_not_wait_is_refused() {
    let mut bed = Bed::new(1);
    bed.create(under(
        template("first: x=1\n second: x=1 | first"),
        "first: {hooks: pre-create}, second: {hooks: pre-create}",
    ))
    .unwrap();
    let why = |answer: Result<_, Refusal>| answer.map(|_: crate::Answer| ()).unwrap_err().to_string();
    assert_eq!(
        why(bed.clear("second", Hook::PreCreate)),
        "resource 'second' of stack 's' does not wait at hook pre-create: see its phase in 'muster resource list s'"
    );
    assert_eq!(
        why(bed.clear("frist", Hook::PreCreate)),
        "stack 's' has no resource 'frist'; did you mean 'first'?"
    );
    let missing =
        Request::ClearHook { stack: "t".parse().unwrap(), resource: "first".into(), hook: Hook::PreCreate };
    assert!(matches!(bed.ask(missing), Err(Refusal::NotFound(_))));
    bed.clear("first", Hook::PreCreate).unwrap();
    let twice = why(bed.clear("first", Hook::PreCreate));
    assert!(twice.ends_with("does not wait at hook pre-create: it was cleared already"), "{twice}");
    bed.idle();
    assert_eq!(waiting(&bed), ["second pre-create"]);
}

#[test]
fn a_newer_operation_begins_with_all_hooks_set() {
    let mut bed = Bed::new(1);
    let hooks = "a: {hooks: [pre-create, post-create]}";
    bed.create(under(template("a: x=1\n b: x=1 | a"), hooks)).unwrap();
    bed.clear("a", Hook::PreCreate).unwrap();
    bed.update(under(template("a: x=2\n b: x=1 | a"), hooks)).unwrap();
    assert_eq!(waiting(&bed), ["a pre-create"], "withdrawn before it began: it waits again");
    bed.clear("a", Hook::PreCreate).unwrap();
    bed.idle();
    assert_eq!(waiting(&bed), ["a post-create"]);
    bed.update(under(template("a: x=2\n b: x=2 | a"), hooks)).unwrap();
    bed.idle();
    assert_eq!(waiting(&bed), ["a post-create"], "b does not go over what was not cleared");
    bed.update(template("a: x=2\n b: x=3 | a")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.join(" ").as_str()), ("UPDATE_COMPLETE", "Create a Create b"));
    bed.update(under(template("a: x=2\n b: x=4 | a"), hooks)).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "a was made long ago: nothing waits after it");
}

/// A job that an operator holds back now must not run because it was queued for a node that is away.
#[test]
fn an_unsent_job_waits_at_the_hooks_of_a_newer_operation() {
    const HOOKS: &str = "a: {hooks: [pre-create, pre-update]}";
    // Whether the thing exists, the hooks of the first operation, the hook cleared in between, and
    // the hook at which the row then waits.
    for (made, first, cleared, hook) in [
        (false, "a: {hooks: pre-create}", Some(Hook::PreCreate), Hook::PreCreate),
        (false, "", None, Hook::PreCreate),
        (true, "", None, Hook::PreUpdate),
    ] {
        let mut bed = Bed::new(1);
        bed.create(template(if made { "a: x=1" } else { "z: x=1" })).unwrap();
        bed.idle();
        bed.disconnect(&node(0));
        bed.update(under(template("a: x=2"), first)).unwrap();
        if let Some(hook) = cleared {
            bed.clear("a", hook).unwrap();
        }
        assert_eq!(bed.resource("a").phase, "node_away");
        bed.update(under(template("a: x=2"), HOOKS)).unwrap();
        let waits = [format!("a {}", hook.as_str())];
        assert_eq!(waiting(&bed), waits);
        bed.ran.clear();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!((bed.ran.len(), waiting(&bed).as_slice()), (0, &waits[..]));
        bed.clear("a", hook).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE");
    }
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    bed.update(template("a: x=2")).unwrap();
    bed.update(under(template("a: x=2"), "a: {restricted_actions: update}")).unwrap();
    bed.ran.clear();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_FAILED", 0), "nor what is forbidden now");
}

#[test]
fn a_timed_out_stack_names_its_hook_and_resumes_when_cleared() {
    let mut bed = Bed::new(1);
    bed.create(under(template("a: x=1\n b: x=1 | a"), "a: {hooks: pre-create}")).unwrap();
    bed.pass(Duration::from_secs(100_001));
    let view = bed.view().unwrap();
    assert_eq!(
        (bed.status().as_str(), view.status_reason.as_str()),
        ("CREATE_FAILED", "timed out after 100000 s; waits at hooks: a pre-create")
    );
    bed.restart();
    bed.connect(&node(0));
    bed.clear("a", Hook::PreCreate).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn what_waits_is_let_go_by_cancel_rollback_and_delete() {
    let waits_at = |hook: &str| {
        let mut bed = Bed::new(1);
        bed.create(under(template("a: x=1\n b: x=1 | a"), &format!("b: {{hooks: {hook}}}"))).unwrap();
        bed.idle();
        assert_eq!(waiting(&bed), [format!("b {hook}")]);
        bed
    };
    let mut bed = waits_at("pre-create");
    bed.delete().unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.join(" ").as_str()), ("gone", "Create a Delete a"));
    let mut bed = waits_at("post-create");
    bed.delete().unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("gone", 0));
    let mut bed = waits_at("pre-create");
    bed.rollback(None).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("ROLLBACK_COMPLETE", 0));
    let mut bed = waits_at("pre-create");
    bed.ask(Request::Cancel { name: stack() }).unwrap();
    assert!(waiting(&bed).is_empty());
    let Err(Refusal::Conflict(why)) = bed.clear("b", Hook::PreCreate) else { panic!("cancelled") };
    assert!(why.ends_with("does not wait at hook pre-create: the stack is CREATE_FAILED"), "{why}");
    bed.restart();
    bed.connect(&node(0));
    assert!(waiting(&bed).is_empty());
    bed.update(template("a: x=1\n b: x=1 | a")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn a_delete_waits_at_the_hooks_of_the_last_revision() {
    for restarts in 0..4 {
        let mut bed = Bed::new(1);
        let restart = |bed: &mut Bed, at: u8| {
            if restarts >= at {
                bed.restart();
                bed.connect(&node(0));
            }
        };
        bed.create(under(template("a: x=1\n b: x=1 | a"), "'*': {hooks: [pre-delete, post-delete]}"))
            .unwrap();
        bed.idle();
        restart(&mut bed, 1);
        bed.delete().unwrap();
        for (name, hook) in
            [("b", Hook::PreDelete), ("b", Hook::PostDelete), ("a", Hook::PreDelete), ("a", Hook::PostDelete)]
        {
            bed.idle();
            restart(&mut bed, 2);
            assert_eq!(waiting(&bed), [format!("{name} {}", hook.as_str())]);
            bed.clear(name, hook).unwrap();
            restart(&mut bed, 3);
        }
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.tables.rows.len()), ("gone", 0));
    }
}

#[test]
fn a_replacement_waits_at_create_hooks_then_at_delete_hooks() {
    let mut bed = Bed::new(1);
    bed.create(template("a: !x=1\n b: y=@a.!x")).unwrap();
    bed.idle();
    bed.ran.clear();
    let all: Vec<&str> = Hook::ALL.iter().map(|hook| hook.as_str()).collect();
    bed.update(under(template("a: !x=2\n b: y=@a.!x"), &format!("a: {{hooks: [{}]}}", all.join(", "))))
        .unwrap();
    for (hook, ran) in [
        (Hook::PreCreate, ""),
        (Hook::PostCreate, "Create a"),
        (Hook::PreDelete, "Create a Update b"),
        (Hook::PostDelete, "Create a Update b Delete a"),
    ] {
        bed.idle();
        assert_eq!((waiting(&bed), bed.ran.join(" ").as_str()), (vec![format!("a {}", hook.as_str())], ran));
        bed.clear("a", hook).unwrap();
    }
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn all_rows_of_a_name_are_cleared_together() {
    let mut bed = Bed::new(1);
    bed.create(template("a: !x=1")).unwrap();
    bed.idle();
    for x in ["2", "3"] {
        bed.update(under(template(&format!("a: !x={x}")), "a: {hooks: pre-delete}")).unwrap();
        bed.idle();
    }
    assert_eq!(waiting(&bed), ["a pre-delete", "a pre-delete"]);
    bed.clear("a", Hook::PreDelete).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 1));
}

#[test]
fn who_waits_is_not_stuck_and_independent_branches_go_on() {
    let mut bed = Bed::new(1);
    bed.create(under(template("a: fail=create\n b: x=1\n c: x=1 | b"), "b: {hooks: pre-create}")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("a").status.as_str()), ("CREATE_IN_PROGRESS", "FAILED"));
    bed.restart();
    bed.connect(&node(0));
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    bed.clear("b", Hook::PreCreate).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("CREATE_FAILED", 2));
}

#[test]
fn a_row_that_failed_before_waits_as_any_other() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    bed.update(template("a: x=2 fail=update")).unwrap();
    bed.idle();
    bed.update(under(template("a: x=2"), "a: {hooks: pre-update}")).unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), waiting(&bed)),
        ("UPDATE_IN_PROGRESS", vec!["a pre-update".to_owned()])
    );
    bed.clear("a", Hook::PreUpdate).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn a_node_that_goes_away_changes_nothing_of_what_waits() {
    let mut bed = Bed::new(1);
    bed.create(under(template("a: x=1\n b: x=1 | a"), "a: {hooks: post-create}")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    assert_eq!(waiting(&bed), ["a post-create"]);
    // The node returns without its things: the operator needs what the hook is about.
    *bed.hosts.get_mut(&node(0)).unwrap() = super::host::Host::default();
    bed.connect(&node(0));
    bed.is_loaded_as_it_is();
    bed.idle();
    assert_eq!(
        (bed.ran.join(" ").as_str(), waiting(&bed)),
        ("Create a Create a", vec!["a post-create".into()])
    );
    bed.clear("a", Hook::PostCreate).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("CREATE_COMPLETE", 2));
}

#[test]
fn what_waits_claims_nothing() {
    let mut bed = Bed::new(1);
    bed.create(super::bed::files("old: /etc/motd one")).unwrap();
    bed.idle();
    bed.update(under(super::bed::files("new: /etc/motd two"), "new: {hooks: pre-create}")).unwrap();
    bed.idle();
    assert!(bed.tables.rows.values().all(|row| !row.handed_over));
    bed.clear("new", Hook::PreCreate).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.disk()), ("UPDATE_COMPLETE", vec!["/etc/motd two".to_owned()]));
}

#[test]
fn restricted_actions_fail_the_resource_and_change_nothing() {
    for (actions, values, reason) in [
        ("update", "x=2 !y=1", "a: update is restricted by the environment"),
        ("[update, replace]", "x=1 !y=2", "a: replace is restricted by the environment"),
        ("[replace]", "x=2 !y=2", "a: replace is restricted by the environment"),
    ] {
        let mut bed = Bed::new(1);
        let restricted = format!("'*': {{restricted_actions: {actions}}}");
        bed.create(under(template("a: x=1 !y=1\n b: x=1 | a"), &restricted)).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CREATE_COMPLETE", "making something is not restricted");
        let before = bed.reality();
        bed.ran.clear();
        let id = bed.resource("a").physical_id;
        let source = under(template(&format!("a: {values}\n b: x=1 | a\n c: x=1")), &restricted);
        bed.ask(Request::Update { name: stack(), source, options: Options { rollback: true, ..options() } })
            .unwrap();
        bed.idle();
        assert!(bed.tables.events.contains(&"a UPDATE_FAILED".to_owned()));
        assert!(bed.tables.reasons.iter().any(|told| told == reason), "{:?}", bed.tables.reasons);
        assert_eq!((bed.status().as_str(), bed.reality()), ("ROLLBACK_COMPLETE", before));
        assert_eq!((bed.resource("a").physical_id, bed.resource("a").status.as_str()), (id, "COMPLETE"));
        assert_eq!(bed.ran, ["Create c", "Delete c"], "independent branches go on; a is left alone");
    }
}

#[test]
fn a_replaced_branch_is_not_cut_short_by_another_failure() {
    let mut bed = Bed::new(1);
    let restricted = "b: {restricted_actions: update}";
    bed.create(under(template("a: x=1\n b: x=@a.x\n c: !y=@a.x\n d: x=@c.!y"), restricted)).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.update(under(template("a: x=2\n b: x=@a.x\n c: !y=@a.x\n d: x=@c.!y"), restricted)).unwrap();
    bed.run_at(&node(0), 0);
    assert_eq!(bed.resource("b").status, "FAILED");
    assert_eq!(bed.status(), "UPDATE_IN_PROGRESS", "c is being made, and d follows it");
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    assert_eq!(bed.ran, ["Update a", "Create c", "Update d"]);
}

#[test]
fn only_what_is_named_is_restricted() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1 !y=1")).unwrap();
    bed.idle();
    for (actions, values, ran) in
        [("replace", "x=2 !y=1", &["Update a"][..]), ("update", "x=2 !y=2", &["Create a", "Delete a"])]
    {
        bed.ran.clear();
        bed.update(under(
            template(&format!("a: {values}")),
            &format!("a: {{restricted_actions: {actions}}}"),
        ))
        .unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE");
        assert_eq!(bed.ran, ran);
    }
}
