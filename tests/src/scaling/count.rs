//! Counts the cost of one server, in sites of two sizes: the difference is the cost of the servers that one has more.
//! So it leaves out what an operation costs once, however many servers there are.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_engine::{Options, Request, Source, SourceText};
use serde::Serialize;

use super::bed::{Bed, Commits};
use super::tally::Tally;

/// Bytes of the file that each server has.
pub const FILE_BYTES: usize = 1024;

const TEMPLATE: &str = "heat_template_version: 2018-08-31
parameters:
  text: {type: string}
resources:
  file:
    type: Muster::File
    for_each: {nodes: role=web}
    properties: {path: /etc/counted, content: {get_param: text}}
";

/// For what follows from an input within seconds: facts after a greeting, a look after a hint, a connection after one that
/// broke. It is shorter than the time between two heartbeats, which are counted by themselves.
const ACT: Duration = Duration::from_secs(15);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// An act on each server of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// The server joins, connects and tells its facts.
    Join,
    /// Nothing happens for an hour.
    IdleHour,
    /// The server gets a file.
    Create,
    /// The file gets another content.
    Update,
    /// The file is changed by hand, and Muster corrects that.
    Drift,
    /// The server's connection breaks, and it comes back.
    Back,
}

impl Act {
    pub const ALL: [Self; 6] =
        [Self::Join, Self::IdleHour, Self::Create, Self::Update, Self::Drift, Self::Back];
}

/// The cost of an act for one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    pub act: Act,
    /// The counts for each server. Its commits are those where nothing else comes meanwhile.
    #[serde(flatten)]
    pub each: Tally,
    /// Commits for all servers of the larger site, where what has come shares one.
    pub commits_together: u64,
}

/// Costs of all acts, from sites of so many servers, and of twice as many.
///
/// # Errors
/// An act did not do what it should.
pub fn costs(servers: u64) -> anyhow::Result<Vec<Cost>> {
    let small = run(servers, Commits::Apart)?;
    let large = run(servers * 2, Commits::Apart)?;
    let together = run(servers * 2, Commits::Together)?;
    let cost = |act: Act| Cost {
        act,
        each: (large[&act] - small[&act]) / servers,
        commits_together: together[&act].commits,
    };
    Ok(Act::ALL.map(cost).to_vec())
}

/// Counts the cost of each act for a whole site.
fn run(servers: u64, commits: Commits) -> anyhow::Result<BTreeMap<Act, Tally>> {
    let mut bed = Bed::new(servers, commits)?;
    let mut counted = BTreeMap::new();
    for act in Act::ALL {
        let before = bed.tally()?;
        match act {
            Act::Join => bed.join()?,
            Act::IdleHour => bed.pass(HOUR)?,
            Act::Create | Act::Update => bed.ask(request(act)?)?,
            Act::Drift => bed.drift()?,
            Act::Back => bed.storm()?,
        }
        if act != Act::IdleHour {
            bed.pass(ACT)?;
        }
        counted.insert(act, bed.tally()? - before);
        // To a whole minute: the next heartbeats are a minute away.
        bed.pass(if act == Act::IdleHour { Duration::ZERO } else { MINUTE - ACT })?;
    }
    Ok(counted)
}

fn request(act: Act) -> anyhow::Result<Request> {
    let (name, options) = ("all".parse()?, Options::default());
    let letter = if act == Act::Create { "a" } else { "b" };
    let source = Source::parse(SourceText {
        name: "all.yaml".into(),
        template: TEMPLATE.into(),
        parameters: BTreeMap::from([("text".into(), letter.repeat(FILE_BYTES).into())]),
        ..SourceText::default()
    })?;
    Ok(match act {
        Act::Create => Request::Create { name, source, options },
        _ => Request::Update { name, source, options },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_server_costs_two_packets_a_minute_and_no_row() {
        let idle = costs(5).unwrap()[1];
        assert_eq!((idle.act, idle.each.packets_up, idle.each.packets_down), (Act::IdleHour, 60, 60));
        let each = idle.each;
        assert_eq!((each.changes, each.rows, each.rows_kept, each.commits), (0, 0, 0, 0));
        assert_eq!(idle.commits_together, 0);
    }

    #[test]
    fn jobs_are_one_for_each_server_and_act() {
        let jobs: Vec<u64> = costs(5).unwrap().iter().map(|cost| cost.each.jobs).collect();
        assert_eq!(jobs, [0, 0, 1, 1, 1, 0]);
    }

    /// The arithmetic for a million servers stands on this. Numbers of jobs are a byte longer in a larger site.
    #[test]
    fn a_server_costs_as_much_in_a_larger_site() {
        for (small, large) in costs(5).unwrap().iter().zip(&costs(40).unwrap()) {
            let act = small.act;
            let counted = |cost: &Cost| Tally { bytes_up: 0, bytes_down: 0, ..cost.each };
            assert_eq!(counted(small), counted(large), "{act:?}");
            let bytes = |cost: &Cost| [cost.each.bytes_up, cost.each.bytes_down];
            for (small, large) in bytes(small).into_iter().zip(bytes(large)) {
                assert!(small.abs_diff(large) * 50 <= small, "{act:?}: {small} and {large} bytes");
            }
            if matches!(act, Act::Create | Act::Update) {
                assert_eq!(small.commits_together, large.commits_together, "{act:?} shares its commits");
            }
        }
    }
}
