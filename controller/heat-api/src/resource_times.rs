//! When resources were created and changed: the API tells it in events alone.
//!
//! Absent: times of what contains resources: there are no events of it (`nested.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_api::resource::ResourceView;
use muster_api::stack::EventRow;

use crate::caller::Asking;
use crate::fault::Fault;
use crate::place::Place;

/// Events that the API is asked for at a time.
const PAGE: usize = 1000;
/// Pages that one request reads: a list of resources is not worth reading all events of a stack that has millions.
const PAGES_MAX: usize = 100;

/// The first and the last event of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Empty where the first event is not known.
    pub created: String,
    pub updated: String,
}

/// Times of the stack's resources, by name: events are read from the newest on until each resource's first one is there.
pub async fn of(
    asking: &Asking,
    place: &Place,
    rows: &[ResourceView],
) -> Result<BTreeMap<String, Times>, Fault> {
    let mut times: BTreeMap<String, Times> = BTreeMap::new();
    // One that has not begun has no events.
    let begun = rows.iter().filter(|row| row.status != "INIT");
    let mut open: BTreeSet<&str> = begun.map(|row| row.name.as_str()).collect();
    let mut before = i64::MAX as u64;
    for _ in 0..PAGES_MAX {
        let page = place.api(&format!("/events?id={}&limit={PAGE}&before={before}", place.number));
        let events: Vec<EventRow> = asking.api.get(&page).await?;
        let Some(oldest) = events.last().map(|event| event.number) else { break };
        let is_last = events.len() < PAGE;
        for event in events {
            let Some(name) = event.resource else { continue };
            if event.action == "CREATE" {
                open.remove(name.as_str());
            }
            let entry = times
                .entry(name)
                .or_insert_with(|| Times { updated: event.time.clone(), ..Times::default() });
            if event.action == "CREATE" {
                entry.created = event.time;
            }
        }
        if is_last || open.is_empty() {
            break;
        }
        before = oldest;
    }
    Ok(times)
}
