//! A template that has passed every check that needs no values.

use std::sync::Arc;

use crate::error::Place;
use crate::expression::Expr;
use crate::parameter::ParameterDef;
use crate::types::Kind;

/// A parsed and validated template. Immutable; share it in an `Arc`.
#[derive(Debug)]
pub struct Template {
    /// Sorted by name; an index into this list is what [`Resource::requires`] holds.
    pub resources: Vec<Resource>,
    /// [`names_digest`] of the resources' names.
    pub names: u128,
    pub(crate) file: Box<str>,
    pub(crate) version: Box<str>,
    pub(crate) description: Option<Box<str>>,
    /// Sorted by name.
    pub(crate) parameters: Vec<ParameterDef>,
    /// Sorted by key.
    pub(crate) outputs: Vec<Output>,
    pub(crate) files: Vec<Attached>,
}

/// One entry of `resources`.
#[derive(Debug)]
pub struct Resource {
    /// Its key.
    pub name: Box<str>,
    /// Its type.
    pub kind: Kind,
    /// Indexes of all it needs by `depends_on`, `get_resource` and `get_attr`; sorted, unique.
    pub requires: Box<[u32]>,
    /// Indexes of the parameters its properties use; sorted, unique.
    pub(crate) parameters: Box<[u32]>,
    /// Of type, properties, `depends_on` and whose the thing is, without the values of parameters.
    pub(crate) digest: u128,
    /// Its thing is left where it is when it goes.
    pub(crate) retain: bool,
    pub(crate) external_id: Option<Box<Expr>>,
    pub(crate) properties: Expr,
    pub(crate) at: Place,
}

/// One entry of `outputs`.
#[derive(Debug)]
pub struct Output {
    /// Its key.
    pub key: Box<str>,
    /// For operators.
    pub description: Option<Box<str>>,
    pub(crate) value: Expr,
}

/// A file that `get_file` names.
#[derive(Debug)]
pub(crate) struct Attached {
    pub content: Arc<str>,
    pub digest: u128,
}

impl Template {
    /// Where a resource stands in [`Template::resources`].
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.resources.binary_search_by(|resource| (*resource.name).cmp(name)).ok()
    }

    /// Sorted by name.
    pub fn parameters(&self) -> impl Iterator<Item = &ParameterDef> {
        self.parameters.iter()
    }

    /// Names of the parameters without a default.
    pub fn required_parameters(&self) -> Vec<&str> {
        self.parameters.iter().filter(|p| p.default.is_none()).map(|p| &*p.name).collect()
    }

    /// Sorted by key; an index into this list goes to [`Template::render_output`].
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// `heat_template_version` as written.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// For operators.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}
