//! What can be said about a resource's properties before any value is known.

use serde_json::Value;

use crate::error::{Path, Place, Sink};
use crate::expression::{Expr, ExprKind};
use crate::render::Step;
use crate::types::Kind;

/// Unknown names, missing ones, and values that no rendering can make right. `at` is the resource's own place.
pub(crate) fn properties(kind: Kind, properties: &Expr, at: Place, errors: &mut Sink, path: &mut Path) {
    let ExprKind::Map(entries) = &properties.kind else { return };
    for entry in entries {
        let before = path.key(&entry.key);
        match kind.property(&entry.key) {
            Err(message) => errors.push(entry.at, path.as_str(), message),
            // A sketch of null is a function's value, or none was given.
            Ok(property) => match entry.value.sketch() {
                Value::Null => {}
                sketch => {
                    if let Err(error) = (property.check)(&sketch) {
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
    for property in kind.properties().iter().filter(|property| property.required) {
        if properties.entry(property.name).is_none_or(|entry| matches!(entry.value.kind, ExprKind::Null)) {
            errors.push(at, path.as_str(), format!("{} needs the property '{}'", kind.name(), property.name));
        }
    }
}

/// Where the steps lead, or the last place on the way that is in the text.
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
