//! Every scenario as it is written, with jobs in other orders, and a bounded family of interleavings of each.
//! `muster-sim scenario --interleave --orders 100 tests/scenarios/*.json` runs larger ones.

use std::path::{Path, PathBuf};

use muster_tests::scenario::{Bounds, Scenario, Variant, command, random};

/// Ours, and those recorded elsewhere where they are at hand.
fn files() -> Vec<PathBuf> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for dir in ["scenarios", "../../shared/samples/scenarios"] {
        let entries = std::fs::read_dir(tree.join(dir)).into_iter().flatten();
        files.extend(
            entries
                .map(|entry| entry.expect("a folder that can be read").path())
                .filter(|path| path.extension().is_some_and(|e| e == "json")),
        );
    }
    files.sort();
    assert!(files.len() >= 21, "Heat's tests have 21 scenarios: {files:?}");
    files
}

/// Runs `each` for every file, on two threads; `each` gives what failed and how many runs there were.
fn all(each: impl Fn(&Path) -> (Vec<String>, usize) + Sync) {
    let files = files();
    let (mut failed, mut runs) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let (each, files) = (&each, &files);
        let half = move |odd: usize| files.iter().skip(odd).step_by(2).map(move |file| each(file));
        let other = scope.spawn(move || half(1).collect::<Vec<_>>());
        let mut results: Vec<_> = half(0).collect();
        results.extend(other.join().expect("a run does not panic"));
        for (lines, count) in results {
            failed.extend(lines);
            runs += count;
        }
    });
    println!("{runs} runs of {} scenarios, {} failed", files.len(), failed.len());
    assert!(
        failed.is_empty(),
        "{} of {runs} runs failed, among them:\n{}",
        failed.len(),
        failed[..failed.len().min(10)].join("\n")
    );
}

#[test]
fn scripts_in_any_order_of_jobs() {
    all(|file| {
        let scenario = command::read(file).unwrap();
        let seeds = std::iter::once(None).chain((1..=10).map(Some));
        let failed = seeds.filter_map(|seed| {
            let order = seed.map(|seed| format!(" --order {seed}")).unwrap_or_default();
            let error = scenario.run(seed).err()?;
            Some(format!("muster-sim scenario {}{order}\n  {error:#}", file.display()))
        });
        (failed.collect(), 11)
    });
}

#[test]
fn operations_at_any_moment() {
    all(|file| {
        let scenario = command::read(file).unwrap();
        let (mut failed, mut runs) = (Vec::new(), 0);
        scenario.interleave(Bounds { orders: 1, stride: 1 }, &mut |variant: &Variant, result| {
            runs += 1;
            failed.extend(
                result
                    .err()
                    .map(|error| format!("muster-sim scenario {} {variant}\n  {error:#}", file.display())),
            );
        });
        (failed, runs)
    });
}

/// More for a long run: `MUSTER_SCENARIOS=100000`.
#[test]
fn scenarios_that_nobody_has_thought_of() {
    let count = std::env::var("MUSTER_SCENARIOS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let failed: Vec<String> = (0..count)
        .filter_map(|seed| {
            let (file, variant) = random::scenario(seed);
            let scenario: Scenario = serde_json::from_value(file.clone()).expect("a scenario");
            let error = scenario.run_variant(&variant).err()?;
            let path = std::env::temp_dir().join(format!("muster-random-{seed}.json"));
            std::fs::write(&path, file.to_string()).expect("a temporary file");
            Some(format!("muster-sim scenario {} {variant}\n  {error:#}", path.display()))
        })
        .collect();
    println!("{count} random scenarios, {} failed", failed.len());
    assert!(
        failed.is_empty(),
        "{} of {count} failed, among them:\n{}",
        failed.len(),
        failed[..failed.len().min(5)].join("\n")
    );
}
