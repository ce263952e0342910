//! From the costs of one server, and what one machine did, to fleets: figures of tables, and no text.
//!
//! Absent: measuring and counting.

use anyhow::Context as _;

use super::count::{Act, Cost};
use super::tally::Tally;
use crate::page::Measurement;

/// Fleets of which the tables speak.
pub const FLEETS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// An update of all servers is to take so long.
pub const UPDATE_S: u64 = 600;
/// The time within which all servers must be back after all connections broke.
pub const STORM_S: u64 = 60;
/// Files that a controller opens besides those of connections: its database, its log, its sockets; with room to spare.
pub const OTHER_FILES: u64 = 500;

/// Controllers that carry the sites of one database, besides the one that may be away. All of them look at all of its leases,
/// so with more of them the looks would be more than the work.
pub const CARRIERS: u64 = 3;
/// Connections to the database of a controller that is active for a site: three, and one for its lease.
const SESSIONS_OF_ACTIVE: u64 = 4;
/// Connections to the database of a controller that stands by for a site: for its lease, and for its keys.
const SESSIONS_OF_STANDBY: u64 = 2;

/// The figures of one controller on one machine, with the largest fleet that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub date: String,
    pub servers: u64,
    /// The percentage of a processor core that is used while nothing happens.
    pub idle_percent: f64,
    pub bytes_each: f64,
    /// The jobs each second when each server gets a file.
    pub jobs_per_s: f64,
    /// The servers that come back each second after all connections broke.
    pub back_per_s: f64,
    pub back_cpu_s_each: f64,
}

impl Machine {
    /// From the raw lines of the page of benchmarks.
    ///
    /// # Errors
    /// No idle fleet was measured.
    pub fn of(measurements: &[Measurement]) -> anyhow::Result<Self> {
        let idle = measurements.iter().filter(|it| it.text("bench") == "idle");
        let agents = |it: &Measurement| it.number("agents").unwrap_or_default();
        let largest = idle.max_by(|one, other| agents(one).total_cmp(&agents(other)));
        let largest = largest.context("the page of benchmarks has no line of an idle fleet")?;
        let number =
            |name| largest.number(name).with_context(|| format!("the line of an idle fleet has no {name}"));
        let servers = number("agents")?;
        Ok(Self {
            date: largest.text("date").to_owned(),
            servers: servers as u64,
            idle_percent: number("controller_percent")?,
            bytes_each: number("bytes_per_agent")?,
            jobs_per_s: servers / number("one_file_each_s")?,
            back_per_s: servers / number("storm_s")?,
            back_cpu_s_each: number("storm_controller_cpu_s")? / servers,
        })
    }

    /// The part of a core that so many idle servers need.
    pub fn idle_percent_of(&self, servers: u64) -> f64 {
        self.idle_percent * servers as f64 / self.servers as f64
    }
}

/// The limits of a controller and a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// `limits.connections`
    pub connections: u64,
    /// Open files of a process, as the unit says.
    pub files: u64,
    /// Nodes of a site, which no setting changes.
    pub nodes: u64,
    /// Looks of a controller at the lease of each site; each writes a row, as does a renewal.
    pub looks_per_s: f64,
}

/// A flow in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    pub jobs: f64,
    pub packets: f64,
    pub bytes: f64,
    pub rows: f64,
    /// Commits, where no two servers share one.
    pub commits: f64,
}

/// The costs of one server, by act.
pub struct Costs<'c>(pub &'c [Cost]);

impl Costs<'_> {
    /// Returns the cost of an act for one server.
    pub fn of(&self, act: Act) -> Tally {
        let cost = self.0.iter().find(|cost| cost.act == act);
        cost.map(|cost| cost.each).unwrap_or_default()
    }

    /// So many servers do that within so many seconds.
    pub fn flow(&self, act: Act, servers: u64, seconds: u64) -> Flow {
        let each = self.of(act);
        let rate = |count: u64| count as f64 * servers as f64 / seconds as f64;
        Flow {
            jobs: rate(each.jobs),
            packets: rate(each.packets_up + each.packets_down),
            bytes: rate(each.bytes_up + each.bytes_down),
            rows: rate(each.rows),
            commits: rate(each.commits),
        }
    }

    /// Rows in the database, of servers with one file each. Events come on top, up to a bound of each stack.
    pub fn rows_kept(&self, servers: u64) -> u64 {
        servers * [Act::Join, Act::Create].map(|act| self.of(act).rows_kept).iter().sum::<u64>()
    }
}

/// A limit of one controller with one site, which a number of servers reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Connections,
    Files,
    Nodes,
    /// Every server must be back within [`STORM_S`].
    Storm,
    /// Every server must be updated within [`UPDATE_S`].
    Update,
    /// A whole core is busy while nothing happens.
    Idle,
}

/// Returns the limits, each with the number of servers that it allows; the least first.
pub fn limits(machine: &Machine, allowed: Allowed) -> Vec<(Limit, u64)> {
    let mut limits = vec![
        (Limit::Connections, allowed.connections),
        (Limit::Files, allowed.files.saturating_sub(OTHER_FILES)),
        (Limit::Nodes, allowed.nodes),
        (Limit::Storm, (machine.back_per_s * STORM_S as f64) as u64),
        (Limit::Update, (machine.jobs_per_s * UPDATE_S as f64) as u64),
        (Limit::Idle, (machine.servers as f64 * 100.0 / machine.idle_percent) as u64),
    ];
    limits.sort_by_key(|(_, servers)| *servers);
    limits
}

/// The division of a fleet into sites of [`Allowed::connections`], and of these among databases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    pub databases: u64,
    pub sites: u64,
    /// Controllers: of those at each database, one may be away.
    pub controllers: u64,
    /// Sites of a controller at most, while another one is away.
    pub sites_each: u64,
    /// Rows, and commits, that the leases of all sites cost.
    pub leases_per_s: f64,
    /// Connections to databases.
    pub sessions: u64,
}

/// Divides so many servers.
pub fn divide(servers: u64, allowed: Allowed) -> Division {
    let sites = servers.div_ceil(allowed.connections).max(1);
    let most = (allowed.files.saturating_sub(OTHER_FILES) / allowed.connections).max(1);
    let each = most * CARRIERS;
    let rest = sites % each;
    let (mut controllers, mut looks) = (0, 0);
    for (databases, sites) in [(sites / each, each), (u64::from(rest > 0), rest)] {
        let its = sites.div_ceil(most) + 1;
        (controllers, looks) = (controllers + databases * its, looks + databases * its * sites);
    }
    Division {
        databases: sites.div_ceil(each),
        sites,
        controllers,
        sites_each: sites.min(most),
        leases_per_s: looks as f64 * allowed.looks_per_s,
        sessions: sites * SESSIONS_OF_ACTIVE + (looks - sites) * SESSIONS_OF_STANDBY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowed = Allowed { connections: 20_000, files: 65_536, nodes: 200_000, looks_per_s: 0.5 };

    fn machine() -> Machine {
        Machine {
            date: "2026-11-27".into(),
            servers: 10_000,
            idle_percent: 1.0,
            bytes_each: 20_000.0,
            jobs_per_s: 4000.0,
            back_per_s: 1000.0,
            back_cpu_s_each: 0.001,
        }
    }

    #[test]
    fn a_fleet_is_divided_by_what_is_allowed() {
        for (servers, databases, sites, controllers, sites_each, leases_per_s, sessions) in [
            (1, 1, 1, 2, 1, 1.0, 6),
            (20_000, 1, 1, 2, 1, 1.0, 6),
            (20_001, 1, 2, 2, 2, 2.0, 12),
            (60_000, 1, 3, 2, 3, 3.0, 18),
            (100_000, 1, 5, 3, 3, 7.5, 40),
            (180_000, 1, 9, 4, 3, 18.0, 90),
            (1_000_000, 6, 50, 23, 3, 97.5, 490),
        ] {
            let wanted = Division { databases, sites, controllers, sites_each, leases_per_s, sessions };
            assert_eq!(divide(servers, ALLOWED), wanted, "{servers}");
        }
        let few = Allowed { files: 1000, ..ALLOWED };
        assert_eq!(divide(40_000, few).controllers, 3, "a controller has one site at least");
    }

    #[test]
    fn the_least_limit_is_first() {
        let wanted = [
            (Limit::Connections, 20_000),
            (Limit::Storm, 60_000),
            (Limit::Files, 65_036),
            (Limit::Nodes, 200_000),
            (Limit::Idle, 1_000_000),
            (Limit::Update, 2_400_000),
        ];
        assert_eq!(limits(&machine(), ALLOWED), wanted);
    }

    #[test]
    fn a_flow_is_cost_by_servers_by_time() {
        let each = Tally {
            jobs: 1,
            packets_up: 2,
            packets_down: 4,
            bytes_up: 100,
            bytes_down: 20,
            ..Tally::default()
        };
        let kept =
            |act, rows_kept| Cost { act, each: Tally { rows_kept, rows: 8, ..each }, commits_together: 0 };
        let costs = [kept(Act::Join, 1), kept(Act::Create, 2)];
        let costs = Costs(&costs);
        let wanted = Flow { jobs: 5.0, packets: 30.0, bytes: 600.0, rows: 40.0, commits: 0.0 };
        assert_eq!(costs.flow(Act::Create, 3000, 600), wanted);
        assert_eq!(costs.flow(Act::Back, 3000, 600).packets, 0.0);
        assert_eq!(costs.rows_kept(1000), 3000);
    }

    #[test]
    fn the_largest_fleet_that_was_run_counts() {
        let lines = r#"
            {"bench":"idle","date":"1","agents":1000}
            {"bench":"idle","date":"2","agents":10000,"controller_percent":1.0,"bytes_per_agent":20000,"one_file_each_s":2.5,"storm_s":10,"storm_controller_cpu_s":10}
            {"bench":"agent","agents":20000}
        "#;
        let read = |text: &str| Machine::of(&Measurement::read_all("lines", text).unwrap());
        assert_eq!(read(lines).unwrap(), Machine { date: "2".into(), ..machine() });
        assert!(
            read(r#"{"bench":"idle","agents":1}"#).unwrap_err().to_string().contains("no controller_percent")
        );
        assert!(read("").is_err());
    }
}
