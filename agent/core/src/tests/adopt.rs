//! Adoptions: compared before anything is recorded or applied. Surveys: answered on the connection that asked.

use std::time::Duration;

use muster_shared::model::network::NetworkDocument;
use muster_shared::model::{Action, Down, NetworkConfig, OnDelete, Outcome, Report, Spec, Survey, Up};

use super::node::{Node, done, dummy, generation, id, job, key, plain};
use crate::{Before, Found, Input};

fn differs() -> Found {
    Found::Differs { missing: false, reason: "mode".into() }
}

/// Resource 1 is to adopt a file, and is being compared.
fn adopting() -> Node {
    let mut bed = Node::online();
    bed.job(&job(1, 1, Action::Adopt, plain("/etc/motd")));
    assert_eq!((bed.checks.len(), bed.captures.len(), bed.runs.len()), (1, 0, 0));
    bed
}

#[test]
fn what_is_as_desired_is_held_from_then_on() {
    let mut bed = adopting();
    bed.checked(1, Found::AsDesired);
    assert!(bed.runs.is_empty(), "what is there comes first");
    bed.captured(1, Ok("old"));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report(), Report { key: key(1, 1, 0), outcome: done() });
    let entry = &bed.disk[&id(1)];
    assert_eq!(entry.applied.as_ref().map(|applied| applied.generation), Some(generation(1)));
    assert_eq!(entry.before(), Some(&Before::new(b"old".to_vec())));
    bed.job(&job(1, 2, Action::Delete, plain("/etc/motd")));
    assert_eq!(bed.runs[0].1, Some(Before::new(b"old".to_vec())), "a delete restores what was there");
}

#[test]
fn of_what_differs_nothing_is_held() {
    let mut bed = adopting();
    bed.checked(1, differs());
    let outcome = Outcome::Differs { missing: false, reason: "mode".into() };
    assert_eq!(bed.report(), Report { key: key(1, 1, 0), outcome });
    assert!(bed.captures.is_empty() && bed.runs.is_empty() && !bed.disk[&id(1)].exists());
    bed.job(&job(1, 2, Action::Delete, plain("/etc/motd")));
    assert_eq!((bed.report().outcome, bed.runs.len()), (done(), 0), "a delete leaves it alone");
}

#[test]
fn after_a_crash_it_is_compared_again() {
    for crashes_late in [false, true] {
        let mut bed = adopting();
        if crashes_late {
            bed.checked(1, Found::AsDesired);
            bed.captured(1, Ok("old"));
            assert_eq!(bed.runs.len(), 1);
        }
        bed = bed.crash();
        bed.greet();
        bed.sent.clear();
        assert_eq!((bed.checks.len(), bed.runs.len()), (1, 0));
        bed.checked(1, Found::AsDesired);
        if !crashes_late {
            bed.captured(1, Ok("old"));
        }
        bed.ran(1, Ok(()));
        assert_eq!(bed.report().outcome, done());
        assert_eq!(bed.disk[&id(1)].before(), Some(&Before::new(b"old".to_vec())));
    }
}

#[test]
fn what_was_changed_after_a_crash_is_not_held() {
    let mut bed = adopting();
    bed.checked(1, Found::AsDesired);
    bed.captured(1, Ok("old"));
    assert!(bed.disk[&id(1)].exists());
    bed = bed.crash();
    bed.greet();
    bed.checked(1, differs());
    assert!(!bed.disk[&id(1)].exists(), "a delete would restore what was there before the change");
}

#[test]
fn what_another_resource_holds_is_not_adopted() {
    let mut bed = Node::online();
    bed.apply_file(&job(1, 1, Action::Create, plain("/etc/motd")), "old");
    bed.job(&job(2, 1, Action::Adopt, plain("/etc/motd")));
    let Outcome::Differs { reason, .. } = bed.report().outcome else { panic!("it is refused") };
    assert!(reason.starts_with("Muster has it already, as resource "), "{reason}");
    assert!(bed.checks.is_empty() && bed.captures.is_empty());
}

/// A document may cut the node off even so: what is applied is guarded.
#[test]
fn an_adopted_network_is_guarded() {
    let document = r#"[{"type": "interface", "name": "eth0"}]"#.to_owned();
    NetworkDocument::from_json(&document).unwrap();
    let config = NetworkConfig {
        document,
        mapping: Default::default(),
        confirm_timeout: 30,
        on_delete: OnDelete::Restore,
    };
    let mut bed = Node::online();
    bed.job(&job(1, 1, Action::Adopt, Spec::Network(config)));
    bed.checked(1, Found::AsDesired);
    bed.captured(1, Ok("old"));
    assert_eq!((bed.guards.len(), bed.runs.len()), (0, 1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done(), "nothing was touched, so nothing is confirmed");
}

/// A comparison that is under way may go on as a change, so it is not withdrawn.
#[test]
fn it_can_be_withdrawn_before_its_turn_alone() {
    let mut bed = adopting();
    bed.job(&job(2, 1, Action::Adopt, dummy("1")));
    bed.down(Down::Withdraw { resource: id(2), generation: generation(1) });
    assert_eq!(bed.report(), Report { key: key(2, 1, 0), outcome: Outcome::Withdrawn });
    bed.down(Down::Withdraw { resource: id(1), generation: generation(1) });
    assert!(bed.reports().is_empty(), "a comparison that is under way may go on as a change");
}

#[test]
fn a_survey_answers_the_connection_that_asked() {
    let survey = || Survey { specs: vec![dummy("1")], left_out: Vec::new() };
    let mut bed = Node::online();
    bed.apply_file(&job(1, 1, Action::Create, plain("/etc/motd")), "old");
    bed.down(Down::Survey);
    bed.down(Down::Survey);
    let held = plain("/etc/motd").claims().into_iter().collect();
    assert_eq!(bed.surveys, [held], "one look answers both, and leaves out what is held");
    bed.input(Input::Surveyed(survey()));
    assert_eq!(std::mem::take(&mut bed.sent), [Up::Surveyed(survey())]);
    bed.down(Down::Survey);
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.after(Duration::from_secs(30));
    bed.greet();
    bed.sent.clear();
    bed.input(Input::Surveyed(survey()));
    assert!(!bed.sent.iter().any(|up| matches!(up, Up::Surveyed(_))), "this connection has not asked");
    bed.down(Down::Survey);
    assert_eq!(bed.surveys.len(), 3);
}
