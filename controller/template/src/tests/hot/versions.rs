//! The features of each version.

use super::{template, value_in};
use crate::{Version, functions, parse};
use std::collections::BTreeMap;

#[test]
fn versions_by_date_and_by_name() {
    for name in [
        "2013-05-23",
        "2014-10-16",
        "2015-04-30",
        "2015-10-15",
        "2016-04-08",
        "2016-10-14",
        "newton",
        "2017-02-24",
        "ocata",
        "2017-09-01",
        "pike",
        "2018-03-02",
        "queens",
        "2018-08-31",
        "rocky",
        "2021-04-16",
        "wallaby",
    ] {
        let read = parse("t", &format!("heat_template_version: {name}\n"), &BTreeMap::new()).unwrap();
        assert_eq!(read.version(), name);
        assert!(Version::from_name(name).is_some());
    }
    for (name, wanted) in [
        ("2018-08-30", "unknown version '2018-08-30'; did you mean '2018-08-31'?"),
        ("2030-01-01", "unknown version '2030-01-01'; the newest is 2021-04-16 (wallaby)"),
        ("2018-01-01", "unknown version '2018-01-01'; the newest is 2021-04-16 (wallaby)"),
        ("zebra", "unknown version 'zebra'; the newest is 2021-04-16 (wallaby)"),
        ("roky", "unknown version 'roky'; did you mean 'rocky'?"),
        ("5", "want a version such as 2018-08-31, got a number"),
    ] {
        let error = parse("t", &format!("heat_template_version: {name}\n"), &BTreeMap::new()).unwrap_err();
        assert_eq!(error.to_string(), format!("t:1:24: heat_template_version: {wanted}"));
    }
}

/// The lists of Heat's documentation: what each version adds, as a value and in conditions.
const ADDED: [(&str, &[&str], &[&str]); 11] = [
    (
        "2013-05-23",
        &["get_attr", "get_file", "get_param", "get_resource", "list_join", "resource_facade", "str_replace"],
        &[],
    ),
    ("2014-10-16", &[], &[]),
    ("2015-04-30", &["repeat", "digest"], &[]),
    ("2015-10-15", &["str_split"], &[]),
    ("2016-04-08", &["map_merge"], &[]),
    ("2016-10-14", &["yaql", "map_replace", "if"], &["equals", "get_param", "not", "and", "or"]),
    ("2017-02-24", &["str_replace_strict", "filter"], &[]),
    (
        "2017-09-01",
        &["make_url", "list_concat", "list_concat_unique", "contains", "str_replace_vstrict"],
        &["yaql", "contains"],
    ),
    ("2018-03-02", &[], &[]),
    ("2018-08-31", &[], &[]),
    ("2021-04-16", &[], &[]),
];

#[test]
fn each_version_has_what_heat_says() {
    for (version, values, conditions) in ADDED {
        let version = Version::from_name(version).unwrap();
        // One is Muster's own, and in all of them.
        for function in functions().iter().filter(|function| function.name != "get_node") {
            let (name, since) = (function.name, Some(version));
            assert_eq!(function.since == since, values.contains(&name), "{name} {version}");
            assert_eq!(function.in_conditions == since, conditions.contains(&name), "{name} {version}");
        }
    }
}

#[test]
fn what_a_version_lacks_is_refused_with_the_version_that_has_it() {
    for (version, value, wanted) in [
        (
            "2015-04-30",
            "{str_split: [',', a]}",
            "t:11:22: outputs.o.value.str_split: the function 'str_split' needs heat_template_version 2015-10-15 or later; this template has 2015-04-30",
        ),
        (
            "2016-10-14",
            "{filter: [[a], [b]]}",
            "t:11:22: outputs.o.value.filter: the function 'filter' needs heat_template_version 2017-02-24 (ocata) or later; this template has 2016-10-14 (newton)",
        ),
        (
            "2013-05-23",
            "{list_join: [',', [a], [b]]}",
            "t:11:22: outputs.o.value.list_join: 'list_join' of several lists needs heat_template_version 2015-10-15 or later; this template has 2013-05-23",
        ),
        (
            "ocata",
            "{repeat: {template: x, for_each: {x: [1]}, permutations: false}}",
            "t:11:22: outputs.o.value.repeat: 'permutations' of 'repeat' needs heat_template_version 2017-09-01 (pike) or later; this template has 2017-02-24 (ocata)",
        ),
        (
            "rocky",
            "{if: [true, x]}",
            "t:11:22: outputs.o.value.if: 'if' without a third item needs heat_template_version 2021-04-16 (wallaby) or later; this template has 2018-08-31 (rocky)",
        ),
    ] {
        assert_eq!(value_in(version, value).unwrap_err(), wanted);
    }
    assert!(value_in("2015-10-15", "{str_split: [',', a]}").is_ok());
    assert!(value_in("wallaby", "{if: [true, x]}").is_ok());
}

#[test]
fn sections_and_keys_of_later_versions() {
    for (version, rest, wanted) in [
        (
            "2016-04-08",
            "conditions: {c: true}",
            "t:10:1: conditions: the section 'conditions' needs heat_template_version 2016-10-14 (newton) or later; this template has 2016-04-08",
        ),
        (
            "2016-04-08",
            "resources: {a: {type: Muster::Dummy, condition: true}}",
            "t:10:38: resources.a.condition: 'condition' of a resource needs heat_template_version 2016-10-14 (newton) or later; this template has 2016-04-08",
        ),
        (
            "2016-04-08",
            "outputs: {a: {value: 1, condition: true}}",
            "t:10:25: outputs.a.condition: 'condition' of an output needs heat_template_version 2016-10-14 (newton) or later; this template has 2016-04-08",
        ),
        (
            "newton",
            "conditions: {c: {contains: [a, [a]]}}",
            "t:10:17: conditions.c.contains: the function 'contains' in a condition needs heat_template_version 2017-09-01 (pike) or later; this template has 2016-10-14 (newton)",
        ),
    ] {
        assert_eq!(template(version, rest).unwrap_err(), wanted);
    }
    // The version may come last.
    let text = "parameters: {p: {type: string, default: a, tags: [x]}}\nconditions: {c: true}\nheat_template_version: 2016-04-08\n";
    assert_eq!(
        parse("t", text, &BTreeMap::new()).unwrap_err().to_string(),
        "t:1:44: parameters.p.tags: 'tags' of a parameter needs heat_template_version 2018-03-02 (queens) or later; this template has 2016-04-08\n\
         t:2:1: conditions: the section 'conditions' needs heat_template_version 2016-10-14 (newton) or later; this template has 2016-04-08"
    );
}
