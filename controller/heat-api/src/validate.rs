//! `openstack orchestration template validate`: the check that `muster stack validate` makes, and the parameters in
//! Heat's form.
//!
//! Absent: what only a stack can refuse: claims, nodes, immutable parameters.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use muster_template::{Environment, EnvironmentFile, Errors, ParameterDef, ParameterType};
use serde_json::{Map, Value, json};

use crate::caller::Asking;
use crate::client::place;
use crate::fault::Fault;
use crate::request::{Asked, Read};
use crate::{Heat, body};

/// POST /validate
pub async fn validate(State(heat): State<Heat>, asking: Asking, body: Body) -> Result<Json<Value>, Fault> {
    let held = body::read(&heat, &asking, body).await?;
    let read = held.parse::<Asked>()?.read()?;
    let most = heat.host.template_max;
    let checked = tokio::task::spawn_blocking(move || {
        // The body keeps its room until this is done.
        let _held = held;
        check(&read, most)
    });
    checked.await.map_err(|error| Fault::internal(error.to_string()))?.map(Json)
}

fn check(read: &Read, template_max: usize) -> Result<Value, Fault> {
    let template = read.whole_template()?;
    let file = |it: &muster_api::stack::EnvironmentFile| (it.name.clone(), it.key.clone(), it.text.clone());
    let files: Vec<(String, Option<String>, String)> = read.environments.iter().map(file).collect();
    let environment = Environment::parse(files.iter().map(|(name, key, text)| EnvironmentFile {
        name,
        key: key.as_deref().unwrap_or(name),
        text,
    }));
    let environment = environment.map_err(refusal)?;
    let text = muster_template::validate::Text {
        name: &template.name,
        text: &template.text,
        files: &read.files,
        text_max: template_max,
    };
    let valid = muster_template::validate::validate(text, &environment, &read.parameters).map_err(refusal)?;
    let document = muster_template::document(&template.name, &template.text).map_err(refusal)?;
    let parameters: Map<String, Value> = valid
        .template
        .parameters()
        .map(|it| {
            let constraints = &document["parameters"][&*it.name]["constraints"];
            let given = read.parameters.get(&*it.name).filter(|_| !it.hidden);
            (it.name.to_string(), parameter(it, constraints, given))
        })
        .collect();
    let mut answer = json!({
        "Description": valid.template.description().unwrap_or("No description"),
        "Parameters": parameters,
        "Environment": {"parameters": {}, "parameter_defaults": {}, "resource_registry": {"resources": {}},
            "encrypted_param_names": [], "event_sinks": []},
    });
    if let Some(groups @ Value::Array(_)) = document.get("parameter_groups") {
        answer["ParameterGroups"] = groups.clone();
    }
    Ok(answer)
}

fn refusal(errors: Errors) -> Fault {
    let lines: Vec<String> = errors.0.iter().map(place).collect();
    Fault::new(StatusCode::BAD_REQUEST, lines.join("\n"))
}

fn parameter(it: &ParameterDef, constraints: &Value, given: Option<&Value>) -> Value {
    let kind = match it.kind {
        ParameterType::String => "String",
        ParameterType::Number => "Number",
        ParameterType::Json => "Json",
        ParameterType::CommaDelimitedList => "CommaDelimitedList",
        ParameterType::Boolean => "Boolean",
    };
    let mut shown = json!({
        "Type": kind,
        "Description": it.description.as_deref().unwrap_or_default(),
        "NoEcho": if it.hidden { "true" } else { "false" },
        "Label": it.label.as_deref().unwrap_or(&it.name),
    });
    if let Some(default) = &it.default {
        shown["Default"] = default.clone();
    }
    if let Some(value) = given {
        shown["Value"] = value.clone();
    }
    if !it.tags.is_empty() {
        shown["Tags"] = json!(it.tags);
    }
    for constraint in constraints.as_array().into_iter().flatten() {
        for (rule, key, name) in [
            ("length", "min", "MinLength"),
            ("length", "max", "MaxLength"),
            ("range", "min", "MinValue"),
            ("range", "max", "MaxValue"),
            ("modulo", "step", "Step"),
            ("modulo", "offset", "Offset"),
        ] {
            if let Some(value) = constraint.get(rule).and_then(|rule| rule.get(key)) {
                shown[name] = value.clone();
            }
        }
        for (rule, name) in [
            ("allowed_values", "AllowedValues"),
            ("allowed_pattern", "AllowedPattern"),
            ("custom_constraint", "CustomConstraint"),
            ("description", "ConstraintDescription"),
        ] {
            if let Some(value) = constraint.get(rule) {
                shown[name] = value.clone();
            }
        }
    }
    shown
}
