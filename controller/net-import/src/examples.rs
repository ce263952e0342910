//! Netplan's and nmstate's own example files (`tests/net-import/documents.json`): what becomes of each is in
//! `docs/conformance/net-import.tsv`. `tests/net-import/record` writes both anew.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::{Imported, Malformed, netplan, nmstate};

/// A file of the project, by its path there.
fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// A file's row, as `tests/net-import/record` writes it.
fn row(project: &str, path: &str, text: &str) -> String {
    let import = |value: Value| match project {
        "netplan" => netplan(vec![value]),
        _ => nmstate(&value),
    };
    let refused = |why: String| format!("{project}\t{path}\t-\tFILE:{why}");
    let imported: Result<Imported, Malformed> = match muster_yaml::parse(text) {
        Ok(value) => import(value),
        Err(error) => return refused(error.to_string()),
    };
    match imported {
        Ok(Imported { document, left_out }) => {
            let sections = document.as_object().unwrap().values();
            let objects: usize = sections.map(|section| section.as_array().unwrap().len()).sum();
            format!("{project}\t{path}\t{objects}\t{}", left_out.join("; "))
        }
        Err(error) => refused(format!(" {error}")),
    }
}

#[test]
fn example_files_become_what_is_recorded() {
    let files: Vec<Value> = serde_json::from_str(&read("tests/net-import/documents.json")).unwrap();
    let rows = read("docs/conformance/net-import.tsv");
    let recorded: BTreeSet<String> = rows.lines().skip(1).map(str::to_owned).collect();
    let of = |file: &Value| {
        let part = |key: &str| file[key].as_str().unwrap().to_owned();
        row(&part("project"), &part("path"), &part("text"))
    };
    let now: BTreeSet<String> = files.iter().map(of).collect();
    let differ: Vec<&String> = recorded.symmetric_difference(&now).collect();
    assert!(differ.is_empty(), "tests/net-import/record writes these rows anew: {differ:#?}");
    println!("{} example files ran", files.len());
}
