//! The functions of yaql over numbers and booleans.

use std::cmp::Ordering;

use super::arguments::Arguments;
use super::collection::is;
use super::evaluate::Evaluated;
use super::operator::ordered;
use super::value::Y;

/// `None`: the function is not of this kind.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    Some(match args.name {
        "int" => args.want(1, 1).and_then(|()| int(args)),
        "float" => args.want(1, 1).and_then(|()| float(args)),
        "bool" => args.want(1, 1).and_then(|()| args.value(0).map(|value| Y::Bool(value.is_true()))),
        "abs" => args.want(1, 1).and_then(|()| match args.value(0)? {
            Y::Int(n) => Ok(Y::Int(n.abs())),
            Y::Float(n) => Ok(Y::Float(n.abs())),
            other => Err(args.wants("a number", &other)),
        }),
        "sign" => args.want(1, 1).and_then(|()| match args.value(0)? {
            Y::Int(n) => Ok(Y::Int(n.signum())),
            Y::Float(n) => Ok(Y::Int(i128::from(n > 0.0) - i128::from(n < 0.0))),
            other => Err(args.wants("a number", &other)),
        }),
        "round" => args.want(1, 2).and_then(|()| round(args)),
        "min" | "max" => args.want(2, 2).and_then(|()| {
            let (a, b) = (args.value(0)?, args.value(1)?);
            let wanted = if args.name == "max" { Ordering::Greater } else { Ordering::Less };
            Ok(if ordered(&b, &a)? == wanted { b } else { a })
        }),
        "isInteger" => is(args, |value| matches!(value, Y::Int(_))),
        "isNumber" => is(args, |value| matches!(value, Y::Int(_) | Y::Float(_))),
        "isBoolean" => is(args, |value| matches!(value, Y::Bool(_))),
        _ => return None,
    })
}

fn int(args: &Arguments<'_>) -> Evaluated {
    match args.value(0)? {
        Y::Null => Ok(Y::Int(0)),
        Y::Int(n) => Ok(Y::Int(n)),
        Y::Bool(on) => Ok(Y::Int(i128::from(on))),
        // Within the range of a template's numbers.
        Y::Float(n) if n.abs() < 1e19 => Ok(Y::Int(n.trunc() as i128)),
        Y::Text(text) => match text.trim().parse::<i64>() {
            Ok(n) => Ok(Y::Int(n.into())),
            Err(_) => Err("yaql: 'int' wants a number, got other text".into()),
        },
        other => Err(args.wants("a number or text", &other)),
    }
}

fn float(args: &Arguments<'_>) -> Evaluated {
    match args.value(0)? {
        Y::Null => Ok(Y::Float(0.0)),
        Y::Bool(on) => Ok(Y::Float(f64::from(u8::from(on)))),
        value @ (Y::Int(_) | Y::Float(_)) => Ok(Y::Float(value.float())),
        Y::Text(text) => match text.trim().parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Y::Float(n)),
            _ => Err("yaql: 'float' wants a number, got other text".into()),
        },
        other => Err(args.wants("a number or text", &other)),
    }
}

/// Rounds halves to the even neighbour, as in Python 3.
fn round(args: &Arguments<'_>) -> Evaluated {
    let digits = if args.count() > 1 { args.int(1)? } else { 0 };
    match args.value(0)? {
        Y::Int(n) => Ok(Y::Int(n)),
        Y::Float(n) => {
            let factor = 10f64.powi(i32::try_from(digits.clamp(-300, 300)).unwrap_or(0));
            let rounded = (n * factor).round_ties_even() / factor;
            Ok(Y::Float(if rounded.is_finite() { rounded } else { n }))
        }
        other => Err(args.wants("a number", &other)),
    }
}
