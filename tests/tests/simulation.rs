//! The simulator: seeds that once failed, and fresh ones for a bounded time.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum as _;
use muster_testbed::Postgres;
use muster_tests::sim::{Level, Options, Part, Parts, run};
use muster_tests::topology::{self, Shape};

/// Fresh seeds are run for so long, and at most so many: `muster-sim run` is for more.
const FRESH: Duration = Duration::from_secs(45);
const FRESH_MAX: u64 = 80;
/// A run has the newest of those that once failed, and each of the others in one run of this many: they are of simulators
/// that drew other dice. `MUSTER_SEEDS=all` has all.
const TURNS: u64 = 12;

/// The number of this run; without one, of today.
fn run_number() -> u64 {
    let run_id = std::env::var("CI_RUN_ID").ok().and_then(|id| id.parse().ok());
    let today = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    run_id.unwrap_or_else(today)
}

fn passes(options: Options) {
    let outcome = run(options, BTreeSet::new(), None);
    if let Some(violation) = outcome.violation {
        panic!("{violation}\n{}", options.command());
    }
}

/// Lines of `tests/seeds` that have their turn.
fn corpus(is_all: bool, turn: u64) -> Vec<Options> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut seeds = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // What sites had not yet, or what is there only if it is asked for, by the file's name.
        let name = file.file_stem().unwrap().to_string_lossy();
        let parts = |prefix| -> Vec<Part> {
            let parts = name.strip_prefix(prefix).into_iter().flat_map(|parts| parts.split('-'));
            parts.map(|part| Part::from_str(part, true).unwrap()).collect()
        };
        let (left_out, asked) = (parts("without-"), parts("with-"));
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        for (line, place) in lines.zip(0_u64..) {
            if !is_all && name != "found" && place % TURNS != turn % TURNS {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [seed, nodes, stacks, minutes, faults] = words[..] else {
                panic!("{}: {line}", file.display())
            };
            seeds.push(Options {
                seed: seed.parse().unwrap(),
                nodes: nodes.parse().unwrap(),
                stacks: stacks.parse().unwrap(),
                minutes: minutes.parse().unwrap(),
                faults: Level::from_str(faults, true).unwrap(),
                postgres: None,
                parts: Parts::but(&left_out, &asked),
            });
        }
    }
    seeds
}

#[test]
fn each_that_once_failed_has_its_turn() {
    let all = corpus(true, 0).len();
    let in_turns: usize = (0..TURNS).map(|turn| corpus(false, turn).len()).sum();
    // One that is in each run is counted in each turn.
    let always = (in_turns - all) / (usize::try_from(TURNS).unwrap() - 1);
    assert!(all > 100 && in_turns > all, "{all} {in_turns}");
    assert!(always > 0 && always < all / 10, "the newest are in each run: {always}");
}

#[test]
fn what_once_failed() {
    let seeds = corpus(std::env::var_os("MUSTER_SEEDS").is_some(), run_number());
    assert!(!seeds.is_empty());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    passes(*seed);
                }
            });
        }
    });
}

/// Its rows go many by one statement, which must be what they are one after the other.
#[test]
fn postgresql_gives_back_what_a_site_has_committed() {
    let server = Postgres::start();
    server.create("sites");
    // A run's options are copied, and this process has few of them.
    let url: &'static str = server.url("sites").leak();
    let first = run_number() * 100_000 + 50_000;
    std::thread::scope(|scope| {
        for seeds in [[first, first + 1], [first + 2, first + 3]] {
            let options =
                move |seed| Options { seed, minutes: 10, postgres: Some(url), ..Options::default() };
            scope.spawn(move || seeds.into_iter().map(options).for_each(passes));
        }
    });
    let commits =
        format!("SELECT CAST(value AS BIGINT) > 100 FROM site_seed_{first}.meta WHERE key = 'commit'");
    assert_eq!(server.psql("sites", &commits), "t");
}

#[test]
fn one_seed_is_one_run() {
    for (seed, has_standbys) in [(1, false), (2, false), (3, true)] {
        let options = Options { seed, minutes: 5, ..Options::default() };
        let [first, second] = [(); 2].map(|()| run(options, BTreeSet::new(), None));
        assert_eq!((first.digest, first.steps, &first.counts), (second.digest, second.steps, &second.counts));
        assert!(first.steps > 100);
        assert_eq!(first.counts.to_string().contains(" standby "), has_standbys, "seed {seed}");
    }
}

#[test]
fn intents_over_networks_of_every_shape() {
    for (seed, shape) in (1..).zip(Shape::value_variants()) {
        let options = topology::Options { shape: *shape, devices: 200, intents: 60, faults: 60, seed };
        topology::run(options).unwrap_or_else(|wrong| panic!("{options:?}: {wrong:#}"));
    }
}

#[test]
fn fresh_seeds() {
    let began = Instant::now();
    let first = run_number() * 100_000;
    let mut seeds = 0;
    while began.elapsed() < FRESH && seeds < FRESH_MAX {
        let faults = [Level::Heavy, Level::Heavy, Level::Light, Level::None][seeds as usize % 4];
        passes(Options { seed: first + seeds, faults, ..Options::default() });
        seeds += 1;
    }
    println!("{seeds} fresh seeds from {first}");
}
