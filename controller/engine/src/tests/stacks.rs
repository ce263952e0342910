use std::time::Duration;

use super::bed::{Bed, files, node, options, parse, stack, template};
use crate::{Answer, Input, Options, Refusal, Request, SourceText};

const THREE: &str = "
    a: x=1
    b: x=2 | a
    c: x=@b.x | b";

#[test]
fn a_stack_is_made_in_order_and_taken_away_in_reverse() {
    let mut bed = Bed::new(1);
    bed.create(template(THREE)).unwrap();
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(bed.ran, ["Create a", "Create b", "Create c"]);
    assert_eq!(bed.reality()[2].1["x"], "2", "an attribute of b");
    bed.ran.clear();
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Delete c", "Delete b", "Delete a"]);
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("gone", 0));
    assert!(bed.tables.stacks.is_empty() && bed.tables.rows.is_empty() && bed.tables.edges.is_empty());
}

#[test]
fn an_unchanged_update_sends_nothing_and_keeps_the_rows() {
    let mut bed = Bed::new(1);
    bed.create(template(THREE)).unwrap();
    bed.idle();
    let (before, writes) = (bed.resources(), bed.tables.writes);
    bed.update(template(THREE)).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.resources(), before);
    assert!(bed.tables.writes - writes <= 5, "the stack, its revision and two events");
}

#[test]
fn an_update_touches_what_changed_and_what_depends_on_it() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=@a.x\n c: x=3\n d: x=4 | a")).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.update(template("a: x=9\n b: x=@a.x\n c: x=3\n d: x=4 | a")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Update a", "Update b"], "d waits for a, but nothing of it changes");
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn a_forced_replacement_is_a_new_row_and_the_old_goes_last() {
    let mut bed = Bed::new(1);
    bed.create(template("a: !x=1\n b: y=@a.!x")).unwrap();
    bed.idle();
    let old = bed.resource("a");
    bed.ran.clear();
    bed.update(template("a: !x=2\n b: y=@a.!x")).unwrap();
    bed.run_at(&node(0), 0);
    let new = bed.resource("a");
    assert_eq!(new.replaces.as_deref(), Some(&*old.physical_id));
    bed.idle();
    assert_eq!(bed.ran, ["Create a", "Update b", "Delete a"]);
    assert_ne!(bed.resource("a").physical_id, old.physical_id);
    assert_eq!(bed.reality().len(), 2);
}

#[test]
fn a_failure_is_retried_then_reported_while_other_branches_run() {
    let mut bed = Bed::new(1);
    bed.create(template("a: fail=create\n b: x=1 | a\n c: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert_eq!(bed.ran.iter().filter(|ran| *ran == "Create a").count(), 4, "one try and three more");
    assert!(bed.ran.contains(&"Create c".to_owned()) && !bed.ran.contains(&"Create b".to_owned()));
    let view = bed.view().unwrap();
    assert_eq!(view.status_reason, "a: told to fail");
    assert_eq!((bed.resource("b").status.as_str(), bed.resource("b").phase.as_str()), ("INIT", "waiting"));
    assert_eq!(bed.resource("b").waits_for, ["a"]);
    bed.update(template("a: x=1\n b: x=1 | a\n c: x=1")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 3));
}

#[test]
fn rollback_leads_to_the_last_good_revision() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    bed.update(template("a: x=2\n b: x=2")).unwrap();
    bed.idle();
    bed.update(template("a: x=3 fail=update\n c: x=3")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    bed.rollback(None).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    assert_eq!(bed.reality().iter().map(|(n, v)| format!("{n}{}", v["x"])).collect::<Vec<_>>(), ["a2", "b2"]);
    bed.rollback(Some(1)).unwrap();
    bed.idle();
    assert_eq!(bed.reality().iter().map(|(n, v)| format!("{n}{}", v["x"])).collect::<Vec<_>>(), ["a1"]);
    bed.rollback(None).unwrap();
    bed.idle();
    assert_eq!(bed.reality().len(), 2, "after the update has ended, too: the COMPLETE one before it");
    assert!(matches!(bed.rollback(Some(99)), Err(Refusal::NotFound(_))));
}

#[test]
fn an_operation_says_which_one_it_takes_the_place_of() {
    fn warnings(answer: Result<Answer, Refusal>) -> Vec<String> {
        let Ok(Answer::Stack { warnings, .. }) = answer else { panic!("a stack") };
        warnings
    }
    let says = |it: &str, other: &str| {
        format!(
            "this {it} takes the place of the {other} in progress: jobs that have started run to their end, no others start"
        )
    };
    let mut bed = Bed::new(1);
    assert_eq!(warnings(bed.create(template("a: x=1"))), [""; 0]);
    assert_eq!(warnings(bed.update(template("a: x=2"))), [says("UPDATE", "CREATE")]);
    bed.idle();
    assert_eq!(warnings(bed.update(template("a: x=3"))), [""; 0]);
    assert_eq!(warnings(bed.delete()), [says("DELETE", "UPDATE")]);
}

#[test]
fn a_rollback_to_nothing_is_named_where_anything_was_good() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    for check in [false, true] {
        if check {
            bed.check().unwrap();
            bed.idle();
        }
        let Err(Refusal::Conflict(why)) = bed.rollback(None) else { panic!("nothing good before 1") };
        assert!(
            why.starts_with("stack 's' has no good revision before 1") && why.contains("--to 0"),
            "{why}"
        );
        assert_eq!(bed.reality().len(), 1);
    }
    bed.rollback(Some(0)).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("ROLLBACK_COMPLETE", 0));
    bed.rollback(None).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("ROLLBACK_COMPLETE", 1));
    // An automatic rollback to nothing happens only if nothing existed before, so not after an
    // update that fails.
    let options = Options { rollback: true, ..options() };
    let source = template("a: fail=update x=2");
    bed.ask(Request::Update { name: stack(), source, options }).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("ROLLBACK_COMPLETE", 1));
}

#[test]
fn a_failed_create_rolls_back_to_nothing_where_asked() {
    let mut bed = Bed::new(1);
    let options = Options { rollback: true, ..options() };
    bed.ask(Request::Create { name: stack(), source: template("a: x=1\n b: fail=create | a"), options })
        .unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("ROLLBACK_COMPLETE", 0));
}

#[test]
fn the_view_of_a_stack_has_the_options_of_its_operation() {
    let mut bed = Bed::new(1);
    let options = Options { rollback: true, timeout: Duration::from_secs(1800), ..options() };
    bed.ask(Request::Create { name: stack(), source: template("a: x=1"), options }).unwrap();
    let shown = |bed: &Bed| bed.view().map(|view| (view.rollback, view.timeout));
    assert_eq!(shown(&bed), Some((true, 1800)));
    bed.idle();
    bed.restart();
    assert_eq!(shown(&bed), Some((true, 1800)));
    let source = template("a: x=2");
    bed.ask(Request::Update { name: stack(), source, options: super::bed::options() }).unwrap();
    assert_eq!(shown(&bed), Some((false, 100_000)));
}

#[test]
fn what_contradicts_is_refused_and_changes_nothing() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    let writes = bed.tables.writes;
    assert!(matches!(bed.create(template("a: x=1")), Err(Refusal::Conflict(_))));
    let other = |name: &str| name.parse().unwrap();
    assert!(matches!(bed.ask(Request::Delete { name: other("t") }), Err(Refusal::NotFound(_))));
    let source = template("a: x=1");
    let missing = Request::Update { name: other("t"), source, options: options() };
    assert!(matches!(bed.ask(missing), Err(Refusal::NotFound(_))));
    let options = Options { require_nodes: true, ..options() };
    let request = Request::Update { name: stack(), source: template("a: node=node-7"), options };
    let Err(Refusal::Conflict(why)) = bed.ask(request) else { panic!("refused") };
    assert_eq!(why, "these nodes have never joined: node-7 (did you mean node-0?)");
    assert_eq!(bed.tables.writes, writes);
    bed.delete().unwrap();
    assert!(matches!(bed.update(template("a: x=2")), Err(Refusal::Conflict(_))));
    assert!(bed.delete().is_ok(), "a delete asked for twice is one");
}

/// Another operator's update in between is not overwritten.
#[test]
fn an_update_of_another_revision_is_refused_and_changes_nothing() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    bed.update(template("a: x=2")).unwrap();
    bed.idle();
    let of = |revision| Options { revision: Some(revision), ..options() };
    let update =
        |revision| Request::Update { name: stack(), source: template("a: x=3"), options: of(revision) };
    let writes = bed.tables.writes;
    for wrong in [0, 1, 3] {
        let Err(Refusal::Conflict(why)) = bed.ask(update(wrong)) else { panic!("refused") };
        assert_eq!(why, format!("stack 's' is at revision 2, not {wrong}: look again"));
        let preview = bed.engine.view().preview(&stack(), &template("a: x=3"), None, &of(wrong)).unwrap_err();
        assert_eq!(preview, Refusal::Conflict(why));
    }
    assert_eq!((bed.tables.writes, &*bed.reality()[0].1["x"]), (writes, "2"));
    bed.ask(update(2)).unwrap();
    bed.idle();
    assert_eq!(bed.reality()[0].1["x"], "3");
}

#[test]
fn one_thing_has_one_owner() {
    let mut bed = Bed::new(1);
    let twice = files("a: /etc/motd\n b: /etc/motd");
    let Err(Refusal::Conflict(why)) = bed.create(twice) else { panic!("refused") };
    assert!(why.contains("/etc/motd") && why.contains('a') && why.contains('b'), "{why}");
    assert!(bed.tables.stacks.is_empty() && bed.engine.view().stack_views().is_empty());
    bed.create(files("a: /etc/motd")).unwrap();
    bed.idle();
    let source = files("mine: /etc/motd");
    let request = Request::Create { name: "other".parse().unwrap(), source, options: options() };
    let Err(Refusal::Conflict(why)) = bed.ask(request) else { panic!("refused") };
    assert!(why.contains("resource a of stack s"), "{why}");
    bed.ran.clear();
    bed.update(files("renamed: /etc/motd")).unwrap();
    bed.idle();
    assert_eq!(
        bed.ran,
        ["Create renamed", "Delete a"],
        "the new row takes the claim over, then the old goes"
    );
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn a_timed_out_stack_names_missing_nodes_and_still_completes() {
    let mut bed = Bed::new(1);
    let answer = bed.create(template("a: node=node-0\n b: node=node-1 | a")).unwrap();
    let Answer::Stack { warnings, .. } = answer else { panic!("a stack") };
    assert_eq!(warnings, ["node node-1 has never joined and is waited for; did you mean node-0?"]);
    bed.idle();
    assert_eq!(bed.resource("b").phase, "node_away");
    bed.pass(Duration::from_secs(100_001));
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert!(bed.view().unwrap().status_reason.contains("node-1"));
    bed.join(&node(1));
    bed.connect(&node(1));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("CREATE_COMPLETE", 2));
}

#[test]
fn hidden_values_are_masked() {
    let text = "heat_template_version: 2018-08-31
parameters:
  secret: {type: string, hidden: true}
resources:
  a:
    type: Muster::File
    properties: {node: node-0, path: {get_param: secret}, content: x}
";
    let parameters = [("secret".to_owned(), "hunter2".into())].into();
    let source =
        parse(SourceText { name: "t".into(), template: text.into(), parameters, ..SourceText::default() });
    let mut bed = Bed::new(1);
    let Err(Refusal::Invalid(why)) = bed.create(source) else { panic!("not a path") };
    assert!(!why.contains("hunter2"), "{why}");
}

#[test]
fn outputs_show_no_hidden_value() {
    let text = "heat_template_version: 2018-08-31
parameters:
  secret: {type: string, hidden: true}
  pin: {type: number, hidden: true}
resources:
  a:
    type: Muster::Dummy
    properties: {values: {v: {get_param: secret}}}
outputs:
  of: {value: {list_join: ['-', [a, {get_attr: [a, v]}]]}}
  pin: {value: {get_param: pin}}
";
    let parameters = [("secret".to_owned(), "hunter2".into()), ("pin".to_owned(), 4711.into())].into();
    let source =
        parse(SourceText { name: "t".into(), template: text.into(), parameters, ..SourceText::default() });
    let mut bed = Bed::new(1);
    bed.create(source).unwrap();
    bed.idle();
    let shown: Vec<String> = bed.view().unwrap().outputs.iter().map(|o| o.value.to_string()).collect();
    assert_eq!(shown, ["\"a-******\"", "\"******\""]);
    assert_eq!(bed.reality()[0].1["v"], "hunter2");
}

#[test]
fn the_graph_shows_rows_of_both_roles_and_what_needs_what() {
    let mut bed = Bed::new(1);
    bed.create(template("a: !x=1\n b: y=@a.!x")).unwrap();
    bed.idle();
    bed.update(template("a: !x=2\n b: y=@a.!x")).unwrap();
    bed.run_at(&node(0), 0);
    let graph = bed.engine.view().graph_view(&stack()).unwrap();
    let nodes: Vec<String> =
        graph.nodes.iter().map(|n| format!("{} {} {} {}", n.name, n.role, n.status, n.ready)).collect();
    assert_eq!(
        nodes,
        ["a forward COMPLETE true", "b forward IN_PROGRESS false", "a clean-up COMPLETE false"]
    );
    let [new, b, old] = &graph.nodes[..] else { panic!("{graph:?}") };
    assert_eq!(
        (&new.replaces, &old.replaced_by),
        (&Some(old.physical_id.clone()), &Some(new.physical_id.clone()))
    );
    let mut needs: Vec<(&str, &str)> =
        graph.edges.iter().map(|e| (e.resource_id.as_str(), e.needed_by.as_str())).collect();
    needs.sort_unstable();
    let mut wanted = [(new.id.as_str(), b.id.as_str()), (old.id.as_str(), b.id.as_str())];
    wanted.sort_unstable();
    assert_eq!(needs, wanted, "while its job is out, b needs what it will need and what it needed");
}

#[test]
fn events_name_who_asked_and_not_what_followed() {
    let mut bed = Bed::new(1);
    let anna = |bed: &mut Bed, request: Request| {
        bed.engine.handle_of(bed.now, "anna", Input::Request { id: 900, request: Box::new(request) });
        bed.input(Input::Timeout);
    };
    let create = |source| Request::Create { name: stack(), source, options: options() };
    anna(&mut bed, create(template("a: x=1")));
    bed.idle();
    let told = |bed: &mut Bed| {
        let tables = &mut bed.tables;
        std::mem::take(&mut tables.events)
            .into_iter()
            .zip(std::mem::take(&mut tables.actors))
            .collect::<Vec<_>>()
    };
    let by = |event: &str, actor: Option<&str>| (event.to_owned(), actor.map(str::to_owned));
    let all = told(&mut bed);
    assert_eq!(all.first(), Some(&by("stack CREATE_IN_PROGRESS", Some("anna"))));
    assert_eq!(all.last(), Some(&by("stack CREATE_COMPLETE", None)), "{all:?}");
    bed.update(template("a: x=2")).unwrap();
    bed.idle();
    assert!(told(&mut bed).iter().all(|(_, actor)| actor.is_none()), "nobody is named for the one before");
    // The revision that a rollback goes to is read first.
    bed.slow = true;
    anna(&mut bed, Request::Rollback { name: stack(), to: Some(1) });
    bed.read();
    bed.idle();
    let all = told(&mut bed);
    assert_eq!(all.first(), Some(&by("stack ROLLBACK_IN_PROGRESS", Some("anna"))), "{all:?}");
}

#[test]
fn an_operation_says_by_name_what_it_changes() {
    let mut bed = Bed::new(1);
    let difference = |bed: &mut Bed, lines: &str| {
        let source = template(lines);
        let answer = if bed.view().is_none() { bed.create(source) } else { bed.update(source) };
        let Ok(Answer::Stack { difference, .. }) = answer else { panic!("{answer:?}") };
        bed.idle();
        difference
    };
    let many: String = (0..12).map(|n| format!("m{n:02}: x=1\n")).collect();
    assert_eq!(difference(&mut bed, "a: x=1\nb: x=@a.x | a"), "adds a, b");
    // The value that b has of a may change, and its definition does not.
    assert_eq!(difference(&mut bed, "a: x=2\nb: x=@a.x | a"), "changes a");
    assert_eq!(difference(&mut bed, "a: x=2\nb: x=@a.x | a"), "");
    assert_eq!(difference(&mut bed, "a: x=3\nc: x=1"), "adds c; changes a; removes b");
    assert_eq!(
        difference(&mut bed, &many),
        "adds m00, m01, m02, m03, m04, m05, m06, m07, m08, m09 and 2 more; removes a, c"
    );
}

#[test]
fn the_time_of_an_operation_goes_on_over_a_restart() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    let options = Options { timeout: Duration::from_secs(1000), ..options() };
    bed.ask(Request::Create { name: stack(), source: template("a: x=1"), options }).unwrap();
    bed.pass(Duration::from_secs(700));
    bed.restart();
    bed.pass(Duration::from_secs(200));
    bed.restart(); // with a hundred seconds left agents still get a quarter of the time to return
    bed.pass(Duration::from_secs(249));
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    bed.pass(Duration::from_secs(1));
    assert_eq!(bed.status(), "CREATE_FAILED");
}
