//! The syntax of `repeat`, and of the functions that depend on one value alone. `render/repeat.rs` and
//! `render/plain.rs` compute their values.

use super::keys_in;
use crate::build::Reader;
use crate::expression::{Call, Expr, ExprKind, Plain};
use crate::render::plain::{Wrong, apply};

pub(super) fn repeat(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    let keys = ["template", "for_each", "permutations"];
    let [template, for_each, permutations] = keys_in(reader, "repeat", argument, keys, 2)?;
    let (template, for_each) = (template?, for_each?);
    let permutations = match permutations.map(|expr| (expr.at, expr.kind)) {
        None => None,
        Some((_, ExprKind::Bool(value))) => Some(value),
        Some((at, kind)) => {
            let message =
                format!("want true or false as 'permutations', got {}", Expr::new(at, kind).describe());
            reader.error(at, message);
            return None;
        }
    };
    let ExprKind::Map(entries) = &for_each.kind else {
        if !for_each.is_open() {
            reader.error(for_each.at, format!("want a map as 'for_each', got {}", for_each.describe()));
            return None;
        }
        return Some(Call::Repeat { template, for_each, permutations: permutations.unwrap_or(true) });
    };
    let said = reader.errors.count();
    if entries.is_empty() {
        reader.error(for_each.at, "'for_each' needs at least one text with a list");
    }
    for entry in entries {
        let value = &entry.value;
        if entry.key.is_empty() {
            reader.error(entry.at, "an empty text cannot be replaced");
        }
        match &value.kind {
            ExprKind::List(_) | ExprKind::Null => {}
            ExprKind::Map(_) if permutations != Some(false) => {}
            _ if value.is_open() => {}
            ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_)
            | ExprKind::Map(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => {
                let before = reader.path.key("for_each");
                reader.path.key(&entry.key);
                reader.error(
                    value.at,
                    format!("want a list or a map to repeat over, got {}", value.describe()),
                );
                reader.path.leave(before);
            }
        }
    }
    (reader.errors.count() == said).then_some(Call::Repeat {
        template,
        for_each,
        permutations: permutations.unwrap_or(true),
    })
}

pub(super) fn plain(reader: &mut Reader<'_>, function: Plain, argument: Expr) -> Option<Call> {
    // A literal argument is wrong for all values of parameters.
    let wrong = if argument.is_literal() {
        apply(function, argument.sketch(), usize::MAX).err()
    } else {
        shape(function, &argument).map(|message| Wrong { item: None, message })
    };
    let Some(Wrong { item, message }) = wrong else { return Some(Call::Plain { function, argument }) };
    let at = match (&argument.kind, item) {
        (ExprKind::List(items), Some(index)) => items.get(index).map_or(argument.at, |item| item.at),
        _ => argument.at,
    };
    let before = reader.path.item(item.unwrap_or_default());
    if item.is_none() {
        reader.path.leave(before);
    }
    reader.error(at, message);
    reader.path.leave(before);
    None
}

/// The error in the form of an argument whose parts are not known yet.
fn shape(function: Plain, argument: &Expr) -> Option<String> {
    let (wanted, least, most) = match function {
        Plain::Contains => ("[VALUE, LIST]", 2, 2),
        Plain::Digest => ("[ALGORITHM, TEXT]", 2, 2),
        Plain::Equals => ("[VALUE, VALUE]", 2, 2),
        Plain::Filter => ("[VALUES, LIST]", 2, 2),
        Plain::MapReplace => ("[MAP, {keys: …, values: …}]", 2, 2),
        Plain::StrSplit => ("[DELIMITER, TEXT, INDEX]", 2, 3),
        Plain::ListConcat | Plain::ListConcatUnique | Plain::MapMerge => ("a list", 0, usize::MAX),
        Plain::MakeUrl => {
            return (!argument.is_open()).then(|| crate::render::url::unknown_part(argument)).flatten();
        }
    };
    match &argument.kind {
        ExprKind::List(items) if (least..=most).contains(&items.len()) => None,
        ExprKind::List(items) => {
            let number = if items.len() < least { "few" } else { "many" };
            Some(format!("want {wanted}, got too {number} items"))
        }
        ExprKind::Call(_) | ExprKind::Invalid => None,
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Map(_) => {
            Some(format!("want {wanted}, got {}", argument.describe()))
        }
    }
}
