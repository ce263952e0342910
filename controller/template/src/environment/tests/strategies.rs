use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::environment;
use crate::parse;

const TEMPLATE: &str = "heat_template_version: 2018-08-31
parameters:
  text: {type: string, default: ''}
  list: {type: comma_delimited_list, default: []}
  json: {type: json, default: {}}
  number: {type: number, default: 0}
  flag: {type: boolean, default: false}
";

/// The value of a parameter with these environments.
fn value(texts: &[&str], parameter: &str) -> Result<Value, String> {
    let template = parse("t", TEMPLATE, &BTreeMap::new()).unwrap();
    let bound =
        template.bind_with(&environment(texts)?, &BTreeMap::new()).map_err(|errors| errors.to_string())?;
    Ok(bound.get(parameter).unwrap().clone())
}

/// The values are those of Heat's guide and of the tests of its `environment_util`.
#[test]
fn values_are_merged_as_in_heat() {
    let with = |strategy: &str, values: &str| {
        format!("parameters: {{{values}}}\nparameter_merge_strategies: {{{strategy}}}")
    };
    for (first, second, parameter, wanted) in [
        // Without a strategy, and with the one that is the same.
        (
            "parameters: {text: string1}".into(),
            "parameters: {text: string3}".into(),
            "text",
            json!("string3"),
        ),
        (
            "parameters: {list: [1, 2]}".into(),
            with("default: overwrite", "list: [5, 6]"),
            "list",
            json!(["5", "6"]),
        ),
        (
            "parameters: {json: {'1': [a]}}".into(),
            "parameters: {json: {'3': [b]}}".to_owned(),
            "json",
            json!({"3": ["b"]}),
        ),
        // merge
        (
            "parameters: {text: string1}".into(),
            with("default: merge", "text: string3"),
            "text",
            json!("string1string3"),
        ),
        (
            "parameters: {list: '1,2'}".into(),
            with("list: merge", "list: '5,6'"),
            "list",
            json!(["1", "2", "5", "6"]),
        ),
        (
            "parameters: {list: [1, 2]}".into(),
            with("list: merge", "list: [5, 6]"),
            "list",
            json!(["1", "2", "5", "6"]),
        ),
        ("parameters: {list: ''}".into(), with("list: merge", "list: '5,6'"), "list", json!(["5", "6"])),
        (
            "parameters: {json: {a: {b: 1}, c: 1, d: 1}}".into(),
            with("json: merge", "json: {a: {e: 2}, c: 2, d: ~}"),
            "json",
            json!({"a": {"e": 2}, "c": 2, "d": 1}),
        ),
        // deep_merge
        (
            "parameters: {json: {'1': [str1, str2]}}".into(),
            with("default: deep_merge", "json: {'3': [str3, str4]}"),
            "json",
            json!({"1": ["str1", "str2"], "3": ["str3", "str4"]}),
        ),
        (
            "parameters: {json: {a: {b: [1], s: x, n: 1}, c: {}}}".into(),
            with("json: deep_merge", "json: {a: {b: [2], s: y, n: 2}, c: {d: 1}}"),
            "json",
            json!({"a": {"b": [1, 2], "s": "xy", "n": 2}, "c": {"d": 1}}),
        ),
        (
            "parameters: {json: {foo: 1}}".into(),
            with("json: deep_merge", "json: {foo: 0}"),
            "json",
            json!({"foo": 0}),
        ),
        (
            "parameters: {json: '{\"a\": {\"b\": 1}}'}".into(),
            with("json: deep_merge", "json: '{\"a\": {\"c\": 2}}'"),
            "json",
            json!({"a": {"b": 1, "c": 2}}),
        ),
        ("parameters: {json: [1]}".into(), with("json: merge", "json: [2]"), "json", json!([1, 2])),
        (
            "parameters: {text: string1}".into(),
            with("text: deep_merge", "text: s3"),
            "text",
            json!("string1s3"),
        ),
        // A parameter's own goes over the default.
        (
            "parameters: {text: a}".into(),
            with("default: merge, text: overwrite", "text: b"),
            "text",
            json!("b"),
        ),
        // A strategy of the first file holds for those after it.
        (with("list: merge", "list: [1]"), "parameters: {list: [2]}".into(), "list", json!(["1", "2"])),
        (
            with("default: merge", "list: [1]"),
            with("default: overwrite", "list: [2]"),
            "list",
            json!(["1", "2"]),
        ),
        // Numbers that are not merged.
        (
            with("number: overwrite, default: merge", "number: 1"),
            "parameters: {number: 0}".into(),
            "number",
            json!(0),
        ),
        // Values among the parameters are not merged with defaults.
        (
            "parameter_defaults: {list: [3, 4]}".into(),
            "parameters: {list: [1]}\nparameter_merge_strategies: {default: merge}".to_owned(),
            "list",
            json!(["1"]),
        ),
        (
            "parameter_defaults: {list: [3, 4]}".into(),
            "parameter_defaults: {list: [7, 8]}\nparameter_merge_strategies: {default: deep_merge}"
                .to_owned(),
            "list",
            json!(["3", "4", "7", "8"]),
        ),
    ] {
        let (first, second): (String, String) = (first, second);
        assert_eq!(value(&[&first, &second], parameter), Ok(wanted), "{first}\n{second}");
    }
}

#[test]
fn more_than_two_are_merged_in_order() {
    let text = |n: u8| format!("parameter_defaults: {{list: [{n}]}}");
    let first = format!("{}\nparameter_merge_strategies: {{list: merge}}", text(1));
    assert_eq!(value(&[&first, &text(2), &text(3)], "list"), Ok(json!(["1", "2", "3"])));
}

#[test]
fn what_cannot_be_merged_is_said() {
    let with = |strategy: &str, values: &str| {
        format!("parameters: {{{values}}}\nparameter_merge_strategies: {{{strategy}}}")
    };
    for (first, second, wanted) in [
        (
            with("list: merge", "list: [1]"),
            with("list: deep_merge", "list: [2]"),
            "e2:2:36: parameter_merge_strategies.list: want 'merge', as in an environment before this one, got 'deep_merge': a parameter has one strategy",
        ),
        (
            "parameters: {number: 1}".into(),
            with("default: merge", "number: 2"),
            "e2:1:22: parameters.number: values of the type number cannot be merged: give this parameter the strategy 'overwrite'",
        ),
        (
            "parameters: {flag: true}".into(),
            with("flag: merge", "flag: true"),
            "e2:1:20: parameters.flag: values of the type boolean cannot be merged: give this parameter the strategy 'overwrite'",
        ),
        (
            "parameters: {json: {a: {b: [1]}}}".into(),
            with("json: deep_merge", "json: {a: {b: {c: 1}}}"),
            "e2:1:20: parameters.json: a list and a map cannot be merged at 'a.b'",
        ),
        (
            "parameters: {json: [1]}".into(),
            with("json: merge", "json: {a: 1}"),
            "e2:1:20: parameters.json: a list and a map cannot be merged",
        ),
        (
            "parameters: {json: nonsense}".into(),
            with("json: merge", "json: {a: 1}"),
            "e1:1:20: parameters.json: want a map or a list, or JSON text of one: expected ident at line 1 column 2",
        ),
    ] {
        let (first, second): (String, String) = (first, second);
        assert_eq!(value(&[&first, &second], "json"), Err(wanted.to_owned()), "{first}\n{second}");
    }
}

/// Constraints are for what comes of all environments.
#[test]
fn what_is_merged_is_held_to_the_constraints() {
    let text = "heat_template_version: 2018-08-31
parameters:
  list: {type: comma_delimited_list, default: [], constraints: [{length: {max: 2}}]}
";
    let template = parse("t", text, &BTreeMap::new()).unwrap();
    let bound = |texts: &[&str]| {
        let environment = environment(texts).unwrap();
        template.bind_with(&environment, &BTreeMap::new()).map(|_| ()).map_err(|errors| errors.to_string())
    };
    let merging = "parameters: {list: [2, 3]}\nparameter_merge_strategies: {default: merge}";
    assert_eq!(bound(&[merging]), Ok(()));
    assert_eq!(bound(&["parameters: {list: [1, 2, 3]}", "parameters: {list: [1]}"]), Ok(()));
    for (texts, place) in [
        (&["parameters: {list: [1]}", merging][..], "e2:1:20: parameters.list: "),
        (&["parameter_defaults: {list: [1, 2, 3]}"], "e1:1:28: parameter_defaults.list: "),
    ] {
        let why = bound(texts).unwrap_err();
        assert!(why.starts_with(place), "{why}");
    }
}
