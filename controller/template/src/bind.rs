//! Parameters: given values, checked against the template's definitions.
//!
//! Absent: which environment counts (`environment.rs`), and whether an update may change the value
//! (`controller/engine/src/operation/acceptance.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::digest;
use crate::environment::Environment;
use crate::error::{Error, Errors, Path, Place, Sink, cut, suggestion};
use crate::masking::{MASK, Secrets};
use crate::parameter::ParameterDef;
use crate::render::RenderError;
use crate::template::{Condition, Template};

/// The error of a parameter without a value, with the remedy for an operator.
pub fn must_be_given(name: &str) -> String {
    let name = cut(name);
    format!(
        "this parameter must be given, for it has no default: -P {name}=VALUE, or in an environment (-e FILE)"
    )
}

/// A value for each parameter of one template, in its order, and the truth of its conditions. Serializes as a
/// map with every value in clear: for the store, not for eyes; see [`Parameters::masked`].
#[derive(Clone, PartialEq)]
pub struct Parameters {
    values: Box<[Bound]>,
    secrets: Secrets,
    stack: Option<Arc<StackNames>>,
    facade: Option<Arc<Facade>>,
    /// In the template's order; `None` where a condition depends on the stack's name before that is known.
    conditions: Box<[Option<bool>]>,
}

/// Name and id of the stack, for `OS::stack_name` and `OS::stack_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackNames {
    /// The name that operators use.
    pub name: String,
    /// The id, which is unique for all time.
    pub id: String,
}

/// The outer template's properties of a nested stack's resource, for `resource_facade`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facade {
    pub metadata: Value,
    /// `Delete` or `Retain`, as Heat gives it.
    pub deletion_policy: Value,
    pub update_policy: Value,
}

#[derive(Clone, PartialEq)]
struct Bound {
    name: Box<str>,
    hidden: bool,
    digest: u128,
    value: Value,
}

impl Template {
    /// Checks and converts given values, and adds defaults.
    pub fn bind(&self, given: &BTreeMap<String, Value>) -> Result<Parameters, Errors> {
        self.bind_with(&Environment::default(), given)
    }

    /// The same with an environment: given values take precedence over its parameters, these over its
    /// defaults, and these over the template's.
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
        let mut missing = Vec::new();
        for definition in &self.parameters {
            let before = path.key(&definition.name);
            match self.bound_value(definition, environment, given.get(&*definition.name)) {
                Ok(Some(value)) => bound.push(Bound {
                    name: definition.name.clone(),
                    hidden: definition.hidden,
                    digest: digest::of_value(&value),
                    value,
                }),
                Ok(None) => missing.push(definition),
                Err(error) => errors.take(error),
            }
            path.leave(before);
        }
        // Last, so that wrong values are shown even where much is missing.
        for definition in missing {
            let before = path.key(&definition.name);
            errors.push(definition.at, path.as_str(), must_be_given(&definition.name));
            path.leave(before);
        }
        if !errors.is_empty() {
            return Err(errors.into_errors());
        }
        let conditions = vec![None; self.conditions.len()].into();
        let hidden = bound.iter().filter(|bound: &&Bound| bound.hidden).map(|bound| &bound.value);
        let secrets = Secrets::of(hidden);
        let bound = Parameters { values: bound.into(), secrets, stack: None, facade: None, conditions };
        self.with_conditions(bound)
    }

    /// The value of one parameter; `None` if it must be given.
    fn bound_value(
        &self,
        definition: &ParameterDef,
        environment: &Environment,
        given: Option<&Value>,
    ) -> Result<Option<Value>, Error> {
        definition.check_default(&self.file)?;
        if let Some(given) = given {
            let wrong = |message| {
                // The given value is wrong, not the template; the place shows the definition.
                let name = format!("-P {}", cut(&definition.name));
                let message = format!("{message} ({}:{})", self.file, definition.at);
                Error::new(&name, Place::default(), "", &message)
            };
            return definition.take_outer(given).map(Some).map_err(wrong);
        }
        match environment.of_parameter(definition) {
            Some(value) => value.map(Some),
            None => definition.default_value(&self.file),
        }
    }

    /// The same values in a stack with a name: all conditions are known then.
    ///
    /// # Errors
    /// Conditions that are neither true nor false.
    pub fn name_stack(&self, mut parameters: Parameters, names: StackNames) -> Result<Parameters, Errors> {
        parameters.stack = Some(Arc::new(names));
        self.with_conditions(parameters)
    }

    /// Evaluates each condition after those that it refers to.
    fn with_conditions(&self, mut parameters: Parameters) -> Result<Parameters, Errors> {
        let mut errors = Sink::new(&self.file);
        let mut order: Vec<&Condition> = self.conditions.iter().collect();
        order.sort_by_key(|condition| condition.rank);
        for condition in order {
            if condition.lazy || (condition.pseudo && parameters.stack.is_none()) {
                continue;
            }
            match self.decide(condition, &parameters) {
                Ok(holds) => {
                    let index = self.conditions.partition_point(|other| other.name < condition.name);
                    parameters.conditions[index] = Some(holds);
                }
                Err(error) => errors.take(error),
            }
        }
        if errors.is_empty() { Ok(parameters) } else { Err(errors.into_errors()) }
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

impl Facade {
    pub(crate) fn digest(&self) -> u128 {
        let Facade { metadata, deletion_policy, update_policy } = self;
        digest::of_value(&json!([metadata, deletion_policy, update_policy]))
    }
}

impl Parameters {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.values.binary_search_by(|bound| (*bound.name).cmp(name));
        found.ok().map(|i| &self.values[i].value)
    }

    /// The values for an operator's eyes: hidden ones are `"******"`.
    pub fn masked(&self) -> BTreeMap<String, Value> {
        let shown =
            |bound: &Bound| if bound.hidden { Value::String(MASK.to_owned()) } else { bound.value.clone() };
        self.values.iter().map(|bound| (bound.name.to_string(), shown(bound))).collect()
    }

    /// Digests of hidden values, by name: equal for equal values. A short value can be guessed from its
    /// digest, so the digests are only for the store, which seals them.
    pub fn hidden_digests(&self) -> BTreeMap<String, String> {
        let hidden = self.values.iter().filter(|bound| bound.hidden);
        hidden.map(|bound| (bound.name.to_string(), hex(bound.digest))).collect()
    }

    /// The digest of one value, as in [`Parameters::hidden_digests`].
    pub fn digest_of(&self, name: &str) -> Option<String> {
        let found = self.values.binary_search_by(|bound| (*bound.name).cmp(name));
        found.ok().map(|index| hex(self.values[index].digest))
    }

    /// The values of hidden parameters, for masking them in rendered text.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// A text for operators, with the values of hidden parameters masked wherever they appear.
    pub fn without_hidden(&self, text: &str) -> String {
        self.secrets.mask(text)
    }

    /// These parameters in a nested stack, whose resource in the outer template has this facade.
    pub fn within(mut self, facade: Facade) -> Self {
        self.facade = Some(Arc::new(facade));
        self
    }

    /// The stack they are of, once it is known.
    pub fn stack(&self) -> Option<&StackNames> {
        self.stack.as_deref()
    }

    pub(crate) fn facade_digest(&self) -> u128 {
        self.facade.as_deref().map_or(0, Facade::digest)
    }

    pub(crate) fn holds(&self, index: u32) -> Option<bool> {
        self.conditions.get(index as usize).copied().flatten()
    }

    /// The value of this index; `None` if these parameters belong to another template.
    pub(crate) fn at(&self, index: u32) -> Option<&Value> {
        self.values.get(index as usize).map(|bound| &bound.value)
    }

    pub(crate) fn digest(&self, index: u32) -> u128 {
        self.values.get(index as usize).map_or(0, |bound| bound.digest)
    }
}

fn hex(digest: u128) -> String {
    format!("{digest:032x}")
}

/// A parameter's value.
pub(crate) enum ParameterValue<'v> {
    /// The bound value.
    Bound(&'v Value),
    /// A value that a rendering keeps.
    Kept(Rc<Value>),
}

impl Deref for ParameterValue<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Self::Bound(value) => value,
            Self::Kept(value) => value,
        }
    }
}

/// The source of a template's parameter values.
pub(crate) trait Values {
    /// The value of this index; `None` if the values belong to another template.
    fn value(&self, index: u32) -> Option<Result<ParameterValue<'_>, RenderError>>;
    /// Whether a condition of the template holds, by index; `None` while the stack has no name.
    fn condition(&self, index: u32) -> Option<Result<bool, RenderError>>;
    /// Name and id of the stack, once they are known.
    fn stack(&self) -> Option<&StackNames>;
    /// The outer template's properties of a nested stack.
    fn facade(&self) -> Option<Result<Cow<'_, Facade>, RenderError>>;
    /// A key of a path, with the index of the member for which it is rendered.
    fn indexed<'k>(&self, key: Cow<'k, str>) -> Cow<'k, str> {
        key
    }
}

impl Values for Parameters {
    fn value(&self, index: u32) -> Option<Result<ParameterValue<'_>, RenderError>> {
        self.at(index).map(|value| Ok(ParameterValue::Bound(value)))
    }

    fn condition(&self, index: u32) -> Option<Result<bool, RenderError>> {
        self.conditions.get(index as usize).copied().flatten().map(Ok)
    }

    fn stack(&self) -> Option<&StackNames> {
        self.stack.as_deref()
    }

    fn facade(&self) -> Option<Result<Cow<'_, Facade>, RenderError>> {
        self.facade.as_deref().map(|facade| Ok(Cow::Borrowed(facade)))
    }
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.values.len()))?;
        for bound in &self.values {
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
