//! The syntax of functions that make texts, including `yaql`. `render/text.rs` and `render/yaql.rs` compute
//! their values.

use std::sync::Arc;

use super::keys_in;
use crate::build::Reader;
use crate::expression::{Call, Expr, ExprKind, Strictness};
use crate::render::is_true;
use crate::yaql;

pub(super) fn str_replace(reader: &mut Reader<'_>, name: &str, argument: Expr) -> Option<Call> {
    let strictness = match name {
        "str_replace" => Strictness::Lenient,
        "str_replace_strict" => Strictness::Strict,
        _ => Strictness::Very,
    };
    let [template, params] = keys_in(reader, name, argument, ["template", "params"], 2)?;
    let (template, params) = (template?, params?);
    if !matches!(template.kind, ExprKind::Text(_) | ExprKind::Call(_) | ExprKind::Invalid) {
        reader.error(template.at, format!("want text as 'template', got {}", template.describe()));
        return None;
    }
    match &params.kind {
        ExprKind::Map(entries) if entries.iter().any(|entry| entry.key.is_empty()) => {
            reader.error(params.at, "an empty text cannot be replaced");
            None
        }
        ExprKind::Map(_) | ExprKind::Call(_) | ExprKind::Invalid => {
            Some(Call::StrReplace { template, params, strictness })
        }
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::List(_) => {
            reader.error(params.at, format!("want a map as 'params', got {}", params.describe()));
            None
        }
    }
}

pub(super) fn list_join(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    const WANTED: &str = "[DELIMITER, LIST, …]";
    let at = argument.at;
    let ExprKind::List(items) = argument.kind else {
        reader.error(at, format!("want {WANTED}, got {}", argument.describe()));
        return None;
    };
    let mut items = items.into_iter();
    let Some(delimiter) = items.next().filter(|_| items.len() > 0) else {
        reader.error(at, format!("want {WANTED}, got too few items"));
        return None;
    };
    if !matches!(delimiter.kind, ExprKind::Text(_) | ExprKind::Call(_) | ExprKind::Invalid) {
        reader.error(delimiter.at, format!("want text as delimiter, got {}", delimiter.describe()));
        return None;
    }
    let lists: Box<[Expr]> = items.collect();
    for list in &lists {
        let is_empty = list.is_literal() && !is_true(&list.sketch());
        if !matches!(list.kind, ExprKind::List(_) | ExprKind::Call(_) | ExprKind::Invalid) && !is_empty {
            reader.error(list.at, format!("want a list to join, got {}", list.describe()));
            return None;
        }
    }
    Some(Call::ListJoin { delimiter, lists })
}

pub(super) fn yaql(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    let [expression, data] = keys_in(reader, "yaql", argument, ["expression", "data"], 1)?;
    let expression = expression?;
    let data = data.unwrap_or_else(|| Expr::new(expression.at, ExprKind::Map(Box::default())));
    let parsed = match &expression.kind {
        ExprKind::Text(text) => match yaql::parse(text) {
            Ok(parsed) => Some(Arc::new(parsed)),
            Err(message) => {
                let before = reader.path.key("expression");
                reader.error(expression.at, message);
                reader.path.leave(before);
                return None;
            }
        },
        ExprKind::Call(_) | ExprKind::Invalid => None,
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::List(_) | ExprKind::Map(_) => {
            let message = format!("want text as 'expression', got {}", expression.describe());
            reader.error(expression.at, message);
            return None;
        }
    };
    Some(Call::Yaql { expression, data, parsed })
}
