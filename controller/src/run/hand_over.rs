//! `muster-controller hand-over`: asks the active controller, by way of the database, to give its lease to a standby,
//! and waits until that one has it.
//!
//! Absent: how the active controller gives the lease up (`hold` in `lease/keeper.rs`).

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use muster_controller::audit_of_commands::Runner;
use muster_controller::config::Settings;
use muster_controller::lease::{Asker, LeaseState, Member, Record, StandbyView};
use muster_controller::store::{LeaseTable, Location};

/// An orderly stop takes a few seconds, and then the heir loads the site.
const DONE_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

/// Hands the site over to the standby `to`, or to the one that looked at the lease last.
///
/// # Errors
/// There is no such standby, or the active controller does not give its lease up.
pub fn hand_over(settings: &Settings, to: Option<&str>) -> anyhow::Result<()> {
    let Location::Postgres(server) = settings.database() else {
        bail!(
            "the site's database is a file, which has one controller: standbys need PostgreSQL (docs/standbys.md)"
        );
    };
    let me = Member { name: settings.name(), addresses: Vec::new(), instance: String::new() };
    let table = LeaseTable::open(&server, me, settings.lease().lease)
        .context("the database cannot be opened (docs/postgresql.md says what to do)")?;
    let Some(record) = table.look()? else { bail!("no controller has been active yet: start one") };
    let active = &record.holder.name;
    ensure!(record.state != LeaseState::Free, "no controller is active: a standby takes over by itself");
    let standbys = table.standbys(active)?;
    let heir = heir(settings, &record, &standbys, to)?;
    let Runner { actor, from } = Runner::of_this_process();
    let asker = Asker { actor, from, why: format!("asked for {heir}") };
    ensure!(
        table.ask(&record, heir, &asker)?,
        "{active} is about to stop, or was replaced: see muster status, and ask again"
    );
    let deadline = Instant::now() + DONE_WITHIN;
    loop {
        match table.look()? {
            Some(now) if now.term != record.term && now.holder.name == *active => {
                bail!("{active} has taken the site back: see the log of {heir}, and that of {active}")
            }
            Some(now) if now.term != record.term => {
                println!("{}", now.holder.name);
                eprintln!("it was {active}, which stands by now; epoch {}", now.term.epoch.0);
                return Ok(());
            }
            Some(_) | None if Instant::now() >= deadline => bail!(
                "{active} has not given the site up within {} s: see its log; if it is gone, a standby takes over by itself",
                DONE_WITHIN.as_secs()
            ),
            // Nobody tells: the lease is looked at again.
            Some(_) | None => std::thread::park_timeout(LOOK),
        }
    }
}

fn heir<'s>(
    settings: &Settings,
    record: &Record,
    standbys: &'s [StandbyView],
    to: Option<&str>,
) -> anyhow::Result<&'s str> {
    let mut ready = settings.lease().ready(standbys);
    let found = match to {
        Some(name) if name == record.holder.name => bail!("{name} is the active one already"),
        Some(name) => ready.find(|standby| standby.member.name == name),
        None => ready.next(),
    };
    if let Some(standby) = found {
        return Ok(&standby.member.name);
    }
    let listed: Vec<String> = standbys
        .iter()
        .map(|standby| format!("{} looked {} s ago", standby.member.name, standby.behind.as_secs()))
        .collect();
    let what = to.map_or("no standby is there".to_owned(), |name| format!("{name} does not stand by"));
    let listed = if listed.is_empty() { String::new() } else { format!(" ({})", listed.join(", ")) };
    bail!("{what}{listed}: start muster-controller there, with the same store.url")
}
