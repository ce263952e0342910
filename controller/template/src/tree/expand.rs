//! Templates → a tree: every stack, group and chain opened, until nothing is left that stands for more.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use super::decide::{Decided, batch_size, decide, decide_all_but_count};
use super::parts::{Below, Body, Group, Instance, Known, Library, NONE, Parts, Scope};
use super::value::{Context, source};
use crate::Limits;
use crate::bind::Values;
use crate::check;
use crate::digest::{self, NamesOf, names_digest};
use crate::error::{Error, Errors, Path, Sink, cut, suggestion};
use crate::expression::{Call, Expr, ExprKind};
use crate::library::{is_template, resolve};
use crate::parse::parse_file;
use crate::registry::{EntryId, Mapping};
use crate::render::{References, RenderError};
use crate::resolve::{cycle, report_cycle, unknown_type};
use crate::template::{Resource, Template};
use crate::types::Kind;

type Step<T> = Result<T, Errors>;

/// A tree that grows.
pub(super) struct Expander<'a> {
    pub parts: Parts,
    pub library: Library<'a>,
    pub known: &'a dyn Known,
    /// What hidden parameters of nested stacks hold, by their text.
    pub secrets: BTreeMap<String, Value>,
    /// Something was decided on by what may yet change.
    pub late: bool,
    errors: Vec<Error>,
    /// Digests of the values of parameters, by scope.
    digests: Vec<Box<[u128]>>,
    orders: BTreeMap<usize, Rc<[u32]>>,
    /// Definitions whose properties were looked at: template, resource, how deep, type.
    checked: BTreeSet<(usize, usize, usize, Kind)>,
    needs: usize,
}

/// The stacks that are open, innermost first.
struct Frame<'f> {
    up: Option<&'f Frame<'f>>,
    key: &'f str,
    entry: Option<EntryId>,
    /// Groups and chains are levels too.
    depth: usize,
}

/// What all that is inside something has from it.
#[derive(Clone)]
struct Around {
    requires: Rc<[u32]>,
    /// Of `requires`, but for those that only order batches; 0: of nothing.
    digest: u128,
    retain: bool,
}

/// What a resource is, with its type as it is written.
struct Found {
    what: What,
    shown: Arc<str>,
}

enum What {
    Plain(Kind),
    Stack { key: String, entry: Option<EntryId> },
}

/// What is known while the tree grows, by the numbers of instances.
struct AsKnown<'a> {
    parts: &'a Parts,
    known: &'a dyn Known,
    asked: Cell<bool>,
}

impl References for AsKnown<'_> {
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
    pub fn new(parts: Parts, library: Library<'a>, known: &'a dyn Known) -> Self {
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
        }
    }

    /// Opens the root, and everything below it.
    pub fn expand(&mut self, root: Arc<Template>) -> Step<()> {
        let frame = Frame { up: None, key: "", entry: None, depth: 0 };
        let around = Around { requires: Rc::default(), digest: 0, retain: false };
        let file = root.file.to_string();
        self.stack(root, NONE, "", &around, &frame)?;
        if self.errors.is_empty() {
            return Ok(());
        }
        let mut errors = Sink::new(&file);
        std::mem::take(&mut self.errors).into_iter().for_each(|error| errors.take(error));
        Err(errors.into_errors())
    }

    fn with_context<T>(&self, find: impl FnOnce(&Context<'_>) -> T) -> (T, bool) {
        let refs = AsKnown { parts: &self.parts, known: self.known, asked: Cell::new(false) };
        let found = find(&Context::new(&self.parts, &refs));
        (found, refs.asked.get())
    }

    fn wrong<T>(&self, index: u32, property: Option<&str>, message: &str) -> Step<T> {
        let (error, _) = self.with_context(|context| context.said_of(index, property, message));
        Err(Errors(vec![error.into()]))
    }

    /// Opens one stack; its own resources come back.
    fn stack(
        &mut self,
        template: Arc<Template>,
        stands: u32,
        prefix: &str,
        around: &Around,
        frame: &Frame<'_>,
    ) -> Step<Vec<u32>> {
        let scope = number(self.parts.scopes.len());
        let map = vec![NONE; template.resources.len()].into();
        self.parts.scopes.push(Scope { template: Arc::clone(&template), stands, map, late: false });
        let found = self.parameters(scope);
        // One for each scope, also where the values are wrong.
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
                let room = Limits::ERRORS.saturating_sub(self.errors.len());
                self.errors.extend(found.0.into_iter().take(room));
                if self.errors.len() >= Limits::ERRORS {
                    break;
                }
            }
        }
        Ok(children)
    }

    /// Which resources of a stack there are, by their conditions; what cannot be told yet is not there.
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
            Err(RenderError::NotYet { .. }) => Ok(false),
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
            below: Below::Nothing,
        });
        Ok(index)
    }

    /// Evaluates what can be, and so checks it: digests of the values.
    fn parameters(&mut self, scope: u32) -> Step<Box<[u128]>> {
        let Scope { template, stands, .. } = &self.parts.scopes[scope as usize];
        if *stands == NONE {
            let parameters = &self.parts.parameters;
            return Ok((0..template.parameters.len()).map(|at| parameters.digest(number(at))).collect());
        }
        let unknown = digest::of_all([1, self.parts.instances[*stands as usize].definition]);
        let mut errors = Vec::new();
        let mut secrets = Vec::new();
        let (digests, _) = self.with_context(|context| {
            let within = context.within(scope);
            let each = |(at, definition): (usize, &crate::ParameterDef)| match within.value(number(at)) {
                Some(Ok(value)) => {
                    if definition.hidden {
                        secrets.push((crate::text::text_of(&value).into_owned(), value.clone().into_owned()));
                    }
                    digest::of_value(&value)
                }
                Some(Err(RenderError::NotYet { .. })) | None => unknown,
                Some(Err(error)) => {
                    errors.push(error.into());
                    unknown
                }
            };
            template.parameters.iter().enumerate().map(each).collect()
        });
        self.secrets.extend(secrets);
        if errors.is_empty() { Ok(digests) } else { Err(Errors(errors)) }
    }

    /// Each resource after those it needs: what it needs may decide on what it is.
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

    fn resource(&mut self, scope: u32, at: u32, around: &Around, frame: &Frame<'_>) -> Step<()> {
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
        let digest = self.around_digest(around.digest, &requires);
        requires.extend_from_slice(&around.requires);
        let definition = match scope {
            0 => resource.definition_digest(&self.parts.parameters),
            _ => self.nested_definition(scope, resource, &absent),
        };
        let name = Arc::clone(&self.parts.instances[index as usize].name);
        let found = match (&resource.type_name, resource.kind) {
            (Some(kind), Kind::Nested) => self.find_type(index, kind, &name, frame)?,
            (_, kind) => Found { what: What::Plain(kind), shown: kind.name().into() },
        };
        if self.parts.instances[index as usize].retain || resource.retain || around.retain {
            self.parts.instances[index as usize].retain = true;
        }
        let inside = Around { requires: requires.into(), digest, retain: around.retain || resource.retain };
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
            parts.extend(facade.and_then(Result::ok).map(|facade| facade.digest()));
        }
        if !absent.is_empty() {
            parts.push(names_digest(absent.iter().copied()));
        }
        digest::of_all(parts)
    }

    /// What is true of conditions, as a digest of each.
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

    /// Of names that something inside needs by way of what encloses it.
    fn around_digest(&self, outer: u128, requires: &[u32]) -> u128 {
        if requires.is_empty() {
            return outer;
        }
        digest::of_all([outer, self.digest_of_names(requires)])
    }

    fn digest_of_names(&self, indexes: &[u32]) -> u128 {
        names_digest(indexes.iter().map(|index| &*self.parts.instances[*index as usize].name))
    }

    fn find_type(&self, index: u32, kind: &str, path: &str, frame: &Frame<'_>) -> Step<Found> {
        let shown: Arc<str> = kind.into();
        let mapped = self.library.environment.mapping(kind, path, &frame.entries());
        let name = match mapped.map_err(|error| Errors(vec![error]))? {
            Some(Mapping::File { key, entry }) => {
                return Ok(Found { what: What::Stack { key, entry: Some(entry) }, shown });
            }
            Some(Mapping::Type(name)) => name,
            None => kind.to_owned(),
        };
        if is_template(&name) {
            return Ok(Found { what: What::Stack { key: resolve(frame.key, &name), entry: None }, shown });
        }
        match Kind::from_name(&name) {
            Some(kind) => Ok(Found { what: What::Plain(kind), shown }),
            None => self.wrong(index, None, &unknown_type(&name)),
        }
    }

    /// Says what an instance is. `inside` is for what is below it; it needs the same itself.
    fn fill(
        &mut self,
        index: u32,
        found: Found,
        definition: u128,
        outer: u128,
        inside: &Around,
        frame: &Frame<'_>,
    ) -> Step<()> {
        let Found { what, shown } = found;
        let instance = &mut self.parts.instances[index as usize];
        instance.kind = match &what {
            What::Plain(kind) => *kind,
            What::Stack { .. } => Kind::Nested,
        };
        let kind = instance.kind;
        // Until it is known better, for what is found on the way.
        instance.definition = digest::of_all([definition, inside.digest]);
        if *shown != *kind.name() {
            instance.type_name = Some(Arc::clone(&shown));
        }
        if kind.is_whole() && frame.depth >= Limits::NESTED {
            let message = format!("stacks, groups and chains are nested at most {} deep", Limits::NESTED);
            return self.wrong(index, None, &message);
        }
        let frame = Frame { depth: frame.depth + 1, up: Some(frame), key: frame.key, entry: None };
        match what {
            What::Stack { key, entry } => self.nested(index, &key, entry, inside, &frame),
            What::Plain(Kind::Group | Kind::Chain) => self.group(index, definition, inside, &frame),
            What::Plain(kind) => {
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

    /// What the parser could not look at, for it did not know the type.
    fn check_properties(&mut self, index: u32, kind: Kind) -> Step<()> {
        let (scope, at, way) = self.parts.written(index);
        let template = Arc::clone(&self.parts.scopes[scope as usize].template);
        let resource = &template.resources[at];
        if resource.kind == kind && way.is_empty() {
            return Ok(());
        }
        if !self.checked.insert((Arc::as_ptr(&template) as usize, at, way.len(), kind)) {
            return Ok(());
        }
        let Some(expr) = source(&template, at, &way) else { return Ok(()) };
        let mut errors = Sink::new(&template.file);
        let mut path = Path::default();
        for key in ["resources", &*resource.name, "properties"].iter().chain(&way) {
            path.key(key);
        }
        check::properties(kind, expr, resource.at, &mut errors, &mut path);
        if errors.is_empty() { Ok(()) } else { Err(errors.into_errors()) }
    }

    fn nested(
        &mut self,
        index: u32,
        key: &str,
        entry: Option<EntryId>,
        inside: &Around,
        frame: &Frame<'_>,
    ) -> Step<()> {
        if let Some(cycle) = frame.cycle(key) {
            return self.wrong(index, None, &format!("templates are nested in a cycle: {cycle}"));
        }
        let template = self.template(index, key)?;
        self.check_names(index, &template)?;
        let frame = Frame { up: frame.up, key, entry, depth: frame.depth };
        let scope = number(self.parts.scopes.len());
        self.parts.instances[index as usize].below = Below::Scope(scope);
        let name = Arc::clone(&self.parts.instances[index as usize].name);
        let mut requires = self.stack(Arc::clone(&template), index, &name, inside, &frame)?;
        requires.extend_from_slice(&inside.requires);
        let names = self.digest_of_names(&requires);
        let file = digest::of_bytes(key.as_bytes());
        let values = self.digests[scope as usize].iter().copied();
        let own = [file, names, template.outputs_digest];
        self.parts.instances[index as usize].definition = digest::of_all(own.into_iter().chain(values));
        self.set_requires(index, requires)
    }

    fn template(&mut self, index: u32, key: &str) -> Step<Arc<Template>> {
        if let Some(known) = self.library.templates.get(key) {
            return Ok(Arc::clone(known));
        }
        let Some(text) = self.library.files.get(key) else {
            let near = suggestion(key, self.library.files.keys().map(String::as_str));
            let message = format!("the template '{}' was not given with this one{near}", cut(key));
            return self.wrong(index, None, &message);
        };
        if self.library.templates.len() >= Limits::FILES {
            let message = format!("a stack is made of at most {} templates", Limits::FILES);
            return self.wrong(index, None, &message);
        }
        let environment = self.library.environment;
        let maps = |kind: &str| environment.maps(kind);
        let template = Arc::new(parse_file(key, text, self.library.files, Limits::TEXT, &maps)?);
        self.library.templates.insert(key.to_owned(), Arc::clone(&template));
        Ok(template)
    }

    /// What is given to a stack that has no such parameter.
    fn check_names(&self, index: u32, template: &Template) -> Step<()> {
        let (scope, at, way) = self.parts.written(index);
        let given = source(&self.parts.scopes[scope as usize].template, at, &way)
            .and_then(Expr::keys)
            .unwrap_or_default();
        let unknown = given.into_iter().find(|name| template.parameter(name).is_none());
        if let Some(name) = unknown {
            let near = suggestion(name, template.parameters.iter().map(|known| &*known.name));
            let message = format!("'{}' has no parameter '{}'{near}", template.file, cut(name));
            let name = name.to_owned();
            return self.wrong(index, Some(&name), &message);
        }
        Ok(())
    }

    fn group(&mut self, index: u32, definition: u128, inside: &Around, frame: &Frame<'_>) -> Step<()> {
        let (first, late) = self.with_context(|context| decide(context, index));
        self.late |= late;
        let name = Arc::clone(&self.parts.instances[index as usize].name);
        let (decided, is_known) = match first {
            Ok(decided) => (Some(decided), true),
            // What is wrong now may be right when it is asked for again.
            Err(RenderError::NotYet { .. }) => (self.decide_but_count(index, &name), false),
            Err(_) if late => (self.decide_but_count(index, &name), false),
            Err(error) => return Err(Errors(vec![error.into()])),
        };
        let policy = if self.known.is_there(&name) { "rolling_update" } else { "batch_create" };
        let count = decided.as_ref().map_or(0, |decided| decided.count);
        let (batch, _) = self.with_context(|context| batch_size(context, index, count, policy));
        let batch = batch.map_err(|error| Errors(vec![error.into()]))?;
        let (names, removed) = match &decided {
            Some(decided) if is_known => decided.names(&name, self.known),
            Some(_) => (self.known.members(&name), self.known.removed(&name)),
            None => (Vec::new(), self.known.removed(&name)),
        };
        let is_chain = self.parts.instances[index as usize].kind == Kind::Chain;
        let body = if is_chain { Body::Link { of: index } } else { Body::Member { of: index } };
        let mut members = Vec::with_capacity(names.len());
        for own in &names {
            members.push(self.instance(joined(&name, own), Kind::None, body)?);
        }
        let index_var = decided.as_ref().map(|decided| decided.index_var.clone()).unwrap_or_default();
        let seen = decided.as_ref().filter(|_| is_known).map(Decided::digest);
        let removed_digest = names_digest(removed.iter().map(String::as_str));
        let group = Group { index_var, members: members.clone().into(), removed, seen, late };
        self.parts.instances[index as usize].below = Below::Group(number(self.parts.groups.len()));
        self.parts.groups.push(group);
        if let Some(decided) = decided {
            let source = self.source_digest(index, definition, is_chain);
            self.members(&members, &decided, source, batch, inside, frame)?;
        }
        let names = self.digest_of_names(&members);
        let needs = inside.digest;
        self.parts.instances[index as usize].definition = digest::of_all([2, names, needs, removed_digest]);
        members.extend_from_slice(&inside.requires);
        self.set_requires(index, members)
    }

    /// Where nobody can tell how many there are to be, those that are there stay.
    fn decide_but_count(&self, index: u32, name: &str) -> Option<Decided> {
        let count = self.known.members(name).len();
        self.with_context(|context| decide_all_but_count(context, index, count)).0.ok()
    }

    fn members(
        &mut self,
        members: &[u32],
        decided: &Decided,
        source: u128,
        batch: Option<usize>,
        inside: &Around,
        frame: &Frame<'_>,
    ) -> Step<()> {
        // The type of a group without members is looked at all the same.
        let batch = if decided.in_turn { Some(1) } else { batch };
        for (at, member) in members.iter().enumerate() {
            let kind = decided.types.get(at).or(decided.types.first()).map_or("", String::as_str);
            let path = Arc::clone(&self.parts.instances[*member as usize].name);
            let found = self.find_type(*member, kind, &path, frame)?;
            let definition = digest::of_all([
                source,
                digest::of_bytes(path.as_bytes()),
                digest::of_bytes(kind.as_bytes()),
            ]);
            let own;
            let inside = match batch {
                Some(size) if at >= size => {
                    let first = (at / size - 1) * size;
                    let before = &members[first..first + size];
                    let requires = inside.requires.iter().chain(before).copied().collect();
                    own = Around { requires, ..inside.clone() };
                    &own
                }
                _ => inside,
            };
            self.parts.instances[*member as usize].retain = inside.retain;
            let before = self.errors.len();
            self.fill(*member, found, definition, inside.digest, inside, frame)?;
            if self.errors.len() > before {
                return Ok(()); // the others would say the same
            }
        }
        Ok(())
    }

    /// Of what all members of a group are made of: its definition, and the values that are in it.
    fn source_digest(&self, index: u32, definition: u128, is_chain: bool) -> u128 {
        let (scope, at, mut way) = self.parts.written(index);
        way.push(if is_chain { "resource_properties" } else { "resource_def" });
        let template = &self.parts.scopes[scope as usize].template;
        let Some(expr) = source(template, at, &way) else { return definition };
        let digests = &self.digests[scope as usize];
        let parameters: Vec<&str> = template.parameters.iter().map(|known| &*known.name).collect();
        let resources: Vec<&str> = template.resources.iter().map(|resource| &*resource.name).collect();
        let names = NamesOf {
            parameters: &parameters,
            conditions: &template.conditions,
            resources: &resources,
            files: &template.files,
        };
        let (mut used, mut conditions) = (BTreeSet::new(), BTreeSet::new());
        used_in(expr, &mut used, &mut conditions);
        let values = used.into_iter().map(|parameter| digests[parameter as usize]);
        let conditions: Vec<u32> = conditions.into_iter().collect();
        let truth = self.truth(scope, &conditions);
        digest::of_all(std::iter::once(digest::of_expr(expr, &names)).chain(values).chain(truth))
    }
}

impl Frame<'_> {
    /// The lines of environments by which the open stacks came about.
    fn entries(&self) -> Vec<EntryId> {
        let frames = std::iter::successors(Some(self), |frame| frame.up);
        frames.filter_map(|frame| frame.entry).collect()
    }

    /// `a -> b -> a`, if that template is open.
    fn cycle(&self, key: &str) -> Option<String> {
        let frames = std::iter::successors(Some(self), |frame| frame.up);
        let mut names: Vec<&str> = vec![key];
        for frame in frames {
            if names.last() != Some(&frame.key) && !frame.key.is_empty() {
                names.push(frame.key);
            }
            if frame.key == key {
                names.reverse();
                if names.len() == 1 {
                    names.push(key);
                }
                return Some(names.iter().map(|name| cut(name)).collect::<Vec<_>>().join(" -> "));
            }
        }
        None
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("bounded by Limits::RESOURCES")
}

fn joined(prefix: &str, name: &str) -> Arc<str> {
    if prefix.is_empty() { name.into() } else { [prefix, "/", name].concat().into() }
}

/// The parameters and conditions that an expression asks for.
fn used_in(expr: &Expr, parameters: &mut BTreeSet<u32>, conditions: &mut BTreeSet<u32>) {
    match &expr.kind {
        ExprKind::List(items) => items.iter().for_each(|item| used_in(item, parameters, conditions)),
        ExprKind::Map(entries) => {
            entries.iter().for_each(|entry| used_in(&entry.value, parameters, conditions));
        }
        ExprKind::Call(call) => {
            match &**call {
                Call::GetParam { parameter, .. } => drop(parameters.insert(*parameter)),
                Call::Condition { condition } => drop(conditions.insert(*condition)),
                _ => {}
            }
            for (_, operand) in call.operands() {
                used_in(operand, parameters, conditions);
            }
        }
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Invalid => {}
    }
}
