//! `stack events`: page after page, then what a watch announces.

use serde_json::Value;

use super::Events;
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, print, table};
use crate::wait::is_gone;

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
    let mut all = Vec::new();
    while let page @ [.., _] = &mut page(name, last(&all), client).await?[..] {
        all.extend(page.iter_mut().map(Value::take));
    }
    document(format, &Value::from(all), |list| table(&COLUMNS, list))
}

/// One line per event: text, or a JSON document.
async fn follow(name: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    if format == Format::Yaml {
        return Err(Failure::usage("--follow prints lines: want -o table or -o json"));
    }
    let (mut after, mut seq) = (0, 0);
    loop {
        // First the number, then the events: what happens in between is seen in the next round.
        let watch = format!("{}?seq={seq}", path(["stacks", name, "watch"]));
        let view = client.get(&watch).await?;
        seq = view["seq"].as_u64().unwrap_or(0);
        loop {
            let events = match page(name, after, client).await {
                Ok(events) => events,
                Err(_) if is_gone(&view) => return Ok(()),
                Err(failure) => return Err(failure),
            };
            if events.is_empty() {
                break;
            }
            after = last(&events);
            for event in &events {
                print(&line(event, format))?;
            }
        }
        if is_gone(&view) {
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

async fn page(name: &str, after: u64, client: &mut Client) -> Result<Vec<Value>, Failure> {
    match client.get(&format!("{}?after={after}", path(["stacks", name, "events"]))).await? {
        Value::Array(events) => Ok(events),
        other => Err(Failure::failed(format!("the controller answered no list of events: {other}"))),
    }
}

fn last(events: &[Value]) -> u64 {
    events.last().and_then(|event| event["number"].as_u64()).unwrap_or(0)
}
