//! `muster-sim run` and `replay`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::count::Counts;
use super::shrink::shrink;
use super::{Level, Options, Outcome, required, run};

/// Threads: each takes the next seed.
const THREADS: usize = 2;
/// A line for whoever waits, every so many seeds.
const PROGRESS: u64 = 1000;
/// Failing seeds that are looked into: more would say the same.
const FAILURES_MAX: usize = 10;

/// Failures that are made smaller: each takes a minute.
const SHRUNK_MAX: usize = 1;

/// Runs seeds; ends with how often what happened.
pub fn run_seeds(first: Options, seeds: u64) -> (Counts, Vec<(Options, Outcome)>) {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let totals: Mutex<(Counts, Vec<(Options, Outcome)>)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= seeds {
                        return;
                    }
                    let options = Options { seed: first.seed.wrapping_add(n), ..first };
                    let outcome = run(options, BTreeSet::new(), None);
                    let Ok(mut totals) = totals.lock() else { return };
                    totals.0.merge(&outcome.counts);
                    if (n + 1).is_multiple_of(PROGRESS) {
                        eprintln!("{} of {seeds} seeds, {} failed", n + 1, totals.1.len());
                    }
                    if let Some(violation) = &outcome.violation {
                        eprintln!("seed {} fails: {violation}", options.seed);
                        totals.1.push((options, outcome));
                        stop.fetch_or(totals.1.len() >= FAILURES_MAX, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut totals = totals.into_inner().unwrap_or_default();
    totals.1.sort_by_key(|(options, _)| options.seed);
    totals
}

/// `muster-sim run`
pub fn run_verb(first: Options, seeds: u64, trace: Option<&Path>) -> ExitCode {
    quiet_panics();
    if let Some(path) = trace {
        match std::fs::File::create(path) {
            Ok(file) => drop(run(first, BTreeSet::new(), Some(Box::new(std::io::BufWriter::new(file))))),
            Err(error) => {
                eprintln!("error: cannot write {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
    }
    let began = Instant::now();
    let (counts, failures) = run_seeds(first, seeds);
    print!("{counts}");
    let failed = failures.len();
    for (n, (options, outcome)) in failures.into_iter().enumerate() {
        let violation = outcome.violation.unwrap_or_default();
        println!("FAIL  seed {}: {violation}", options.seed);
        println!("      {}", options.command());
        if n < SHRUNK_MAX {
            let (faults, violation) = shrink(options, outcome.fired, violation);
            println!("      with {} faults left: {violation}", faults.len());
            for fault in faults {
                let at = fault.at.0.as_secs_f64();
                println!("        {at:12.6} fault {} {} {}", fault.number, fault.kind.name(), fault.whom);
            }
        }
    }
    let is_all = first.faults == Level::Heavy && first.parts.is_all();
    let missing = if seeds >= required::SEEDS && is_all && failed == 0 {
        required::missing(&counts, first.parts)
    } else {
        Vec::new()
    };
    for what in &missing {
        println!("FAIL  it never happened: {what}");
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{seeds} seeds, {failed} failed, {} things never happened, {seconds:.1} s", missing.len());
    if failed == 0 && missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `muster-sim replay`
pub fn replay(options: Options) -> ExitCode {
    quiet_panics();
    let outcome = run(options, BTreeSet::new(), Some(Box::new(std::io::stdout())));
    println!("{} steps, digest {}", outcome.steps, outcome.digest);
    match outcome.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            println!("FAIL  {violation}");
            ExitCode::FAILURE
        }
    }
}

/// A panic is told with its seed, not as it comes.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}
