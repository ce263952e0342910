//! The section `parameter_groups`: how parameters are shown to operators.
//!
//! Absent: whether the parameters exist (`resolve/parameter_groups.rs`), and the other sections (`parse.rs`).

use crate::build::{Reader, Stop};
use crate::error::{Place, cut, suggestion};
use crate::expression::{Expr, ExprKind};
use crate::parse::description;

pub(crate) const KEYS: [&str; 3] = ["label", "description", "parameters"];

pub(crate) struct DraftGroup {
    pub label: Option<Box<str>>,
    pub description: Option<Box<str>>,
    pub parameters: Vec<(Box<str>, Place)>,
}

pub(crate) fn groups(reader: &mut Reader<'_>) -> Result<Vec<DraftGroup>, Stop> {
    reader.functions = false;
    let value = reader.expr(1)?;
    reader.functions = true;
    let items = match value.kind {
        ExprKind::List(items) => items,
        ExprKind::Null => return Ok(Vec::new()),
        ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Map(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => {
            reader.error(value.at, format!("want a list of groups, got {}", value.describe()));
            return Ok(Vec::new());
        }
    };
    let mut found = Vec::with_capacity(items.len());
    for (number, item) in items.into_iter().enumerate() {
        let before = reader.path.item(number);
        found.extend(group(reader, item));
        reader.path.leave(before);
    }
    Ok(found)
}

fn group(reader: &mut Reader<'_>, item: Expr) -> Option<DraftGroup> {
    let at = item.at;
    let ExprKind::Map(entries) = item.kind else {
        reader.error(at, format!("want a map with 'parameters', got {}", item.describe()));
        return None;
    };
    let mut group = DraftGroup { label: None, description: None, parameters: Vec::new() };
    let mut named = false;
    for entry in entries {
        let before = reader.path.key(&entry.key);
        match &*entry.key {
            "label" => group.label = description(reader, entry.value),
            "description" => group.description = description(reader, entry.value),
            "parameters" => {
                named = true;
                group.parameters = names(reader, entry.value);
            }
            key => {
                let near = suggestion(key, KEYS);
                reader.error(entry.at, format!("unknown key '{}' of a group{near}", cut(key)));
            }
        }
        reader.path.leave(before);
    }
    if !named {
        reader.error(at, "a group needs 'parameters', a list of their names");
    }
    Some(group)
}

fn names(reader: &mut Reader<'_>, value: Expr) -> Vec<(Box<str>, Place)> {
    let ExprKind::List(items) = value.kind else {
        reader.error(value.at, format!("want a list of parameters, got {}", value.describe()));
        return Vec::new();
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match item.kind {
            ExprKind::Text(name) => found.push((name, item.at)),
            ExprKind::Number(number) => found.push((number.to_string().into(), item.at)),
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::List(_)
            | ExprKind::Map(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => {
                reader.error(item.at, format!("want a parameter's name, got {}", item.describe()))
            }
        }
    }
    found
}
