//! Labels, revocation, and nodes that are removed and join again.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::{Hello, JobState, Observed, Outcome, Progress, Report, Stage, Up};
use muster_shared::wire::{CONTROLLER_READS, READS_WELCOME};
use muster_shared::{Epoch, NodeId};

use super::bed::{Bed, ask_to_join, files, node, options, stack, template, under};
use super::host::Host;
use crate::{Answer, Input, Limits, NewToken, Options, Refusal, Request};

fn label(bed: &mut Bed, labels: &[(&str, Option<&str>)]) -> Result<Answer, Refusal> {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect();
    bed.ask(Request::LabelNode { node: node(0), labels })
}

fn labels(bed: &Bed) -> BTreeMap<String, String> {
    bed.engine.view().node_views().remove(0).labels
}

#[test]
fn a_nodes_silence_is_counted_but_not_written() {
    let mut bed = Bed::new(1);
    let silent = |bed: &Bed| bed.engine.view().node_views().remove(0).silent.map(|time| time.as_secs());
    bed.pass(Duration::from_secs(40));
    assert_eq!(silent(&bed), Some(40), "since it connected");
    let writes = bed.tables.writes;
    bed.receive(&node(0), Up::Heartbeat { drift: None });
    bed.pass(Duration::from_secs(20));
    assert_eq!((silent(&bed), bed.tables.writes), (Some(20), writes));
    bed.disconnect(&node(0));
    assert_eq!(silent(&bed), None, "whoever keeps the clock knows");
    bed.connect(&node(0));
    assert_eq!(silent(&bed), Some(0));
}

#[test]
fn a_clock_that_is_off_is_named() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    // Seconds that the clock is ahead, the number shown, and the event.
    for (ahead, shown, told) in [
        (300, None, None),
        (7500, Some(7500), Some("its clock is 2 h 5 min ahead of the controller's clock: set the one")),
        (7600, Some(7600), None),
        (0, None, Some("its clock is right again")),
        (-300, None, None),
        (-90_000, Some(-90_000), Some("its clock is 1 d 1 h behind the controller's clock: set the one")),
        (90_000, Some(90_000), Some("its clock is 1 d 1 h ahead of the controller's clock")),
        (i64::MIN, Some(i64::MIN), Some("behind the controller's clock")),
    ] {
        let before = bed.tables.reasons.len();
        bed.receive(&node(0), Up::Clock { unix: 0, ahead });
        assert_eq!(bed.engine.view().node_views().remove(0).clock_off_s, shown, "{ahead}");
        let events = &bed.tables.reasons[before..];
        assert_eq!(events.len(), usize::from(told.is_some()), "{ahead}: {events:?}");
        assert!(told.is_none_or(|told| events[0].contains(told)), "{ahead}: {events:?}");
    }
    assert_eq!(bed.warnings.len(), 4, "{:?}", bed.warnings);
    bed.disconnect(&node(0));
    assert_eq!(bed.engine.view().node_views().remove(0).clock_off_s, None, "nobody knows");
}

#[test]
fn labels_are_set_and_removed_and_bounded() {
    let mut bed = Bed::new(1);
    label(&mut bed, &[("role", Some("web")), ("zone", Some("a"))]).unwrap();
    label(&mut bed, &[("zone", None), ("rack", Some("")), ("never", None)]).unwrap();
    let wanted: BTreeMap<String, String> =
        [("role", "web"), ("rack", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(labels(&bed), wanted);
    let writes = bed.tables.writes;
    label(&mut bed, &[("role", Some("web"))]).unwrap();
    assert_eq!(bed.tables.writes, writes, "nothing changed");
    for wrong in ["", "a b", "a=b", "a,b", "ä", &"x".repeat(64)] {
        assert!(matches!(label(&mut bed, &[(wrong, Some("x"))]), Err(Refusal::Invalid(_))), "{wrong}");
    }
    assert!(matches!(label(&mut bed, &[("a", Some("x y"))]), Err(Refusal::Invalid(_))));
    let many: Vec<String> = (0..63).map(|n| format!("l{n}")).collect();
    let many: Vec<(&str, Option<&str>)> = many.iter().map(|key| (key.as_str(), Some("x"))).collect();
    let Err(Refusal::Invalid(why)) = label(&mut bed, &many) else { panic!("65 labels") };
    assert!(why.contains("65") && why.contains("64"), "{why}");
    bed.restart();
    assert_eq!(labels(&bed), wanted, "durable");
    let nobody = Request::LabelNode { node: "node-9".parse().unwrap(), labels: BTreeMap::new() };
    let Err(Refusal::NotFound(why)) = bed.ask(nobody) else { panic!("no such node") };
    assert!(why.contains("did you mean node-0?"), "{why}");
}

#[test]
fn a_revoked_node_is_cut_off_until_it_joins_with_its_own_token() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-1")).unwrap();
    bed.ask(Request::RevokeNode { node: node(0) }).unwrap();
    assert_eq!((bed.hosts[&node(0)].connection, bed.node_state(&node(0)).as_str()), (None, "revoked"));
    assert!(bed.engine.view().node_seal(&node(0)).is_none());
    assert_eq!(bed.resource("a").phase, "node_away");
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), bed.resource("a").phase.as_str()),
        ("CREATE_IN_PROGRESS", "node_away")
    );
    bed.ask(Request::RevokeNode { node: node(0) }).unwrap();
    bed.restart();
    assert_eq!(bed.node_state(&node(0)), "revoked");
    assert!(bed.engine.view().node_seal(&node(0)).is_none());
    let anywhere = Request::Create {
        name: "t".parse().unwrap(),
        source: template("c: x=1\n d: x=1"),
        options: options(),
    };
    bed.ask(anywhere).unwrap();
    let views = bed.engine.view().resource_views(&"t".parse().unwrap(), true).unwrap();
    assert!(views.iter().all(|view| view.node == "node-1"), "nothing new goes there: {views:?}");
    assert!(bed.try_join(&node(0), None).is_err(), "a token for any name is not enough");
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.connect(&node(1));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.node_state(&node(0)).as_str()), ("CREATE_COMPLETE", "online"));
}

#[test]
fn who_names_a_revoked_node_is_warned_or_refused_as_asked() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-1")).unwrap();
    bed.idle();
    bed.ask(Request::RevokeNode { node: node(0) }).unwrap();
    let source = || template("a: x=2 node=node-0\n b: x=2 node=node-1");
    let required = Options { require_nodes: true, ..options() };
    let refused = bed.ask(Request::Update { name: stack(), source: source(), options: required });
    let Err(Refusal::Conflict(why)) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "these nodes are revoked: node-0");
    let Answer::Stack { warnings, .. } = bed.update(source()).unwrap() else { panic!("a stack") };
    assert_eq!(warnings, ["node node-0 is revoked and is waited for"]);
}

#[test]
fn a_token_that_was_open_for_a_revoked_name_is_worth_nothing() {
    let mut bed = Bed::new(1);
    bed.token(Some("node-0"), 5);
    bed.token_of([2; 8], None, 5);
    bed.ask(Request::RevokeNode { node: node(0) }).unwrap();
    let open: Vec<Option<String>> =
        bed.engine.view().token_views().into_iter().map(|token| token.name).collect();
    assert_eq!(open, [None]);
    assert_eq!(bed.tables.tokens.len(), 1);
}

#[test]
fn a_delete_ends_with_the_removal_of_the_node_it_waits_for() {
    // The node is cleaned up when it returns.
    for restart in [false, true] {
        let mut bed = Bed::new(2);
        bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-1 | a\n c: x=1 node=node-0 | a")).unwrap();
        bed.idle();
        bed.disconnect(&node(0));
        bed.delete().unwrap();
        bed.idle();
        assert_eq!(bed.status(), "DELETE_IN_PROGRESS");
        assert_eq!(bed.remove(&node(0)), ["a", "c"]);
        assert_eq!((bed.status().as_str(), bed.node_state(&node(0)).as_str()), ("gone", "lost"));
        assert_eq!(bed.tables.rows.len(), 2, "nothing is forgotten");
        assert!(bed.tables.rows.values().all(|row| row.stack == 0 && row.lost_from == Some(stack())));
        if restart {
            bed.restart();
            bed.connect(&node(1));
        }
        assert_eq!(bed.lost(&node(0)), ["a ", "c "]);
        assert!(bed.try_join(&node(0), None).is_err(), "a token for any name is not enough");
        bed.rejoin(&node(0));
        assert_eq!(bed.node_state(&node(0)), "offline");
        bed.ran.clear();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(bed.ran, ["Delete c", "Delete a"], "who needed another goes first");
        assert!(bed.reality().is_empty() && bed.tables.rows.is_empty() && bed.tables.edges.is_empty());
        assert_eq!((bed.lost(&node(0)).len(), bed.node_state(&node(0)).as_str()), (0, "online"));
    }
}

#[test]
fn a_wanted_resource_is_recreated_after_its_node_is_cleaned_up() {
    for restart in [false, true] {
        let mut bed = Bed::new(2);
        bed.create(template("a: x=1 node=node-0\n b: x=@a.x node=node-1\n c: x=1 node=node-1")).unwrap();
        bed.idle();
        let old = bed.resource("a").physical_id;
        assert_eq!(bed.remove(&node(0)), ["a"]);
        if restart {
            bed.restart();
            bed.connect(&node(1));
        }
        assert_eq!(bed.status(), "UPDATE_IN_PROGRESS");
        assert!(bed.view().unwrap().status_reason.contains("node-0"));
        assert_eq!(
            (bed.resource("a").phase.as_str(), bed.resource("b").waits_for),
            ("node_away", vec!["a".into()])
        );
        assert_ne!(bed.resource("a").physical_id, old);
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_IN_PROGRESS");
        bed.ran.clear();
        bed.rejoin(&node(0));
        bed.connect(&node(0));
        assert_eq!(bed.hosts[&node(0)].queue.len(), 1, "the clean-up alone");
        bed.idle();
        assert_eq!(bed.ran, ["Delete a", "Create a"], "b is as it was");
        assert_eq!(
            (bed.status().as_str(), bed.reality().len(), bed.lost(&node(0)).len()),
            ("UPDATE_COMPLETE", 3, 0)
        );
        assert_eq!(bed.view().unwrap().revision, 1);
        bed.rollback(Some(0)).unwrap();
        bed.idle();
        assert_eq!(
            bed.reality().len(),
            0,
            "the one COMPLETE revision is the first: before it there was nothing"
        );
    }
}

#[test]
fn a_new_revision_puts_elsewhere_what_was_on_a_removed_node() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0")).unwrap();
    bed.idle();
    bed.remove(&node(0));
    let Answer::Stack { warnings, .. } =
        bed.update(template("a: x=1 node=node-0\n b: x=1 node=node-1")).unwrap()
    else {
        panic!("a stack")
    };
    assert_eq!(warnings[1..], ["node node-0 was removed and is waited for"]);
    bed.update(template("a: x=1 node=node-1")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("a").node.as_str()), ("UPDATE_COMPLETE", "node-1"));
    assert_eq!(bed.lost(&node(0)), ["a "]);
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.reality().len(), 1);
}

#[test]
fn what_may_be_anywhere_gets_another_node() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1\n b: x=1\n c: x=1 | a b")).unwrap();
    bed.idle();
    let gone: NodeId = bed.resource("a").node.parse().unwrap();
    let lost = bed.remove(&gone);
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert!(bed.resources().iter().all(|row| row.node != gone.as_str() && row.observed == "in_sync"));
    assert_eq!(bed.tables.rows.len(), 3 + lost.len());
}

/// For each state of the jobs of node-0 at its removal: the lost resources, and the result of the
/// stack once the node is back.
#[test]
fn a_removal_at_any_point_of_a_job() {
    type Prepare = fn(&mut Bed);
    let one_at_a_time = Limits { in_flight_per_node: 1, ..Limits::default() };
    let cases: [(&str, Prepare, &[&str]); 9] = [
        ("never sent: the node was away", |_| {}, &[]),
        ("the second waits for room", |_| {}, &["a"]),
        (
            "sent, and the agent never had it",
            |bed| bed.hosts.get_mut(&node(0)).unwrap().queue.clear(),
            &["a"],
        ),
        ("in backoff", |bed| bed.fail_next(&node(0), false), &["a", "b"]),
        ("failed", |bed| bed.fail_next(&node(0), true), &["a", "b"]),
        (
            "failed once, then away",
            |bed| {
                bed.fail_next(&node(0), false);
                bed.disconnect(&node(0));
                bed.pass(Duration::from_secs(2));
            },
            &["a", "b"],
        ),
        ("done and sent", |bed| assert!(bed.run_at(&node(0), 0)), &["a", "b"]),
        (
            "withdrawing",
            |bed| {
                bed.hosts.get_mut(&node(0)).unwrap().connection = None; // nothing arrives any more
                bed.update(template("a: x=2 node=node-0 | b\n b: x=1 node=node-0")).unwrap();
            },
            &["a"],
        ),
        ("complete", Bed::idle, &["a", "b"]),
    ];
    for (name, prepare, lost) in cases {
        for restart in [false, true] {
            let mut bed = Bed::with(2, one_at_a_time);
            if lost.is_empty() {
                bed.disconnect(&node(0));
            }
            bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-0\n c: x=1 node=node-1 | a b"))
                .unwrap();
            prepare(&mut bed);
            assert_eq!(bed.remove(&node(0)), lost, "{name}");
            if restart {
                bed.restart();
                bed.connect(&node(1));
            }
            bed.idle();
            bed.update(template("a: x=3 node=node-0\n b: x=3 node=node-0\n c: x=3 node=node-1 | a b"))
                .unwrap();
            bed.idle();
            assert_eq!(bed.status(), "UPDATE_IN_PROGRESS", "{name}");
            bed.rejoin(&node(0));
            bed.connect(&node(0));
            bed.idle();
            assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 3), "{name}");
            assert!(bed.lost(&node(0)).is_empty(), "{name}");
            bed.delete().unwrap();
            bed.idle();
            assert!(bed.reality().is_empty() && bed.tables.rows.is_empty(), "{name}");
        }
    }
}

#[test]
fn a_failed_clean_up_is_listed_retried_and_blocks_nothing_else() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1 | a\n c: x=1")).unwrap();
    bed.idle();
    bed.delete().unwrap();
    bed.remove(&node(0));
    assert_eq!(bed.status(), "gone");
    bed.create(template("d: x=1 node=node-0")).unwrap();
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    assert_eq!(bed.hosts[&node(0)].queue.len(), 2, "b and c, and not d");
    bed.fail_next(&node(0), true);
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(
        bed.lost(&node(0)),
        ["a it is needed by b, which could not be cleaned up", "b refused"],
        "c is gone"
    );
    bed.restart();
    assert_eq!(bed.lost(&node(0)).len(), 2);
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.lost(&node(0)).len(), bed.tables.rows.len()), (0, 1));
}

#[test]
fn a_server_with_an_empty_disk_has_nothing_to_clean_up() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a x\n b: /b y | a")).unwrap();
    bed.idle();
    bed.remove(&node(0));
    *bed.hosts.get_mut(&node(0)).unwrap() = Host::default();
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.lost(&node(0)).len()), ("UPDATE_COMPLETE", 0));
    assert_eq!(bed.disk(), ["/a x", "/b y"]);
}

#[test]
fn a_claim_of_a_lost_resource_is_free() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a x")).unwrap();
    bed.idle();
    bed.update(files("b: /a y")).unwrap();
    bed.run_at(&node(0), 0);
    bed.remove(&node(0));
    let other = "t".parse().unwrap();
    let Err(Refusal::Conflict(_)) =
        bed.ask(Request::Create { name: other, source: files("c: /a z"), options: options() })
    else {
        panic!("b claims it, wherever it is")
    };
    bed.update(files("c: /a z")).unwrap();
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.disk()), ("UPDATE_COMPLETE", vec!["/a z".to_owned()]));
    assert!(bed.lost(&node(0)).is_empty());
}

#[test]
fn a_replaced_pair_on_a_removed_node() {
    for done in [0, 1, 2] {
        let mut bed = Bed::new(2);
        bed.create(template("a: !x=1 node=node-0\n b: y=@a.!x node=node-1")).unwrap();
        bed.idle();
        bed.update(template("a: !x=2 node=node-0\n b: y=@a.!x node=node-1")).unwrap();
        for _ in 0..done {
            let busy = [0, 1].map(node).into_iter().find(|name| !bed.hosts[name].queue.is_empty()).unwrap();
            bed.run_at(&busy, 0);
        }
        assert_eq!(bed.remove(&node(0)), ["a", "a"], "{done}");
        assert_eq!(bed.resource("a").physical_id.len(), 36);
        bed.rejoin(&node(0));
        bed.connect(&node(0));
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 2), "{done}");
        assert!(bed.reality().iter().all(|(_, values)| values.values().all(|value| value == "2")), "{done}");
    }
}

#[test]
fn a_node_can_be_removed_once_and_only_if_it_ever_joined() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=waited-for")).unwrap();
    bed.idle();
    bed.remove(&node(0));
    let why = |bed: &mut Bed, name: &str| {
        bed.ask(Request::RemoveNode { node: name.parse().unwrap() }).unwrap_err().to_string()
    };
    assert!(why(&mut bed, "node-0").contains("was removed before"));
    assert!(why(&mut bed, "waited-for").contains("1 resources wait for it"));
    assert!(why(&mut bed, "node-11").contains("did you mean node-1?"));
    assert!(matches!(bed.ask(Request::RevokeNode { node: node(0) }), Err(Refusal::NotFound(_))));
    bed.remove(&node(1));
    assert_eq!(bed.node_state(&node(1)), "none", "nothing was on it");
}

#[test]
fn what_the_old_connection_says_changes_nothing() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    let (job, old) = (bed.hosts[&node(0)].queue[0].clone(), bed.hosts[&node(0)].connection);
    bed.remove(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().connection = old;
    let writes = bed.tables.writes;
    let report = Report { key: job.key(), outcome: Outcome::Done(Observed::default()) };
    bed.receive(&node(0), Up::Report(report));
    assert_eq!((bed.tables.writes, bed.lost(&node(0)).len()), (writes, 1));
}

#[test]
fn what_a_node_says_of_anothers_job_changes_nothing() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0")).unwrap();
    let key = bed.hosts[&node(0)].queue[0].key();
    let seen = |bed: &Bed| (bed.tables.writes, bed.resource("a").phase, bed.status());
    let before = seen(&bed);
    let failed = Outcome::Failed { reason: "a lie".into(), permanent: true };
    for outcome in [Outcome::Done(Observed::default()), failed, Outcome::Withdrawn] {
        bed.receive(&node(1), Up::Report(Report { key, outcome }));
    }
    bed.receive(&node(1), Up::Progress(Progress { key, settling: true }));
    bed.receive(&node(1), Up::Jobs(vec![JobState { key, stage: Stage::Running }]));
    assert_eq!(seen(&bed), before);
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn stack_events_say_what_a_removal_left_and_what_became_of_it() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-0")).unwrap();
    bed.idle();
    bed.remove(&node(0));
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    let said = |bed: &Bed, what: &str| bed.tables.reasons.iter().any(|reason| reason == what);
    assert!(
        said(&bed, "node node-0 was removed; may be left on it: a, b; will be recreated: a, b"),
        "{:?}",
        bed.tables.reasons
    );
    assert!(said(&bed, "a, which node node-0 had when it was removed, was cleaned up"));
}

#[test]
fn a_hook_waits_again_after_a_removed_node_returns() {
    // The hook belongs to a row of the removed node, or to a row that needs one.
    // `b`, which needs `a`, or `a` itself waits at a hook on node-1. The node of `a` is removed.
    for hooks in ["b: {hooks: pre-create}", "b: {hooks: post-create}", "a: {hooks: post-create}"] {
        for restart in [false, true] {
            let mut bed = Bed::new(2);
            let source = template("a: x=1 node=node-0\n b: x=1 node=node-1 | a\n c: x=1 node=node-1 | b");
            bed.create(under(source, hooks)).unwrap();
            bed.idle();
            assert_eq!(bed.remove(&node(0)), ["a"]);
            if restart {
                bed.restart();
                bed.connect(&node(1));
            }
            assert_eq!(
                (bed.resource("a").phase.as_str(), bed.resource("b").phase.as_str()),
                ("node_away", "waiting")
            );
            bed.rejoin(&node(0));
            bed.connect(&node(0));
            bed.idle();
            let (name, hook) = hooks.split_once(": {hooks: ").unwrap();
            assert_eq!(
                (bed.status().as_str(), bed.resource(name).phase.as_str()),
                ("CREATE_IN_PROGRESS", "hook")
            );
            bed.clear(name, crate::Hook::from_name(hook.trim_end_matches('}')).unwrap()).unwrap();
            bed.idle();
            assert_eq!((bed.status().as_str(), bed.reality().len()), ("CREATE_COMPLETE", 3), "{hooks}");
        }
    }
    let mut bed = Bed::new(2);
    bed.create(under(template("a: x=1 node=node-0\n b: x=1 node=node-1 | a"), "'*': {hooks: pre-delete}"))
        .unwrap();
    bed.idle();
    bed.delete().unwrap();
    bed.clear("b", crate::Hook::PreDelete).unwrap();
    bed.idle();
    assert_eq!(bed.remove(&node(0)), ["a"], "it waited at its hook");
    assert_eq!(bed.status(), "gone");
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert!(bed.reality().is_empty());
}

#[test]
fn a_token_with_a_rate_has_them_join_one_after_the_other() {
    let mut bed = Bed::new(0);
    bed.token_at([1; 8], None, 5, Some("1/s"));
    let join = |bed: &mut Bed, index: usize| bed.ask(Request::Join(ask_to_join(&node(index), 0)));
    let later = |joined: Result<Answer, Refusal>| match joined {
        Err(Refusal::Later { why, after }) => {
            assert_eq!(why, "the join token lets 1/s join, and others come first");
            after.as_secs()
        }
        other => panic!("{other:?}"),
    };
    join(&mut bed, 0).unwrap();
    // The next node waits for its turn. Neither a wait nor a lost answer uses up the token.
    assert_eq!((later(join(&mut bed, 1)), later(join(&mut bed, 2))), (1, 2));
    join(&mut bed, 0).unwrap();
    assert_eq!(bed.tables.tokens[&[1; 8]].uses_left, 4);
    assert_eq!(bed.tables.nodes.len(), 1);
    bed.pass(Duration::from_secs(1));
    join(&mut bed, 1).unwrap();
    assert!(later(join(&mut bed, 2)) > 0);
    // After a restart the pace starts over, at the same rate.
    bed.restart();
    join(&mut bed, 2).unwrap();
    assert!(later(join(&mut bed, 3)) > 0);
    assert_eq!(bed.engine.view().token_views()[0].rate.unwrap().to_string(), "1/s");
    // A join that can never succeed is refused at once.
    bed.pass(Duration::from_secs(1));
    bed.token_at([1; 8], Some("web-*"), 5, Some("1/s"));
    assert!(matches!(join(&mut bed, 3), Err(Refusal::Conflict(_))));
}

#[test]
fn a_second_greeting_ends_the_connection_and_is_ignored() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    let connection = bed.hosts[&node(0)].connection.unwrap();
    let sent = bed.hosts[&node(0)].queue.len();
    let hello = Hello {
        boot_id: 1,
        instance: None,
        address: None,
        agent_version: "t".into(),
        reads: 0,
        epoch: Epoch(0).into(),
        ledger: 0,
    };
    bed.receive(&node(0), Up::Hello(hello.clone()));
    assert_eq!(bed.hosts[&node(0)].connection, None, "closed");
    bed.input(Input::Received { node: node(0), connection, message: Up::Hello(hello) });
    assert_eq!(bed.hosts[&node(0)].queue.len(), sent, "it is answered with nothing");
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn a_welcome_says_how_much_the_controller_reads() {
    let mut bed = Bed::new(1);
    for (reads, wanted) in [(0, 0), (READS_WELCOME - 1, 0), (READS_WELCOME, CONTROLLER_READS)] {
        bed.disconnect(&node(0));
        bed.hosts.get_mut(&node(0)).unwrap().reads = Some(reads);
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(bed.hosts[&node(0)].controller_reads, wanted, "to an agent that reads {reads}");
    }
}

/// The link numbers a connection and reports it in two steps. So it may report two connections of
/// one node in the wrong order.
#[test]
fn the_newest_connection_counts_in_whatever_order_they_are_told() {
    let mut bed = Bed::new(1);
    let name = node(0);
    bed.disconnect(&name);
    let hello = || Hello {
        boot_id: 1,
        instance: None,
        address: None,
        agent_version: "t".into(),
        reads: 0,
        epoch: Epoch(0).into(),
        ledger: 0,
    };
    let said = |connection, message| Input::Received { node: node(0), connection, message };
    bed.input(Input::Connected { node: name.clone(), connection: 60 });
    bed.input(said(60, Up::Hello(hello())));
    bed.input(Input::Connected { node: name.clone(), connection: 50 });
    bed.input(said(50, Up::Hello(hello())));
    bed.input(Input::Disconnected { node: name.clone(), connection: 50 });
    bed.hosts.get_mut(&name).unwrap().connection = Some(60);
    bed.create(template("a: x=1")).unwrap();
    bed.run_at(&name, 0);
    assert_eq!(bed.status(), "CREATE_COMPLETE", "jobs go to the newer connection");
    bed.input(said(50, Up::Heartbeat { drift: None }));
    assert!(bed.hosts[&name].connection.is_some(), "an older one is ended by the link");
    // The engine was not told of this connection. Its agent would wait for ever.
    bed.input(said(61, Up::Heartbeat { drift: None }));
    assert!(bed.hosts[&name].connection.is_none(), "it is closed");
}

fn token(number: u8, expires: u64) -> NewToken {
    NewToken {
        id: [number; 8],
        secret_hash: [number; 32],
        expires,
        uses: 1,
        name: Some("web".into()),
        labels: BTreeMap::new(),
        rate: None,
    }
}

#[test]
fn expired_tokens_make_room_for_new_ones() {
    let limits = Limits { tokens_max: 3, ..Limits::default() };
    let mut bed = Bed::with(0, limits);
    let mut make = |number, wall| bed.ask(Request::NewToken { token: token(number, 10), wall });
    (1..=3).for_each(|number| drop(make(number, 5).unwrap()));
    let Err(Refusal::Conflict(why)) = make(4, 10) else { panic!("a fourth") };
    assert!(why.starts_with("3 join tokens are open"), "{why}");
    make(4, 11).unwrap();
    assert_eq!(bed.tables.tokens.len(), 1, "the others are gone from the store as well");
}

#[test]
fn names_that_nothing_refers_to_give_their_places_back() {
    let limits = Limits { nodes_max: 3, ..Limits::default() };
    let mut bed = Bed::with(1, limits);
    let on = |first: usize| format!("a: x=1 node=node-{first}\n b: x=1 node=node-{}", first + 1);
    for first in [10, 20, 30] {
        bed.create(template(&on(first))).unwrap();
        bed.delete().unwrap();
        bed.idle();
        assert_eq!(bed.status(), "gone", "what never left is not waited for");
    }
    bed.create(template(&on(40))).unwrap();
    let Err(Refusal::Conflict(why)) = bed.update(template(&(on(40) + "\n c: x=1 node=node-42"))) else {
        panic!("a fourth")
    };
    assert!(why.contains("too many nodes"), "{why}");
    bed.update(template("a: x=1 node=node-0")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 1));
}

/// A site with this many rows on another node as well.
fn site_of(others: usize) -> Bed {
    let mut bed = Bed::new(2);
    let rows: Vec<String> = (0..others).map(|at| format!("o{at:04}: x=1 node=node-1\n")).collect();
    bed.create(template(&format!("a: x=1 node=node-0\n b: x=1 node=node-0\n {}", rows.join(" ")))).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    bed.engine.traversals.jobs.graph.ctx.visits = 0;
    bed
}

#[test]
fn a_ledger_is_compared_with_the_rows_of_its_node_alone() {
    for others in [10, 200] {
        let mut bed = site_of(others);
        bed.disconnect(&node(0));
        bed.hosts.get_mut(&node(0)).unwrap().things.clear();
        bed.connect(&node(0));
        assert_eq!(
            bed.hosts[&node(0)].queue.len(),
            2,
            "its whole ledger was asked for, and what it lost is made again"
        );
        // Visits of the node's two rows, and of the job that makes a row again.
        assert!(
            bed.engine.traversals.jobs.graph.ctx.visits <= 6,
            "{} visits beside {others} rows",
            bed.engine.traversals.jobs.graph.ctx.visits
        );
    }
}

#[test]
fn a_node_is_removed_by_the_rows_that_are_on_it() {
    for others in [10, 200] {
        let mut bed = site_of(others);
        bed.disconnect(&node(0));
        bed.ask(Request::RemoveNode { node: node(0) }).unwrap();
        assert!(
            bed.engine.traversals.jobs.graph.ctx.visits <= 12,
            "{} visits beside {others} rows",
            bed.engine.traversals.jobs.graph.ctx.visits
        );
    }
}
