//! Previews an update: its plan, and for each changed resource the decision of a visit. Nothing changes.
//!
//! A value that depends on a thing not made yet is unknown. A mark that no real value has stands
//! for it, so that it differs from any present value.
//!
//! Absent: the decision itself, update or replacement (`row/needed.rs`).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::preview::{PreviewRow, PreviewView, PropertyView};
use muster_shared::model::Action;
use muster_shared::{NodeId, ResourceId, StackName};
use muster_template::{
    Desired, Kind, MASK, References, Restriction, SoftwareConfig, Tree, Unresolved, VirtualResource,
};
use serde_json::{Map, Value};

use crate::content::externalise;
use crate::deployment::Deployed;
use crate::operation::acceptance::Planned;
use crate::record::PackedSpec;
use crate::request::{Options, Refusal, Source};
use crate::row::needed::Needed;
use crate::row::{Row, Slot};
use crate::stack::Stack;
use crate::traversal::plan::Plan;
use crate::view::View;

/// Resources in the list. All are counted.
const LISTED_MAX: usize = 10_000;
/// Unchanged resources in the list.
const UNCHANGED_MAX: usize = 1000;
/// Bytes of properties in one answer.
const PROPERTIES_MAX: usize = 64 * 1024 * 1024;
/// Stands for an unknown value: a private character, which no real value has.
const UNKNOWN: &str = "\u{f8ff}muster:unknown\u{f8ff}";

/// The effect of an update on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Create,
    Adopt,
    Update,
    Replace,
    Delete,
    Unchanged,
}

impl Change {
    /// The name that operators see.
    fn as_str(self) -> &'static str {
        match self {
            Change::Create => "create",
            Change::Adopt => "adopt",
            Change::Update => "update",
            Change::Replace => "replace",
            Change::Delete => "delete",
            Change::Unchanged => "unchanged",
        }
    }
}

/// A resource after the update, as far as it is known.
struct Predicted {
    change: Change,
    restricted: bool,
    /// The row that stays for the resource.
    keeps: Option<Slot>,
    node: Option<NodeId>,
    external_id: Option<String>,
    /// `None`: the spec does not change, or is not known.
    spec: Option<Desired>,
    /// Rendered properties, with marks for unknown values.
    new: Map<String, Value>,
    /// The update changes the resource, or one below it.
    changes: bool,
}

/// A preview under way.
struct Preview<'a> {
    view: View<'a>,
    stack: &'a Stack,
    source: &'a Source,
    tree: &'a Tree,
    plan: &'a Plan,
    done: BTreeMap<u32, Predicted>,
    /// The resource being predicted needs facts that its node has not told.
    asks: Cell<bool>,
    /// The update adopts a thing where it would create one.
    adopts: bool,
}

impl View<'_> {
    /// The changes that an update of a stack would make, or its creation if there is none. `old`
    /// has the parameters of the current revision, to mask their hidden values. Without `old`, old
    /// values are not shown if the revision has hidden ones.
    ///
    /// # Errors
    /// The reason for which the update would be refused.
    pub fn preview(
        &self,
        name: &StackName,
        source: &Source,
        old: Option<&Tree>,
        options: &Options,
    ) -> Result<PreviewView, Refusal> {
        let new;
        let stack = match self.graph.find(name) {
            Ok(_) => &self.graph.stacks[&self.jobs.changeable(name)?],
            Err(_) => {
                let mut named = Stack::new(u64::MAX, name.clone());
                named.scope = options.scope.clone();
                new = named;
                &new
            }
        };
        stack.is_at(options.revision)?;
        let id = if stack.id == u64::MAX { UNKNOWN.to_owned() } else { stack.id.to_string() };
        let source = source.clone().of_stack(&stack.name, &id);
        let source = &source.map_err(|errors| Refusal::Invalid(errors.to_string()))?;
        let Planned { tree, plan, warnings } = self.planned(stack, source, None, options)?;
        let (done, asks) = (BTreeMap::new(), Cell::new(false));
        let (tree, plan, adopts) = (&tree, &plan, options.adopt);
        let mut preview = Preview { view: *self, stack, source, tree, plan, done, asks, adopts };
        preview.predict_all();
        Ok(preview.view(old, warnings))
    }
}

impl Preview<'_> {
    /// Predicts each resource after those that it needs.
    fn predict_all(&mut self) {
        let tree = self.tree;
        let dirty = &self.plan.dirty;
        let mut waits: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = Vec::new();
        for index in (0..tree.len()).filter(|index| dirty[*index]) {
            let count = tree.requires(index).iter().filter(|required| dirty[**required as usize]).count();
            if count == 0 {
                queue.push(index);
            } else {
                waits.insert(index, count);
            }
        }
        while let Some(index) = queue.pop() {
            let predicted = self.predict(index);
            self.done.insert(u32::try_from(index).expect("bounded by RESOURCES_MAX"), predicted);
            for next in self.plan.needed_by.of(index) {
                let next = *next as usize;
                if let Some(count) = waits.get_mut(&next) {
                    *count -= 1;
                    if *count == 0 {
                        queue.push(next);
                    }
                }
            }
        }
    }

    fn predict(&self, index: usize) -> Predicted {
        let tree = self.tree;
        let kind = tree.kind(index);
        let row = self.plan.chosen[index].map(|slot| &self.view.graph.rows[slot]);
        let external_id = tree.external_id(index).ok().flatten();
        self.asks.set(false);
        let new = match tree.render(index, self) {
            Ok(Value::Object(new)) => new,
            // The resource would fail at its turn. The text of that failure is not known now.
            Ok(_) | Err(_) => Map::new(),
        };
        let given = Value::Object(new.clone());
        let node = if kind.is_virtual() { Ok(None) } else { muster_template::node(&given) };
        let config = |id: &str| self.config(id);
        let site = Deployed { stack: self.stack, resource: tree.name(index), config: &config };
        let mut spec = muster_template::spec_within(kind, &given, &site);
        if let Ok(spec) = &mut spec {
            externalise(spec);
            // A resource with several servers to choose from fails at its turn.
            let _ = self.view.traversals.bind_server(row, spec);
            if let Some(row) = row {
                row.mark_restarts(spec);
            }
        }
        let place = match &node {
            Ok(Some(name)) => Some(name.clone()),
            Ok(None) if kind.is_virtual() => None,
            Ok(None) => row.and_then(|row| row.node).map(|key| self.view.graph.nodes[key].name.clone()),
            Err(_) => None,
        };
        let needs_change =
            tree.requires(index).iter().any(|needed| self.done.get(needed).is_some_and(|it| it.changes));
        let is_as_defined =
            |row: &Row| self.asks.get() && !needs_change && row.is_as_defined(kind, tree.definition(index));
        let needed = match (row, &spec, &node) {
            (Some(row), ..) if is_as_defined(row) => Needed::Nothing,
            (None, ..) => Needed::Apply(if external_id.is_some() { Action::Check } else { Action::Create }),
            (Some(row), Ok(spec), Ok(_)) => {
                let key = place.as_ref().and_then(|name| self.view.graph.nodes.find(name));
                row.needed(kind, key, spec, &PackedSpec::new(spec))
            }
            (Some(row), Err(error), _) => guess(row, kind, &error.path),
            (Some(row), _, Err(error)) => guess(row, kind, &error.path),
        };
        let policy = self.source.policies.of(tree.name(index));
        let needed = if self.adopts { needed.adopting(kind, row) } else { needed };
        let (change, restricted) = match needed {
            Needed::Nothing => (Change::Unchanged, false),
            Needed::Replace => {
                let gone = row.is_some_and(Row::is_past);
                (Change::Replace, !gone && policy.restricts(Restriction::Replace))
            }
            // An external resource, whose thing is only compared.
            Needed::Apply(Action::Check | Action::Adopt) => (Change::Adopt, false),
            Needed::Apply(Action::Update) => (Change::Update, policy.restricts(Restriction::Update)),
            Needed::Apply(Action::Create | Action::Delete | Action::Retain) => (Change::Create, false),
        };
        Predicted {
            change,
            restricted,
            keeps: self.plan.chosen[index].filter(|_| !matches!(change, Change::Replace | Change::Create)),
            node: place,
            external_id,
            spec: spec.ok().filter(|_| change != Change::Unchanged),
            new,
            changes: change != Change::Unchanged || (kind.is_whole() && needs_change),
        }
    }

    /// A software config as it will be after the update.
    fn config(&self, id: &str) -> Result<SoftwareConfig, String> {
        if id.contains(UNKNOWN) {
            return Err("it is not there yet".into());
        }
        let there = self.view.graph.config(self.stack.id, id)?;
        let name =
            uuid::Uuid::parse_str(id).ok().and_then(|id| self.view.graph.rows.of_thing(&ResourceId(id)));
        let index = name.and_then(|slot| self.tree.index_of(&self.view.graph.rows[slot].name));
        let predicted = index.and_then(|index| self.predicted(index)).and_then(|it| it.spec.as_ref());
        match predicted.and_then(Desired::virtual_resource) {
            Some(VirtualResource::Config(config)) => Ok(config.clone()),
            _ => Ok(there),
        }
    }

    fn view(&self, old: Option<&Tree>, mut warnings: Vec<String>) -> PreviewView {
        let tree = self.tree;
        let mut view = PreviewView::default();
        let mut budget = PROPERTIES_MAX;
        let mut changed: Vec<PreviewRow> = Vec::new();
        let mut unchanged: Vec<usize> = Vec::new();
        for index in 0..tree.len() {
            match self.predicted(index) {
                Some(predicted) if predicted.change != Change::Unchanged => {
                    count(&mut view, predicted.change);
                    if changed.len() < LISTED_MAX {
                        changed.push(self.changed(index, predicted, old, &mut budget));
                    }
                }
                _ => {
                    count(&mut view, Change::Unchanged);
                    if unchanged.len() < UNCHANGED_MAX {
                        unchanged.push(index);
                    }
                }
            }
        }
        for slot in &self.plan.dropped {
            let row = &self.view.graph.rows[*slot];
            // A row that was never applied has nothing to remove.
            if row.is_applied() {
                count(&mut view, Change::Delete);
                if changed.len() < LISTED_MAX {
                    changed.push(self.dropped(row, old, &mut budget));
                }
            }
        }
        changed.sort_by(|a, b| a.name.cmp(&b.name));
        let restricted = changed.iter().filter(|row| row.restricted).count();
        if restricted > 0 {
            let (resources, them) = if restricted == 1 { ("resource", "it") } else { ("resources", "them") };
            warnings.push(format!(
                "{restricted} {resources} would fail, for the environment restricts it, and what needs {them} would wait"
            ));
        }
        if budget == 0 {
            warnings.push("not all properties are shown: there are too many".into());
        }
        view.resources = changed;
        view.resources.extend(unchanged.into_iter().map(|index| self.unchanged(index)));
        view.warnings = warnings;
        view
    }

    fn predicted(&self, index: usize) -> Option<&Predicted> {
        self.done.get(&u32::try_from(index).ok()?)
    }

    fn changed(
        &self,
        index: usize,
        predicted: &Predicted,
        old: Option<&Tree>,
        budget: &mut usize,
    ) -> PreviewRow {
        let tree = self.tree;
        let row = self.plan.chosen[index].map(|slot| &self.view.graph.rows[slot]);
        let mut new = match &predicted.spec {
            Some(spec) => spec.properties(),
            None => predicted.new.clone(),
        };
        if let Some(node) = &predicted.node {
            new.insert("node".into(), Value::from(node.as_str()));
        }
        PreviewRow {
            name: tree.name(index).to_owned(),
            kind: tree.type_name(index).map_or(tree.kind(index).name(), |name| name).into(),
            node: predicted.node.as_ref().map(ToString::to_string).unwrap_or_default(),
            change: predicted.change.as_str().into(),
            restricted: predicted.restricted,
            deletion_policy: deletion_policy(tree.retains(index)),
            properties: self.differences(row, new, old, budget),
        }
    }

    fn dropped(&self, row: &Row, old: Option<&Tree>, budget: &mut usize) -> PreviewRow {
        PreviewRow {
            name: row.name.to_string(),
            kind: row.type_name().into(),
            node: row.node.map(|key| self.view.graph.nodes[key].name.to_string()).unwrap_or_default(),
            change: Change::Delete.as_str().into(),
            restricted: false,
            deletion_policy: deletion_policy(row.retain),
            properties: self.differences(Some(row), Map::new(), old, budget),
        }
    }

    fn unchanged(&self, index: usize) -> PreviewRow {
        let tree = self.tree;
        let node = self.plan.chosen[index].and_then(|slot| self.view.graph.rows[slot].node);
        PreviewRow {
            name: tree.name(index).to_owned(),
            kind: tree.type_name(index).map_or(tree.kind(index).name(), |name| name).into(),
            node: node.map(|key| self.view.graph.nodes[key].name.to_string()).unwrap_or_default(),
            change: Change::Unchanged.as_str().into(),
            deletion_policy: deletion_policy(tree.retains(index)),
            ..PreviewRow::default()
        }
    }

    fn differences(
        &self,
        row: Option<&Row>,
        new: Map<String, Value>,
        old: Option<&Tree>,
        budget: &mut usize,
    ) -> Vec<PropertyView> {
        let mut before = Map::new();
        if let Some(row) = row.filter(|row| row.is_applied() || row.is_external()) {
            before = row.spec().map(|spec| spec.unpack().properties()).unwrap_or_default();
            if let Some(node) = row.node.filter(|_| !before.is_empty()) {
                before.insert("node".into(), Value::from(self.view.graph.nodes[node].name.as_str()));
            }
        }
        let mut found = Vec::new();
        let (before, new) = (Value::Object(before), Value::Object(new));
        differences(String::new(), Some(&before), Some(&new), &mut found);
        // If the row is not as the current revision wants it, its hidden values are not known.
        let known = row.is_some_and(Row::is_settled);
        let hides = self.stack.parameters.values().any(|value| value == MASK);
        let secret = hides || self.stack.hidden.hides_of_others() || !self.tree.secrets().is_empty();
        for property in &mut found {
            let digest = ["content.digest", "config.digest"].iter().any(|end| property.path.ends_with(end));
            if secret && digest {
                (property.old, property.new) = (Value::from(MASK), Value::from(MASK));
            }
            for value in [&mut property.old, &mut property.new] {
                // A viewer could guess a short secret from the digest of a content that is known otherwise.
                if let Some(digest) = value.get_mut("digest").filter(|_| secret) {
                    *digest = Value::from(MASK);
                }
            }
            property.old = match old.filter(|_| known || !hides) {
                _ if property.old.is_null() => Value::Null,
                Some(old) => self.stack.masked(self.tree, old.masked(property.old.take())),
                None if hides => Value::from(MASK),
                None => self.stack.masked(self.tree, property.old.take()),
            };
            // A value that the stack hides stays hidden, whatever the new template says.
            let new = match old {
                Some(old) => old.masked(property.new.take()),
                None => property.new.take(),
            };
            property.new = self.stack.masked(self.tree, new);
            let weight =
                property.path.len() + property.old.to_string().len() + property.new.to_string().len();
            *budget = budget.saturating_sub(weight);
        }
        if *budget == 0 { Vec::new() } else { found }
    }
}

/// References resolve to resources as they will be after the update.
impl References for Preview<'_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        let slot = match self.done.get(&index) {
            Some(predicted) => match (predicted.keeps, &predicted.external_id) {
                (Some(slot), _) => slot,
                (None, Some(id)) => return Some(id.clone()),
                (None, None) => return Some(UNKNOWN.into()),
            },
            None => self.plan.chosen[index as usize]?,
        };
        Some(self.view.graph.rows[slot].reference())
    }

    fn is_ready(&self, _: u32) -> bool {
        true
    }

    fn of_node(&self, node: &str, path: &[String]) -> Result<Option<Value>, Unresolved> {
        let asks_unknown = node.contains(UNKNOWN) || path.iter().any(|key| key.contains(UNKNOWN));
        let known = match asks_unknown {
            true => None,
            false => {
                self.view.graph.fact_in_scope(self.stack, node).map_err(Unresolved::Wrong)?;
                self.view.graph.of_node(node, path).map_err(Unresolved::Wrong)?
            }
        };
        if known.is_none() && !asks_unknown {
            self.asks.set(true);
        }
        Ok(known.or_else(|| Some(Value::from(UNKNOWN))))
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        match self.done.get(&index) {
            Some(predicted) if predicted.change != Change::Unchanged => {
                let follows = predicted.spec.as_ref().and_then(|spec| spec.attribute(name));
                Some(follows.unwrap_or_else(|| Value::from(UNKNOWN)))
            }
            _ => {
                let row = &self.view.graph.rows[self.plan.chosen[index as usize]?];
                self.view.graph.attribute(row, name)
            }
        }
    }
}

/// The likely decision if an unknown value keeps the spec from being read. `path` is the property
/// at fault.
fn guess(row: &Row, kind: Kind, path: &str) -> Needed {
    let moves = path == "node"
        || (kind.is_deployment() && path == "server")
        || (kind == Kind::File && path == "path");
    match row.is_applied() {
        true if moves => Needed::Replace,
        true => Needed::Apply(Action::Update),
        false => Needed::Apply(Action::Create),
    }
}

fn deletion_policy(retain: bool) -> String {
    if retain { "retain" } else { "delete" }.into()
}

fn count(view: &mut PreviewView, change: Change) {
    *view.counts.entry(change.as_str().into()).or_default() += 1;
}

/// Maps are compared key by key, lists of one length item by item.
fn differences(path: String, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<PropertyView>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                differences(path, old.get(key), new.get(key), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(format!("{path}[{index}]"), Some(old), Some(new), found);
            }
        }
        (old, new) => {
            let unknown = new.is_some_and(is_unknown);
            let new = new.filter(|_| !unknown).cloned().unwrap_or_default();
            found.push(PropertyView { path, old: old.cloned().unwrap_or_default(), new, unknown });
        }
    }
}

fn is_unknown(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(UNKNOWN),
        Value::Array(items) => items.iter().any(is_unknown),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains(UNKNOWN) || is_unknown(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
