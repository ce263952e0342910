//! Properties: no input panics, rendering is deterministic, digests follow meaning and not text.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ResourceTable, TestInputs, everything};
use crate::{Template, parse};

/// Uses every function and section.
const RICH: &str = include_str!("../testdata/functions/template.yaml");
const RICH_GIVEN: &str = include_str!("../testdata/functions/given.json");

fn given() -> TestInputs {
    serde_json::from_str(RICH_GIVEN).unwrap()
}

/// Parses, and does all that can be done with what parses.
fn exercise(text: &str) -> Option<Value> {
    let given = given();
    let template = parse("t", text, &given.files).ok()?;
    let parameters = template.bind(&given.parameters).or_else(|_| template.bind(&BTreeMap::new())).ok()?;
    Some(everything(&template, &parameters, &ResourceTable(&template, &given.resources)))
}

fn digests(template: &Template, parameters: &[(&str, &str)]) -> BTreeMap<String, u128> {
    let given = parameters.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let parameters = template.bind(&given).unwrap();
    template.resources.iter().map(|r| (r.name.to_string(), r.definition_digest(&parameters))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        exercise(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn yaml_like_text_never_panics(text in "[-:?*&!|>'\"%@`{}\\[\\], \n\tab0~#<.é\u{feff}]{0,120}") {
        exercise(&text);
        exercise(&format!("heat_template_version: 2018-08-31\nresources: {text}"));
    }

    #[test]
    fn mutated_templates_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[-:?*&!|>'\"{}\\[\\], \n\tab0~#<.é]{0,4}", 0usize..6), 1..6),
    ) {
        let mut chars: Vec<char> = RICH.chars().collect();
        for (at, insert, remove) in edits {
            let at = at.index(chars.len());
            let end = (at + remove).min(chars.len());
            chars.splice(at..end, insert.chars());
            if chars.is_empty() {
                chars.push(' ');
            }
        }
        let text: String = chars.into_iter().collect();
        prop_assert_eq!(exercise(&text), exercise(&text));
    }

    #[test]
    fn moved_lines_never_panic(from in 0usize..200, to in 0usize..200) {
        let mut lines: Vec<&str> = RICH.lines().collect();
        let line = lines.remove(from % lines.len());
        lines.insert(to % lines.len(), line);
        exercise(&lines.join("\n"));
    }

    #[test]
    fn any_json_is_carried_unchanged(value in any_json()) {
        // Keys are of letters that no function is near to: a one-key map could be one.
        let text = json!({"heat_template_version": "2018-08-31", "outputs": {"o": {"value": value}}}).to_string();
        if let Ok(template) = parse("t", &text, &BTreeMap::new()) {
            let parameters = template.bind(&BTreeMap::new()).unwrap();
            let rendered = template.render_output(0, &parameters, &ResourceTable(&template, &BTreeMap::new())).unwrap();
            prop_assert_eq!(rendered, value);
        } else {
            prop_assert!(false, "refused: {}", text);
        }
    }

    #[test]
    fn a_change_of_value_changes_one_digest(a in "[a-z]{1,8}", b in "[a-z]{1,8}") {
        prop_assume!(a != b);
        let text = |value: &str| format!(
            "heat_template_version: 2018-08-31\nresources:\n  x: {{type: Muster::Dummy, properties: {{values: {{k: {value:?}}}}}}}\n  y: {{type: Muster::Dummy}}\n"
        );
        let none = BTreeMap::new();
        let (one, two) = (parse("t", &text(&a), &none).unwrap(), parse("t", &text(&b), &none).unwrap());
        let (one, two) = (digests(&one, &[]), digests(&two, &[]));
        prop_assert_ne!(one["x"], two["x"]);
        prop_assert_eq!(one["y"], two["y"]);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[a-z0-9:.~ -]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[k-p]{3,5}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn text_around_a_definition_does_not_matter() {
    let none = BTreeMap::new();
    let one = parse(
        "t",
        "heat_template_version: 2018-08-31\nparameters: {p: {type: string, default: x}, unused: {type: string, default: a}}\nresources:\n  a: {type: Muster::Dummy}\n  b:\n    type: Muster::Dummy\n    depends_on: [a]\n    properties:\n      values: {k: {get_param: p}, l: {get_attr: [a, z]}}\n      seconds: 1\n",
        &none,
    )
    .unwrap();
    let two = parse(
        "other",
        "# a comment\nresources:\n  b:\n    properties:\n      \"seconds\":   1 # more\n      values:\n        l:\n          get_attr:\n          - 'a'\n          - z\n        k: {\"get_param\": \"p\"}\n    description: changed\n    depends_on: a\n    type: Muster::Dummy\n  a:\n    type: Muster::Dummy\n    properties: {}\nparameters:\n  unused: {type: string, default: b}\n  p: {type: string, default: x, label: P}\nheat_template_version: rocky\n",
        &none,
    )
    .unwrap();
    assert_eq!(digests(&one, &[]), digests(&two, &[]));
    assert_eq!(digests(&one, &[]), digests(&one, &[("unused", "changed")]));
    let changed = digests(&one, &[("p", "changed")]);
    assert_eq!(digests(&one, &[])["a"], changed["a"]);
    assert_ne!(digests(&one, &[])["b"], changed["b"]);
}

#[test]
fn every_part_of_a_definition_is_in_its_digest() {
    let base = "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [a, z]}, l: '1'}}}";
    let variants = [
        "{type: Muster::Dummy, properties: {values: {k: {get_attr: [a, z]}, l: '1'}}}",
        "{type: Muster::Dummy, depends_on: [a, b], properties: {values: {k: {get_attr: [a, z]}, l: '1'}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [b, z]}, l: '1'}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [a, y]}, l: '1'}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [a, z, 0]}, l: '1'}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_resource: a}, l: '1'}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [a, z]}, l: '2'}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [a, z]}, l: 1}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [a, z]}, l: {get_file: f}}}}",
        "{type: Muster::Dummy, depends_on: a, properties: {values: {k: {get_attr: [a, z]}, m: '1'}}}",
    ];
    let digest = |body: &str, file: &str| {
        let text = format!(
            "heat_template_version: 2018-08-31\nresources:\n  a: {{type: Muster::Dummy}}\n  b: {{type: Muster::Dummy}}\n  c: {body}\n"
        );
        let files = BTreeMap::from([("f".to_owned(), file.to_owned())]);
        digests(&parse("t", &text, &files).unwrap(), &[])["c"]
    };
    let mut seen = vec![digest(base, "")];
    for variant in variants {
        let digest = digest(variant, "");
        assert!(!seen.contains(&digest), "{variant}");
        seen.push(digest);
    }
    assert_ne!(digest(variants[8], "one"), digest(variants[8], "two"));
}
