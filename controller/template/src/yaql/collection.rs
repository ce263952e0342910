//! The functions of yaql that make lists, maps and sets, and look into them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::arguments::Arguments;
use super::evaluate::{Evaluated, Evaluator, items, key_text};
use super::operator::contains;
use super::query::size;
use super::value::{Key, Y};

/// `None`: the function is not of this kind.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    Some(match args.name {
        "list" => list(args),
        "toList" => args.list(0).and_then(|list| args.evaluator.list(list.items.clone())),
        "dict" => dict(args),
        "set" if args.count() == 3 && matches!(args.of, Some(Y::Map(_))) => with_entry(args),
        "set" => args.all().and_then(|all| set(args, &all)),
        "toSet" => args.list(0).and_then(|list| set(args, &list.items)),
        "union" | "intersect" | "difference" => set_operation(args),
        "items" => args.map(0).and_then(|map| {
            let pair = |(key, value): (&Arc<str>, &Y)| {
                args.evaluator.list(vec![Y::Text(Arc::clone(key)), value.clone()])
            };
            args.stream(map.entries.iter().map(pair).collect::<Result<_, _>>()?)
        }),
        "keys" => args.map(0).and_then(|map| args.stream(map.entries.keys().cloned().map(Y::Text).collect())),
        "values" => args.map(0).and_then(|map| args.stream(map.entries.values().cloned().collect())),
        "get" => get(args),
        "delete" => delete(args),
        "containsKey" => args.want(2, 2).and_then(|()| {
            let (map, key) = (args.map(0)?, args.value(1)?);
            Ok(Y::Bool(matches!(key, Y::Text(key) if map.entries.contains_key(&key))))
        }),
        "containsValue" => args.want(2, 2).and_then(|()| {
            let (map, wanted) = (args.map(0)?, args.value(1)?);
            map.entries.values().try_for_each(|value| args.evaluator.compared(value))?;
            Ok(Y::Bool(map.entries.values().any(|value| value.equals(&wanted))))
        }),
        "contains" => args
            .want(2, 2)
            .and_then(|()| contains(args.evaluator, &args.value(0)?, &args.value(1)?).map(Y::Bool)),
        "len" => length(args),
        "flatten" => flattened(args),
        "concat" => concat(args),
        "mergeWith" => args.want(2, 2).and_then(|()| merge(args.evaluator, &args.value(0)?, &args.value(1)?)),
        "range" => range(args),
        "isList" => is(args, |value| matches!(value, Y::List(_))),
        "isDict" => is(args, |value| matches!(value, Y::Map(_))),
        "coalesce" => coalesce(args),
        "switch" => switch(args),
        _ => return None,
    })
}

pub(super) fn is(args: &Arguments<'_>, test: impl Fn(&Y) -> bool) -> Evaluated {
    args.want(1, 1)?;
    args.value(0).map(|value| Y::Bool(test(&value)))
}

/// Expands intermediate iterators; a list stays an item.
fn list(args: &Arguments<'_>) -> Evaluated {
    let mut all = Vec::new();
    for value in args.all()? {
        match value {
            Y::List(list) if list.streamed => {
                args.evaluator.step(list.items.len())?;
                all.extend_from_slice(&list.items);
            }
            other => all.push(other),
        }
    }
    args.evaluator.list(all)
}

fn dict(args: &Arguments<'_>) -> Evaluated {
    let keyed = args.nodes.iter().filter(|argument| argument.key.is_some()).count();
    if keyed == 0 && args.count() == 1 {
        return match args.value(0)? {
            Y::List(list) => args.map_of_pairs(&list.items),
            map @ Y::Map(_) => Ok(map),
            other => Err(args.wants("pairs of a key and a value", &other)),
        };
    }
    if keyed != args.count() {
        return Err("yaql: want dict(key => value, …) or dict(pairs)".into());
    }
    let mut entries = BTreeMap::new();
    for argument in args.nodes {
        let Some(key) = &argument.key else { continue };
        let key = key_text(&args.evaluator.node(args.frame, key)?)?;
        entries.insert(key, args.evaluator.node(args.frame, &argument.value)?);
    }
    args.evaluator.map(entries)
}

fn with_entry(args: &Arguments<'_>) -> Evaluated {
    let mut entries = args.map(0)?.entries.clone();
    entries.insert(key_text(&args.value(1)?)?, args.value(2)?);
    args.evaluator.map(entries)
}

fn set(args: &Arguments<'_>, given: &[Y]) -> Evaluated {
    let mut seen = BTreeSet::new();
    given.iter().try_for_each(|item| args.evaluator.compared(item))?;
    args.evaluator.list(given.iter().filter(|item| seen.insert(Key((*item).clone()))).cloned().collect())
}

fn set_operation(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let (left, right) = (args.list(0)?, args.list(1)?);
    left.items.iter().chain(&right.items).try_for_each(|item| args.evaluator.compared(item))?;
    let others: BTreeSet<Key> = right.items.iter().cloned().map(Key).collect();
    let there = |item: &&Y| others.contains(&Key((*item).clone()));
    match args.name {
        "union" => set(args, &[&*left.items, &*right.items].concat()),
        "intersect" => set(args, &left.items.iter().filter(there).cloned().collect::<Vec<_>>()),
        _ => set(args, &left.items.iter().filter(|item| !there(item)).cloned().collect::<Vec<_>>()),
    }
}

fn get(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 3)?;
    let (map, key) = (args.map(0)?, key_text(&args.value(1)?)?);
    match map.entries.get(&key) {
        Some(value) => Ok(value.clone()),
        None => Ok(args.optional(2)?.unwrap_or(Y::Null)),
    }
}

fn delete(args: &Arguments<'_>) -> Evaluated {
    let mut entries = args.map(0)?.entries.clone();
    for index in 1..args.count() {
        entries.remove(&key_text(&args.value(index)?)?);
    }
    args.evaluator.map(entries)
}

fn length(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 1)?;
    match args.value(0)? {
        Y::List(list) => Ok(size(list.items.len())),
        Y::Map(map) => Ok(size(map.entries.len())),
        Y::Text(text) => Ok(size(text.chars().count())),
        other => Err(args.wants("a list, a map or text", &other)),
    }
}

/// Lists in lists, however deep.
fn flattened(args: &Arguments<'_>) -> Evaluated {
    fn take(evaluator: &Evaluator, given: &[Y], all: &mut Vec<Y>) -> Result<(), String> {
        evaluator.step(given.len())?;
        for item in given {
            match item {
                Y::List(list) => take(evaluator, &list.items, all)?,
                other => all.push(other.clone()),
            }
        }
        Ok(())
    }
    args.want(1, 1)?;
    let mut all = Vec::new();
    take(args.evaluator, &args.list(0)?.items, &mut all)?;
    args.stream(all)
}

/// Concatenates lists or texts.
fn concat(args: &Arguments<'_>) -> Evaluated {
    let given = args.all()?;
    if given.iter().all(|value| matches!(value, Y::Text(_))) {
        let text: String = given.iter().map(Y::shown).collect();
        return args.evaluator.text(text);
    }
    let mut all = Vec::new();
    for value in &given {
        match value {
            Y::List(list) => {
                args.evaluator.step(list.items.len())?;
                all.extend_from_slice(items(list));
            }
            other => return Err(args.wants("lists or texts", other)),
        }
    }
    args.stream(all)
}

/// Merges maps key by key, and lists into one without equal items; of other values the second counts.
fn merge(evaluator: &Evaluator, left: &Y, right: &Y) -> Evaluated {
    match (left, right) {
        (Y::Map(left), Y::Map(right)) => {
            let mut entries = left.entries.clone();
            for (key, value) in &right.entries {
                let merged = match left.entries.get(key) {
                    Some(old @ (Y::Map(_) | Y::List(_))) if same_kind(old, value) => {
                        merge(evaluator, old, value)?
                    }
                    _ => value.clone(),
                };
                entries.insert(Arc::clone(key), merged);
            }
            evaluator.map(entries)
        }
        (Y::List(left), Y::List(right)) => {
            let mut seen = BTreeSet::new();
            let all = left.items.iter().chain(&right.items);
            all.clone().try_for_each(|item| evaluator.compared(item))?;
            evaluator.list(all.filter(|item| seen.insert(Key((*item).clone()))).cloned().collect())
        }
        _ => Err(format!("yaql: 'mergeWith' wants maps, got {} and {}", left.describe(), right.describe())),
    }
}

fn same_kind(left: &Y, right: &Y) -> bool {
    matches!((left, right), (Y::Map(_), Y::Map(_)) | (Y::List(_), Y::List(_)))
}

fn range(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 3)?;
    let (start, stop) = if args.count() == 1 { (0, args.int(0)?) } else { (args.int(0)?, args.int(1)?) };
    let step = if args.count() == 3 { args.int(2)? } else { 1 };
    if step == 0 {
        return Err("yaql: a range with steps of zero".into());
    }
    let (distance, stride) = if step > 0 { (stop - start, step) } else { (start - stop, -step) };
    let count = if distance > 0 { (distance + stride - 1) / stride } else { 0 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    args.evaluator.step(count)?; // before they are made
    args.stream((0..count).map(|n| Y::Int(start + step * i128::try_from(n).unwrap_or(0))).collect())
}

fn coalesce(args: &Arguments<'_>) -> Evaluated {
    for index in 0..args.count() {
        match args.value(index)? {
            Y::Null => {}
            found => return Ok(found),
        }
    }
    Ok(Y::Null)
}

fn switch(args: &Arguments<'_>) -> Evaluated {
    for argument in args.nodes {
        let Some(key) = &argument.key else {
            return Err("yaql: want switch(condition => value, …)".into());
        };
        let given: Vec<&Y> = args.of.iter().collect();
        if args.evaluator.apply(args.frame, key, &given)?.is_true() {
            return args.evaluator.apply(args.frame, &argument.value, &given);
        }
    }
    Ok(Y::Null)
}
