//! What documents say of tests is true: those that they name are there.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

#[test]
fn the_tests_that_the_table_of_guarantees_names_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs/network.md")).unwrap();
    let last_column =
        text.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once("| ").map(|(_, last)| last));
    let named: BTreeSet<&str> = last_column.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 15, "{named:?}");
    let mut files = Vec::new();
    sources(root, &mut files);
    let code: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let absent: Vec<_> =
        named.iter().filter(|name| !code.contains(&format!("#[test]\nfn {name}()"))).collect();
    assert!(absent.is_empty(), "docs/network.md names tests that are not there: {absent:?}");
}
