//! Netplan's and nmstate's own example files: what becomes of each is in `docs/conformance/net-import.tsv`.
//!
//! Absent: the files, since netplan's are under the GPL. `tests/net-import/record` writes them among the samples
//! beside the repository, or where `MUSTER_SAMPLES` says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Imported, Malformed, netplan, nmstate};

fn samples() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    std::env::var_os("MUSTER_SAMPLES").map_or(beside, PathBuf::from).join("net-import/documents.json")
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
    let Ok(written) = std::fs::read(samples()) else {
        println!("0 example files ran: there is no {}", samples().display());
        return;
    };
    let files: Vec<Value> = serde_json::from_slice(&written).unwrap();
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance/net-import.tsv");
    let rows = std::fs::read_to_string(rows).unwrap();
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

#[test]
fn a_row_tells_what_becomes_of_a_file() {
    for (project, text, wanted) in [
        ("netplan", "network: {ethernets: {eth0: {}}}", "netplan\tf\t1\t"),
        (
            "nmstate",
            "interfaces: [{name: v, type: vrf}, {name: b, type: bond, state: absent}]",
            "nmstate\tf\t1\tinterfaces[0]: a network document has no vrf",
        ),
        ("nmstate", "{}", "nmstate\tf\t-\tFILE: interfaces: is missing: this is not a state of nmstate"),
        (
            "netplan",
            "a: &x 1\nb: *x\n",
            "netplan\tf\t-\tFILE:2:4: anchors and aliases are not supported here",
        ),
    ] {
        assert_eq!(row(project, "f", text), wanted);
    }
}
