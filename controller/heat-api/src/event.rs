//! Events of a stack, with filters, pages and both directions, as `openstack stack event list --follow` and `--wait`
//! need them.
//!
//! Absent: events of what contains resources: there are none of it (`nested.rs`).

use axum::Json;
use axum::extract::Path;
use muster_api::resource::ResourceView;
use muster_api::stack::EventRow;
use muster_front::path;
use serde_json::{Value, json};

use crate::caller::Asking;
use crate::fault::{Fault, cut};
use crate::id::Id;
use crate::nested;
use crate::place::{self, Names, Place};
use crate::query::Pairs;
use crate::status::{of_stack, reason};
use crate::time::heat;

/// The most events in one answer: a client asks for the next ones with `marker`.
const EVENTS_MAX: usize = 10_000;
/// Events that the API is asked for at a time.
const PAGE: usize = 1000;

/// The wanted events, and their order.
struct Wanted<'a> {
    asked: &'a Pairs,
    /// Only this resource.
    resource: Option<&'a str>,
    newest_first: bool,
    marker: Option<u64>,
    limit: usize,
    depth: usize,
}

/// GET /stacks/{stack}/{id}/events
pub async fn list(asking: Asking, Path((_, name, id)): Names, asked: Pairs) -> Result<Json<Value>, Fault> {
    let place = of_gone(&asking, &name, &id).await?;
    events(&asking, &place, &asked, None).await
}

/// GET /stacks/{stack}/{id}/resources/{resource}/events
pub async fn of_resource(
    asking: Asking,
    Path((_, name, id, resource)): Path<(String, String, String, String)>,
    asked: Pairs,
) -> Result<Json<Value>, Fault> {
    let place = of_gone(&asking, &name, &id).await?;
    let found = events(&asking, &place, &asked, Some(&resource)).await?;
    match found.0["events"].as_array() {
        Some(events) if events.is_empty() && asked.one("marker").is_none() => {
            Err(Fault::not_found(format!("No events found for resource {}", cut(&resource))))
        }
        _ => Ok(found),
    }
}

/// The place, also of a stack that was deleted: the API has its events for whoever may see them.
async fn of_gone(asking: &Asking, name: &str, id: &str) -> Result<Place, Fault> {
    match (place::placed(&asking.api, name, id).await, id.parse()) {
        (Err(fault), Ok(Id::Stack(number))) if fault.status == 404 => {
            let place = Place::of_stack(name, number);
            let named = name.parse::<muster_shared::StackName>().is_ok();
            let one = place.api(&format!("/events?id={number}&limit=1"));
            let rows: Vec<EventRow> =
                if named { asking.api.find(&one).await?.unwrap_or_default() } else { Vec::new() };
            if rows.is_empty() { Err(fault) } else { Ok(place) }
        }
        (found, _) => found,
    }
}

async fn events(
    asking: &Asking,
    place: &Place,
    asked: &Pairs,
    resource: Option<&str>,
) -> Result<Json<Value>, Fault> {
    let marker = match asked.one("marker") {
        None => None,
        Some(text) => match text.parse() {
            Ok(Id::Event { stack, number }) if stack == place.number => Some(number),
            _ => return Err(Fault::not_found(format!("The Event ({}) could not be found.", cut(text)))),
        },
    };
    let newest_first = match asked.one("sort_dir") {
        Some("asc") => false,
        None if asked.one("sort_keys").is_some() => false,
        Some("desc") | None => true,
        Some(_) => return Err(Fault::invalid("sort_dir: want asc or desc")),
    };
    let limit = asked.number("limit")?.unwrap_or(EVENTS_MAX).min(EVENTS_MAX);
    let nested = asked.number("nested_depth")?;
    let wanted = Wanted { asked, resource, newest_first, marker, limit, depth: nested.unwrap_or(0) };
    let rows = gather(asking, place, &wanted).await?;
    let mut shown: Vec<Value> = rows.iter().map(|row| event(asking, place, row)).collect();
    if nested.is_some_and(|depth| depth > 0) {
        // Tells clients that the answer has nested events already.
        for event in &mut shown {
            if let Some(links) = event["links"].as_array_mut() {
                links.push(place.within("").link(&asking.base, "root_stack"));
            }
        }
    }
    Ok(Json(json!({"events": shown})))
}

/// Pages of the API until there are enough.
async fn gather(asking: &Asking, place: &Place, wanted: &Wanted<'_>) -> Result<Vec<EventRow>, Fault> {
    let mut found = Vec::new();
    let mut at = wanted.marker;
    while found.len() < wanted.limit {
        let page = match (wanted.newest_first, at) {
            (false, at) => format!("after={}", at.unwrap_or(0)),
            // The API has the newest first of those before a number.
            (true, at) => format!("before={}", at.unwrap_or(i64::MAX as u64)),
        };
        let asks = place.api(&format!("/events?id={}&limit={PAGE}&{page}", place.number));
        let rows: Vec<EventRow> = asking.api.get(&asks).await?;
        let is_last = rows.len() < PAGE;
        at = rows.last().map(|row| row.number);
        let room = wanted.limit - found.len();
        found.extend(rows.into_iter().filter(|row| is_wanted(place, wanted, row)).take(room));
        if is_last {
            break;
        }
    }
    Ok(found)
}

fn is_wanted(place: &Place, wanted: &Wanted<'_>, row: &EventRow) -> bool {
    let path = row.resource.as_deref().unwrap_or_default();
    let rest = match &row.resource {
        None if place.path.is_empty() => place.stack.as_str(),
        None => return false,
        Some(_) => match nested::below(path, &place.path) {
            Some(rest) => rest,
            None => return false,
        },
    };
    let name = nested::last(rest);
    let state = of_stack(&row.action, &row.status);
    rest.matches('/').count() <= wanted.depth
        && wanted.resource.is_none_or(|wanted| wanted == rest)
        && wanted.asked.lets("resource_name", name)
        && wanted.asked.lets("resource_action", &row.action)
        && (wanted.asked.lets("resource_status", &row.status) || wanted.asked.lets("resource_status", &state))
}

/// An event. Of the stack itself it has the stack's name as that of the resource, as in Heat.
fn event(asking: &Asking, place: &Place, row: &EventRow) -> Value {
    let path_of = row.resource.as_deref().unwrap_or_default();
    let (within, name) = match (&row.resource, path_of.rsplit_once('/')) {
        (None, _) => (place.within(""), place.stack.as_str()),
        (Some(_), None) => (place.within(""), path_of),
        (Some(_), Some((above, name))) => (place.within(above), name),
    };
    let physical = match &row.resource {
        None => within.id(),
        Some(_) => row.physical_id.clone().unwrap_or_default(),
    };
    let id = Id::Event { stack: place.number, number: row.number }.to_string();
    let at = format!("{}/resources{}", within.href(&asking.base), path([name]));
    let status = match &*row.status {
        "INIT" => "COMPLETE",
        status => status,
    };
    json!({
        "id": id,
        "event_time": heat(&row.time),
        "resource_name": name,
        "logical_resource_id": name,
        "physical_resource_id": physical,
        "resource_status": format!("{}_{status}", row.action),
        "resource_status_reason": match &row.resource {
            None => reason(&row.action, &row.status, &row.reason),
            Some(_) => match &*row.reason {
                "" => "state changed".to_owned(),
                why => why.to_owned(),
            },
        },
        "links": [
            {"href": format!("{at}/events/{id}"), "rel": "self"},
            {"href": at, "rel": "resource"},
            within.link(&asking.base, "stack"),
        ],
    })
}

/// GET /stacks/{stack}/{id}/resources/{resource}/events/{event}
pub async fn show(
    asking: Asking,
    Path((_, name, id, resource, wanted)): Path<(String, String, String, String, String)>,
) -> Result<Json<Value>, Fault> {
    let place = of_gone(&asking, &name, &id).await?;
    let absent = || Fault::not_found(format!("No event {} found", cut(&wanted)));
    let number = match wanted.parse() {
        Ok(Id::Event { stack, number }) if stack == place.number && number > 0 => number,
        _ => return Err(absent()),
    };
    let asks = place.api(&format!("/events?id={}&limit=1&after={}", place.number, number - 1));
    let rows: Vec<EventRow> = asking.api.get(&asks).await?;
    let row = rows.first().filter(|row| row.number == number).ok_or_else(absent)?;
    let full = row.resource.as_deref().unwrap_or(&place.stack);
    if nested::last(full) != resource && full != resource {
        return Err(absent());
    }
    let mut event = event(&asking, &place, row);
    let kind = match &row.physical_id {
        None => Some("OS::Heat::Stack".to_owned()),
        Some(physical) => {
            let at = place.api(&format!("/resources{}", path([physical])));
            asking.api.find::<ResourceView>(&at).await?.map(|view| view.kind)
        }
    };
    event["resource_type"] = kind.into();
    event["resource_properties"] = json!({});
    Ok(Json(json!({"event": event})))
}
