//! Files that texts name are there: those of `docs/where.md`, with what is defined in them, and those of module heads.

use std::collections::BTreeSet;
use std::fs;

use super::conformance::root;
use super::sources;

/// The words before a name where Rust defines it.
const DEFINING: [&str; 7] = ["const", "enum", "fn", "static", "struct", "trait", "type"];

/// The most columns of a row.
const COLUMNS_MAX: usize = 160;

/// Whether this source defines the name. A comment defines nothing.
fn defines(source: &str, name: &str) -> bool {
    let mut code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| {
        let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        words.windows(2).any(|pair| DEFINING.contains(&pair[0]) && pair[1] == name)
    })
}

#[test]
fn the_page_names_files_and_what_is_in_them() {
    let page = fs::read_to_string(root().join("docs/where.md")).unwrap();
    let (mut rows, mut wrong) = (0, Vec::new());
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
        let (_, files) = row.rsplit_once(" | ").unwrap();
        if files == "file" {
            continue; // the head of a table
        }
        rows += 1;
        if row.chars().count() + "|  |".len() > COLUMNS_MAX {
            wrong.push(format!("more than {COLUMNS_MAX} columns: {row}"));
        }
        if !files.split('`').nth(1).is_some_and(|first| first.contains('/')) {
            wrong.push(format!("no file comes first: {row}"));
        }
        let mut file = None;
        for span in files.split('`').skip(1).step_by(2) {
            if span.contains('/') {
                file = fs::read_to_string(root().join(span)).ok().map(|source| (span, source));
                if file.is_none() {
                    wrong.push(format!("there is no file {span}"));
                }
            } else if let Some((path, source)) = &file
                && !defines(source, span)
            {
                wrong.push(format!("{path} defines no {span}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/where.md is wrong:\n{}", wrong.join("\n"));
    assert!(rows >= 90, "{rows}");
}

/// `` `row/job.rs` `` in a head, or on a page for builders, is a file whose path ends so, wherever it is.
#[test]
fn heads_name_files_that_are_there() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let paths: Vec<String> = files.iter().map(|file| file.to_string_lossy().replace('\\', "/")).collect();
    let is_there = |named: &str| paths.iter().any(|path| path.ends_with(&format!("/{named}")));
    let (mut named, mut wrong) = (0, BTreeSet::new());
    let pages = ["ARCHITECTURE.md", "docs/internals.md"].map(|page| root().join(page));
    for file in files.iter().chain(&pages) {
        let text = fs::read_to_string(file).unwrap();
        let is_page = file.extension().is_some_and(|it| it == "md");
        let head = text.lines().take_while(|line| is_page || line.starts_with("//!"));
        for name in head.flat_map(|line| line.split('`').skip(1).step_by(2)) {
            if name.ends_with(".rs") && !name.contains(['*', '{']) {
                named += 1;
                if !is_there(name) {
                    wrong.insert(format!("{}: {name}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "heads name files that are not there:\n{}", Vec::from_iter(wrong).join("\n"));
    assert!(named >= 500, "{named}");
}

#[test]
fn a_name_is_found_where_it_is_defined() {
    for (source, wanted) in [
        ("    pub(crate) async fn plan<T>(it: T) {}", true),
        ("const plan: usize = 1;", true),
        ("/// As fn plan does.\n// fn plan()", false),
        ("fn planned() { self.plan() }", false),
        ("use crate::fn_plan;", false),
    ] {
        assert_eq!(defines(source, "plan"), wanted, "{source}");
    }
}
