//! The operators of yaql. Their precedence is in `parse.rs`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use regex::Regex;

use super::evaluate::{Evaluated, Evaluator};
use super::regex::{matches, pattern};
use super::value::{Form, Key, Y};

pub(super) fn unary(operator: &str, of: &Y) -> Evaluated {
    match (operator, of) {
        ("not", _) => Ok(Y::Bool(!of.is_true())),
        ("+", Y::Int(_) | Y::Float(_)) => Ok(of.clone()),
        (_, Y::Int(n)) => n.checked_neg().map(Y::Int).ok_or_else(too_large),
        (_, Y::Float(n)) => Ok(Y::Float(-n)),
        _ => Err(format!("yaql: '{operator}' wants a number, got {}", of.describe())),
    }
}

pub(super) fn binary(evaluator: &Evaluator, operator: &str, left: &Y, right: &Y) -> Evaluated {
    if matches!(operator, "-" | "<" | ">" | "<=" | ">=")
        && let Some(sets) = sets(left, right)
    {
        return of_sets(evaluator, operator, sets);
    }
    match operator {
        "=" | "!=" => {
            evaluator.compared(left)?;
            Ok(Y::Bool(left.equals(right) == (operator == "=")))
        }
        "in" => contains(evaluator, right, left).map(Y::Bool),
        "=~" | "!~" => {
            let regex: Regex = pattern(right)?;
            matches(evaluator, &regex, left).map(|found| Y::Bool(found == (operator == "=~")))
        }
        "<" | ">" | "<=" | ">=" => {
            let order = ordered(left, right)?;
            Ok(Y::Bool(match operator {
                "<" => order == Ordering::Less,
                ">" => order == Ordering::Greater,
                "<=" => order != Ordering::Greater,
                _ => order != Ordering::Less,
            }))
        }
        "+" => plus(evaluator, left, right),
        "*" => times(evaluator, left, right),
        _ => arithmetic(operator, left, right),
    }
}

/// The items of two sets.
fn sets<'y>(left: &'y Y, right: &'y Y) -> Option<[&'y [Y]; 2]> {
    match (left, right) {
        (Y::List(left), Y::List(right)) => Some([left.set()?, right.set()?]),
        _ => None,
    }
}

/// The difference of two sets, or whether one is a part of the other.
fn of_sets(evaluator: &Evaluator, operator: &str, [left, right]: [&[Y]; 2]) -> Evaluated {
    left.iter().chain(right).try_for_each(|item| evaluator.compared(item))?;
    let [lefts, rights] = [left, right].map(|set| set.iter().cloned().map(Key).collect::<BTreeSet<Key>>());
    Ok(Y::Bool(match operator {
        "<" => left.len() < right.len() && lefts.is_subset(&rights),
        "<=" => lefts.is_subset(&rights),
        ">" => left.len() > right.len() && rights.is_subset(&lefts),
        ">=" => rights.is_subset(&lefts),
        _ => {
            let stays: Vec<&Y> = lefts.difference(&rights).map(|Key(item)| item).collect();
            return evaluator.set(stays.into_iter());
        }
    }))
}

/// The order of two numbers or two texts.
pub(super) fn ordered(left: &Y, right: &Y) -> Result<Ordering, String> {
    match (left, right) {
        (Y::Int(_) | Y::Float(_) | Y::Bool(_), Y::Int(_) | Y::Float(_) | Y::Bool(_))
        | (Y::Text(_), Y::Text(_)) => Ok(left.total(right)),
        // As in yaql, null comes before anything.
        (Y::Null, _) | (_, Y::Null) => Ok((!matches!(left, Y::Null)).cmp(&!matches!(right, Y::Null))),
        _ => Err(format!("yaql: {} and {} are in no order", left.describe(), right.describe())),
    }
}

pub(super) fn contains(evaluator: &Evaluator, whole: &Y, part: &Y) -> Result<bool, String> {
    match (whole, part) {
        (Y::List(list), _) => {
            evaluator.compared(whole)?;
            Ok(list.items.iter().any(|item| item.equals(part)))
        }
        (Y::Text(text), Y::Text(part)) => {
            evaluator.step(text.len() / 64)?;
            Ok(text.contains(&**part))
        }
        _ => Err(format!("yaql: {} cannot be in {}", part.describe(), whole.describe())),
    }
}

pub(super) fn plus(evaluator: &Evaluator, left: &Y, right: &Y) -> Evaluated {
    match (left, right) {
        (Y::Text(a), Y::Text(b)) => evaluator.text([&**a, &**b].concat()),
        (Y::List(a), Y::List(b)) => {
            let items = [&*a.items, &*b.items].concat();
            let is_stream = matches!((&a.form, &b.form), (Form::Stream, _) | (_, Form::Stream));
            if is_stream { evaluator.stream(items) } else { evaluator.list(items) }
        }
        (Y::Map(a), Y::Map(b)) => {
            let mut entries = a.entries.clone();
            entries.extend(b.entries.iter().map(|(key, value)| (key.clone(), value.clone())));
            evaluator.map(entries)
        }
        _ => arithmetic("+", left, right),
    }
}

/// A text or a list as often as a number says, or a product.
fn times(evaluator: &Evaluator, left: &Y, right: &Y) -> Evaluated {
    let (whole, count) = match (left, right) {
        (whole @ (Y::Text(_) | Y::List(_)), Y::Int(count))
        | (Y::Int(count), whole @ (Y::Text(_) | Y::List(_))) => {
            (whole, usize::try_from((*count).max(0)).unwrap_or(usize::MAX))
        }
        _ => return arithmetic("*", left, right),
    };
    evaluator.spend(whole.weight().saturating_mul(count))?; // before it is made
    if let Y::List(list) = whole {
        evaluator.step(list.items.len().saturating_mul(count))?;
        let length = list.items.len().saturating_mul(count);
        evaluator.list(list.items.iter().cycle().take(length).cloned().collect())
    } else {
        evaluator.text(whole.shown().repeat(count))
    }
}

pub(super) fn too_large() -> String {
    "yaql: the number is too large".into()
}

fn arithmetic(operator: &str, left: &Y, right: &Y) -> Evaluated {
    let is_zero = matches!(right, Y::Int(0)) || matches!(right, Y::Float(n) if *n == 0.0);
    if is_zero && matches!(operator, "/" | "mod") {
        return Err("yaql: a division by zero".into());
    }
    match (left, right) {
        (Y::Int(a), Y::Int(b)) => match operator {
            "+" => a.checked_add(*b),
            "-" => a.checked_sub(*b),
            "*" => a.checked_mul(*b),
            // Rounds down, as in Python.
            "/" => Some(a.div_euclid(*b) - i128::from(*b < 0 && a.rem_euclid(*b) != 0)),
            _ => Some(modulo(*a, *b)),
        }
        // Far from overflow in the next sum, and larger than any value of a template.
        .filter(|n| n.unsigned_abs() <= u128::from(u64::MAX))
        .map(Y::Int)
        .ok_or_else(too_large),
        (Y::Int(_) | Y::Float(_), Y::Int(_) | Y::Float(_)) => {
            let (a, b) = (left.float(), right.float());
            let made = match operator {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                _ => a - b * (a / b).floor(),
            };
            if made.is_finite() { Ok(Y::Float(made)) } else { Err(too_large()) }
        }
        _ => Err(format!("yaql: '{operator}' of {} and {}", left.describe(), right.describe())),
    }
}

/// The result has the sign of `b`, as in Python.
fn modulo(a: i128, b: i128) -> i128 {
    let rest = a.rem_euclid(b);
    if b < 0 && rest != 0 { rest + b } else { rest }
}
