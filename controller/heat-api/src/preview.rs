//! Previews of a create or an update (`--dry-run`), in Heat's form; nothing is changed.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Method;
use muster_api::preview::{PreviewRow, PreviewView};
use muster_api::stack::StackView;
use muster_front::escaped;
use serde_json::{Value, json};

use crate::caller::Asking;
use crate::client::TEMPLATE;
use crate::fault::Fault;
use crate::nested;
use crate::place::{self, Names, Place};
use crate::query::Pairs;
use crate::request::Asked;
use crate::stack::{minutes, printed};
use crate::{Heat, body, contents};

/// Heat's words for what would become of a resource, in their order.
const CHANGES: [&str; 5] = ["unchanged", "updated", "replaced", "added", "deleted"];

/// PUT /stacks/{stack}/{id}/preview
pub async fn update(
    state: State<Heat>,
    asking: Asking,
    names: Names,
    asked: Pairs,
    body: Body,
) -> Result<Json<Value>, Fault> {
    changes(state, asking, names, asked, body, false).await
}

/// PATCH /stacks/{stack}/{id}/preview
pub async fn update_existing(
    state: State<Heat>,
    asking: Asking,
    names: Names,
    asked: Pairs,
    body: Body,
) -> Result<Json<Value>, Fault> {
    changes(state, asking, names, asked, body, true).await
}

async fn changes(
    State(heat): State<Heat>,
    asking: Asking,
    Path((_, name, id)): Names,
    asked: Pairs,
    body: Body,
    existing: bool,
) -> Result<Json<Value>, Fault> {
    let nested = asked.flag("show_nested")?;
    let held = body::read(&heat, &asking, body).await?;
    let place = place::whole(&asking.api, &name, &id).await?;
    let update = held.parse::<Asked>()?.read()?.update(existing)?;
    let view: PreviewView = asking.api.send(Method::POST, &place.api("/preview"), &update).await?;
    let mut by_change: BTreeMap<&str, Vec<Value>> = CHANGES.map(|change| (change, Vec::new())).into();
    for (path, change, row) in shown(&view.resources, nested) {
        by_change.entry(change).or_default().push(resource(&asking, &place, path, row));
    }
    Ok(Json(json!({"resource_changes": by_change})))
}

/// Each resource with what would become of it. Without nested ones, what contains some stands for them.
fn shown(rows: &[PreviewRow], nested: bool) -> Vec<(&str, &'static str, Option<&PreviewRow>)> {
    if nested {
        return rows.iter().map(|row| (&*row.name, change(row), Some(row))).collect();
    }
    let mut found: BTreeMap<&str, (&'static str, Option<&PreviewRow>)> = BTreeMap::new();
    for row in rows {
        let (path, own) = match row.name.split_once('/') {
            Some((outer, _)) => (outer, None),
            None => (&*row.name, Some(row)),
        };
        let change = change(row);
        // What contains both new and old resources is updated.
        let entry = found.entry(path).or_insert((change, None));
        entry.0 = if entry.0 == change { change } else { "updated" };
        entry.1 = entry.1.or(own);
    }
    found.into_iter().map(|(path, (change, row))| (path, change, row)).collect()
}

fn change(row: &PreviewRow) -> &'static str {
    match &*row.change {
        "create" | "adopt" => "added",
        "update" => "updated",
        "replace" => "replaced",
        "delete" => "deleted",
        _ => "unchanged",
    }
}

fn resource(asking: &Asking, place: &Place, path: &str, row: Option<&PreviewRow>) -> Value {
    let (kind, node) = row.map_or(("OS::Heat::Stack", ""), |row| (&row.kind, &row.node));
    let identity = place.identity(&asking.project, &format!("/resources/{path}"));
    // Heat has no place for them; a client that does not know them leaves them out.
    let properties = row.map(|row| &row.properties).filter(|changed| !changed.is_empty());
    json!({
        "resource_name": nested::last(path),
        "logical_resource_id": nested::last(path),
        "resource_type": kind,
        "resource_identity": identity,
        "stack_identity": place.identity(&asking.project, ""),
        "stack_name": place.name(),
        "physical_resource_id": "",
        "resource_action": "INIT",
        "resource_status": "COMPLETE",
        "resource_status_reason": "",
        "description": "",
        "required_by": [],
        "attributes": {"node": node},
        "metadata": {},
        "property_changes": properties,
    })
}

/// POST /stacks/preview
pub async fn create(State(heat): State<Heat>, asking: Asking, body: Body) -> Result<Json<Value>, Fault> {
    let held = body::read(&heat, &asking, body).await?;
    let read = held.parse::<Asked>()?.read()?;
    let name = read.stack_name()?;
    let template = read.whole_template()?.clone();
    let parameters: BTreeMap<String, String> =
        read.parameters.iter().map(|(name, value)| (name.clone(), printed(value))).collect();
    let (rollback, timeout) = (read.options.rollback, read.options.timeout);
    let at = format!("/v1/stacks/{}", escaped(name.as_str()));
    if asking.api.find::<StackView>(&at).await?.is_some() {
        return Err(Fault::exists(name.as_str()));
    }
    let view: PreviewView =
        asking.api.send(Method::POST, &format!("{at}/preview"), &read.update(false)?).await?;
    let place = Place::of_stack(name.as_str(), 0);
    let resources: Vec<Value> =
        view.resources.iter().map(|row| resource(&asking, &place, &row.name, Some(row))).collect();
    let text = muster_api::stack::TemplateView {
        name: TEMPLATE.to_owned(),
        template: template.text,
        ..muster_api::stack::TemplateView::default()
    };
    let description = contents::document(text).await?["description"].clone();
    Ok(Json(json!({"stack": {
        "stack_name": name.as_str(),
        "id": "None",
        "description": description,
        "template_description": description,
        "parameters": parameters,
        "resources": resources,
        "capabilities": [],
        "notification_topics": [],
        "disable_rollback": !rollback,
        "timeout_mins": minutes(timeout.unwrap_or_default()),
        "parent": null,
        "tags": null,
        "links": [],
        "warnings": view.warnings,
    }})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contains_old_and_new_resources_is_updated() {
        let row = |name: &str, change: &str| PreviewRow {
            name: name.to_owned(),
            change: change.to_owned(),
            ..PreviewRow::default()
        };
        let rows = [
            row("a", "replace"),
            row("group/0", "unchanged"),
            row("group/1", "create"),
            row("group", "unchanged"),
            row("new/0", "create"),
            row("new/1", "adopt"),
        ];
        let of = |nested| -> Vec<(&str, &str)> {
            shown(&rows, nested).into_iter().map(|(path, change, _)| (path, change)).collect()
        };
        assert_eq!(of(false), [("a", "replaced"), ("group", "updated"), ("new", "added")]);
        assert_eq!(of(true)[1..3], [("group/0", "unchanged"), ("group/1", "added")]);
    }
}
