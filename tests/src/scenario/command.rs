//! `muster-sim scenario`: which runs of which files, and what is printed of them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use super::{Bounds, Scenario, Variant};

/// The command's arguments.
#[derive(Args, Debug)]
pub struct Wish {
    /// Scenario files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Instead of the script, its operations at every possible moment: each after 0, 1, 2, … jobs of the one
    /// before, also two of them at once
    #[arg(long)]
    pub interleave: bool,
    /// Each run also in this many other orders
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub orders: u64,
    /// The interleaving to run: for each operation but the first, after how many jobs it comes, or 'idle'
    #[arg(long, value_name = "JOBS,JOBS…", conflicts_with_all = ["interleave", "orders"], value_delimiter = ',', value_parser = arrival)]
    pub arrive: Option<Vec<Arrival>>,
    /// The order to run
    #[arg(long, value_name = "SEED", conflicts_with_all = ["interleave", "orders"])]
    pub order: Option<u64>,
    /// Take only every Nth of the moments at which two operations interrupt
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub stride: usize,
}

/// After so many jobs, or when nothing is left to do.
type Arrival = Option<usize>;

/// Failures shown of one file; more of them seldom have another cause.
const SHOWN: usize = 3;

fn arrival(text: &str) -> anyhow::Result<Arrival> {
    if text == "idle" {
        return Ok(None);
    }
    let jobs = text.parse().context("want a number of jobs, or 'idle'")?;
    Ok(Some(jobs))
}

/// Runs of one file, or of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// As they should be.
    pub passed: usize,
    /// Not so.
    pub failed: usize,
}

/// Runs what was asked for and prints a line for each file, what to type for each failure, and the sums.
pub fn run(wish: &Wish) -> Tally {
    let mut sum = Tally::default();
    for file in &wish.files {
        let tally = match read(file) {
            Ok(scenario) => one(file, &scenario, wish),
            Err(error) => {
                println!("FAIL  {}: {error:#}", file.display());
                Tally { passed: 0, failed: 1 }
            }
        };
        sum.passed += tally.passed;
        sum.failed += tally.failed;
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    sum
}

/// Reads a scenario file.
///
/// # Errors
/// The file cannot be read, or is no scenario.
pub fn read(file: &Path) -> anyhow::Result<Scenario> {
    let text = std::fs::read(file)?;
    serde_json::from_slice(&text).context("not a scenario")
}

fn one(file: &Path, scenario: &Scenario, wish: &Wish) -> Tally {
    let mut tally = Tally::default();
    let mut seen = |again: String, result: anyhow::Result<()>| match result {
        Ok(()) => tally.passed += 1,
        Err(error) => {
            tally.failed += 1;
            if tally.failed <= SHOWN {
                println!("FAIL  {}: {error:#}", scenario.name);
                println!("      again: muster-sim scenario {}{again}", file.display());
            }
        }
    };
    if let Some(arrivals) = &wish.arrive {
        let variant = Variant { arrivals: arrivals.clone(), order: wish.order };
        let result = match arrivals.len() == scenario.interrupting() {
            true => scenario.run_variant(&variant),
            false => wrong_count(scenario, arrivals.len()),
        };
        seen(format!(" {variant}"), result);
    } else if wish.interleave {
        let bounds = Bounds { orders: wish.orders, stride: wish.stride };
        scenario.interleave(bounds, &mut |variant, result| seen(format!(" {variant}"), result));
    } else {
        let orders = wish.order.map_or(1..=wish.orders, |seed| seed..=seed);
        if wish.order.is_none() {
            seen(String::new(), scenario.run(None));
        }
        for seed in orders {
            seen(format!(" --order {seed}"), scenario.run(Some(seed)));
        }
    }
    let Tally { passed, failed } = tally;
    match (passed, failed) {
        (1, 0) => println!("ok    {}", scenario.name),
        (_, 0) => println!("ok    {} ({passed} runs)", scenario.name),
        _ => println!("FAIL  {} ({failed} of {} runs)", scenario.name, passed + failed),
    }
    tally
}

fn wrong_count(scenario: &Scenario, given: usize) -> anyhow::Result<()> {
    bail!("--arrive names {given} arrivals: {} operations come after the first", scenario.interrupting())
}
