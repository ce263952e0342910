//! `muster-sim`: scripted scenarios, random sites, how the engine scales, a fleet of agents, the page of benchmarks.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use muster_tests::scale::Shape;
use muster_tests::scenario::command;
use muster_tests::{fleet, page, scaling, sim, topology};

/// As the controller has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "muster-sim", version, about = "Runs Muster's engine without servers")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Random operations on a simulated site, with faults; one seed is one run
    #[command(after_help = "Example: muster-sim run --seeds 1000 --faults heavy")]
    Run {
        #[command(flatten)]
        world: WorldArgs,
        /// Number of seeds, beginning with --seed
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// Write every step of the first seed to this file
        #[arg(long)]
        trace: Option<PathBuf>,
    },
    /// The same run again, every step printed
    #[command(after_help = "Example: muster-sim replay --seed 17 --faults heavy")]
    Replay {
        #[command(flatten)]
        world: WorldArgs,
    },
    /// Scripted runs over one engine and one simulated node; ends with 'N passed, N failed'
    #[command(
        after_help = "Examples: muster-sim scenario tests/scenarios/*.json\n          muster-sim scenario --interleave --orders 5 tests/scenarios/*.json"
    )]
    Scenario(command::Wish),
    /// Engine and database with many resources, without a network; prints its figures as JSON
    #[command(after_help = "Example: muster-sim scale --shape wide --resources 100000")]
    Scale {
        /// Shape of the dependencies between resources
        #[arg(long, value_enum, default_value = "wide")]
        shape: Shape,
        /// Number of resources
        #[arg(long, default_value_t = 1000)]
        resources: usize,
        /// Number of simulated nodes that share the resources
        #[arg(long, default_value_t = 10)]
        nodes: usize,
        /// Directory of the database during the run [default: the system's temporary directory]
        #[arg(long)]
        dir: Option<PathBuf>,
        /// An empty database: sqlite:PATH or postgres://USER@HOST/DATABASE [default: a new file under --dir]
        #[arg(long, value_name = "URL")]
        store: Option<String>,
    },
    /// Count the cost of a server: packets, bytes, rows and commits, from two small sites; prints lines of JSON
    #[command(after_help = "Example: muster-sim count --servers 1000")]
    Count {
        /// Number of servers of the smaller site; the other one has twice as many
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        servers: u64,
    },
    /// Intents over a large network whose cables fail and heal; prints its figures as JSON
    #[command(after_help = "Example: muster-sim topology --shape fat-tree --devices 10000 --intents 1000")]
    Topology {
        /// Shape of the network of bridges
        #[arg(long, value_enum, default_value = "fat-tree")]
        shape: topology::Shape,
        /// Number of bridges
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=50_000))]
        devices: u64,
        /// Number of intents, between ports of two bridges each
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        intents: u64,
        /// Cables that fail and heal, bridges and controllers that restart, in all
        #[arg(long, default_value_t = 100)]
        faults: u64,
        /// Seed of all random choices
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Thousands of agents with real connections to a running controller; prints rates and times as JSON
    #[command(
        after_help = "Example: muster-sim fleet --agents 1000 --connect mqtts://127.0.0.1:8883 --token \"$(muster node token --uses 1000 --name 'fleet-*')\" --jobs 1000"
    )]
    Fleet(Box<fleet::Wish>),
    /// Puts measurements on the page of benchmarks, and draws its plot
    #[command(
        after_help = "Example: muster-sim page lines.json --into docs\n         A line replaces the one of its kind that the page has."
    )]
    Page {
        /// Lines of JSON, as tests/bench/all.sh prints them
        lines: PathBuf,
        /// The folder of benchmarks.md and benchmarks.svg
        #[arg(long, value_name = "FOLDER")]
        into: PathBuf,
    },
}

#[derive(Args)]
struct WorldArgs {
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of servers
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    nodes: u64,
    /// Number of stacks that operators work on
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    stacks: u64,
    /// Virtual minutes until the faults stop
    #[arg(long, default_value_t = 20)]
    minutes: u64,
    /// Level of faults
    #[arg(long, value_enum, default_value = "heavy")]
    faults: sim::Level,
    /// Leaves out what sites have besides: for seeds that failed before they had
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    without: Vec<sim::Part>,
    /// Adds what is there only if it is asked for: history, or mixed ones
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    with: Vec<sim::Part>,
    /// Commits to this database of PostgreSQL, too, each seed to a site of its own that must be new
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
}

impl WorldArgs {
    fn options(&self) -> sim::Options {
        sim::Options {
            postgres: self.postgres.clone().map(|url| &*url.leak()),
            seed: self.seed,
            nodes: self.nodes as usize,
            stacks: self.stacks as usize,
            minutes: self.minutes,
            faults: self.faults,
            parts: sim::Parts::but(&self.without, &self.with),
        }
    }
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Run { world, seeds, trace } => sim::cli::run_verb(world.options(), seeds, trace.as_deref()),
        Verb::Replay { world } => sim::cli::replay(world.options()),
        Verb::Scenario(wish) => match command::run(&wish).failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
        Verb::Scale { shape, resources, nodes, dir, store } => {
            let dir = dir.unwrap_or_else(std::env::temp_dir);
            let store = store.map(|url| url.parse().context("--store is wrong")).transpose();
            prints(store.and_then(|store| muster_tests::scale::run(shape, resources, nodes, &dir, store)))
        }
        Verb::Count { servers } => prints_each(scaling::costs(servers)),
        Verb::Topology { shape, devices, intents, faults, seed } => {
            let (devices, intents, faults) = (devices as usize, intents as usize, faults as usize);
            prints(topology::run(topology::Options { shape, devices, intents, faults, seed }))
        }
        Verb::Fleet(wish) => prints(fleet::run(&wish)),
        Verb::Page { lines, into } => match page::run(&lines, &into) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fails(&error),
        },
    }
}

/// Figures as a line of JSON, or why there are none.
fn prints(figures: anyhow::Result<impl serde::Serialize>) -> ExitCode {
    prints_each(figures.map(|figures| [figures]))
}

/// Each as a line of JSON, or why there are none.
fn prints_each<T: serde::Serialize>(figures: anyhow::Result<impl IntoIterator<Item = T>>) -> ExitCode {
    let line = |figures: T| Ok(serde_json::to_string(&figures)?);
    match figures.and_then(|figures| figures.into_iter().map(line).collect::<anyhow::Result<Vec<_>>>()) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => fails(&error),
    }
}

fn fails(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
