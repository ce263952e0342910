//! The tables of `docs/scaling.md`.

use std::fmt::Write as _;

use anyhow::Context as _;

use super::arithmetic::{Allowed, Costs, FLEETS, Flow, Limit, Machine, STORM_S, UPDATE_S, divide, limits};
use super::count::{Act, Cost};
use crate::page::Unit;

/// The page with all of its tables rewritten: each stands between `<!-- NAME -->` and `<!-- /NAME -->`.
///
/// # Errors
/// The page lacks a mark.
pub fn renew(page: &str, costs: &[Cost], machine: &Machine, allowed: Allowed) -> anyhow::Result<String> {
    let costs = Costs(costs);
    let tables = [
        ("costs", of_costs(&costs)),
        ("machine", of_machine(machine)),
        ("limits", of_limits(machine, allowed)),
        ("rest", of_rest(&costs, machine)),
        ("update", of_update(&costs, machine)),
        ("storm", of_storm(&costs, machine)),
        ("division", of_division(machine, allowed)),
    ];
    tables.iter().try_fold(page.to_owned(), |page, (name, table)| {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (before, rest) = page.split_once(&begin).with_context(|| format!("the page has no {begin}"))?;
        let (_, after) = rest.split_once(&end).with_context(|| format!("the page has no {end}"))?;
        Ok(format!("{before}{begin}{table}{end}{after}"))
    })
}

fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    for row in rows {
        writeln!(table, "| {} |", row.join(" | ")).expect("a string takes all");
    }
    table
}

fn count(number: f64) -> String {
    Unit::Count.say(number)
}

fn whole(number: u64) -> String {
    count(number as f64)
}

fn of_costs(costs: &Costs<'_>) -> String {
    let head = ["one server", "packets up, down", "bytes up, down", "rows written", "rows kept", "commits"];
    let row = |act: Act| {
        let each = costs.of(act);
        [
            match act {
                Act::Join => "joins, connects, tells its facts",
                Act::IdleHour => "does nothing for an hour",
                Act::Create => "gets a file of 1 KiB",
                Act::Update => "gets another content of it",
                Act::Drift => "has it changed by hand, and corrected",
                Act::Back => "loses its connection, and is back",
            }
            .to_owned(),
            format!("{}, {}", whole(each.packets_up), whole(each.packets_down)),
            format!("{}, {}", whole(each.bytes_up), whole(each.bytes_down)),
            whole(each.rows),
            whole(each.rows_kept),
            whole(each.commits),
        ]
    };
    table(head, Act::ALL.map(row))
}

fn of_machine(machine: &Machine) -> String {
    let rows = [
        ("connected servers", whole(machine.servers)),
        ("part of a core while nothing happens", Unit::Percent.say(machine.idle_percent)),
        ("memory for each of them", Unit::Bytes.say(machine.bytes_each)),
        ("jobs, a file for each", Unit::PerSecond.say(machine.jobs_per_s)),
        ("servers back after all connections broke", Unit::PerSecond.say(machine.back_per_s)),
        ("processor time of the controller for each of these", Unit::Seconds.say(machine.back_cpu_s_each)),
    ];
    let head = format!("measured on {}", machine.date);
    table([&*head, "figure"], rows.map(|(what, figure)| [what.to_owned(), figure]))
}

fn of_limits(machine: &Machine, allowed: Allowed) -> String {
    let row = |(limit, servers)| {
        let (what, raise) = match limit {
            Limit::Connections => ("`limits.connections`".to_owned(), "a setting"),
            Limit::Files => ("`LimitNOFILE` of the unit".to_owned(), "a drop-in of systemd"),
            Limit::Nodes => ("nodes of a site".to_owned(), "more sites"),
            Limit::Storm => {
                (format!("all back {STORM_S} s after all connections broke"), "more processors, or patience")
            }
            Limit::Update => {
                (format!("all updated in {} minutes", UPDATE_S / 60), "more processors, or patience")
            }
            Limit::Idle => ("one core busy with idle servers".to_owned(), "more controllers"),
        };
        // A measurement is good for three digits.
        let servers = match limit {
            Limit::Connections | Limit::Files | Limit::Nodes => servers,
            Limit::Storm | Limit::Update | Limit::Idle => three_digits(servers),
        };
        [whole(servers), what, raise.to_owned()]
    };
    table(
        ["servers", "limit of a controller with one site", "what raises it"],
        limits(machine, allowed).into_iter().map(row),
    )
}

fn three_digits(number: u64) -> u64 {
    let step = 10_u64.pow(number.max(1).ilog10().saturating_sub(2));
    number / step * step
}

fn of_rest(costs: &Costs<'_>, machine: &Machine) -> String {
    let head = [
        "servers",
        "packets/s",
        "bytes/s",
        "rows/s, commits/s",
        "part of a core",
        "memory of connections",
        "rows in the database",
    ];
    let row = |servers: u64| {
        let Flow { packets, bytes, rows, commits, .. } = costs.flow(Act::IdleHour, servers, 3600);
        [
            whole(servers),
            count(packets),
            Unit::Bytes.say(bytes),
            format!("{}, {}", count(rows), count(commits)),
            Unit::Percent.say(machine.idle_percent_of(servers)),
            Unit::Bytes.say(machine.bytes_each * servers as f64),
            whole(costs.rows_kept(servers)),
        ]
    };
    table(head, FLEETS.map(row))
}

fn of_update(costs: &Costs<'_>, machine: &Machine) -> String {
    let head = [
        "servers",
        "jobs/s",
        "packets/s",
        "bytes/s",
        "rows/s",
        "commits/s, at most",
        "one controller at its fastest",
    ];
    let row = |servers: u64| {
        let Flow { jobs, packets, bytes, rows, commits } = costs.flow(Act::Update, servers, UPDATE_S);
        [
            whole(servers),
            count(jobs),
            count(packets),
            Unit::Bytes.say(bytes),
            count(rows),
            count(commits),
            Unit::Seconds.say(servers as f64 / machine.jobs_per_s),
        ]
    };
    table(head, FLEETS.map(row))
}

fn of_storm(costs: &Costs<'_>, machine: &Machine) -> String {
    let head = ["servers", "packets", "bytes", "rows", "processor time", "one controller, as measured"];
    let row = |servers: u64| {
        let Flow { packets, bytes, rows, .. } = costs.flow(Act::Back, servers, 1);
        [
            whole(servers),
            count(packets),
            Unit::Bytes.say(bytes),
            count(rows),
            Unit::Seconds.say(machine.back_cpu_s_each * servers as f64),
            Unit::Seconds.say(servers as f64 / machine.back_per_s),
        ]
    };
    table(head, FLEETS.map(row))
}

fn of_division(machine: &Machine, allowed: Allowed) -> String {
    let head = [
        "servers",
        "databases",
        "sites",
        "controllers",
        "one has at most",
        "its memory of connections",
        "its part of a core at rest",
        "leases: rows/s, commits/s",
        "connections to databases",
    ];
    let row = |servers: u64| {
        let divided = divide(servers, allowed);
        let most = servers.min(divided.sites_each * allowed.connections);
        [
            whole(servers),
            whole(divided.databases),
            whole(divided.sites),
            whole(divided.controllers),
            format!("{} servers", whole(most)),
            Unit::Bytes.say(machine.bytes_each * most as f64),
            Unit::Percent.say(machine.idle_percent_of(most)),
            format!("{0}, {0}", count(divided.leases_per_s)),
            whole(divided.sessions),
        ]
    };
    table(head, FLEETS.map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_were_measured_have_three_digits() {
        for (number, wanted) in [(0, 0), (7, 7), (999, 999), (1234, 1230), (895_255, 895_000)] {
            assert_eq!(three_digits(number), wanted);
        }
    }
}
