//! `stack validate`: the whole check of a template, on this host.
//!
//! Absent: the check itself (`controller/template/src/validate.rs`), and what only the controller can refuse: claims,
//! nodes, immutable parameters (`controller/engine/src/operation/acceptance.rs`).

use std::fmt::Write as _;
use std::io::Write as _;

use muster_template::validate::{Text, validate};
use muster_template::{Limits, ParameterDef};
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
    /// Passages that mean something else than it looks; also on stderr.
    warnings: &'a [String],
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
    let given = parameters(&asked.given.parameters);
    let text = Text { name: &text.name, text: &text.text, files: &source.files, text_max: Limits::TEXT };
    let valid = validate(text, &source.environment, &given)?;
    let answer = ValidateView {
        file: text.name,
        valid: true,
        description: valid.template.description().unwrap_or_default(),
        resources: valid.resources,
        parameters: valid.template.parameters().map(ParameterView::of).collect(),
        missing_parameters: valid.missing.iter().map(String::as_str).collect(),
        warnings: &valid.warnings,
    };
    for warning in &valid.warnings {
        let _closed = writeln!(std::io::stderr(), "warning: {}", printable(warning));
    }
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
