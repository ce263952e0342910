//! `muster-sim`: scripted scenarios, and how the engine scales.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use muster_tests::scenario::Scenario;

#[derive(Parser)]
#[command(name = "muster-sim", version, about = "Runs Muster's engine without servers")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Scripted runs over one engine and one simulated node; ends with 'N passed, N failed'
    #[command(after_help = "Example: muster-sim scenario tests/scenarios/*.json")]
    Scenario {
        /// Scenario files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Scenario { files } => scenarios(&files),
    }
}

fn scenarios(files: &[PathBuf]) -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let result = std::fs::read(file)
            .map_err(anyhow::Error::from)
            .and_then(|text| serde_json::from_slice::<Scenario>(&text).context("not a scenario"))
            .and_then(|scenario| scenario.run().map(|()| scenario.name));
        match result {
            Ok(name) => {
                passed += 1;
                println!("ok    {name}");
            }
            Err(error) => {
                failed += 1;
                println!("FAIL  {}: {error:#}", file.display());
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
