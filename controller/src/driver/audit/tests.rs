use std::collections::BTreeMap;
use std::time::Duration;

use muster_engine::{NewToken, Options, Signal, Source};
use serde_json::json;

use super::*;

fn caller() -> Caller {
    Caller { actor: "anna".to_owned(), from: "local, process 7".to_owned(), shown: None, trace: None }
}

/// Action, target and what is asked for.
fn asked(request: &Request) -> Option<(&'static str, String, String)> {
    Asked::new(&caller(), request).map(|asked| (asked.action, asked.target, asked.what))
}

fn row(action: &'static str, target: &str, what: &str) -> Option<(&'static str, String, String)> {
    Some((action, target.to_owned(), what.to_owned()))
}

#[test]
fn a_change_is_told_by_names_alone() {
    let labels =
        BTreeMap::from([("role".to_owned(), Some("a-secret".to_owned())), ("rack".to_owned(), None)]);
    let label = Request::LabelNode { node: "web-1".parse().unwrap(), labels };
    assert_eq!(asked(&label), row("node label", "web-1", "rack, role"));
    let (id, reason, data) = (None, Some("a-secret".to_owned()), json!("a-secret"));
    let signal = Signal { id, failure: false, reason, data };
    let signal = Request::Signal { stack: "web".parse().unwrap(), resource: "done".to_owned(), signal };
    assert_eq!(asked(&signal), row("resource signal", "web/done", ""));
    let token = NewToken {
        id: [0xab; 8],
        secret_hash: [1; 32],
        expires: 1,
        uses: 3,
        name: Some("web-*".to_owned()),
        labels: BTreeMap::new(),
        rate: None,
    };
    let token = Request::NewToken { token, wall: 0 };
    assert_eq!(asked(&token), row("node token", "abababababababab", "for web-*, 3 times"));
}

#[test]
fn what_changes_nothing_has_no_row() {
    assert_eq!(asked(&Request::Facts { node: "web-1".parse().unwrap() }), None);
    assert_eq!(asked(&Request::SampleFlows), None);
}

#[test]
fn an_answer_has_the_revision_and_a_refusal_its_reason() {
    let name: muster_shared::StackName = "web".parse().unwrap();
    let options = Options { timeout: Duration::from_secs(1), ..Options::default() };
    let create = Request::Create { name: name.clone(), source: Source::nothing(), options };
    let asked = Asked::new(&caller(), &create).unwrap();
    let begun = Answer::Stack {
        name,
        id: 1,
        traversal: 1,
        revision: 4,
        warnings: Vec::new(),
        difference: "adds motd".into(),
    };
    let record = asked.record(&Ok(begun));
    assert_eq!((record.what.as_str(), record.result.as_str()), ("revision 4, adds motd, from nothing", "ok"));
    assert_eq!((record.actor.as_str(), record.from.as_str()), ("anna", "local, process 7"));
    let record = asked.record(&Err(Refusal::Conflict("there is one".to_owned())));
    assert_eq!((record.what.as_str(), record.result.as_str()), ("from nothing", "refused: there is one"));
    let record = asked.record(&Err(Refusal::Invalid("é".repeat(10_000))));
    assert_eq!(record.result.chars().count(), TEXT_MAX + 1);
}

#[test]
fn a_long_list_of_names_ends_somewhere() {
    let keys: Vec<Box<str>> = (0..100_000).map(|number| format!("key-{number}").into()).collect();
    let (_, target, _) = asked(&Request::WithdrawIntents { keys }).unwrap();
    assert!(target.starts_with("key-0, key-1, ") && target.ends_with('…'), "{target}");
    assert_eq!(target.chars().count(), TEXT_MAX + 1);
}

#[test]
fn refusals_that_anybody_can_cause_have_so_many_rows_a_minute() {
    let mut audit = Audit::default();
    let who = |actor: &str, shown| NotLetIn {
        caller: Caller { actor: actor.to_owned(), from: "192.0.2.9".to_owned(), shown, trace: None },
        action: "DeleteStack".to_owned(),
        path: format!("/v1/stacks/{}", "x".repeat(1000)),
        why: "needs role operator".to_owned(),
    };
    let at = |seconds| MonoTime(Duration::from_secs(seconds));
    let mut noted = |who: &NotLetIn, seconds| {
        (0..100).for_each(|_| audit.not_let_in(who, at(seconds)));
        audit.take_not_let_in().len()
    };
    let (vera, ben) = (who("vera", Some(Shown::Token([1; 32]))), who("ben", Some(Shown::Token([2; 32]))));
    assert_eq!(noted(&vera, 0), 10);
    assert_eq!(noted(&vera, 59), 0);
    assert_eq!(noted(&ben, 59), 10, "another user has rows of his own");
    assert_eq!(noted(&vera, 60), 10);
    assert_eq!(noted(&who("unknown (eve)", None), 60), 10);
    assert_eq!(
        noted(&who("unknown (adam)", None), 60),
        0,
        "strangers share theirs, whatever they call themselves"
    );
    let record = vera.record();
    assert_eq!((record.target.chars().count(), record.action), (PATH_MAX + 1, "DeleteStack".into()));
}

#[test]
fn audit_rows_are_limited_per_minute_for_refused_joins_only() {
    let mut audit = Audit::default();
    let join = || {
        Request::Join(JoinAsk {
            token_id: [7; 8],
            secret: muster_shared::join::TokenSecret([0; 16]),
            name: "web-1".parse().unwrap(),
            seal_public: muster_shared::seal::SealPublic([0; 32]),
            agent_version: "x".repeat(10_000),
            moves: false,
            wall: 0,
        })
    };
    let delete = || Request::Delete { name: "web".parse().unwrap() };
    let refused = || Err(Refusal::Conflict("no".to_owned()));
    let mut rows = |request: &dyn Fn() -> Request, answer: &dyn Fn() -> Result<Answer, Refusal>| {
        let rows = (0..100).filter(|id| {
            audit.opens(*id, Some(&caller()), &request());
            let row = audit.row(*id, &answer(), MonoTime::default());
            audit.answered(*id, &answer());
            row.is_some()
        });
        rows.count()
    };
    assert_eq!(rows(&join, &refused), 10);
    assert_eq!(rows(&join, &|| Ok(Answer::Done)), 100);
    assert_eq!(rows(&delete, &refused), 100);
}
