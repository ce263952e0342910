//! `muster audit`: who asked for which change, page after page.
//!
//! Absent: which requests have a row (`controller/src/driver/audit.rs`), and for how long
//! (`controller/src/store/audit.rs`).

use std::time::Duration;

use clap::Args;
use muster_api::site::AuditRow;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, print, read};
use crate::pages::List;
use crate::span;
use crate::wait::get_patiently;

/// Between two looks for new rows.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

const COLUMNS: [Column<AuditRow>; 7] = [
    ("AT", |row| cell(&row.at)),
    ("ACTOR", |row| cell(&row.actor)),
    ("FROM", |row| cell(&row.from)),
    ("ACTION", |row| cell(&row.action)),
    ("TARGET", |row| cell(&row.target)),
    ("WHAT", |row| cell(&row.what)),
    ("RESULT", |row| cell(&row.result)),
];

/// `audit`
#[derive(Args)]
pub struct Audit {
    /// Print new rows as they come, one line each; with --since, those from then on first
    #[arg(long)]
    follow: bool,
    /// Begin at this time: 2026-11-28T10:00:00Z, or 90s, 5m, 1h, 2d ago
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Print what this user asked for
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// The begin of the rows.
#[derive(Clone)]
enum Begin {
    /// With the first that is kept.
    First,
    /// So long before now.
    Age(u64),
    /// At a time, as it was written.
    Time(String),
}

impl Audit {
    fn begin(&self) -> Begin {
        match self.since.as_deref().map(|since| (since, span::seconds(since))) {
            Some((_, Ok(age))) => Begin::Age(age),
            Some((since, Err(_))) => Begin::Time(since.to_owned()),
            None => Begin::First,
        }
    }

    /// The rows after a number.
    fn after(&self, number: u64, begin: &Begin) -> String {
        let mut at = format!("{}?after={number}", path(["audit"]));
        match begin {
            Begin::First => {}
            Begin::Age(age) => at += &format!("&age={age}"),
            Begin::Time(since) => at += &format!("&since={}", escaped(since)),
        }
        if let Some(user) = &self.user {
            at += &format!("&user={}", escaped(user));
        }
        at
    }
}

/// Does it.
pub async fn run(asked: Audit, client: &mut Client, format: Format) -> Result<(), Failure> {
    if asked.follow {
        return follow(&asked, client, format).await;
    }
    let (mut list, mut after) = (List::new(format, &COLUMNS), 0);
    loop {
        let rows = rows(client.get(&asked.after(after, &asked.begin())).await?)?;
        let Some(last) = rows.last() else { return list.end() };
        after = number(last)?;
        list.print(&rows)?;
    }
}

/// Ends with the command.
async fn follow(asked: &Audit, client: &mut Client, format: Format) -> Result<(), Failure> {
    if format == Format::Yaml {
        return Err(Failure::usage("--follow prints lines: want -o table or -o json"));
    }
    let (begun, mut after) = (Instant::now(), 0);
    // New rows are those since the command began, by the controller's clock.
    let begin = |after| match asked.begin() {
        Begin::First if after == 0 => Begin::Age(begun.elapsed().as_secs() + 1),
        begin => begin,
    };
    // A wrong time is said at once; later a controller that is away is waited for.
    let mut is_first = true;
    loop {
        let at = asked.after(after, &begin(after));
        let page = rows(if is_first { client.get(&at).await? } else { get_patiently(client, &at).await? })?;
        is_first = false;
        for row in &page {
            print(&line(row, format)?)?;
        }
        match page.last() {
            Some(last) => after = number(last)?,
            None => sleep(FOLLOW_PAUSE).await,
        }
    }
}

fn line(row: &Value, format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        return Ok(format!("{row}\n"));
    }
    let row: AuditRow = read(row)?;
    let cells: Vec<String> = COLUMNS.iter().map(|(_, cell)| cell(&row)).collect();
    Ok(format!("{}\n", cells.join("  ")))
}

fn rows(answer: Value) -> Result<Vec<Value>, Failure> {
    match answer {
        Value::Array(rows) => Ok(rows),
        other => Err(Failure::failed(format!("the controller answered no list of rows: {other}"))),
    }
}

fn number(row: &Value) -> Result<u64, Failure> {
    Ok(read::<AuditRow>(row)?.number)
}
