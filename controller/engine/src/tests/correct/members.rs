//! Corrections of members of a `for_each`, while nodes come and go.

use muster_shared::join::TokenSecret;

use super::*;
use crate::NewToken;
use crate::tests::bed::ask_to_join;

fn members(well: bool) -> Bed {
    members_within(Limits::default(), well)
}

fn members_within(limits: Limits, well: bool) -> Bed {
    let mut bed = Bed::with(4, limits);
    (0..2).for_each(|index| label(&mut bed, index, Some("web")));
    bed.create(of_members()).unwrap();
    if !well {
        bed.fail_next(&node(3), true);
    }
    bed.idle();
    assert_eq!(bed.status(), if well { "CREATE_COMPLETE" } else { "CREATE_FAILED" });
    bed.pass(SECOND * 60);
    bed.ran.clear();
    bed
}

fn of_members() -> Source {
    let member = "type: Muster::Dummy, for_each: {nodes: role=web}, drift_policy: correct, properties: {values: {x: 1}}";
    let text = format!(
        "heat_template_version: 2018-08-31\nresources:\n  a: {{{member}}}\n  b: {{{member}, depends_on: {{resource: a, scope: \
         all}}}}\n  c: {{type: Muster::Dummy, properties: {{node: node-3}}}}\n"
    );
    parse(SourceText { name: "t".into(), template: text, ..Default::default() })
}

fn label(bed: &mut Bed, index: usize, role: Option<&str>) {
    let labels = [("role".to_owned(), role.map(str::to_owned))].into();
    bed.ask(Request::LabelNode { node: node(index), labels }).unwrap();
}

#[test]
fn a_failed_correction_is_not_retried_because_nodes_change() {
    for (name, well) in [("a[node-0]", true), ("b[node-0]", true), ("a[node-0]", false), ("b[node-0]", false)]
    {
        let mut bed = members(well);
        let stood = bed.status().split_once('_').unwrap().1.to_owned();
        drifts(&mut bed, name);
        bed.fail_next(&node(0), true);
        // A node no longer matches. If the operation has failed, its member stays until an
        // operation succeeds.
        label(&mut bed, 1, None);
        bed.idle();
        bed.pass(SECOND * 60);
        bed.idle();
        let mut gone = ran(&mut bed);
        gone.sort();
        let goes: &[&str] = if well { &["Delete a[node-1]", "Delete b[node-1]"] } else { &[] };
        assert_eq!(gone, goes, "{name} {well}");
        let row = bed.resource(name);
        assert_eq!(
            (row.status.as_str(), row.status_reason.as_str(), row.corrections),
            ("FAILED", "refused", 1)
        );
        assert_eq!(bed.status().split_once('_').unwrap().1, stood);
        bed.pass(CALM);
        bed.idle();
        assert_eq!(ran(&mut bed), [format!("Update {name}")], "in its own time");
        assert_eq!((bed.resource(name).status.as_str(), bed.resource(name).corrections), ("COMPLETE", 1));
        // An operation of an operator does not wait.
        drifts(&mut bed, name);
        bed.fail_next(&node(0), true);
        bed.rollback(Some(1)).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
        assert!(ran(&mut bed).contains(&format!("Update {name}")), "{name} {well}");
        assert_eq!(bed.resource(name).status, "COMPLETE");
    }
}

#[test]
fn a_correction_withdrawn_for_nodes_is_retried_in_its_own_time() {
    type Step = fn(&mut Bed);
    let narrow = Limits { in_flight_per_node: 1, ..Limits::default() };
    let table: [(&str, Limits, Step, Step); 3] = [
        ("between two tries", Limits::default(), |bed| bed.fail_next(&node(0), false), |_| {}),
        (
            "with its agent, where it fails",
            Limits::default(),
            |_| {},
            |bed| {
                bed.fail_next(&node(0), false);
                bed.pass(SECOND);
            },
        ),
        (
            "its next try, before it has begun",
            narrow,
            |bed| {
                bed.fail_next(&node(0), true);
                bed.pass(CALM - SECOND);
                drifts(bed, "a[node-0]");
                bed.pass(SECOND);
                assert_eq!(bed.resource("b[node-0]").phase, "queued");
            },
            |_| {},
        ),
    ];
    for (what, limits, before, after) in table {
        let mut bed = members_within(limits, true);
        drifts(&mut bed, "b[node-0]");
        before(&mut bed);
        label(&mut bed, 2, Some("web"));
        after(&mut bed);
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.resource("b[node-0]").status.as_str()),
            ("UPDATE_COMPLETE", "FAILED"),
            "{what}"
        );
        ran(&mut bed);
        bed.pass(CALM);
        bed.idle();
        assert_eq!(ran(&mut bed), ["Update b[node-0]"], "{what}");
        assert_eq!(bed.resource("b[node-0]").status, "COMPLETE", "{what}");
    }
}

#[test]
fn a_correction_due_while_its_node_is_away_runs_on_its_return() {
    for restarted in [false, true] {
        let mut bed = made(&[("a", "correct")]);
        drifts(&mut bed, "a");
        bed.fail_next(&node(0), true);
        bed.disconnect(&node(0));
        if restarted {
            bed.restart();
        }
        bed.pass(CALM * 2);
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(ran(&mut bed), ["Update a"], "{restarted}");
        assert_eq!(bed.resource("a").status, "COMPLETE");
    }
}

#[test]
fn a_correction_due_during_a_check_request_runs_if_that_fails() {
    let mut bed = made(&[("a", "correct")]);
    drifts(&mut bed, "a");
    bed.fail_next(&node(0), true);
    bed.slow = true;
    bed.tables.revisions.clear();
    bed.put(Request::Check { name: stack() });
    bed.pass(CALM);
    bed.idle();
    assert!(ran(&mut bed).is_empty());
    bed.read();
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a"]);
}

#[test]
fn a_correction_that_fails_while_nodes_come_fails_no_operation() {
    for (name, tries) in [("a[node-0]", 1), ("a[node-0]", 2), ("b[node-0]", 1)] {
        let mut bed = members(true);
        drifts(&mut bed, name);
        for _ in 1..tries {
            bed.fail_next(&node(0), false);
            bed.pass(SECOND);
        }
        label(&mut bed, 2, Some("web"));
        bed.fail_next(&node(0), true);
        bed.idle();
        let row = bed.resource(name);
        assert_eq!(
            (bed.status().as_str(), row.status.as_str(), row.status_reason.as_str()),
            ("UPDATE_COMPLETE", "FAILED", "refused"),
            "{name} {tries}"
        );
        assert_eq!(bed.engine.view().failure_views(&stack()).unwrap().len(), 1);
        ran(&mut bed);
        bed.pass(CALM);
        bed.idle();
        assert_eq!(ran(&mut bed), [format!("Update {name}")]);
        assert_eq!(bed.resource(name).status, "COMPLETE");
    }
}

#[test]
fn a_failure_counted_by_a_check_is_not_counted_again() {
    let mut bed = members(true);
    drifts(&mut bed, "a[node-0]");
    bed.fail_next(&node(0), true);
    bed.check().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CHECK_FAILED");
    bed.disconnect(&node(2));
    label(&mut bed, 2, Some("web"));
    bed.idle();
    ran(&mut bed);
    bed.pass(SECOND * 100_000);
    assert_eq!(bed.status(), "UPDATE_FAILED", "it waits for the node");
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a[node-0]"]);
    bed.connect(&node(2));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn nobody_outside_of_a_selector_is_corrected() {
    // A stack that had failed before its check no longer follows the nodes.
    let mut bed = members(false);
    bed.check().unwrap();
    bed.idle();
    ran(&mut bed);
    label(&mut bed, 0, None);
    for restarted in [false, true] {
        if restarted {
            bed.restart();
            (0..4).for_each(|index| bed.connect(&node(index)));
        }
        drifts(&mut bed, "a[node-0]");
        bed.pass(SECOND * 60);
        bed.idle();
        assert!(ran(&mut bed).is_empty());
        assert_eq!(bed.resource("a[node-0]").observed, "drifted");
    }
    label(&mut bed, 0, Some("web"));
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a[node-0]"]);
    assert_eq!(bed.resource("a[node-0]").observed, "in_sync");
}

#[test]
fn a_resource_lost_outside_its_selector_is_not_recreated() {
    let mut bed = members(false);
    bed.check().unwrap();
    bed.idle();
    ran(&mut bed);
    label(&mut bed, 0, None);
    let lost = |bed: &mut Bed| {
        bed.hosts.get_mut(&node(0)).unwrap().things.clear();
        bed.disconnect(&node(0));
        bed.connect(&node(0));
        bed.idle();
    };
    lost(&mut bed);
    assert!(ran(&mut bed).is_empty());
    let row = bed.resource("a[node-0]");
    assert_eq!((row.status.as_str(), row.status_reason.contains("has lost it")), ("FAILED", true));
    // An operation uses the labels as they are then.
    label(&mut bed, 0, Some("web"));
    bed.update(of_members()).unwrap();
    bed.idle();
    assert!(ran(&mut bed).contains(&"Update a[node-0]".to_owned()));
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    lost(&mut bed);
    assert_eq!(ran(&mut bed), ["Update a[node-0]", "Update b[node-0]"], "as any other");
}

#[test]
fn who_is_meant_again_since_it_joined_anew_is_corrected() {
    let mut bed = members(false);
    bed.check().unwrap();
    bed.idle();
    drifts(&mut bed, "a[node-0]");
    bed.fail_next(&node(0), true);
    label(&mut bed, 0, None);
    bed.pass(CALM);
    bed.idle();
    ran(&mut bed);
    let token = NewToken {
        id: [1; 8],
        secret_hash: TokenSecret([1; 16]).digest(),
        expires: 10,
        uses: 1,
        name: Some(node(0).to_string()),
        labels: [("role".to_owned(), "web".to_owned())].into(),
        rate: None,
    };
    bed.ask(Request::NewToken { token, wall: 0 }).unwrap();
    bed.ask(Request::Join(ask_to_join(&node(0), 7))).unwrap();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(ran(&mut bed), ["Update a[node-0]"]);
}
