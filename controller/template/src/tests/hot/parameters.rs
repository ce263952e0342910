//! The section `parameters`, and `parameter_groups`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{ParameterType, parse};

fn read(rest: &str) -> Result<crate::Template, String> {
    let text = format!("heat_template_version: wallaby\n{rest}");
    parse("t", &text, &BTreeMap::new()).map_err(|errors| errors.to_string())
}

fn given(definition: &str, value: Value) -> Result<Value, String> {
    let template = read(&format!("parameters: {{p: {definition}}}\n"))?;
    let given = BTreeMap::from([("p".to_owned(), value)]);
    let bound = template.bind(&given).map_err(|errors| errors.to_string())?;
    Ok(bound.get("p").unwrap().clone())
}

#[test]
fn types_of_heats_documentation() {
    for (kind, value, wanted) in [
        ("string", json!("String param"), json!("String param")),
        ("number", json!("2"), json!(2)),
        ("number", json!("0.2"), json!(0.2)),
        ("comma_delimited_list", json!(["one", "two"]), json!(["one", "two"])),
        ("comma_delimited_list", json!("one, two"), json!(["one", " two"])),
        ("json", json!({"key": "value"}), json!({"key": "value"})),
        ("json", json!("{\"key\": \"value\"}"), json!({"key": "value"})),
        ("json", json!("[1]"), json!([1])),
    ] {
        assert_eq!(given(&format!("{{type: {kind}}}"), value), Ok(wanted), "{kind}");
    }
    for (words, wanted) in
        [(["t", "true", "on", "y", "yes", "1"], true), (["f", "false", "off", "n", "no", "0"], false)]
    {
        for word in words {
            assert_eq!(given("{type: boolean}", json!(word)), Ok(json!(wanted)), "{word}");
            assert_eq!(given("{type: boolean}", json!(word.to_uppercase())), Ok(json!(wanted)), "{word}");
        }
    }
}

/// Heat makes a text of it as Python does.
#[test]
fn a_string_may_be_given_a_map_or_a_list() {
    for (default, wanted) in [
        ("{}", "{}"),
        ("[]", "[]"),
        ("{b: [1, 2.5, true, null], a: {c: x}}", "{'a': {'c': 'x'}, 'b': [1, 2.5, True, None]}"),
        (
            r#"["it's", "a \"b\"", "it's \"b\"", "a\\b\n\u0001é"]"#,
            r#"["it's", 'a "b"', 'it\'s "b"', 'a\\b\n\x01é']"#,
        ),
    ] {
        let template = read(&format!("parameters: {{p: {{type: string, default: {default}}}}}\n")).unwrap();
        assert_eq!(template.parameters().next().unwrap().default, Some(json!(wanted)), "{default}");
    }
    assert_eq!(given("{type: string}", json!({"a": 1})), Ok(json!("{'a': 1}")));
}

#[test]
fn keys_of_a_parameter() {
    let template = read(
        "parameters:\n  p:\n    type: string\n    label: L\n    description: D\n    default: x\n    hidden: yes\n    immutable: true\n    tags: [net, 'site a']\n    constraints: [{length: {max: 8}}]\n",
    )
    .unwrap();
    let parameter = template.parameters().next().unwrap();
    assert_eq!(parameter.kind, ParameterType::String);
    assert_eq!((parameter.label.as_deref(), parameter.description.as_deref()), (Some("L"), Some("D")));
    assert_eq!((parameter.hidden, parameter.immutable), (true, true));
    assert_eq!(parameter.tags, ["net".into(), "site a".into()]);
    assert_eq!(parameter.default, Some(json!("x")));
    for (definition, wanted) in [
        ("{type: strin}", "parameters.p.type: unknown type 'strin'; did you mean 'string'?"),
        (
            "{type: list}",
            "parameters.p.type: unknown type 'list'; known are string, number, json, comma_delimited_list, boolean",
        ),
        ("{default: x}", "parameters.p: a parameter needs a 'type'"),
        ("{type: string, tags: x}", "parameters.p.tags: want a list of texts, got text"),
        ("{type: string, tags: [5]}", "parameters.p.tags: want text, got a number"),
        ("{type: string, hidden: perhaps}", "parameters.p.hidden: want true or false, got text"),
        (
            "{type: string, defualt: x}",
            "parameters.p.defualt: unknown key 'defualt' of a parameter; did you mean 'default'?",
        ),
    ] {
        let error = read(&format!("parameters: {{p: {definition}}}\n")).unwrap_err();
        assert_eq!(error.split_once(": ").unwrap().1, wanted, "{definition}");
    }
}

#[test]
fn groups_name_each_parameter_once() {
    let parameters = "parameters: {a: {type: string}, b: {type: string}, c: {type: string}}\n";
    let template = read(&format!(
        "{parameters}parameter_groups:\n- label: First\n  description: What comes first\n  parameters: [b, a]\n- parameters: [c]\n"
    ))
    .unwrap();
    let groups = template.parameter_groups();
    assert_eq!(groups.len(), 2);
    assert_eq!((groups[0].label.as_deref(), groups[1].label.as_deref()), (Some("First"), None));
    assert_eq!(groups[0].description.as_deref(), Some("What comes first"));
    assert_eq!(groups[0].parameters, ["b".into(), "a".into()]);
    for (group, wanted) in [
        (
            "[{parameters: [a, other]}]",
            "t:3:37: parameter_groups[0].parameters[1]: there is no parameter 'other'",
        ),
        (
            "[{parameters: [a]}, {parameters: [b, a]}]",
            "t:3:56: parameter_groups[1].parameters[1]: the parameter 'a' is in a group already; the first is at 3:34",
        ),
        (
            "[{parameters: [a, a]}]",
            "t:3:37: parameter_groups[0].parameters[1]: the parameter 'a' is in a group already; the first is at 3:34",
        ),
        ("[{label: x}]", "t:3:20: parameter_groups[0]: a group needs 'parameters', a list of their names"),
        ("[{parameters: a}]", "t:3:33: parameter_groups[0].parameters: want a list of parameters, got text"),
        ("{parameters: [a]}", "t:3:19: parameter_groups: want a list of groups, got a map"),
        ("[x]", "t:3:20: parameter_groups[0]: want a map with 'parameters', got text"),
        (
            "[{parameter: [a]}]",
            "t:3:20: parameter_groups[0]: a group needs 'parameters', a list of their names\nt:3:21: parameter_groups[0].parameter: unknown key 'parameter' of a group; did you mean 'parameters'?",
        ),
    ] {
        assert_eq!(read(&format!("{parameters}parameter_groups: {group}\n")).unwrap_err(), wanted);
    }
}

/// As in Heat, a default that is not of the type matters where it is used.
#[test]
fn a_default_of_another_type_waits_for_a_value() {
    let template = read("parameters: {p: {type: number, default: ''}}\n").expect("it is read");
    assert_eq!(template.required_parameters(), ["p"]);
    let given = |value: Option<Value>| {
        let given = value.map(|value| ("p".to_owned(), value)).into_iter().collect();
        template.bind(&given).map(|bound| bound.masked()["p"].clone()).map_err(|errors| errors.to_string())
    };
    assert_eq!(given(Some(json!(5))), Ok(json!(5)));
    assert_eq!(given(None), Err("t:2:41: parameters.p.default: want a number, got text".to_owned()));
}
