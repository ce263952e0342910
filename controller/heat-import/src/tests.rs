//! Stacks as Heat tells them, and what they become.

use serde_json::{Value, json};

use super::*;

fn imported(document: Value) -> Imported {
    import(Exported::parse(&document).unwrap()).unwrap()
}

fn document<'a>(imported: &'a Imported, file: &str) -> &'a Value {
    match &imported.files[file] {
        Content::Document(value) => value,
        Content::Text(text) => panic!("{file} is a text: {text}"),
    }
}

#[test]
fn files_lie_together_and_are_named_there() {
    let nested = "heat_template_version: 2018-08-31\nresources:\n  c: {type: OS::Heat::SoftwareConfig, properties: \
                  {config: {get_file: 'file:///home/op/scripts/run.sh'}}}\n";
    let imported = imported(json!({
        "name": "web",
        "template": {"heat_template_version": "2018-08-31", "resources": {
            "one": {"type": "file:///home/op/nested/one.yaml"},
            "two": {"type": "OS::Mine", "properties": {"type": "plain"}},
        }},
        "environment": {"resource_registry": {"resources": {}, "OS::Mine": "file:///home/op/nested/one.yaml"},
            "parameters": {"OS::stack_name": "web"}, "event_sinks": [], "encrypted_param_names": []},
        "files": {"file:///home/op/nested/one.yaml": nested, "file:///home/op/scripts/run.sh": "#!/bin/sh\n"},
    }));
    let files: Vec<&String> = imported.files.keys().collect();
    assert_eq!(files, ["environment.yaml", "files/nested/one.yaml", "files/scripts/run.sh", "template.yaml"]);
    assert_eq!(document(&imported, TEMPLATE)["resources"]["one"]["type"], "files/nested/one.yaml");
    let one = document(&imported, "files/nested/one.yaml");
    assert_eq!(one["resources"]["c"]["properties"]["config"]["get_file"], "../scripts/run.sh");
    assert_eq!(
        *document(&imported, ENVIRONMENT),
        json!({"resource_registry": {"OS::Mine": "files/nested/one.yaml"}})
    );
    assert_eq!((imported.left_out, imported.to_give), (vec![], vec![]));
}

#[test]
fn names_are_also_from_where_a_template_lies() {
    let nested = "heat_template_version: 2018-08-31\nparameters: {p: {type: string}}\nresources:\n  v: {type: \
                  OS::Heat::Value, properties: {value: {get_file: ../text}}}\n";
    let imported = imported(json!({
        "template": {"heat_template_version": "2018-08-31", "resources": {"one": {"type": "nested/one.yaml"}}},
        "files": {"nested/one.yaml": nested, "text": "a", "nested/string": "b"},
    }));
    assert_eq!(document(&imported, TEMPLATE)["resources"]["one"]["type"], "files/nested/one.yaml");
    // Named as it lies, so the text is as it was.
    assert_eq!(imported.files["files/nested/one.yaml"], Content::Text(nested.to_owned()));
    assert_eq!(imported.left_out, Vec::<String>::new());
}

#[test]
fn hidden_values_stand_apart_or_are_to_be_given() {
    let imported = imported(json!({
        "template": {"heat_template_version": "2018-08-31", "parameters": {
            "open": {"type": "string"}, "known": {"type": "string", "hidden": true},
            "masked": {"type": "string", "hidden": "True"}, "sealed": {"type": "string"}}},
        "environment": {"parameters": {"open": "a", "known": "geheim", "masked": "******", "sealed": ["v1", "x"]},
            "encrypted_param_names": ["sealed"], "event_sinks": [{"type": "zaqar-queue"}]},
    }));
    assert_eq!(*document(&imported, ENVIRONMENT), json!({"parameters": {"open": "a"}}));
    assert_eq!(*document(&imported, HIDDEN), json!({"parameters": {"known": "geheim"}}));
    assert_eq!(imported.to_give, ["masked", "sealed"]);
    assert_eq!(imported.left_out, ["event_sinks of the environment: Muster's have no such section"]);
}

#[test]
fn no_place_leads_out_and_none_is_taken_twice() {
    let files = json!({
        "file:///etc/../../a.sh": "1", "/a.sh": "2", "https://host/%2e%2e/a.sh": "3", "..": "4", "a.sh/b": "5",
        "x\u{0}\n\\y": "6", "a": "7",
    });
    let count = files.as_object().unwrap().len();
    let imported = imported(json!({"template": {"heat_template_version": "2018-08-31"}, "files": files}));
    let places: Vec<&String> = imported.files.keys().filter(|place| *place != TEMPLATE).collect();
    assert_eq!(places.len(), count, "{places:?}");
    for place in &places {
        assert!(place.starts_with("files/"), "{place}");
        assert!(!place.split('/').any(|part| matches!(part, "" | "." | "..")), "{place}");
        assert!(!place.chars().any(char::is_control), "{place}");
        assert!(
            !places.iter().any(|other| other.starts_with(&format!("{place}/"))),
            "{place} is a folder, too"
        );
    }
}

#[test]
fn what_is_no_stack_is_refused() {
    let hot = json!({"heat_template_version": "2018-08-31"});
    for (value, wanted) in [
        (json!([]), "it is no stack that was exported from Heat: a map is wanted"),
        (json!({"template": "text"}), "it is no stack that was exported from Heat: it has no map 'template'"),
        (
            json!({"template": hot, "files": 5}),
            "it is no stack that was exported from Heat: its 'files' are no map",
        ),
    ] {
        assert_eq!(Exported::parse(&value).unwrap_err().to_string(), wanted);
    }
    let of = |value: Value| import(Exported::parse(&value).unwrap()).unwrap_err();
    assert_eq!(of(json!({"template": {"AWSTemplateFormatVersion": "2010-09-09"}})), ImportError::NotHot);
    assert_eq!(of(json!({"template": hot, "files": {"a": 1}})), ImportError::NoText("a".to_owned()));
    let files: Map<String, Value> = (0..=1000).map(|n| (n.to_string(), json!(""))).collect();
    assert_eq!(of(json!({"template": hot, "files": files})), ImportError::TooMany);
}

#[test]
fn a_missing_file_is_named() {
    let template =
        json!({"heat_template_version": "2018-08-31", "resources": {"r": {"type": "http://h/r.yaml"}}});
    let imported = imported(json!({"template": template}));
    assert_eq!(
        imported.left_out,
        ["template.yaml names http://h/r.yaml, which is not among the stack's files"]
    );
}
