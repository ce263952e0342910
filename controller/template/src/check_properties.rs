//! Checks of a resource's properties before any value is known: an unknown, missing or unfit one is refused.
//!
//! Absent: names, versions and references (`resolve.rs`), and the check of rendered properties (`types.rs`).

use muster_shared::property::has_null;
use serde_json::Value;

use crate::error::{Error, Path, Place, Sink, push_key, suggestion};
use crate::expression::{Call, Entry, Expr, ExprKind, Logic, Part};
use crate::render::Step;
use crate::template::Template;
use crate::types::{FORMER_PROPERTIES, Kind, Property, PropertyError, with_function};

/// Finds unknown names, missing ones, and values that no rendering can make valid. `at` is the resource's own
/// place. `is_set`: the resource has a `for_each`.
pub(crate) fn all(
    kind: Kind,
    properties: &Expr,
    at: Place,
    is_set: bool,
    errors: &mut Sink,
    path: &mut Path,
) {
    let implied = kind.node_property().filter(|_| is_set);
    if let Some(entry) = implied.and_then(|name| properties.entry(name)) {
        let before = path.key(&entry.key);
        errors.push(entry.at, path.as_str(), format!("'{}' is what for_each gives: leave it out", entry.key));
        path.leave(before);
    }
    of_members(kind, properties, at, Unwritten { variable: None, implied }, errors, path);
}

/// Finds names that nothing has, in the properties of a resource that a condition could have left out. Branches of `if`, and
/// parts of `and` and `or`, may have such names until they decide.
pub(crate) fn names(expr: &Expr, errors: &mut Sink, path: &mut Path) {
    match &expr.kind {
        ExprKind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let before = path.item(index);
                names(item, errors, path);
                path.leave(before);
            }
        }
        ExprKind::Map(entries) => {
            for entry in entries {
                let before = path.key(&entry.key);
                names(&entry.value, errors, path);
                path.leave(before);
            }
        }
        ExprKind::Call(call) => names_of_call(expr.at, call, errors, path),
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Invalid => {}
    }
}

fn names_of_call(at: Place, call: &Call, errors: &mut Sink, path: &mut Path) {
    if let Call::Absent { function: "", message } = call {
        return errors.push(at, path.as_str(), message);
    }
    let before = path.key(call.name());
    if let Call::Absent { message, .. } = call {
        errors.push(at, path.as_str(), message);
    }
    for (part, operand) in call.operands() {
        let is_branch = matches!(call, Call::If { .. }) && !matches!(part, Part::Item(0));
        if is_branch || matches!(call, Call::Logic { operator: Logic::And | Logic::Or, .. }) {
            continue;
        }
        let inner = part.enter(path);
        names(operand, errors, path);
        path.leave(inner);
    }
    path.leave(before);
}

/// Knowledge about properties beyond the written text.
#[derive(Clone, Copy, Default)]
pub(crate) struct Unwritten<'a> {
    /// A text that contains this variable will change.
    pub variable: Option<&'a str>,
    /// A property that need not be given.
    pub implied: Option<&'a str>,
}

/// The same of a member of a group, or of a set.
pub(crate) fn of_members(
    kind: Kind,
    properties: &Expr,
    at: Place,
    unwritten: Unwritten<'_>,
    errors: &mut Sink,
    path: &mut Path,
) {
    let Unwritten { variable, implied } = unwritten;
    let ExprKind::Map(entries) = &properties.kind else { return };
    let said = errors.count();
    let mut unknown: Vec<&str> = Vec::new();
    for entry in entries {
        let before = path.key(&entry.key);
        match kind.property(&entry.key) {
            Err(message) => {
                unknown.push(&entry.key);
                errors.push(entry.at, path.as_str(), message);
            }
            // A null sketch means a function's value, or no value.
            Ok(property) => match without(entry.value.sketch(), variable) {
                Value::Null => {}
                sketch @ (Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_)
                | Value::Object(_)) => {
                    if let Err(error) = (property.check)(&sketch).map_err(with_function) {
                        for step in &error.steps {
                            match step {
                                Step::Key(key) => path.key(key),
                                Step::Item(index) => path.item(*index),
                            };
                        }
                        errors.push(place(&entry.value, &error.steps), path.as_str(), &error.message);
                    }
                }
            },
        }
        path.leave(before);
    }
    // A misspelt property has its own error, so it does not count as missing.
    let is_misspelt = |name: &str| unknown.iter().any(|key| !suggestion(key, [name]).is_empty());
    let wanted = |property: &&Property| {
        property.required && implied != Some(property.name) && !is_misspelt(property.name)
    };
    for property in kind.properties().iter().filter(wanted) {
        // As in Heat, null is a value like any other for an OS::Heat::Value.
        let is_nothing = |entry: &Entry| kind != Kind::Value && matches!(entry.value.kind, ExprKind::Null);
        let former = FORMER_PROPERTIES.iter().find(|(of, _, name)| (*of, *name) == (kind, property.name));
        let former = former.and_then(|(_, former, _)| properties.entry(former));
        if properties.entry(property.name).or(former).is_none_or(is_nothing) {
            errors.push(at, path.as_str(), format!("{} needs the property '{}'", kind.name(), property.name));
        }
    }
    if errors.count() == said {
        together(kind, properties, variable, errors, path);
    }
}

/// Errors of properties that are valid one by one, if those that are compared are literals.
fn together(kind: Kind, properties: &Expr, variable: Option<&str>, errors: &mut Sink, path: &mut Path) {
    let is_flow_rule = kind == Kind::FlowRule;
    if !is_flow_rule && !matches!(kind, Kind::Intent | Kind::TopologyHost | Kind::TopologyLink) {
        return;
    }
    let sketch = without(properties.sketch(), variable);
    let checked = if is_flow_rule {
        crate::types::check_flow_rule(&sketch)
    } else if has_null(&sketch) {
        return;
    } else {
        crate::types::spec(kind, &sketch).map(drop)
    };
    if let Err(error) = checked {
        let mut below = path.as_str().to_owned();
        error.steps.iter().for_each(|step| step.push(&mut below));
        errors.push(place(properties, &error.steps), &below, &error.message);
    }
}

/// The value with null in place of texts that are not known yet.
fn without(sketch: Value, variable: Option<&str>) -> Value {
    let Some(variable) = variable else { return sketch };
    match sketch {
        Value::String(text) if text.contains(variable) => Value::Null,
        Value::Array(items) => items.into_iter().map(|item| without(item, Some(variable))).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, without(value, Some(variable)))).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

impl Template {
    /// An error about a resource or one of its properties, with its place.
    pub fn error(&self, index: usize, property: Option<&str>, message: &str) -> Error {
        let steps = property.map(|name| Step::Key(name.into()));
        self.error_below(index, steps.as_slice(), message)
    }

    /// An error of [`crate::spec`] or [`crate::node`], with its place.
    pub fn property_error(&self, index: usize, error: &PropertyError) -> Error {
        self.error_below(index, &error.steps, &error.message)
    }

    /// An error about a value below the properties of a resource.
    pub(crate) fn error_at(&self, index: usize, way: &[&str], message: &str) -> Error {
        let steps: Vec<Step> = way.iter().map(|step| Step::Key((*step).into())).collect();
        self.error_below(index, &steps, message)
    }

    /// An error about no place.
    pub(crate) fn error_of_all(&self, message: &str) -> Error {
        Error::new(&self.file, Place::default(), "", message)
    }

    pub(crate) fn error_below(&self, index: usize, steps: &[Step], message: &str) -> Error {
        let resource = &self.resources[index];
        let mut path = String::from("resources");
        push_key(&mut path, &resource.name);
        let mut at = resource.at;
        if !steps.is_empty() {
            push_key(&mut path, "properties");
            steps.iter().for_each(|step| step.push(&mut path));
            // A missing property has no place of its own.
            if let Step::Key(key) = &steps[0]
                && resource.properties.entry(key).is_some()
            {
                at = place(&resource.properties, steps);
            }
        }
        Error::new(&self.file, at, &path, message)
    }
}

/// The place that the steps lead to, or the last one on the way that is in the text.
fn place(mut expr: &Expr, steps: &[Step]) -> Place {
    for step in steps {
        let next = match (step, &expr.kind) {
            (Step::Key(key), _) => expr.entry(key).map(|entry| &entry.value),
            (Step::Item(index), ExprKind::List(items)) => items.get(*index),
            (Step::Item(_), _) => None,
        };
        match next {
            Some(next) => expr = next,
            None => break,
        }
    }
    expr.at
}
