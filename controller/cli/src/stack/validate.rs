//! `stack validate`: the whole check of a template, on this host.
//!
//! Absent: what only the controller can refuse: claims, nodes, immutable parameters
//! (`controller/engine/src/acceptance.rs`).

use std::fmt::Write;
use std::sync::Arc;

use muster_template::{Limits, ParameterDef, StackNames, Tree, parse_in};
use serde::Serialize;
use serde_json::json;

use super::Validate;
use crate::failure::Failure;
use crate::output::{Format, cell, document, printable};
use crate::source::{Source, parameters};

/// `stack validate -o json`
#[derive(Serialize)]
struct ValidateView<'a> {
    file: &'a str,
    valid: bool,
    description: &'a str,
    /// The number of resources, including those of nested stacks if all parameters are given.
    resources: usize,
    parameters: Vec<ParameterView<'a>>,
    /// Required parameters without a value.
    missing_parameters: Vec<&'a str>,
}

#[derive(Serialize)]
struct ParameterView<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    description: &'a str,
    required: bool,
    hidden: bool,
}

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
        // Opening nested stacks needs all values.
        Ok(parameters) => {
            let template = Arc::clone(&template);
            let tree = Tree::new(template, Arc::new(parameters), environment, &source.files)?;
            // Parts that depend on the stack's name are unknown before it has one.
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
    let answer = ValidateView {
        file: &text.name,
        valid: true,
        description: template.description().unwrap_or_default(),
        resources: count,
        parameters: template.parameters().map(ParameterView::of).collect(),
        missing_parameters: missing,
    };
    document(format, &json!(answer), |_| table(&answer))
}

impl<'a> ParameterView<'a> {
    fn of(parameter: &'a ParameterDef) -> Self {
        Self {
            name: &parameter.name,
            kind: parameter.kind.name(),
            description: parameter.description.as_deref().unwrap_or_default(),
            required: parameter.default.is_none(),
            hidden: parameter.hidden,
        }
    }
}

fn table(answer: &ValidateView<'_>) -> String {
    let mut out = format!("{} is valid: {} resources\n", cell(&answer.file), answer.resources);
    for name in &answer.missing_parameters {
        let about = answer.parameters.iter().find(|parameter| parameter.name == *name);
        writeln!(
            out,
            "required parameter not given: {} ({})  {}",
            cell(*name),
            about.map_or_else(|| "-".to_owned(), |about| cell(about.kind)),
            about.map(|about| printable(about.description)).unwrap_or_default()
        )
        .expect("writing to a String does not fail");
    }
    out
}
