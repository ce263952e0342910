//! The statements of documents are true: about tests, functions, facts, examples, known issues and each other.

#![allow(clippy::unwrap_used)]

mod compatibility;
mod conformance;
mod scaling;
mod settings;
mod where_decided;

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

/// The tests that this document names in tables are there.
fn check(document: &str, after: &str, least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join(document)).unwrap();
    let (_, text) = text.split_once(after).unwrap();
    let is_name =
        |word: &&str| word.contains('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let named: BTreeSet<&str> = rows
        .flat_map(|row| row.rsplit_once("| ").unwrap().1.split('`').skip(1).step_by(2))
        .filter(is_name)
        .collect();
    assert!(named.len() > least, "{named:?}");
    let tests = conformance::tests();
    let absent: Vec<_> = named.iter().filter(|name| !tests.contains_key(**name)).collect();
    assert!(absent.is_empty(), "{document} names tests that are not there: {absent:?}");
}

#[test]
fn the_tests_that_the_comparison_with_onos_names_are_there() {
    check("docs/conformance/onos.md", "## Flow rules", 30);
}

/// A test's name has a subject and what it does; the rest is for a comment.
#[test]
fn names_of_tests_are_short() {
    const NAME_MAX: usize = 60;
    let long: Vec<String> = conformance::tests().into_keys().filter(|name| name.len() > NAME_MAX).collect();
    assert!(long.is_empty(), "longer than {NAME_MAX} characters: {long:#?}");
}

/// An issue has a number of its own, a severity, its cause and a way around.
#[test]
fn known_issues_are_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs/known-issues.md")).unwrap();
    let issues: Vec<String> = text
        .split("\n- **")
        .filter(|issue| issue.starts_with(|c: char| c.is_ascii_digit()))
        .map(|issue| issue.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let mut numbers = BTreeSet::new();
    for issue in &issues {
        let (number, issue) = issue.split_once("** (").unwrap();
        assert!(numbers.insert(number.parse::<u32>().unwrap()), "{number} is there twice");
        assert!(
            ["high) ", "medium) ", "low) "].iter().any(|severity| issue.starts_with(severity)),
            "{issue}"
        );
        assert!(issue.contains(" Cause: ") && issue.contains(" Way around: "), "{issue}");
    }
    assert!(issues.len() > 100, "{}", issues.len());
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

/// `muster-sim page` with no line makes it anew.
#[test]
fn the_page_of_benchmarks_is_made_from_its_lines() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    let (text, plot) = (read("benchmarks.md"), read("benchmarks.svg"));
    let page = muster_tests::page::Page::again(&text).unwrap();
    assert_eq!(page.text, text, "docs/benchmarks.md is stale: muster-sim page /dev/null --into docs");
    assert!(page.plot == plot, "docs/benchmarks.svg is stale: muster-sim page /dev/null --into docs");
}

#[test]
fn links_of_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut pages: Vec<PathBuf> = ["docs", "docs/conformance", "docs/decisions", "docs/reference", ""]
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert!(pages.len() > 30, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link)) {
            let path = link.split('#').next().unwrap();
            let is_local = !path.is_empty() && !path.contains("://");
            let leads = || page.parent().unwrap().join(path).exists();
            assert!(!is_local || leads(), "{} links to {link}, which is not there", page.display());
        }
    }
}
