//! The kept value of a hidden parameter stays hidden: a template that shows its parameter does not get it.

use std::collections::BTreeMap;

use muster_engine::EnvironmentText;
use muster_template::{Environment, ParameterDef, Template};
use serde_json::Value;

use crate::api::error::ApiError;

/// Where the values of an update come from. A given value goes over a kept one, and either over an environment's, as
/// `bind_with` has it; environments that are given come last, and may merge their values with kept ones.
pub(super) struct Values<'a> {
    pub kept: &'a BTreeMap<String, Value>,
    pub given: &'a BTreeMap<String, Value>,
    /// The kept ones and those that are given.
    pub environments: &'a [EnvironmentText],
    pub given_environments: &'a [EnvironmentText],
}

impl Values<'_> {
    /// # Errors
    /// A parameter was hidden, is not hidden in the new template, and would have something of its kept value there.
    pub fn stay_hidden(&self, before: &Template, new: &Template) -> Result<(), ApiError> {
        let was_hidden = |name: &str| before.parameters().any(|def| def.hidden && *def.name == *name);
        let mut shown = new.parameters().filter(|def| !def.hidden && was_hidden(&def.name)).peekable();
        if shown.peek().is_none() {
            return Ok(());
        }
        let read = |texts: &[EnvironmentText]| Environment::parse(texts.iter().map(EnvironmentText::file));
        let (all, given) = (read(self.environments)?, read(self.given_environments)?);
        let is_kept = |def: &ParameterDef| {
            let name = &*def.name;
            // A value of the wrong type is no answer to what it is.
            let of = |environment: &Environment| environment.of_parameter(def).map(Result::ok);
            !self.given.contains_key(name)
                && (self.kept.contains_key(name) || of(&all).is_some_and(|value| of(&given) != Some(value)))
        };
        match shown.find(|def| is_kept(def)) {
            None => Ok(()),
            Some(def) => Err(ApiError::invalid(format!(
                "the parameter '{}' was hidden, and is not hidden in this template: its value is not kept so. Write \
                 'hidden: true' there, or give the value again (-P)",
                def.name
            ))),
        }
    }
}
