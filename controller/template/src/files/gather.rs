//! Everything that a template and its environments name, directly or through other templates.

use std::collections::{BTreeMap, BTreeSet};

use super::mention::{Mention, mentions};
use crate::Limits;
use crate::environment::Environment;
use crate::error::{Errors, Sink};
use crate::source::too_large;

/// Fetches each file once: the files that a template names, those that the registry of its
/// environments names, and the files that these name in turn. `root` is the root template's name,
/// for errors, and its text; without it, only environments are looked at. The caller has bounded
/// the root's text. `name` returns a file's name for errors from its key; `fetch` returns its
/// content, or why there is none.
///
/// # Errors
/// Each file that could not be fetched, at every place that names it, and each template that is not YAML.
pub fn gather<T: AsRef<str>>(
    root: Option<(&str, &str)>,
    environment: &Environment,
    name: impl Fn(&str) -> String,
    mut fetch: impl FnMut(&str) -> Result<T, String>,
) -> Result<BTreeMap<String, T>, Errors> {
    let mut errors = Sink::new(root.map_or("", |(name, _)| name));
    let mut open: Vec<Mention> = environment.mentions().collect();
    match root.map(|(name, text)| mentions(name, "", text)).transpose() {
        Ok(found) => open.extend(found.into_iter().flatten()),
        Err(found) => found.0.into_iter().for_each(|error| errors.take(error)),
    }
    let mut files: BTreeMap<String, Result<T, String>> = BTreeMap::new();
    let mut templates = BTreeSet::new();
    while let Some(mention) = open.pop() {
        if errors.is_full() {
            break;
        }
        if !files.contains_key(&mention.key) {
            if files.len() >= Limits::FILES {
                errors.take(mention.error(&format!(
                    "a stack is made of at most {} files, and this is one more",
                    Limits::FILES
                )));
                break;
            }
            files.insert(mention.key.clone(), fetch(&mention.key));
        }
        match &files[&mention.key] {
            Err(why) => errors.take(mention.error(why)),
            Ok(text) if mention.is_template && templates.insert(mention.key.clone()) => {
                if let Some(message) = too_large("the template", text.as_ref(), Limits::TEXT) {
                    errors.take(mention.error(&message));
                    continue;
                }
                match mentions(&name(&mention.key), &mention.key, text.as_ref()) {
                    Ok(found) => open.extend(found),
                    Err(found) => found.0.into_iter().for_each(|error| errors.take(error)),
                }
            }
            Ok(_) => {}
        }
    }
    if !errors.is_empty() {
        return Err(errors.into_errors());
    }
    Ok(files.into_iter().filter_map(|(key, content)| Some((key, content.ok()?))).collect())
}
