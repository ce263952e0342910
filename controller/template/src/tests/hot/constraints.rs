//! `constraints` of parameters.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::parse;

fn read(kind: &str, rest: &str) -> Result<crate::Template, String> {
    let text = format!("heat_template_version: wallaby\nparameters:\n  p: {{type: {kind}, {rest}}}\n");
    parse("t", &text, &BTreeMap::new()).map_err(|errors| errors.to_string())
}

/// Nothing where the value is allowed.
fn refusal(kind: &str, rest: &str, value: Value) -> Option<String> {
    let template = read(kind, rest).unwrap();
    let given = BTreeMap::from([("p".to_owned(), value)]);
    let error = template.bind(&given).err()?.to_string();
    let error = error.strip_prefix("-P p: ").expect("what was given");
    Some(error.strip_suffix(" (t:3:3)").expect("the parameter's place").to_owned())
}

fn check(kind: &str, constraint: &str, rows: &[(Value, &str)]) {
    for (value, wanted) in rows {
        let refused = refusal(kind, &format!("constraints: [{constraint}]"), value.clone());
        assert_eq!(refused.as_deref().unwrap_or(""), *wanted, "{constraint} {value}");
    }
}

#[test]
fn length_of_texts_lists_and_maps() {
    check(
        "string",
        "{length: {min: 2, max: 4}}",
        &[
            (json!("ab"), ""),
            (json!("äöüß"), ""),
            (json!("a"), "want 2 to 4 characters, got 1"),
            (json!("abcde"), "want 2 to 4 characters, got 5"),
        ],
    );
    check(
        "string",
        "{length: {min: 1}}",
        &[(json!("x"), ""), (json!(""), "want at least 1 characters, got 0")],
    );
    check(
        "comma_delimited_list",
        "{length: {max: 2}}",
        &[(json!("a,b"), ""), (json!("a,b,c"), "want at most 2 items, got 3")],
    );
    check(
        "json",
        "{length: {max: '1'}}",
        &[(json!({"a": 1}), ""), (json!({"a": 1, "b": 2}), "want at most 1 keys, got 2")],
    );
}

#[test]
fn range_of_numbers() {
    check(
        "number",
        "{range: {min: 0, max: 10}}",
        &[
            (json!(0), ""),
            (json!("10"), ""),
            (json!(9.5), ""),
            (json!(-1), "want 0 to 10, got '-1'"),
            (json!(10.5), "want 0 to 10, got '10.5'"),
        ],
    );
    check(
        "number",
        "{range: {max: 18446744073709551614}}",
        &[
            (json!(u64::MAX - 1), ""),
            (json!(u64::MAX), "want at most 18446744073709551614, got '18446744073709551615'"),
        ],
    );
    check("number", "{range: {min: 1.5}}", &[(json!(2), ""), (json!(1), "want at least 1.5, got '1'")]);
}

#[test]
fn modulo_of_numbers() {
    // Heat's documentation: odd numbers
    check(
        "number",
        "{modulo: {step: 2, offset: 1}}",
        &[
            (json!(7), ""),
            (json!(8), "want a multiple of 2 with an offset of 1, got '8'"),
            (json!(1.5), "want a multiple of 2 with an offset of 1, got '1.5'"),
        ],
    );
    check("number", "{modulo: {step: 5, offset: 0}}", &[(json!(-10), ""), (json!(0), "")]);
}

#[test]
fn allowed_values_name_the_nearest() {
    check(
        "string",
        "{allowed_values: [m1.small, m1.medium, m1.large]}",
        &[
            (json!("m1.small"), ""),
            (
                json!("m1.smal"),
                "want one of m1.small, m1.medium, m1.large, got 'm1.smal'; did you mean 'm1.small'?",
            ),
        ],
    );
    check(
        "number",
        "{allowed_values: [1, '2']}",
        &[(json!("1.0"), ""), (json!(2), ""), (json!(3), "want one of 1, 2, got '3'; did you mean '1'?")],
    );
    check(
        "boolean",
        "{allowed_values: ['on']}",
        &[(json!("yes"), ""), (json!(false), "want one of True, got 'False'")],
    );
    check(
        "comma_delimited_list",
        "{allowed_values: [a, b]}",
        &[(json!("a,b,a"), ""), (json!("a,c"), "want only a, b, got '[\"a\", \"c\"]'")],
    );
}

#[test]
fn allowed_pattern_is_of_the_whole_value() {
    // Heat's documentation
    check(
        "string",
        "{allowed_pattern: '[A-Z]+[a-zA-Z0-9]*'}",
        &[
            (json!("User1"), ""),
            (json!("user"), "want text that matches '[A-Z]+[a-zA-Z0-9]*', got 'user'"),
            (json!("User 1"), "want text that matches '[A-Z]+[a-zA-Z0-9]*', got 'User 1'"),
            (json!("xUser"), "want text that matches '[A-Z]+[a-zA-Z0-9]*', got 'xUser'"),
        ],
    );
    // The first alternative that matches counts, as in Python.
    check(
        "string",
        "{allowed_pattern: 'a|ab'}",
        &[(json!("a"), ""), (json!("ab"), "want text that matches 'a|ab', got 'ab'")],
    );
    check(
        "string",
        "{allowed_pattern: '^x$'}",
        &[(json!("x"), ""), (json!("x\n"), "want text that matches '^x$', got 'x\\n'")],
    );
}

#[test]
fn allowed_pattern_looks_around_and_back() {
    // TripleO's bonds
    let bonds = "^((?!balance.tcp).)*$";
    let refused = format!("want text that matches '{bonds}', got 'bond_mode=balance-tcp lacp=active'");
    let of = |pattern: &str| format!("{{allowed_pattern: '{pattern}'}}");
    check(
        "string",
        &of(bonds),
        &[
            (json!("bond_mode=active-backup"), ""),
            (json!(""), ""),
            (json!("bond_mode=balance-tcp lacp=active"), &refused),
        ],
    );
    for (pattern, fits, not) in [
        (r"(?=.*\d)(?=.*[a-z]).{4,8}", "abc1", "abcd"),
        (r"\w+(?<!-)", "web1", "web-"),
        (r"([ab])\1", "aa", "ab"),
        // `\Z` is the very end, and a backslash before `Z` is one.
        (r"[a-z]+\Z", "ab", "ab1"),
        (r"(?!x)[a-z]+\Z", "ab", "xb"),
        (r"a\\Z", r"a\Z", "a"),
        ("(?P<first>[ab])x(?P=first)", "bxb", "bxa"),
        ("(?!x)y|yes", "y", "yes"),
    ] {
        let refused = format!("want text that matches '{pattern}', got '{not}'");
        check("string", &of(pattern), &[(json!(fits), ""), (json!(not), &refused)]);
    }
    // Steps, sizes and values are bounded.
    for (pattern, value) in [
        ("(a|aa)+(?!b)$".to_owned(), format!("{}c", "a".repeat(5_000))),
        (bonds.to_owned(), "x".repeat(100_000)),
    ] {
        let constraints = format!("constraints: [{}]", of(&pattern));
        assert!(refusal("string", &constraints, json!(value)).is_some(), "{pattern}");
    }
    for pattern in [format!("(?!x){}", "a".repeat(300)), r"(?!x)\w{500}".to_owned()] {
        let text = format!("parameters:\n  p: {{type: string, constraints: [{}]}}\n", of(&pattern));
        let errors = parse("t", &format!("heat_template_version: rocky\n{text}"), &Default::default());
        assert!(errors.unwrap_err().to_string().contains("is not supported"), "{pattern}");
    }
}

#[test]
fn a_description_is_said_instead() {
    let constraints = "constraints: [{length: {min: 6, max: 8}, description: User name must be between 6 and 8 characters}, {allowed_pattern: '[A-Z]+', description: Capitals only}]";
    assert_eq!(
        refusal("string", constraints, json!("A")).unwrap(),
        "User name must be between 6 and 8 characters"
    );
    assert_eq!(refusal("string", constraints, json!("ABCDEf")).unwrap(), "Capitals only");
    assert_eq!(refusal("string", constraints, json!("ABCDEF")), None);
}

#[test]
fn a_hidden_value_is_not_shown() {
    for constraint in
        ["{allowed_values: [secret1]}", "{allowed_pattern: '[a-z]+'}", "{custom_constraint: ip_addr}"]
    {
        let refused =
            refusal("string", &format!("hidden: true, constraints: [{constraint}]"), json!("secret2"))
                .unwrap();
        assert!(!refused.contains("secret2"), "{refused}");
    }
    assert_eq!(refusal("boolean", "hidden: true", json!(31337)).unwrap(), "want true or false, got a number");
    assert_eq!(refusal("boolean", "hidden: false", json!(31337)).unwrap(), "want true or false, got '31337'");
}

#[test]
fn defaults_are_held_to_constraints_too() {
    assert_eq!(
        read("string", "default: abc, constraints: [{length: {max: 2}}]")
            .unwrap()
            .bind(&BTreeMap::from([("p".to_owned(), json!("x"))]))
            .unwrap_err()
            .to_string(),
        "t:3:30: parameters.p.default: want at most 2 characters, got 3"
    );
}

#[test]
fn custom_constraints_that_need_no_service() {
    for (name, good, bad) in [
        (
            "ip_addr",
            &["10.0.0.1", "fd00::7", "::"][..],
            &["10.0.0", "10.0.0.256", "10.0.0.1/24", "x", ""][..],
        ),
        (
            "net_cidr",
            &["10.0.0.0/24", "10.0.0.1/24", "fd00::/64", "0.0.0.0/0"],
            &["10.0.0.0", "10.0.0.0/33", "10/8", "fd00::/129", "10.0.0.0/+8"],
        ),
        ("ip_or_cidr", &["10.0.0.1", "10.0.0.0/24", "fd00::7"], &["10.0.0", "a/24"]),
        (
            "mac_addr",
            &["52:54:00:12:34:56", "52-54-00-12-34-56", "5254.0012.3456", "525400123456"],
            &["52:54:00:12:34", "52:54:00:12:34:5g", "525400-123456"],
        ),
        (
            "dns_name",
            &["web-1", "web-1.example.com", "web-1.example.com.", ""],
            &["-web", "web-", "a..b", "web_1", "a.123"],
        ),
        ("rel_dns_name", &["web-1.lab", ""], &["web-1.lab."]),
        ("dns_domain", &["example.com.", ""], &["example.com"]),
        (
            "iso_8601",
            &[
                "2026-01-31",
                "2026-02-28T12:00:00Z",
                "2026-01-31 12:00:00.5+01:00",
                "20260131T120000Z",
                "2024-02-29",
                "2026",
            ],
            &[
                "2026-13-01",
                "2026-02-29",
                "2026-01-31T25:00",
                "noon",
                "2026-01-31T12:00+1:00:00",
                "2026-01-31T1:00",
                "2026-01-31T12.5",
            ],
        ),
        (
            "cron_expression",
            &["0 3 * * *", "*/5 0-6,12 1 jan mon-fri", "0 0 1 1 * 30", ""],
            &["60 * * * *", "* * * *", "a * * * *", "*/0 * * * *", "* * 0 * *"],
        ),
    ] {
        for value in good {
            check("string", &format!("{{custom_constraint: {name}}}"), &[(json!(value), "")]);
        }
        for value in bad {
            let constraint = format!("constraints: [{{custom_constraint: {name}}}]");
            assert!(refusal("string", &constraint, json!(value)).is_some(), "{name} {value}");
        }
    }
    check(
        "comma_delimited_list",
        "{custom_constraint: ip_addr}",
        &[
            (json!("10.0.0.1,fd00::7"), ""),
            (json!("10.0.0.1,x"), "want an IP address, got '[\"10.0.0.1\", \"x\"]'"),
        ],
    );
}

#[test]
fn constraints_that_are_refused() {
    for (kind, constraint, wanted) in [
        (
            "string",
            "{custom_constraint: novva.keypair}",
            ".custom_constraint: unknown constraint 'novva.keypair'; known are cron_expression, dns_domain, dns_name, ip_addr, \
             ip_or_cidr, iso_8601, mac_addr, net_cidr, rel_dns_name",
        ),
        (
            "string",
            "{custom_constraint: expiration}",
            ".custom_constraint: the constraint 'expiration' is not supported: a template is read again later, when the time has come",
        ),
        (
            "string",
            "{custom_constraint: timezone}",
            ".custom_constraint: the constraint 'timezone' is not supported: there is no list of time zones here",
        ),
        (
            "string",
            "{custom_constraint: ip_adr}",
            ".custom_constraint: unknown constraint 'ip_adr'; did you mean 'ip_addr'?",
        ),
        ("string", "{range: {min: 1}}", ".range: 'range' is for parameters of type number; this is string"),
        (
            "number",
            "{length: {min: 1}}",
            ".length: 'length' is for parameters of type string, comma_delimited_list, json; this is number",
        ),
        (
            "json",
            "{allowed_values: [a]}",
            ".allowed_values: 'allowed_values' is for parameters of type string, number, boolean, comma_delimited_list; this is json",
        ),
        ("number", "{allowed_values: [1, x]}", ".allowed_values[1]: want a number, got text"),
        ("string", "{allowed_values: a}", ".allowed_values: want a list of values, got text"),
        ("string", "{length: {}}", ".length: want 'min' or 'max'"),
        ("string", "{length: {min: -1}}", ".length: want whole numbers from 0 on"),
        ("string", "{length: {mn: 1}}", ".length: unknown key 'mn'; did you mean 'min'?"),
        ("string", "{length: 5}", ".length: want {min: …, max: …}, got a number"),
        ("number", "{range: {min: x}}", ".range: want a number, got text"),
        ("number", "{modulo: {step: 2}}", ".modulo: want 'step' and 'offset'"),
        ("number", "{modulo: {step: 0, offset: 0}}", ".modulo: 'step' must not be 0"),
        ("number", "{modulo: {step: 2, offset: 2}}", ".modulo: 'offset' must be smaller than 'step'"),
        ("number", "{modulo: {step: 2, offset: -1}}", ".modulo: 'step' and 'offset' must have one sign"),
        ("number", "{modulo: {step: 1.5, offset: 0}}", ".modulo: want whole numbers"),
        (
            "string",
            "{allowed_pattern: '['}",
            ".allowed_pattern: the pattern '[' is not taken: unclosed character class",
        ),
        (
            "string",
            r"{allowed_pattern: '(?<a>x)\g<a>(?!x)'}",
            r".allowed_pattern: the pattern '(?<a>x)\g<a>(?!x)' is not taken: unrecognized escape sequence",
        ),
        (
            "string",
            "{allowed_pattern: '(?(1)a|b)'}",
            ".allowed_pattern: the pattern '(?(1)a|b)' is not taken: unrecognized flag",
        ),
        ("string", "{allowed_pattern: 5}", ".allowed_pattern: want a regular expression, got a number"),
        (
            "string",
            "{description: x}",
            ": a constraint is missing; known are length, range, modulo, allowed_values, allowed_pattern, custom_constraint",
        ),
        ("string", "{lenght: {min: 1}}", ": unknown constraint 'lenght'; did you mean 'length'?"),
        (
            "string",
            "{length: {min: 1}, allowed_values: [a]}",
            ": 'allowed_values' and 'length' are two constraints: each is an item of its own",
        ),
        ("string", "x", ": want a map such as {length: {max: 8}}, got text"),
    ] {
        let error = read(kind, &format!("constraints: [{constraint}]")).unwrap_err();
        let (_, said) = error.split_once(": parameters.p.constraints[0]").unwrap();
        assert_eq!(said, wanted, "{constraint}");
    }
    let error = read("string", "constraints: {length: {min: 1}}").unwrap_err();
    assert_eq!(error, "t:3:34: parameters.p.constraints: want a list of constraints, got a map");
}

#[test]
fn environments_are_held_to_constraints_too() {
    let template = read("comma_delimited_list", "constraints: [{length: {max: 2}}]").unwrap();
    let bind = |texts: &[&str]| {
        let environment = crate::Environment::parse(texts.iter().map(|text| ("e", *text))).unwrap();
        template.bind_with(&environment, &BTreeMap::new()).map_err(|errors| errors.to_string())
    };
    let merged = "parameter_merge_strategies: {p: merge}\nparameters: {p: 'b,c'}\n";
    assert!(bind(&["parameters: {p: 'a,b'}\n"]).is_ok());
    assert_eq!(
        bind(&["parameters: {p: 'a,b,c'}\n"]).err().unwrap(),
        "e:1:17: parameters.p: want at most 2 items, got 3"
    );
    assert_eq!(
        bind(&["parameters: {p: 'a'}\n", merged]).err().unwrap(),
        "e:2:17: parameters.p: want at most 2 items, got 3"
    );
}
