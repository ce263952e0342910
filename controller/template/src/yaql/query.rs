//! The functions of yaql over the items of a list: filter, order, group, join, sum.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::arguments::Arguments;
use super::evaluate::{Evaluated, Evaluator, Frame, items};
use super::operator::{ordered, plus};
use super::parse::{Argument, Node};
use super::value::{Key, Y};

/// `None`: the function is not of this kind.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    Some(match args.name {
        "where" | "filter" => filtered(args, |_, holds| holds),
        "select" | "map" => args.want(2, 2).and_then(|()| each(args)).and_then(|made| args.stream(made)),
        "selectMany" => select_many(args),
        "distinct" => distinct(args),
        "orderBy" => order_by(args, false),
        "orderByDescending" => order_by(args, true),
        "groupBy" => group_by(args),
        "toDict" => to_dict(args),
        "any" | "all" => quantified(args),
        "first" | "last" => end(args),
        "single" => single(args),
        "skip" | "limit" | "take" => part(args),
        "skipWhile" | "takeWhile" => part_while(args),
        "indexOf" | "lastIndexOf" if !is_text(args) => index_of(args),
        "indexWhere" => index_where(args),
        "reduce" | "aggregate" => reduce(args),
        "accumulate" => accumulate(args),
        "zip" => zip(args),
        "enumerate" => enumerate(args),
        "reverse" => args.list(0).and_then(|list| args.stream(list.items.iter().rev().cloned().collect())),
        "count" => args.list(0).map(|list| size(list.items.len())),
        "append" => append(args),
        "defaultIfEmpty" => default_if_empty(args),
        "join" if args.count() == 4 => join(args),
        "sum" => sum(args),
        "min" | "max" if args.of.is_some() || args.count() == 1 => extreme(args),
        _ => return None,
    })
}

pub(super) fn size(count: usize) -> Y {
    Y::Int(i128::try_from(count).unwrap_or(i128::MAX))
}

fn is_text(args: &Arguments<'_>) -> bool {
    matches!(args.of, Some(Y::Text(_)))
}

/// The second argument for each item.
fn each(args: &Arguments<'_>) -> Result<Vec<Y>, String> {
    args.list(0)?.items.iter().map(|item| args.apply(1, &[item])).collect()
}

fn filtered(args: &Arguments<'_>, keep: impl Fn(&Y, bool) -> bool) -> Evaluated {
    args.want(2, 2)?;
    let list = args.list(0)?;
    let mut kept = Vec::new();
    for item in items(&list) {
        if keep(item, args.apply(1, &[item])?.is_true()) {
            kept.push(item.clone());
        }
    }
    args.stream(kept)
}

fn select_many(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let mut all = Vec::new();
    for made in each(args)? {
        if let Y::List(list) = made {
            args.evaluator.step(list.items.len())?;
            all.extend_from_slice(&list.items);
        } else {
            all.push(made)
        }
    }
    args.stream(all)
}

fn distinct(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 2)?;
    let list = args.list(0)?;
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for item in items(&list) {
        let key = args.selected(1, item)?;
        args.evaluator.compared(&key)?;
        if seen.insert(Key(key)) {
            kept.push(item.clone());
        }
    }
    args.stream(kept)
}

fn order_by(args: &Arguments<'_>, descending: bool) -> Evaluated {
    args.want(2, 2)?;
    let list = args.list(0)?;
    let mut keyed: Vec<(Y, Y)> = each(args)?.into_iter().zip(items(&list).iter().cloned()).collect();
    args.evaluator
        .step(keyed.len().saturating_mul((1 + keyed.len().checked_ilog2().unwrap_or(0)) as usize))?;
    let mut wrong = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let order = ordered(a, b).unwrap_or_else(|message| {
            wrong.get_or_insert(message);
            Ordering::Equal
        });
        if descending { order.reverse() } else { order }
    });
    match wrong {
        Some(message) => Err(message),
        None => args.stream(keyed.into_iter().map(|(_, item)| item).collect()),
    }
}

/// `orderBy(…).thenBy(…)`: an order by several parts of an item, each of which decides where those before do not.
pub(super) fn ordered_by(
    evaluator: &Evaluator,
    frame: &Frame<'_>,
    of: &Node,
    name: &str,
    nodes: &[Argument],
) -> Evaluated {
    let mut parts = vec![(name, nodes)];
    let mut of = of;
    while let Node::Call { of: Some(inner), name, arguments, .. } = of
        && matches!(&**name, "orderBy" | "orderByDescending" | "thenBy" | "thenByDescending")
    {
        parts.push((&**name, arguments.as_slice()));
        of = &**inner;
        if name.starts_with("orderBy") {
            break;
        }
    }
    parts.reverse();
    if !parts.first().is_some_and(|(name, _)| name.starts_with("orderBy")) {
        return Err(format!("yaql: '{name}' stands after orderBy(…)"));
    }
    let Y::List(list) = evaluator.node(frame, of)? else {
        return Err(format!("yaql: '{name}' wants a list"));
    };
    let mut keyed: Vec<(Vec<Y>, Y)> = Vec::with_capacity(list.items.len());
    for item in items(&list) {
        let key = |(name, nodes): &(&str, &[Argument])| match nodes {
            [one] => evaluator.apply(frame, &one.value, &[item]),
            _ => Err(format!("yaql: '{name}' wants one argument")),
        };
        keyed.push((parts.iter().map(key).collect::<Result<_, _>>()?, item.clone()));
    }
    let comparisons = keyed.len().saturating_mul((1 + keyed.len().checked_ilog2().unwrap_or(0)) as usize);
    evaluator.step(comparisons.saturating_mul(parts.len()))?;
    let mut wrong = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let orders = a.iter().zip(b).zip(&parts).map(|((a, b), (name, _))| {
            let order = ordered(a, b).unwrap_or_else(|message| {
                wrong.get_or_insert(message);
                Ordering::Equal
            });
            if name.ends_with("Descending") { order.reverse() } else { order }
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    match wrong {
        Some(message) => Err(message),
        None => evaluator.stream(keyed.into_iter().map(|(_, item)| item).collect()),
    }
}

/// Groups in the order of their first items.
fn group_by(args: &Arguments<'_>) -> Evaluated {
    let placed = args.placed(["collection", "keySelector", "valueSelector", "aggregator"])?;
    let [Some(list), Some(selector), value_selector, aggregator] = placed else {
        return Err("yaql: 'groupBy' has too few arguments".into());
    };
    let list = args.list(list)?;
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    let mut groups: Vec<(Y, Vec<Y>)> = Vec::new();
    for item in items(&list) {
        let key = args.apply(selector, &[item])?;
        args.evaluator.compared(&key)?;
        let value = value_selector.map_or_else(|| Ok(item.clone()), |index| args.apply(index, &[item]))?;
        let place = *places.entry(Key(key.clone())).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    let mut made = Vec::with_capacity(groups.len());
    // As in yaql: an aggregator that fails on the first group's values is one of before 1.1.1, for a pair.
    let mut is_for_pairs = None;
    for (key, values) in groups {
        let values = args.evaluator.list(values)?;
        let pair = args.evaluator.list(vec![key.clone(), values.clone()])?;
        let Some(aggregator) = aggregator else {
            made.push(pair);
            continue;
        };
        if is_for_pairs != Some(true) {
            match args.apply(aggregator, &[&values]) {
                Ok(value) => {
                    is_for_pairs = Some(false);
                    made.push(args.evaluator.list(vec![key, value])?);
                    continue;
                }
                Err(message) if is_for_pairs == Some(false) => return Err(message),
                Err(_) => is_for_pairs = Some(true),
            }
        }
        made.push(args.apply(aggregator, &[&pair])?);
    }
    args.stream(made)
}

fn to_dict(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 3)?;
    let list = args.list(0)?;
    let mut entries = BTreeMap::new();
    for item in items(&list) {
        let key = super::evaluate::key_text(&args.apply(1, &[item])?)?;
        entries.insert(key, args.selected(2, item)?);
    }
    args.evaluator.map(entries)
}

fn quantified(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 2)?;
    let list = args.list(0)?;
    let any = args.name == "any";
    if any && args.count() == 1 {
        return Ok(Y::Bool(!list.items.is_empty()));
    }
    for item in items(&list) {
        if args.selected(1, item)?.is_true() == any {
            return Ok(Y::Bool(any));
        }
    }
    Ok(Y::Bool(!any))
}

fn end(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 2)?;
    let list = args.list(0)?;
    let found = if args.name == "first" { list.items.first() } else { list.items.last() };
    match found {
        Some(item) => Ok(item.clone()),
        None => args.optional(1)?.ok_or_else(|| format!("yaql: '{}' of an empty list", args.name)),
    }
}

fn single(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    match items(&list) {
        [one] => Ok(one.clone()),
        other => Err(format!("yaql: 'single' wants one item, got {}", other.len())),
    }
}

fn part(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let (list, count) = (args.list(0)?, args.size(1)?);
    let count = count.min(list.items.len());
    let kept = if args.name == "skip" { &list.items[count..] } else { &list.items[..count] };
    args.stream(kept.to_vec())
}

fn part_while(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let list = args.list(0)?;
    let mut count = 0;
    for item in items(&list) {
        if !args.apply(1, &[item])?.is_true() {
            break;
        }
        count += 1;
    }
    let kept = if args.name == "skipWhile" { &list.items[count..] } else { &list.items[..count] };
    args.stream(kept.to_vec())
}

fn index_of(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let (list, wanted) = (args.list(0)?, args.value(1)?);
    list.items.iter().try_for_each(|item| args.evaluator.compared(item))?;
    let found = if args.name == "indexOf" {
        list.items.iter().position(|item| item.equals(&wanted))
    } else {
        list.items.iter().rposition(|item| item.equals(&wanted))
    };
    Ok(found.map_or(Y::Int(-1), size))
}

fn index_where(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let list = args.list(0)?;
    for (index, item) in items(&list).iter().enumerate() {
        if args.apply(1, &[item])?.is_true() {
            return Ok(size(index));
        }
    }
    Ok(Y::Int(-1))
}

/// In the expression, `$1` is the result so far, `$2` the item.
fn reduce(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 3)?;
    let list = args.list(0)?;
    let mut rest = items(&list).iter();
    let first = match args.optional(2)? {
        Some(seed) => Some(seed),
        None => rest.next().cloned(),
    };
    let first =
        first.ok_or_else(|| format!("yaql: '{}' of an empty list without a first value", args.name))?;
    rest.try_fold(first, |made, item| args.apply(1, &[&made, item]))
}

fn accumulate(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 3)?;
    let list = args.list(0)?;
    let mut rest = items(&list).iter();
    let first = match args.optional(2)? {
        Some(seed) => Some(seed),
        None => rest.next().cloned(),
    };
    let mut all: Vec<Y> = first.into_iter().collect();
    for item in rest {
        let Some(last) = all.last() else { break };
        let next = args.apply(1, &[last, item])?;
        all.push(next);
    }
    args.stream(all)
}

fn zip(args: &Arguments<'_>) -> Evaluated {
    args.want(1, usize::MAX)?;
    let lists = (0..args.count()).map(|index| args.list(index)).collect::<Result<Vec<_>, _>>()?;
    let shortest = lists.iter().map(|list| list.items.len()).min().unwrap_or(0);
    let row =
        |index: usize| args.evaluator.list(lists.iter().map(|list| list.items[index].clone()).collect());
    args.stream((0..shortest).map(row).collect::<Result<_, _>>()?)
}

fn enumerate(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 2)?;
    let list = args.list(0)?;
    let start = if args.count() > 1 { args.int(1)? } else { 0 };
    let pair = |(item, index): (&Y, i128)| args.evaluator.list(vec![Y::Int(index), item.clone()]);
    args.stream(items(&list).iter().zip(start..).map(pair).collect::<Result<_, _>>()?)
}

fn append(args: &Arguments<'_>) -> Evaluated {
    let list = args.list(0)?;
    let mut all = list.items.clone();
    for index in 1..args.count() {
        all.push(args.value(index)?);
    }
    args.stream(all)
}

fn default_if_empty(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    match args.list(0)? {
        list if list.items.is_empty() => args.value(1),
        list => Ok(Y::List(list)),
    }
}

/// Each pair of items that fit each other.
fn join(args: &Arguments<'_>) -> Evaluated {
    let (left, right) = (args.list(0)?, args.list(1)?);
    let mut made = Vec::new();
    for a in items(&left) {
        for b in items(&right) {
            if args.apply(2, &[a, b])?.is_true() {
                made.push(args.apply(3, &[a, b])?);
            }
        }
    }
    args.stream(made)
}

fn sum(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 2)?;
    let list = args.list(0)?;
    let mut rest = items(&list).iter();
    let first = match args.optional(1)? {
        Some(seed) => Some(seed),
        None => rest.next().cloned(),
    };
    let first = first.ok_or("yaql: 'sum' of an empty list")?;
    rest.try_fold(first, |made, item| {
        args.evaluator.step(1)?;
        plus(args.evaluator, &made, item)
    })
}

fn extreme(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 2)?;
    let list = args.list(0)?;
    let mut rest = items(&list).iter();
    let first = match args.optional(1)? {
        Some(seed) => Some(seed),
        None => rest.next().cloned(),
    };
    let first = first.ok_or_else(|| format!("yaql: '{}' of an empty list", args.name))?;
    let wanted = if args.name == "max" { Ordering::Greater } else { Ordering::Less };
    rest.try_fold(first, |best, item| {
        args.evaluator.step(1)?;
        Ok(if ordered(item, &best)? == wanted { item.clone() } else { best })
    })
}
