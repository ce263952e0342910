//! Finds the hidden parameters: those that a template marks as hidden, nested templates included.

use std::collections::BTreeSet;

use serde_json::Value;

/// The hidden parameters of a template.
pub fn names(template: &Value) -> BTreeSet<String> {
    let parameters = template.get("parameters").and_then(Value::as_object).into_iter().flatten();
    let is_hidden = |definition: &Value| match definition.get("hidden") {
        Some(Value::Bool(hidden)) => *hidden,
        Some(Value::String(text)) => {
            matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1" | "t" | "y")
        }
        Some(Value::Number(number)) => number.as_i64() == Some(1),
        _ => false,
    };
    parameters.filter(|(_, definition)| is_hidden(definition)).map(|(name, _)| name.clone()).collect()
}
