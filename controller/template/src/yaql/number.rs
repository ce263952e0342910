//! The functions of yaql over numbers and booleans.

use std::cmp::Ordering;

use super::arguments::Arguments;
use super::collection::is;
use super::evaluate::Evaluated;
use super::operator::{ordered, too_large};
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
            other @ (Y::Null | Y::Bool(_) | Y::Text(_) | Y::List(_) | Y::Map(_) | Y::Regex(_)) => {
                Err(args.wants("a number", &other))
            }
        }),
        "sign" => args.want(1, 1).and_then(|()| match args.value(0)? {
            Y::Int(n) => Ok(Y::Int(n.signum())),
            Y::Float(n) => Ok(Y::Int(i128::from(n > 0.0) - i128::from(n < 0.0))),
            other @ (Y::Null | Y::Bool(_) | Y::Text(_) | Y::List(_) | Y::Map(_) | Y::Regex(_)) => {
                Err(args.wants("a number", &other))
            }
        }),
        "round" => args.want(1, 2).and_then(|()| round(args)),
        "min" | "max" => args.want(2, 2).and_then(|()| {
            let (a, b) = (args.value(0)?, args.value(1)?);
            let wanted = if args.name == "max" { Ordering::Greater } else { Ordering::Less };
            Ok(if ordered(&b, &a)? == wanted { b } else { a })
        }),
        "pow" => args.want(2, 3).and_then(|()| power(args)),
        "hex" => args.want(1, 1).and_then(|()| {
            let n = args.int(0)?;
            let sign = if n < 0 { "-" } else { "" };
            args.evaluator.text(format!("{sign}0x{:x}", n.unsigned_abs()))
        }),
        "bitwiseNot" => args.want(1, 1).and_then(|()| args.int(0)).map(|n| Y::Int(!n)),
        "bitwiseAnd" | "bitwiseOr" | "bitwiseXor" | "shiftBitsLeft" | "shiftBitsRight" => {
            args.want(2, 2).and_then(|()| bits(args))
        }
        "isInteger" => is(args, |value| matches!(value, Y::Int(_))),
        "isNumber" => is(args, |value| matches!(value, Y::Int(_) | Y::Float(_))),
        "isBoolean" => is(args, |value| matches!(value, Y::Bool(_))),
        _ => return None,
    })
}

/// The largest number of bits that a number is shifted by, and the largest whole exponent: beyond it nothing fits.
const BITS: u32 = 64;

fn bits(args: &Arguments<'_>) -> Evaluated {
    let (a, b) = (args.int(0)?, args.int(1)?);
    let shift = || u32::try_from(b).map_err(|_| "yaql: a shift by a negative number".to_owned());
    let made = match args.name {
        "bitwiseAnd" => Some(a & b),
        "bitwiseOr" => Some(a | b),
        "bitwiseXor" => Some(a ^ b),
        "shiftBitsLeft" => Some(shift()?).filter(|by| *by < BITS).and_then(|by| a.checked_mul(1i128 << by)),
        _ => Some(a >> shift()?.min(BITS * 2 - 1)),
    };
    made.filter(|n| n.unsigned_abs() <= u128::from(u64::MAX)).map(Y::Int).ok_or_else(too_large)
}

fn power(args: &Arguments<'_>) -> Evaluated {
    if args.count() > 2 {
        let (mut base, mut exponent, modulus) = (args.int(0)?, args.int(1)?, args.int(2)?);
        if modulus == 0 || exponent < 0 {
            return Err("yaql: 'pow' wants an exponent from 0 on, and a modulus that is not 0".into());
        }
        let mut made = 1 % modulus;
        while exponent > 0 {
            args.evaluator.step(1)?;
            if exponent % 2 == 1 {
                made = (made * base).rem_euclid(modulus);
            }
            base = (base * base).rem_euclid(modulus);
            exponent /= 2;
        }
        return Ok(Y::Int(made));
    }
    match (args.value(0)?, args.value(1)?) {
        (Y::Int(base), Y::Int(exponent)) if exponent >= 0 => {
            let exponent = u32::try_from(exponent).map_err(|_| too_large())?;
            let made = base.checked_pow(exponent).filter(|n| n.unsigned_abs() <= u128::from(u64::MAX));
            made.map(Y::Int).ok_or_else(too_large)
        }
        (base @ (Y::Int(_) | Y::Float(_)), exponent @ (Y::Int(_) | Y::Float(_))) => {
            let made = base.float().powf(exponent.float());
            if made.is_finite() { Ok(Y::Float(made)) } else { Err(too_large()) }
        }
        (base, _) => Err(args.wants("numbers", &base)),
    }
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
        other @ (Y::Float(_) | Y::List(_) | Y::Map(_) | Y::Regex(_)) => {
            Err(args.wants("a number or text", &other))
        }
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
        other @ (Y::List(_) | Y::Map(_) | Y::Regex(_)) => Err(args.wants("a number or text", &other)),
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
        other @ (Y::Null | Y::Bool(_) | Y::Text(_) | Y::List(_) | Y::Map(_) | Y::Regex(_)) => {
            Err(args.wants("a number", &other))
        }
    }
}
