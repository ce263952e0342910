//! The check of a template before it has a stack: itself, its environment, and, once all parameters have values, all
//! that is nested in it.
//!
//! Absent: properties of resources (`check_properties.rs`), and what only the controller can refuse: claims, nodes, immutable parameters
//! (`controller/engine/src/operation/acceptance.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::bind::StackNames;
use crate::environment::Environment;
use crate::error::Errors;
use crate::parse::parse_in;
use crate::template::Template;
use crate::tree::Tree;

/// A template's text and the files that it names.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// For the places of errors.
    pub name: &'t str,
    pub text: &'t str,
    /// By key.
    pub files: &'t BTreeMap<String, String>,
    /// The most bytes of the text.
    pub text_max: usize,
}

/// The properties of a template without errors.
#[derive(Debug)]
pub struct Valid {
    pub template: Arc<Template>,
    /// The number of resources, with those of nested stacks if all parameters have values.
    pub resources: usize,
    /// Required parameters without a value.
    pub missing: Vec<String>,
    /// Warnings about what counts in another way than it looks, a line each.
    pub warnings: Vec<String>,
}

/// Checks a template with an environment and values of parameters.
///
/// # Errors
/// The errors, each with its place.
pub fn validate(
    text: Text<'_>,
    environment: &Environment,
    given: &BTreeMap<String, Value>,
) -> Result<Valid, Errors> {
    let maps = |kind: &str| environment.maps(kind);
    let template = Arc::new(parse_in(text.name, text.text, text.files, text.text_max, &maps)?);
    let missing = template.missing_parameters(environment, given);
    let mut warnings: Vec<String> = environment.warnings().iter().map(ToString::to_string).collect();
    let mut resources = template.resources.len();
    match template.bind_with(environment, given) {
        // Opening nested stacks needs all values.
        Ok(parameters) => {
            let tree = Tree::new(Arc::clone(&template), Arc::new(parameters), environment, text.files)?;
            warnings.extend(tree.warnings());
            // Parts that depend on the stack's name are unknown before it has one.
            resources = match tree.template().asks_for_stack() {
                true => tree.len(),
                false => tree.of_stack(StackNames { name: "stack".into(), id: "0".into() })?.len(),
            };
        }
        Err(errors) => {
            let is_missing = |path: &str| missing.iter().any(|name| path == format!("parameters.{name}"));
            let errors = errors.without(|error| is_missing(&error.path), missing.len());
            if !errors.0.is_empty() {
                return Err(errors);
            }
            warnings.extend(template.warnings.iter().map(ToString::to_string));
            warnings.extend(crate::tree::unchecked(std::iter::once(&*template)));
        }
    }
    let missing = missing.into_iter().map(str::to_owned).collect();
    Ok(Valid { template, resources, missing, warnings })
}
