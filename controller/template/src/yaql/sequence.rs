//! Sequences of yaql that are made item by item, as far as what follows takes them: `sequence().limit(3)`.
//!
//! A sequence without an end is refused where the expression is read, unless a function that cuts it follows.
//! Any other one, and a cut that never comes, ends when the steps of the expression do.

use std::collections::{BTreeSet, VecDeque};

use super::arguments::Arguments;
use super::evaluate::{Evaluated, Evaluator, Frame};
use super::parse::{Argument, Node};
use super::query::size;
use super::value::{Key, Y};

/// Functions that hand items on one by one.
const PASSES: [&str; 7] = ["enumerate", "filter", "map", "select", "skip", "skipWhile", "where"];
/// Functions that need no more than the first items. All take what is before the point.
const CUTS: [&str; 6] = ["any", "first", "indexWhere", "limit", "take", "takeWhile"];

/// Takes an item, and says whether another one is wanted.
type Sink<'s> = &'s mut dyn FnMut(Y) -> Result<bool, String>;

/// The function that makes a sequence without an end that nothing cuts. `is_cut`: what follows the node cuts it.
pub(super) fn endless(node: &Node, is_cut: bool) -> Option<&str> {
    fn inner(node: &Node) -> Option<&str> {
        endless(node, false)
    }
    fn argument(argument: &Argument) -> Option<&str> {
        argument.key.as_ref().and_then(inner).or_else(|| inner(&argument.value))
    }
    match node {
        Node::Literal(_) | Node::Variable(_) => None,
        Node::List(items) => items.iter().find_map(inner),
        Node::Map(entries) => entries.iter().find_map(|(key, value)| inner(key).or_else(|| inner(value))),
        Node::Member { of, .. } | Node::Unary { of, .. } => inner(of),
        Node::Index { of, by, default } => {
            inner(of).or_else(|| inner(by)).or_else(|| inner(default.as_deref()?))
        }
        Node::Binary { left, right, .. } | Node::Into { left, right } => inner(left).or_else(|| inner(right)),
        Node::Call { of, name, arguments, .. } => {
            if has_no_end(node) && !is_cut {
                return Some(name);
            }
            let is_cut = CUTS.contains(&&**name) || (is_cut && PASSES.contains(&&**name));
            let before = of.as_deref().and_then(|of| endless(of, is_cut));
            before.or_else(|| arguments.iter().find_map(argument))
        }
    }
}

pub(super) fn no_end(name: &str) -> String {
    format!("yaql: '{name}' has no end here: limit(…), take(…), takeWhile(…) or first() must follow")
}

fn has_no_end(node: &Node) -> bool {
    let Node::Call { of, name, arguments, .. } = node else { return false };
    matches!(&**name, "cycle" | "sequence") || (of.is_some() && **name == *"repeat" && arguments.is_empty())
}

fn is_source(node: &Node) -> bool {
    has_no_end(node)
        || matches!(node, Node::Call { name, .. } if matches!(&**name, "generate" | "generateMany"))
}

/// Whether the node hands on a sequence's items one by one.
fn is_lazy(node: &Node) -> bool {
    let passes = |name: &str| PASSES.contains(&name) || matches!(name, "limit" | "take" | "takeWhile");
    is_source(node) || matches!(node, Node::Call { of: Some(of), name, .. } if passes(name) && is_lazy(of))
}

/// `None`: the function is not of this kind.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    match args.name {
        "cycle" | "sequence" => Some(Err(no_end(args.name))),
        "generate" | "generateMany" => Some(collected(args.evaluator, |sink| source(args, sink))),
        _ => None,
    }
}

/// A function that cuts the sequence before it; `None` for other functions, and for what is no sequence.
pub(super) fn cut(
    evaluator: &Evaluator,
    frame: &Frame<'_>,
    of: &Node,
    name: &str,
    nodes: &[Argument],
) -> Option<Evaluated> {
    if !CUTS.contains(&name) || !is_lazy(of) {
        return None;
    }
    let stage = Stage { evaluator, frame, name, nodes };
    Some(match name {
        "limit" | "take" | "takeWhile" => collected(evaluator, |sink| stage.pull(of, sink)),
        "first" => stage.first(of),
        _ => stage.index_where(of),
    })
}

fn collected(evaluator: &Evaluator, make: impl FnOnce(Sink<'_>) -> Result<(), String>) -> Evaluated {
    let mut all = Vec::new();
    make(&mut |item| {
        evaluator.spend(size_of::<Y>())?;
        all.push(item);
        Ok(true)
    })?;
    evaluator.stream(all)
}

fn pull(evaluator: &Evaluator, frame: &Frame<'_>, node: &Node, sink: Sink<'_>) -> Result<(), String> {
    let Node::Call { of, name, arguments, .. } = node else {
        return Err("yaql: this is no sequence".into());
    };
    if is_source(node) {
        let of = of.as_deref().map(|of| evaluator.node(frame, of)).transpose()?;
        return source(&Arguments { evaluator, frame, name, of, nodes: arguments }, sink);
    }
    let Some(of) = of else { return Err("yaql: this is no sequence".into()) };
    Stage { evaluator, frame, name, nodes: arguments }.pull(of, sink)
}

/// A function between a sequence and what takes its items.
struct Stage<'a> {
    evaluator: &'a Evaluator,
    frame: &'a Frame<'a>,
    name: &'a str,
    nodes: &'a [Argument],
}

impl Stage<'_> {
    fn argument(&self) -> Result<Option<&Node>, String> {
        match self.nodes {
            [] => Ok(None),
            [one] => Ok(Some(&one.value)),
            _ => Err(format!("yaql: '{}' has too many arguments", self.name)),
        }
    }

    /// The argument, applied to the item.
    fn of(&self, item: &Y) -> Evaluated {
        match self.argument()? {
            Some(node) => self.evaluator.apply(self.frame, node, &[item]),
            None => Err(format!("yaql: '{}' has too few arguments", self.name)),
        }
    }

    /// The number that is the argument.
    fn number(&self, absent: Option<i128>) -> Result<i128, String> {
        match (self.argument()?, absent) {
            (Some(node), _) => {
                let value = self.evaluator.node(self.frame, node)?;
                let wrong =
                    || format!("yaql: '{}' wants a whole number, got {}", self.name, value.describe());
                if let Y::Int(number) = value { Ok(number) } else { Err(wrong()) }
            }
            (None, Some(absent)) => Ok(absent),
            (None, None) => Err(format!("yaql: '{}' has too few arguments", self.name)),
        }
    }

    fn pull(&self, of: &Node, sink: Sink<'_>) -> Result<(), String> {
        let number = match self.name {
            "enumerate" => self.number(Some(0))?,
            "skip" | "limit" | "take" => self.number(None)?,
            _ => 0,
        };
        if matches!(self.name, "limit" | "take") && number <= 0 {
            return Ok(());
        }
        let mut seen = 0;
        let mut is_past = false;
        pull(self.evaluator, self.frame, of, &mut |item| {
            self.evaluator.step(1)?;
            seen += 1;
            match self.name {
                "limit" | "take" => Ok(sink(item)? && seen < number),
                "skip" => {
                    if seen > number {
                        sink(item)
                    } else {
                        Ok(true)
                    }
                }
                "takeWhile" => {
                    if self.of(&item)?.is_true() {
                        sink(item)
                    } else {
                        Ok(false)
                    }
                }
                "skipWhile" => {
                    is_past = is_past || !self.of(&item)?.is_true();
                    if is_past { sink(item) } else { Ok(true) }
                }
                "where" | "filter" => {
                    if self.of(&item)?.is_true() {
                        sink(item)
                    } else {
                        Ok(true)
                    }
                }
                "enumerate" => sink(self.evaluator.list(vec![Y::Int(number + seen - 1), item])?),
                _ => sink(self.of(&item)?),
            }
        })
    }

    fn first(&self, of: &Node) -> Evaluated {
        let mut found = None;
        pull(self.evaluator, self.frame, of, &mut |item| {
            found = Some(item);
            Ok(false)
        })?;
        match (found, self.argument()?) {
            (Some(found), _) => Ok(found),
            (None, Some(default)) => self.evaluator.node(self.frame, default),
            (None, None) => Err("yaql: 'first' of an empty list".into()),
        }
    }

    /// `any` and `indexWhere`
    fn index_where(&self, of: &Node) -> Evaluated {
        let (mut seen, mut found) = (0, None);
        let is_any = self.name == "any" && self.argument()?.is_none();
        pull(self.evaluator, self.frame, of, &mut |item| {
            self.evaluator.step(1)?;
            if is_any || self.of(&item)?.is_true() {
                found = Some(seen);
            }
            seen += 1;
            Ok(found.is_none())
        })?;
        Ok(if self.name == "any" { Y::Bool(found.is_some()) } else { found.map_or(Y::Int(-1), size) })
    }
}

/// Makes the items of a sequence until no other one is wanted.
fn source(args: &Arguments<'_>, sink: Sink<'_>) -> Result<(), String> {
    match args.name {
        "cycle" => cycle(args, sink),
        "sequence" => sequence(args, sink),
        "generate" => generate(args, sink),
        "generateMany" => generate_many(args, sink),
        _ => {
            let value = args.value(0)?;
            loop {
                args.evaluator.step(1)?;
                if !sink(value.clone())? {
                    return Ok(());
                }
            }
        }
    }
}

fn cycle(args: &Arguments<'_>, sink: Sink<'_>) -> Result<(), String> {
    args.want(1, 1)?;
    let list = args.list(0)?;
    for item in list.items.iter().cycle() {
        args.evaluator.step(1)?;
        if !sink(item.clone())? {
            break;
        }
    }
    Ok(())
}

/// `sequence(start, step)`
fn sequence(args: &Arguments<'_>, sink: Sink<'_>) -> Result<(), String> {
    let [start, step] = args.placed(["start", "step"])?;
    let mut next = start.map_or(Ok(0), |index| args.int(index))?;
    let step = step.map_or(Ok(1), |index| args.int(index))?;
    loop {
        args.evaluator.step(1)?;
        if !sink(Y::Int(next))? {
            return Ok(());
        }
        // Steps and numbers are bounded far below what an i128 holds.
        next = next.saturating_add(step);
    }
}

/// Items that were there already, for `decycle`.
struct Past(Option<BTreeSet<Key>>);

impl Past {
    fn is_new(&mut self, evaluator: &Evaluator, item: &Y) -> Result<bool, String> {
        let Some(past) = &mut self.0 else { return Ok(true) };
        evaluator.compared(item)?;
        Ok(past.insert(Key(item.clone())))
    }
}

/// `generate(first, while, next, selector, decycle)`
fn generate(args: &Arguments<'_>, sink: Sink<'_>) -> Result<(), String> {
    let placed = args.placed(["initial", "predicate", "producer", "selector", "decycle"])?;
    let [Some(initial), Some(predicate), Some(producer), selector, decycle] = placed else {
        return Err("yaql: 'generate' has too few arguments".into());
    };
    let mut past = Past(args.flag(decycle)?.then(BTreeSet::new));
    let mut value = args.value(initial)?;
    while args.apply(predicate, &[&value])?.is_true() && past.is_new(args.evaluator, &value)? {
        args.evaluator.step(1)?;
        let item = selector.map_or_else(|| Ok(value.clone()), |index| args.apply(index, &[&value]))?;
        if !sink(item)? {
            break;
        }
        value = args.apply(producer, &[&value])?;
    }
    Ok(())
}

/// `generateMany(first, next, selector, decycle, depthFirst)`: a walk over a tree; `next` gives a node's children.
fn generate_many(args: &Arguments<'_>, sink: Sink<'_>) -> Result<(), String> {
    let placed = args.placed(["initial", "producer", "selector", "decycle", "depthFirst"])?;
    let [Some(initial), Some(producer), selector, decycle, depth_first] = placed else {
        return Err("yaql: 'generateMany' has too few arguments".into());
    };
    let mut past = Past(args.flag(decycle)?.then(BTreeSet::new));
    let is_depth_first = args.flag(depth_first)?;
    let mut queue = VecDeque::from([args.value(initial)?]);
    while let Some(value) = queue.pop_front() {
        args.evaluator.step(1)?;
        if !past.is_new(args.evaluator, &value)? {
            continue;
        }
        let item = selector.map_or_else(|| Ok(value.clone()), |index| args.apply(index, &[&value]))?;
        if !sink(item)? {
            break;
        }
        let made = args.apply(producer, &[&value])?;
        let Y::List(made) = &made else { return Err(args.wants("a list of what comes next", &made)) };
        args.evaluator.step(made.items.len())?;
        args.evaluator.spend(made.items.len().saturating_mul(size_of::<Y>()))?;
        if is_depth_first {
            made.items.iter().rev().for_each(|item| queue.push_front(item.clone()));
        } else {
            queue.extend(made.items.iter().cloned());
        }
    }
    Ok(())
}
