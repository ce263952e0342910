//! Moves to another site: what keeps a node here, what is told, and what is not done any more once it has left.

use std::time::Duration;

use muster_shared::join::{JoinToken, TokenId, TokenSecret};
use muster_shared::model::{Action, Down, MoveOutcome, Up};

use super::flow_node::{FlowNode, ops};
use super::node::{Node, create, done, dummy, job, key};
use crate::Input;

fn token(site: &str) -> JoinToken {
    JoinToken {
        site: site.parse().unwrap(),
        addresses: vec!["b:8883".parse().unwrap()],
        ca_fingerprint: [6; 32],
        id: TokenId([1; 8]),
        secret: TokenSecret([2; 16]),
        expires: 300,
        broker: None,
    }
}

fn ask(bed: &mut Node) {
    bed.down(Down::Move(Box::new(token("lab-b"))));
}

/// The driver's answer to the only join.
fn joined(bed: &mut Node, joined: Result<(), &str>) {
    let (number, token) = bed.joins.pop().expect("it joins");
    assert_eq!((token.site.as_str(), bed.joins.len()), ("lab-b", 0));
    bed.input(Input::Joined { number, joined: joined.map_err(str::to_owned) });
}

fn changed(bed: &mut Node, changed: Result<(), &str>) {
    assert!(bed.changes.pop().is_some() && bed.changes.is_empty());
    bed.input(Input::SiteChanged(changed.map_err(str::to_owned)));
}

/// The outcome told since the last call.
fn outcome(bed: &mut Node) -> Option<MoveOutcome> {
    let sent = std::mem::take(&mut bed.sent);
    let mut told = sent.into_iter().filter_map(|up| match up {
        Up::Moved(outcome) => Some(outcome),
        _ => None,
    });
    let first = told.next();
    assert_eq!(told.next(), None);
    first
}

fn stays(reason: &str) -> Option<MoveOutcome> {
    Some(MoveOutcome::Stays { reason: reason.into() })
}

/// The other site has to forget the node.
fn in_vain(reason: &str) -> Option<MoveOutcome> {
    stays(&format!("{reason}; it has joined site 'lab-b' already: remove it there before you try again"))
}

const BUSY: &str = "a job, or a document that was given on the server, is under way there";

#[test]
fn a_node_says_that_it_left_once_that_is_on_disk() {
    let mut bed = Node::online();
    ask(&mut bed);
    assert_eq!((bed.changes.len(), outcome(&mut bed)), (0, None));
    joined(&mut bed, Ok(()));
    assert_eq!(outcome(&mut bed), None, "not before it is on disk");
    changed(&mut bed, Ok(()));
    assert_eq!(outcome(&mut bed), Some(MoveOutcome::Left));
}

#[test]
fn every_failure_is_told_and_the_node_stays_and_works() {
    for step in ["joined", "changed"] {
        let mut bed = Node::online();
        ask(&mut bed);
        if step == "changed" {
            joined(&mut bed, Ok(()));
            changed(&mut bed, Err("it fails"));
        } else {
            joined(&mut bed, Err("it fails"));
        }
        let told = if step == "changed" { in_vain("it fails") } else { stays("it fails") };
        assert_eq!(outcome(&mut bed), told, "{step}");
        assert!(bed.changes.is_empty() && bed.warnings.iter().any(|text| text.contains("it fails")));
        bed.job(&create(1, 1));
        bed.ran(1, Ok(()));
        assert_eq!(bed.report().outcome, done());
        ask(&mut bed);
        assert_eq!(bed.joins.len(), 1, "it may be asked again");
    }
}

#[test]
fn what_is_under_way_keeps_a_node() {
    // A job when it is asked.
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    ask(&mut bed);
    assert_eq!((bed.joins.len(), outcome(&mut bed)), (0, stays(BUSY)));
    // One that came while it joined.
    let mut bed = Node::online();
    ask(&mut bed);
    bed.job(&create(1, 1));
    joined(&mut bed, Ok(()));
    assert_eq!((bed.changes.len(), outcome(&mut bed)), (0, in_vain(BUSY)));
    // Things that jobs have made keep no node.
    bed.ran(1, Ok(()));
    ask(&mut bed);
    assert_eq!((bed.joins.len(), outcome(&mut bed)), (1, None));
    // A second move, while it joins.
    ask(&mut bed);
    assert_eq!((bed.joins.len(), outcome(&mut bed)), (1, stays("it moves to site 'lab-b' already")));
}

/// Before it joins: the change could not be recorded, and the other site would wait for it in vain.
#[test]
fn a_full_disk_keeps_a_node() {
    let mut bed = Node::online();
    bed.input(Input::Room(Err("/var: no space left".into())));
    ask(&mut bed);
    let told = stays("its disk has no room for what the agent records");
    assert_eq!((bed.joins.len(), outcome(&mut bed)), (0, told));
    bed.input(Input::Room(Ok(())));
    ask(&mut bed);
    assert_eq!(bed.joins.len(), 1);
}

#[test]
fn flow_rules_keep_a_node() {
    let mut bed = FlowNode::new();
    bed.batch(1, ops(&[(1, 1)], &[]));
    bed.settle();
    ask(&mut bed.bed);
    assert_eq!(outcome(&mut bed.bed), stays("the flow table of br0 is not empty"));
    bed.batch(2, ops(&[], &[1]));
    bed.settle();
    ask(&mut bed.bed);
    assert_eq!((bed.bed.joins.len(), outcome(&mut bed.bed)), (1, None));
}

/// The site could not know that the node went.
#[test]
fn a_node_that_is_cut_off_while_it_joins_stays() {
    let mut bed = Node::online();
    ask(&mut bed);
    bed.input(Input::Disconnected { reason: "lost".into() });
    bed.after(Duration::from_secs(60));
    bed.greet();
    joined(&mut bed, Ok(()));
    assert!(bed.changes.is_empty() && outcome(&mut bed).is_none());
    assert!(bed.warnings.iter().any(|text| text.contains("does not move to site 'lab-b'")));
    // An answer to an earlier join does not answer this one.
    ask(&mut bed);
    let (number, _) = bed.joins[0];
    bed.input(Input::Joined { number: number - 1, joined: Ok(()) });
    assert!(bed.changes.is_empty());
    joined(&mut bed, Ok(()));
    assert_eq!(bed.changes.len(), 1);
}

#[test]
fn a_node_that_has_left_takes_nothing_and_does_not_come_back() {
    let mut bed = Node::online();
    ask(&mut bed);
    joined(&mut bed, Ok(()));
    bed.job(&create(1, 1));
    changed(&mut bed, Ok(()));
    bed.job(&job(2, 2, Action::Create, dummy("1")));
    bed.down(Down::Withdraw { resource: key(3, 3, 0).resource, generation: key(3, 3, 0).generation });
    assert!(bed.runs.is_empty() && bed.disk.is_empty() && bed.reports().is_empty());
    let connects = bed.connects;
    bed.input(Input::Disconnected { reason: "the controller closed it".into() });
    bed.after(Duration::from_secs(3600));
    assert_eq!(bed.connects, connects);
}

/// The connection is lost while the change is on its way to disk: the node has left, and cannot say so.
#[test]
fn a_change_on_its_way_to_disk_goes_on() {
    let mut bed = Node::online();
    ask(&mut bed);
    joined(&mut bed, Ok(()));
    bed.input(Input::Disconnected { reason: "lost".into() });
    changed(&mut bed, Ok(()));
    bed.job(&create(1, 1));
    assert!(bed.runs.is_empty() && bed.disk.is_empty());
}

/// A controller other than the one that the agent obeys moves nothing.
#[test]
fn a_controller_that_has_not_greeted_moves_nothing() {
    let mut bed = Node::offline(Vec::new(), muster_shared::Epoch(1).into());
    bed.input(Input::Connected);
    ask(&mut bed);
    assert!(bed.joins.is_empty() && outcome(&mut bed).is_none());
}
