//! Things that the controller's store does not know: described, and removed by the ledger's own record.

use muster_shared::model::{
    Action, Content, Deployment, DeploymentAction, DeploymentGroup, DeploymentStep, Down, Job, OnInterrupt,
    Outcome, Report, Spec, Stray, Up,
};

use super::node::{Node, done, failed, file, generation, id, job, key, plain, welcome};
use crate::Input;

fn described(bed: &mut Node, ids: &[u128]) -> Vec<Stray> {
    bed.sent.clear();
    bed.down(Down::Describe(ids.iter().copied().map(id).collect()));
    match bed.sent.pop() {
        Some(Up::Described(strays)) => strays,
        other => panic!("{other:?}"),
    }
}

/// With the file `/etc/motd` as resource 1, of generation 1; before it there was something.
fn with_file() -> Node {
    let mut bed = Node::online();
    bed.apply_file(&job(1, 1, Action::Create, plain("/etc/motd")), "old");
    bed
}

#[test]
fn strays_are_described_by_what_they_are() {
    let mut bed = with_file();
    let config = Content::Inline(b"#!/bin/sh\n".to_vec());
    let step = DeploymentStep {
        actions: vec![DeploymentAction::Create, DeploymentAction::Delete],
        group: DeploymentGroup::Script,
        config,
    };
    let script = Spec::Deployment(Deployment {
        name: "setup".into(),
        steps: vec![step],
        inputs: [("password".to_owned(), "secret".to_owned())].into(),
        replace_on: Default::default(),
        outputs: Vec::new(),
        timeout: 1,
        on_interrupt: OnInterrupt::Fail,
    });
    bed.job(&job(2, 2, Action::Create, script));
    if !bed.captures.is_empty() {
        bed.captured(2, Ok(""));
    }
    bed.ran(2, Ok(()));
    // One that was never here, and one that is being made.
    bed.job(&job(4, 4, Action::Create, plain("/etc/issue")));
    let strays = described(&mut bed, &[2, 1, 3, 4]);
    let told: Vec<(&str, &str, bool)> =
        strays.iter().map(|it| (it.kind.as_str(), it.name.as_str(), it.is_removable)).collect();
    assert_eq!(told, [("OS::Heat::SoftwareDeployment", "setup", false), ("Muster::File", "/etc/motd", true)]);
    assert_eq!((strays[1].resource, strays[1].generation), (id(1), generation(1)));
}

#[test]
fn a_stray_is_deleted_like_a_job_and_its_earlier_state_is_known() {
    let mut bed = with_file();
    bed.down(Down::Remove(key(1, 7, 0)));
    let (job, before) = bed.runs[0].clone();
    assert_eq!((job.key(), job.action), (key(1, 7, 0), Action::Delete));
    assert!(matches!(&job.spec, Spec::File(file) if file.path == "/etc/motd"));
    assert_eq!(before.as_ref().map(|before| before.written()), Some(&b"old"[..]));
    assert_eq!(job.timeout, Job::time_for(&job.spec), "its time is its own");
    bed.ran(1, Ok(()));
    assert_eq!(bed.report(), Report { key: key(1, 7, 0), outcome: done() });
    bed.down(Down::Acknowledge(key(1, 7, 0)));
    assert!(bed.disk[&id(1)].is_tombstone());
    // Said again, by a controller that did not hear it.
    bed.down(Down::Remove(key(1, 7, 0)));
    bed.down(Down::Remove(key(1, 7, 1)));
    assert!(bed.runs.is_empty());
    assert_eq!(bed.reports().into_iter().map(|report| report.outcome).collect::<Vec<_>>(), [done(), done()]);
    bed.down(Down::Remove(key(1, 6, 0)));
    assert_eq!(bed.report().outcome, Outcome::Superseded { by: generation(7) });
}

/// At each write of the removal the agent is killed: it ends all the same, and is reported once it is
/// on disk.
#[test]
fn a_removal_survives_the_agent() {
    for survives in 0..=2 {
        let mut bed = with_file();
        bed.disk_is_quick = false;
        bed.down(Down::Remove(key(1, 7, 0)));
        if survives > 0 {
            bed.write_one();
            bed.ran(1, Ok(()));
            assert!(bed.reports().is_empty(), "nothing is told that is not on disk");
            bed.down(Down::Remove(key(1, 7, 0)));
            assert!(bed.reports().is_empty(), "nor when it is asked again");
        }
        if survives > 1 {
            bed.write_one();
        }
        let mut bed = bed.crash();
        bed.greet();
        bed.down(Down::Remove(key(1, 7, 0)));
        if survives < 2 {
            bed.ran(1, Ok(()));
        }
        assert!(bed.runs.is_empty());
        assert_eq!(bed.reports().pop().unwrap().outcome, done(), "after {survives} writes");
        assert!(!bed.disk[&id(1)].exists(), "after {survives} writes");
    }
}

#[test]
fn a_removal_that_failed_is_tried_again_with_what_is_there_then() {
    let mut bed = with_file();
    // The removal comes while an update runs, which fails: the file applied before counts again.
    let update = job(1, 2, Action::Update, file("/etc/motd", Content::Inline(b"newer".to_vec())));
    bed.job(&update);
    bed.down(Down::Remove(key(1, 7, 0)));
    bed.ran(1, Err(failed("no")));
    bed.reports();
    bed.ran(1, Err(failed("busy")));
    assert_eq!(bed.report().outcome, Outcome::Failed { reason: "busy".into(), permanent: false });
    // The same attempt has the same end, also after it is known.
    bed.down(Down::Remove(key(1, 7, 0)));
    assert_eq!(bed.report().outcome, Outcome::Failed { reason: "busy".into(), permanent: false });
    bed.down(Down::Remove(key(1, 7, 1)));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report(), Report { key: key(1, 7, 1), outcome: done() });
    assert!(bed.warnings.is_empty(), "{:?}", bed.warnings);
}

#[test]
fn a_withdrawn_removal_does_not_begin() {
    let mut bed = with_file();
    bed.down(Down::Withdraw { resource: id(1), generation: generation(7) });
    assert_eq!(bed.report().outcome, Outcome::Withdrawn);
    for attempt in 0..2 {
        bed.down(Down::Remove(key(1, 7, attempt)));
        assert_eq!(bed.report().outcome, Outcome::Withdrawn);
    }
    assert!(bed.runs.is_empty() && bed.disk[&id(1)].exists());
}

#[test]
fn nothing_is_removed_without_room_for_the_epoch() {
    let mut bed = with_file();
    bed.disk_is_quick = false;
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.after(std::time::Duration::from_secs(30));
    bed.input(Input::Connected);
    bed.down(welcome(2, false));
    bed.input(Input::Room(Err("no space left".into())));
    bed.fail_one();
    bed.sent.clear();
    bed.down(Down::Remove(key(1, 7, 0)));
    assert!(matches!(bed.report().outcome, Outcome::NoRoom { .. }));
    assert!(bed.runs.is_empty() && bed.disk[&id(1)].exists());
}

#[test]
fn the_nodes_own_document_is_no_stray() {
    let mut bed = Node::online();
    let local = muster_shared::ResourceId::LOCAL;
    let key = muster_shared::model::ReportKey { resource: local, ..key(1, 7, 0) };
    bed.down(Down::Remove(key));
    assert!(bed.reports().is_empty() && bed.warnings.len() == 1);
}
