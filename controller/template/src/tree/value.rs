//! Values in a tree: parameters from another stack, outputs that stand for resources, members of groups.
//!
//! Absent: the value of an expression within one template (`render.rs`).

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use muster_shared::model::{DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT, Spec};
use serde_json::{Map, Value};

use super::parts::{Below, Body, Instance, NONE, Parts, Scope};
use crate::Limits;
use crate::bind::{Facade, ParameterValue, StackNames, Values};
use crate::digest;
use crate::error::{cut, suggestion};
use crate::expression::{Expr, ExprKind, describe};
use crate::parameter::{ParameterDef, ParameterType};
use crate::render::{References, RenderError, Unresolved};
use crate::template::{Resource, Template};
use crate::text::{python_text, weight};
use crate::types::Kind;

/// The output that stands for a nested stack.
const STACK_ID: &str = "OS::stack_id";
const INDEX_VAR: &str = "%index%";

type Found<T> = Result<T, Unresolved>;

/// A rendering: values found on the way are kept to its end.
pub(super) struct Context<'a> {
    pub parts: &'a Parts,
    /// References by place.
    pub refs: &'a dyn References,
    values: RefCell<BTreeMap<(u32, u32), Rc<Value>>>,
    outputs: RefCell<BTreeMap<(u32, u32), Rc<Value>>>,
    conditions: RefCell<BTreeMap<(u32, u32), bool>>,
    /// The members for which properties are rendered, the innermost first: the stack of each, its group's
    /// variable, its own name.
    members: RefCell<Vec<(u32, &'a str, &'a str)>>,
    /// The same for sets: the stack, and the node.
    nodes: RefCell<Vec<(u32, &'a str)>>,
    /// Stacks through which the present value has passed.
    depth: Cell<usize>,
    /// Bytes that may still be kept or found.
    left: Cell<usize>,
}

impl<'a> Context<'a> {
    pub fn new(parts: &'a Parts, refs: &'a dyn References) -> Self {
        Self {
            parts,
            refs,
            values: RefCell::default(),
            outputs: RefCell::default(),
            conditions: RefCell::default(),
            members: RefCell::default(),
            nodes: RefCell::default(),
            depth: Cell::new(0),
            left: Cell::new(Limits::RENDERED),
        }
    }

    pub fn within(&self, scope: u32) -> InScope<'_, 'a> {
        InScope { context: self, scope }
    }

    fn instance(&self, index: u32) -> &'a Instance {
        &self.parts.instances[index as usize]
    }

    fn scope(&self, scope: u32) -> &'a Scope {
        &self.parts.scopes[scope as usize]
    }

    /// The properties of a resource as an object, or the value below; `None` if it is not given, or null.
    pub fn property(&self, index: u32, steps: &[&str]) -> Result<Option<Value>, RenderError> {
        Ok(self.given(index, steps)?.filter(|value| !value.is_null()).map(Rc::unwrap_or_clone))
    }

    /// The same, with null where that is given.
    fn given(&self, index: u32, steps: &[&str]) -> Result<Option<Rc<Value>>, RenderError> {
        match self.instance(index).body {
            Body::Own { scope, resource } => self.own_property(scope, resource, steps),
            Body::Member { of } => {
                let steps = [&["resource_def", "properties"], steps].concat();
                let Below::Group(group) = self.instance(of).below else { return Ok(None) };
                let variable = &*self.parts.groups[group as usize].index_var;
                let own = self.parts.own_name(index);
                self.members.borrow_mut().push((self.parts.written(of).0, variable, own));
                let value = self.property(of, &steps);
                self.members.borrow_mut().pop();
                Ok(value?.map(|value| Rc::new(with_index(value, variable, own))))
            }
            Body::Link { of } => self.given(of, &[&["resource_properties"], steps].concat()),
            Body::Deployed { of } => {
                Ok(self.deployed_property(of, self.parts.own_name(index), steps)?.map(Rc::new))
            }
            Body::Each { of } => Ok(self.property_of_each(index, of, steps)?.map(Rc::new)),
        }
    }

    /// A property of a member of a set: the written one, with the node.
    fn property_of_each(&self, index: u32, of: u32, steps: &[&str]) -> Result<Option<Value>, RenderError> {
        let node = self.parts.own_node(index);
        let place = self.instance(index).kind.node_property().unwrap_or("node");
        if steps.first() == Some(&place) {
            return Ok(Some(Value::from(node)).filter(|_| steps.len() == 1));
        }
        self.nodes.borrow_mut().push((self.parts.written(of).0, node));
        let value = self.given(of, steps);
        self.nodes.borrow_mut().pop();
        let mut value = value?.map(Rc::unwrap_or_clone);
        if steps.is_empty()
            && let Value::Object(all) = value.get_or_insert_with(|| Value::Object(Map::new()))
        {
            all.insert(place.to_owned(), Value::from(node));
        }
        Ok(value)
    }

    /// A property of a member of a group of deployments: that of the group, with one of its servers in place
    /// of all.
    fn deployed_property(&self, of: u32, name: &str, steps: &[&str]) -> Result<Option<Value>, RenderError> {
        match steps {
            ["server", below @ ..] => self.property(of, &[&["servers", name], below].concat()),
            ["servers", ..] => Ok(None),
            [] => {
                let Some(Value::Object(mut all)) = self.property(of, &[])? else { return Ok(None) };
                let server = match all.remove("servers") {
                    Some(Value::Object(mut servers)) => servers.remove(name),
                    _ => None,
                };
                all.insert("server".to_owned(), server.unwrap_or_default());
                Ok(Some(Value::Object(all)))
            }
            _ => self.property(of, steps),
        }
    }

    fn own_property(
        &self,
        scope: u32,
        resource: u32,
        steps: &[&str],
    ) -> Result<Option<Rc<Value>>, RenderError> {
        let template = &self.scope(scope).template;
        let resource = &template.resources[resource as usize];
        let mut place = vec!["resources", &resource.name, "properties"];
        let (mut expr, mut left) = (&resource.properties, steps);
        while let ([step, more @ ..], ExprKind::Map(_)) = (left, &expr.kind) {
            let Some(entry) = expr.entry(step) else { return Ok(None) };
            (expr, left) = (&entry.value, more);
            place.push(step);
        }
        let within = self.within(scope);
        let value = template.shared(expr, &within, &within, &place)?;
        if left.is_empty() {
            return Ok(Some(value));
        }
        let found = left.iter().try_fold(&*value, |value, step| value.as_object()?.get(*step));
        Ok(found.map(|found| Rc::new(found.clone())))
    }

    /// The given properties.
    pub fn properties(&self, index: u32) -> Result<Value, RenderError> {
        Ok(match self.property(index, &[])? {
            Some(Value::Object(map)) => {
                Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).collect())
            }
            Some(other) => other,
            None => Value::Object(Map::new()),
        })
    }

    /// A value from another stack, from an environment, or from the template itself.
    fn parameter(&self, scope: u32, index: u32) -> Result<Rc<Value>, RenderError> {
        if let Some(known) = self.values.borrow().get(&(scope, index)) {
            return Ok(known.clone());
        }
        let Scope { template, stands, .. } = self.scope(scope);
        let definition = &template.parameters[index as usize];
        let of_environment = self.parts.environment.default_of(definition);
        if of_environment.is_none() {
            definition.check_default(&template.file)?;
        }
        let given = self.deeper(|| self.given(*stands, &[&definition.name]))?;
        let value = match given {
            Some(given) => self.converted(*stands, definition, given)?,
            None => match (of_environment, definition.default_value(&template.file)) {
                (Some(Ok(value)), _) => Rc::new(value),
                (Some(Err(error)), _) | (None, Err(error)) => return Err(error.into()),
                (None, Ok(Some(default))) => Rc::new(default),
                (None, Ok(None)) => {
                    let name = &definition.name;
                    let message =
                        format!("'{}' needs the parameter '{name}', which has no default", template.file);
                    return Err(self.said_of(*stands, None, &message));
                }
            },
        };
        self.spend(*stands, weight(&value))?;
        self.values.borrow_mut().insert((scope, index), value.clone());
        Ok(value)
    }

    fn converted(
        &self,
        stands: u32,
        definition: &ParameterDef,
        given: Rc<Value>,
    ) -> Result<Rc<Value>, RenderError> {
        let wrong = |message: String| self.said_of(stands, Some(&definition.name), &message);
        let given = if given.is_null() {
            // As in Heat, also where the parameter has a default.
            Rc::new(definition.kind.empty())
        } else if definition.kind == ParameterType::CommaDelimitedList {
            Rc::new(delimited(Rc::unwrap_or_clone(given)))
        } else {
            given
        };
        definition.take_shared(given).map_err(wrong)
    }

    /// The outer template's properties of the resource that is this stack.
    fn facade(&self, scope: u32) -> Result<Facade, RenderError> {
        let stands = self.scope(scope).stands;
        let (scope, at, way) = self.parts.written(stands);
        let template = &self.scope(scope).template;
        let resource = &template.resources[at];
        let metadata = match self.instance(stands).body {
            Body::Own { .. } => resource.metadata(),
            Body::Member { .. } => {
                // The path leads to the definition's properties.
                let definition = way.split_last().and_then(|(_, way)| source(template, at, way));
                definition.and_then(|expr| expr.entry("metadata")).map(|entry| &entry.value)
            }
            Body::Link { .. } | Body::Deployed { .. } | Body::Each { .. } => None,
        };
        // A group's own metadata does not apply to its members.
        let own = Some(resource).filter(|_| way.is_empty());
        let within = self.within(scope);
        let retains = match own {
            Some(_) => template.retains_with(at, &within)?,
            None => false,
        };
        let rendered = |expr: Option<&Expr>, key: &str| -> Result<Value, RenderError> {
            let place = ["resources", &resource.name, key];
            let value = expr.map(|expr| template.rendered(expr, &within, &within, &place)).transpose()?;
            Ok(value.filter(|value| !value.is_null()).unwrap_or_else(|| Value::Object(Map::new())))
        };
        Ok(Facade {
            metadata: rendered(metadata, if own.is_some() { "metadata" } else { "properties" })?,
            deletion_policy: if retains { "Retain" } else { "Delete" }.into(),
            update_policy: rendered(own.and_then(Resource::update_policy), "update_policy")?,
        })
    }

    /// Whether each resource of a stack exists.
    pub fn existence(&self, scope: u32) -> Result<Vec<bool>, RenderError> {
        let template = &self.scope(scope).template;
        let within = self.within(scope);
        (0..template.resources.len()).map(|at| template.is_there(at, &within)).collect()
    }

    /// An error about a resource or one of its properties, at the place of its text.
    pub fn said_of(&self, index: u32, property: Option<&str>, message: &str) -> RenderError {
        let (scope, resource, mut way) = self.parts.written(index);
        let way: Vec<&str> = way.drain(..).chain(property).collect();
        self.scope(scope).template.error_at(resource, &way, message).into()
    }

    fn deeper<T>(&self, find: impl FnOnce() -> Result<T, RenderError>) -> Result<T, RenderError> {
        let depth = self.depth.get();
        if depth >= Limits::PASSED {
            let message = format!("a value passes through more than {} stacks", Limits::PASSED);
            return Err(self.parts.scopes[0].template.error_of_all(&message).into());
        }
        self.depth.set(depth + 1);
        let found = find();
        self.depth.set(depth);
        found
    }

    fn spend(&self, index: u32, bytes: usize) -> Result<(), RenderError> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                let message = format!("what it is given comes to more than {} MiB", Limits::RENDERED >> 20);
                Err(self.said_of(index, None, &message))
            }
        }
    }

    /// The value of `get_resource`.
    fn reference(&self, index: u32) -> Found<Value> {
        let instance = self.instance(index);
        if let Below::Scope(scope) = instance.below {
            let outputs = &self.scope(scope).template.outputs;
            if let Ok(at) = outputs.binary_search_by(|output| (*output.key).cmp(STACK_ID)) {
                return Ok(self.output(scope, at).map(Rc::unwrap_or_clone)?);
            }
        }
        if let Below::Set(set) = instance.below {
            return self.by_node(set, |member| self.reference(member));
        }
        match self.refs.resource_id(index) {
            Some(id) => Ok(Value::String(id)),
            None => Err(self.not_yet(index)),
        }
    }

    fn not_yet(&self, index: u32) -> Unresolved {
        let resource = (*self.instance(index).name).into();
        Unresolved::Elsewhere(RenderError::NotYet { resource, index })
    }

    fn output(&self, scope: u32, at: usize) -> Result<Rc<Value>, RenderError> {
        let key = (scope, u32::try_from(at).unwrap_or(NONE));
        if let Some(known) = self.outputs.borrow().get(&key) {
            return Ok(known.clone());
        }
        let found = self.scope(scope);
        let within = self.within(scope);
        let value = self.deeper(|| found.template.output_with(at, &within, &within))?;
        self.spend(found.stands, weight(&value))?;
        self.outputs.borrow_mut().insert(key, value.clone());
        Ok(value)
    }

    /// The value of `get_attr`, with the number of followed keys.
    fn attribute(&self, index: u32, name: &str, keys: &[String]) -> Found<Option<(Rc<Value>, usize)>> {
        let instance = self.instance(index);
        if let Some(path) = name.strip_prefix("resource.").filter(|_| instance.kind.is_whole()) {
            let (value, used) = self.attribute_inside(index, path, keys)?;
            return Ok(Some((Rc::new(value), used)));
        }
        match instance.below {
            Below::Scope(scope) => self.stack_attribute(scope, name),
            Below::Group(group) => {
                let (value, used) = self.group_attribute(index, group, name, keys)?;
                Ok(Some((Rc::new(value), used)))
            }
            Below::Set(set) => {
                let (value, used) = self.set_attribute(index, set, name, keys)?;
                Ok(Some((Rc::new(value), used)))
            }
            Below::Nothing if instance.kind == Kind::None => Ok(Some((Rc::new(Value::Null), keys.len()))),
            Below::Nothing => match self.refs.attribute(index, name) {
                Some(value) => Ok(Some((Rc::new(value), 0))),
                None if self.refs.is_ready(index) => Ok(None),
                None => Err(self.not_yet(index)),
            },
        }
    }

    fn stack_attribute(&self, scope: u32, name: &str) -> Found<Option<(Rc<Value>, usize)>> {
        let outputs = &self.scope(scope).template.outputs;
        if let Ok(at) = outputs.binary_search_by(|output| (*output.key).cmp(name)) {
            return Ok(Some((self.output(scope, at)?, 0)));
        }
        if name == "outputs" {
            let each =
                |at: usize| Ok((outputs[at].key.to_string(), Rc::unwrap_or_clone(self.output(scope, at)?)));
            let all: Result<Map<String, Value>, RenderError> = (0..outputs.len()).map(each).collect();
            return Ok(Some((Rc::new(Value::Object(all?)), 0)));
        }
        let near = suggestion(name, outputs.iter().map(|output| &*output.key));
        let file = &self.scope(scope).template.file;
        Err(Unresolved::Wrong(format!("'{file}' has no output '{}'{near}", cut(name))))
    }

    /// `resource.NAME` with or without an attribute after it, for resources in a nested stack or a group.
    fn attribute_inside(&self, index: u32, path: &str, keys: &[String]) -> Found<(Value, usize)> {
        let (name, attribute) =
            path.split_once('.').map_or((path, None), |(name, attribute)| (name, Some(attribute)));
        let child = self.child(index, name)?;
        match (attribute, keys) {
            (Some(attribute), keys) => Ok((self.selected(child, attribute, keys)?, keys.len())),
            (None, [attribute, rest @ ..]) => Ok((self.selected(child, attribute, rest)?, keys.len())),
            (None, []) => Ok((self.reference(child)?, 0)),
        }
    }

    /// A map of what the members of a set have, by node.
    fn by_node(&self, set: u32, find: impl Fn(u32) -> Found<Value>) -> Found<Value> {
        let members = self.parts.sets[set as usize].members.iter();
        let each = |member: &u32| Ok((self.parts.own_node(*member).to_owned(), find(*member)?));
        members.map(each).collect::<Found<Map<String, Value>>>().map(Value::Object)
    }

    /// The states of all members of a set, in one text: for a unit that restarts for any of them.
    fn states(&self, set: u32) -> Found<Value> {
        let Below::Set(set) = self.instance(set).below else { return Ok(Value::Null) };
        let states = self.by_node(set, |member| self.selected(member, Spec::STATE, &[]))?;
        Ok(Value::from(format!("{:032x}", digest::of_value(&states))))
    }

    /// A map by node, or the value of one node.
    fn set_attribute(&self, index: u32, set: u32, name: &str, keys: &[String]) -> Found<(Value, usize)> {
        match keys {
            [] => Ok((self.by_node(set, |member| self.selected(member, name, &[]))?, 0)),
            [node, rest @ ..] => match self.parts.member_of(index, node) {
                Some(member) => Ok((self.selected(member, name, rest)?, keys.len())),
                None => Ok((Value::Null, keys.len())),
            },
        }
    }

    fn child(&self, index: u32, name: &str) -> Found<u32> {
        let instance = self.instance(index);
        let found = match instance.below {
            Below::Nothing => None,
            Below::Set(_) => self.parts.member_of(index, name),
            Below::Scope(scope) => {
                let Scope { template, map, .. } = self.scope(scope);
                template.index_of(name).map(|at| map[at]).filter(|at| *at != NONE)
            }
            Below::Group(group) => {
                let group = &self.parts.groups[group as usize];
                if group.seen.is_none() {
                    return Err(self.not_yet(index));
                }
                group.members.iter().copied().find(|member| self.parts.own_name(*member) == name)
            }
        };
        found.ok_or_else(|| {
            Unresolved::Wrong(format!("there is no resource '{}' in '{}'", cut(name), instance.name))
        })
    }

    fn group_attribute(&self, index: u32, group: u32, name: &str, keys: &[String]) -> Found<(Value, usize)> {
        let group = &self.parts.groups[group as usize];
        if group.seen.is_none() {
            return Err(self.not_yet(index));
        }
        let members = || group.members.iter().copied();
        let named = |member: u32, value: Value| (self.parts.own_name(member).to_owned(), value);
        match name {
            "refs" => {
                let all: Found<Vec<Value>> = members().map(|member| self.reference(member)).collect();
                Ok((Value::Array(all?), 0))
            }
            "refs_map" => {
                let each = |member| Ok(named(member, self.reference(member)?));
                let all: Found<Map<String, Value>> = members().map(each).collect();
                Ok((Value::Object(all?), 0))
            }
            "removed_rsrc_list" => Ok((group.removed.keys().cloned().collect(), 0)),
            "attributes" => {
                let [attribute, rest @ ..] = keys else {
                    let message = "'attributes' of a group needs the name of an attribute after it";
                    return Err(Unresolved::Wrong(message.into()));
                };
                let each = |member| Ok(named(member, self.selected(member, attribute, rest)?));
                let all: Found<Map<String, Value>> = members().map(each).collect();
                Ok((Value::Object(all?), keys.len()))
            }
            _ if self.instance(index).kind.is_deployment_group() => {
                let name = match name {
                    "deploy_stdouts" => DEPLOY_STDOUT,
                    "deploy_stderrs" => DEPLOY_STDERR,
                    "deploy_status_codes" => DEPLOY_STATUS_CODE,
                    output => output,
                };
                let each = |member| Ok(named(member, self.selected(member, name, &[])?));
                let all: Found<Map<String, Value>> = members().map(each).collect();
                Ok((Value::Object(all?), 0))
            }
            _ => {
                let all: Found<Vec<Value>> =
                    members().map(|member| self.selected(member, name, keys)).collect();
                Ok((Value::Array(all?), keys.len()))
            }
        }
    }

    /// An attribute with all keys below it followed.
    fn selected(&self, index: u32, name: &str, keys: &[String]) -> Found<Value> {
        let resource = &self.instance(index).name;
        let found = self.attribute(index, name, keys)?;
        let Some((value, used)) = found else {
            return Err(Unresolved::Wrong(format!(
                "the resource '{resource}' has no attribute '{}'",
                cut(name)
            )));
        };
        let keys = &keys[used..];
        if keys.is_empty() {
            return Ok(Rc::unwrap_or_clone(value));
        }
        let found = keys.iter().try_fold(&*value, |value, key| match value {
            Value::Object(map) => map.get(key),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        });
        // As in Heat, for each member: a path that leads nowhere gives null.
        Ok(found.cloned().unwrap_or_default())
    }
}

/// The meaning of names in one stack's template.
pub(super) struct InScope<'c, 'a> {
    context: &'c Context<'a>,
    scope: u32,
}

impl InScope<'_, '_> {
    /// The instance of a resource of the template; `None` if it does not exist.
    fn of(&self, index: u32) -> Option<u32> {
        let place = self.context.scope(self.scope).map[index as usize];
        (place != NONE).then_some(place)
    }
}

impl Values for InScope<'_, '_> {
    fn value(&self, index: u32) -> Option<Result<ParameterValue<'_>, RenderError>> {
        match self.scope {
            0 => self.context.parts.parameters.value(index),
            scope => Some(self.context.parameter(scope, index).map(ParameterValue::Kept)),
        }
    }

    fn condition(&self, index: u32) -> Option<Result<bool, RenderError>> {
        if self.scope == 0 {
            return self.context.parts.parameters.condition(index);
        }
        let key = (self.scope, index);
        if let Some(known) = self.context.conditions.borrow().get(&key) {
            return Some(Ok(*known));
        }
        let template = &self.context.scope(self.scope).template;
        let condition = template.conditions.get(index as usize)?;
        let holds = template.holds(&condition.value, self, &["conditions", &condition.name]);
        if let Ok(holds) = holds {
            self.context.conditions.borrow_mut().insert(key, holds);
        }
        Some(holds)
    }

    /// The name of the root stack, since nested stacks have no name of their own.
    fn stack(&self) -> Option<&StackNames> {
        self.context.parts.parameters.stack()
    }

    /// Replaces variables as in the surrounding texts, where Heat replaces the outermost group's variable
    /// first. Heat itself follows paths before that, to nowhere.
    fn indexed<'k>(&self, key: Cow<'k, str>) -> Cow<'k, str> {
        let members = self.context.members.borrow();
        let here = members.iter().rev().filter(|(scope, ..)| *scope == self.scope);
        here.fold(key, |key, (_, variable, own)| match key.contains(variable) {
            true => key.replace(variable, own).into(),
            false => key,
        })
    }

    fn facade(&self) -> Option<Result<Cow<'_, Facade>, RenderError>> {
        match self.scope {
            0 => self.context.parts.parameters.facade(),
            scope => Some(self.context.facade(scope).map(Cow::Owned)),
        }
    }
}

impl References for InScope<'_, '_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        self.context.refs.resource_id(self.of(index)?)
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        self.context.refs.attribute(self.of(index)?, name)
    }

    fn of_node(&self, node: &str, path: &[String]) -> Found<Option<Value>> {
        self.context.refs.of_node(node, path)
    }

    fn own_node(&self) -> Option<String> {
        let nodes = self.context.nodes.borrow();
        nodes.iter().rev().find(|(scope, _)| *scope == self.scope).map(|(_, node)| (*node).to_owned())
    }

    /// Unknown values were already reported as such.
    fn is_ready(&self, _: u32) -> bool {
        true
    }

    fn reference(&self, index: u32) -> Found<Option<Value>> {
        match self.of(index) {
            Some(place) => self.context.reference(place).map(Some),
            None => Ok(Some(Value::Null)),
        }
    }

    fn resolve(&self, index: u32, name: &str, path: &[String]) -> Found<Option<(Rc<Value>, usize)>> {
        match self.of(index) {
            // A unit restarts for objects on its own node.
            Some(place)
                if name == Spec::STATE && matches!(self.context.instance(place).below, Below::Set(_)) =>
            {
                let own = self.own_node().and_then(|node| self.context.parts.member_of(place, &node));
                match (own, self.own_node()) {
                    (Some(member), _) => self.context.attribute(member, name, path),
                    (None, Some(_)) => Ok(Some((Rc::new(Value::from("")), path.len()))),
                    (None, None) => {
                        self.context.states(place).map(|states| Some((Rc::new(states), path.len())))
                    }
                }
            }
            Some(place) => self.context.attribute(place, name, path),
            None => Ok(Some((Rc::new(Value::Null), path.len()))),
        }
    }
}

/// A list of texts or of maps as one text, for Heat hands it on in that form: a null is an empty text, one alone is no
/// item, a comma in a text divides it, and of maps each entry is an item.
fn delimited(given: Value) -> Value {
    let Value::Array(items) = &given else { return given };
    let maps: Option<Vec<&Map<String, Value>>> = items.iter().map(Value::as_object).collect();
    if let Some(maps) = maps.filter(|maps| !maps.is_empty()) {
        let entry = |index, (key, value)| format!(".member.{index}.{key}={}", python_text(value));
        let entries =
            maps.iter().enumerate().flat_map(|(index, map)| map.iter().map(move |it| entry(index, it)));
        return Value::from(entries.collect::<Vec<String>>().join(","));
    }
    let is_text = |item: &Value| matches!(item, Value::Null | Value::String(_));
    let texts = items.iter().all(is_text).then(|| items.iter().map(|item| item.as_str().unwrap_or_default()));
    let texts: Option<Vec<&str>> = texts.map(Iterator::collect);
    texts.map_or(given.clone(), |texts| Value::from(texts.join(",")))
}

/// As in Heat: replaces the variable in every text, and in no key.
fn with_index(value: Value, variable: &str, index: &str) -> Value {
    match value {
        Value::String(text) if text.contains(variable) => Value::String(text.replace(variable, index)),
        Value::Array(items) => items.into_iter().map(|item| with_index(item, variable, index)).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, with_index(value, variable, index))).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

/// The digest of an expression in a resource's properties, as far down as it is written, and its parameters.
pub(super) fn source<'t>(template: &'t Template, resource: usize, way: &[&str]) -> Option<&'t Expr> {
    let mut expr = &template.resources[resource].properties;
    for step in way {
        if let ExprKind::Map(_) = &expr.kind { expr = &expr.entry(step)?.value } else { return Some(expr) }
    }
    Some(expr)
}

/// Text for what must be text.
pub(super) fn want_text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("want text, got {}", describe(value)))
}

/// The variable of a group without a given one.
pub(super) fn index_var(given: Option<Value>) -> Result<Box<str>, String> {
    match given {
        None => Ok(INDEX_VAR.into()),
        Some(value) => match want_text(&value)? {
            text if text.chars().count() < 3 => Err("want at least three characters".into()),
            text => Ok(text.into()),
        },
    }
}
