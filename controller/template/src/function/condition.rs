//! Conditions, and `if`, which asks one.

use crate::build::{Reader, number};
use crate::expression::{Call, Expr, ExprKind, Logic};

/// What stands where a condition belongs: its name, true or false, or a function.
pub(crate) fn condition(reader: &mut Reader<'_>, value: Expr) -> Expr {
    let at = value.at;
    match value.kind {
        ExprKind::Text(name) => {
            let condition = number(&mut reader.conditions, name);
            Expr::new(at, ExprKind::Call(Box::new(Call::Condition { condition })))
        }
        ExprKind::Bool(_) | ExprKind::Call(_) | ExprKind::Invalid => value,
        ref kind => {
            let is_nothing = matches!(kind, ExprKind::Null);
            let said = if is_nothing { "nothing" } else { value.describe() };
            reader.error(at, format!("want the name of a condition, true, false or a function, got {said}"));
            Expr::new(at, ExprKind::Invalid)
        }
    }
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
        _ => {
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
