//! Whatever is written of functions: nothing panics, and the same gives the same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::{ResourceTable, bound, template};
use crate::yaql::FUNCTIONS as FUNCTIONS_OF_YAQL;

const FUNCTIONS: &[&str] = &[
    "contains",
    "digest",
    "equals",
    "filter",
    "get_param",
    "get_file",
    "if",
    "list_concat",
    "list_concat_unique",
    "list_join",
    "make_url",
    "map_merge",
    "map_replace",
    "and",
    "not",
    "or",
    "repeat",
    "resource_facade",
    "str_replace",
    "str_replace_strict",
    "str_replace_vstrict",
    "str_split",
    "yaql",
];

/// Values with functions in them, right and wrong.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("{get_param: list}".to_owned()),
        Just("{get_param: site}".to_owned()),
        Just("{get_param: [site, dns, 0]}".to_owned()),
        Just("{get_param: OS::stack_name}".to_owned()),
        Just("c".to_owned()),
        (-3i64..100).prop_map(|n| n.to_string()),
        "[a-c, ]{0,4}".prop_map(|text| format!("'{text}'")),
        yaql_text().prop_map(|text| Value::from(text).to_string()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let function = prop::sample::select(FUNCTIONS);
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::btree_map("[a-e]", inner.clone(), 0..3).prop_map(|map| {
                let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
            (function, inner.clone()).prop_map(|(name, value)| format!("{{{name}: {value}}}")),
            (prop::sample::select(FUNCTIONS), prop::collection::vec(inner, 1..4))
                .prop_map(|(name, items)| format!("{{{name}: [{}]}}", items.join(", "))),
            pair.clone().prop_map(|(a, b)| format!("{{str_replace: {{template: {a}, params: {{a: {b}}}}}}}")),
            pair.clone().prop_map(|(a, b)| format!("{{repeat: {{template: {a}, for_each: {{a: {b}}}}}}}")),
            pair.prop_map(|(a, b)| format!("{{yaql: {{expression: {a}, data: {b}}}}}")),
        ]
    })
}

/// Texts that resemble an expression.
fn yaql_text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(
        &[
            "$",
            "$.data",
            "$1",
            "$2",
            ".where(",
            ".select(",
            ".flatten()",
            ".len()",
            "dict(",
            "list(",
            ")",
            "[",
            "]",
            "0",
            "1",
            " + ",
            " - ",
            " / ",
            " = ",
            " and ",
            " not ",
            "null",
            "'a'",
            "a",
            ", ",
            " => ",
            "{",
            "}",
            ".get(a)",
            "let(a => 1) -> ",
            ".reduce($1 + $2)",
            ".join(',')",
            ".items()",
            ".toDict($)",
            " =~ ",
            "?.a",
            ".a",
            "range(3)",
            ".sum()",
            ".orderBy($)",
            ".mergeWith({})",
        ][..],
    );
    prop::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

/// A function of yaql with arguments of any kind, right or wrong.
fn yaql_call() -> impl Strategy<Value = String> {
    let argument = prop::sample::select(
        &[
            "$",
            "$1",
            "$2",
            "$.data",
            "$.data[0]",
            "null",
            "true",
            "0",
            "1",
            "-1",
            "2.5",
            "''",
            "'a'",
            "'a,b'",
            "','",
            "[]",
            "[1, 2, 1]",
            "[[a, 1], [b, 2]]",
            "{}",
            "{a => 1}",
            "{a => [1]}",
            "$ > 1",
            "$1 + $2",
            "regex('a')",
            "range(3)",
            "9223372036854775807",
            "1.7e308",
            "a => 1",
            "$.a",
            "[a, null, 1]",
        ][..],
    );
    let name = prop::sample::select(FUNCTIONS_OF_YAQL);
    (argument.clone(), name, prop::collection::vec(argument, 0..4), any::<bool>()).prop_map(
        |(of, name, arguments, method)| match method {
            true => format!("{of}.{name}({})", arguments.join(", ")),
            false => format!("{name}({})", [&[of][..], &arguments].concat().join(", ")),
        },
    )
}

fn rendered(value: &str) -> Option<Result<Value, String>> {
    let rest = format!(
        "conditions: {{c: {{get_param: 'on'}}, b: {{not: c}}}}\nresources: {{r: {{type: Muster::Dummy, condition: b}}}}\noutputs: {{o: {{value: {value}}}}}\n"
    );
    let template = template("wallaby", &rest).ok()?;
    let parameters = bound(&template, &[]).expect("conditions that are right");
    let nothing = BTreeMap::new();
    let once = template
        .render_output(0, &parameters, &ResourceTable(&template, &nothing))
        .map_err(|error| error.to_string());
    let pruned = template.pruned(&parameters).expect("nothing needs itself");
    let again = pruned
        .render_output(0, &parameters, &ResourceTable(&pruned, &nothing))
        .map_err(|error| error.to_string());
    assert_eq!(once, again, "what does not exist decides nothing else");
    Some(once)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn functions_never_panic_and_give_the_same_again(value in any_value()) {
        prop_assert_eq!(rendered(&value), rendered(&value));
    }

    #[test]
    fn yaql_never_panics_and_gives_the_same_again(expression in yaql_text(), data in "[a-c0-9,]{0,6}") {
        let value = format!("{{yaql: {{expression: {}, data: [{data}]}}}}", Value::from(expression));
        prop_assert_eq!(rendered(&value), rendered(&value));
    }

    #[test]
    fn functions_of_yaql_never_panic(expression in yaql_call(), data in "[a-c0-9,]{0,6}") {
        let value = format!("{{yaql: {{expression: {}, data: [{data}]}}}}", Value::from(expression));
        prop_assert_eq!(rendered(&value), rendered(&value));
    }

    #[test]
    fn yaql_of_any_text_never_panics(expression in "\\PC{0,40}") {
        let value = format!("{{yaql: {{expression: {}, data: {{a: [1]}}}}}}", Value::from(expression));
        rendered(&value);
    }
}
