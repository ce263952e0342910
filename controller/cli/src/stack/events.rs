//! `stack events`: page after page, then what a watch announces.

use muster_api::stack::StackView;
use serde_json::{Value, json};

use super::Events;
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, print, read};
use crate::pages::List;
use crate::progress::note;
use crate::wait::{get_patiently, is_gone};

const COLUMNS: [Column; 6] = [
    ("TIME", "time"),
    ("NUMBER", "number"),
    ("RESOURCE", "resource"),
    ("ACTION", "action"),
    ("STATUS", "status"),
    ("REASON", "reason"),
];

pub async fn run(asked: Events, client: &mut Client, format: Format) -> Result<(), Failure> {
    let name = asked.name.as_str();
    if asked.follow {
        return follow(name, client, format).await;
    }
    let (mut list, mut after) = (List::new(format, &COLUMNS), 0);
    loop {
        let page = page(name, after, None, client).await?;
        if page.is_empty() {
            return list.end();
        }
        after = last(&page);
        list.print(page, |event| event)?;
    }
}

/// One line per event: text, or a JSON document. Ends when the stack is gone, or another has its name.
async fn follow(name: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    if format == Format::Yaml {
        return Err(Failure::usage("--follow prints lines: want -o table or -o json"));
    }
    let (mut after, mut seq) = (0, 0);
    let mut followed: Option<String> = None;
    loop {
        // First the number, then the events: what happens in between is seen in the next round.
        let watch = format!("{}?seq={seq}", path(["stacks", name, "watch"]));
        let view = match followed {
            None => client.get(&watch).await?,
            Some(_) => match get_patiently(client, &watch).await {
                // A controller that was restarted since does not know of it any more.
                Err(failure) if failure.missing => json!({}),
                other => other?,
            },
        };
        let view: StackView = read(&view)?;
        let id = &*view.id;
        if followed.is_none() && is_gone(&view) {
            return Err(Failure::failed(format!("no stack '{name}'")));
        }
        let followed = followed.get_or_insert_with(|| id.to_owned());
        seq = view.seq;
        loop {
            let events = page(name, after, Some(followed), client).await?;
            if events.is_empty() {
                break;
            }
            let first = events[0]["number"].as_u64().unwrap_or(0);
            if after > 0 && first > after + 1 {
                note(&format!("events {} to {} are not kept any more", after + 1, first - 1));
            }
            after = last(&events);
            for event in &events {
                print(&line(event, format))?;
            }
        }
        if id != followed {
            return Ok(());
        }
    }
}

fn line(event: &Value, format: Format) -> String {
    if format == Format::Json {
        return format!("{event}\n");
    }
    let cells: Vec<String> = COLUMNS.iter().map(|(_, key)| cell(&event[*key])).collect();
    format!("{}\n", cells.join("  "))
}

/// The next events; by the stack's id also when it has gone meanwhile.
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

fn last(events: &[Value]) -> u64 {
    events.last().and_then(|event| event["number"].as_u64()).unwrap_or(0)
}
