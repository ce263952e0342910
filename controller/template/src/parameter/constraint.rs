//! `constraints` of a parameter: what its values must be beyond its type.

use serde_json::{Number, Value};

use super::ParameterType;
use super::custom::Custom;
use super::pattern::Pattern;
use crate::Limits;
use crate::build::Reader;
use crate::error::{cut, suggestion, suggestion_or_all};
use crate::expression::{Entry, Expr, ExprKind};
use crate::render::plain::same;
use crate::text::text_of;
use crate::version::Version;

/// An item of `constraints`.
#[derive(Clone, Debug)]
pub(crate) struct Constraint {
    rule: Rule,
    /// The template's text, in place of our error.
    description: Option<Box<str>>,
}

#[derive(Clone, Debug)]
enum Rule {
    /// Characters, items or entries.
    Length {
        min: Option<u64>,
        max: Option<u64>,
    },
    Range {
        min: Option<Number>,
        max: Option<Number>,
    },
    Modulo {
        step: i64,
        offset: i64,
    },
    /// Already converted to the parameter's type.
    AllowedValues(Vec<Value>),
    /// The pattern, with its text.
    AllowedPattern(Pattern, Box<str>),
    Custom(Custom),
}

pub(crate) const RULES: [&str; 6] =
    ["length", "range", "modulo", "allowed_values", "allowed_pattern", "custom_constraint"];
/// The most constraints in a warning that they are not checked: Heat has 65.
const UNCHECKED_MAX: usize = 100;
/// The most allowed values in one message.
const SHOWN: usize = 10;

impl Constraint {
    /// The reason why the value is not allowed; `None` if it is. A hidden value is not shown.
    pub fn refusal(&self, value: &Value, hidden: bool) -> Option<String> {
        let wanted = self.rule.wanted(value)?;
        if let Some(description) = &self.description {
            return Some(description.to_string());
        }
        let shown = text_of(value);
        let got = match &self.rule {
            Rule::Length { .. } => format!(", got {}", length(value)),
            _ if hidden => String::new(),
            Rule::Range { .. }
            | Rule::Modulo { .. }
            | Rule::AllowedValues(_)
            | Rule::AllowedPattern(..)
            | Rule::Custom(_) => format!(", got '{}'", cut(&shown)),
        };
        let near = if let Rule::AllowedValues(allowed) = &self.rule
            && !hidden
        {
            let texts: Vec<String> = allowed.iter().map(|value| text_of(value).into_owned()).collect();
            suggestion(&shown, texts.iter().map(String::as_str))
        } else {
            String::new()
        };
        Some(format!("want {wanted}{got}{near}"))
    }
}

impl Rule {
    /// The expected value, if this one differs.
    fn wanted(&self, value: &Value) -> Option<String> {
        match self {
            Rule::Length { min, max } => {
                let length = length(value);
                let fits = min.is_none_or(|min| length >= min) && max.is_none_or(|max| length <= max);
                (!fits).then(|| format!("{} {}", bounds(min.as_ref(), max.as_ref()), unit(value)))
            }
            Rule::Range { min, max } => {
                let fits = min.as_ref().is_none_or(|min| !is_less(value, min))
                    && max.as_ref().is_none_or(|max| !is_more(value, max));
                (!fits).then(|| bounds(min.as_ref(), max.as_ref()))
            }
            Rule::Modulo { step, offset } => (!is_step(value, *step, *offset))
                .then(|| format!("a multiple of {step} with an offset of {offset}")),
            Rule::AllowedValues(allowed) => {
                let is_allowed = |value: &Value| allowed.iter().any(|known| same(known, value));
                let fits = if let Value::Array(items) = value {
                    items.iter().all(is_allowed)
                } else {
                    is_allowed(value)
                };
                (!fits).then(|| {
                    let shown: Vec<_> = allowed.iter().take(SHOWN).map(text_of).collect();
                    let more = if allowed.len() > SHOWN { ", …" } else { "" };
                    let all = if value.is_array() { "only " } else { "one of " };
                    format!("{all}{}{more}", shown.join(", "))
                })
            }
            Rule::AllowedPattern(compiled, pattern) => {
                let fits = compiled.is_whole(&text_of(value));
                (!fits).then(|| format!("text that matches '{}'", cut(pattern)))
            }
            Rule::Custom(custom) => {
                let fits = if let Value::Array(items) = value {
                    items.iter().all(|item| custom.allows(&text_of(item)))
                } else {
                    custom.allows(&text_of(value))
                };
                (!fits).then(|| custom.wanted().to_owned())
            }
        }
    }
}

fn length(value: &Value) -> u64 {
    let length = match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            text_of(other).chars().count()
        }
    };
    length as u64
}

fn unit(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "items",
        Value::Object(_) => "keys",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => "characters",
    }
}

fn bounds<T: std::fmt::Display>(min: Option<&T>, max: Option<&T>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "anything".into(),
    }
}

/// The number of a value; true is 1, as in Python.
fn number_of(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::Bool(value) => Some(Number::from(u8::from(*value))),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Compares whole numbers exactly; others as floats.
fn compared(value: &Value, bound: &Number) -> Option<std::cmp::Ordering> {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let number = number_of(value)?;
    match (whole(&number), whole(bound)) {
        (Some(number), Some(bound)) => Some(number.cmp(&bound)),
        _ => number.as_f64()?.partial_cmp(&bound.as_f64()?),
    }
}

fn is_less(value: &Value, bound: &Number) -> bool {
    compared(value, bound) == Some(std::cmp::Ordering::Less)
}

fn is_more(value: &Value, bound: &Number) -> bool {
    compared(value, bound) == Some(std::cmp::Ordering::Greater)
}

fn is_step(value: &Value, step: i64, offset: i64) -> bool {
    let Some(number) = number_of(value) else { return true };
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole, number.as_f64()) {
        (Some(number), _) => (number - i128::from(offset)) % i128::from(step) == 0,
        (None, Some(number)) => (number - offset as f64) % step as f64 == 0.0,
        (None, None) => true,
    }
}

pub(super) fn read(reader: &mut Reader<'_>, kind: ParameterType, value: Expr) -> Vec<Constraint> {
    let items = match value.kind {
        ExprKind::List(items) => items,
        ExprKind::Null => return Vec::new(),
        ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Map(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => {
            reader.error(value.at, format!("want a list of constraints, got {}", value.describe()));
            return Vec::new();
        }
    };
    let mut found = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let before = reader.path.item(index);
        found.extend(one(reader, kind, item));
        reader.path.leave(before);
    }
    found
}

fn one(reader: &mut Reader<'_>, kind: ParameterType, item: Expr) -> Option<Constraint> {
    let at = item.at;
    let ExprKind::Map(entries) = item.kind else {
        reader.error(at, format!("want a map such as {{length: {{max: 8}}}}, got {}", item.describe()));
        return None;
    };
    let (mut rules, mut description) = (Vec::new(), None);
    for entry in entries {
        match &*entry.key {
            "description" => description = crate::parse::description(reader, entry.value),
            key if RULES.contains(&key) => rules.push(entry),
            key => {
                let near = suggestion_or_all(key, &RULES);
                reader.error(entry.at, format!("unknown constraint '{}'{near}", cut(key)));
                return None;
            }
        }
    }
    if rules.len() > 1 {
        let message = format!(
            "'{}' and '{}' are two constraints: each is an item of its own",
            rules[0].key, rules[1].key
        );
        reader.error(rules[1].at, message);
        return None;
    }
    let Some(entry) = rules.pop() else {
        reader.error(at, format!("a constraint is missing; known are {}", RULES.join(", ")));
        return None;
    };
    let before = reader.path.key(&entry.key);
    let rule = fits(reader, kind, &entry).and_then(|()| rule(reader, kind, &entry));
    reader.path.leave(before);
    Some(Constraint { rule: rule?, description })
}

/// Whether a parameter of this type may have it.
fn fits(reader: &mut Reader<'_>, kind: ParameterType, entry: &Entry) -> Option<()> {
    use ParameterType::{Boolean, CommaDelimitedList, Json, Number, String};
    let types: &[ParameterType] = match &*entry.key {
        "length" => &[String, CommaDelimitedList, Json],
        "range" | "modulo" => &[Number],
        "allowed_values" => &[String, Number, Boolean, CommaDelimitedList],
        "allowed_pattern" => &[String],
        _ => &[String, Number, CommaDelimitedList],
    };
    if types.contains(&kind) {
        return Some(());
    }
    let types: Vec<&str> = types.iter().map(|kind| kind.name()).collect();
    let message =
        format!("'{}' is for parameters of type {}; this is {}", entry.key, types.join(", "), kind.name());
    reader.error(entry.at, message);
    None
}

fn rule(reader: &mut Reader<'_>, kind: ParameterType, entry: &Entry) -> Option<Rule> {
    let value = &entry.value;
    match &*entry.key {
        "length" => {
            let [min, max] = numbers(reader, value, ["min", "max"], false)?;
            let whole = |number: Option<Number>| match number.map(|number| number.as_u64()) {
                Some(None) => Err("want whole numbers from 0 on"),
                Some(number) => Ok(number),
                None => Ok(None),
            };
            match (whole(min), whole(max)) {
                (Ok(min), Ok(max)) => Some(Rule::Length { min, max }),
                (Err(message), _) | (_, Err(message)) => {
                    reader.error(value.at, message);
                    None
                }
            }
        }
        "range" => {
            let [min, max] = numbers(reader, value, ["min", "max"], false)?;
            Some(Rule::Range { min, max })
        }
        "modulo" => {
            reader.needs(entry.at, "'modulo'", Version::Ocata);
            modulo(reader, value)
        }
        "allowed_values" => allowed_values(reader, kind, value),
        "allowed_pattern" => allowed_pattern(reader, value),
        _ => {
            let ExprKind::Text(name) = &value.kind else {
                reader.error(value.at, format!("want the name of a constraint, got {}", value.describe()));
                return None;
            };
            let found = Custom::from_name(name);
            if found == Ok(Custom::Unchecked) && reader.unchecked.len() < UNCHECKED_MAX {
                reader.unchecked.insert(name.clone());
            }
            found.map_err(|message| reader.error(value.at, message)).ok().map(Rule::Custom)
        }
    }
}

/// Reads numbers under two keys; at least one key must be present.
fn numbers(
    reader: &mut Reader<'_>,
    value: &Expr,
    keys: [&str; 2],
    both: bool,
) -> Option<[Option<Number>; 2]> {
    let ExprKind::Map(entries) = &value.kind else {
        let message = format!("want {{{}: …, {}: …}}, got {}", keys[0], keys[1], value.describe());
        reader.error(value.at, message);
        return None;
    };
    let mut found = [None, None];
    for entry in entries {
        let Some(index) = keys.iter().position(|key| *key == &*entry.key) else {
            let near = suggestion_or_all(&entry.key, &keys);
            reader.error(entry.at, format!("unknown key '{}'{near}", cut(&entry.key)));
            return None;
        };
        match ParameterType::Number.convert(&entry.value.sketch()) {
            Ok(Value::Number(number)) => found[index] = Some(number),
            _ if matches!(entry.value.kind, ExprKind::Null) => {}
            _ => {
                let message = format!("want a number, got {}", entry.value.describe());
                reader.error(entry.value.at, message);
                return None;
            }
        }
    }
    let given = found.iter().flatten().count();
    if given == 0 || (both && given < 2) {
        let word = if both { "and" } else { "or" };
        reader.error(value.at, format!("want '{}' {word} '{}'", keys[0], keys[1]));
        return None;
    }
    Some(found)
}

fn modulo(reader: &mut Reader<'_>, value: &Expr) -> Option<Rule> {
    let [step, offset] = numbers(reader, value, ["step", "offset"], true)?;
    let whole = |number: Option<Number>| {
        let number = number?;
        number
            .as_i64()
            .or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64))
    };
    let message = match (whole(step), whole(offset)) {
        (Some(0), _) => "'step' must not be 0",
        (Some(step), Some(offset)) if offset.unsigned_abs() >= step.unsigned_abs() => {
            "'offset' must be smaller than 'step'"
        }
        (Some(step), Some(offset)) if (step < 0) != (offset < 0) && offset != 0 => {
            "'step' and 'offset' must have one sign"
        }
        (Some(step), Some(offset)) => return Some(Rule::Modulo { step, offset }),
        _ => "want whole numbers",
    };
    reader.error(value.at, message);
    None
}

fn allowed_values(reader: &mut Reader<'_>, kind: ParameterType, value: &Expr) -> Option<Rule> {
    let ExprKind::List(items) = &value.kind else {
        reader.error(value.at, format!("want a list of values, got {}", value.describe()));
        return None;
    };
    // Allowed values of a list apply to its items.
    let kind = if kind == ParameterType::CommaDelimitedList { ParameterType::String } else { kind };
    let mut allowed = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match kind.convert(&item.sketch()) {
            Ok(value) => allowed.push(value),
            Err(message) => {
                let before = reader.path.item(index);
                reader.error(item.at, message);
                reader.path.leave(before);
                return None;
            }
        }
    }
    Some(Rule::AllowedValues(allowed))
}

fn allowed_pattern(reader: &mut Reader<'_>, value: &Expr) -> Option<Rule> {
    let ExprKind::Text(pattern) = &value.kind else {
        reader.error(value.at, format!("want a regular expression, got {}", value.describe()));
        return None;
    };
    reader.patterns += 1;
    if reader.patterns > Limits::ALLOWED_PATTERNS {
        let message = format!("a template has at most {} patterns", Limits::ALLOWED_PATTERNS);
        reader.error(value.at, message);
        return None;
    }
    match Pattern::read(pattern) {
        Ok(compiled) => Some(Rule::AllowedPattern(compiled, pattern.clone())),
        Err(why) => {
            reader.error(value.at, format!("the pattern '{}' is not taken: {why}", cut(pattern)));
            None
        }
    }
}
