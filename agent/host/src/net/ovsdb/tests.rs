use serde_json::json;

use super::row::interface;
use super::rpc::Scanner;
use super::*;

#[test]
fn messages_are_cut_where_an_object_ends() {
    let stream = br#"{"a":"}\"{","b":[1,{}]} {"c":"\\"}{"#;
    let mut scanner = Scanner::default();
    let first = scanner.end_of_message(stream).unwrap();
    assert_eq!(&stream[..first], br#"{"a":"}\"{","b":[1,{}]}"#);
    let second = scanner.end_of_message(&stream[first..]).unwrap();
    assert_eq!(&stream[first..first + second], br#" {"c":"\\"}"#);
    assert_eq!(scanner.end_of_message(&stream[first + second..]), None);
}

#[test]
fn messages_are_the_same_whatever_the_pieces() {
    let stream = br#"{"a":"}\"{","b":[1,{}]}"#;
    let mut scanner = Scanner::default();
    for length in 0..stream.len() {
        assert_eq!(scanner.end_of_message(&stream[..length]), None, "{length}");
    }
    assert_eq!(scanner.end_of_message(stream), Some(stream.len()));
}

#[test]
fn columns_are_one_or_a_set() {
    assert_eq!(uuids(&json!(["uuid", "a"])), ["a"]);
    assert_eq!(uuids(&json!(["set", [["uuid", "a"], ["uuid", "b"]]])), ["a", "b"]);
    assert!(uuids(&json!(["set", []])).is_empty());
    assert!(uuids(&json!(7)).is_empty());
    assert_eq!(
        interface(&json!({"type": "internal", "mtu_request": ["set", []], "error": "x"})),
        OvsInterface {
            internal: true,
            mtu_request: None,
            error: Some("x".to_owned()),
            ..OvsInterface::default()
        }
    );
}

#[test]
fn bridges_are_joined_of_rows_and_a_refusal_is_told() {
    let answer = |text: &str| serde_json::from_str::<Answer>(text).map(|answer| answer.result);
    let (interfaces, ports, bridges) = answer(
        r#"{"id": 1, "error": null, "result": [{"rows": [{"_uuid": ["uuid", "i"], "name": "p"}, {"name": "no uuid"}]},
            {"rows": [{"_uuid": ["uuid", "p"], "name": "p", "tag": 7, "interfaces": ["uuid", "i"]}]},
            {"rows": [{"name": "b", "ports": ["set", [["uuid", "p"]]]}]}]}"#,
    )
    .unwrap();
    assert_eq!(interfaces.rows[0].0, Some(("i".into(), ("p".into(), OvsInterface::default()))));
    assert_eq!(interfaces.rows[1].0, None);
    let port = OvsPort { tag: Some(7), ..OvsPort::default() };
    assert_eq!(ports.rows[0].0, Some(("p".into(), ("p".into(), port), vec!["i".into()])));
    assert_eq!(bridges.rows[0].0, Some((("b".into(), OvsBridge::default()), vec!["p".into()])));
    for (text, said) in [
        (r#"{"error": "not a member", "result": null}"#, "not a member"),
        (
            r#"{"error": null, "result": [{"error": "no column", "details": "x"}, null, null]}"#,
            "no column: x",
        ),
    ] {
        assert!(answer(text).is_err());
        assert!(refused(text.as_bytes()).unwrap().to_string().contains(said));
    }
    assert!(refused(br#"{"error": null, "result": [7]}"#).is_none());
}
