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
