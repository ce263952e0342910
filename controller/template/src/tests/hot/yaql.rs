//! `yaql`: expressions as TripleO's templates and Heat's documentation have them, and what is refused.

use serde_json::{Value, json};

use super::value;

/// Quoted for YAML.
fn yaml(expression: &str) -> String {
    Value::from(expression).to_string()
}

fn evaluated(expression: &str, data: &Value) -> Result<Value, String> {
    let error =
        |error: String| error.rsplit_once("expression: ").map_or(error.clone(), |(_, said)| said.to_owned());
    value(&format!("{{yaql: {{expression: {}, data: {data}}}}}", yaml(expression))).map_err(error)
}

fn gives(data: &Value, rows: &[(&str, Value)]) {
    for (expression, wanted) in rows {
        assert_eq!(evaluated(expression, data).as_ref(), Ok(wanted), "{expression}");
    }
}

fn says(data: &Value, rows: &[(&str, &str)]) {
    for (expression, wanted) in rows {
        assert_eq!(evaluated(expression, data).expect_err(expression), *wanted, "{expression}");
    }
}

#[test]
fn expressions_of_heats_documentation() {
    gives(
        &json!({"list_param": ["1", "2", "3"], "var1": [3, 2, 1], "services": ["heat", "nova"]}),
        &[
            ("$.data.list_param.select(int($)).max()", json!(3)),
            ("$.data.var1.sum()", json!(6)),
            ("$.data.services.contains('heat')", json!(true)),
        ],
    );
}

#[test]
fn expressions_of_tripleo() {
    let roles = json!({
        "role_data": [
            {"service_name": "ntp", "config_settings": {"a": 1, "l": [1, 2]}, "groups": ["x", "y"], "tasks": [{"n": 1}]},
            null,
            {"service_name": "nova", "config_settings": {"b": 2, "l": [2, 3]}, "groups": ["y"], "tasks": [{"n": 1}, {"n": 2}]},
            {"service_name": null},
        ],
        "default": ["d"],
        "map": {"one": "1", "two": null, "three": 3},
        "nets": {"ctlplane": {"ip": "192.0.2.5", "subnet": "192.0.2.5/24"}, "storage": {"ip": "", "subnet": ""}},
        "empty": null,
    });
    gives(
        &roles,
        &[
            (
                "list(coalesce($.data.role_data, []).where($ != null).select($.get('service_name')).where($ != null))",
                json!(["ntp", "nova"]),
            ),
            ("list(coalesce($.data.empty, []).where($ != null))", json!([])),
            (
                "$.data.role_data.where($ != null).select($.get('config_settings')).where($ != null).reduce($1.mergeWith($2), {})",
                json!({"a": 1, "b": 2, "l": [1, 2, 3]}),
            ),
            (
                "$.data.role_data.where($ != null).select($.get('tasks')).where($ != null).flatten().distinct()",
                json!([{"n": 1}, {"n": 2}]),
            ),
            (
                "set(($.data.default + $.data.role_data.where($ != null).select($.get('groups')).where($ != null)).flatten()).where($)",
                json!(["d", "x", "y"]),
            ),
            (
                "($.data.default + $.data.role_data.where($ != null).select($.get('groups')).where($ != null)).flatten().toSet()",
                json!(["d", "x", "y"]),
            ),
            ("dict($.data.map.items().where($[1] != null))", json!({"one": "1", "three": 3})),
            (
                "dict($.data.map.items().where(isString($[1])).select([$[0], $[1] + '!']))",
                json!({"one": "1!"}),
            ),
            (
                "dict($.data.role_data.where($ != null and $.get('groups') != null).selectMany($.groups).groupBy($, 1).select([$[0], $[1].len()]))",
                json!({"x": 1, "y": 2}),
            ),
            (
                "let(names => $.data.role_data.where($ != null).select($.get(service_name))) -> $.data.map.keys().where(not ($ in $names)).orderBy($)",
                json!(["one", "three", "two"]),
            ),
            ("$.data.nets.values().where($.ip).select($.subnet).join(',')", json!("192.0.2.5/24")),
            (
                "$.data.nets.items().where($[1].ip != '').toDict($[0], $[1].ip)",
                json!({"ctlplane": "192.0.2.5"}),
            ),
            ("str($.data.nets.ctlplane.subnet).split('/')[1]", json!("24")),
            ("$.data.nets.keys().any($.startsWith('sto'))", json!(true)),
            ("$.data.role_data.where($ != null).service_name", json!(["ntp", "nova", null])),
            ("$.data.get(absent, {}).values().flatten()", json!([])),
            ("$.data.empty?.foo", json!(null)),
            ("range(1, 4).select(concat('step_', str($)))", json!(["step_1", "step_2", "step_3"])),
        ],
    );
}

#[test]
fn operators_and_their_order() {
    gives(
        &json!({}),
        &[
            ("1 + 2 * 3", json!(7)),
            ("(1 + 2) * 3", json!(9)),
            ("7 / 2", json!(3)),
            ("-7 / 2", json!(-4)),
            ("7 / -2", json!(-4)),
            ("7.0 / 2", json!(3.5)),
            ("7 mod 3", json!(1)),
            ("-7 mod 3", json!(2)),
            ("7 mod -3", json!(-2)),
            ("2 - 3 - 4", json!(-5)),
            ("- 3 + 1", json!(-2)),
            ("1 < 2 and 2 <= 2 and not 3 > 4", json!(true)),
            ("1 = 1.0 and 'a' != 'b' or false", json!(true)),
            ("not 1 = 2", json!(true)),
            ("'b' in [a, b]", json!(true)),
            ("'b' in 'abc'", json!(true)),
            ("'web-1' =~ '^web-[0-9]+$'", json!(true)),
            ("'db' !~ 'web'", json!(true)),
            ("'a' + 'b'", json!("ab")),
            ("[1] + [2, [3]]", json!([1, 2, [3]])),
            ("{a => 1} + {b => 2, a => 3}", json!({"a": 3, "b": 2})),
            ("null or 'x'", json!("x")),
            ("[1, 2, 3][-1]", json!(3)),
            ("{a => {b => 5}}.a.b", json!(5)),
            ("{'a b' => 5}['a b']", json!(5)),
            ("let(x => 2, y => 3) -> $x * $y", json!(6)),
            ("with(2, 3) -> $1 * $2", json!(6)),
            ("let(x => 1) -> let(y => $x + 1) -> [$x, $y]", json!([1, 2])),
        ],
    );
}

#[test]
fn functions_over_lists() {
    gives(
        &json!({"l": [3, 1, 2, 1], "m": [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}], "n": [[1, [2, [3]]], 4]}),
        &[
            ("$.data.l.distinct()", json!([3, 1, 2])),
            ("$.data.m.distinct($.k)", json!([{"k": "a", "v": 1}, {"k": "b", "v": 2}])),
            ("$.data.l.orderBy($)", json!([1, 1, 2, 3])),
            ("[].orderBy($)", json!([])),
            ("$.data.l.orderByDescending($)", json!([3, 2, 1, 1])),
            ("$.data.l.where($ > 1).select($ * 10)", json!([30, 20])),
            ("$.data.l.selectMany([$, $])", json!([3, 3, 1, 1, 2, 2, 1, 1])),
            ("$.data.l.sum()", json!(7)),
            ("[].sum(0)", json!(0)),
            ("$.data.l.len()", json!(4)),
            ("len($.data.l)", json!(4)),
            ("$.data.l.count()", json!(4)),
            ("$.data.l.max()", json!(3)),
            ("$.data.l.min()", json!(1)),
            ("max(1, 2)", json!(2)),
            ("$.data.l.first()", json!(3)),
            ("[].first(x)", json!("x")),
            ("$.data.l.last()", json!(1)),
            ("[5].single()", json!(5)),
            ("$.data.l.skip(1).limit(2)", json!([1, 2])),
            ("$.data.l.take(10)", json!([3, 1, 2, 1])),
            ("$.data.l.takeWhile($ != 2)", json!([3, 1])),
            ("$.data.l.skipWhile($ != 2)", json!([2, 1])),
            ("$.data.l.indexOf(1)", json!(1)),
            ("$.data.l.lastIndexOf(1)", json!(3)),
            ("$.data.l.indexWhere($ < 3)", json!(1)),
            ("$.data.l.any()", json!(true)),
            ("$.data.l.any($ > 5)", json!(false)),
            ("$.data.l.all($ > 0)", json!(true)),
            ("$.data.l.reduce($1 + $2)", json!(7)),
            ("$.data.l.aggregate($1 + $2, 100)", json!(107)),
            ("$.data.l.accumulate($1 + $2)", json!([3, 4, 6, 7])),
            ("$.data.l.reverse()", json!([1, 2, 1, 3])),
            ("$.data.l.zip([a, b])", json!([[3, "a"], [1, "b"]])),
            ("$.data.l.enumerate()", json!([[0, 3], [1, 1], [2, 2], [3, 1]])),
            ("$.data.l.append(9)", json!([3, 1, 2, 1, 9])),
            ("concat([1], [2])", json!([1, 2])),
            ("[].defaultIfEmpty([0])", json!([0])),
            ("$.data.n.flatten()", json!([1, 2, 3, 4])),
            ("$.data.m.groupBy($.k, $.v)", json!([["a", [1, 3]], ["b", [2]]])),
            ("$.data.m.groupBy($.k, $.v, $.sum())", json!([["a", 4], ["b", 2]])),
            ("$.data.m.toDict($.k, $.v)", json!({"a": 3, "b": 2})),
            ("[1, 2].join([2, 3], $1 = $2, [$1, $2])", json!([[2, 2]])),
            ("list($.data.l.where($ = 1), 7)", json!([1, 1, 7])),
            ("list($.data.l)", json!([[3, 1, 2, 1]])),
            ("$.data.l.toList()", json!([3, 1, 2, 1])),
            ("$.data.l.toSet()", json!([3, 1, 2])),
            ("set(1, 1.0, '1')", json!([1, "1"])),
            ("[1, 2].union([2, 3])", json!([1, 2, 3])),
            ("[1, 2].intersect([2, 3])", json!([2])),
            ("[1, 2].difference([2, 3])", json!([1])),
            ("range(3)", json!([0, 1, 2])),
            ("range(5, 0, -2)", json!([5, 3, 1])),
        ],
    );
}

#[test]
fn functions_over_maps_texts_and_numbers() {
    gives(
        &json!({"m": {"a": 1, "b": {"c": [1]}}, "t": "  Web-1 "}),
        &[
            ("$.data.m.keys()", json!(["a", "b"])),
            ("$.data.m.values()", json!([1, {"c": [1]}])),
            ("$.data.m.items()", json!([["a", 1], ["b", {"c": [1]}]])),
            ("$.data.m.get(a)", json!(1)),
            ("$.data.m.get(z)", json!(null)),
            ("$.data.m.get(z, 5)", json!(5)),
            ("$.data.m.containsKey(a)", json!(true)),
            ("$.data.m.containsValue(2)", json!(false)),
            ("$.data.m.delete(b)", json!({"a": 1})),
            ("$.data.m.set(b, 2)", json!({"a": 1, "b": 2})),
            ("$.data.m.mergeWith({b => {c => [2], d => 3}})", json!({"a": 1, "b": {"c": [1, 2], "d": 3}})),
            ("dict(a => 1, 'b c' => 2)", json!({"a": 1, "b c": 2})),
            ("dict([[a, 1]])", json!({"a": 1})),
            ("$.data.m.len()", json!(2)),
            (
                "isDict($.data.m) and isList([]) and isString('') and isNumber(1.5) and isInteger(1) and isBoolean(true)",
                json!(true),
            ),
            ("$.data.t.trim()", json!("Web-1")),
            ("$.data.t.trimLeft() + '|' + $.data.t.trimRight()", json!("Web-1 |  Web-1")),
            ("'xxaxx'.trim('x')", json!("a")),
            ("$.data.t.trim().toUpper() + $.data.t.trim().toLower()", json!("WEB-1web-1")),
            ("'a,b,c'.split(',')", json!(["a", "b", "c"])),
            ("'a,b,c'.split(',', 1)", json!(["a", "b,c"])),
            ("'a,b,c'.rightSplit(',', 1)", json!(["a,b", "c"])),
            ("' a  b '.split()", json!(["a", "b"])),
            ("regex('[,;]').split('a,b;c')", json!(["a", "b", "c"])),
            ("regex('[,;]').split('a,b;c', 1)", json!(["a", "b;c"])),
            ("regex('(x)|y').split('axbyc')", json!(["a", "x", "b", null, "c"])),
            ("regex('x').split('abc')", json!(["abc"])),
            (
                "let(image => 'site:5000/a/b:7'.rightSplit(':', 1)[0]) -> regex('^(.*?)/(.*)').split($image)[1]",
                json!("site:5000"),
            ),
            ("[1, null, true].join('-')", json!("1-null-true")),
            ("','.join([a, b])", json!("a,b")),
            ("'a-a-a'.replace('a', 'b')", json!("b-b-b")),
            ("'a-a-a'.replace('a', 'b', 1)", json!("b-a-a")),
            ("'abc'.replace({a => 1, c => 3})", json!("1b3")),
            ("'abcdef'.substring(2)", json!("cdef")),
            ("'abcdef'.substring(2, 3)", json!("cde")),
            ("'abc'.startsWith('x', 'ab') and 'abc'.endsWith('bc')", json!(true)),
            ("'abcb'.indexOf('b') + 'abcb'.lastIndexOf('b')", json!(4)),
            ("'web-1'.matches('web-[0-9]+')", json!(true)),
            ("regex('^w').matches('web')", json!(true)),
            ("isEmpty('') and isEmpty(null)", json!(true)),
            ("' '.norm()", json!(null)),
            ("str(null) + str(1.5) + str(true)", json!("null1.5true")),
            ("int('5') + int(null) + int(2.9)", json!(7)),
            ("float('1.5')", json!(1.5)),
            ("bool('') or bool(0)", json!(false)),
            ("abs(-5) + sign(-2)", json!(4)),
            ("round(2.5) + round(1.256, 2)", json!(3.26)),
            ("coalesce(null, null, 3)", json!(3)),
            ("switch(1 > 2 => a, true => b)", json!("b")),
            ("5.switch($ > 3 => large, true => small)", json!("large")),
            ("`a\\b`", json!("a\\b")),
            ("'a\\'b\\n'", json!("a'b\n")),
        ],
    );
}

#[test]
fn what_is_left_out_is_refused_by_name() {
    says(
        &json!({}),
        &[
            ("now()", "yaql, character 1: the yaql function 'now' is not supported"),
            ("$.data.memorize()", "yaql, character 8: the yaql function 'memorize' is not supported"),
            ("repeat(a)", "yaql: 'repeat' has too few arguments"),
            ("[1].repeat(-1)", "yaql: 'repeat' without a number of times has no end, and is not supported"),
            ("'{0!r}'.format(1)", "yaql: 'format': there is no value for '{0!r}'"),
            ("'{0:,}'.format(1)", "yaql: 'format': the form ',' is not supported"),
            ("'{0:2000}'.format(a)", "yaql: 'format': the form '2000' is not supported"),
            ("'{'.format(a)", "yaql: 'format': a single '{' in the text"),
            ("generate(1, true, $)", "yaql: this takes too many steps"),
            ("a * 100000000000", "yaql: this makes too large a value"),
            ("[1].repeat(100000000000)", "yaql: this takes too many steps"),
            ("thenBy([1], $)", "yaql: 'thenBy' does not stand here"),
            ("[1].thenBy($)", "yaql: 'thenBy' stands after orderBy(…)"),
            ("regex('(a)').replace(a, '\\\\2')", "yaql: the regex has no group 2"),
            (
                "$.data.where(regex('a(').matches($))",
                "yaql, character 14: the regex 'a(' is not valid: regex parse error:\\n    a(\\n     ^\\nerror: unclosed group",
            ),
            (
                "$.data.selct($)",
                "yaql, character 8: there is no yaql function 'selct'; did you mean 'select'?",
            ),
            ("def(f, 1) -> f()", "yaql, character 1: the yaql function 'def' is not supported"),
        ],
    );
}

fn no_end(name: &str) -> String {
    format!("yaql: '{name}' has no end here: limit(…), take(…), takeWhile(…) or first() must follow")
}

#[test]
fn sequences_are_made_as_far_as_they_are_taken() {
    gives(
        &json!({"tree": {"a": ["b", "c"], "b": ["d"]}}),
        &[
            ("sequence(1).select($ * $).where($ mod 2 = 1).skip(1).limit(3)", json!([9, 25, 49])),
            ("sequence(step => 5).takeWhile($ < 12)", json!([0, 5, 10])),
            ("sequence().skipWhile($ < 3).enumerate().first()", json!([0, 3])),
            ("sequence().select($ + 1).any($ > 10)", json!(true)),
            ("sequence(10).indexWhere($ = 12)", json!(2)),
            ("[1, 2].cycle().take(3)", json!([1, 2, 1])),
            ("[].cycle().first(none)", json!("none")),
            ("x.repeat().limit(2)", json!(["x", "x"])),
            ("sequence().limit(0)", json!([])),
            ("sequence().limit(2).len()", json!(2)),
            ("generate(1, true, 10 - $, decycle => true)", json!([1, 9])),
            (
                "let(t => $.data.tree) -> generateMany(a, $t.get($, []), depthFirst => true)",
                json!(["a", "b", "d", "c"]),
            ),
            ("let(t => $.data.tree) -> generateMany(a, $t.get($, []))", json!(["a", "b", "c", "d"])),
            ("generateMany(a, [b, a], decycle => true)", json!(["a", "b"])),
        ],
    );
    for (expression, name) in [
        ("sequence()", "sequence"),
        ("sequence().select($)", "sequence"),
        ("sequence().len()", "sequence"),
        ("sequence().reverse().limit(1)", "sequence"),
        ("[1, 2].zip([1].cycle())", "cycle"),
        ("{a => [1].repeat()}", "repeat"),
        ("let(s => sequence()) -> $s.limit(1)", "sequence"),
        ("[1].select([$].cycle())", "cycle"),
    ] {
        says(&json!({}), &[(expression, no_end(name).as_str())]);
    }
    says(
        &json!({}),
        &[
            ("sequence().where(false).limit(1)", "yaql: this takes too many steps"),
            ("sequence().takeWhile(true)", "yaql: this takes too many steps"),
            ("generateMany(1, [1, 1]).len()", "yaql: this takes too many steps"),
        ],
    );
}

#[test]
fn sets_are_not_lists() {
    gives(
        &json!({}),
        &[
            ("isSet(set(a)) and isSet([a].toSet()) and isSet(set(a) - set(b))", json!(true)),
            ("isSet([a]) or isList(set(a))", json!(false)),
            ("set(a, b) = set(b, a)", json!(true)),
            ("set(a) = [a]", json!(false)),
            ("set(set(1, 2), set(2, 1)).len()", json!(1)),
            ("(set(1, 2, 3) - set(2)).orderBy($)", json!([1, 3])),
            (
                "[set(1) < set(1), set(1) <= set(1), set(1, 2) >= set(3), set(2, 1) > set(1)]",
                json!([false, true, false, true]),
            ),
        ],
    );
    says(&json!({}), &[("[1] < [2]", "yaql: a list and a list are in no order")]);
}

#[test]
fn arguments_by_name_and_calls_by_name() {
    gives(
        &json!({"m": {"a": {"b": 1}, "l": [1]}}),
        &[
            (
                "$.data.m.mergeWith({a => {c => 2}, l => [2]}, maxLevels => 1)",
                json!({"a": {"c": 2}, "l": [2]}),
            ),
            (
                "$.data.m.mergeWith({a => {b => 2}, l => [1]}, $1 + $2, $1 * 10 + $2)",
                json!({"a": {"b": 12}, "l": [1, 1]}),
            ),
            ("$.data.m[a, 5].b + $.data.m[z, 5]", json!(6)),
            ("$nothing", json!(null)),
            ("call(concat, [a, b], {}) + call(dict, [], {x => 1}).x.str()", json!("ab1")),
            (
                "[abcb.indexOf(b, 2), abcb.indexOf(b, 0, 1), abcb.indexOf(b, -1), a.indexOf(a, 5)]",
                json!([3, -1, 3, -1]),
            ),
            ("[abcb.lastIndexOf(b, 2), abcb.lastIndexOf(b, 0, 3)]", json!([3, 1])),
            ("characters(octdigits => true).join('')", json!("01234567")),
            ("characters(hexdigits => true, whitespace => true).len()", json!(28)),
            ("characters(printable => true).len()", json!(100)),
            ("[1, 2, 3].groupBy($ mod 2, aggregator => $.sum())", json!([[1, 4], [0, 2]])),
            ("[1, 2, 3].groupBy($ mod 2, $, [$[0], $[1].sum()])", json!([[1, 4], [0, 2]])),
        ],
    );
}

#[test]
fn expressions_that_are_wrong() {
    says(
        &json!({"m": {"name": 1}, "l": [1, "a"], "t": "x"}),
        &[
            ("", "yaql: want a value, got the end"),
            ("$.", "yaql: want a name, got the end"),
            ("$.data.m.select($", "yaql: want ',', got the end"),
            ("1 +", "yaql: want a value, got the end"),
            ("1 2", "yaql, character 3: want the end, got 2"),
            ("'abc", "yaql, character 1: a ' is missing at the end of the text"),
            ("[1, 2", "yaql: want ',', got the end"),
            ("{a}", "yaql: a map is written {key => value}"),
            ("a ; b", "yaql, character 3: ';' means nothing here"),
            ("$.data.m.nam", "yaql: the map has no key 'nam'; did you mean 'name'?"),
            ("$.data.t.name", "yaql: text has no 'name'"),
            ("$.data.l[5]", "yaql: the list has no item 5; it has 2"),
            ("$x.name", "yaql: nothing has no 'name'"),
            ("[1][0, 2]", "yaql: a list has no items with a default"),
            ("[1][0, 2, 3]", "yaql, character 9: want ']', got ','"),
            ("{a => 1}.mergeWith({}, levels => 1)", "yaql: 'mergeWith' takes no 'levels'"),
            ("call(memorize, [], {})", "yaql: the yaql function 'memorize' is not supported"),
            ("call(lenn, [], {})", "yaql: there is no yaql function 'lenn'; did you mean 'len'?"),
            ("call(sequence, [], {})", no_end("sequence").as_str()),
            ("$.data.t.where($)", "yaql: 'where' wants a list, got text"),
            ("null.keys()", "yaql: 'keys' wants a map, got nothing"),
            ("$.data.l.where()", "yaql: 'where' has too few arguments"),
            ("$.data.l.max()", "yaql: text and a number are in no order"),
            ("1 + 'a'", "yaql: '+' of a number and text"),
            ("1 / 0", "yaql: a division by zero"),
            ("9223372036854775807 * 9223372036854775807", "yaql: the number is too large"),
            ("99999999999999999999", "yaql, character 1: the number 99999999999999999999 is too large"),
            ("[].first()", "yaql: 'first' of an empty list"),
            ("dict([1])", "yaql: 'dict' wants pairs of a key and a value, got a number"),
            ("dict([[[1], 2]])", "yaql: want text as the key of a map, got a list"),
            ("int('x')", "yaql: 'int' wants a number, got other text"),
            ("let(a => 1)", "yaql: 'let' does not stand here"),
            ("1 -> 2", "yaql: before '->' stands let(…) or with(…)"),
            ("regex('a')", "yaql: a regex is no value of a template"),
        ],
    );
    for regex in ["(?!y)x", r"(x)\1"] {
        let error = value(&format!("{{yaql: {{expression: \"'x' =~ '{}'\"}}}}", regex.replace('\\', "\\\\")));
        let error = error.unwrap_err();
        assert!(error.contains("yaql: the regex '") && error.contains("not supported"), "{error}");
    }
    let error = value("{yaql: {expression: '$.data.select('}}").unwrap_err();
    assert_eq!(error, "t:11:42: outputs.o.value.yaql.expression: yaql: want a value, got the end");
    let error = value("{yaql: {expression: [a]}}").unwrap_err();
    assert_eq!(error, "t:11:42: outputs.o.value.yaql: want text as 'expression', got a list");
    let error = value("{yaql: {expresion: a}}").unwrap_err();
    assert!(error.contains("yaql: unknown key 'expresion' of yaql; did you mean 'expression'?"), "{error}");
}

#[test]
fn an_expression_may_be_made() {
    let made = value(
        "{yaql: {expression: {str_replace: {template: '$.data.F()', params: {F: max}}}, data: [1, 5]}}",
    );
    assert_eq!(made, Ok(json!(5)));
    let error = value("{yaql: {expression: {get_param: list}, data: []}}").unwrap_err();
    assert!(error.ends_with("yaql.expression: want text as 'expression', got a list"), "{error}");
}

#[test]
fn every_function_of_yaql_is_evaluated() {
    let arguments = [
        "",
        "1",
        "1, 1",
        "'a'",
        "'a', 'a'",
        "'abc', 1",
        "'a', 'a', 'b'",
        "[1]",
        "[1], [1]",
        "[1], 1",
        "[1], $",
        "[1], $, $",
        "[1], $1 + $2, 0",
        "[a], ','",
        "[[a, 1]]",
        "{a => 1}",
        "{a => 1}, a",
        "{a => 1}, {a => 2}",
        "true => 1",
        "{a => 1}, [a]",
        "[1], 0, [2]",
        "1, $ < 3, $ + 1",
        "[1], []",
        "len, ['a'], {}",
    ];
    let fails = |name: &str| {
        let cut = if matches!(name, "cycle" | "sequence") { ".limit(1)" } else { "" };
        let tries =
            arguments.iter().map(|arguments| evaluated(&format!("{name}({arguments}){cut}"), &json!({})));
        tries.into_iter().all(|tried| tried.is_err_and(|said| !said.contains("a regex is no value")))
    };
    let is_word = |name: &str| matches!(name, "let" | "with" | "thenBy" | "thenByDescending");
    let names = crate::yaql::FUNCTIONS.iter().copied().filter(|name| !is_word(name));
    let failing: Vec<&str> = names.filter(|name| fails(name)).collect();
    assert!(failing.is_empty(), "{failing:?}");
}
