//! The kept value of a hidden parameter stays hidden: a template that shows its parameter does not get it.

use std::collections::BTreeMap;

use muster_engine::EnvironmentText;
use muster_template::{Environment, ParameterDef, Template};
use serde_json::Value;

use crate::api::error::ApiError;

/// The values of a stack that an update keeps, and those that it gives.
pub(super) struct Values<'a> {
    pub kept: &'a BTreeMap<String, Value>,
    pub kept_environments: &'a [EnvironmentText],
    pub given: &'a BTreeMap<String, Value>,
    pub given_environments: &'a [EnvironmentText],
}

impl Values<'_> {
    /// # Errors
    /// A parameter was hidden, is not hidden in the new template, and would have its kept value there.
    pub fn stay_hidden(&self, before: &Template, new: &Template) -> Result<(), ApiError> {
        let was_hidden = |name: &str| before.parameters().any(|def| def.hidden && *def.name == *name);
        let mut shown = new.parameters().filter(|def| !def.hidden && was_hidden(&def.name)).peekable();
        if shown.peek().is_none() {
            return Ok(());
        }
        let read = |texts: &[EnvironmentText]| Environment::parse(texts.iter().map(EnvironmentText::file));
        let (kept, given) = (read(self.kept_environments)?, read(self.given_environments)?);
        let has = |values: &BTreeMap<String, Value>, environment: &Environment, def: &ParameterDef| {
            values.contains_key(&*def.name) || environment.of_parameter(def).is_some()
        };
        match shown.find(|def| has(self.kept, &kept, def) && !has(self.given, &given, def)) {
            None => Ok(()),
            Some(def) => Err(ApiError::invalid(format!(
                "the parameter '{}' was hidden, and is not hidden in this template: its value is not kept so. Write \
                 'hidden: true' there, or give the value again",
                def.name
            ))),
        }
    }
}
