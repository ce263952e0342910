//! Every promise of the manuals has a test, row by row: `docs/conformance/rows.tsv` says which, and
//! `docs/conformance/README.md` is made from it. After a change of the rows, `MUSTER_WRITE_DOCUMENTS=1` before this
//! test writes that page anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::sources;

const HEAD: &str = "# Conformance\n
The tests that show what the manuals say, row by row. A line without a row is about the text of the section.
`tests/tests/documents/conformance.rs` makes this page from [rows.tsv](rows.tsv), and fails when a row or a test is gone.
[onos.md](onos.md) compares Muster with ONOS's own tests.\n";

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A row of a manual: its page, section and first cell, which is empty for the section's text.
type Row = (String, String, String);

fn rows() -> Vec<(Row, Vec<String>)> {
    let text = fs::read_to_string(root().join("docs/conformance/rows.tsv")).unwrap();
    let row = |line: &str| {
        let [page, section, row, tests] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        ((page.to_owned(), section.to_owned(), row.to_owned()), tests.split(' ').map(str::to_owned).collect())
    };
    text.lines().skip(1).map(row).collect()
}

/// Every test, with the file that has it.
pub fn tests() -> BTreeMap<String, String> {
    let root = root();
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.sort();
    let mut found = BTreeMap::new();
    for file in files {
        let at = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let mut is_test = false;
        for line in fs::read_to_string(&file).unwrap().lines().map(str::trim) {
            let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            match name.and_then(|name| name.split_once('(')) {
                Some((name, _)) if is_test => drop(found.insert(name.to_owned(), at.clone())),
                _ => {
                    is_test = line.starts_with("#[test]")
                        || line.starts_with("#[tokio::test")
                        || is_test && line.starts_with("#[")
                }
            }
        }
    }
    found
}

/// Rows of all tables, with the whole line.
fn tables(page: &str) -> Vec<(Row, String)> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let (mut section, mut above, mut found) = (String::new(), String::new(), Vec::new());
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if line.starts_with('#') {
            line.trim_start_matches(['#', ' ']).clone_into(&mut section);
        }
        let is_head = lines.get(number + 1).is_some_and(|next| next.starts_with("|---"));
        let Some(cells) = line.strip_prefix("| ").filter(|_| !is_head) else { continue };
        let first = cells.replace("\\|", "\u{0}").split('|').next().unwrap().trim().replace('\u{0}', "\\|");
        if !first.is_empty() {
            above = first;
        }
        found.push(((page.to_owned(), section.clone(), above.clone()), (*line).to_owned()));
    }
    found
}

#[test]
fn each_row_of_the_manuals_has_its_tests() {
    let (rows, tests) = (rows(), tests());
    assert!(rows.len() > 180, "{}", rows.len());
    let absent: BTreeSet<_> =
        rows.iter().flat_map(|(_, names)| names).filter(|name| !tests.contains_key(*name)).collect();
    assert!(absent.is_empty(), "rows.tsv names tests that are not there: {absent:?}");
    let pages: BTreeSet<&str> = rows.iter().map(|((page, ..), _)| page.as_str()).collect();
    let known: BTreeSet<&Row> =
        rows.iter().map(|(row, _)| row).filter(|(_, _, first)| !first.is_empty()).collect();
    let sections: BTreeSet<(&str, &str)> =
        known.iter().map(|(page, section, _)| (&**page, &**section)).collect();
    let written: Vec<(Row, String)> = pages.iter().flat_map(|page| tables(page)).collect();
    for ((page, section, first), line) in &written {
        if !sections.contains(&(page, section)) {
            continue;
        }
        let is_out = line.contains("| out of scope: ");
        assert!(is_out || !line.contains("| out of scope"), "{page} gives no reason: {line}");
        let row = (page.clone(), section.clone(), first.clone());
        assert!(is_out || known.contains(&row), "rows.tsv has no test for this row of {page}: {line}");
    }
    let written: BTreeSet<&Row> = written.iter().map(|(row, _)| row).collect();
    let gone: Vec<_> = known.difference(&written).collect();
    assert!(gone.is_empty(), "rows.tsv has rows that no manual has: {gone:?}");
}

#[test]
fn the_page_is_made_from_its_rows() {
    let (rows, tests) = (rows(), tests());
    let (mut text, mut last) = (HEAD.to_owned(), (String::new(), String::new()));
    for ((page, section, first), names) in &rows {
        if last != (page.clone(), section.clone()) {
            if last.0 != *page {
                writeln!(text, "\n## [{page}](../{page})").unwrap();
            }
            writeln!(text, "\n### {section}\n| row | tests |\n|---|---|").unwrap();
            last = (page.clone(), section.clone());
        }
        let link =
            |name: &String| format!("[`{name}`](../../{})", tests.get(name).map_or("", String::as_str));
        writeln!(text, "| {first} | {} |", names.iter().map(link).collect::<Vec<_>>().join(" ")).unwrap();
    }
    let path = root().join("docs/conformance/README.md");
    if std::env::var_os("MUSTER_WRITE_DOCUMENTS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let is_new = fs::read_to_string(&path).is_ok_and(|written| written == text);
    assert!(is_new, "docs/conformance/README.md is stale: MUSTER_WRITE_DOCUMENTS=1 makes it anew");
}
