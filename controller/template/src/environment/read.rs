//! Parses the text of one environment: its sections, `parameters` and `parameter_defaults`.
//!
//! Absent: the order of several environments (`controller/template/src/environment.rs`).

use std::collections::BTreeMap;

use super::strategy::{Strategies, Strategy};
use super::{EnvironmentFile, EnvironmentValue, ParsedEnvironment, resource_registry};
use crate::Limits;
use crate::build::{Reader, Stop};
use crate::error::{Errors, Place, Sink, cut, suggestion_or_all};
use crate::expression::ExprKind;
use crate::parse::entries;
use crate::source::{Source, begin, end, too_large};

const SECTIONS: [&str; 4] =
    ["parameters", "parameter_defaults", "parameter_merge_strategies", "resource_registry"];
/// Heat's other sections, with alternatives. They may be present but empty, as Heat prints them.
const REFUSED: [(&str, &str); 2] = [
    ("encrypted_param_names", "a template says which of its parameters are secret: 'hidden: true'"),
    ("event_sinks", "events are had with 'muster stack events --follow'"),
];

/// `file` is its place among the environments of the stack.
pub(super) fn read(from: &EnvironmentFile<'_>, file: usize) -> Result<ParsedEnvironment, Errors> {
    let &EnvironmentFile { name, text, .. } = from;
    let source = Source::new(text);
    if let Some(message) = too_large("the environment", text, Limits::TEXT) {
        let mut errors = Sink::new(name);
        errors.push(Place::default(), "", message);
        return Err(errors.into_errors());
    }
    let (mut reader, mut one, mut read) = read_once(from, file, &source);
    if read.is_err() && reader.is_amendable && source.amend() {
        (reader, one, read) = read_once(from, file, &source);
    }
    one.warnings = std::mem::take(&mut reader.warnings);
    if read.is_ok() && reader.errors.is_empty() { Ok(one) } else { Err(reader.errors.into_errors()) }
}

fn read_once<'t>(
    from: &EnvironmentFile<'_>,
    file: usize,
    source: &'t Source<'_>,
) -> (Reader<'t>, ParsedEnvironment, Result<(), Stop>) {
    let mut reader = Reader::of_heat(from.name, source);
    reader.functions = false; // an environment is data
    let mut one = ParsedEnvironment::default();
    let read = document(&mut reader, &mut one, from.key, file);
    (reader, one, read)
}

fn document(
    reader: &mut Reader<'_>,
    one: &mut ParsedEnvironment,
    own_key: &str,
    file: usize,
) -> Result<(), Stop> {
    if begin(reader, "an environment")?.is_none() {
        return Ok(()); // nothing in it says nothing
    }
    let mut seen = BTreeMap::new();
    while let Some((key, at)) = reader.key()? {
        if let Some(first) = seen.insert(key.to_string(), at)
            && reader.is_given_again(at, &format!("the section '{}'", cut(&key)), first)
        {
            match &*key {
                "parameters" => one.parameters.clear(),
                "parameter_defaults" => one.defaults.clear(),
                "resource_registry" => (one.policies, one.mappings) = Default::default(),
                _ => one.strategies = Strategies::default(),
            }
        }
        let before = reader.path.key(&key);
        match &*key {
            "parameters" => values(reader, &mut one.parameters, file)?,
            "parameter_defaults" => values(reader, &mut one.defaults, file)?,
            "parameter_merge_strategies" => one.strategies.read(reader)?,
            "resource_registry" => resource_registry::read(reader, one, own_key, file)?,
            _ => other(reader, &key, at)?,
        }
        reader.path.leave(before);
    }
    end(reader, "an environment")
}

fn other(reader: &mut Reader<'_>, key: &str, at: Place) -> Result<(), Stop> {
    let value = reader.expr(1)?;
    let is_empty = match &value.kind {
        ExprKind::Null => true,
        ExprKind::List(items) => items.is_empty(),
        ExprKind::Map(entries) => entries.is_empty(),
        ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => false,
    };
    match REFUSED.iter().find(|(name, _)| *name == key) {
        Some(_) if is_empty => {}
        Some((_, instead)) => {
            reader.error(at, format!("the section '{key}' is not supported: {instead}"));
        }
        None => {
            reader.error(at, format!("unknown section '{}'{}", cut(key), suggestion_or_all(key, &SECTIONS)));
        }
    }
    Ok(())
}

fn values(
    reader: &mut Reader<'_>,
    found: &mut BTreeMap<Box<str>, EnvironmentValue>,
    file: usize,
) -> Result<(), Stop> {
    entries(reader, |_, name, _, body| {
        // As in Heat: null counts as not given.
        if !matches!(body.kind, ExprKind::Null) {
            let given =
                EnvironmentValue { value: body.sketch(), file, at: body.at, strategy: Strategy::Overwrite };
            found.insert(name.into(), given);
        }
    })
}
