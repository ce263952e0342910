//! `muster-sim`: scripted scenarios, and how the engine scales.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use muster_tests::scale::Shape;
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
    /// Engine and database with many resources, without a network; prints its figures as JSON
    #[command(after_help = "Example: muster-sim scale --shape wide --resources 100000")]
    Scale {
        /// How resources depend on each other
        #[arg(long, value_enum, default_value = "wide")]
        shape: Shape,
        /// How many there are
        #[arg(long, default_value_t = 1000)]
        resources: usize,
        /// How many simulated nodes they are spread over
        #[arg(long, default_value_t = 10)]
        nodes: usize,
        /// Where the database is put for the time of the run [default: the system's temporary directory]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Scenario { files } => scenarios(&files),
        Verb::Scale { shape, resources, nodes, dir } => {
            let dir = dir.unwrap_or_else(std::env::temp_dir);
            let figures = muster_tests::scale::run(shape, resources, nodes, &dir)
                .and_then(|figures| Ok(serde_json::to_string(&figures)?));
            match figures {
                Ok(line) => {
                    println!("{line}");
                    ExitCode::SUCCESS
                }
                Err(error) => {
                    eprintln!("error: {error:#}");
                    ExitCode::FAILURE
                }
            }
        }
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
