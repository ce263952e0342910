//! `stack events`: page after page, then what a watch announces.
//!
//! Absent: how many events are kept (`controller/src/store/bounds.rs`).

use muster_api::stack::{EventRow, StackView};
use serde_json::Value;

use super::Events;
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, print, read};
use crate::pages::List;
use crate::progress::note;
use crate::wait::{get_patiently, is_gone};

const COLUMNS: [Column<EventRow>; 7] = [
    ("TIME", |event| cell(&event.time)),
    ("NUMBER", |event| cell(&event.number)),
    ("RESOURCE", |event| cell(&event.resource)),
    ("ACTION", |event| cell(&event.action)),
    ("STATUS", |event| cell(&event.status)),
    ("BY", |event| cell(&event.actor)),
    ("REASON", |event| cell(&event.reason)),
];

pub async fn run(asked: Events, client: &mut Client, format: Format) -> Result<(), Failure> {
    let name = asked.name.as_str();
    if asked.follow {
        return follow(name, client, format).await;
    }
    let (mut list, mut after) = (List::new(format, &COLUMNS), 0);
    loop {
        let page = page(name, after, None, client).await?;
        let Some(last) = page.last() else { return list.end() };
        after = number(last)?;
        list.print(&page)?;
    }
}

/// Prints one line per event: text, or a JSON document. Ends when the stack is gone, or another one has
/// its name.
async fn follow(name: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    if format == Format::Yaml {
        return Err(Failure::usage("--follow prints lines: want -o table or -o json"));
    }
    let (mut after, mut seq) = (0, 0);
    let mut followed: Option<String> = None;
    loop {
        // First the number, then the events: what happens in between is seen in the next round.
        let watch = format!("{}?seq={seq}", path(["stacks", name, "watch"]));
        let view: StackView = match followed {
            None => read(&client.get(&watch).await?)?,
            Some(_) => match get_patiently(client, &watch).await {
                // A controller that was restarted since does not know the deleted stack.
                Err(failure) if failure.missing => StackView::default(),
                other => read(&other?)?,
            },
        };
        let id = &*view.id;
        if followed.is_none() && is_gone(&view) {
            return Err(Failure::failed(format!("no stack '{name}'")));
        }
        let followed = followed.get_or_insert_with(|| id.to_owned());
        seq = view.seq;
        loop {
            let events = page(name, after, Some(followed), client).await?;
            let (Some(first), Some(last)) = (events.first(), events.last()) else { break };
            let first = number(first)?;
            if after > 0 && first > after + 1 {
                note(&format!("events {} to {} are not kept any more", after + 1, first - 1));
            }
            after = number(last)?;
            for event in &events {
                print(&line(event, format)?)?;
            }
        }
        if id != followed {
            return Ok(());
        }
    }
}

fn line(event: &Value, format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        return Ok(format!("{event}\n"));
    }
    let event: EventRow = read(event)?;
    let cells: Vec<String> = COLUMNS.iter().map(|(_, cell)| cell(&event)).collect();
    Ok(format!("{}\n", cells.join("  ")))
}

/// The next events; by the stack's id also after its delete.
async fn page(name: &str, after: u64, id: Option<&str>, client: &mut Client) -> Result<Vec<Value>, Failure> {
    let at = format!("{}?after={after}", path(["stacks", name, "events"]));
    let answer = match id {
        Some(id) => get_patiently(client, &format!("{at}&id={id}")).await,
        None => client.get(&at).await,
    };
    match answer? {
        Value::Array(events) => Ok(events),
        other => Err(Failure::failed(format!("the controller answered no list of events: {other}"))),
    }
}

fn number(event: &Value) -> Result<u64, Failure> {
    Ok(read::<EventRow>(event)?.number)
}
