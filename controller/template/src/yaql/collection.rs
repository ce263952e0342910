//! The functions of yaql that make lists, maps and sets, and look into them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::arguments::Arguments;
use super::evaluate::{Evaluated, Evaluator, items, key_text};
use super::operator::contains;
use super::parse::{Argument, Node};
use super::query::size;
use super::value::{Form, Key, Map, Y};

/// `None`: the function is not of this kind.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    Some(match args.name {
        "list" => list(args),
        "toList" => args.list(0).and_then(|list| args.evaluator.list(list.items.clone())),
        "dict" => dict(args),
        "set" if args.count() == 3 && matches!(args.of, Some(Y::Map(_))) => with_entry(args),
        "set" if matches!(args.of, Some(Y::Map(_))) => with_entries(args),
        "set" => spread(args).and_then(|all| set(args, &all)),
        "add" | "remove" => set_members(args),
        "toSet" => args.list(0).and_then(|list| set(args, &list.items)),
        "union" | "intersect" | "difference" | "symmetricDifference" => set_operation(args),
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
        "deleteAll" => args.want(2, 2).and_then(|()| delete_all(args)),
        "selectCase" | "selectAllCases" | "switchCase" => cases(args),
        "assert" => assert(args),
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
        "mergeWith" => merge_with(args),
        "range" => range(args),
        "isList" => is(args, |value| matches!(value, Y::List(list) if list.set().is_none())),
        "isSet" => is(args, |value| matches!(value, Y::List(list) if list.set().is_some())),
        "call" => call_by_name(args),
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

fn list(args: &Arguments<'_>) -> Evaluated {
    args.evaluator.list(spread(args)?)
}

/// Expands intermediate iterators; a list stays an item.
fn spread(args: &Arguments<'_>) -> Result<Vec<Y>, String> {
    let mut all = Vec::new();
    for value in args.all()? {
        if let Y::List(list) = &value
            && matches!(list.form, Form::Stream)
        {
            args.evaluator.step(list.items.len())?;
            all.extend_from_slice(&list.items);
        } else {
            all.push(value)
        }
    }
    Ok(all)
}

fn dict(args: &Arguments<'_>) -> Evaluated {
    let keyed = args.nodes.iter().filter(|argument| argument.key.is_some()).count();
    if keyed == 0 && args.count() == 1 {
        return match args.value(0)? {
            Y::List(list) => args.map_of_pairs(&list.items),
            map @ Y::Map(_) => Ok(map),
            other @ (Y::Null | Y::Bool(_) | Y::Int(_) | Y::Float(_) | Y::Text(_) | Y::Regex(_)) => {
                Err(args.wants("pairs of a key and a value", &other))
            }
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
    args.evaluator.set(given.iter())
}

fn set_operation(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let (left, right) = (args.list(0)?, args.list(1)?);
    left.items.iter().chain(&right.items).try_for_each(|item| args.evaluator.compared(item))?;
    let others: BTreeSet<Key> = right.items.iter().cloned().map(Key).collect();
    let there = |item: &&Y| others.contains(&Key((*item).clone()));
    match args.name {
        "union" => set(args, &[&*left.items, &*right.items].concat()),
        "symmetricDifference" => {
            let own: BTreeSet<Key> = left.items.iter().cloned().map(Key).collect();
            let only = left.items.iter().filter(|item| !there(item));
            let added = right.items.iter().filter(|item| !own.contains(&Key((*item).clone())));
            set(args, &only.chain(added).cloned().collect::<Vec<_>>())
        }
        "intersect" => set(args, &left.items.iter().filter(there).cloned().collect::<Vec<_>>()),
        _ => set(args, &left.items.iter().filter(|item| !there(item)).cloned().collect::<Vec<_>>()),
    }
}

/// `map.set({key => value})` and `map.set(key => value)`
fn with_entries(args: &Arguments<'_>) -> Evaluated {
    let mut entries = args.map(0)?.entries.clone();
    for index in 1..args.count() {
        match (args.name_of(index)?, args.value(index)?) {
            (Some(key), value) => drop(entries.insert(key, value)),
            (None, Y::Map(more)) => entries.extend(more.entries.clone()),
            (None, other) => return Err(args.wants("a map", &other)),
        }
    }
    args.evaluator.map(entries)
}

/// A set with or without these items.
fn set_members(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    let mut given = args.all()?;
    given.remove(0);
    if args.name == "add" {
        return set(args, &[&*list.items, &given].concat());
    }
    list.items.iter().chain(&given).try_for_each(|item| args.evaluator.compared(item))?;
    let gone: BTreeSet<Key> = given.into_iter().map(Key).collect();
    let stays = list.items.iter().filter(|item| !gone.contains(&Key((*item).clone())));
    args.evaluator.set(stays.collect::<Vec<_>>().into_iter())
}

fn delete_all(args: &Arguments<'_>) -> Evaluated {
    let mut entries = args.map(0)?.entries.clone();
    for key in &args.list(1)?.items {
        args.evaluator.step(1)?;
        entries.remove(&key_text(key)?);
    }
    args.evaluator.map(entries)
}

/// `selectCase`: the number of the first condition that holds; `selectAllCases`: of all that hold;
/// `number.switchCase(…)`: the argument of that number, or the last.
fn cases(args: &Arguments<'_>) -> Evaluated {
    if args.name == "switchCase" {
        let last = args.count().checked_sub(2);
        let at = usize::try_from(args.int(0)?).ok();
        return match last {
            None => Ok(Y::Null),
            Some(last) => args.value(1 + at.map_or(last, |at| at.min(last))),
        };
    }
    let given: Vec<&Y> = args.of.iter().collect();
    let mut found = Vec::new();
    for (index, argument) in args.nodes.iter().enumerate() {
        if args.evaluator.apply(args.frame, &argument.value, &given)?.is_true() {
            if args.name == "selectCase" {
                return Ok(size(index));
            }
            found.push(size(index));
        }
    }
    if args.name == "selectCase" { Ok(size(args.nodes.len())) } else { args.stream(found) }
}

/// `value.assert(condition, message)`
fn assert(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 3)?;
    let value = args.value(0)?;
    if args.apply(1, &[&value])?.is_true() {
        return Ok(value);
    }
    let message = if args.count() > 2 { args.text(2)?.to_string() } else { "an assertion failed".to_owned() };
    Err(format!("yaql: {}", crate::error::cut(&message)))
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
        other @ (Y::Null | Y::Bool(_) | Y::Int(_) | Y::Float(_) | Y::Regex(_)) => {
            Err(args.wants("a list, a map or text", &other))
        }
    }
}

/// Lists in lists, however deep.
fn flattened(args: &Arguments<'_>) -> Evaluated {
    fn take(evaluator: &Evaluator, given: &[Y], all: &mut Vec<Y>) -> Result<(), String> {
        evaluator.step(given.len())?;
        for item in given {
            if let Y::List(list) = item { take(evaluator, &list.items, all)? } else { all.push(item.clone()) }
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
        if let Y::List(list) = value {
            args.evaluator.step(list.items.len())?;
            all.extend_from_slice(items(list));
        } else {
            return Err(args.wants("lists or texts", value));
        }
    }
    args.stream(all)
}

/// `call(name, [values], {names => values})`
fn call_by_name(args: &Arguments<'_>) -> Evaluated {
    args.want(3, 3)?;
    let (name, values, named) = (args.text(0)?, args.list(1)?, args.map(2)?);
    super::check(&name).map_err(|message| format!("yaql: {message}"))?;
    let argument = |key: Option<Y>, value: &Y| Argument {
        key: key.map(Node::Literal),
        value: Node::Literal(value.clone()),
    };
    let by_name = named.entries.iter().map(|(key, value)| argument(Some(Y::Text(Arc::clone(key))), value));
    let nodes: Vec<Argument> =
        values.items.iter().map(|value| argument(None, value)).chain(by_name).collect();
    args.evaluator.step(nodes.len())?;
    let (evaluator, frame) = (args.evaluator, args.frame);
    evaluator.called(&Arguments { evaluator, frame, name: &name, of: None, nodes: &nodes })
}

/// `map.mergeWith(other, listMerger, itemMerger, maxLevels)`
fn merge_with(args: &Arguments<'_>) -> Evaluated {
    let [left, right, lists, items, levels] =
        args.placed(["dict", "another", "listMerger", "itemMerger", "maxLevels"])?;
    let (Some(left), Some(right)) = (left, right) else {
        return Err("yaql: 'mergeWith' has too few arguments".into());
    };
    let levels = match levels {
        Some(levels) => args.int(levels)?,
        None => 0,
    };
    Merge { args, lists, items }.maps(&*args.map(left)?, &*args.map(right)?, levels)
}

struct Merge<'a> {
    args: &'a Arguments<'a>,
    lists: Option<usize>,
    items: Option<usize>,
}

impl Merge<'_> {
    /// Merges maps key by key, on so many levels; 0: on all.
    fn maps(&self, left: &Map, right: &Map, levels: i128) -> Evaluated {
        let mut entries = left.entries.clone();
        for (key, value) in &right.entries {
            let merged = match (left.entries.get(key), value) {
                (Some(Y::Map(old)), Y::Map(new)) if levels != 1 => {
                    self.maps(old, new, if levels == 0 { 0 } else { levels - 1 })?
                }
                (Some(old @ Y::List(_)), Y::List(_)) if levels != 1 => self.lists(old, value)?,
                (Some(old), new) => match self.items {
                    Some(merger) => self.args.apply(merger, &[old, new])?,
                    None => new.clone(),
                },
                (None, new) => new.clone(),
            };
            entries.insert(Arc::clone(key), merged);
        }
        self.args.evaluator.map(entries)
    }

    /// Two lists are one without equal items, unless a merger says otherwise.
    fn lists(&self, left: &Y, right: &Y) -> Evaluated {
        let evaluator = self.args.evaluator;
        match (self.lists, left, right) {
            (Some(merger), ..) => self.args.apply(merger, &[left, right]),
            (None, Y::List(left), Y::List(right)) => {
                let mut seen = BTreeSet::new();
                let all = left.items.iter().chain(&right.items);
                all.clone().try_for_each(|item| evaluator.compared(item))?;
                evaluator.list(all.filter(|item| seen.insert(Key((*item).clone()))).cloned().collect())
            }
            (None, ..) => Ok(right.clone()),
        }
    }
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
            found @ (Y::Bool(_)
            | Y::Int(_)
            | Y::Float(_)
            | Y::Text(_)
            | Y::List(_)
            | Y::Map(_)
            | Y::Regex(_)) => return Ok(found),
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
