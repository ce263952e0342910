//! Resource types, versions of templates and their functions, from the code that reads templates.

use axum::Json;
use axum::extract::Path;
use muster_template::{ConstraintSchema, Function, Kind, PropertySchema, TypeSchema, Version, functions};
use serde_json::{Map, Value, json};

use crate::caller::Asking;
use crate::fault::{Fault, cut};
use crate::query::Pairs;

/// GET /resource_types
pub async fn list(asking: Asking, asked: Pairs) -> Result<Json<Value>, Fault> {
    asking.admit().await?;
    let with_description = asked.flag("with_description")?;
    let mut all = Kind::ALL;
    all.sort_by_key(|kind| kind.name());
    let wanted = asked.one("name");
    // Every type is one that Heat calls supported.
    let statuses = asked.one("support_status").is_none_or(|status| status == "SUPPORTED");
    let named = all.iter().filter(|kind| statuses && wanted.is_none_or(|name| has_name(kind.name(), name)));
    let shown: Vec<Value> = named
        .map(|kind| match with_description {
            true => json!({"resource_type": kind.name(), "description": kind.about()}),
            false => json!(kind.name()),
        })
        .collect();
    Ok(Json(json!({"resource_types": shown})))
}

/// Heat takes a pattern; a text within the name is what people write.
fn has_name(name: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_start_matches("^").trim_end_matches("$");
    let parts: Vec<&str> = wanted.split(".*").collect();
    let mut rest = name;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

fn schema(name: &str) -> Result<TypeSchema, Fault> {
    let kind = Kind::from_name(name);
    let kind = kind
        .ok_or_else(|| Fault::not_found(format!("The Resource Type ({}) could not be found.", cut(name))))?;
    Ok(kind.schema())
}

/// GET /resource_types/{type}
pub async fn show(
    asking: Asking,
    Path((_, name)): Path<(String, String)>,
    asked: Pairs,
) -> Result<Json<Value>, Fault> {
    asking.admit().await?;
    let schema = schema(&name)?;
    let properties: Map<String, Value> =
        schema.properties.iter().map(|it| (it.name.to_owned(), property(it))).collect();
    let attributes: Map<String, Value> = schema
        .attributes
        .iter()
        .map(|it| (it.name.to_owned(), json!({"description": it.description})))
        .collect();
    let mut answer = json!({
        "resource_type": schema.name,
        "properties": properties,
        "attributes": attributes,
        "support_status": {"status": "SUPPORTED", "version": null, "message": null, "previous_status": null},
    });
    if asked.flag("with_description")? {
        answer["description"] = schema.description.into();
    }
    Ok(Json(answer))
}

fn property(it: &PropertySchema) -> Value {
    let mut property = json!({
        "type": it.kind,
        "required": it.required,
        "update_allowed": it.on_update.starts_with("in place"),
        "immutable": false,
        "description": it.description,
    });
    if let Some(default) = &it.default {
        property["default"] = default.clone();
    }
    let constraint = match it.constraint {
        None => return property,
        Some(ConstraintSchema::Range { min, max }) => json!({"range": {"min": min, "max": max}}),
        Some(ConstraintSchema::AllowedValues(words)) => json!({"allowed_values": words}),
        Some(ConstraintSchema::Description(text)) => json!({"description": text}),
    };
    property["constraints"] = json!([constraint]);
    property
}

/// GET /resource_types/{type}/template: a template with that resource, and a parameter for each property.
pub async fn template(
    asking: Asking,
    Path((_, name)): Path<(String, String)>,
    asked: Pairs,
) -> Result<Json<Value>, Fault> {
    asking.admit().await?;
    if asked.one("template_type").is_some_and(|kind| kind != "hot") {
        return Err(Fault::not_supported("template_type: templates are HOT alone: --template-type hot"));
    }
    let schema = schema(&name)?;
    let mut parameters = Map::new();
    let mut properties = Map::new();
    for it in &schema.properties {
        let kind = match it.kind {
            "string" | "number" | "boolean" => it.kind,
            _ => "json",
        };
        let mut parameter = json!({"type": kind, "description": it.description});
        if let Some(default) = it.default.as_ref().filter(|default| !default.is_null()) {
            parameter["default"] = default.clone();
        }
        parameters.insert(it.name.to_owned(), parameter);
        properties.insert(it.name.to_owned(), json!({"get_param": it.name}));
    }
    let resource = name.rsplit("::").next().unwrap_or("resource");
    let outputs: Map<String, Value> = schema
        .attributes
        .iter()
        .map(|it| {
            let value = json!({"get_attr": [resource, it.name]});
            (it.name.to_owned(), json!({"description": it.description, "value": value}))
        })
        .collect();
    Ok(Json(json!({
        "heat_template_version": Version::NEWEST.date(),
        "description": format!("Initial template of {name}"),
        "parameters": parameters,
        "resources": {resource: {"type": schema.name, "properties": properties}},
        "outputs": outputs,
    })))
}

/// GET /template_versions
pub async fn versions(asking: Asking) -> Result<Json<Value>, Fault> {
    asking.admit().await?;
    let mut rows: Vec<(Version, Vec<&str>)> = Vec::new();
    for name in Version::names() {
        let Some(version) = Version::from_name(name) else { continue };
        match rows.last_mut() {
            Some((last, aliases)) if *last == version => aliases.push(name),
            _ => rows.push((version, Vec::new())),
        }
    }
    let row = |(version, aliases): &(Version, Vec<&str>)| {
        let named = |name: &str| format!("heat_template_version.{name}");
        let aliases: Vec<String> = aliases.iter().map(|name| named(name)).collect();
        json!({"version": named(version.date()), "type": "hot", "aliases": aliases})
    };
    Ok(Json(json!({"template_versions": rows.iter().map(row).collect::<Vec<_>>()})))
}

/// GET /template_versions/{version}/functions
pub async fn functions_of(
    asking: Asking,
    Path((_, wanted)): Path<(String, String)>,
    asked: Pairs,
) -> Result<Json<Value>, Fault> {
    asking.admit().await?;
    let with_conditions = asked.flag("with_condition_func")?;
    let name = wanted.strip_prefix("heat_template_version.").unwrap_or(&wanted);
    let version = Version::from_name(name);
    let version = version
        .ok_or_else(|| Fault::not_found(format!("Template with version {} not found", cut(&wanted))))?;
    let has = |since: Option<Version>| since.is_some_and(|since| since <= version);
    let is_there = |it: &&Function| has(it.since) || (with_conditions && has(it.in_conditions));
    let shown: Vec<Value> = functions()
        .iter()
        .filter(is_there)
        .map(|it| json!({"functions": it.name, "description": it.meaning}))
        .collect();
    Ok(Json(json!({"template_functions": shown})))
}
