//! Resources of a stack in Heat's form: list with nested ones, show, metadata, signal, mark unhealthy.
//!
//! Absent: what nested stacks are here (`nested.rs`).

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Method;
use muster_api::resource::{ClearHook, ResourceView, Signalled};
use muster_api::stack::TemplateView;
use muster_front::path;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Asking;
use crate::fault::{Fault, cut};
use crate::nested::{self, Item};
use crate::place::{self, Names, Place};
use crate::query::{self, Pairs};
use crate::resource_times::{self, Times};
use crate::status::of_resource;
use crate::time::heat;
use crate::{Heat, body, contents};

/// Names of filters, and of what else may be asked.
const KNOWN: [&str; 8] =
    ["type", "status", "name", "action", "id", "physical_resource_id", "nested_depth", "with_detail"];

/// A resource in a path of the API.
type OneName = Path<(String, String, String, String)>;

/// The views of which answers about resources are made.
struct Listing {
    place: Place,
    rows: Vec<ResourceView>,
    times: BTreeMap<String, Times>,
    /// Names of the resources that need one, by its name.
    required_by: BTreeMap<String, Vec<String>>,
}

impl Listing {
    async fn of(asking: &Asking, place: Place) -> Result<Self, Fault> {
        let rows: Vec<ResourceView> = asking.api.get(&place.api("/resources")).await?;
        let times = resource_times::of(asking, &place, &rows).await?;
        let mut required_by: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in &rows {
            // As in Heat, of those beside it.
            let above = |path: &str| path.rsplit_once('/').map(|(above, _)| above.to_owned());
            for needed in row.requires.iter().filter(|needed| above(needed) == above(&row.name)) {
                required_by.entry(needed.clone()).or_default().push(nested::last(&row.name).to_owned());
            }
        }
        Ok(Self { place, rows, times, required_by })
    }

    /// A resource of the list.
    fn shown(&self, asking: &Asking, item: &Item<'_>) -> Value {
        let name = nested::last(item.path);
        let within = match item.path.rsplit_once('/') {
            Some((above, _)) => self.place.within(above),
            None => self.place.within(""),
        };
        let href = format!("{}/resources{}", within.href(&asking.base), path([name]));
        let mut links = vec![json!({"href": href, "rel": "self"}), within.link(&asking.base, "stack")];
        // Clients ask for what is in it by the id of the resource.
        let inner = item.contains.then(|| self.place.within(item.path));
        links.extend(inner.as_ref().map(|inner| inner.link(&asking.base, "nested")));
        let own = item.row.map(|row| row.physical_id.clone()).unwrap_or_default();
        let mut shown = json!({
            "resource_name": name,
            "logical_resource_id": name,
            "physical_resource_id": inner.map_or(own, |inner| inner.id()),
            "resource_type": item.row.map_or("OS::Heat::Stack", |row| &row.kind),
            "resource_status": of_resource(item.decided_by),
            "resource_status_reason": item.decided_by.status_reason,
            "links": links,
        });
        if let Some((_, parent)) = within.parent() {
            shown["parent_resource"] = parent.into();
        }
        shown
    }

    /// The same with what other answers say of it.
    fn whole(&self, asking: &Asking, item: &Item<'_>) -> Value {
        let mut shown = self.shown(asking, item);
        let times = self.times.get(item.path);
        let time = |text: Option<&String>| text.map_or(Value::Null, |text| heat(text));
        shown["creation_time"] = time(times.map(|times| &times.created));
        shown["updated_time"] = time(times.map(|times| &times.updated));
        shown["required_by"] = json!(self.required_by.get(item.path).cloned().unwrap_or_default());
        shown
    }
}

/// GET /stacks/{stack}/{id}/resources
pub async fn list(asking: Asking, Path((_, name, id)): Names, asked: Pairs) -> Result<Json<Value>, Fault> {
    if let Some(unknown) = asked.names().find(|name| !KNOWN.contains(name)) {
        return Err(Fault::invalid(format!("Invalid filter parameters ['{}']", cut(unknown))));
    }
    let (depth, detail) = (asked.number("nested_depth")?.unwrap_or(0), asked.flag("with_detail")?);
    let place = place::placed(&asking.api, &name, &id).await?;
    let mut listing = Listing::of(&asking, place).await?;
    let rows = std::mem::take(&mut listing.rows);
    let above = listing.place.path.clone();
    let mut shown = Vec::new();
    for item in nested::items(&rows, &above, depth) {
        let mut one = listing.whole(&asking, &item);
        if !is_wanted(&asked, &one, &item) {
            continue;
        }
        if detail {
            detailed(&mut one, &item);
        }
        shown.push(one);
    }
    Ok(Json(json!({"resources": shown})))
}

fn is_wanted(asked: &Pairs, one: &Value, item: &Item<'_>) -> bool {
    let text = |key: &str| one[key].as_str().unwrap_or_default();
    let (action, status) = text("resource_status").split_once('_').unwrap_or_default();
    let id = item.row.map_or("", |row| &row.id);
    asked.lets("name", text("resource_name"))
        && asked.lets("type", text("resource_type"))
        && asked.lets("physical_resource_id", text("physical_resource_id"))
        && asked.lets("action", action)
        && asked.lets("status", status)
        && asked.lets("id", id)
}

/// Adds further parts of a resource: Heat has a description and attributes.
fn detailed(one: &mut Value, item: &Item<'_>) {
    one["description"] = json!("");
    one["attributes"] = match item.row {
        None => json!({}),
        Some(row) => json!({
            "node": row.node,
            "observed": row.observed,
            "phase": row.phase,
            "causes": row.causes,
        }),
    };
}

/// GET /stacks/{stack}/{id}/resources/{resource}
pub async fn show(asking: Asking, Path((_, name, id, resource)): OneName) -> Result<Json<Value>, Fault> {
    let place = place::placed(&asking.api, &name, &id).await?;
    let mut listing = Listing::of(&asking, place).await?;
    let rows = std::mem::take(&mut listing.rows);
    let (above, wanted) = (listing.place.path.clone(), listing.place.full(&resource));
    let depth = resource.matches('/').count();
    let items = nested::items(&rows, &above, depth);
    let Some(item) = items.iter().find(|item| item.path == wanted) else {
        return Err(Fault::no_resource(&resource, &name));
    };
    let mut one = listing.whole(&asking, item);
    detailed(&mut one, item);
    Ok(Json(json!({"resource": one})))
}

/// GET /stacks/{stack}/{id}/resources/{resource}/metadata: as it stands in the template.
pub async fn metadata(asking: Asking, Path((_, name, id, resource)): OneName) -> Result<Json<Value>, Fault> {
    let (place, row) = one(&asking, &name, &id, &resource).await?;
    if row.name.contains('/') {
        return Err(Fault::not_supported("metadata of a resource in a nested stack: its template has it"));
    }
    let template: TemplateView = asking.api.get(&place.api("/template")).await?;
    let metadata = contents::document(template).await?["resources"][&row.name]["metadata"].clone();
    Ok(Json(json!({"metadata": if metadata.is_null() { json!({}) } else { metadata }})))
}

/// The place and the row of a resource that has one.
async fn one(asking: &Asking, name: &str, id: &str, resource: &str) -> Result<(Place, ResourceView), Fault> {
    let place = place::placed(&asking.api, name, id).await?;
    let at = place.api(&format!("/resources{}", path([&place.full(resource)])));
    match asking.api.find(&at).await? {
        Some(row) => Ok((place, row)),
        None => Err(Fault::no_resource(resource, name)),
    }
}

/// POST /stacks/{stack}/{id}/resources/{resource}/signal: to a handle of a wait condition; `unset_hook` clears a hook.
pub async fn signal(
    State(heat): State<Heat>,
    asking: Asking,
    Path((_, name, id, resource)): OneName,
    body: Body,
) -> Result<Json<Value>, Fault> {
    let held = body::read(&heat, &asking, body).await?;
    let details: Value = if held.is_empty() { Value::Null } else { held.parse()? };
    let (place, row) = one(&asking, &name, &id, &resource).await?;
    let at = place.api(&format!("/resources{}", path([&row.name])));
    if let Some(hook) = details.get("unset_hook") {
        let Some(hook) = hook.as_str() else {
            return Err(Fault::invalid("unset_hook: want the name of a hook, such as pre-create"));
        };
        let hook = ClearHook { hook: hook.to_owned() };
        let _row: ResourceView = asking.api.send(Method::POST, &format!("{at}/clear-hook"), &hook).await?;
    } else {
        let _taken: Signalled = asking.api.send(Method::POST, &format!("{at}/signal"), &details).await?;
    }
    Ok(Json(Value::Null))
}

/// PATCH /stacks/{stack}/{id}/resources/{resource}
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    mark_unhealthy: Value,
    /// The API says why itself.
    #[serde(default, rename = "resource_status_reason")]
    _reason: Value,
}

/// Has a resource replaced by the next update.
pub async fn mark(
    State(heat): State<Heat>,
    asking: Asking,
    Path((_, name, id, resource)): OneName,
    body: Body,
) -> Result<Json<Value>, Fault> {
    let held = body::read(&heat, &asking, body).await?;
    let Mark { mark_unhealthy, .. } = held.parse()?;
    let is_unhealthy = match &mark_unhealthy {
        Value::Bool(value) => *value,
        Value::String(text) => query::boolean("mark_unhealthy", text)?,
        _ => return Err(Fault::invalid("mark_unhealthy: want true or false")),
    };
    if !is_unhealthy {
        return Err(Fault::not_supported(
            "mark_unhealthy: a mark is not taken back: the next update replaces the resource; 'stack check' looks at it",
        ));
    }
    let (place, row) = one(&asking, &name, &id, &resource).await?;
    let at = place.api(&format!("/resources{}/unhealthy", path([&row.name])));
    let _row: ResourceView = asking.api.send(Method::POST, &at, &Value::Null).await?;
    Ok(Json(Value::Null))
}
