//! `muster-sim`: scripted scenarios, and how the engine scales.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use muster_tests::scale::Shape;
use muster_tests::scenario::command;

#[derive(Parser)]
#[command(name = "muster-sim", version, about = "Runs Muster's engine without servers")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Scripted runs over one engine and one simulated node; ends with 'N passed, N failed'
    #[command(
        after_help = "Examples: muster-sim scenario tests/scenarios/*.json\n          muster-sim scenario --interleave --orders 5 tests/scenarios/*.json"
    )]
    Scenario(command::Wish),
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
        Verb::Scenario(wish) => match command::run(&wish).failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
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
