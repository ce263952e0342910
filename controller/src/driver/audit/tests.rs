use std::collections::BTreeMap;
use std::time::Duration;

use muster_engine::{NewToken, Options, Signal, Source};
use serde_json::json;

use super::*;

fn caller() -> Caller {
    Caller { actor: "anna".to_owned(), from: "local, process 7".to_owned() }
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
    let begun = Answer::Stack { name, id: 1, traversal: 1, revision: 4, warnings: Vec::new() };
    let record = asked.record(&Ok(begun));
    assert_eq!((record.what.as_str(), record.result.as_str()), ("revision 4, from nothing", "ok"));
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
