//! Environments: values for parameters, mappings of types, and policies for resources by name, apart from
//! the template.
//!
//! Several environments are combined in the order given: of two values for one name the later counts, or a
//! strategy merges both. A value of a parameter that the template lacks is an error. A default of one is
//! ignored, since one environment serves many templates.
//!
//! Absent: values of the request, which take precedence (`bind.rs`), and waits at hooks
//! (`controller/engine/src/traversal/hook.rs`).

mod merge;
mod read;
mod resource_registry;
mod strategy;

use std::collections::BTreeMap;

use serde_json::Value;

use self::merge::merge;
use self::strategy::{Strategies, Strategy};
use crate::Limits;
use crate::error::{Error, Errors, Path, Place, cut, suggestion};
use crate::files::Mention;
use crate::hooks::Policies;
use crate::mapping::{EntryId, Mapping, Mappings};
use crate::parameter::ParameterDef;
use crate::template::Template;

/// The combined environments of a stack. The default is empty.
#[derive(Clone, Default)]
pub struct Environment {
    /// Names of the files, for the places of errors.
    files: Vec<Box<str>>,
    parameters: BTreeMap<Box<str>, Vec<EnvironmentValue>>,
    defaults: BTreeMap<Box<str>, Vec<EnvironmentValue>>,
    strategies: Strategies,
    policies: Policies,
    mappings: Mappings,
    warnings: Vec<Error>,
}

/// An environment's text.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentFile<'t> {
    /// The file's name, for the places of errors.
    pub name: &'t str,
    /// The key, as in [`crate::files`]: the templates it names are relative to its folder.
    pub key: &'t str,
    /// The file's content.
    pub text: &'t str,
}

impl<'t> From<(&'t str, &'t str)> for EnvironmentFile<'t> {
    fn from((name, text): (&'t str, &'t str)) -> Self {
        Self { name, key: name, text }
    }
}

/// A value with its place.
#[derive(Clone)]
struct EnvironmentValue {
    value: Value,
    file: usize,
    at: Place,
    /// The way in which this value is combined with an earlier one.
    strategy: Strategy,
}

/// An environment as it was read.
#[derive(Default)]
struct ParsedEnvironment {
    parameters: BTreeMap<Box<str>, EnvironmentValue>,
    defaults: BTreeMap<Box<str>, EnvironmentValue>,
    strategies: Strategies,
    policies: Policies,
    mappings: Mappings,
    warnings: Vec<Error>,
}

impl Environment {
    /// Warnings about what counts in another way than it looks.
    pub fn warnings(&self) -> &[Error] {
        &self.warnings
    }

    /// Reads environments; a later one takes precedence over an earlier one.
    ///
    /// # Errors
    /// Every error of each environment, with its place.
    pub fn parse<'t, T: Into<EnvironmentFile<'t>>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, Errors> {
        let mut all = Self::default();
        let mut errors = Vec::new();
        for file in texts.into_iter().map(Into::into) {
            let name = file.name;
            if all.files.len() >= Limits::ENVIRONMENTS {
                let message = format!("at most {} environments are taken", Limits::ENVIRONMENTS);
                errors.push(Error::new(name, Place::default(), "", &message));
                break;
            }
            let read = read::read(&file, all.files.len());
            all.files.push(name.into());
            match read {
                Ok(one) => errors.extend(all.take(one)),
                Err(found) => errors.extend(found.0),
            }
        }
        let name = errors.first().map_or_else(String::new, |error| error.file.clone());
        if errors.is_empty() { Ok(all) } else { Err(Errors::of(&name, errors)) }
    }

    /// Combines an environment with all before it. The errors are strategies that contradict each other.
    fn take(&mut self, later: ParsedEnvironment) -> Vec<Error> {
        let ParsedEnvironment { parameters, defaults, strategies, policies, mappings, mut warnings } = later;
        warnings.truncate(Limits::ERRORS.saturating_sub(self.warnings.len()));
        self.warnings.append(&mut warnings);
        let mut errors = Vec::new();
        for (found, all) in [(parameters, &mut self.parameters), (defaults, &mut self.defaults)] {
            for (name, mut given) in found {
                match self.strategies.of(&name, &strategies) {
                    Ok(strategy) => given.strategy = strategy,
                    Err(message) => {
                        let mut path = Path::default();
                        path.key(strategy::SECTION);
                        path.key(&name);
                        let at = strategies.place(&name).unwrap_or(given.at);
                        errors.push(Error::new(&self.files[given.file], at, path.as_str(), &message));
                    }
                }
                let values = all.entry(name).or_default();
                if given.strategy == Strategy::Overwrite {
                    values.clear(); // they do not count any more
                }
                values.push(given);
            }
        }
        self.policies.take(policies);
        self.mappings.take(mappings);
        if self.policies.count_patterns() > Limits::PATTERNS {
            let message = format!("at most {} patterns are taken", Limits::PATTERNS);
            let name = self.files.last().map_or("", |name| &**name);
            errors.push(Error::new(name, Place::default(), "resource_registry.resources", &message));
            self.policies = Policies::default();
        }
        errors
    }

    /// The policies for resources.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The mapping of a type in a resource, by its path (`servers/0/config`). A line for that resource takes
    /// precedence over one for the type, and that over a wildcard. The target of a mapping may be mapped
    /// itself. In a template that a type is mapped to, the type has its own meaning again: `within` has the
    /// lines that led to the stacks in which the resource is nested.
    ///
    /// # Errors
    /// Types that are mapped to each other.
    pub fn mapping(&self, kind: &str, resource: &str, within: &[EntryId]) -> Result<Option<Mapping>, Error> {
        self.mappings
            .mapping(kind, resource, within)
            .map_err(|(entry, message)| Error::new(self.file(entry.file), entry.at, &entry.path, &message))
    }

    /// Whether a type is mapped for any resource.
    pub fn maps(&self, kind: &str) -> bool {
        self.mappings.maps(kind)
    }

    /// Each template that a type is mapped to: its key, and the place of the mapping.
    pub fn mentions(&self) -> impl Iterator<Item = Mention> + '_ {
        self.mappings.mentions(|file| self.file(file)).into_iter()
    }

    /// Checks that each template that a type is mapped to was given.
    ///
    /// # Errors
    /// The missing templates, each with the place that names it.
    pub fn check_files(&self, given: &BTreeMap<String, String>) -> Result<(), Errors> {
        let missing = self.mentions().filter(|mention| !given.contains_key(&mention.key));
        let error = |mention: Mention| {
            let near = suggestion(&mention.key, given.keys().map(String::as_str));
            mention
                .error(&format!("the file '{}' was not given with the environment{near}", cut(&mention.key)))
        };
        let errors: Vec<Error> = missing.map(error).collect();
        let name = errors.first().map_or_else(String::new, |error| error.file.clone());
        if errors.is_empty() { Ok(()) } else { Err(Errors::of(&name, errors)) }
    }

    /// The value of a parameter of the root template, of its type; `None` if the template's default applies.
    ///
    /// # Errors
    /// A value that is not of its type, with its place.
    pub fn of_parameter(&self, definition: &ParameterDef) -> Option<Result<Value, Error>> {
        let own = self.value("parameters", &self.parameters, definition);
        own.or_else(|| self.default_of(definition))
    }

    /// Whether `parameters` of an environment has a value of this parameter.
    pub fn gives(&self, parameter: &str) -> bool {
        self.parameters.contains_key(parameter)
    }

    /// The value of a parameter of a nested template, for which `parameters` do not count.
    ///
    /// # Errors
    /// A value that is not of its type, with its place.
    pub fn default_of(&self, definition: &ParameterDef) -> Option<Result<Value, Error>> {
        self.value("parameter_defaults", &self.defaults, definition)
    }

    fn value(
        &self,
        section: &str,
        values: &BTreeMap<Box<str>, Vec<EnvironmentValue>>,
        definition: &ParameterDef,
    ) -> Option<Result<Value, Error>> {
        let values = values.get(&definition.name)?;
        let mut all: Option<Value> = None;
        for given in values {
            let merged = definition.converted_outer(&given.value).and_then(|value| match all.take() {
                None => Ok(value),
                Some(old) => merge(definition.kind, given.strategy, old, value),
            });
            match merged {
                Ok(value) => all = Some(value),
                Err(message) => return Some(Err(self.error(section, &definition.name, given, &message))),
            }
        }
        // Constraints apply to the combined value.
        let wrong = |message: String| {
            let last = values.last().expect("there is a value, so there are some given");
            self.error(section, &definition.name, last, &message)
        };
        all.map(|value| definition.allowed(value).map_err(wrong))
    }

    /// Whether it has a value for a parameter of the root template.
    pub(crate) fn has(&self, parameter: &str) -> bool {
        self.parameters.contains_key(parameter) || self.defaults.contains_key(parameter)
    }

    fn file(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |name| name)
    }

    /// An error about the value of a parameter, with its place.
    fn error(&self, section: &str, parameter: &str, given: &EnvironmentValue, message: &str) -> Error {
        let mut path = Path::default();
        path.key(section);
        path.key(parameter);
        Error::new(self.file(given.file), given.at, path.as_str(), message)
    }

    /// Values for parameters that the template does not have.
    pub(crate) fn unknown<'a>(&'a self, template: &'a Template) -> impl Iterator<Item = Error> + 'a {
        let known = || template.parameters.iter().map(|parameter| &*parameter.name);
        let names = self.parameters.iter().filter(|(name, _)| template.parameter(name).is_none());
        names.filter_map(move |(name, values)| {
            let near = suggestion(name, known());
            let message = format!("unknown parameter '{}'{near}", cut(name));
            Some(self.error("parameters", name, values.last()?, &message))
        })
    }
}

#[cfg(test)]
mod tests;
