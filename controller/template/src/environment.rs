//! Environments: values for parameters, and what holds for resources by name, apart from the template.
//!
//! Several are one, in the order given: of two values for one name the later counts, as in Heat. Nothing is ignored but
//! defaults of parameters that the template does not have, for one environment serves many templates.

mod read;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Limits;
use crate::error::{Error, Errors, Path, Place, cut, suggestion};
use crate::policy::Policies;
use crate::template::Template;

/// All environments of a stack as one. The default says nothing.
#[derive(Clone, Default)]
pub struct Environment {
    /// Names of the files, for the places of errors.
    files: Vec<Box<str>>,
    parameters: BTreeMap<Box<str>, Given>,
    defaults: BTreeMap<Box<str>, Given>,
    policies: Policies,
}

/// A value with where it stands.
#[derive(Clone)]
struct Given {
    value: Value,
    file: usize,
    at: Place,
}

impl Environment {
    /// Reads environments, each with its file's name; a later one goes over an earlier one.
    ///
    /// # Errors
    /// Every error of each of them, with its place.
    pub fn parse<'t>(texts: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Self, Errors> {
        let mut all = Self::default();
        let mut errors = Vec::new();
        for (name, text) in texts {
            if all.files.len() >= Limits::ENVIRONMENTS {
                let message = format!("at most {} environments are taken", Limits::ENVIRONMENTS);
                errors.push(Error::new(name, Place::default(), "", &message));
                break;
            }
            match read::read(name, text, all.files.len()) {
                Ok(one) => all.take(name, one),
                Err(found) => {
                    all.files.push(name.into());
                    errors.extend(found.0);
                }
            }
        }
        errors.truncate(Limits::ERRORS);
        if errors.is_empty() { Ok(all) } else { Err(Errors(errors)) }
    }

    fn take(&mut self, name: &str, later: Self) {
        self.files.push(name.into());
        self.parameters.extend(later.parameters);
        self.defaults.extend(later.defaults);
        self.policies.take(later.policies);
    }

    /// What is said of resources.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The value of a parameter, unless the template's default holds.
    pub(crate) fn value(&self, parameter: &str) -> Option<&Value> {
        let given = self.parameters.get(parameter).or_else(|| self.defaults.get(parameter));
        given.map(|given| &given.value)
    }

    /// An error about the value of a parameter, where it stands.
    pub(crate) fn error(&self, parameter: &str, message: &str) -> Error {
        let (section, given) = match (self.parameters.get(parameter), self.defaults.get(parameter)) {
            (Some(given), _) => ("parameters", Some(given)),
            (None, given) => ("parameter_defaults", given),
        };
        let (file, at) = given.map_or(("", Place::default()), |given| (&*self.files[given.file], given.at));
        let mut path = Path::default();
        path.key(section);
        path.key(parameter);
        Error::new(file, at, path.as_str(), message)
    }

    /// Values for parameters that the template does not have.
    pub(crate) fn unknown<'a>(&'a self, template: &'a Template) -> impl Iterator<Item = Error> + 'a {
        let known = || template.parameters.iter().map(|parameter| &*parameter.name);
        let names = self.parameters.keys().filter(|name| template.parameter(name).is_none());
        names.map(move |name| {
            let near = suggestion(name, known());
            self.error(name, &format!("unknown parameter '{}'{near}", cut(name)))
        })
    }
}

#[cfg(test)]
mod tests;
