//! Stacks: list, show, create, update, delete, in Heat's form.
//!
//! Absent: previews (`preview.rs`), actions (`actions.rs`), how a state reads in Heat (`status.rs`), and which place a path
//! is about (`place.rs`).

use std::cmp::Ordering;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use muster_api::resource::ResourceView;
use muster_api::stack::{Begun, OutputView, StackRow, StackView, TemplateView};
use muster_front::escaped;
use serde_json::{Value, json};

use crate::caller::Asking;
use crate::contents;
use crate::fault::Fault;
use crate::nested;
use crate::place::{self, Names, Place};
use crate::query::Pairs;
use crate::request::Asked;
use crate::status::{of_resource, of_stack, reason};
use crate::time::heat;
use crate::{Heat, body};

/// GET /stacks
pub async fn list(asking: Asking, asked: Pairs) -> Result<Json<Value>, Fault> {
    for (flag, instead) in [
        ("show_nested", "'openstack stack resource list -n 5' has what a stack contains"),
        ("show_deleted", "'muster audit' has them, and their events are there by id"),
    ] {
        if asked.flag(flag)? {
            return Err(Fault::not_supported(format!("{flag}: {instead}")));
        }
    }
    let mut rows: Vec<StackRow> = asking.api.get("/v1/stacks").await?;
    rows.retain(|row| is_wanted(&asked, row));
    sort(&mut rows, &asked)?;
    let count = rows.len();
    let mut shown: Vec<Value> = rows.iter().map(|row| short(&asking, row)).collect();
    if let Some(marker) = asked.one("marker") {
        let Some(at) = shown.iter().position(|stack| stack["id"] == *marker) else {
            return Err(Fault::no_stack(marker));
        };
        shown.drain(..=at);
    }
    let limit = asked.number("limit")?;
    if let Some(limit) = limit {
        shown.truncate(limit);
    }
    let mut answer = json!({"stacks": shown});
    if let (Some(limit), Some(last)) = (limit, shown.last())
        && shown.len() == limit
    {
        let others = asked.text.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("marker="));
        let query: String = others.map(|pair| format!("{pair}&")).collect();
        let marker = escaped(last["id"].as_str().unwrap_or_default());
        let href = format!("{}/stacks?{query}marker={marker}", asking.base);
        answer["links"] = json!([{"rel": "next", "href": href}]);
    }
    if asked.flag("with_count")? {
        answer["count"] = count.into();
    }
    Ok(Json(answer))
}

/// Filters by Heat's names of them. A status may be one with its action: `CREATE_FAILED`.
fn is_wanted(asked: &Pairs, row: &StackRow) -> bool {
    let state = of_stack(&row.action, &row.status);
    let number = row.id.parse().unwrap_or_default();
    let id = Place::of_stack(&row.name, number).id();
    let has_status = |name: &'static str| asked.lets(name, &row.status) || asked.lets(name, &state);
    // No stack has a tag.
    let has_tags = asked.one("tags").is_none() && asked.one("tags_any").is_none();
    asked.lets("name", &row.name)
        && asked.lets("stack_name", &row.name)
        && asked.lets("id", &id)
        && asked.lets("action", &row.action)
        && asked.lets("stack_action", &row.action)
        && has_status("status")
        && has_status("stack_status")
        && has_tags
}

/// The newest first, unless keys are given.
fn sort(rows: &mut [StackRow], asked: &Pairs) -> Result<(), Fault> {
    let keys: Vec<&str> = asked.all("sort_keys").flat_map(|keys| keys.split(',')).collect();
    let descending = match asked.one("sort_dir") {
        Some("asc") => false,
        Some("desc") => true,
        Some(_) => return Err(Fault::invalid("sort_dir: want asc or desc")),
        None => keys.is_empty(),
    };
    let number = |row: &StackRow| row.id.parse::<u64>().unwrap_or_default();
    let compare = |a: &StackRow, b: &StackRow| {
        let by = |key: &&str| match *key {
            "stack_name" | "name" => a.name.cmp(&b.name),
            "stack_status" | "status" => (&a.status, &a.action).cmp(&(&b.status, &b.action)),
            "creation_time" | "created_at" => a.created_at.cmp(&b.created_at),
            "updated_time" | "updated_at" => a.updated_at.cmp(&b.updated_at),
            _ => Ordering::Equal,
        };
        let default = ["created_at"];
        let keys = if keys.is_empty() { &default[..] } else { &keys[..] };
        let found = keys.iter().map(by).find(|it| it.is_ne()).unwrap_or_else(|| number(a).cmp(&number(b)));
        if descending { found.reverse() } else { found }
    };
    rows.sort_by(compare);
    Ok(())
}

fn short(asking: &Asking, row: &StackRow) -> Value {
    let place = Place::of_stack(&row.name, row.id.parse().unwrap_or_default());
    json!({
        "id": place.id(),
        "stack_name": row.name,
        "description": "",
        "stack_status": of_stack(&row.action, &row.status),
        "stack_status_reason": reason(&row.action, &row.status, &row.status_reason),
        "creation_time": heat(&row.created_at),
        "updated_time": updated(&row.created_at, &row.updated_at),
        "deletion_time": null,
        "stack_owner": null,
        "parent": null,
        "stack_user_project_id": asking.project,
        "tags": null,
        "links": [place.link(&asking.base, "self")],
    })
}

/// Null until the stack is changed after its creation.
fn updated(created: &str, updated: &str) -> Value {
    if created == updated { Value::Null } else { heat(updated) }
}

/// GET /stacks/{stack}/{id}
pub async fn show(asking: Asking, Path((_, name, id)): Names, asked: Pairs) -> Result<Json<Value>, Fault> {
    let place = place::placed(&asking.api, &name, &id).await?;
    let view: StackView = place::stack(&asking.api, &place.stack).await?;
    let mut stack = common(&asking, &place);
    stack["creation_time"] = heat(&view.created_at);
    stack["updated_time"] = updated(&view.created_at, &view.updated_at);
    if !place.path.is_empty() {
        // Heat rolls back the whole stack alone.
        stack["timeout_mins"] = minutes(view.timeout);
        return nested_stack(&asking, &place, stack).await;
    }
    (stack["disable_rollback"], stack["timeout_mins"]) = (json!(!view.rollback), minutes(view.timeout));
    let template: TemplateView = asking.api.get(&place.api("/template")).await?;
    let description = contents::document(template).await?["description"].clone();
    let description = if description.is_null() { json!("No description") } else { description };
    stack["description"] = description.clone();
    stack["template_description"] = description;
    stack["stack_status"] = of_stack(&view.action, &view.status).into();
    stack["stack_status_reason"] = reason(&view.action, &view.status, &view.status_reason).into();
    let mut parameters: serde_json::Map<String, Value> =
        view.parameters.iter().map(|(name, value)| (name.clone(), printed(value).into())).collect();
    parameters.insert("OS::stack_name".to_owned(), view.name.clone().into());
    parameters.insert("OS::stack_id".to_owned(), place.id().into());
    parameters.insert("OS::project_id".to_owned(), asking.project.clone().into());
    stack["parameters"] = parameters.into();
    if asked.one("resolve_outputs").is_none() || asked.flag("resolve_outputs")? {
        stack["outputs"] = view.outputs.iter().map(output).collect();
    }
    Ok(Json(json!({"stack": stack})))
}

/// The keys that answers about stacks have in common.
fn common(asking: &Asking, place: &Place) -> Value {
    json!({
        "id": place.id(),
        "stack_name": place.name(),
        "description": "",
        "template_description": "",
        "deletion_time": null,
        "notification_topics": [],
        "capabilities": [],
        "parameters": {},
        "disable_rollback": true,
        "timeout_mins": null,
        "stack_owner": null,
        "parent": place.parent().map(|(above, _)| above.id()),
        "stack_user_project_id": asking.project,
        "tags": null,
        "links": [place.link(&asking.base, "self")],
    })
}

/// Seconds as Heat's minutes; null where no limit is known.
pub fn minutes(seconds: u64) -> Value {
    if seconds == 0 { Value::Null } else { json!(seconds.div_ceil(60)) }
}

/// A part of a stack: its state follows from its resources.
async fn nested_stack(asking: &Asking, place: &Place, mut stack: Value) -> Result<Json<Value>, Fault> {
    let rows: Vec<ResourceView> = asking.api.get(&place.api("/resources")).await?;
    let (above, _) = place.parent().unwrap_or((place.within(""), ""));
    let found = nested::items(&rows, &above.path, 0);
    let Some(item) = found.iter().find(|item| item.path == place.path) else {
        return Err(Fault::no_stack(&place.id()));
    };
    let row = item.decided_by;
    stack["stack_status"] = of_resource(row).into();
    stack["stack_status_reason"] = reason(&row.action, &row.status, &row.status_reason).into();
    stack["outputs"] = json!([]);
    Ok(Json(json!({"stack": stack})))
}

/// A value of a parameter as text, as Heat prints them.
pub fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        }
        other => muster_template::json(other),
    }
}

/// An output with its value.
pub fn output(view: &OutputView) -> Value {
    let description = match &*view.description {
        "" => "No description given",
        text => text,
    };
    let mut shown = json!({"output_key": view.key, "output_value": view.value, "description": description});
    // As in Heat, the key is there only if there is no value.
    if !view.output_error.is_empty() {
        shown["output_error"] = json!(view.output_error);
    }
    shown
}

/// POST /stacks
pub async fn create(State(heat): State<Heat>, asking: Asking, body: Body) -> Result<Response, Fault> {
    let held = body::read(&heat, &asking, body).await?;
    let asked = held.parse::<Asked>()?.read()?.create()?;
    if asking.api.find::<StackView>(&format!("/v1/stacks/{}", escaped(asked.name.as_str()))).await?.is_some()
    {
        return Err(Fault::exists(asked.name.as_str()));
    }
    let begun: Begun = asking.api.send(Method::POST, "/v1/stacks", &asked).await?;
    let place = Place::of_stack(&begun.name, begun.id.parse().unwrap_or_default());
    let location = HeaderValue::try_from(place.href(&asking.base));
    let location = location.map_err(|error| Fault::invalid(error.to_string()))?;
    let stack = json!({"stack": {"id": place.id(), "links": [place.link(&asking.base, "self")]}});
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(stack)).into_response())
}

/// PUT /stacks/{stack}/{id}
pub async fn update(
    state: State<Heat>,
    asking: Asking,
    names: Names,
    body: Body,
) -> Result<StatusCode, Fault> {
    change(state, asking, names, body, false).await
}

/// PATCH /stacks/{stack}/{id}: what is not given stays.
pub async fn update_existing(
    state: State<Heat>,
    asking: Asking,
    names: Names,
    body: Body,
) -> Result<StatusCode, Fault> {
    change(state, asking, names, body, true).await
}

async fn change(
    State(heat): State<Heat>,
    asking: Asking,
    Path((_, name, id)): Names,
    body: Body,
    existing: bool,
) -> Result<StatusCode, Fault> {
    let held = body::read(&heat, &asking, body).await?;
    let place = place::whole(&asking.api, &name, &id).await?;
    let now = place::stack(&asking.api, &place.stack).await?;
    let asked = held.parse::<Asked>()?.read()?.keeping(&now).update(existing)?;
    let _begun: Begun = asking.api.send(Method::PUT, &place.api(""), &asked).await?;
    Ok(StatusCode::ACCEPTED)
}

/// DELETE /stacks/{stack}/{id}
pub async fn delete(asking: Asking, Path((_, name, id)): Names) -> Result<StatusCode, Fault> {
    let place = place::whole(&asking.api, &name, &id).await?;
    let _begun: Begun = asking.api.send(Method::DELETE, &place.api(""), &Value::Null).await?;
    Ok(StatusCode::NO_CONTENT)
}
