//! Moves to other sites: what is refused, and how each answer of an agent ends.

use std::time::Duration;

use muster_shared::join::{JoinToken, TokenId, TokenSecret};
use muster_shared::model::{LedgerEntry, MoveOutcome, Up};
use muster_shared::{Epoch, EpochId, Generation, NodeId, ResourceId};

use super::bed::{Bed, ask_to_join, files, node, template};
use super::flow_tables::{device, id, rule};
use super::restored::states;
use crate::{Answer, JoinAsk, Refusal, Request};

fn request(node: &NodeId) -> Request {
    let token = JoinToken {
        site: "lab-b".parse().unwrap(),
        addresses: vec!["b:8883".parse().unwrap()],
        ca_fingerprint: [6; 32],
        id: TokenId([9; 8]),
        secret: TokenSecret([9; 16]),
        expires: 300,
        broker: None,
    };
    Request::MoveNode { node: node.clone(), token: Box::new(token) }
}

/// A node whose agent was asked to move, and the number of the operator's request.
fn moving() -> (Bed, u64) {
    let mut bed = Bed::new(1);
    let asked = bed.put(request(&node(0)));
    assert_eq!((bed.hosts[&node(0)].moves, bed.answers.get(&asked)), (1, None));
    (bed, asked)
}

fn stays(bed: &mut Bed, reason: &str) {
    bed.receive(&node(0), Up::Moved(MoveOutcome::Stays { reason: reason.into() }));
}

fn refusal(answer: Option<Result<Answer, Refusal>>) -> String {
    match answer {
        Some(Err(Refusal::Conflict(why))) => why,
        other => panic!("{other:?}"),
    }
}

/// Each with how the site comes to that state, and what its operator is told to do.
#[test]
fn a_move_is_refused_where_something_of_the_site_is_on_the_node() {
    type Case = (&'static str, fn(&mut Bed), &'static [&'static str]);
    let cases: [Case; 7] = [
        ("offline", |bed| bed.disconnect(&node(0)), &["is not connected", "muster node show node-0"]),
        (
            "an older agent",
            |bed| {
                bed.disconnect(&node(0));
                bed.hosts.get_mut(&node(0)).unwrap().is_old = true;
                bed.connect(&node(0));
            },
            &["node-0 runs muster-agent t, a move needs 0.2.0: upgrade the agent"],
        ),
        (
            "under way",
            |bed| {
                bed.put(request(&node(0)));
            },
            &["moves to site 'lab-b' already"],
        ),
        (
            "a resource",
            |bed| {
                bed.create(files("a: /a")).unwrap();
                bed.idle();
            },
            &["has resources of these stacks: s.", "deletion_policy: retain"],
        ),
        (
            "a resource whose job was not sent",
            |bed| drop(bed.create(files("a: /a")).unwrap()),
            &["has resources of these stacks: s."],
        ),
        (
            "a clean-up",
            |bed| {
                bed.create(files("a: /a")).unwrap();
                bed.idle();
                bed.remove(&node(0));
                bed.ask(Request::Delete { name: "s".parse().unwrap() }).unwrap();
                bed.rejoin(&node(0));
                bed.connect(&node(0));
            },
            &["is being cleaned up (1 resources"],
        ),
        (
            "rules of an operator",
            |bed| {
                bed.apply_rules(&device(0), &[rule(1, 1), rule(2, 1)]);
                bed.idle();
            },
            &["has flow rules on node-0/br0 (2 rules).", "muster flow purge"],
        ),
    ];
    for (what, happens, words) in cases {
        let mut bed = Bed::new(1);
        happens(&mut bed);
        let moves = bed.hosts[&node(0)].moves;
        let why = refusal(Some(bed.ask(request(&node(0)))));
        assert!(words.iter().all(|word| why.contains(word)), "{what}: {why}");
        assert_eq!(bed.hosts[&node(0)].moves, moves, "{what}: the agent is not asked");
        assert!(!why.contains("9, 9"), "{what}: {why}");
    }
    let mut bed = Bed::new(1);
    let Err(Refusal::NotFound(why)) = bed.ask(request(&node(7))) else { panic!("no such node") };
    assert!(why.contains("did you mean node-0?"), "{why}");
}

/// Things that were removed from a node do not hold back its move.
#[test]
fn a_node_that_was_emptied_moves() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a")).unwrap();
    bed.apply_rules(&device(0), &[rule(1, 1)]);
    bed.idle();
    bed.delete().unwrap();
    bed.remove_rules(&device(0), &[id(&device(0), 1)]);
    bed.idle();
    bed.put(request(&node(0)));
    assert_eq!(bed.hosts[&node(0)].moves, 1);
}

#[test]
fn a_node_that_left_is_removed_without_a_job() {
    let (mut bed, asked) = moving();
    bed.token(Some("node-0"), 1);
    bed.token_of([2; 8], Some("node-*"), 1);
    bed.receive(&node(0), Up::Moved(MoveOutcome::Left));
    assert_eq!(bed.answers.remove(&asked), Some(Ok(Answer::Done)));
    assert_eq!((bed.node_state(&node(0)).as_str(), bed.hosts[&node(0)].connection), ("none", None));
    assert!(bed.hosts[&node(0)].queue.is_empty() && bed.ran.is_empty());
    assert!(bed.engine.view().node_seal(&node(0)).is_none());
    let tokens: Vec<_> = bed.engine.view().token_views().into_iter().map(|token| token.name).collect();
    assert_eq!(tokens, [Some("node-*".to_owned())], "its own are gone");
    assert!(
        bed.warnings.iter().any(|text| text == "node node-0 has moved to site 'lab-b': it is removed here")
    );
    bed.restart();
    assert_eq!(bed.node_state(&node(0)), "none", "that is durable");
    bed.connect(&node(0));
    assert_eq!(bed.hosts[&node(0)].connection, None);
}

#[test]
fn a_node_that_stays_goes_on() {
    let (mut bed, asked) = moving();
    bed.create(template("a: x=1 node=node-0")).unwrap();
    bed.idle();
    assert!(bed.ran.is_empty(), "no job while it moves");
    stays(&mut bed, "it cannot join site 'lab-b': no answer");
    let why = refusal(bed.answers.remove(&asked));
    assert_eq!(why, "node 'node-0' stays in this site: it cannot join site 'lab-b': no answer");
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.node_state(&node(0)).as_str()), ("CREATE_COMPLETE", "online"));
    bed.delete().unwrap();
    bed.idle();
    bed.put(request(&node(0)));
    assert_eq!(bed.hosts[&node(0)].moves, 2, "it may be asked again");
}

#[test]
fn an_operator_learns_where_to_look_when_no_answer_comes() {
    for (what, happens) in [
        ("was disconnected during its move", (|bed| bed.disconnect(&node(0))) as fn(&mut Bed)),
        ("was disconnected during its move", |bed| {
            drop(bed.ask(Request::RevokeNode { node: node(0) }).unwrap());
        }),
        ("has not said how its move ended", |bed| bed.pass(Duration::from_secs(90))),
    ] {
        let (mut bed, asked) = moving();
        bed.pass(Duration::from_secs(89));
        assert_eq!(bed.answers.get(&asked), None, "{what}");
        happens(&mut bed);
        let why = refusal(bed.answers.remove(&asked));
        assert!(why.contains(what) && why.contains("muster node remove node-0"), "{why}");
        assert!(bed.engine.view().node_views().len() == 1, "{what}: it is not removed");
    }
}

/// The operator no longer waits, and the agent is heard all the same.
#[test]
fn a_late_answer_counts_and_one_that_nobody_asked_for_does_not() {
    let (mut bed, _) = moving();
    bed.pass(Duration::from_secs(100));
    bed.receive(&node(0), Up::Moved(MoveOutcome::Left));
    assert_eq!(bed.node_state(&node(0)), "none");
    let mut bed = Bed::new(1);
    bed.receive(&node(0), Up::Moved(MoveOutcome::Left));
    assert_eq!(bed.node_state(&node(0)), "online");
    let (mut bed, _) = moving();
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.receive(&node(0), Up::Moved(MoveOutcome::Left));
    assert_eq!(bed.node_state(&node(0)), "online", "nobody asked on this connection");
}

/// A resource that came while the node moved, and whose job never left, is no lost one.
#[test]
fn a_resource_of_a_departed_node_waits_for_its_return() {
    let (mut bed, _) = moving();
    bed.create(template("a: x=1 node=node-0")).unwrap();
    bed.receive(&node(0), Up::Moved(MoveOutcome::Left));
    bed.idle();
    assert!(bed.ran.is_empty() && bed.lost(&node(0)).is_empty());
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

fn comes(bed: &mut Bed, name: &NodeId, key: u8) -> Result<Answer, Refusal> {
    bed.token(Some(name.as_str()), 1);
    bed.ask(Request::Join(JoinAsk { moves: true, ..ask_to_join(name, key) }))
}

#[test]
fn a_node_that_comes_takes_nobodys_place() {
    let mut bed = Bed::new(1);
    let why = refusal(Some(comes(&mut bed, &node(0), 7)));
    assert!(
        why.contains("has a node 'node-0' already") && why.contains("muster node remove node-0"),
        "{why}"
    );
    assert_eq!(bed.node_state(&node(0)), "online");
    // Its things would be taken for what was left on the other one.
    bed.create(files("a: /a")).unwrap();
    bed.idle();
    bed.remove(&node(0));
    assert!(comes(&mut bed, &node(0), 7).is_err());
    assert_eq!(comes(&mut bed, &node(1), 7), Ok(Answer::Joined { node: node(1) }));
    // The answer was lost, and is asked for again.
    let again = JoinAsk { moves: true, ..ask_to_join(&node(1), 7) };
    assert_eq!(bed.ask(Request::Join(again)), Ok(Answer::Joined { node: node(1) }));
}

/// The ledger of a node from another site has higher epochs, and things that this store has no row of.
#[test]
fn what_a_node_brings_along_is_listed_and_stays() {
    let mut bed = Bed::new(0);
    comes(&mut bed, &node(0), 7).unwrap();
    bed.hosts.entry(node(0)).or_default();
    let (spec, file) = {
        let mut other = Bed::new(1);
        other.create(files("a: /a")).unwrap();
        other.idle();
        let host = other.hosts.remove(&node(0)).unwrap();
        (host.things.into_values().next().unwrap().0, host.files)
    };
    let resource = ResourceId(uuid::Uuid::from_u128(77));
    let entry = LedgerEntry { resource, generation: Generation { epoch: Epoch(900), number: 5 } };
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things.insert(resource, (spec, entry));
    host.files = file;
    bed.connect_as(&node(0), EpochId::default(), Some(1));
    bed.idle();
    let site = bed.engine.view().site_view();
    assert_eq!((site.restored, states(&bed)), (false, vec![" unknown".to_owned()]));
    assert_eq!((bed.disk(), bed.ran.len()), (vec!["/a hello".to_owned()], 0));
    // A stack that names the path takes it.
    bed.create(files("a: /a")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.disk()), ("CREATE_COMPLETE", vec!["/a hello".to_owned()]));
}
