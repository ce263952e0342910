//! Things that stay when their resource is deleted, things that others made, and things that an
//! operator marked unhealthy.

use muster_shared::model::{Dummy, Spec};

use super::bed::{Bed, node, parse};
use crate::{Refusal, Source, SourceText};

/// A template of dummies from `name: keys of the resource; values; needs` lines.
fn template(lines: &str) -> Source {
    let mut text = String::from(
        "heat_template_version: 2018-08-31\nparameters: {id: {type: string, default: vm-1}}\nresources:\n",
    );
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, rest) = line.split_once(':').unwrap();
        let mut parts = rest.split(';').map(str::trim);
        let mut part = || parts.next().unwrap_or_default();
        let (keys, values, needs) = (part(), part(), part());
        let keys = if keys.is_empty() { String::new() } else { format!(", {keys}") };
        text.push_str(&format!(
            "  {name}: {{type: Muster::Dummy, properties: {{values: {{{values}}}}}, depends_on: [{needs}]{keys}}}\n"
        ));
    }
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

fn file(name: &str, path: &str, keys: &str) -> Source {
    let text = format!(
        "heat_template_version: 2018-08-31\nresources:\n  {name}: {{type: Muster::File, {keys}\
         properties: {{node: node-0, path: {path}, content: hello}}}}\n"
    );
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

fn refused(answer: Result<crate::Answer, Refusal>) -> String {
    match answer {
        Err(Refusal::Conflict(why) | Refusal::Invalid(why) | Refusal::NotFound(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn spec(x: &str) -> Spec {
    Spec::Dummy(Dummy { values: [("x".to_owned(), x.to_owned())].into(), ..Dummy::default() })
}

const RETAINED: &str = "a: deletion_policy: retain; x: 1";

#[test]
fn what_is_retained_is_left_on_every_clean_up() {
    for (how, restarts) in
        [("dropped", false), ("replaced", false), ("deleted", false), ("unhealthy", false), ("deleted", true)]
    {
        let mut bed = Bed::new(1);
        bed.create(template("a: deletion_policy: retain; '!x': 1")).unwrap();
        bed.idle();
        bed.ran.clear();
        let left = match how {
            "dropped" => {
                bed.update(template("b: ; x: 1")).unwrap();
                vec!["Create b", "Retain a"]
            }
            "replaced" => {
                bed.update(template("a: deletion_policy: retain; '!x': 2")).unwrap();
                vec!["Create a", "Retain a"]
            }
            "unhealthy" => {
                bed.unhealthy("a").unwrap();
                bed.update(template("a: deletion_policy: retain; '!x': 1")).unwrap();
                vec!["Create a", "Retain a"]
            }
            _ => {
                bed.delete().unwrap();
                vec!["Retain a"]
            }
        };
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.idle();
        assert_eq!(bed.ran, left, "{how}");
        assert!(bed.resources().len() <= 1, "{how}");
    }
}

#[test]
fn the_newest_revision_says_whether_it_is_retained() {
    for (first, second, want) in
        [("a: ; x: 1", RETAINED, "Retain a"), (RETAINED, "a: deletion_policy: Delete; x: 1", "Delete a")]
    {
        for restarts in [false, true] {
            let mut bed = Bed::new(1);
            bed.create(template(first)).unwrap();
            bed.idle();
            bed.ran.clear();
            bed.update(template(second)).unwrap();
            bed.idle();
            assert!(bed.ran.is_empty(), "nothing changes on the node");
            if restarts {
                bed.restart();
                bed.connect(&node(0));
            }
            bed.delete().unwrap();
            bed.idle();
            assert_eq!(bed.ran, [want]);
        }
    }
}

#[test]
fn a_rollback_brings_the_older_policy_back() {
    let mut bed = Bed::new(1);
    bed.create(template("a: ; x: 1")).unwrap();
    bed.idle();
    bed.update(template(RETAINED)).unwrap();
    bed.idle();
    bed.rollback(None).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Delete a"]);
}

#[test]
fn a_retained_resource_that_returns_is_created_again() {
    let mut bed = Bed::new(1);
    bed.create(file("a", "/a", "deletion_policy: retain, ")).unwrap();
    bed.idle();
    bed.update(file("b", "/b", "")).unwrap();
    bed.idle();
    assert_eq!(bed.disk(), ["/a hello", "/b hello"]);
    bed.ran.clear();
    bed.update(file("a", "/a", "")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Create a", "Delete b"]);
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn what_others_made_is_compared_and_never_touched() {
    let mut bed = Bed::new(1);
    bed.hosts.get_mut(&node(0)).unwrap().foreign.push(spec("1"));
    let external = |x: &str| {
        template(
            &format!("a: \"external_id: {{get_param: id}}\"; x: {x}\n b: ; of: {{get_resource: a}}; a")
                .replace('"', ""),
        )
    };
    bed.create(external("1")).unwrap();
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), bed.ran.as_slice()),
        ("CREATE_COMPLETE", &["Check a", "Create b"].map(String::from)[..])
    );
    let a = bed.resource("a");
    assert_eq!((a.physical_id.as_str(), a.observed.as_str()), ("vm-1", "in_sync"));
    assert_eq!(bed.reality(), [("b".to_owned(), [("of".to_owned(), "vm-1".to_owned())].into())]);
    bed.ran.clear();
    bed.update(external("1")).unwrap();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 0));
    bed.check().unwrap();
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), bed.ran.as_slice()),
        ("CHECK_COMPLETE", &["Check a", "Check b"].map(String::from)[..])
    );

    bed.ran.clear();
    bed.update(external("2")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED", "it is not brought there");
    assert!(bed.resource("a").status_reason.contains("not as desired"));
    assert!(bed.ran.iter().all(|ran| ran == "Check a"), "{:?}", bed.ran);
    bed.hosts.get_mut(&node(0)).unwrap().foreign.push(spec("2"));
    bed.restart();
    bed.connect(&node(0));
    bed.update(external("2")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "others did");
    bed.ran.clear();
    bed.unhealthy("a").unwrap();
    bed.update(external("2")).unwrap();
    bed.idle();
    assert_eq!(
        (bed.ran.as_slice(), bed.resource("a").physical_id.as_str()),
        (&["Check a".to_owned()][..], "vm-1")
    );
    bed.ran.clear();
    bed.delete().unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.as_slice()), ("gone", &["Delete b".to_owned()][..]));
}

#[test]
fn a_change_of_the_external_id_of_what_stands_is_refused() {
    let mut bed = Bed::new(1);
    bed.hosts.get_mut(&node(0)).unwrap().foreign.push(spec("1"));
    bed.create(template("a: external_id: one; x: 1\n b: ; x: 1")).unwrap();
    bed.idle();
    for wrong in [
        "a: external_id: two; x: 1\n b: ; x: 1",
        "a: ; x: 1\n b: ; x: 1",
        "a: external_id: one; x: 1\n b: external_id: b; x: 1",
    ] {
        let before = bed.tables.writes;
        assert!(refused(bed.update(template(wrong))).contains("take the resource out"), "{wrong}");
        assert_eq!((bed.tables.writes, bed.status().as_str()), (before, "CREATE_COMPLETE"));
    }
    bed.update(template("b: ; x: 1")).unwrap();
    bed.idle();
    bed.update(template("a: external_id: two; x: 1\n b: ; x: 1")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("a").physical_id.as_str()), ("UPDATE_COMPLETE", "two"));
}

#[test]
fn a_wrong_external_id_can_be_corrected() {
    let mut bed = Bed::new(1);
    bed.create(template("a: external_id: wrong; x: 1")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert_eq!(bed.resource("a").observed, "missing");
    bed.hosts.get_mut(&node(0)).unwrap().foreign.push(spec("1"));
    bed.update(template("a: external_id: right; x: 1")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("a").physical_id.as_str()), ("UPDATE_COMPLETE", "right"));
}

#[test]
fn what_its_owner_would_take_away_is_not_external() {
    for (policy, is_retained) in [("", false), ("deletion_policy: retain, ", true)] {
        let mut bed = Bed::new(1);
        bed.create(file("a", "/a", policy)).unwrap();
        bed.idle();
        bed.ran.clear();
        let update = bed.update(file("b", "/a", "external_id: it, "));
        if !is_retained {
            assert!(refused(update).contains("is what resource a made and would take away"));
            continue;
        }
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.ran.as_slice()),
            ("UPDATE_COMPLETE", &["Check b", "Retain a"].map(String::from)[..])
        );
        assert_eq!(bed.disk(), ["/a hello"]);
        // The other way round: a row that makes the file takes it over from an external row.
        bed.ran.clear();
        bed.update(file("c", "/a", "")).unwrap();
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.ran.as_slice()),
            ("UPDATE_COMPLETE", &["Create c".to_owned()][..])
        );
        bed.delete().unwrap();
        bed.idle();
        assert!(bed.disk().is_empty() && bed.engine.traversals.jobs.claims.owners().next().is_none());
    }
}

#[test]
fn the_check_of_an_external_row_is_cancelled_as_any_job() {
    for restarts in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(template("a: external_id: it; x: 1")).unwrap();
        bed.cancel().unwrap();
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("CREATE_FAILED", 0));
        bed.delete().unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("gone", 0));
    }
}

#[test]
fn what_is_marked_unhealthy_is_replaced_by_the_next_update() {
    const TWO: &str = "a: ; x: 1\n b: ; y: {get_attr: [a, x]}";
    for restarts in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(template(TWO)).unwrap();
        assert!(refused(bed.unhealthy("a")).contains("CREATE_IN_PROGRESS"));
        bed.idle();
        assert!(refused(bed.unhealthy("aa")).contains("did you mean 'a'?"));
        let old = bed.resource("a").physical_id;
        bed.unhealthy("a").unwrap();
        let a = bed.resource("a");
        assert_eq!(
            (a.status.as_str(), a.status_reason.as_str()),
            ("FAILED", "marked unhealthy by an operator")
        );
        assert_eq!(bed.status(), "CREATE_COMPLETE", "the stack is told of it by a check");
        bed.unhealthy("a").unwrap();
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.ran.clear();
        bed.check().unwrap();
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.ran.as_slice()),
            ("CHECK_FAILED", &["Check b".to_owned()][..])
        );
        bed.ran.clear();
        bed.update(template(TWO)).unwrap();
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.ran.as_slice()),
            ("UPDATE_COMPLETE", &["Create a", "Delete a"].map(String::from)[..])
        );
        let new = bed.resource("a");
        assert_ne!(new.physical_id, old);
        bed.ran.clear();
        bed.update(template(TWO)).unwrap();
        bed.idle();
        assert!(bed.ran.is_empty(), "once");
    }
}

#[test]
fn what_is_to_stay_stays_when_its_node_was_removed_and_returns() {
    let mut bed = Bed::new(1);
    bed.create(file("a", "/a", "deletion_policy: retain, ")).unwrap();
    bed.idle();
    bed.delete().unwrap();
    assert_eq!(bed.remove(&node(0)), ["a"]);
    assert_eq!(bed.status(), "gone");
    bed.restart();
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.ran.last().map(String::as_str), Some("Retain a"));
    assert_eq!((bed.disk(), bed.lost(&node(0)).len()), (vec!["/a hello".to_owned()], 0));
}

#[test]
fn an_external_resource_survives_node_removal_and_is_rechecked() {
    for restart in [false, true] {
        let mut bed = Bed::new(1);
        bed.hosts.get_mut(&node(0)).unwrap().foreign.push(spec("1"));
        bed.create(template("a: external_id: one; x: 1")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CREATE_COMPLETE");
        assert!(bed.remove(&node(0)).is_empty());
        if restart {
            bed.restart();
        }
        assert_eq!(bed.status(), "UPDATE_IN_PROGRESS");
        assert_eq!((bed.resource("a").phase.as_str(), &*bed.resource("a").physical_id), ("node_away", "one"));
        bed.rejoin(&node(0));
        bed.connect(&node(0));
        bed.ran.clear();
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.join(" ").as_str()), ("UPDATE_COMPLETE", "Check a"));
    }
}

#[test]
fn what_stands_for_a_thing_on_a_removed_node_says_why_it_failed() {
    let mut bed = Bed::new(1);
    bed.hosts.get_mut(&node(0)).unwrap().foreign.push(spec("1"));
    bed.create(template("a: external_id: one; x: 1\n b: ; x: 1")).unwrap();
    bed.hosts.get_mut(&node(0)).unwrap().connection = None; // nothing arrives any more
    bed.update(template("b: ; x: 1")).unwrap();
    bed.cancel().unwrap();
    bed.remove(&node(0));
    for row in bed.resources() {
        assert!(row.status != "FAILED" || row.status_reason == "node node-0 was removed", "{row:?}");
    }
    assert_eq!(bed.resources().len(), 2);
}
