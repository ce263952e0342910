//! The mistakes in `tests/mutations` can still be made: each patch applies to the tree as it is, and the tests that patches
//! name are there. That each is caught, by the simulator or by its test, is for `make mutations`, which takes long.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the tree")
}

/// By name.
fn patches() -> BTreeMap<String, PathBuf> {
    let paths = std::fs::read_dir(tree().join("tests/mutations")).unwrap().map(|entry| entry.unwrap().path());
    let patches = paths.filter(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect()
}

#[test]
fn every_patch_applies() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let patches = patches();
    for (name, path) in &patches {
        *kinds.entry(name.split('-').nth(1).unwrap_or_default().to_owned()).or_default() += 1;
        let check =
            Command::new("git").args(["apply", "--check"]).arg(path).current_dir(tree()).output().unwrap();
        if !check.status.success() {
            wrong.push(format!("{name}: {}", String::from_utf8_lossy(&check.stderr)));
        }
    }
    assert!(wrong.is_empty(), "make these anew:\n{}", wrong.join("\n"));
    assert!(patches.len() >= 12, "{} are too few", patches.len());
    for kind in ["ordering", "preemption", "persistence", "cleanup", "ledger"] {
        assert!(kinds.get(kind).is_some_and(|count| *count >= 2), "two or more for {kind}: {kinds:?}");
    }
}

/// A line `Test: -p PACKAGE … NAME` above a patch: what stands before the name is for cargo test.
#[test]
fn every_test_that_a_patch_names_is_there() {
    let mut sources = Vec::new();
    collect(tree(), &mut sources);
    let code: String = sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let (mut named, mut wrong) = (0, Vec::new());
    for (name, path) in patches() {
        let text = std::fs::read_to_string(path).unwrap();
        let head = text.split("\ndiff ").next().unwrap_or_default();
        for line in head.lines().filter_map(|line| line.strip_prefix("Test: ")) {
            named += 1;
            let words: Vec<&str> = line.split_whitespace().collect();
            let test = words.last().copied().unwrap_or_default();
            let is_test = |before: &str| {
                let above = before.rsplit_once('\n').map_or("", |(above, _)| above);
                above.lines().next_back().is_some_and(|line| line.trim().contains("test"))
            };
            let declared = code.split(&format!("fn {test}()")).collect::<Vec<_>>();
            let is_there = declared[..declared.len() - 1].iter().any(|before| is_test(before));
            if words.first() != Some(&"-p") || !is_there {
                wrong.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "no such tests:\n{}", wrong.join("\n"));
    assert!(named >= 50, "{named} are too few");
}

/// A line `Seeds: FIRST ARGUMENTS…` above a patch, for muster-sim. It has no test then.
#[test]
fn what_a_patch_says_of_seeds_is_a_seed() {
    for (name, path) in patches() {
        let text = std::fs::read_to_string(path).unwrap();
        let head = text.split("\ndiff ").next().unwrap_or_default();
        let seeds: Vec<&str> = head.lines().filter_map(|line| line.strip_prefix("Seeds: ")).collect();
        let first = seeds.first().and_then(|line| line.split_whitespace().next());
        assert!(
            seeds.len() <= 1 && first.is_none_or(|first| first.parse::<u64>().is_ok()),
            "{name}: {seeds:?}"
        );
        assert!(seeds.is_empty() || !head.contains("\nTest: "), "{name} has a test as well");
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}
