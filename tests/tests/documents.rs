//! What documents say of tests is true: those that they name are there.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use muster_template::{FlowFile, FlowLimits, IntentFile, IntentLimits};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The tests that tables of this document name in their last column.
fn named(text: &str) -> BTreeSet<&str> {
    let last_column =
        text.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once("| ").map(|(_, last)| last));
    let is_name =
        |word: &&str| word.contains('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    last_column.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(is_name).collect()
}

fn check(document: &str, after: &str, least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join(document)).unwrap();
    let (_, text) = text.split_once(after).unwrap();
    let named = named(text);
    assert!(named.len() > least, "{named:?}");
    let mut files = Vec::new();
    sources(root, &mut files);
    // A test within a module of its own stands further to the right.
    let flat = |file: &PathBuf| fs::read_to_string(file).unwrap().replace("\n    ", "\n");
    let code: String = files.iter().map(flat).collect();
    let is_there = |name: &str| {
        let after = |declared: String| {
            let above = code.split(&declared).map(|before| before.lines().last().unwrap_or_default());
            above.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
        };
        after(format!("\nfn {name}()")) || after(format!("\nasync fn {name}()"))
    };
    let absent: Vec<_> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(absent.is_empty(), "{document} names tests that are not there: {absent:?}");
}

#[test]
fn the_tests_that_the_table_of_guarantees_names_are_there() {
    check("docs/network.md", "## What others guarantee", 15);
}

#[test]
fn the_tests_that_the_comparison_with_onos_names_are_there() {
    check("docs/flows.md", "## ONOS, row by row", 15);
}

#[test]
fn the_tests_that_the_rules_of_environments_name_are_there() {
    check("docs/environments.md", "## Values", 10);
}

#[test]
fn the_tests_that_the_table_of_nested_stacks_names_are_there() {
    check("docs/nested.md", "", 12);
}

#[test]
fn each_row_of_signals_has_its_test() {
    check("docs/signals.md", "", 8);
}

#[test]
fn the_tests_that_the_table_of_hot_names_are_there() {
    check("docs/hot.md", "## Versions", 40);
}

/// What is supported or refused has a test that says so; what is out of scope has a reason.
#[test]
fn no_row_of_hot_lacks_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut rows = 0;
    for document in ["docs/hot.md", "docs/nested.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for line in text.lines().filter(|line| line.starts_with("| ") && !line.ends_with(" test |")) {
            if line.starts_with("| ---") {
                continue;
            }
            rows += 1;
            if line.contains("| out of scope") {
                assert!(line.contains("| out of scope: "), "{document} gives no reason: {line}");
            } else {
                assert!(!named(line).is_empty(), "{document} has a row without a test: {line}");
            }
        }
    }
    assert!(rows > 110, "{rows}");
}

/// An issue has a number of its own, a severity, its cause and a way around.
#[test]
fn known_issues_are_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs/known-issues.md")).unwrap();
    let (text, seeds) = text.split_once("## Simulator seeds").unwrap();
    let issues: Vec<String> = text
        .split("\n- **")
        .skip(4)
        .map(|issue| issue.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let mut last = 0;
    for issue in &issues {
        let (number, issue) = issue.split_once("** (").unwrap();
        let number: u32 = number.parse().unwrap();
        assert!(number > last, "{number} follows {last}");
        last = number;
        assert!(
            ["high) ", "medium) ", "low) "].iter().any(|severity| issue.starts_with(severity)),
            "{issue}"
        );
        assert!(issue.contains(" Cause: ") && issue.contains(" Way around: "), "{issue}");
    }
    assert!(issues.len() > 100 && seeds.contains("- **"), "{}", issues.len());
}

#[test]
fn every_function_is_in_the_table_of_hot() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/hot.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("## Functions").unwrap();
    for function in muster_template::functions() {
        assert!(table.contains(&format!("`{}`", function.name)), "{}", function.name);
    }
}

#[test]
fn every_fact_is_in_its_table_and_nothing_else() {
    use muster_shared::model::{DiskFacts, Facts, LinkFacts, NeighbourFacts};

    fn names(at: &str, value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, value)| names(&format!("{at}.{key}"), value, found));
            }
            serde_json::Value::Array(items) => {
                let item = match at {
                    "disks" => "DISK",
                    "links" => "LINK",
                    _ => "N",
                };
                items.iter().for_each(|value| names(&format!("{at}.{item}"), value, found));
            }
            _ => found.push(at.to_owned()),
        }
    }
    let neighbour =
        NeighbourFacts { management: vec!["10.0.0.1".parse().unwrap()], ..NeighbourFacts::default() };
    let link = LinkFacts {
        addresses: vec!["10.0.0.1/24".parse().unwrap()],
        neighbours: vec![neighbour],
        ..LinkFacts::default()
    };
    let facts = Facts { disks: vec![DiskFacts::default()], links: vec![link], ..Facts::default() };
    let mut found = Vec::new();
    for name in muster_template::FACTS {
        names(name, &muster_template::fact(&facts, name).unwrap(), &mut found);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/facts.md");
    let text = fs::read_to_string(path).unwrap();
    let (table, _) = text.split_once("## ").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut listed: Vec<String> = rows.map(str::to_owned).collect();
    found.sort();
    listed.sort();
    assert_eq!(listed, found);
}

#[test]
fn examples_of_intent_files_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str, text: &str| {
        let read = IntentFile::parse(name, text, IntentLimits::default());
        assert!(!read.unwrap_or_else(|errors| panic!("{errors}")).intents.is_empty());
    };
    for entry in fs::read_dir(folder.join("examples/intents")).unwrap() {
        let file = entry.unwrap().path();
        read(file.to_str().unwrap(), &fs::read_to_string(&file).unwrap());
    }
    let document = fs::read_to_string(folder.join("docs/intents.md")).unwrap();
    let mut examples = document.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    for _ in 0..2 {
        read("docs/intents.md", examples.next().unwrap());
    }
    let none = std::collections::BTreeMap::new();
    let template = muster_template::parse("docs/intents.md", examples.next().unwrap(), &none);
    assert_eq!(template.unwrap_or_else(|errors| panic!("{errors}")).resources.len(), 2);
    let text = fs::read_to_string(folder.join("examples/intents.yaml")).unwrap();
    let template = muster_template::parse("examples/intents.yaml", &text, &none);
    assert_eq!(template.unwrap_or_else(|errors| panic!("{errors}")).resources.len(), 5);
}

#[test]
fn examples_of_flow_files_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/flows");
    let files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let read = FlowFile::parse(file.to_str().unwrap(), &text, FlowLimits::default());
        assert!(!read.unwrap_or_else(|errors| panic!("{errors}")).is_empty());
    }
}

#[test]
fn the_tests_that_the_threat_model_names_are_there() {
    check("SECURITY.md", "## Against whom", 40);
}
