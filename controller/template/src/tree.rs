//! All resources of a stack, including nested stacks and members of groups: the engine walks this tree.
//!
//! A resource has a place in the tree, counted in the order of names. A template without nesting is its own
//! tree: a place is the index of a resource, and no further data is kept.
//!
//! Absent: how a tree grows (`tree/expand.rs`), and which rows stand for its resources
//! (`controller/engine/src/traversal/plan.rs`).

mod expand;
mod parts;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value};

use self::expand::Expander;
use self::group_members::is_as_decided;
use self::parts::{Below, Body, Library, Parts, SetParts};
pub use self::parts::{CurrentResources, NoResources, Pause, Removed};
use self::value::Context;
use crate::bind::{Parameters, StackNames};
use crate::digest::names_digest;
use crate::drift_policy::DriftPolicy;
use crate::environment::Environment;
use crate::error::{Error, Errors};
use crate::masking::Secrets;
use crate::render::{References, RenderError, Step};
use crate::rollout::Rollout;
use crate::template::{Output, Resource, Template};
use crate::types::{Kind, PropertyError};

/// A template with everything below it. Immutable; share it in an `Arc`.
pub struct Tree {
    given: Arc<TreeInputs>,
    /// The template, without the parts that conditions leave out, once they are known.
    template: Arc<Template>,
    parameters: Arc<Parameters>,
    /// `None`: nothing is nested.
    grown: Option<Box<Expansion>>,
}

/// The inputs of a tree.
struct TreeInputs {
    template: Arc<Template>,
    /// The parameters in a stack without a name.
    parameters: Arc<Parameters>,
    environment: Arc<Environment>,
    files: BTreeMap<String, String>,
}

/// The data beyond the root template.
struct Expansion {
    parts: Parts,
    /// Templates read so far: they need not be read again.
    templates: BTreeMap<String, Arc<Template>>,
    names: u128,
    /// The values of hidden parameters, including those of nested stacks.
    secrets: Secrets,
    /// A part of the tree may change when more is known.
    late: bool,
}

impl Tree {
    /// The tree of a template that stands alone.
    pub fn plain(template: Arc<Template>, parameters: Arc<Parameters>) -> Self {
        let given = TreeInputs {
            template: Arc::clone(&template),
            parameters: Arc::clone(&parameters),
            environment: Arc::default(),
            files: BTreeMap::new(),
        };
        Self { given: Arc::new(given), template, parameters, grown: None }
    }

    /// The tree of a template with its nested parts, as far as it is known without the present resources.
    /// `files` has templates by key. Until [`Tree::of_stack`] the stack has a placeholder name.
    ///
    /// # Errors
    /// Errors of nested templates, or of the values given to them, each with its place.
    pub fn new(
        template: Arc<Template>,
        parameters: Arc<Parameters>,
        environment: &Environment,
        files: &BTreeMap<String, String>,
    ) -> Result<Self, Errors> {
        if !template.resources.iter().any(Resource::is_opened) {
            check_policies(&template, &parameters)?;
            return Ok(Self::plain(template, parameters));
        }
        let environment = Arc::new(environment.clone());
        let given = Arc::new(TreeInputs { template, parameters, environment, files: files.clone() });
        let names = StackNames { name: "stack".to_owned(), id: "0".to_owned() };
        Self::named(&given, names, BTreeMap::new())
    }

    fn named(
        given: &Arc<TreeInputs>,
        names: StackNames,
        templates: BTreeMap<String, Arc<Template>>,
    ) -> Result<Self, Errors> {
        let TreeInputs { template, parameters, .. } = &**given;
        let parameters = Arc::new(template.name_stack((**parameters).clone(), names)?);
        let template = match template.is_conditional() {
            true => Arc::new((**template).clone().pruned(&parameters)?),
            false => Arc::clone(template),
        };
        if !template.resources.iter().any(Resource::is_opened) {
            check_policies(&template, &parameters)?;
            return Ok(Self { given: Arc::clone(given), template, parameters, grown: None });
        }
        Self::grow(given, template, parameters, templates, &NoResources)
    }

    fn grow(
        given: &Arc<TreeInputs>,
        template: Arc<Template>,
        parameters: Arc<Parameters>,
        templates: BTreeMap<String, Arc<Template>>,
        known: &dyn CurrentResources,
    ) -> Result<Self, Errors> {
        let parts = Parts {
            parameters: Arc::clone(&parameters),
            environment: Arc::clone(&given.environment),
            scopes: Vec::new(),
            instances: Vec::new(),
            groups: Vec::new(),
            pauses: Vec::new(),
            sets: Vec::new(),
        };
        let library = Library { files: &given.files, environment: &given.environment, templates };
        let mut expander = Expander::new(parts, library, known);
        expander.expand(Arc::clone(&template))?;
        let Expander { mut parts, library, secrets, late, .. } = expander;
        let templates = library.templates;
        parts.sort();
        let names = names_digest(parts.instances.iter().map(|instance| &*instance.name));
        let secrets = parameters.secrets().and(&Secrets::of(secrets.values()));
        let grown = Expansion { parts, templates, names, secrets, late };
        Ok(Self { given: Arc::clone(given), template, parameters, grown: Some(Box::new(grown)) })
    }

    /// Whether the tree may differ in a stack with a name.
    pub fn asks_for_stack(&self) -> bool {
        let nested = self
            .grown
            .as_ref()
            .is_some_and(|grown| grown.templates.values().any(|template| template.asks_for_stack()));
        let is_plain = self.grown.is_none();
        nested || self.given.template.asks_for_stack() || (is_plain && self.given.template.is_conditional())
    }

    /// The tree in a stack with a name, without the parts that conditions leave out.
    ///
    /// # Errors
    /// Errors of conditions, and chosen branches that form a cycle.
    pub fn of_stack(&self, names: StackNames) -> Result<Self, Errors> {
        let templates = self.grown.as_ref().map(|grown| grown.templates.clone());
        Self::named(&self.given, names, templates.unwrap_or_default())
    }

    /// Whether the tree depends on present resources: then [`Tree::with`] may give another.
    pub fn looks_at_what_is_there(&self) -> bool {
        let looks =
            |grown: &Expansion| grown.late || !grown.parts.groups.is_empty() || !grown.parts.sets.is_empty();
        self.grown.as_deref().is_some_and(looks)
    }

    /// The tree with the present resources.
    ///
    /// # Errors
    /// As [`Tree::new`].
    pub fn with(&self, known: &dyn CurrentResources) -> Result<Self, Errors> {
        let (template, parameters) = (Arc::clone(&self.template), Arc::clone(&self.parameters));
        match &self.grown {
            None => Ok(Self { given: Arc::clone(&self.given), template, parameters, grown: None }),
            Some(grown) => Self::grow(&self.given, template, parameters, grown.templates.clone(), known),
        }
    }

    /// Whether the inputs that decided on a resource, and on all that enclose it, are as they were when the
    /// tree was made. `refs` are by place.
    ///
    /// # Errors
    /// The present inputs are invalid.
    pub fn is_as_expanded(&self, index: usize, refs: &dyn References) -> Result<bool, RenderError> {
        let Some(grown) = self.grown.as_ref().filter(|grown| grown.late) else { return Ok(true) };
        is_as_decided(&Context::new(&grown.parts, refs), &grown.parts, number(index))
    }

    /// The names that a group must not give again; `None` for a resource that is no group.
    pub fn removed(&self, index: usize) -> Option<&Removed> {
        let parts = &self.grown.as_ref()?.parts;
        match parts.instances[index].below {
            Below::Group(group) => Some(&parts.groups[group as usize].removed),
            Below::Nothing | Below::Scope(_) | Below::Set(_) => None,
        }
    }

    /// The sets of all `for_each`.
    pub fn sets(&self) -> impl Iterator<Item = Set<'_>> {
        let parts = self.grown.as_deref().map(|grown| &grown.parts);
        parts.into_iter().flat_map(|parts| parts.sets.iter().map(|set| Set { parts, set }))
    }

    /// The set of which a resource is a member, by the place of the resource that stands for the set.
    pub fn set_of(&self, index: usize) -> Option<usize> {
        match self.grown.as_ref()?.parts.instances[index].body {
            Body::Each { of } => Some(of as usize),
            Body::Own { .. } | Body::Member { .. } | Body::Link { .. } | Body::Deployed { .. } => None,
        }
    }

    /// Warnings about what counts in another way than it looks, in each template of the tree once.
    pub fn warnings(&self) -> Vec<String> {
        let below = self.grown.iter().flat_map(|grown| &grown.parts.scopes);
        let all = self.template.warnings.iter().chain(below.flat_map(|scope| &scope.template.warnings));
        let mut texts: Vec<String> = Vec::new();
        for text in all.map(ToString::to_string) {
            if texts.len() < crate::Limits::ERRORS && !texts.contains(&text) {
                texts.push(text);
            }
        }
        let below = self.grown.iter().flat_map(|grown| &grown.parts.scopes);
        let templates = std::iter::once(&*self.template).chain(below.map(|scope| &*scope.template));
        texts.extend(unchecked(templates));
        texts
    }

    pub fn template(&self) -> &Template {
        &self.template
    }

    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The number of resources.
    pub fn len(&self) -> usize {
        self.grown.as_ref().map_or(self.template.resources.len(), |grown| grown.parts.instances.len())
    }

    /// Whether there are no resources.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`crate::names_digest`] of all names.
    pub fn names(&self) -> u128 {
        self.grown.as_ref().map_or(self.template.names, |grown| grown.names)
    }

    /// The name of a resource, which is its path.
    pub fn name(&self, index: usize) -> &str {
        match &self.grown {
            None => &self.template.resources[index].name,
            Some(grown) => &grown.parts.instances[index].name,
        }
    }

    /// The shared name of a resource.
    pub fn shared_name(&self, index: usize) -> Arc<str> {
        match &self.grown {
            None => Arc::from(&*self.template.resources[index].name),
            Some(grown) => Arc::clone(&grown.parts.instances[index].name),
        }
    }

    /// The place of a resource.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.grown.as_ref().map_or_else(|| self.template.index_of(name), |grown| grown.parts.index_of(name))
    }

    pub fn kind(&self, index: usize) -> Kind {
        match &self.grown {
            None => self.template.resources[index].kind,
            Some(grown) => grown.parts.instances[index].kind,
        }
    }

    /// The name of its type as written, if that differs from its kind's.
    pub fn type_name(&self, index: usize) -> Option<&Arc<str>> {
        self.grown.as_ref().and_then(|grown| grown.parts.instances[index].type_name.as_ref())
    }

    /// The places of all it needs; sorted, unique.
    pub fn requires(&self, index: usize) -> &[u32] {
        match &self.grown {
            None => &self.template.resources[index].requires,
            Some(grown) => &grown.parts.instances[index].requires,
        }
    }

    /// The wait of a resource after all its dependencies are done: its batch begins some time after the
    /// one before.
    pub fn pause(&self, index: usize) -> Option<&Pause> {
        let parts = &self.grown.as_ref()?.parts;
        parts.pauses.get(parts.instances[index].pause as usize)
    }

    /// Whether a resource is in a group's second or a later batch, directly or through an enclosing resource.
    pub fn follows_a_batch(&self, index: usize) -> bool {
        self.grown.as_ref().is_some_and(|grown| grown.parts.instances[index].follows)
    }

    /// Equal between two revisions where all is equal that the resource is made of.
    pub fn definition(&self, index: usize) -> u128 {
        match &self.grown {
            None => self.template.resources[index].definition_digest(&self.parameters),
            Some(grown) => grown.parts.instances[index].definition,
        }
    }

    /// Whether the resource uses properties of a node, so that it may change with the same definition.
    pub fn asks_nodes(&self, index: usize) -> bool {
        match self.own(index) {
            None => self.grown.is_none() && self.template.resources[index].nodes,
            Some((template, resource, _)) => {
                self.kind(index) != Kind::Set && template.resources[resource].nodes
            }
        }
    }

    /// Whether its object stays when the resource is deleted: by its own setting, or that of an
    /// enclosing resource.
    pub fn retains(&self, index: usize) -> bool {
        match &self.grown {
            // The condition was decided when the tree was made.
            None => self.template.retains(index, &self.parameters).unwrap_or_default(),
            Some(grown) => grown.parts.instances[index].retain,
        }
    }

    /// The treatment of changes by others: its own setting, that of an enclosing resource, or the type's.
    pub fn drift_policy(&self, index: usize) -> Option<DriftPolicy> {
        match &self.grown {
            None => self.template.resources[index].drift_policy(),
            Some(grown) => grown.parts.instances[index].drift_policy,
        }
    }

    /// Whether the resource stands for an object that others made.
    pub fn is_external(&self, index: usize) -> bool {
        match self.own(index) {
            None => self.grown.is_none() && self.template.is_external(index),
            Some((template, resource, _)) => template.is_external(resource),
        }
    }

    /// The template and the index there of a resource that is written as one, with its stack.
    fn own(&self, index: usize) -> Option<(&Template, usize, u32)> {
        let grown = self.grown.as_ref()?;
        match grown.parts.instances[index].body {
            Body::Own { scope, resource } => {
                Some((&grown.parts.scopes[scope as usize].template, resource as usize, scope))
            }
            // The uses of `get_node` are in that text.
            Body::Each { of } => {
                if let Body::Own { scope, resource } = grown.parts.instances[of as usize].body {
                    Some((&grown.parts.scopes[scope as usize].template, resource as usize, scope))
                } else {
                    None
                }
            }
            Body::Member { .. } | Body::Link { .. } | Body::Deployed { .. } => None,
        }
    }

    /// The id of an object that others made and the resource only stands for.
    ///
    /// # Errors
    /// [`RenderError::Failed`] if a parameter gives no such id.
    pub fn external_id(&self, index: usize) -> Result<Option<String>, RenderError> {
        match (&self.grown, self.own(index)) {
            (None, _) => self.template.external_id(index, &self.parameters),
            (Some(grown), Some((template, resource, scope))) if template.is_external(resource) => {
                let context = Context::new(&grown.parts, &Unknown);
                template.external_id_with(resource, &context.within(scope))
            }
            (Some(_), _) => Ok(None),
        }
    }

    /// The properties of a resource, as an object without those that render to null. A resource that only
    /// stands for others has none. `refs` are by place.
    ///
    /// # Errors
    /// The reason why there is no value.
    pub fn render(&self, index: usize, refs: &dyn References) -> Result<Value, RenderError> {
        match &self.grown {
            None => self.template.render(index, &self.parameters, refs),
            Some(_) if self.kind(index).is_whole() => Ok(Value::Object(Map::new())),
            Some(grown) => Context::new(&grown.parts, refs).properties(number(index)),
        }
    }

    /// A single property; `None` if it is not given. `refs` are by place.
    ///
    /// # Errors
    /// The reason why there is no value.
    pub fn render_property(
        &self,
        index: usize,
        name: &str,
        refs: &dyn References,
    ) -> Result<Option<Value>, RenderError> {
        match &self.grown {
            None => self.template.render_property(index, name, &self.parameters, refs),
            Some(grown) => Context::new(&grown.parts, refs).property(number(index), &[name]),
        }
    }

    /// The outputs of the root template, sorted by key.
    pub fn outputs(&self) -> &[Output] {
        self.template.outputs()
    }

    /// The value of an output of the root template; `refs` are by place.
    ///
    /// # Errors
    /// The reason why there is no value.
    pub fn render_output(&self, index: usize, refs: &dyn References) -> Result<Value, RenderError> {
        match &self.grown {
            None => self.template.render_output(index, &self.parameters, refs),
            Some(grown) => {
                let context = Context::new(&grown.parts, refs);
                let within = context.within(0);
                self.template.output_with(index, &within, &within).map(Rc::unwrap_or_clone)
            }
        }
    }

    /// An error of [`crate::spec`] or [`crate::node`], with its place in a text.
    pub fn property_error(&self, index: usize, error: &PropertyError) -> Error {
        let Some(grown) = &self.grown else { return self.template.property_error(index, error) };
        let (scope, resource, way) = grown.parts.written(number(index));
        let way = way.into_iter().map(|key| Step::Key(key.into()));
        let mut steps: Vec<Step> = way.chain(error.steps.iter().cloned()).collect();
        let instance = &grown.parts.instances[index];
        let is_server = matches!(steps.first(), Some(Step::Key(key)) if &**key == "server");
        if is_server && matches!(instance.body, Body::Deployed { .. }) {
            // The property is written in the group's.
            let name = Step::Key(grown.parts.own_name(number(index)).into());
            steps.splice(..1, [Step::Key("servers".into()), name]);
        }
        grown.parts.scopes[scope as usize].template.error_below(resource, &steps, &error.message)
    }

    /// The parameters of the whole, for an operator's eyes.
    pub fn masked_parameters(&self) -> BTreeMap<String, Value> {
        self.parameters.masked()
    }

    /// The values of hidden parameters, including those of nested stacks.
    pub fn secrets(&self) -> &Secrets {
        self.grown.as_ref().map_or(self.parameters.secrets(), |grown| &grown.secrets)
    }

    /// A text for operators, with the values of hidden parameters masked wherever they appear.
    pub fn without_hidden(&self, text: &str) -> String {
        self.secrets().mask(text)
    }

    /// A value for operators, with the values of hidden parameters masked in every text.
    pub fn masked(&self, value: Value) -> Value {
        self.secrets().mask_value(value)
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("bounded by Limits::RESOURCES")
}

/// The result of a `for_each`.
pub struct Set<'a> {
    parts: &'a Parts,
    set: &'a SetParts,
}

impl<'a> Set<'a> {
    /// The place of the resource that stands for the whole set.
    pub fn index(&self) -> usize {
        self.set.index as usize
    }

    pub fn name(&self) -> &'a str {
        &self.parts.instances[self.index()].name
    }

    /// The selector of the nodes.
    pub fn selector(&self) -> &'a str {
        &self.set.selector
    }

    /// The places of its members, in the order of their nodes' names.
    pub fn members(&self) -> &'a [u32] {
        &self.set.members
    }

    /// The rollout of changes through the set; `None`: all members at once.
    pub fn rollout(&self) -> Option<&'a Rollout> {
        self.set.rollout.as_ref()
    }

    /// The digest of the members' source, without their nodes.
    pub fn source(&self) -> u128 {
        self.set.source
    }

    /// An error about its `for_each` or its `rollout`.
    pub fn error(&self, message: &str) -> Error {
        let (scope, resource, _) = self.parts.written(self.set.index);
        self.parts.scopes[scope as usize].template.error(resource, None, message)
    }
}

/// Knows nothing of present resources, only parameters.
struct Unknown;

impl References for Unknown {
    fn resource_id(&self, _: u32) -> Option<String> {
        None
    }

    fn attribute(&self, _: u32, _: &str) -> Option<Value> {
        None
    }
}

/// Secrets stay out of logs.
impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("resources", &self.len()).finish_non_exhaustive()
    }
}

pub(crate) mod group_members;
#[cfg(test)]
mod tests;

/// The warning for the constraints of all templates that ask a service of OpenStack.
pub(crate) fn unchecked<'t>(templates: impl Iterator<Item = &'t Template>) -> Option<String> {
    let names: BTreeSet<&str> = templates.flat_map(|it| it.unchecked.iter().map(|name| &**name)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty())
        .then(|| format!("constraints that ask a service of OpenStack are not checked: {}", names.join(", ")))
}

/// Checks each `deletion_policy` that a function gives. Names of the stack are not known before it has one.
fn check_policies(template: &Template, parameters: &Parameters) -> Result<(), Errors> {
    let known = |_: &usize| parameters.stack().is_some() || !template.asks_for_stack();
    let all = (0..template.resources.len()).filter(known);
    let wrong = all.filter_map(|at| template.retains(at, parameters).err());
    let wrong: Vec<Error> = wrong.map(Error::from).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Errors::of(&template.file, wrong)) }
}
