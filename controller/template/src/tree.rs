//! All that a stack is made of, nested stacks and members of groups included: what the engine walks.
//!
//! A resource has a place in the tree, counted in the order of names. A template without anything nested is its own
//! tree: a place is the index of a resource, and nothing is made or kept beside the template.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::bind::{Parameters, StackNames};
use crate::error::{Error, Errors};
use crate::render::{References, RenderError};
use crate::template::{Output, Template};
use crate::types::{Kind, PropertyError};

/// A template with everything below it. Immutable; share it in an `Arc`.
#[derive(Debug)]
pub struct Tree {
    template: Arc<Template>,
    parameters: Arc<Parameters>,
}

impl Tree {
    /// Of a template that stands alone.
    pub fn plain(template: Arc<Template>, parameters: Arc<Parameters>) -> Self {
        Self { template, parameters }
    }

    /// The same in a stack that has its name: what conditions leave of it.
    ///
    /// # Errors
    /// Of conditions, and where what they choose needs itself.
    pub fn of_stack(&self, names: StackNames) -> Result<Self, Errors> {
        let (mut template, mut parameters) = (Arc::clone(&self.template), Arc::clone(&self.parameters));
        if template.asks_for_stack() {
            parameters = Arc::new(template.name_stack(Arc::unwrap_or_clone(parameters), names)?);
        }
        if template.is_conditional() {
            template = Arc::new(Arc::unwrap_or_clone(template).pruned(&parameters)?);
        }
        Ok(Self::plain(template, parameters))
    }

    /// Of the whole.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Of the whole.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// How many resources there are.
    pub fn len(&self) -> usize {
        self.template.resources.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`crate::names_digest`] of all names.
    pub fn names(&self) -> u128 {
        self.template.names
    }

    /// The name of a resource, which is its path.
    pub fn name(&self, index: usize) -> &str {
        &self.template.resources[index].name
    }

    /// Where a resource stands.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.template.index_of(name)
    }

    /// Its type.
    pub fn kind(&self, index: usize) -> Kind {
        self.template.resources[index].kind
    }

    /// The places of all it needs; sorted, unique.
    pub fn requires(&self, index: usize) -> &[u32] {
        &self.template.resources[index].requires
    }

    /// Equal between two revisions where all is equal that the resource is made of.
    pub fn definition(&self, index: usize) -> u128 {
        self.template.resources[index].definition_digest(&self.parameters)
    }

    /// As [`Template::retains`].
    pub fn retains(&self, index: usize) -> bool {
        self.template.retains(index)
    }

    /// As [`Template::is_adopted`].
    pub fn is_adopted(&self, index: usize) -> bool {
        self.template.is_adopted(index)
    }

    /// As [`Template::external_id`].
    ///
    /// # Errors
    /// [`RenderError::Failed`] if a parameter gives no such id.
    pub fn external_id(&self, index: usize) -> Result<Option<String>, RenderError> {
        self.template.external_id(index, &self.parameters)
    }

    /// As [`Template::render`]; `refs` are by place.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn render(&self, index: usize, refs: &dyn References) -> Result<Value, RenderError> {
        self.template.render(index, &self.parameters, refs)
    }

    /// As [`Template::render_property`]; `refs` are by place.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn render_property(
        &self,
        index: usize,
        name: &str,
        refs: &dyn References,
    ) -> Result<Option<Value>, RenderError> {
        self.template.render_property(index, name, &self.parameters, refs)
    }

    /// Of the whole, sorted by key.
    pub fn outputs(&self) -> &[Output] {
        self.template.outputs()
    }

    /// The value of an output of the whole; `refs` are by place.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn render_output(&self, index: usize, refs: &dyn References) -> Result<Value, RenderError> {
        self.template.render_output(index, &self.parameters, refs)
    }

    /// An error of [`crate::spec`] or [`crate::node`], with its place in a text.
    pub fn property_error(&self, index: usize, error: &PropertyError) -> Error {
        self.template.property_error(index, error)
    }

    /// The parameters of the whole, for an operator's eyes.
    pub fn masked_parameters(&self) -> BTreeMap<String, Value> {
        self.parameters.masked()
    }

    /// A text for operators, with what hidden parameters hold masked wherever it appears.
    pub fn without_hidden(&self, text: &str) -> String {
        self.parameters.without_hidden(text)
    }

    /// A value for operators, with what hidden parameters hold masked in every text of it.
    pub fn masked(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.without_hidden(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.masked(item)).collect(),
            Value::Object(entries) => {
                entries.into_iter().map(|(key, value)| (key, self.masked(value))).collect()
            }
            // A hidden number, for one.
            other => {
                let text = other.to_string();
                let shown = self.without_hidden(&text);
                if shown == text { other } else { Value::String(shown) }
            }
        }
    }
}
