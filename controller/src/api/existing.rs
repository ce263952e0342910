//! The parts of the stack's template, environments, files and parameters that an update keeps, with and without
//! `existing` (`muster stack update --existing`).
//!
//! Absent: notes about parameters that are back at their defaults (`defaults.rs`).

mod kept_secret;

use std::collections::{BTreeMap, BTreeSet};

use muster_api::stack::{TemplateFile, UpdateStack};
use muster_engine::{EnvironmentText, Source, SourceText};
use muster_template::files::{gather, resolve};
use muster_template::{Environment, Template};

use self::kept_secret::Values;
use super::defaults::Kept;
use super::error::ApiError;
use super::source::environment;

/// Characters of an unknown name in an error.
const SHOWN: usize = 100;

/// The new revision, with a line for each parameter that returns to its default.
pub(super) fn updated(
    current: Option<SourceText>,
    body: UpdateStack,
    template_max: usize,
) -> Result<(Source, Vec<String>), ApiError> {
    if !body.existing && !body.clear_parameters.is_empty() {
        return Err(ApiError::invalid("clear_parameters: without 'existing', no value is kept"));
    }
    let with_existing = |current: &SourceText| {
        let body = UpdateStack { existing: true, ..body.clone() };
        Kept::of(&merged(current.clone(), body, template_max).ok()?, template_max)
    };
    let kept = current.as_ref().filter(|_| !body.existing).and_then(with_existing);
    let is_base = body.existing || body.template.is_none();
    let text = merged(current.filter(|_| is_base).unwrap_or_default(), body, template_max)?;
    let source = Source::parse_within(text, template_max);
    let source = source.map_err(|errors| match &kept {
        Some(kept) => kept.explained(errors),
        None => errors,
    })?;
    let warnings = kept.map(|kept| kept.differences(source.tree.parameters())).unwrap_or_default();
    Ok((source, warnings))
}

/// As Heat's PARAM_EXISTING: given values and environments take precedence over existing ones, an environment
/// replaces one of its name, and values that a new template lacks are dropped. A given file replaces the
/// stack's file of that key; files of the stack that are no longer named are dropped. A cleared parameter loses its
/// existing value, as with Heat's PARAM_CLEAR_PARAMETERS.
///
/// # Errors
/// Besides those of templates: a new template shows what was hidden ([`Values::stay_hidden`]), or a parameter
/// cannot be cleared ([`are_there`], [`is_given_by_none`]).
fn merged(current: SourceText, body: UpdateStack, template_max: usize) -> Result<SourceText, ApiError> {
    let UpdateStack {
        template,
        environments: given,
        mut files,
        parameters: values,
        existing,
        clear_parameters: cleared,
        ..
    } = body;
    let (mut parameters, mut environments) =
        if existing { (current.parameters, current.environments) } else { Default::default() };
    environments.retain(|known| !given.iter().any(|given| given.name == known.name));
    let kept_environments = environments.len();
    environments.extend(given.into_iter().map(environment));
    // A name that has no value here must at least be a parameter.
    let unset: Vec<&String> = cleared.iter().filter(|name| parameters.remove(*name).is_none()).collect();
    let is_new = template.is_some();
    let has_kept = !parameters.is_empty() || kept_environments > 0;
    let before = (is_new && has_kept)
        .then(|| {
            let files = &current.files;
            muster_template::parse_in(&current.name, &current.template, files, template_max, &|_| true)
        })
        .transpose()
        .map_err(|errors| ApiError {
            message: "the stack's own template cannot be read, so what it hides is not known: give all values, without \
                      'existing'"
                .into(),
            ..ApiError::from(errors)
        })?;
    let (name, template) = match template {
        Some(TemplateFile { name, text, files: own }) => {
            files.extend(own);
            (name, text)
        }
        None => (current.name, current.template),
    };
    let mut kept = current.files;
    kept.retain(|key, _| !files.contains_key(key));
    // A template that is too large is not searched; parsing it reports the error.
    if !kept.is_empty() && template.len() <= template_max {
        let named = named((&name, &template), &environments, [&files, &kept]);
        kept.retain(|key, _| named.as_ref().is_none_or(|named| named.contains(&resolve("", key))));
        files.extend(kept);
    }
    if let Some(before) = before {
        let parsed = muster_template::parse_in(&name, &template, &files, template_max, &|_| true)?;
        let given_environments = &environments[kept_environments..];
        Values { kept: &parameters, given: &values, environments: &environments, given_environments }
            .stay_hidden(&before, &parsed)?;
        parameters.retain(|key, _| parsed.parameters().any(|known| *known.name == **key));
    }
    if !unset.is_empty() {
        let parsed = muster_template::parse_in(&name, &template, &files, template_max, &|_| true)?;
        are_there(&unset, &parsed)?;
    }
    if !cleared.is_empty() {
        is_given_by_none(&cleared, &environments[..kept_environments])?;
    }
    parameters.extend(values);
    Ok(SourceText { name, template, files, parameters, environments })
}

/// Checks that the template has these parameters.
fn are_there(names: &[&String], template: &Template) -> Result<(), ApiError> {
    let known: BTreeSet<&str> = template.parameters().map(|known| &*known.name).collect();
    match names.iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => {
            let name: String = name.chars().take(SHOWN).collect();
            Err(ApiError::invalid(format!("clear_parameters: the template has no parameter '{name}'")))
        }
        None => Ok(()),
    }
}

/// Checks that no environment that is kept gives one of these parameters.
fn is_given_by_none(names: &BTreeSet<String>, kept: &[EnvironmentText]) -> Result<(), ApiError> {
    for environment in kept {
        let parsed = Environment::parse([environment.file()])?;
        if let Some(name) = names.iter().find(|name| parsed.gives(name)) {
            return Err(ApiError::invalid(format!(
                "clear_parameters: '{name}' is given by the environment '{}', which is kept: give it again without \
                 the parameter",
                environment.name
            )));
        }
    }
    Ok(())
}

/// Keys of all files that a template and environments name, directly or in turn; `None` if one of them cannot
/// be read, which parsing reports.
fn named(
    root: (&str, &str),
    environments: &[EnvironmentText],
    files: [&BTreeMap<String, String>; 2],
) -> Option<BTreeSet<String>> {
    let environment = Environment::parse(environments.iter().map(EnvironmentText::file)).ok()?;
    let content = |key: &str| files.iter().find_map(|files| files.get(key)).map_or("", String::as_str);
    let found = gather(Some(root), &environment, str::to_owned, |key| Ok(content(key)));
    Some(found.ok()?.into_keys().collect())
}
