//! Hostile input: everything that is evaluated ends within bounds of time and memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ResourceTable, value};
use crate::{Limits, parse};

/// The value with this as the parameter `p` of type json.
fn with(p: Value, value: &str) -> Result<Value, String> {
    let text = format!(
        "heat_template_version: wallaby\nparameters: {{p: {{type: json}}}}\noutputs: {{o: {{value: {value}}}}}\n"
    );
    let template = parse("t", &text, &BTreeMap::new()).map_err(|errors| errors.to_string())?;
    let given = BTreeMap::from([("p".to_owned(), p)]);
    let parameters = template.bind(&given).map_err(|errors| errors.to_string())?;
    let nothing = BTreeMap::new();
    template
        .render_output(0, &parameters, &ResourceTable(&template, &nothing))
        .map_err(|error| error.to_string())
}

fn yaql(p: Value, expression: &str) -> Result<Value, String> {
    with(p, &format!("{{yaql: {{expression: {}, data: {{get_param: p}}}}}}", Value::from(expression)))
}

fn refused(made: Result<Value, String>, wanted: &str) {
    let error = made.map(|value| value.to_string().len()).expect_err("a bound");
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn repeat_is_bounded() {
    let list: Vec<usize> = (0..1000).collect();
    let asked =
        "{repeat: {template: x, for_each: {a: {get_param: p}, b: {get_param: p}, c: {get_param: p}}}}";
    refused(with(json!(list), asked), "this repeats more than 1000000 times");
    let nested = |levels: usize| {
        (0..levels).fold("aaaaaaaaaa".to_owned(), |inner, _| {
            format!("{{repeat: {{template: {inner}, for_each: {{b: {{get_param: p}}}}}}}}")
        })
    };
    refused(with(json!(vec!["x"; 100]), &nested(5)), "renders to more than 64 MiB");
    // The inserted text is large, and is inserted twice.
    let long = "a".repeat(100_000);
    refused(
        with(
            json!([long]),
            &format!("{{repeat: {{template: '{}', for_each: {{b: {{get_param: p}}}}}}}}", "b".repeat(1000)),
        ),
        "renders to more than 64 MiB",
    );
}

#[test]
fn text_of_ten_megabytes() {
    let text = "a,".repeat(5 * 1024 * 1024);
    refused(with(json!([text]), "{str_split: [',', {get_param: [p, 0]}]}"), "too many");
    assert_eq!(with(json!([text]), "{str_split: [',', {get_param: [p, 0]}, 1000000]}"), Ok(json!("a")));
    refused(
        with(json!([text]), "{str_replace: {template: {get_param: [p, 0]}, params: {a: ''}}}"),
        "renders to more than 64 MiB",
    );
    assert_eq!(
        with(json!([text]), "{digest: [sha256, {get_param: [p, 0]}]}").map(|digest| digest.to_string().len()),
        Ok(66)
    );
    assert_eq!(yaql(json!([text]), "$.data[0].len()"), Ok(json!(10 * 1024 * 1024)));
    refused(yaql(json!([text]), "$.data[0].split(',')"), "too");
    refused(yaql(json!([text]), "range(10).select($.data[0] + 'x')"), "a number has no 'data'");
    refused(yaql(json!([text]), "let(t => $.data[0]) -> range(10).select($t + 'x')"), "too large a value");
}

#[test]
fn maps_and_lists_that_double() {
    let doubled = |inner: String| format!("{{list_concat: [{inner}, {inner}]}}");
    let mut value = "{get_param: p}".to_owned();
    for _ in 0..8 {
        value = doubled(value);
    }
    refused(with(json!(vec!["x".repeat(1000); 1000]), &value), "renders to more than 64 MiB");
    let merge = format!("{{map_merge: [{}]}}", vec!["{get_param: p}"; 2000].join(", "));
    let large: Value =
        (0..1000).map(|n| (n.to_string(), json!("x".repeat(100)))).collect::<serde_json::Map<_, _>>().into();
    refused(with(large, &merge), "renders to more than 64 MiB");
}

#[test]
fn yaql_is_bounded() {
    let list = || json!((0..10_000).collect::<Vec<usize>>());
    for (expression, wanted) in [
        ("range(100000000000)", "too many steps"),
        ("range(1000000000000000000, -1000000000000000000, -1)", "too many steps"),
        ("let(l => $.data) -> $l.selectMany($l)", "too"),
        ("let(l => $.data) -> $l.where($l.any($ < 0))", "too many steps"),
        ("let(l => $.data) -> $l.join($l, true, 1)", "too many steps"),
        ("let(l => $.data) -> $l.select($l)", "too large a value"),
        ("range(100).reduce($1 + $1, 'aaaaaaaaaa')", "too large a value"),
        ("range(100).reduce($1 + $1, [1])", "too"),
        ("range(100).reduce([$1, $1], 1)", "levels deep"),
        ("range(60).reduce([$1, $1], 1)", "too large a value"),
        ("let(x => range(50).reduce([$1, $1], 1)) -> $x = $x", "too many steps"),
        ("let(x => range(50).reduce([$1, $1], 1)) -> [$x, $x].distinct().len()", "too many steps"),
        ("let(x => range(50).reduce([$1, $1], 1)) -> $x.flatten().len()", "too many steps"),
        ("let(x => range(50).reduce([$1, $1], 1)) -> str($x).len()", "too large a value"),
        ("range(1000).reduce($1 * 1000, 1)", "the number is too large"),
        ("range(100).accumulate($1.replace('a', 'aaaaaaaaaa'), 'a')", "too large a value"),
        ("$.data.where('aaaaaaaaaaaaaaaaaaaa' =~ '(a*)*b')", "too many steps"),
        ("'a' =~ '(((a{1000}){1000}){1000})'", "is not valid"),
    ] {
        refused(yaql(list(), expression), wanted);
    }
    // A regex that is catastrophic elsewhere takes time in proportion to the text.
    let evil = format!("'{}!' =~ '^(a+)+$'", "a".repeat(10_000));
    assert_eq!(yaql(json!([]), &evil), Ok(json!(false)));
}

#[test]
fn yaql_is_bounded_in_depth() {
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("- ", "1", ""),
        ("not ", "1", ""),
        ("str(", "1", ")"),
        ("{a => ", "1", "}"),
        ("let(a => 1) -> ", "1", ""),
    ] {
        let nested = |levels: usize| format!("{}{middle}{}", open.repeat(levels), close.repeat(levels));
        assert!(yaql(json!([]), &nested(25)).is_ok(), "{open}");
        for levels in [100, 10_000] {
            refused(yaql(json!([]), &nested(levels)), "levels deep");
        }
    }
    refused(yaql(json!([]), &format!("1{}", " + 1".repeat(10_000))), "levels deep");
    refused(yaql(json!([]), &format!("$.data{}", ".toList()".repeat(10_000))), "levels deep");
}

#[test]
fn patterns_are_bounded() {
    let read = |rest: &str| {
        let text = format!("heat_template_version: wallaby\nparameters:\n{rest}");
        parse("t", &text, &BTreeMap::new()).map_err(|errors| errors.to_string())
    };
    let huge = "  p: {type: string, constraints: [{allowed_pattern: '((a{1000}){1000}){1000}'}]}\n";
    assert!(read(huge).unwrap_err().ends_with("is not taken: it needs too much memory"));
    let many: String = (0..=Limits::ALLOWED_PATTERNS)
        .map(|n| format!("  p{n}: {{type: string, constraints: [{{allowed_pattern: a}}]}}\n"))
        .collect();
    assert!(read(&many).unwrap_err().ends_with("a template has at most 200 patterns"));
    let evil = "  p: {type: string, constraints: [{allowed_pattern: '(a+)+'}]}\n";
    let template = read(evil).unwrap();
    let given = BTreeMap::from([("p".to_owned(), json!("a".repeat(100_000) + "!"))]);
    assert!(template.bind(&given).is_err());
}

#[test]
fn functions_nest_as_deep_as_a_template_may() {
    // Two levels each: the function's map, and its list.
    let nested =
        |levels: usize| (0..levels).fold("[a]".to_owned(), |inner, _| format!("{{list_concat: [{inner}]}}"));
    assert_eq!(value(&nested(29)), Ok(json!(["a"])));
    assert!(value(&nested(100)).unwrap_err().contains("levels deep"));
    let ifs = (0..60).fold("x".to_owned(), |inner, _| format!("{{if: [true, {inner}]}}"));
    assert!(value(&ifs).unwrap_err().contains("levels deep"));
    let nots = (0..30).fold("true".to_owned(), |inner, _| format!("{{not: {inner}}}"));
    assert_eq!(value(&format!("{{if: [{nots}, 1, 0]}}")), Ok(json!(1)));
}
