//! Expands templates to a tree: opens every stack, group and chain, until no resource stands for others.
//!
//! Absent: the tree of a stack that runs (`controller/engine/src/traversal/expand_tree.rs`).

mod address;
mod group;
mod nested;
mod set;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use super::parts::{Below, Body, CurrentResources, Instance, Library, NONE, Parts, Scope};
use super::value::{Context, source};
use crate::Limits;
use crate::bind::Values;
use crate::check_properties::{self, Unwritten};
use crate::digest::{self, names_digest};
use crate::drift_policy::DriftPolicy;
use crate::error::{Error, Errors, Path, Sink};
use crate::mapping::EntryId;
use crate::render::{References, RenderError};
use crate::resolve::address::{Named, Networks};
use crate::resolve::{cycle, report_cycle};
use crate::template::{Resource, Template};
use crate::types::Kind;

/// Errors after which a tree is not opened further: those beyond the first are only counted.
const FOUND_MAX: usize = 1000;

type Step<T> = Result<T, Errors>;

/// A tree that grows.
pub(super) struct Expander<'a> {
    pub parts: Parts,
    pub library: Library<'a>,
    pub known: &'a dyn CurrentResources,
    /// The values of hidden parameters of nested stacks, by their text.
    pub secrets: BTreeMap<String, Value>,
    /// A decision depended on values that may still change.
    pub late: bool,
    errors: Vec<Error>,
    /// Digests of the values of parameters, by scope.
    digests: Vec<Box<[u128]>>,
    orders: BTreeMap<usize, Rc<[u32]>>,
    /// Definitions whose properties were checked: template, resource, depth, type.
    checked: BTreeSet<(usize, usize, usize, Kind)>,
    needs: usize,
    /// The networks by template.
    networks: BTreeMap<usize, Rc<Networks>>,
    /// The networks of all ports in a template, by its names for them; the key is the template's key and the
    /// line that mapped a type to it.
    port_networks: BTreeMap<(String, Option<EntryId>), Rc<[Named]>>,
    /// Dependencies that resources have because of their ports, by stack and index in the template.
    after_subnets: BTreeMap<(u32, u32), Vec<u32>>,
}

/// The stacks that are open, innermost first.
struct Frame<'f> {
    up: Option<&'f Frame<'f>>,
    key: &'f str,
    entry: Option<EntryId>,
    /// Groups and chains are levels too.
    depth: usize,
}

/// Properties that everything inside a resource inherits.
#[derive(Clone)]
struct Surroundings {
    requires: Rc<[u32]>,
    /// The digest of `requires`, without those that only order batches; 0 if empty.
    digest: u128,
    retain: bool,
    drift_policy: Option<DriftPolicy>,
    /// As [`super::parts::Instance::pause`].
    pause: u32,
    /// As [`super::parts::Instance::follows`].
    follows: bool,
}

/// The form of a resource, with its type as written.
struct Found {
    what: ResourceForm,
    shown: Arc<str>,
}

enum ResourceForm {
    Plain(Kind),
    Stack { key: String, entry: Option<EntryId> },
}

/// The known values while the tree grows, by the numbers of instances.
struct LiveReferences<'a> {
    parts: &'a Parts,
    known: &'a dyn CurrentResources,
    asked: Cell<bool>,
}

impl References for LiveReferences<'_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        self.asked.set(true);
        self.known.reference(&self.parts.instances[index as usize].name)
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        self.asked.set(true);
        self.known.attribute(&self.parts.instances[index as usize].name, name)
    }
}

impl<'a> Expander<'a> {
    pub fn new(parts: Parts, library: Library<'a>, known: &'a dyn CurrentResources) -> Self {
        Self {
            parts,
            library,
            known,
            secrets: BTreeMap::new(),
            late: false,
            errors: Vec::new(),
            digests: Vec::new(),
            orders: BTreeMap::new(),
            checked: BTreeSet::new(),
            needs: 0,
            networks: BTreeMap::new(),
            port_networks: BTreeMap::new(),
            after_subnets: BTreeMap::new(),
        }
    }

    /// Opens the root, and everything below it.
    pub fn expand(&mut self, root: Arc<Template>) -> Step<()> {
        let frame = Frame { up: None, key: "", entry: None, depth: 0 };
        let around = Surroundings {
            requires: Rc::default(),
            digest: 0,
            retain: false,
            drift_policy: None,
            pause: NONE,
            follows: false,
        };
        let file = root.file.to_string();
        self.stack(root, NONE, "", &around, &frame)?;
        self.check_maps()?;
        if self.errors.is_empty() {
            return Ok(());
        }
        Err(Errors::of(&file, std::mem::take(&mut self.errors)))
    }

    fn with_context<T>(&self, find: impl FnOnce(&Context<'_>) -> T) -> (T, bool) {
        let refs = LiveReferences { parts: &self.parts, known: self.known, asked: Cell::new(false) };
        let found = find(&Context::new(&self.parts, &refs));
        (found, refs.asked.get())
    }

    fn wrong<T>(&self, index: u32, property: Option<&str>, message: &str) -> Step<T> {
        let (error, _) = self.with_context(|context| context.said_of(index, property, message));
        Err(Errors(vec![error.into()]))
    }

    /// Opens one stack, and returns its own resources.
    fn stack(
        &mut self,
        template: Arc<Template>,
        stands: u32,
        prefix: &str,
        around: &Surroundings,
        frame: &Frame<'_>,
    ) -> Step<Vec<u32>> {
        let scope = number(self.parts.scopes.len());
        let map = vec![NONE; template.resources.len()].into();
        self.parts.scopes.push(Scope { template: Arc::clone(&template), stands, map, late: false });
        let found = self.parameters(scope);
        // Each scope has one, even if the values are wrong.
        self.digests.push(found.clone().unwrap_or_default());
        found?;
        let mut children = Vec::with_capacity(template.resources.len());
        let there = self.existence(scope)?;
        for (at, resource) in template.resources.iter().enumerate().filter(|(at, _)| there[*at]) {
            let name = joined(prefix, &resource.name);
            let body = Body::Own { scope, resource: number(at) };
            let child = self.instance(name, resource.kind, body)?;
            self.parts.scopes[scope as usize].map[at] = child;
            children.push(child);
        }
        let order = self.order(&template);
        for at in order.iter().filter(|at| there[**at as usize]) {
            if let Err(found) = self.resource(scope, *at, around, frame) {
                self.errors.extend(found.0);
                if self.errors.len() >= FOUND_MAX {
                    break;
                }
            }
        }
        Ok(children)
    }

    /// Decides by conditions which resources of a stack exist. A resource whose condition is not known yet
    /// does not exist.
    fn existence(&mut self, scope: u32) -> Step<Vec<bool>> {
        let template = Arc::clone(&self.parts.scopes[scope as usize].template);
        let count = template.resources.len();
        if !template.conditional {
            return Ok(vec![true; count]);
        }
        let ((there, required), late) = self.with_context(|context| {
            let within = context.within(scope);
            let there: Vec<Result<bool, RenderError>> =
                (0..count).map(|at| template.is_there(at, &within)).collect();
            let required = |at: usize| match there[at] {
                Ok(true) => template.requirements(at, &within).unwrap_or_default(),
                _ => Vec::new(),
            };
            let required: Vec<Vec<u32>> = (0..count).map(required).collect();
            (there, required)
        });
        self.parts.scopes[scope as usize].late = late;
        self.late |= late;
        if let Some(cycle) = cycle::find(count, |at| &required[at]) {
            let mut errors = Sink::new(&template.file);
            let resources = &template.resources;
            report_cycle(&mut errors, &cycle, |at| (&resources[at].name, resources[at].at));
            return Err(errors.into_errors());
        }
        let one = |there: Result<bool, RenderError>| match there {
            Ok(there) => Ok(there),
            Err(RenderError::NotYet { .. } | RenderError::UnknownNode { .. }) => Ok(false),
            Err(_) if late => Ok(false),
            Err(error) => Err(Errors(vec![error.into()])),
        };
        there.into_iter().map(one).collect()
    }

    fn instance(&mut self, name: Arc<str>, kind: Kind, body: Body) -> Step<u32> {
        let index = number(self.parts.instances.len());
        if self.parts.instances.len() >= Limits::RESOURCES {
            let message = format!("a stack has at most {} resources with all in it", Limits::RESOURCES);
            return Err(Errors(vec![self.parts.scopes[0].template.error_of_all(&message)]));
        }
        self.parts.instances.push(Instance {
            name,
            kind,
            type_name: None,
            body,
            requires: Box::default(),
            definition: 0,
            retain: false,
            drift_policy: None,
            follows: false,
            below: Below::Nothing,
            pause: NONE,
        });
        Ok(index)
    }

    /// Evaluates the parameters as far as possible, which also checks them. Returns digests of the values.
    /// A parameter whose value is not known yet has the digest of its source.
    fn parameters(&mut self, scope: u32) -> Step<Box<[u128]>> {
        let Scope { template, stands, .. } = &self.parts.scopes[scope as usize];
        if *stands == NONE {
            let parameters = &self.parts.parameters;
            return Ok((0..template.parameters.len()).map(|at| parameters.digest(number(at))).collect());
        }
        let unknown = digest::of_all([1, self.parts.instances[*stands as usize].definition]);
        let mut wrong = Vec::new();
        let mut secrets = Vec::new();
        let (digests, _) = self.with_context(|context| {
            let within = context.within(scope);
            let each = |(at, definition): (usize, &crate::ParameterDef)| match within.value(number(at)) {
                Some(Ok(value)) => {
                    if definition.hidden {
                        secrets.push((crate::text::text_of(&value).into_owned(), Value::clone(&value)));
                    }
                    digest::of_value(&value)
                }
                Some(Err(RenderError::NotYet { .. } | RenderError::UnknownNode { .. })) | None => unknown,
                Some(Err(error)) => {
                    wrong.push((number(at), error));
                    unknown
                }
            };
            template.parameters.iter().enumerate().map(each).collect()
        });
        self.secrets.extend(secrets);
        // A wrong value of a present resource may become right when that resource changes.
        wrong.retain(|(at, _)| !self.with_context(|context| context.within(scope).value(*at).is_some()).1);
        let errors: Vec<Error> = wrong.into_iter().map(|(_, error)| error.into()).collect();
        if errors.is_empty() { Ok(digests) } else { Err(Errors(errors)) }
    }

    /// An order in which each resource comes after its dependencies, which may decide on its form.
    fn order(&mut self, template: &Arc<Template>) -> Rc<[u32]> {
        let key = Arc::as_ptr(template) as usize;
        if let Some(known) = self.orders.get(&key) {
            return Rc::clone(known);
        }
        let resources = &template.resources;
        let mut order = Vec::with_capacity(resources.len());
        let mut open = vec![0usize; resources.len()];
        let mut done = vec![false; resources.len()];
        for start in 0..resources.len() {
            let mut stack = vec![start];
            while let Some(at) = stack.last().copied() {
                match resources[at].requires.get(open[at]) {
                    _ if done[at] => drop(stack.pop()),
                    Some(next) => {
                        open[at] += 1;
                        if !done[*next as usize] {
                            stack.push(*next as usize);
                        }
                    }
                    None => {
                        done[at] = true;
                        order.push(number(at));
                        stack.pop();
                    }
                }
            }
        }
        let order: Rc<[u32]> = order.into();
        self.orders.insert(key, Rc::clone(&order));
        order
    }

    fn resource(&mut self, scope: u32, at: u32, around: &Surroundings, frame: &Frame<'_>) -> Step<()> {
        let Scope { template, map, .. } = &self.parts.scopes[scope as usize];
        let template = Arc::clone(template);
        let resource = &template.resources[at as usize];
        let index = map[at as usize];
        let chosen = match resource.branches {
            true => self.with_context(|it| template.requirements(at as usize, &it.within(scope))).0.ok(),
            false => None,
        };
        let own = chosen.as_deref().unwrap_or(&resource.requires);
        let own = own.iter().map(|required| map[*required as usize]);
        let mut requires: Vec<u32> = own.filter(|required| *required != NONE).collect();
        let absent = resource.requires.iter().filter(|required| map[**required as usize] == NONE);
        let absent: Vec<&str> =
            absent.map(|required| &*template.resources[*required as usize].name).collect();
        let mut definition = match scope {
            0 => resource.definition_digest(&self.parts.parameters),
            _ => self.nested_definition(scope, resource, &absent),
        };
        let name = Arc::clone(&self.parts.instances[index as usize].name);
        let found = match (resource.type_name(), resource.kind) {
            (Some(kind), Kind::Nested) => self.find_type(index, kind, &name, frame)?,
            (_, kind) => Found { what: ResourceForm::Plain(kind), shown: kind.name().into() },
        };
        let subnets = self.before_its_ports(scope, at, &found, frame);
        if !subnets.is_empty() {
            definition = digest::of_all([definition, self.digest_of_names(&subnets)]);
            requires.extend(subnets);
        }
        // A dependency by node belongs to each member separately.
        let mut pairs = Vec::new();
        if let Some(for_each) = resource.for_each() {
            let map = &self.parts.scopes[scope as usize].map;
            pairs.extend(for_each.pairs.iter().map(|pair| map[*pair as usize]));
            requires.retain(|required| !pairs.contains(required));
            pairs.retain(|pair| *pair != NONE);
        }
        let digest = self.around_digest(around.digest, &requires);
        requires.extend_from_slice(&around.requires);
        let (retains, _) = self.with_context(|it| template.retains_with(at as usize, &it.within(scope)));
        let retain = around.retain || retains.map_err(|error| Errors(vec![error.into()]))?;
        if retain {
            self.parts.instances[index as usize].retain = true;
        }
        let Surroundings { pause, follows, .. } = *around;
        let drift_policy = resource.drift_policy().or(around.drift_policy);
        self.parts.instances[index as usize].drift_policy = drift_policy;
        let inside = Surroundings { requires: requires.into(), digest, retain, drift_policy, pause, follows };
        if resource.for_each().is_some() {
            return self.set(index, found, definition, &pairs, &inside, frame);
        }
        self.fill(index, found, definition, around.digest, &inside, frame)
    }

    /// As [`Resource::definition_digest`], in a nested stack.
    fn nested_definition(&self, scope: u32, resource: &Resource, absent: &[&str]) -> u128 {
        let digests = &self.digests[scope as usize];
        let mut parts = vec![resource.digest];
        parts.extend(resource.parameters.iter().map(|parameter| digests[*parameter as usize]));
        parts.extend(self.truth(scope, &resource.conditions));
        if resource.facade {
            let facade =
                self.with_context(|it| it.within(scope).facade().map(|it| it.map(Cow::into_owned))).0;
            // Unknown values are represented by the definition they come from.
            let unknown = || {
                let stands = self.parts.scopes[scope as usize].stands;
                self.parts.instances.get(stands as usize).map_or(0, |stands| stands.definition)
            };
            parts.push(facade.and_then(Result::ok).map_or_else(unknown, |facade| facade.digest()));
        }
        if !absent.is_empty() {
            parts.push(names_digest(absent.iter().copied()));
        }
        digest::of_all(parts)
    }

    /// The truth of conditions, as a digest of each.
    fn truth(&self, scope: u32, conditions: &[u32]) -> Vec<u128> {
        let holds = |context: &Context<'_>| {
            let within = context.within(scope);
            let each = |index: &u32| match within.condition(*index) {
                Some(Ok(holds)) => u128::from(holds),
                Some(Err(_)) | None => 2,
            };
            conditions.iter().map(each).collect()
        };
        self.with_context(holds).0
    }

    /// The digest of names that something inside needs through its enclosing resources.
    fn around_digest(&self, outer: u128, requires: &[u32]) -> u128 {
        if requires.is_empty() {
            return outer;
        }
        digest::of_all([outer, self.digest_of_names(requires)])
    }

    fn digest_of_names(&self, indexes: &[u32]) -> u128 {
        names_digest(indexes.iter().map(|index| &*self.parts.instances[*index as usize].name))
    }

    /// Fills in an instance. `inside` is for the resources below it, which share its dependencies.
    fn fill(
        &mut self,
        index: u32,
        found: Found,
        definition: u128,
        outer: u128,
        inside: &Surroundings,
        frame: &Frame<'_>,
    ) -> Step<()> {
        let Found { what, shown } = found;
        // An enclosing resource may set the policy, and is not compared along with this one.
        let definition = match inside.drift_policy {
            Some(policy) => digest::of_all([definition, digest::of_bytes(policy.as_str().as_bytes())]),
            None => definition,
        };
        let instance = &mut self.parts.instances[index as usize];
        instance.kind = match &what {
            ResourceForm::Plain(kind) => *kind,
            ResourceForm::Stack { .. } => Kind::Nested,
        };
        let kind = instance.kind;
        (instance.pause, instance.follows) = (inside.pause, inside.follows);
        // A preliminary definition, for expressions that are evaluated meanwhile.
        instance.definition = digest::of_all([definition, inside.digest]);
        if *shown != *kind.name() {
            instance.type_name = Some(Arc::clone(&shown));
        }
        if kind.is_whole() && frame.depth >= Limits::NESTED {
            let message = format!("stacks, groups and chains are nested at most {} deep", Limits::NESTED);
            return self.wrong(index, None, &message);
        }
        if let Body::Own { scope, resource } = self.parts.instances[index as usize].body
            && kind.is_whole()
            && self.parts.scopes[scope as usize].template.resources[resource as usize].nodes
        {
            let message =
                "a group or a nested stack is not made by what 'get_node' gives: write it where it is used";
            return self.wrong(index, None, message);
        }
        let frame = Frame { depth: frame.depth + 1, up: Some(frame), key: frame.key, entry: None };
        match what {
            ResourceForm::Stack { key, entry } => self.nested(index, &key, entry, inside, &frame),
            ResourceForm::Plain(kind) if kind.is_whole() => {
                self.check_properties(index, kind)?;
                self.group(index, definition, inside, &frame)
            }
            ResourceForm::Plain(kind) => {
                let is_plain = outer == 0 && *shown == *kind.name();
                if !is_plain {
                    let kind = digest::of_bytes(kind.name().as_bytes());
                    self.parts.instances[index as usize].definition =
                        digest::of_all([definition, outer, kind]);
                } else {
                    self.parts.instances[index as usize].definition = definition;
                }
                self.set_requires(index, inside.requires.to_vec())?;
                self.check_properties(index, kind)
            }
        }
    }

    fn set_requires(&mut self, index: u32, mut requires: Vec<u32>) -> Step<()> {
        requires.sort_unstable();
        requires.dedup();
        self.needs += requires.len();
        if self.needs > Limits::NEEDS {
            let message = format!(
                "the resources of a stack need each other at most {} times in all: take something out of what large \
                 groups depend on, or make their batches smaller",
                Limits::NEEDS
            );
            return self.wrong(index, None, &message);
        }
        self.parts.instances[index as usize].requires = requires.into();
        Ok(())
    }

    /// Checks properties that the parser could not, because the type or the existence of the resource
    /// was unknown.
    fn check_properties(&mut self, index: u32, kind: Kind) -> Step<()> {
        if matches!(self.parts.instances[index as usize].body, Body::Deployed { .. }) {
            return Ok(()); // its group's have been
        }
        let (scope, at, way) = self.parts.written(index);
        let template = Arc::clone(&self.parts.scopes[scope as usize].template);
        let resource = &template.resources[at];
        let is_checked = resource.condition().is_none();
        if is_checked && resource.kind == kind && way.is_empty() {
            return Ok(());
        }
        let is_set = resource.for_each().is_some();
        if !self.checked.insert((Arc::as_ptr(&template) as usize, at, way.len(), kind)) {
            return Ok(());
        }
        let Some(expr) = source(&template, at, &way) else { return Ok(()) };
        let mut errors = Sink::new(&template.file);
        let mut path = Path::default();
        for key in ["resources", &*resource.name, "properties"].iter().chain(&way) {
            path.key(key);
        }
        let variable = match self.parts.instances[index as usize].body {
            Body::Member { of } => match self.parts.instances[of as usize].below {
                Below::Group(group) => Some(&*self.parts.groups[group as usize].index_var),
                Below::Nothing | Below::Scope(_) | Below::Set(_) => None,
            },
            Body::Own { .. } | Body::Link { .. } | Body::Deployed { .. } | Body::Each { .. } => None,
        };
        if !is_checked {
            check_properties::names(expr, &mut errors, &mut path);
        }
        match is_set {
            true => check_properties::all(kind, expr, resource.at, true, &mut errors, &mut path),
            false => {
                let unwritten = Unwritten { variable, implied: None };
                check_properties::of_members(kind, expr, resource.at, unwritten, &mut errors, &mut path);
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.into_errors()) }
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("bounded by Limits::RESOURCES")
}

fn joined(prefix: &str, name: &str) -> Arc<str> {
    if prefix.is_empty() { name.into() } else { [prefix, "/", name].concat().into() }
}
