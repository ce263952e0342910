//! A template that has passed every check that needs no values.
//!
//! Absent: the checks (`parse.rs`, `resolve.rs`), and nested stacks, groups and sets (`tree.rs`).

use std::sync::Arc;

use crate::drift_policy::DriftPolicy;
use crate::error::{Error, Place};
use crate::expression::Expr;
use crate::parameter::ParameterDef;
use crate::types::Kind;

/// A parsed and validated template. Immutable; share it in an `Arc`.
#[derive(Clone, Debug)]
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
    pub(crate) groups: Vec<ParameterGroup>,
    /// Sorted by name.
    pub(crate) conditions: Vec<Condition>,
    /// Sorted by key.
    pub(crate) outputs: Vec<Output>,
    /// The digest of all outputs, without the values of parameters.
    pub(crate) outputs_digest: u128,
    pub(crate) files: Vec<Attached>,
    /// Parts may be absent: a resource has a condition, or an `if` chooses its dependencies.
    pub(crate) conditional: bool,
    /// An expression uses the stack's name or id.
    pub(crate) pseudo: bool,
    /// Warnings about what counts in another way than it looks.
    pub(crate) warnings: Vec<Error>,
    /// Constraints that ask a service of OpenStack, and are not checked. Sorted.
    pub(crate) unchecked: Box<[Box<str>]>,
}

/// Properties of a resource that only a few have.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceExtras {
    /// The type as written, if that differs from the name of its kind.
    pub type_name: Option<Box<str>>,
    pub external_id: Option<Expr>,
    /// A function that gives the policy; others are in [`Resource::retain`].
    pub deletion_policy: Option<Expr>,
    /// Whether the resource exists; `None`: always.
    pub condition: Option<Expr>,
    pub update_policy: Option<Expr>,
    /// The treatment of changes by others; `None`: the type's default.
    pub drift_policy: Option<DriftPolicy>,
    /// Kept for a possible nested stack, which reads it by `resource_facade`; meaningless for
    /// other resources.
    pub metadata: Option<Expr>,
    /// Present if the resource is made for each of some nodes.
    pub for_each: Option<Box<ForEach>>,
    /// The resources that `depends_on` names with `scope: all`; numbers of names until they are
    /// looked up.
    pub whole: Box<[u32]>,
}

/// A resource that is made once for each node that a selector matches.
#[derive(Clone, Debug)]
pub(crate) struct ForEach {
    pub at: Place,
    pub nodes: Expr,
    /// The rollout of changes through the members; `None`: all at once.
    pub rollout: Option<Expr>,
    /// The members of [`Resource::requires`] with a `for_each` of their own, where each member here needs
    /// only the one on its own node. Sorted, unique.
    pub pairs: Box<[u32]>,
}

impl Resource {
    pub(crate) fn type_name(&self) -> Option<&str> {
        self.beside.as_ref()?.type_name.as_deref()
    }

    pub(crate) fn external_id(&self) -> Option<&Expr> {
        self.beside.as_ref()?.external_id.as_ref()
    }

    pub(crate) fn deletion_policy(&self) -> Option<&Expr> {
        self.beside.as_ref()?.deletion_policy.as_ref()
    }

    pub(crate) fn condition(&self) -> Option<&Expr> {
        self.beside.as_ref()?.condition.as_ref()
    }

    pub(crate) fn update_policy(&self) -> Option<&Expr> {
        self.beside.as_ref()?.update_policy.as_ref()
    }

    pub(crate) fn drift_policy(&self) -> Option<DriftPolicy> {
        self.beside.as_ref()?.drift_policy
    }

    pub(crate) fn metadata(&self) -> Option<&Expr> {
        self.beside.as_ref()?.metadata.as_ref()
    }

    pub(crate) fn for_each(&self) -> Option<&ForEach> {
        self.beside.as_ref()?.for_each.as_deref()
    }

    /// Whether the resource expands to others.
    pub(crate) fn is_opened(&self) -> bool {
        self.kind.is_whole() || self.for_each().is_some()
    }
}

/// An entry of `resources`.
#[derive(Clone, Debug)]
pub struct Resource {
    pub name: Box<str>,
    pub kind: Kind,
    pub(crate) beside: Option<Box<ResourceExtras>>,
    /// Indexes of all dependencies through `depends_on`, `get_resource` and `get_attr`; sorted, unique. With
    /// conditions, includes those of all branches, until [`Template::pruned`].
    pub requires: Box<[u32]>,
    /// Indexes of the parameters its properties use; sorted, unique.
    pub(crate) parameters: Box<[u32]>,
    /// Indexes of the conditions its properties name; sorted, unique.
    pub(crate) conditions: Box<[u32]>,
    /// The members of `requires` that `depends_on` names, if there is an `if`: the others come from
    /// its branches.
    pub(crate) depends_on: Box<[u32]>,
    /// The properties contain an `if`.
    pub(crate) branches: bool,
    /// `resource_facade` is in its properties.
    pub(crate) facade: bool,
    /// `get_node` is in its properties: they may change though the template does not.
    pub(crate) nodes: bool,
    /// The digest of type, properties, `depends_on` and ownership, without the values of parameters.
    pub(crate) digest: u128,
    /// The object stays when the resource is deleted, as far as no function says so.
    pub(crate) retain: bool,
    pub(crate) properties: Expr,
    pub(crate) at: Place,
}

/// An entry of `outputs`.
#[derive(Clone, Debug)]
pub struct Output {
    pub key: Box<str>,
    /// A text for operators.
    pub description: Option<Box<str>>,
    /// Whether the output has a value; `None`: always.
    pub(crate) condition: Option<Expr>,
    pub(crate) value: Expr,
}

/// An entry of `conditions`.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub name: Box<str>,
    pub value: Expr,
    /// The condition, or one that it refers to, uses the stack's name or id.
    pub pseudo: bool,
    /// Whether the condition names what is not there, or a condition that does: it is decided where it is used.
    pub lazy: bool,
    /// A condition has a higher rank than those that it refers to.
    pub rank: usize,
}

/// An item of `parameter_groups`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterGroup {
    /// A text for operators.
    pub label: Option<Box<str>>,
    /// A text for operators.
    pub description: Option<Box<str>>,
    /// Names, in the order in which to ask for the parameters.
    pub parameters: Vec<Box<str>>,
}

/// A file that `get_file` names.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub content: Arc<str>,
    pub digest: u128,
}

impl Template {
    /// The index of a resource in [`Template::resources`].
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.resources.binary_search_by(|resource| (*resource.name).cmp(name)).ok()
    }

    /// Sorted by name.
    pub fn parameters(&self) -> impl Iterator<Item = &ParameterDef> {
        self.parameters.iter()
    }

    /// The groups in the order of the template.
    pub fn parameter_groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    /// Whether a resource has a condition, or an `if` chooses dependencies: [`Template::pruned`]
    /// resolves them.
    pub fn is_conditional(&self) -> bool {
        self.conditional
    }

    /// Whether an expression uses the stack's name or id: [`Template::name_stack`] sets them.
    pub fn asks_for_stack(&self) -> bool {
        self.pseudo
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

    /// The description for operators.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}
