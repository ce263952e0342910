//! Parameters: what was given, checked against what the template asks for.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::digest;
use crate::environment::Environment;
use crate::error::{Errors, Path, Place, Sink, cut, suggestion};
use crate::parameter::ParameterDef;
use crate::template::Template;

const MISSING: &str = "this parameter must be given; it has no default";
/// Stands for the value of a hidden parameter, as in Heat.
pub const MASK: &str = "******";

/// A value for each parameter of one template, in its order. Serializes as a map with every value in clear: for the
/// store, not for eyes; see [`Parameters::masked`].
#[derive(Clone, PartialEq)]
pub struct Parameters(Box<[Bound]>);

#[derive(Clone, PartialEq)]
struct Bound {
    name: Box<str>,
    hidden: bool,
    digest: u128,
    value: Value,
}

impl Template {
    /// Checks and converts what was given, and adds defaults.
    pub fn bind(&self, given: &BTreeMap<String, Value>) -> Result<Parameters, Errors> {
        self.bind_with(&Environment::default(), given)
    }

    /// The same, with an environment: what is given goes over its parameters, these over its defaults, and these over
    /// the template's.
    pub fn bind_with(
        &self,
        environment: &Environment,
        given: &BTreeMap<String, Value>,
    ) -> Result<Parameters, Errors> {
        let mut errors = Sink::new(&self.file);
        let mut path = Path::default();
        path.key("parameters");
        for name in given.keys() {
            if self.parameter(name).is_none() {
                let near = suggestion(name, self.parameters.iter().map(|p| &*p.name));
                errors.push(
                    Place::default(),
                    path.as_str(),
                    format!("unknown parameter '{}'{near}", cut(name)),
                );
            }
        }
        environment.unknown(self).for_each(|error| errors.take(error));
        let mut bound = Vec::with_capacity(self.parameters.len());
        for definition in &self.parameters {
            let before = path.key(&definition.name);
            let value = match given.get(&*definition.name) {
                Some(given) => definition.kind.convert(given),
                None => match (environment.of_parameter(definition), &definition.default) {
                    (Some(Ok(value)), _) => Ok(value),
                    (Some(Err(error)), _) => {
                        errors.take(error);
                        path.leave(before);
                        continue;
                    }
                    (None, Some(default)) => Ok(default.clone()),
                    (None, None) => Err(MISSING.to_owned()),
                },
            };
            match value {
                Ok(value) => bound.push(Bound {
                    name: definition.name.clone(),
                    hidden: definition.hidden,
                    digest: digest::of_value(&value),
                    value,
                }),
                Err(message) => errors.push(definition.at, path.as_str(), message),
            }
            path.leave(before);
        }
        if errors.is_empty() { Ok(Parameters(bound.into())) } else { Err(errors.into_errors()) }
    }

    /// Names of the parameters that have no value: not given, not in the environment, without a default.
    pub fn missing_parameters(
        &self,
        environment: &Environment,
        given: &BTreeMap<String, Value>,
    ) -> Vec<&str> {
        let mut names = self.required_parameters();
        names.retain(|name| !given.contains_key(*name) && !environment.has(name));
        names
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&ParameterDef> {
        self.parameters.binary_search_by(|p| (*p.name).cmp(name)).ok().map(|index| &self.parameters[index])
    }
}

impl Parameters {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.binary_search_by(|bound| (*bound.name).cmp(name)).ok().map(|i| &self.0[i].value)
    }

    /// All of them for an operator's eyes: hidden ones are `"******"`.
    pub fn masked(&self) -> BTreeMap<String, Value> {
        let shown =
            |bound: &Bound| if bound.hidden { Value::String(MASK.to_owned()) } else { bound.value.clone() };
        self.0.iter().map(|bound| (bound.name.to_string(), shown(bound))).collect()
    }

    /// Values of hidden parameters, so that they can be masked where they appear in rendered text.
    pub fn hidden_values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(|bound| bound.hidden).map(|bound| &bound.value)
    }

    /// A text for operators, with what hidden parameters hold masked wherever it appears.
    pub fn without_hidden(&self, text: &str) -> String {
        self.hidden_values().fold(text.to_owned(), |text, value| {
            let secret = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // An empty secret is in every text.
            if secret.is_empty() { text } else { text.replace(&secret, MASK) }
        })
    }

    /// `None` where these parameters are of another template.
    pub(crate) fn value(&self, index: u32) -> Option<&Value> {
        self.0.get(index as usize).map(|bound| &bound.value)
    }

    pub(crate) fn digest(&self, index: u32) -> u128 {
        self.0.get(index as usize).map_or(0, |bound| bound.digest)
    }
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for bound in &self.0 {
            map.serialize_entry(&*bound.name, &bound.value)?;
        }
        map.end()
    }
}

/// Secrets stay out of logs.
impl std::fmt::Debug for Parameters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.masked()).finish()
    }
}
