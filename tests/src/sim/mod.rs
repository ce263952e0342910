//! The simulator: the real engine, the real turns of the driver and the real agents on a clock of their own, with fake
//! hosts, and with everything going wrong that can.
//!
//! ```text
//!   operators ─▶ engine + driver ─▶ store (fails, stalls, ends) ─▶ bus (late, twice, never) ─▶ agents ─▶ ledgers ─▶ hosts
//!        └──────────────── reference model ──────────── compares, in the end ─────────────────────────────┘
//! ```
//!
//! **Phases.** Faults; then they stop and everything is mended, and every stack must come to an end; then operators
//! ask for what can be done, and it must be done; then they delete all, and nothing must be left.
//!
//! **Invariants.** One seed is one run, bit for bit. Nothing here asks the engine what is right.
//!
//! Absent: threads, clocks, files, sockets.

mod addresses;
mod adopt;
mod aftermath;
mod bounds;
mod breaks;
mod bus;
pub mod cli;
mod clocks;
mod controller;
mod count;
mod crowd;
mod cut_off;
mod dice;
mod disk;
mod drift;
mod effect;
mod fault;
mod fleet;
mod flow;
mod history;
mod host;
mod invariant;
mod job_fate;
mod large;
mod load;
mod machine;
mod maintenance;
mod needed_thing_stays;
mod network;
mod no_false_failure;
mod operator;
mod outbox;
mod plan;
mod real_database;
mod reference;
mod required;
mod rollout;
mod run;
mod script;
mod sealed;
mod served;
mod shared;
mod shrink;
mod signal;
mod silence;
mod standbys;
mod store;
mod watch;
mod world;

pub use count::Counts;
pub use dice::Dice;
pub use fault::{Fired, Kind, Level};
pub use run::{Outcome, run};

/// The options from which a run is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of servers.
    pub nodes: usize,
    /// Stacks that operators work on.
    pub stacks: usize,
    /// Virtual minutes in which things go wrong.
    pub minutes: u64,
    /// The level of faults.
    pub faults: Level,
    /// The parts that sites have besides the rest.
    pub parts: Parts,
    /// The URL of a database in PostgreSQL that takes the run's commits as well, as a site of its own, where other runs have
    /// a file of SQLite or nothing.
    pub postgres: Option<&'static str>,
}

/// The parts that a run may be without: seeds that failed before there was such a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Some servers have bridges with cables between them, and there are intents.
    pub network: bool,
    /// There are resources for each node that has some labels, which change, and rollouts of them.
    pub fleets: bool,
    /// Others change what jobs have made, drift has its policies, and servers are in maintenance.
    pub drift: bool,
    /// In some runs disks go back in time. Only where that is asked for: one such run in a hundred fails.
    pub history: bool,
    /// Several kinds of going back come in one run, again and again.
    pub mixed: bool,
    /// Some servers have slow lines, large contents, long jobs and many of them.
    pub load: bool,
    /// Clocks are set.
    pub clocks: bool,
    /// Large sites: one of a hundred has servers by the thousand.
    pub large: bool,
    /// Turns of some controllers have few rows, so that large operations enter theirs in slices.
    pub slices: bool,
    /// Some sites have several controllers.
    pub standbys: bool,
}

/// A part of a site, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Bridges, cables that fail, and intents
    Network,
    /// Resources for each node that has some labels, and rollouts of them
    Fleets,
    /// Others who change what jobs have made, policies for that, and servers in maintenance
    Drift,
    /// Disks that go back in time, in some runs
    History,
    /// With history: stores, servers, clones and a second controller in one run
    Mixed,
    /// Slow lines, large contents, jobs of an hour, and as many as there may be; small bounds in some runs
    Load,
    /// Clocks that are set
    Clocks,
    /// Servers by the thousand, in one run of a hundred
    Large,
    /// Turns with few rows, in one run of five: large operations enter theirs in slices
    Slices,
    /// Two or three controllers with a lease, in one run of four
    Standbys,
}

impl Parts {
    /// The site has none of the parts.
    pub const NONE: Self = Self {
        network: false,
        fleets: false,
        drift: false,
        history: false,
        mixed: false,
        load: false,
        clocks: false,
        large: false,
        slices: false,
        standbys: false,
    };

    /// The parts that need not be asked for.
    pub const ALL: Self = Self {
        network: true,
        fleets: true,
        drift: true,
        load: true,
        clocks: true,
        large: true,
        slices: true,
        standbys: true,
        ..Self::NONE
    };

    /// The parts but those that are `left_out`, and what is asked for.
    pub fn but(left_out: &[Part], asked: &[Part]) -> Self {
        let has = |part| !left_out.contains(&part);
        Self {
            network: has(Part::Network),
            fleets: has(Part::Fleets),
            drift: has(Part::Drift),
            history: asked.contains(&Part::History) || asked.contains(&Part::Mixed),
            mixed: asked.contains(&Part::Mixed),
            load: has(Part::Load),
            clocks: has(Part::Clocks),
            large: has(Part::Large),
            slices: has(Part::Slices),
            standbys: has(Part::Standbys),
        }
    }

    /// Whether all parts are there that need not be asked for.
    pub fn is_all(self) -> bool {
        Self { history: false, mixed: false, ..self } == Self::ALL
    }

    fn flags(self) -> String {
        let left_out = [
            ("network", self.network),
            ("fleets", self.fleets),
            ("drift", self.drift),
            ("load", self.load),
            ("clocks", self.clocks),
            ("large", self.large),
            ("slices", self.slices),
            ("standbys", self.standbys),
        ];
        let left_out: Vec<&str> =
            left_out.iter().filter(|(_, is_there)| !is_there).map(|(name, _)| *name).collect();
        let without =
            if left_out.is_empty() { String::new() } else { format!(" --without {}", left_out.join(",")) };
        let with = match (self.history, self.mixed) {
            (_, true) => " --with mixed",
            (true, false) => " --with history",
            (false, false) => "",
        };
        without + with
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            nodes: 10,
            stacks: 3,
            minutes: 20,
            faults: Level::Heavy,
            parts: Parts::ALL,
            postgres: None,
        }
    }
}

impl Options {
    /// The command that runs it again.
    pub fn command(&self) -> String {
        use clap::ValueEnum as _;
        let faults = self.faults.to_possible_value().map(|value| value.get_name().to_owned());
        format!(
            "muster-sim replay --seed {} --nodes {} --stacks {} --minutes {} --faults {}{}{}",
            self.seed,
            self.nodes,
            self.stacks,
            self.minutes,
            faults.unwrap_or_default(),
            self.parts.flags(),
            self.postgres.map_or("", |_| " --postgres URL")
        )
    }
}
