//! A flow file in YAML, item by item. The first pass is fast and skips places within items; after an error,
//! or YAML that is not plain, a second pass from the start records them.

use muster_shared::model::flow::Step;
use saphyr_parser::Event;

use super::collect::{Collector, Section, Spot};
use crate::build::{Reader, Stop};
use crate::error::{Place, Sink};
use crate::expression::{Expr, ExprKind};
use crate::source::{Source, begin, end};

const WHAT: &str = "a flow file";

pub(super) fn read(name: &str, text: &str, into: &mut Collector) -> Sink {
    let source = Source::new(text);
    let attempt = |into: &mut Collector, is_fast: bool| {
        let mut reader = Reader::new(name, &source.text, source.shift);
        reader.functions = false;
        let ended = document(&mut reader, into, is_fast);
        // The errors contain the reason of a stop.
        (ended.is_ok() && reader.errors.is_empty(), reader.errors)
    };
    let mut fast = into.another();
    let (is_good, errors) = attempt(&mut fast, true);
    if is_good {
        *into = fast;
        return errors;
    }
    drop(fast);
    attempt(into, false).1
}

fn document(reader: &mut Reader<'_>, into: &mut Collector, is_fast: bool) -> Result<(), Stop> {
    if begin(reader, WHAT)?.is_none() {
        return reader.stop(Place { line: 1, column: 1 }, "the flow file is empty");
    }
    while let Some((key, at)) = reader.key()? {
        let section = into.section(&mut reader.errors, &key, at);
        let before = reader.path.key(&key);
        match section {
            Some(Section::ConfirmTimeout) => {
                let value = reader.expr(1)?;
                into.timeout(&mut reader.errors, &value.sketch(), value.at);
            }
            Some(Section::Stages) => stages(reader, into, is_fast)?,
            Some(section) => {
                if enters_list(reader, "a list")? {
                    items(reader, into, section, 0, is_fast)?;
                }
            }
            None => drop(reader.expr(1)?),
        }
        reader.path.leave(before);
    }
    end(reader, WHAT)
}

fn stages(reader: &mut Reader<'_>, into: &mut Collector, is_fast: bool) -> Result<(), Stop> {
    if !enters_list(reader, "a list of stages, each a list of rules")? {
        return Ok(());
    }
    for number in 0.. {
        let (event, at) = reader.next()?;
        if event == Event::SequenceEnd {
            break;
        }
        let before = reader.path.item(number);
        if !matches!(event, Event::SequenceStart(..)) {
            return reader.stop(at, "a stage is a list of rules; this is something else");
        }
        if !into.stage(&mut reader.errors, number, at) {
            return Err(Stop);
        }
        items(reader, into, Section::Stages, number, is_fast)?;
        reader.path.leave(before);
    }
    Ok(())
}

/// `false` where nothing is given.
fn enters_list(reader: &mut Reader<'_>, wanted: &str) -> Result<bool, Stop> {
    match reader.next()? {
        (Event::SequenceStart(..), _) => Ok(true),
        (Event::Scalar(ref text, ..), _) if matches!(&**text, "" | "~" | "null") => Ok(false),
        (_, at) => reader.stop(at, format!("want {wanted}; this is something else")),
    }
}

fn items(
    reader: &mut Reader<'_>,
    into: &mut Collector,
    section: Section,
    stage: usize,
    is_fast: bool,
) -> Result<(), Stop> {
    for item in 0.. {
        let (event, at) = reader.next()?;
        if event == Event::SequenceEnd {
            break;
        }
        let spot = Spot { section, stage, item };
        if !into.has_room(&mut reader.errors, at, spot) {
            return Err(Stop);
        }
        if is_fast {
            let value = reader.value_from(event, 3)?;
            into.take(&value, spot, at.line).map_err(|_| Stop)?;
            continue;
        }
        let before = reader.path.item(item);
        let expr = reader.expr_from(event, at, 3)?;
        reader.path.leave(before);
        if let Err(fault) = into.take(&expr.sketch(), spot, at.line) {
            reader.errors.push(place_of(&expr, &fault.steps), &spot.path(&fault.steps), fault.message);
        }
    }
    Ok(())
}

/// The place that these steps lead to, or the last existing one on the way.
pub(crate) fn place_of(expr: &Expr, steps: &[Step]) -> Place {
    let mut node = expr;
    let mut at = expr.at;
    for step in steps {
        let next = match (step, &node.kind) {
            (Step::Key(key), ExprKind::Map(_)) => node.entry(key).map(|entry| (&entry.value, entry.at)),
            (Step::Item(index), ExprKind::List(items)) => items.get(*index).map(|item| (item, item.at)),
            (Step::Key(_) | Step::Item(_), _) => None,
        };
        match next {
            Some((next, place)) => (node, at) = (next, place),
            None => break,
        }
    }
    at
}
