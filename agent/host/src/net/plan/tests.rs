//! One file of `testdata/` per case: a document, what is, what was before, and the steps in words.

use std::path::Path;

use muster_shared::model::network::NetworkDocument;
use serde::Deserialize;
use serde_json::Value;

use super::super::snapshot::Snapshot;
use super::super::state::State;
use super::super::verify::differences;
use super::super::wanted::Target;
use super::plan;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    note: String,
    document: Value,
    state: State,
    #[serde(default)]
    before: Snapshot,
    #[serde(default)]
    steps: Vec<String>,
    error: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

fn cases() -> Vec<(String, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/testdata");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let case = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = serde_json::from_str(&std::fs::read_to_string(path).unwrap());
        (name.clone(), case.unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    paths.iter().map(case).collect()
}

fn target(case: &Case) -> Target {
    let document = NetworkDocument::parse(&case.document).unwrap();
    let mut before = case.before.clone();
    before.extend(document.link_names().map(|name| name.as_str()), &case.state);
    Target::new(&document, &before, &case.state, Some("netdev"))
}

#[test]
fn each_case_gives_its_steps() {
    let cases = cases();
    assert!(cases.len() > 15, "testdata is there");
    for (name, case) in cases {
        let target = target(&case);
        let planned = plan(&target, &case.state);
        let found = planned.map(|steps| steps.iter().map(ToString::to_string).collect::<Vec<_>>());
        let wanted = case.error.as_ref().map_or(Ok(&case.steps), Err);
        let context = format!("{name}: {}", case.note);
        assert_eq!(found.as_ref().map_err(ToString::to_string), wanted.map_err(Clone::clone), "{context}");
        let missing = target.missing.iter().map(ToString::to_string);
        let warnings: Vec<String> = missing.chain(target.warnings).collect();
        assert_eq!(warnings, case.warnings, "{context}");
    }
}

/// Planning and comparing agree: no step means no difference, and what differs has steps.
#[test]
fn a_plan_is_empty_where_nothing_differs() {
    for (name, case) in cases().iter().filter(|(_, case)| case.error.is_none()) {
        let found = differences(&target(case), &case.state);
        // A document's links lose what it does not list, which comparing with "desired ⊆ observed" does
        // not see.
        if case.steps.is_empty() {
            assert_eq!(found, [], "{name}");
        } else if !case.steps.iter().all(|step| step.starts_with("remove")) {
            assert_ne!(found, [], "{name}");
        }
    }
}
