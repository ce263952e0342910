//! `stack validate`: the whole check of a template, on this host.

use std::fmt::Write;
use std::sync::Arc;

use muster_template::{Limits, StackNames, Tree, parse_in};
use serde_json::{Value, json};

use super::Validate;
use crate::failure::Failure;
use crate::output::{Format, document};
use crate::source::{Source, parameters};

pub fn run(asked: &Validate, format: Format) -> Result<(), Failure> {
    let source = Source::read(Some(&asked.template), &asked.given.environments)?;
    let text = source.template()?;
    let environment = &source.environment;
    let maps = |kind: &str| environment.maps(kind);
    let template = Arc::new(parse_in(&text.name, &text.text, &source.files, Limits::TEXT, &maps)?);
    let given = parameters(&asked.given.parameters);
    let missing = template.missing_parameters(environment, &given);
    let mut count = template.resources.len();
    match template.bind_with(environment, &given) {
        // What is nested is opened, which takes all values.
        Ok(parameters) => {
            let template = Arc::clone(&template);
            let tree = Tree::new(template, Arc::new(parameters), environment, &source.files)?;
            // What depends on the stack's name is known once there is one.
            count = match tree.template().asks_for_stack() {
                true => tree.len(),
                false => tree.of_stack(StackNames { name: "stack".into(), id: "0".into() })?.len(),
            };
        }
        Err(mut errors) => {
            let is_missing = |path: &str| missing.iter().any(|name| path == format!("parameters.{name}"));
            errors.0.retain(|error| !is_missing(&error.path));
            if !errors.0.is_empty() {
                return Err(errors.into());
            }
        }
    }
    let parameters: Vec<Value> = template
        .parameters()
        .map(|parameter| {
            json!({
                "name": parameter.name,
                "type": parameter.kind.name(),
                "description": parameter.description.as_deref().unwrap_or_default(),
                "required": parameter.default.is_none(),
                "hidden": parameter.hidden,
            })
        })
        .collect();
    let answer = json!({
        "file": text.name,
        "valid": true,
        "description": template.description().unwrap_or_default(),
        "resources": count,
        "parameters": parameters,
        "missing_parameters": missing,
    });
    document(format, &answer, table)
}

fn table(answer: &Value) -> String {
    let text = |value: &Value| crate::output::cell(value);
    let mut out = format!("{} is valid: {} resources\n", text(&answer["file"]), text(&answer["resources"]));
    let parameters = answer["parameters"].as_array().into_iter().flatten();
    for name in answer["missing_parameters"].as_array().into_iter().flatten() {
        let about = parameters.clone().find(|parameter| parameter["name"] == *name).unwrap_or(&Value::Null);
        writeln!(
            out,
            "required parameter not given: {} ({})  {}",
            text(name),
            text(&about["type"]),
            about["description"].as_str().map(crate::output::printable).unwrap_or_default()
        )
        .expect("writing to a String does not fail");
    }
    out
}
