//! The functions of yaql that change a list at places, or divide it.

use super::arguments::Arguments;
use super::evaluate::{Evaluated, items};
use super::query::size;
use super::value::Y;

/// `None`: the function is not of this kind, or not for a list.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    let is_list = matches!(args.of, Some(Y::List(_)));
    Some(match args.name {
        "insert" | "insertMany" => args.want(3, 3).and_then(|()| insert(args)),
        "replaceMany" => args.want(3, 4).and_then(|()| replace(args)),
        "replace" if is_list => args.want(3, 4).and_then(|()| replace(args)),
        "delete" if is_list => args.want(2, 3).and_then(|()| delete(args)),
        "slice" => args.want(2, 2).and_then(|()| slice(args)),
        "splitAt" => args.want(2, 2).and_then(|()| split_at(args)),
        "sliceWhere" | "splitWhere" => args.want(2, 2).and_then(|()| divide(args)),
        "lastIndexWhere" => args.want(2, 2).and_then(|()| last_index_where(args)),
        "zipLongest" => zip_longest(args),
        "repeat" => args.want(2, 2).and_then(|()| repeat(args)),
        _ => return None,
    })
}

/// A place in a list of this length, counted from the end if it is negative.
fn place(at: i128, length: usize) -> usize {
    let whole = i128::try_from(length).unwrap_or(i128::MAX);
    let at = if at < 0 { (at + whole).max(0) } else { at.min(whole) };
    usize::try_from(at).unwrap_or(length)
}

/// The values that are put in: the list's items for `…Many`, or the one value.
fn given(args: &Arguments<'_>) -> Result<Vec<Y>, String> {
    match args.name.ends_with("Many") {
        true => args.list(2).map(|list| list.items.clone()),
        false => args.value(2).map(|value| vec![value]),
    }
}

fn insert(args: &Arguments<'_>) -> Evaluated {
    let mut all = args.list(0)?.items.clone();
    let at = place(args.int(1)?, all.len());
    let given = given(args)?;
    args.evaluator.step(all.len() + given.len())?;
    all.splice(at..at, given);
    args.stream(all)
}

/// The number of items to take away: 1, if it is not given, and all from there on, if it is negative.
fn count(args: &Arguments<'_>, index: usize) -> Result<usize, String> {
    match args.optional(index)? {
        None => Ok(1),
        Some(Y::Int(n)) => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        Some(other) => Err(args.wants("a whole number", &other)),
    }
}

fn replace(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    let all = items(&list);
    let Ok(at) = usize::try_from(args.int(1)?) else { return args.stream(all.to_vec()) };
    let end = at.saturating_add(count(args, 3)?).min(all.len());
    if at >= all.len() {
        return args.stream(all.to_vec());
    }
    let given = given(args)?;
    args.evaluator.step(all.len() + given.len())?;
    args.stream([&all[..at], &given, &all[end.max(at)..]].concat())
}

fn delete(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    let all = items(&list);
    let Ok(at) = usize::try_from(args.int(1)?) else { return args.stream(all.to_vec()) };
    let at = at.min(all.len());
    let end = at.saturating_add(count(args, 2)?).min(all.len());
    args.stream([&all[..at], &all[end..]].concat())
}

fn slice(args: &Arguments<'_>) -> Evaluated {
    let (list, length) = (args.list(0)?, args.size(1)?);
    if length == 0 {
        return Err("yaql: 'slice' wants a length of at least 1".into());
    }
    let parts = items(&list).chunks(length).map(|part| args.evaluator.list(part.to_vec()));
    let parts: Result<Vec<Y>, String> = parts.collect();
    args.stream(parts?)
}

fn split_at(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    let (first, second) = items(&list).split_at(place(args.int(1)?, list.items.len()));
    let parts = vec![args.evaluator.list(first.to_vec())?, args.evaluator.list(second.to_vec())?];
    args.evaluator.list(parts)
}

/// `splitWhere`: at each item that fits, which goes. `sliceWhere`: wherever fitting begins or ends.
fn divide(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    let goes = args.name == "splitWhere";
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut before = None;
    for item in items(&list) {
        let fits = args.apply(1, &[item])?.is_true();
        if goes && fits {
            parts.push(args.evaluator.list(std::mem::take(&mut part))?);
            continue;
        }
        if !goes && before.is_some_and(|before| before != fits) {
            parts.push(args.evaluator.list(std::mem::take(&mut part))?);
        }
        before = Some(fits);
        part.push(item.clone());
    }
    if !part.is_empty() {
        parts.push(args.evaluator.list(part)?);
    }
    args.stream(parts)
}

fn last_index_where(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    let mut last = Y::Int(-1);
    for (index, item) in items(&list).iter().enumerate() {
        if args.apply(1, &[item])?.is_true() {
            last = size(index);
        }
    }
    Ok(last)
}

/// `zip`, as long as the longest list; `default => value` fills the others.
fn zip_longest(args: &Arguments<'_>) -> Evaluated {
    args.want(1, usize::MAX)?;
    let (mut lists, mut fill) = (Vec::new(), Y::Null);
    for index in 0..args.count() {
        match args.name_of(index)?.as_deref() {
            None => lists.push(args.list(index)?),
            Some("default") => fill = args.value(index)?,
            Some(other) => return Err(format!("yaql: 'zipLongest' takes no '{}'", crate::error::cut(other))),
        }
    }
    let longest = lists.iter().map(|list| list.items.len()).max().unwrap_or(0);
    let row = |at: usize| {
        let row = lists.iter().map(|list| list.items.get(at).unwrap_or(&fill).clone()).collect();
        args.evaluator.list(row)
    };
    let rows: Result<Vec<Y>, String> = (0..longest).map(row).collect();
    args.stream(rows?)
}

/// `value.repeat(times)`: a list of the value, as often as that.
fn repeat(args: &Arguments<'_>) -> Evaluated {
    let value = args.value(0)?;
    let Ok(times) = usize::try_from(args.int(1)?) else {
        return Err("yaql: 'repeat' without a number of times has no end, and is not supported".into());
    };
    args.evaluator.step(times)?; // before they are made
    args.stream(vec![value; times])
}
