//! The syntax of conditions, and of `if`, which evaluates one. `render/condition.rs` says what holds.
//!
//! As in Heat, `and`, `equals`, `not` and `or` are functions in the place of a condition, and data anywhere
//! else: such a map is read as data, and becomes a call here.

use crate::build::{Reader, number};
use crate::expression::{Call, Entry, Expr, ExprKind, Logic};

/// Whether the function gives true or false and is only allowed as a condition.
pub(super) fn is_condition(name: &str) -> bool {
    matches!(name, "and" | "equals" | "not" | "or")
}

/// Reads a condition: a name, true or false, or a function.
pub(crate) fn condition(reader: &mut Reader<'_>, value: Expr) -> Expr {
    let value = called(reader, value);
    let at = value.at;
    match value.kind {
        ExprKind::Text(name) => {
            let condition = number(&mut reader.conditions, name);
            Expr::new(at, ExprKind::Call(Box::new(Call::Condition { condition })))
        }
        ExprKind::Bool(_) | ExprKind::Call(_) | ExprKind::Invalid => value,
        ref kind @ (ExprKind::Null | ExprKind::Number(_) | ExprKind::List(_) | ExprKind::Map(_)) => {
            let is_nothing = matches!(kind, ExprKind::Null);
            let said = if is_nothing { "nothing" } else { value.describe() };
            reader.error(at, format!("want the name of a condition, true, false or a function, got {said}"));
            Expr::new(at, ExprKind::Invalid)
        }
    }
}

/// The call of a condition that was read as a map; any other value is unchanged.
fn called(reader: &mut Reader<'_>, value: Expr) -> Expr {
    let at = value.at;
    if !matches!(&value.kind, ExprKind::Map(entries) if matches!(&**entries, [entry] if is_condition(&entry.key)))
    {
        return value;
    }
    let ExprKind::Map(entries) = value.kind else { return value };
    let Some(Entry { key, value, .. }) = entries.into_iter().next() else {
        return Expr::new(at, ExprKind::Invalid);
    };
    let before = reader.path.key(&key);
    let argument = if &*key == "equals" { compared(reader, value) } else { value };
    let call = super::call(reader, &key, argument, at);
    reader.path.leave(before);
    Expr::new(at, call.map_or(ExprKind::Invalid, |call| ExprKind::Call(Box::new(call))))
}

/// Reads a compared value, which may contain conditions.
fn compared(reader: &mut Reader<'_>, value: Expr) -> Expr {
    let value = called(reader, value);
    let kind = match value.kind {
        ExprKind::List(items) => {
            let each = |(index, item)| {
                let before = reader.path.item(index);
                let item = compared(reader, item);
                reader.path.leave(before);
                item
            };
            ExprKind::List(items.into_iter().enumerate().map(each).collect())
        }
        ExprKind::Map(entries) => {
            let each = |entry: Entry| {
                let before = reader.path.key(&entry.key);
                let value = compared(reader, entry.value);
                reader.path.leave(before);
                Entry { value, ..entry }
            };
            ExprKind::Map(entries.into_iter().map(each).collect())
        }
        kind @ (ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid) => kind,
    };
    Expr::new(value.at, kind)
}

pub(super) fn choice(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    const WANTED: &str = "[CONDITION, VALUE, OTHERWISE]";
    let at = argument.at;
    let ExprKind::List(items) = argument.kind else {
        reader.error(at, format!("want {WANTED}, got {}", argument.describe()));
        return None;
    };
    if !(2..=3).contains(&items.len()) {
        let number = if items.len() < 2 { "few" } else { "many" };
        reader.error(at, format!("want {WANTED}, got too {number} items"));
        return None;
    }
    let mut items = items.into_iter();
    let before = reader.path.item(0);
    let condition = condition(reader, items.next()?);
    reader.path.leave(before);
    Some(Call::If { condition, values: items.collect() })
}

pub(super) fn logic(reader: &mut Reader<'_>, name: &str, argument: Expr) -> Option<Call> {
    let operator = match name {
        "and" => Logic::And,
        "or" => Logic::Or,
        _ => Logic::Not,
    };
    if operator == Logic::Not {
        let conditions = Box::new([condition(reader, argument)]);
        return Some(Call::Logic { operator, conditions });
    }
    let at = argument.at;
    let items = match argument.kind {
        ExprKind::List(items) if items.len() >= 2 => items,
        ExprKind::List(_) => {
            reader.error(at, format!("'{name}' wants at least two conditions"));
            return None;
        }
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Map(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => {
            reader.error(at, format!("want a list of conditions, got {}", argument.describe()));
            return None;
        }
    };
    let mut conditions = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let before = reader.path.item(index);
        conditions.push(condition(reader, item));
        reader.path.leave(before);
    }
    Some(Call::Logic { operator, conditions: conditions.into() })
}
