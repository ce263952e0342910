//! The mistakes in `tests/mutations` can still be made: each patch applies to the tree as it is. That the simulator
//! catches each is for `make mutations`, which takes long.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[test]
fn every_patch_applies() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the tree");
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let (mut patches, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(tree.join("tests/mutations")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        patches += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        *kinds.entry(name.split('-').nth(1).unwrap_or_default().to_owned()).or_default() += 1;
        let check =
            Command::new("git").args(["apply", "--check"]).arg(&path).current_dir(tree).output().unwrap();
        if !check.status.success() {
            wrong.push(format!("{name}: {}", String::from_utf8_lossy(&check.stderr)));
        }
    }
    assert!(wrong.is_empty(), "make these anew:\n{}", wrong.join("\n"));
    assert!(patches >= 12, "{patches} are too few");
    for kind in ["ordering", "preemption", "persistence", "cleanup", "ledger"] {
        assert!(kinds.get(kind).is_some_and(|count| *count >= 2), "two or more for {kind}: {kinds:?}");
    }
}
